"""What a fusion fitted with all parts says if one of them is silent, beside the weights that are fitted without it.

    python benchmarks/silent_parts.py MODEL --titles titles.tsv.gz --dev dev.tsv.gz

By cross-validation over the queries of a judged set: each is scored by a fusion that was fitted on the others, once
with the values of the silent part at 0, and once by the weights without it. The candidates are those that the other
parts propose. It prints the mean probability, the share that is relevant, and NDCG@10.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from clickvec.data import read_judged, read_titles
from clickvec.evaluation.fitting import FOLDS, FittedQuery, folds_of, gather, measure_scores
from clickvec.evaluation.index_measures import index_test_set
from clickvec.evaluation.logistic_fit import fit_clicks, fit_without_parts, proposed_without
from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.result import text_table
from clickvec.model.encoder import Encoder
from clickvec.search.fusion import Candidates, Fusion
from clickvec.search.index import Index
from clickvec.search.parts.part import Single, Values
from clickvec.search.parts.word_part import Matches, facts_of

NDCG = MEASURES.index("NDCG@10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--titles", type=Path, required=True)
    parser.add_argument("--dev", required=True)
    arguments = parser.parse_args()
    titles = read_titles(arguments.titles)
    index = Index.build(
        Encoder.load(arguments.model), titles=[title.title for title in titles], ids=[title.id for title in titles]
    )
    queries = gather(index, index_test_set(index, read_judged(arguments.dev)).present())
    print(f"{len(queries):,} queries, {len(index):,} titles")
    rows = [["silent", "weights", "mean probability", "share relevant", "NDCG@10"]]
    for silent in ("vectors", "words"):
        rows += compare(queries, silent)
    print(text_table(rows))


def compare(queries: list[FittedQuery], silent: str) -> list[list[str]]:
    """Return a row for the weights of all parts, and one for the weights without the silent part."""
    asked = [without(query, silent) for query in queries]
    scores: dict[str, list[float]] = {"of all parts": [], "without it": []}
    measured: dict[str, list[float]] = {name: [] for name in scores}
    for others, held_out in folds_of(len(queries), FOLDS):
        facts, clicked = [queries[at].facts for at in others], [queries[at].clicked for at in others]
        everything = fit_clicks(facts, clicked)
        fits = fit_without_parts([queries[at].candidates for at in others], clicked)
        for name, fusion in (("of all parts", everything), ("without it", replace(everything, without=fits))):
            part = [asked[at] for at in held_out]
            scores[name] += [float(score) for query in part for score in fusion.scores(query.candidates)]
            measured[name] += measure_scores(part, partial(score_of, fusion))[NDCG].tolist()
    relevant = np.concatenate([query.clicked for query in asked]).mean()
    return [
        [silent, name, f"{np.mean(scores[name]):.4f}", f"{relevant:.4f}", f"{np.mean(measured[name]):.1f}"]
        for name in scores
    ]


def score_of(fusion: Fusion, candidates: Candidates) -> np.ndarray:  # type: ignore[type-arg]
    return fusion.scores(candidates)


def without(query: FittedQuery, silent: str) -> FittedQuery:
    """Return a query as if a part had nothing to say about it."""
    rows = proposed_without(query.candidates, {silent})
    nothing: Values = Single("cosine", np.zeros(len(rows)))
    if silent == "words":
        nothing = Matches(facts_of([]), np.zeros((len(rows), 0)))
    kept = query.candidates.take(rows)
    candidates = Candidates(kept.values | {silent: nothing}, frozenset({silent}))
    return FittedQuery.of(candidates, tuple(query.keys[row] for row in rows.tolist()), query.gains)


if __name__ == "__main__":
    main()
