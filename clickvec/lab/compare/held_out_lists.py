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
from clickvec.evaluation.held_out_clicks import Catalogue, Collection, collection, search

FOUND, RANDOM = 50, 50
MOST = 2_000  # queries in dev, and in test; of more, a random sample


def dev_and_test(train: ClickLog, held_out: ClickLog) -> tuple[tuple[Judged, Judged], int]:
    """Return two judged sets of the held-out clicks, and the number of queries left out because training has them.

    Every second query, in the order of their words, chooses settings; the others give the figures. Near-duplicates
    stay together.
    """
    known = set(map(near_duplicate_key, dict.fromkeys(train.queries)))
    catalogue = Catalogue(train.titles)
    everything = collection(held_out, catalogue)
    keys = list(map(near_duplicate_key, everything.queries))
    fresh = sorted({key for key in keys if key not in known})
    if len(fresh) < 2:
        raise ClickvecError("--held-out has fewer than two queries that --clicks does not have; give other clicks")
    part_of = {key: number % 2 for number, key in enumerate(fresh)}
    bm25, rng = BM25(catalogue.titles), np.random.default_rng(0)
    sets = []
    for part in range(2):
        rows = [row for row, key in enumerate(keys) if part_of.get(key) == part]
        chosen = Collection(
            tuple(everything.queries[row] for row in rows), tuple(everything.clicked[row] for row in rows), catalogue
        )
        sets.append(Judged(tuple(_lists(chosen.sample(MOST), bm25, rng)), BadLines()))
    return (sets[0], sets[1]), sum(key in known for key in keys)


def _lists(part: Collection, bm25: BM25, rng: np.random.Generator) -> list[JudgedQuery]:
    titles, lists = part.catalogue.titles, []
    for number, (query, clicked, found) in enumerate(zip(part.queries, part.clicked, search(bm25, part), strict=True)):
        others = rng.choice(len(titles), min(RANDOM, len(titles)), replace=False).tolist()
        rows = sorted({*clicked, *found[:FOUND], *others})
        grades = np.array([row in clicked for row in rows], np.int64)
        lists.append(JudgedQuery(str(number), query, tuple(map(str, rows)), tuple(titles[row] for row in rows), grades))
    return lists
