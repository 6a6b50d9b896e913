"""Hold two parts of the queries out of a click log: dev chooses settings, test gives the figures.

The split is a function of the distinct queries and of nothing else. Queries with the same words are near-duplicates and
stay together. If the log has times, the latest queries are held out: a group of near-duplicates is as old as its first
click, the latest groups are test, and those before them are dev. Without times, a hash of the words decides.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from hashlib import blake2b
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.clicks import ClickLog
from clickvec.text.lexical_tokens import tokenise
from clickvec.text.tokens import split_words

TRAIN, DEV, TEST = 0, 1, 2
SHARE = 0.05  # of the groups of near-duplicates in dev, and as many in test
ENOUGH = 200  # queries with which a figure has a useful confidence interval; a small log gives up to LARGEST_SHARE
LARGEST_SHARE = 0.1
MOST = 5_000  # more queries would hardly narrow the confidence interval, and take them from training
FEWEST = 50  # with fewer, the figures say nothing, and nothing is held out

Parts = NDArray[np.int8]


class HeldOut(NamedTuple):
    """The three parts of a click log. No query of dev or test, nor a near-duplicate of it, is in another part."""

    train: ClickLog
    dev: ClickLog
    test: ClickLog


def near_duplicate_key(query: str) -> str:
    """Return the distinct words of a query, sorted. Queries with the same key are near-duplicates.

    Punctuation separates words. A query without letters and digits keeps its punctuation.
    """
    return " ".join(sorted(set(tokenise(query) or split_words(query))))


def split_queries(queries: Sequence[str], first_clicks: NDArray[np.int64] | None = None) -> Parts:
    """Return for each query its part: TRAIN, DEV or TEST. All are TRAIN if there are too few to hold out.

    `first_clicks` are the times of the first clicks, in seconds. Repeated queries change nothing.
    """
    group_of = near_duplicate_groups(queries)
    groups = int(group_of.max(initial=-1)) + 1
    size = held_out_size(groups)
    order = np.arange(groups)
    if first_clicks is not None:
        first = np.full(groups, np.iinfo(np.int64).max)
        np.minimum.at(first, group_of, first_clicks)
        order = np.argsort(first, kind="stable")
    parts = np.full(groups, TRAIN, np.int8)
    parts[order[len(order) - 2 * size : len(order) - size]] = DEV
    parts[order[len(order) - size :]] = TEST
    return parts[group_of]


def near_duplicate_groups(queries: Sequence[str]) -> NDArray[np.int64]:
    """Return for each query the number of its group of near-duplicates, in a random order that is always the same."""
    groups: NDArray[np.int64] = np.unique(_hashes(queries), return_inverse=True)[1]
    return groups


def held_out_size(groups: int) -> int:
    """Return how many of the groups of near-duplicates are dev, and how many are test; 0 if there are too few."""
    size = min(MOST, max(int(SHARE * groups), min(ENOUGH, int(LARGEST_SHARE * groups))))
    return size if size >= FEWEST else 0


def fewest_queries() -> int:
    """Return the number of different queries below which nothing is held out."""
    return round(FEWEST / LARGEST_SHARE)


def hold_out(log: ClickLog) -> HeldOut | None:
    """Split a click log into train, dev and test. Return None if it has too few different queries.

    The lines that were shown and not clicked follow their queries.
    """
    distinct: dict[str, int] = {}
    query_of = np.fromiter((distinct.setdefault(query, len(distinct)) for query in log.queries), np.int64, len(log))
    first_clicks = None
    if log.times is not None:
        first_clicks = np.full(len(distinct), np.iinfo(np.int64).max)
        np.minimum.at(first_clicks, query_of, log.times)
    parts = split_queries(list(distinct), first_clicks)
    if not parts.any():
        return None
    part_of = parts[query_of]
    shown_part = None if log.shown is None else parts_of(log.shown.queries, list(distinct), parts)
    return HeldOut(*(_select(log, part_of, shown_part, part) for part in (TRAIN, DEV, TEST)))


def hold_out_again(log: ClickLog, dev: Sequence[str], test: Sequence[str]) -> HeldOut:
    """Split another log: near-duplicates of the queries that are held out already follow them, all others are train."""
    queries, parts = [*dev, *test], np.repeat(np.array([DEV, TEST], np.int8), [len(dev), len(test)])
    part_of = parts_of(log.queries, queries, parts)
    shown_part = None if log.shown is None else parts_of(log.shown.queries, queries, parts)
    return HeldOut(*(_select(log, part_of, shown_part, part) for part in (TRAIN, DEV, TEST)))


def parts_of(others: Sequence[str], queries: Sequence[str], parts: Parts) -> Parts:
    """Return the parts of other queries: that of their near-duplicates among `queries`, or TRAIN."""
    held = np.flatnonzero(parts)
    part_of_hash = dict(
        zip(_hashes([queries[row] for row in held.tolist()]).tolist(), parts[held].tolist(), strict=True)
    )
    return np.array([part_of_hash.get(number, TRAIN) for number in _hashes(others).tolist()], np.int8)


def _select(log: ClickLog, part_of: Parts, shown_part: Parts | None, part: int) -> ClickLog:
    """Return the lines of one part, with every column that the log has."""
    chosen = part_of == part
    columns: dict[str, Any] = {}
    for field in fields(log):
        column = getattr(log, field.name)
        if isinstance(column, np.ndarray):
            columns[field.name] = column[chosen]
        elif isinstance(column, list):
            columns[field.name] = list(compress(column, chosen.tolist()))
        elif isinstance(column, ClickLog) and shown_part is not None:
            columns[field.name] = _select(column, shown_part, None, part)
    return replace(log, **columns)


def _hashes(queries: Sequence[str]) -> NDArray[np.uint64]:
    """Return 64 bits for each query that depend on its words only, on every machine the same."""
    return np.fromiter(map(_hash, queries), np.uint64, len(queries))


def _hash(query: str) -> int:
    key = near_duplicate_key(query).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest())
