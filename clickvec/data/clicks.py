"""Click logs: (query, title, clicks), or every impression with whether it was clicked."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.header import Schema
from clickvec.data.lines import MAX_BAD, BadLines, name_of
from clickvec.data.records import open_source, read_blocks

MIN_CLICKS = 1e-6  # log2(1 + clicks) is above 0 in float32; fewer clicks, unless 0, would weigh nothing
MAX_CLICKS = 1e12  # sums over a log stay finite in float32, and exact enough

_CLICKS = Schema(
    columns=("query", "title", "clicks"),
    layouts=(
        ("query", "title", "clicks"),
        ("query", "title"),
        ("time", "client", "query", "title", "position", "clicked"),
    ),
    aliases={"clicked": "clicks"},
    defaults={"clicks": "1"},
    foreign={"grade": "this is a judged set (it has grade and no clicks), and a click log was expected"},
)


@dataclass(frozen=True)
class ClickLog:
    """Pairs of (query, clicked title) with their clicks, in the order of the log; the same pair may come again."""

    queries: list[str]
    titles: list[str]
    clicks: NDArray[np.float64]
    bad: BadLines = field(default_factory=BadLines)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.queries)


def read_clicks(
    paths: str | Path | Sequence[str | Path], max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> ClickLog:
    """The pairs of one log in one or several files: `query title [clicks]`, or impressions with a column `clicked`.

    A line with 0 clicks is a good line, and no pair.
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    name = (
        f"{name_of(files[0])} and {len(files) - 1} more"
        if len(files) > 1
        else name_of(files[0])
        if files
        else "the click log"
    )
    bad, queries, titles, clicks = BadLines(), list[str](), list[str](), array("d")
    for path in files:
        source = open_source(path, bad, columns)
        for numbers, (query, title, counts) in read_blocks(source, _CLICKS):
            known = {text: _count(text) for text in set(counts)}
            values = list(map(known.__getitem__, counts))
            if min(values) < 0 or not (all(map(str.strip, query)) and all(map(str.strip, title))):
                for place, row in enumerate(zip(numbers, query, title, counts, values, strict=True)):
                    if not _is_good(source.name, row, bad):
                        values[place] = 0.0
            queries += compress(query, values)
            titles += compress(title, values)
            clicks.fromlist(list(filter(None, values)))
    bad.check(name, max_bad, len(queries), "pair with a click")
    return ClickLog(queries, titles, np.frombuffer(clicks, np.float64), bad)


def _is_good(name: str, row: tuple[int, str, str, str, float], bad: BadLines) -> bool:
    """Whether a row is a pair; where it is none, it is counted."""
    number, query, title, count, value = row
    if not query.strip():
        bad.add(name, number, "blank query")
    elif not title.strip():
        bad.add(name, number, "blank title")
    elif value < 0:
        allowed = f"not 0 and no number from {MIN_CLICKS:g} to {MAX_CLICKS:g}"
        bad.add(name, number, f"clicks is {allowed}", f"clicks is {count[:40]!r}, {allowed}")
    else:
        return True
    return False


def _count(text: str) -> float:
    """The clicks in a field; -1 where it holds none."""
    try:
        value = float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower(), -1.0)
    possible = value == 0 or MIN_CLICKS <= value <= MAX_CLICKS
    return value if possible and text.isascii() and "_" not in text else -1.0  # float() takes 1_0 and ١
