"""The report says what the model does: numbers by hand and by the other verbs, whatever the model and the set."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import look, needs_chromium, on_paper
from command import contents, ok, refused, run, wrong_usage
from markup import Element, check_page
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.explanation.report import Report, gather
from clickvec.explanation.topics import Topic, TopicWord, detect, topics
from clickvec.model.encoder import Encoder
from clickvec.render.html.report_page import check_place, report_page, write_report

HOSTILE = ('<script>alert("x")</script>', "</details><img src=x onerror=alert(1)>", "上海 酒店", "فنادق في شنغهاي")


def judged(*queries: str, grades: tuple[int, ...] = (3, 0, 1, 0, 2, 0, 1, 0)) -> list[JudgedQuery]:
    ids = tuple(f"t{place}" for place in range(len(TEXTS)))
    return [JudgedQuery(f"q{at}", query, ids, TEXTS, np.array(grades)) for at, query in enumerate(queries)]


def write_judged(path: Path, queries: list[JudgedQuery]) -> Path:
    lines = [
        f"{query.query_id}\t{query.query}\t{doc_id}\t{title}\t{grade}\n"
        for query in queries
        for doc_id, title, grade in zip(query.doc_ids, query.titles, query.grades, strict=True)
    ]
    path.write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    return path


def section(root: Element, name: str) -> Element:
    (found,) = [one for one in root.all("section") if one.attributes["aria-labelledby"] == name]
    return found


# --- ranking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["cheap hotels", "it's $5 & <b>", "-5 degrees", "--help", "فنادق 上海"])
def test_the_line_that_explains_is_ready_to_run(title: str, tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "a model")
    queries = [query._replace(titles=(title, *TEXTS[1:])) for query in judged("hotels in shanghai")]
    report = gather(Encoder.load(model), queries, path=str(model))
    (box,) = section(check_page(report_page(report)), "worst").all("details")
    program, *arguments = shlex.split(box.all("code")[0].text)
    assert program == "clickvec"
    said = json.loads(ok(arguments[0], "--json", *arguments[1:]))
    (missed,) = report.ranking.worst
    assert (said["query"], said["title"]) == (missed.query, missed.below.title)
    assert said["why_not"]["first"]["title"] == missed.above.title
    for ranked in (missed.above, missed.below):
        assert f"id {ranked.doc_id}: {ranked.title}" in box.text


# --- words of queries --------------------------------------------------------------------------------------------


def test_words_and_topics_come_from_a_log_where_there_is_one() -> None:
    encoder = Encoder(tiny("bilstm"))
    alone, report = (gather(encoder, judged(TEXTS[0]), log=log) for log in (None, [*TEXTS[1:], *TEXTS[1:4]]))
    assert (alone.words.queries, report.words.queries) == (1, 7)  # different ones
    assert report.topics
    assert report.topics == topics(detect(encoder, TEXTS[1:]))
    assert len(report.ranking.evaluation.query_ids) == 1
    root = check_page(report_page(report))
    for name in ("keywords", "topics"):
        assert "All 7 queries of the click log" in section(root, name).text


def test_cells_with_enough_detections_come_first() -> None:
    report = gather(Encoder(tiny("lstm")), judged(TEXTS[0]), log=TEXTS)
    assert report.topics
    words = (TopicWord("once", 1, 222.0), TopicWord("often", 4, 2.0), TopicWord("twice", 2, 9.0))
    few = Topic(0, 0, "left to right", "+", 5, words[:1], 0.9, 0)
    many = Topic(0, 0, "left to right", "-", 20, words, 0.1, 1)
    quiet = Topic(1, 1, "left to right", "+", 0, (), 0, None)
    made = dataclasses.replace(report.topics, topics=(few, many, quiet))
    (shown,) = section(check_page(report_page(dataclasses.replace(report, topics=made))), "topics").all("table")
    assert [row[1] for row in shown.rows()[1:]] == ["once 222×, often 2×, twice 9×", "once 222×"]


# --- the map -----------------------------------------------------------------------------------------------------


def test_without_scikit_learn_the_page_says_how_to_get_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickvec.explanation.report.can_map", lambda: False)
    report = gather(Encoder(tiny("lstm")), judged(*TEXTS))
    assert report.as_json()["map"] is None
    assert "pip install 'clickvec[map]'" in section(check_page(report_page(report)), "map").text


# --- every model and judged set ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_a_page_for_every_tower(fields: dict[str, Any]) -> None:
    report = gather(Encoder(tiny(**fields)), judged(*TEXTS), name="tiny", judged_name="j.tsv")
    root = check_page(report_page(report))
    json.dumps(report.as_json(), allow_nan=False)
    reads = fields["kind"] not in ("dssm", "clsm")
    assert ("does not read word by word" in section(root, "keywords").text) == (not reads)
    assert ("no topics" in section(root, "topics").text) == (not reads)
    assert "metrics.jsonl has no epoch" in section(root, "training").text
    assert "tiny" in root.all("h1")[0].text
    assert len(section(root, "worst").all("details")) == len(report.ranking.worst) > 0
    assert len(section(root, "map").all("svg")[0].all("path")) == len(report.map.titles) == len(TEXTS)


def test_one_query_and_one_title() -> None:
    one = [JudgedQuery("q", "hotels", ("t",), ("hotels in shanghai",), np.array([1]))]
    root = check_page(report_page(gather(Encoder(tiny("lstm")), one)))
    assert "There are none" in section(root, "worst").text
    assert "not enough titles" in section(root, "map").text


def test_a_judged_set_that_is_ranked_perfectly() -> None:
    encoder = Encoder(tiny("lstm", shared_tower=True))
    queries = [JudgedQuery(f"q{at}", text, ("a",), (text,), np.array([1])) for at, text in enumerate(TEXTS)]
    report = gather(encoder, queries)
    assert (report.ranking.imperfect, report.ranking.worst) == (0, ())
    assert "There are none" in section(check_page(report_page(report)), "worst").text


def test_queries_that_the_model_cannot_read() -> None:
    root = check_page(report_page(gather(Encoder(tiny("bilstm")), judged("ЖЖЖ", "ЩЩЩ ЖЖЖ"))))
    assert "knows none of the queries" in section(root, "topics").text
    assert "no gap to explain" in section(root, "worst").text


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_text_and_nothing_else(text: str) -> None:
    titles = (text, *TEXTS[1:])
    queries = [query._replace(query=text, titles=titles) for query in judged(*TEXTS[:3])]
    report = gather(Encoder(tiny("bilstm")), queries, name=text, judged_name=text)
    root = check_page(report_page(report))
    assert root.all("h1")[0].text == text
    assert section(root, "worst").all("summary")[0].text.startswith(text)


def test_many_queries_and_titles_are_sampled_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickvec.explanation.report.QUERIES", 3)
    monkeypatch.setattr("clickvec.explanation.report.TITLES", 5)
    report = gather(Encoder(tiny("lstm")), judged(*TEXTS))
    assert (report.words.queries, report.near_titles, report.catalogue) == (3, 5, 8)
    root = check_page(report_page(report))
    assert "random sample of 3 of 8 judged queries" in section(root, "keywords").text
    assert len(report.ranking.evaluation.query_ids) == 8  # every query is ranked


# --- training ----------------------------------------------------------------------------------------------------


def with_history(*rows: dict[str, Any]) -> Report:
    return dataclasses.replace(gather(Encoder(tiny("lstm")), judged(TEXTS[0])), history=rows)


def test_training_with_and_without_dev() -> None:
    rows = [{"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)]
    with_dev = [row | {"dev": {"NDCG@1": 50.0, "NDCG@10": 60.0 + row["epoch"]}} for row in rows]
    for history, measures in ((rows, 0), (with_dev, 2), ([*with_dev[:2], rows[2]], 0), (with_dev[:1], 2)):
        training = section(check_page(report_page(with_history(*history))), "training")
        assert ("no dev set" in training.text) == (not measures)
        head, *numbers = training.all("table")[0].rows()
        assert len(head) == 2 + measures
        assert [row[:2] for row in numbers] == [[str(row["epoch"]), f"{row['loss']:.3f}"] for row in history]
        if measures:
            assert [row[-1] for row in numbers] == [f"{60.0 + row['epoch']:.1f}" for row in history]


# --- the verb ----------------------------------------------------------------------------------------------------


def test_the_verb_writes_a_page_and_its_numbers(tmp_path: Path) -> None:
    model, file = tiny_model(tmp_path / "model", "bilstm"), write_judged(tmp_path / "j.tsv", judged(*TEXTS))
    said = ok("report", model, "--judged", file, "--out", tmp_path / "new" / "report", "--worst", "2")
    assert sorted(contents(tmp_path / "new" / "report")) == ["index.html", "report.json"]
    numbers = json.loads((tmp_path / "new" / "report" / "report.json").read_text())
    measured = json.loads(ok("evaluate", model, "bm25", "--judged", file, "--json"))["systems"]
    for one, other in zip(numbers["ranking"]["systems"], measured, strict=True):
        assert {name: one[name] for name in ("NDCG@1", "NDCG@3", "NDCG@10")} == pytest.approx(
            {name: other[name] for name in ("NDCG@1", "NDCG@3", "NDCG@10")}
        )
    assert said.startswith(f"{tmp_path / 'new' / 'report' / 'index.html'}: NDCG@1 ")
    of_machine = {"encoded here by"}
    told = json.loads(ok("info", model, "--json"))
    assert numbers["about"] == {name: fact for name, fact in told.items() if name not in of_machine}
    root = check_page((tmp_path / "new" / "report" / "index.html").read_text())
    assert root.all("h1")[0].text == "model"
    assert len(section(root, "worst").all("details")) == len(numbers["ranking"]["worst"]) == 2
    table = section(root, "ranking").all("table")[0].rows()
    first = numbers["ranking"]["systems"][0]
    assert table[1][1:-1] == [f"{first[name]:.1f}" for name in ("NDCG@1", "NDCG@3", "NDCG@10")]


def test_the_same_report_twice_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    model, file = tiny_model(tmp_path / "model"), write_judged(tmp_path / "j.tsv", judged(*TEXTS))
    catalogue = tmp_path / "titles.txt"
    catalogue.write_text("".join(f"{text}\n" for text in ["title", *TEXTS[:5]]))
    log = tmp_path / "clicks.tsv"
    log.write_text("query\ttitle\n" + "".join(f"{text}\t{text}\n" for text in TEXTS[:6]))
    logs = ("--clicks", log, "--clicks", log)
    for name in ("one", "two"):
        ok("report", model, "--judged", file, "--titles", catalogue, *logs, "--out", tmp_path / name)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(json.loads((tmp_path / "one" / "report.json").read_text())["map"]["titles"]) == 5
    assert json.loads((tmp_path / "one" / "report.json").read_text())["queries_from"]["queries"] == 6


def test_it_replaces_a_report_when_told_to_and_nothing_else(tmp_path: Path) -> None:
    model, file = tiny_model(tmp_path / "model"), write_judged(tmp_path / "j.tsv", judged(*TEXTS[:2]))
    out = tmp_path / "out"
    out.mkdir()  # an empty folder is as good as none
    report = ("report", model, "--judged", file, "--out", out)
    ok(*report)
    before = contents(out)
    assert "--overwrite" in refused(*report)
    assert contents(out) == before
    ok(*report, "--worst", "0", "--overwrite")
    assert contents(out) != before
    (out / "notes.txt").write_text("mine")
    assert "holds notes.txt, which clickvec did not write" in refused(*report, "--overwrite")
    assert (out / "notes.txt").read_text() == "mine"


def test_of_two_at_once_the_later_does_not_replace_the_earlier(tmp_path: Path) -> None:
    report, out = gather(Encoder(tiny("lstm")), judged(TEXTS[0])), tmp_path / "new" / "out"
    check_place(out, overwrite=False)  # as both did when they began
    write_report(report, out)
    before = contents(out)
    later = dataclasses.replace(report, name="later")
    with pytest.raises(ClickvecError, match="already holds a report"):
        write_report(later, out)
    assert contents(out) == before
    write_report(later, out, overwrite=True)
    assert contents(out) != before
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]


def test_it_touches_no_folder_of_another_kind(tmp_path: Path) -> None:
    model, file = tiny_model(tmp_path / "model"), write_judged(tmp_path / "j.tsv", judged(*TEXTS[:2]))
    before = contents(model)
    assert "which this command reads" in refused("report", model, "--judged", file, "--out", model, "--overwrite")
    assert contents(model) == before
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "report.json").write_text('{"coverage": 99}')
    assert "is not a clickvec report" in refused("report", model, "--judged", file, "--out", foreign, "--overwrite")
    assert (foreign / "report.json").read_text() == '{"coverage": 99}'
    assert "which this command reads" in refused("report", model, "--judged", file, "--out", file)


def test_bad_input_is_one_sentence_and_leaves_nothing_behind(tmp_path: Path) -> None:
    model, file = tiny_model(tmp_path / "model"), write_judged(tmp_path / "j.tsv", judged(*TEXTS[:2]))
    (tmp_path / "empty.tsv").write_text("")
    none = write_judged(tmp_path / "none.tsv", judged("hotels", grades=(0,) * len(TEXTS)))
    out = tmp_path / "out"
    assert refused("report", model, "--judged", tmp_path / "empty.tsv", "--out", out).endswith("empty.tsv is empty")
    assert "has a relevant title" in refused("report", model, "--judged", none, "--out", out)
    assert "does not exist" in refused("report", model, "--judged", tmp_path / "nowhere.tsv", "--out", out)
    assert "there is no model folder" in refused("report", tmp_path / "nowhere", "--judged", file, "--out", out)
    assert "--worst" in wrong_usage("report", model, "--judged", file, "--out", out, "--worst", "-1")
    assert not out.exists()


def test_a_disk_that_fills_up_leaves_the_earlier_report(tmp_path: Path) -> None:
    from command import small_disk

    model, file = tiny_model(tmp_path / "model"), write_judged(tmp_path / "j.tsv", judged(*TEXTS[:2]))
    ok("report", model, "--judged", file, "--out", tmp_path / "out")
    before = contents(tmp_path / "out")
    with small_disk(10_000):
        said = refused("report", model, "--judged", file, "--out", tmp_path / "out", "--overwrite")
    assert said.endswith("what was there before is unchanged")
    assert contents(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.tsv", "model", "out"]


def test_a_trained_model_shows_how_training_went(site: Path, trained: Path, tmp_path: Path) -> None:
    done = run(
        "report", trained, "--judged", site / "test.tsv.gz", "--titles", site / "titles.tsv.gz", "--out", tmp_path / "r"
    )
    assert done.status == 0, done.err
    root = check_page((tmp_path / "r" / "index.html").read_text())
    assert len(section(root, "training").all("table")[0].rows()[0]) == 5
    assert json.loads((tmp_path / "r" / "report.json").read_text())["history"][0]["epoch"] == 1


# --- in a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_page() -> str:
    texts = (*TEXTS, *HOSTILE, "donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen")
    rows = tuple({"epoch": at, "loss": 1 / at, "dev": {"NDCG@1": 50.0, "NDCG@10": 60.0 + at}} for at in range(1, 9))
    report = gather(Encoder(tiny("bilstm", cells=40)), judged(*texts), name="a model with a name of some length")
    return report_page(dataclasses.replace(report, history=rows))


@needs_chromium
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_a_phone_and_a_screen_and_asks_for_nothing(whole_page: str, width: int, tmp_path: Path) -> None:
    seen = look(whole_page, tmp_path, width)
    assert (seen["width"], seen["scroll"], seen["wide"]) == (width, width, [])
    assert seen["asked"] == ["/page.html"]
    assert (seen["scripts"], seen["images"]) == (0, 0)
    assert seen["headings"] == whole_page.count("<h2")
    assert seen["folded"] > 0


@needs_chromium
def test_on_paper_everything_is_unfolded_and_white(whole_page: str, tmp_path: Path) -> None:
    seen = look(on_paper(whole_page), tmp_path, width=690, dark=True)
    assert (seen["folded"], seen["background"], seen["nav"]) == (0, "rgb(255, 255, 255)", 0)
    assert (seen["scroll"], seen["wide"]) == (690, [])
    assert seen["drawings"] == seen["all_drawings"]
