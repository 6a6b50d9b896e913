"""Measure hybrid search over a whole catalogue: words, vectors and each fusion. Prints the tables of docs/search.md.

    python benchmarks/hybrid.py MODEL --titles FILE... --dev JUDGED [--clicks LOG] [--test JUDGED]

`--titles` are a catalogue or click logs; all their titles are indexed, and with click logs those of the judged sets.
On dev, and on `--clicks`, which the model was not trained on, fusions are cross-validated (five folds). With `--test`
only test is measured, with the default fusion and with the one that is chosen on `--clicks`, or else on dev. BM25
(tuned) is tuned on dev over the same titles: the kind of tokens, k1 and b; `--bm25 words,1.2,0.75` sets it instead. The
words of the index have k1 = 1.2 and b = 0.75.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data import Judged, JudgedQuery, read_clicks, read_judged, read_titles
from clickvec.evaluation import fitting
from clickvec.evaluation.bm25 import BM25, describe_settings
from clickvec.evaluation.fitting import FittedQuery, folds_of, gather, measure_scores, reliability_rows
from clickvec.evaluation.index_measures import index_rankers, index_test_set
from clickvec.evaluation.logistic_fit import fit_clicks
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import MEASURES, ndcg, with_relevant
from clickvec.evaluation.result import text_table
from clickvec.evaluation.significance import randomisation_test
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.evaluation.tuning import tune_bm25
from clickvec.model.encoder import Encoder
from clickvec.search.fusion import Candidates, Fusion, candidates_of_texts
from clickvec.search.index import Index
from clickvec.search.parts.word_part import Matches, QueryFacts
from clickvec.search.retrieval import ranking_of

NDCG = MEASURES.index("NDCG@10")
SETTINGS = ((0.3, 1.0), (0.8, 0.75), (1.2, 0.5), (1.2, 0.75), (2.0, 1.0))  # k1, b
Score = Callable[[Candidates], NDArray[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--titles", nargs="+", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--clicks")
    parser.add_argument("--test")
    parser.add_argument("--bm25", help="tokens,k1,b")
    arguments = parser.parse_args()
    dev = read_judged(arguments.dev)
    test = read_judged(arguments.test) if arguments.test else None
    index = build(Encoder.load(arguments.model), arguments.titles, [dev] if test is None else [dev, test])
    settings: dict[str, Any] = {}
    if arguments.bm25:
        tokens, k1, b = arguments.bm25.split(",")
        settings = {"tokens": tokens, "k1": float(k1), "b": float(b)}
    titles = [document.title for document in index]
    settings = settings or tune_bm25(TestSet.of_judged(dev, Catalogue(titles)))[1]
    baseline = BM25(titles, name="BM25 (tuned)", **settings)
    print(f"{len(index):,} titles; BM25 (tuned): {describe_settings(settings)}")
    clicks = index_test_set(index, read_clicks(arguments.clicks)).present().sample(2_000) if arguments.clicks else None
    queries = index_test_set(index, dev)
    if test is not None:
        chosen = fitting.choose(gather(index, clicks or queries)).fusion
        on_test(index, test, chosen, baseline)
        return
    fitted = on_queries("dev, judged", index, queries, baseline)
    reranked(index, dev, fitted)
    weights_table(fitted)
    settings_table(index, queries)
    if clicks:
        chosen = fitting.choose(on_queries("held-out clicks", index, clicks, baseline)).fusion
        index.use_fusion(chosen)
        print("\n== dev, judged, with the fusion that was fitted on held-out clicks")
        print_measured(index, queries, baseline)


def on_test(index: Index, test: Judged, chosen: Fusion, baseline: BM25) -> None:
    """Print the figures of test, over the catalogue and on the judged lists."""
    for fusion in (Fusion.default(), chosen):
        index.use_fusion(fusion)
        print(f"\n== test, fusion {json.dumps(fusion.as_json())}")
        print_measured(index, index_test_set(index, test), baseline)
        scores: dict[str, Score] = {"words": by_bm25, "vectors": by_cosine, "hybrid": fusion.scores}
        print_lists(rerank_values(index, with_relevant(test), scores))


def build(encoder: Encoder, sources: Sequence[str], sets: Sequence[Judged]) -> Index:
    """Index all titles: of catalogues with ids, as they are; otherwise each distinct title once."""
    if len(sources) == 1 and "title" in Path(sources[0]).name:
        titles = read_titles(sources[0])
        return Index.build(encoder, titles=[title.title for title in titles], ids=[title.id for title in titles])
    catalogue = Catalogue(())
    for source in sources:
        catalogue.add(read_clicks(source).titles)
    for judged in sets:
        catalogue.add(title for query in judged for title in query.titles)
    return Index.build(encoder, catalogue.titles)


def on_queries(name: str, index: Index, queries: TestSet, baseline: BM25) -> list[FittedQuery]:
    """Print the figures of each method on queries, by cross-validation, and the reliability curve."""
    index.use_fusion(Fusion.default())
    gathered = gather(index, queries)
    values, _, chances = fitting.validate(gathered)
    values["BM25 (tuned)"] = measure([baseline], queries).values[0]
    count = np.mean([len(query.keys) for query in gathered])
    print(f"\n== {name}: {len(gathered):,} queries, {count:.0f} candidates each")
    better = max(("words", "vectors"), key=lambda part: values[part][NDCG].mean())
    rows = []
    for method, row in values.items():
        p = "" if method == better else f"{randomisation_test(row[NDCG], values[better][NDCG], 2_000):.3f}"
        rows.append([method, *(f"{mean:.1f}" for mean in row.mean(axis=1)), p])
    print(text_table([["method", *MEASURES, f"p (NDCG@10 against {better})"], *rows]))
    clicked = np.concatenate([query.clicked for query in gathered])
    bins, error = fitting.reliability(np.concatenate(chances["clicks"]), clicked)
    print(f"\nexpected calibration error {error:.4f}")
    print(text_table(reliability_rows({"reliability": bins})))
    chosen = fitting.choose(gathered)
    print(f"chosen: {chosen.report['chosen']} {json.dumps(chosen.fusion.as_json()['weights'])}")
    kinds = {
        "a code or a number": [
            query for query in gathered if words_of(query).code_shares.any() or words_of(query).numbers.any()
        ],
        "a word that no title has": [query for query in gathered if words_of(query).same_for_all["unknown words"]],
    }
    scores: dict[str, Score] = {
        "words": partial(fitting.by_part, "words"),
        "vectors": partial(fitting.by_part, "vectors"),
        "default": Fusion.default().scores,
        "fitted": chosen.fusion.scores,
    }
    table = [["queries with", "queries", *(f"{each} NDCG@10" for each in scores)]]
    for kind, part in kinds.items():
        if part:
            means = [measure_scores(part, score)[NDCG].mean() for score in scores.values()]
            table.append([kind, f"{len(part):,}", *(f"{mean:.1f}" for mean in means)])
    print(f"\n{text_table(table)}")
    return gathered


def words_of(query: FittedQuery) -> QueryFacts:
    values = query.candidates.values["words"]
    assert isinstance(values, Matches)
    return values.facts


def by_cosine(candidates: Candidates) -> NDArray[Any]:
    return candidates.values["vectors"].own


def by_bm25(candidates: Candidates) -> NDArray[Any]:
    return candidates.values["words"].own


def reranked(index: Index, judged: Judged, fitted: Sequence[FittedQuery]) -> None:
    """Print NDCG@10 on the judged lists. The fitted fusion was fitted on other queries."""
    lists = with_relevant(judged)
    values = rerank_values(index, lists, {"words": by_bm25, "vectors": by_cosine, "default": Fusion.default().scores})
    values["clicks"] = np.zeros(len(lists))
    for others, held_out in folds_of(len(lists), fitting.FOLDS):
        fusion = fit_clicks([fitted[at].facts for at in others], [fitted[at].clicked for at in others])
        values["clicks"][held_out] = rerank_values(index, [lists[at] for at in held_out], {"": fusion.scores})[""]
    print_lists(values)


def print_lists(values: dict[str, NDArray[np.float64]]) -> None:
    better = max(("words", "vectors"), key=lambda part: values[part].mean())
    rows = [
        [name, f"{row.mean():.2f}", "" if name == better else f"{randomisation_test(row, values[better], 2_000):.3f}"]
        for name, row in values.items()
    ]
    print(f"\n{text_table([['judged lists', 'NDCG@10', f'p against {better}'], *rows])}")


def rerank_values(
    index: Index, lists: Sequence[JudgedQuery], scores: dict[str, Score]
) -> dict[str, NDArray[np.float64]]:
    view = index._live.view()
    values: dict[str, list[float]] = {name: [] for name in scores}
    for query in lists:
        candidates = candidates_of_texts(ranking_of(view, query.query).parts, query.titles)
        gains = np.exp2(query.grades) - 1
        by_id = np.array(sorted(range(len(query.doc_ids)), key=query.doc_ids.__getitem__, reverse=True))
        for name, score in scores.items():
            order = by_id[np.argsort(-np.asarray(score(candidates), np.float32)[by_id], kind="stable")]
            values[name].append(100 * ndcg(gains[order], gains, 10))
    return {name: np.array(row) for name, row in values.items()}


def weights_table(queries: Sequence[FittedQuery]) -> None:
    """Print the figures of the mixture by the weight of the cosine, and of rank fusion by its constant."""
    fusions = {f"mixture, cosine {w:g}": Fusion.mixture("vectors", w) for w in (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)}
    fusions |= {f"ranks, constant {constant}": Fusion.ranks(constant) for constant in (1, 5, 20, 60)}
    rows = [
        [name, *(f"{mean:.1f}" for mean in measure_scores(queries, fusion.scores).mean(axis=1))]
        for name, fusion in fusions.items()
    ]
    print(f"\n{text_table([['fusion', *MEASURES], *rows])}")


def settings_table(index: Index, queries: TestSet) -> None:
    """Print words and hybrid search by k1 and b."""
    rows = []
    for k1, b in SETTINGS:
        index.use_fusion(Fusion.default(), k1, b)
        gathered = gather(index, queries)
        for name, score in (("words", partial(fitting.by_part, "words")), ("default", Fusion.default().scores)):
            means = measure_scores(gathered, score).mean(axis=1)
            rows.append([f"{k1:g}", f"{b:g}", name, *(f"{mean:.1f}" for mean in means)])
    index.use_fusion(Fusion.default(), 1.2, 0.75)
    print(f"\n{text_table([['k1', 'b', 'search', *MEASURES], *rows])}")


def print_measured(index: Index, queries: TestSet, baseline: BM25) -> None:
    result = measure([*index_rankers(index), baseline], queries)
    print(text_table(result.as_table(intervals=True)))
    better = max(("words", "vectors"), key=lambda part: result.mean(part, "NDCG@10"))
    tests = {
        name: randomisation_test(result.per_query("hybrid", name), result.per_query(better, name), 5_000)
        for name in MEASURES
    }
    told = ", ".join(f"{name} {p:.4f}" for name, p in tests.items())
    print(f"{len(result.query_ids):,} queries; p of hybrid against {better}: {told}")


if __name__ == "__main__":
    main()
