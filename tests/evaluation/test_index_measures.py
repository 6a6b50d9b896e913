"""An index over its own titles: queries by id, by words and of collections; measures by hand; a fitted fusion."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import check_tells, ok, refused, run, wrong_usage
from tiny import tiny, tiny_model

from clickvec import ClickvecError
from clickvec.data import ClickLog, JudgedQuery
from clickvec.evaluation import fitting
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.fitting import use_best_fusion
from clickvec.evaluation.index_measures import IndexRanker, index_rankers, index_test_set
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import gains_of
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.encoder import Encoder
from clickvec.render.terminal.fusion_text import report_lines
from clickvec.search.fusion import Fusion
from clickvec.search.index import Index

TITLES = ["shanghai hotels", "Best  Pizza", "a car", "blue tea", "best pizza", "red wine"]
WORDS = ["shanghai", "hotels", "pizza", "car", "tea", "wine", "red", "blue"]


@pytest.fixture(scope="module")
def index() -> Index:
    return Index.build(Encoder(tiny()), titles=TITLES, ids=list("abcdef"))


def judged(*rows: tuple[str, str, int], query: str = "pizza") -> JudgedQuery:
    ids, titles, grades = zip(*rows, strict=True)
    return JudgedQuery("q", query, ids, titles, np.array(grades))


def test_a_judged_set_with_ids_of_the_index_is_matched_by_id(index: Index) -> None:
    queries = index_test_set(
        index, [judged(("b", "best pizza", 2), ("zz", "y", 1), ("c", "A car", 0)), judged(("a", "x", 0))]
    )
    assert queries.catalogue is not None
    assert queries.catalogue.has_ids
    assert gains_of(queries.queries[0]) == {"b": 3.0, "zz": 1.0}
    assert (queries.left_out, queries.absent) == (1, 1)


def test_other_ids_are_matched_by_the_words_of_the_title(index: Index) -> None:
    queries = index_test_set(index, [judged(("17", "BEST pizza", 1), ("18", "no such title", 1))])
    assert queries.catalogue is not None
    assert not queries.catalogue.has_ids
    assert gains_of(queries.queries[0]) == {"best pizza": 1.0, "no such title": 1.0}
    assert queries.absent == 1


def test_an_id_that_means_another_title_by_chance_is_no_id_of_the_index(index: Index) -> None:
    queries = index_test_set(index, [judged(("c", "best pizza", 1), ("17", "blue tea", 1))])  # c is a car in the index
    assert queries.catalogue is not None
    assert not queries.catalogue.has_ids
    assert queries.absent == 0


def test_clicks_are_matched_by_words_and_merged_by_query(index: Index) -> None:
    log = ClickLog(["Pizza", "pizza ", "tea"], ["best pizza", "a car", "gone"], np.ones(3))
    queries = index_test_set(index, log)
    assert [(query.query, gains_of(query)) for query in queries.queries] == [
        ("Pizza", {"best pizza": 1.0, "a car": 1.0}),
        ("tea", {"gone": 1.0}),
    ]
    assert [query.query for query in queries.present().queries] == ["Pizza"]


def test_nothing_to_measure_is_told(index: Index) -> None:
    with pytest.raises(ClickvecError, match="none of the 1 queries has a relevant title"):
        index_test_set(index, [judged(("a", "x", 0))])
    with pytest.raises(ClickvecError, match="none of the relevant titles"):
        index_test_set(index, ClickLog(["tea"], ["gone"], np.ones(1)))


def test_measures_of_each_mode_and_of_a_baseline(index: Index) -> None:
    log = ClickLog(["best pizza", "wine"], ["best pizza", "red wine"], np.ones(2))
    result = measure([*index_rankers(index), BM25(TITLES)], index_test_set(index, log))
    assert result.systems == ("hybrid", "words", "vectors", "BM25")
    assert result.measures == ("MRR@10", "Recall@100", "NDCG@10")
    assert result.mean("words", "MRR@10") == result.mean("BM25", "MRR@10") == 100
    assert (result.values <= 100 + 1e-9).all()  # two titles with the same words count once


def test_the_score_of_a_text_is_that_of_the_same_title_in_the_index(index: Index) -> None:
    for query in ("best pizza", "cheap hotels", "nothing known"):
        hits = index.search(query, k=10)
        scores = index.scores(query, [hit.title for hit in hits])
        assert scores.tolist() == pytest.approx([hit.score for hit in hits], abs=1e-6)
        assert IndexRanker(index).score(query, [hit.title for hit in hits]).tolist() == scores.tolist()
    assert index.scores("pizza", []).shape == (0,)


def test_a_fitted_fusion_is_stored_in_the_index_with_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "FEWEST_QUERIES", 4)
    titles = [f"{one} {other}" for one in WORDS for other in WORDS if one != other]
    index = Index.build(Encoder(tiny()), titles)
    clicked = titles[::3]
    collection = TestSet.of_clicks(ClickLog(clicked, clicked, np.ones(len(clicked))), Catalogue(titles))
    fitted = use_best_fusion(index, collection)
    assert index.fusion == fitted.fusion
    index.save(tmp_path / "index")
    with Index.open(tmp_path / "index") as again:
        assert again.fusion == fitted.fusion
        assert again.fusion_report == fitted.report
        assert again.search(titles[0], k=1)[0].title == titles[0]
    told = ok("info", tmp_path / "index")
    check_tells(told, f"cross-validated on {fitted.report['queries']} queries", f"Chosen: {fitted.report['chosen']}")
    assert ("share clicked" in told) == (fitted.fusion.method == "clicks")
    assert json.loads(ok("info", tmp_path / "index", "--json"))["fusion report"] == fitted.report


def test_on_few_queries_an_index_is_only_changed_for_what_is_clearly_better(tmp_path: Path) -> None:
    titles = [f"{one} {other}" for one in WORDS for other in WORDS if one != other]
    index = Index.build(Encoder(tiny()), titles)
    clicked = titles[::3]  # the titles themselves: words find them all
    collection = TestSet.of_clicks(ClickLog(clicked, clicked, np.ones(len(clicked))), Catalogue(titles))
    fitted = use_best_fusion(index, collection)
    assert index.fusion == fitted.fusion == Fusion.alone("words")
    index.save(tmp_path / "index")
    told = ok("info", tmp_path / "index")
    check_tells(told, "Fusions, compared on 19 queries", "ranks by words alone", "takes at least 50 queries")
    index.use_fusion(Fusion.mixture("vectors", 0.05), report=fitted.report)
    assert use_best_fusion(index, collection).report["chosen"] == "trained"
    assert index.fusion == Fusion.mixture("vectors", 0.05)


def test_a_report_tells_what_was_chosen_and_how_often_titles_were_clicked() -> None:
    names = ("words", "vectors", "mixture", "clicks", "words alone")
    figures = {name: dict.fromkeys(("MRR@10", "Recall@100", "NDCG@10"), 50.0 - at) for at, name in enumerate(names)}
    bins = [{"from": part / 10, "candidates": 7 * (part == 9), "predicted": 0.95, "clicked": 0.9} for part in range(10)]
    report = {"queries": 60, "chosen": "clicks", "figures": figures, "calibration_error": 0.05, "reliability": bins}
    lines = list(report_lines(report))
    assert lines[-1].split() == ["0.9", "to", "1.0", "7", "0.950", "0.900"]
    check_tells("\n".join(lines), "60 queries", "probability of a click", "0.0500")
    check_tells("\n".join(report_lines(report | {"chosen": "mixture"})), "two standard errors", "not a probability")
    told = "\n".join(report_lines(report))
    assert (
        "Hybrid search is not better than words alone: NDCG@10 47.0 and 50.0. The difference is not significant" in told
    )
    told = "\n".join(report_lines(report | {"chosen": "words alone"}))
    check_tells(told, "ranks by words alone, which is better here: NDCG@10 46.0, and 47.0 by both", "probability")
    figures["clicks"] = dict.fromkeys(figures["clicks"], 60.0)
    assert "Hybrid search" not in "\n".join(report_lines(report))  # it does no harm, and nothing is said


def test_too_few_queries_are_refused_and_change_nothing(index: Index) -> None:
    with pytest.raises(ClickvecError, match="cannot be chosen on 1 queries; it needs at least 10"):
        use_best_fusion(index, ClickLog(["tea"], ["blue tea"], np.ones(1)))
    assert index.fusion == Fusion.default()


# --- the verb ----------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    Index.build(Encoder.load(tiny_model(tmp_path / "model")), titles=TITLES, ids=list("abcdef")).save(
        tmp_path / "index"
    )
    return tmp_path / "index"


def test_evaluate_an_index(stored: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\nbest pizza\tbest pizza\nwine\tred wine\nwine\tgone\n")
    done = run("evaluate", "--index", stored, "--held-out", log)
    assert "Whether the models were trained on these queries is not known" in done.err
    assert done.status == 0, done.err
    table, notes = done.out.split("\n\n")
    head, _, *rows = table.splitlines()
    assert head.split() == ["system", "MRR@10", "Recall@100", "NDCG@10", "p"]
    assert "the whole catalogue" in notes
    assert [row.split()[0] for row in rows] == ["hybrid", "words", "vectors", "BM25"]
    assert all("[" in row for row in rows)
    assert "2 queries, 1 of 3 relevant titles not in the catalogue" in done.err
    assert "6 titles, fusion mixture" in done.err
    dev = tmp_path / "dev.tsv"
    dev.write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n1\tpiza\tb\tBest Pizza\t1\n")
    assert '"system": "BM25 (tuned)"' in ok("evaluate", "--index", stored, "--judged", dev, "--dev", dev, "--json")


def test_wrong_uses_of_evaluate_with_an_index(stored: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\nbest pizza\tbest pizza\n")
    held_out = ("--held-out", log)
    assert "--index brings its model" in wrong_usage("evaluate", "bm25", "--index", stored, *held_out)
    assert "--index brings its model" in wrong_usage("evaluate", "--index", stored, *held_out, "--catalogue", log)
    assert "give a model folder, bm25, a run file or --index" in wrong_usage("evaluate", *held_out)
    assert "index" in refused("evaluate", "--index", tmp_path / "none", *held_out)
