"""Read click logs of any format as blocks of `Events`."""

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from clickvec.data import numbers
from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.events import Events
from clickvec.data.header import Schema
from clickvec.data.lines import BadLines
from clickvec.data.records import Source, open_source, read_blocks

LOG = Schema(
    columns=("query", "title", "clicks", "client", "time", "position"),
    layouts=(
        ("query", "title", "clicks"),
        ("query", "title"),
        ("time", "client", "query", "title", "position", "clicked"),
    ),
    aliases={"clicked": "clicks"},
    defaults={"clicks": "1"},
    foreign={"grade": "this is a judged set (it has grade and no clicks), and a click log was expected"},
    optional=("client", "time", "position"),
)


def read_events(
    paths: str | Path | Sequence[str | Path], columns: Columns = OWN_NAMES, *, bad: BadLines | None = None
) -> Iterator[Events]:
    """Yield the good lines of click logs, some thousand at a time, in the order of the files.

    Bad lines are skipped, counted and listed in `bad`. Whether there are too many is for the caller to check, with
    `bad.check`, and so is `columns.check_used`.
    """
    bad = BadLines() if bad is None else bad
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        source = open_source(path, bad, columns)
        for lines, fields in read_blocks(source, LOG):
            events = _events(source, lines, fields)
            if len(events.queries):
                yield events


def _events(source: Source, lines: Sequence[int], fields: Sequence[Sequence[str]]) -> Events:
    """Parse the columns of a block, without its bad lines."""
    query, title, counts, client, time, position = fields
    clicks = np.array(numbers.parse_clicks(counts), np.float64)
    times = numbers.parse_times(time) if time else None
    positions = numbers.parse_positions(position) if position else None
    good = clicks >= 0
    for column, bad in ((times, numbers.NO_TIME), (positions, -1)):
        if column is not None:
            good &= column != bad
    if not (good.all() and all(map(str.strip, query)) and all(map(str.strip, title))):
        for row in range(len(lines)):
            problem = _problem(fields, row, bool(good[row]))
            if problem:
                good[row] = False
                source.bad.add(source.name, lines[row], *problem)
        query, title, client = (list(compress(column, good)) for column in (query, title, client))
        clicks = clicks[good]
        times = None if times is None else times[good]
        positions = None if positions is None else positions[good]
    return Events(query, title, clicks, client or None, times, positions)


def _problem(fields: Sequence[Sequence[str]], row: int, good: bool) -> tuple[str, str] | None:
    """Return the reason, and its detail, why a line is bad; None if it is good."""
    query, title, counts, _, time, position = fields
    for name, texts in (("query", query), ("title", title)):
        if not texts[row].strip():
            return f"blank {name}", f"blank {name}"
    if good:
        return None
    if numbers.parse_clicks(counts[row : row + 1])[0] < 0:
        return _not_allowed("clicks", counts[row], numbers.ALLOWED_CLICKS)
    if time and numbers.parse_times(time[row : row + 1])[0] == numbers.NO_TIME:
        return _not_allowed("time", time[row], numbers.ALLOWED_TIMES)
    return _not_allowed("position", position[row], numbers.ALLOWED_POSITIONS)


def _not_allowed(name: str, text: str, allowed: str) -> tuple[str, str]:
    return f"{name} is {allowed}", f"{name} is {text[:40]!r}, {allowed}"
