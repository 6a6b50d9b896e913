"""The held-out parts of a data folder, dev.tsv and test.tsv: distinct pairs with their clicks, as a click log."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clickvec.data.clicks import ClickLog
from clickvec.data.pairs import distinct_pairs
from clickvec.native.words import token_table

_HEADER = "query\ttitle\tclicks"


def write_part(path: Path, log: ClickLog) -> None:
    """Write the distinct pairs of a part, in order of first appearance of their queries and then of their titles."""
    queries, titles = token_table(0), token_table(0)
    query, title = queries.read(log.queries).values, titles.read(log.titles).values
    pair_query, pair_title, clicks = distinct_pairs(query, title, log.clicks, len(titles))
    query_texts, title_texts = queries[:], titles[:]
    rows = zip(pair_query.tolist(), pair_title.tolist(), clicks.tolist(), strict=True)
    lines = [f"{query_texts[query]}\t{title_texts[title]}\t{count:.17g}\n" for query, title, count in rows]
    path.write_bytes("".join([f"{_HEADER}\n", *lines]).encode("utf-8", "surrogatepass"))


def parse_part(lines: Sequence[str]) -> ClickLog:
    """Return the part that `write_part` has written. Raise ValueError if it has written something else."""
    if not lines or lines[0] != _HEADER:
        raise ValueError(f"the header {_HEADER!r} of dev.tsv or test.tsv")
    rows = [line.split("\t") for line in lines[1:]]
    clicks = np.array([float(count) for _, _, count in rows], np.float64)
    return ClickLog([query for query, _, _ in rows], [title for _, title, _ in rows], clicks)


def joined(first: ClickLog, second: ClickLog) -> ClickLog:
    """Return the pairs of two parts."""
    clicks = np.concatenate([first.clicks, second.clicks])
    return ClickLog([*first.queries, *second.queries], [*first.titles, *second.titles], clicks)
