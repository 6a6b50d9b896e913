"""Click logs: (query, title, clicks), or every impression with whether it was clicked."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.readers.lines import MAX_BAD, BadLines
from clickvec.readers.records import Schema, records

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


def read_clicks(paths: str | Path | Sequence[str | Path], max_bad: float = MAX_BAD) -> ClickLog:
    """The pairs of one log in one or several files: `query title [clicks]`, or impressions with a column `clicked`.

    A line with 0 clicks is a good line, and no pair.
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    name = f"{files[0]} and {len(files) - 1} more" if len(files) > 1 else str(files[0]) if files else "the click log"
    bad, queries, titles, clicks = BadLines(), list[str](), list[str](), array("d")
    for path in files:
        for number, (query, title, count) in records(path, _CLICKS, bad):
            value = _count(count)
            if not query.strip():
                bad.add(str(path), number, "blank query")
            elif not title.strip():
                bad.add(str(path), number, "blank title")
            elif value < 0:
                bad.add(
                    str(path), number, "clicks is no number from 0 up", f"clicks is {count[:40]!r}, no number from 0 up"
                )
            elif value:
                queries.append(query)
                titles.append(title)
                clicks.append(value)
    bad.check(name, max_bad, len(queries), "pair with a click")
    return ClickLog(queries, titles, np.array(clicks, dtype=np.float64), bad)


def _count(text: str) -> float:
    """The clicks in a field; -1 where it holds none."""
    try:
        value = float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower(), -1.0)
    return value if isfinite(value) and text.isascii() and "_" not in text else -1.0  # float() takes 1_0 and ١
