"""Lists to rank, made from held-out clicks, for a comparison without judged sets.

Each list holds the clicked titles of a query among titles that BM25 finds and random ones. A system that finds good
titles that nobody clicked is not rewarded for them, and BM25 has no advantage from the titles that it found itself.
"""

import numpy as np

from clickvec.data import ClickLog, Judged, JudgedQuery
from clickvec.data.held_out import near_duplicate_key
from clickvec.data.parsing.lines import BadLines
from clickvec.errors import ClickvecError
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.measure import search
from clickvec.evaluation.metrics import gains_of
from clickvec.evaluation.test_set import Catalogue, TestSet

FOUND, RANDOM = 50, 50
MOST = 2_000  # queries in dev, and in test; of more, a random sample


def dev_and_test(train: ClickLog, held_out: ClickLog) -> tuple[tuple[Judged, Judged], int]:
    """Return two judged sets of the held-out clicks, and the number of queries left out because training has them.

    Every second query, in the order of their words, chooses settings; the others give the figures. Near-duplicates
    stay together.
    """
    known = set(map(near_duplicate_key, dict.fromkeys(train.queries)))
    catalogue = Catalogue(train.titles)
    everything = TestSet.of_clicks(held_out, catalogue)
    keys = [near_duplicate_key(query.query) for query in everything.queries]
    fresh = sorted({key for key in keys if key not in known})
    if len(fresh) < 2:
        raise ClickvecError("--held-out has fewer than two queries that --clicks does not have; give other clicks")
    part_of = {key: number % 2 for number, key in enumerate(fresh)}
    bm25, rng = BM25(catalogue.titles), np.random.default_rng(0)
    sets = []
    for part in range(2):
        queries = (query for query, key in zip(everything.queries, keys, strict=True) if part_of.get(key) == part)
        chosen = TestSet(tuple(queries), catalogue)
        sets.append(Judged(tuple(_lists(chosen.sample(MOST), catalogue.titles, bm25, rng)), BadLines()))
    return (sets[0], sets[1]), sum(key in known for key in keys)


def _lists(part: TestSet, titles: list[str], bm25: BM25, rng: np.random.Generator) -> list[JudgedQuery]:
    keys, lists = list(part.catalogue.entries) if part.catalogue else [], []
    row = {key: number for number, key in enumerate(keys)}
    for number, (query, found) in enumerate(zip(part.queries, search(bm25, part), strict=True)):
        clicked = {row[key] for key in gains_of(query)}
        others = rng.choice(len(titles), min(RANDOM, len(titles)), replace=False).tolist()
        rows = sorted({*clicked, *(row[key] for key in found[:FOUND]), *others})
        grades = np.array([at in clicked for at in rows], np.int64)
        names = tuple(titles[at] for at in rows)
        lists.append(JudgedQuery(str(number), query.query, tuple(map(str, rows)), names, grades))
    return lists
