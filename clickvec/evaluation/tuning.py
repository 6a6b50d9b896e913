"""Choose the settings of BM25 on dev, by NDCG@10: on held-out clicks or on a judged set."""

from collections.abc import Iterable

from clickvec.evaluation.bm25 import BM25, BM25_GRID
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Settings
from clickvec.evaluation.test_set import TestSet
from clickvec.progress import Progress, ignore
from clickvec.search.lexical.query_terms import K1, B

MOST_QUERIES = 500  # of more that search a catalogue, a random sample is used
LABEL = "tuning BM25"


def tune_bm25(dev: TestSet, titles: Iterable[str] = (), progress: Progress | None = None) -> tuple[BM25, Settings]:
    """Return BM25 with the settings that are best on dev, and these settings.

    It knows the titles of dev and those in `titles`. Each kind of tokens is tried with one k1 and b; then all k1 and b
    with the best kind.
    """
    report, sample = progress or ignore, dev if dev.catalogue is None else dev.sample(MOST_QUERIES)
    corpus = list(dict.fromkeys([*titles, *dev.titles]))
    kinds = list(dict.fromkeys(settings["tokens"] for settings in BM25_GRID))
    pairs = list(dict.fromkeys((settings["k1"], settings["b"]) for settings in BM25_GRID))
    trials = len(kinds) + len(pairs)

    def score(ranker: BM25) -> float:
        return measure([ranker], sample, [CHOSEN_BY]).mean(ranker.name, CHOSEN_BY)

    best, best_score, settings = BM25([]), -1.0, Settings()
    for done, kind in enumerate(kinds):
        report(LABEL, done, trials)
        ranker = BM25(corpus, tokens=kind)
        if (found := score(ranker)) > best_score:
            best, best_score, settings = ranker, found, {"tokens": kind, "k1": K1, "b": B}
    tokens = best
    for done, (k1, b) in enumerate(pairs, len(kinds)):
        report(LABEL, done, trials)
        ranker = tokens.with_settings(k1, b)
        if (found := score(ranker)) > best_score:
            best, best_score, settings = ranker, found, settings | {"k1": k1, "b": b}
    report(LABEL, trials, trials)
    return best, settings
