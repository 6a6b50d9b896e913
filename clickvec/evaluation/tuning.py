"""Choose the settings of BM25 on dev, by NDCG@10: on held-out clicks or on a judged set."""

from collections.abc import Iterable, Sequence

from clickvec.data import JudgedQuery
from clickvec.evaluation.bm25 import BM25, BM25_GRID
from clickvec.evaluation.held_out_clicks import CHOSEN_BY, Collection, measure
from clickvec.evaluation.judged_lists import evaluate
from clickvec.evaluation.neural import Settings
from clickvec.progress import Progress, ignore
from clickvec.search.lexical.query_terms import K1, B

MOST_QUERIES = 500  # of more held-out queries, a random sample is used
LABEL = "tuning BM25"


def tune_bm25(dev: Collection, progress: Progress | None = None) -> tuple[BM25, Settings]:
    """Return BM25 over the catalogue with the settings that are best on held-out clicks, and these settings.

    Each kind of tokens is tried with one k1 and b; then all k1 and b with the best kind.
    """
    report, sample = progress or ignore, dev.sample(MOST_QUERIES)
    kinds = list(dict.fromkeys(settings["tokens"] for settings in BM25_GRID))
    pairs = list(dict.fromkeys((settings["k1"], settings["b"]) for settings in BM25_GRID))
    trials = len(kinds) + len(pairs)

    def score(ranker: BM25) -> float:
        return measure([ranker], sample).mean(ranker.name, CHOSEN_BY)

    best, best_score, best_kind = BM25([]), -1.0, kinds[0]
    for done, kind in enumerate(kinds):
        report(LABEL, done, trials)
        ranker = BM25(dev.catalogue.titles, tokens=kind)
        if (found := score(ranker)) > best_score:
            best, best_score, best_kind = ranker, found, kind
    settings: Settings = {"tokens": best_kind, "k1": K1, "b": B}
    for done, (k1, b) in enumerate(pairs, len(kinds)):
        report(LABEL, done, trials)
        ranker = best.with_settings(k1, b)
        if (found := score(ranker)) > best_score:
            best, best_score, settings = ranker, found, {"tokens": best_kind, "k1": k1, "b": b}
    report(LABEL, trials, trials)
    return best, settings


def tune_on_lists(dev: Sequence[JudgedQuery], titles: Iterable[str] = (), progress: Progress | None = None) -> Settings:
    """Return the settings of BM25 that are best on a judged set. Words are counted in its titles, and in `titles`."""
    report = progress or ignore
    corpus = list(dict.fromkeys([*titles, *(title for query in dev for title in query.titles)]))
    best, best_score, base = BM25_GRID[0], -1.0, dict[str, BM25]()
    for done, settings in enumerate(BM25_GRID):
        report(LABEL, done, len(BM25_GRID))
        kind = settings["tokens"]
        if kind not in base:
            base = {kind: BM25(corpus, tokens=kind)}  # one kind at a time is in memory
        ranker = base[kind].with_settings(settings["k1"], settings["b"])
        found = evaluate([ranker], dev, cutoffs=(10,)).mean(ranker.name, CHOSEN_BY)
        if found > best_score:
            best, best_score = settings, found
    report(LABEL, len(BM25_GRID), len(BM25_GRID))
    return dict(best)
