"""Read click logs: (query, title, clicks), or every impression with whether it was clicked."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.header import Schema
from clickvec.data.lines import MAX_BAD, BadLines, name_of
from clickvec.data.records import open_source, read_blocks

MIN_CLICKS = 1e-6  # with fewer clicks, log2(1 + clicks) would be 0 in float32
MAX_CLICKS = 1e12  # sums over a log stay finite in float32

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
    """Pairs of (query, clicked title) with their clicks, in the order of the log. A pair may occur several times."""

    queries: list[str]
    titles: list[str]
    clicks: NDArray[np.float64]
    bad: BadLines = field(default_factory=BadLines)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.queries)


def read_clicks(
    paths: str | Path | Sequence[str | Path],
    max_bad: float = MAX_BAD,
    columns: Columns | Mapping[str, str] = OWN_NAMES,
) -> ClickLog:
    """Read a click log from one or several files: TSV, CSV (.csv) or JSON lines (.jsonl), plain or gzip.

    The columns are query, title and, optionally, clicks; or those of impressions, with a column `clicked`. `columns`
    maps these names to the names in the files, as in {"query": "search_term"}. Lines with 0 clicks are skipped. Bad
    lines are skipped, counted and listed in `.bad`; ClickvecError is raised if more than `max_bad` of the lines are
    bad, or no pair is left.
    """
    names = columns if isinstance(columns, Columns) else Columns(columns)
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    bad, queries, titles, clicks = BadLines(), list[str](), list[str](), array("d")
    for path in files:
        source = open_source(path, bad, names)
        for numbers, (query, title, counts) in read_blocks(source, _CLICKS):
            values_of = {text: _parse_clicks(text) for text in set(counts)}
            values = [values_of[text] for text in counts]
            if min(values) < 0 or not (all(map(str.strip, query)) and all(map(str.strip, title))):
                for row, number in enumerate(numbers):
                    problem = _problem(query[row], title[row], counts[row], values[row])
                    if problem:
                        values[row] = 0
                        bad.add(source.name, number, *problem)
            queries += compress(query, values)
            titles += compress(title, values)
            clicks.fromlist(list(filter(None, values)))
    name = name_of(files[0]) if files else "the click log"
    name += f" and {len(files) - 1} more" if files[1:] else ""
    bad.check(name, max_bad, len(queries), "pair with a click")
    if names is not columns:  # nobody else can check the names of a mapping
        names.check_used()
    return ClickLog(queries, titles, np.frombuffer(clicks, np.float64), bad)


def _problem(query: str, title: str, count: str, clicks: float) -> tuple[str, str] | None:
    """Return the reason, and its detail, why a line is bad; None if it is good."""
    for name, text in (("query", query), ("title", title)):
        if not text.strip():
            return f"blank {name}", f"blank {name}"
    if clicks >= 0:
        return None
    allowed = f"neither 0 nor a number from {MIN_CLICKS:g} to {MAX_CLICKS:g}"
    return f"clicks is {allowed}", f"clicks is {count[:40]!r}, {allowed}"


def _parse_clicks(text: str) -> float:
    """Return the clicks in a field, -1 if they are not a number in range."""
    try:
        clicks = float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower(), -1.0)
    in_range = clicks == 0 or MIN_CLICKS <= clicks <= MAX_CLICKS
    return clicks if in_range and text.isascii() and "_" not in text else -1.0  # float() also parses 1_0 and ١
