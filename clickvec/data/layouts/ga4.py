"""Exports of Google Analytics 4 as BigQuery writes them: one row for each event, with nested parameters and items.

A click is the event `select_item`. Its query is its own parameter `search_term` or, as most sites send that with
`view_search_results` alone, the last one before it in the same session. Items of an event that has a `search_term` and
is no click were shown. Other events are left out. Positions are not read: where sites count from is not defined.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clickvec.data.events import Events
from clickvec.data.layouts.joins import Texts
from clickvec.data.layouts.tables import join
from clickvec.data.parsing import numbers
from clickvec.data.parsing.columns import IGNORED, Columns
from clickvec.data.parsing.head import Head
from clickvec.data.parsing.json_rows import json_cell, json_objects
from clickvec.data.parsing.nested import Elements, flatten
from clickvec.data.parsing.source import Source
from clickvec.errors import ClickvecError

CLICK = "select_item"
SHOWN = ("view_search_results", "view_item_list", "search")
_USUAL = {
    "query": "event_params.search_term", "title": "items.item_name", "doc_id": "items.item_id",
    "client": "user_pseudo_id", "time": "event_timestamp", "position": "",
}  # fmt: skip
_SESSION = "event_params.ga_session_id"
_NOT_SET = ("", "(not set)")
_ROWS_AT_ONCE = 10_000


class _Row(NamedTuple):
    """An item that was shown or clicked."""

    line: int
    query: str
    item: str  # its name, or its id if there is a catalogue
    clicks: int
    client: str
    time: str
    position: str
    session: tuple[str, str] | None = None


def is_ga4(head: Head, columns: Columns) -> bool:
    """Whether a file has the columns of an export of GA4, and the user names no column of clicks."""
    names = {field.lower() for field in head.fields}
    nested = any(name == "event_params" or name.startswith(("event_params.", "items.item_")) for name in names)
    return "event_name" in names and nested and "clicks" not in columns.names


class Files:
    """The GA4 files of a log. A click is joined to the searches of its session when all of them are read."""

    def __init__(self) -> None:
        self._searches: dict[tuple[str, str], list[tuple[int, str]]] = {}  # of a session: time and query
        self._waiting: list[tuple[Source, list[_Row]]] = []  # clicks without a query of their own
        self._clicks, self._names = 0, set[str]()
        self._first: Source | None = None

    def read_file(self, source: Source, catalogue: Texts | None) -> Iterator[Events]:
        """Yield what has its query in the same event, and keep the clicks that have none."""
        self._first = self._first or source
        columns = {**_USUAL, **source.columns.names}
        text = "doc_id" if catalogue else "title"
        source.bad.layouts[source.name] = (
            f"read as an export of GA4: query={columns['query']}, {text}={columns[text]}, client={columns['client']}, "
            f"time={columns['time']}, a click is {CLICK}; --columns NAME=COLUMN changes this"
        )
        waiting, rows = list[_Row](), list[_Row]()
        self._waiting.append((source, waiting))
        wanted = [*columns.values(), _SESSION, "event_name", *(["items"] if source.format == "parquet" else [])]
        noted = False
        for objects in json_objects(source, wanted):
            for line, value in objects:
                flat = flatten(value)
                if not noted:
                    used = [ours for ours, theirs in source.columns.names.items() if _has(flat, theirs)]
                    source.columns.note(source.name, list(flat), used)
                    noted = len(used) == len(source.columns.names)
                for row in self._rows(source, line, flat, columns, text):
                    (rows if row.query else waiting).append(row)
            if len(rows) >= _ROWS_AT_ONCE:
                yield from _events(source, rows, catalogue)
                rows = []
        yield from _events(source, rows, catalogue)

    def read_waiting(self, catalogue: Texts | None) -> Iterator[Events]:
        """Yield the clicks whose query is that of an earlier event."""
        if self._first and not self._clicks:
            names = ", ".join(sorted(self._names)[:10]) or "none"
            raise ClickvecError(
                f"{self._first.name} is an export of GA4 without a click: no event is {CLICK}; its events are {names}. "
                "If each row is a click, name its columns: --columns query=COLUMN,title=COLUMN,clicks=-"
            )
        for searches in self._searches.values():
            searches.sort()
        for source, waiting in self._waiting:
            rows = []
            for row in waiting:
                searches = self._searches.get(row.session, []) if row.session else []
                at = bisect_right(searches, int(numbers.parse_times([row.time])[0]), key=lambda search: search[0])
                if at:
                    rows.append(row._replace(query=searches[at - 1][1]))
                else:
                    reason = "a click without a search before it in its session"
                    source.bad.leave_out(source.name, row.line, reason, reason)
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                yield from _events(source, rows[start : start + _ROWS_AT_ONCE], catalogue)

    def _rows(
        self, source: Source, line: int, flat: Mapping[str, Any], columns: Mapping[str, str], text: str
    ) -> Iterator[_Row]:
        event, query = _cell(flat.get("event_name")), _cell(flat.get(columns["query"]))
        client, time = _cell(flat.get(columns["client"])), _cell(flat.get(columns["time"]))
        session = client, _cell(flat.get(_SESSION))
        self._names.add(event)
        if query and event != CLICK and all(session):
            self._searches.setdefault(session, []).append((int(numbers.parse_times([time])[0]), query))
        items, positions = _cells(flat.get(columns[text])), _cells(flat.get(columns["position"]))
        if event != CLICK and event not in SHOWN:
            reason = "another event than a search, a list of items or a click"
            source.bad.leave_out(source.name, line, reason, f"event_name is {event[:40]!r}")
            return
        self._clicks += event == CLICK
        if not any(items):
            reason = f"an event without {columns[text]}"
            source.bad.leave_out(source.name, line, reason, reason)
        elif event != CLICK and not query:
            reason = f"a list of items without {columns['query']}"
            source.bad.leave_out(source.name, line, reason, reason)
        else:
            for at, item in enumerate(items):
                if item:
                    position = positions[at] if at < len(positions) else ""
                    known = session if all(session) else None
                    yield _Row(line, query, item, int(event == CLICK), client, time, position, known)


def _has(flat: Mapping[str, Any], name: str) -> bool:
    return name == IGNORED or name in flat


def _cell(value: Any) -> str:  # noqa: ANN401
    text = json_cell(value) or ""
    return "" if text.strip() in _NOT_SET else text


def _cells(value: Any) -> list[str]:  # noqa: ANN401
    return list(map(_cell, value)) if isinstance(value, Elements) else [_cell(value)]


def _events(source: Source, rows: Sequence[_Row], catalogue: Texts | None) -> Iterator[Events]:
    """Yield rows as events, with the titles of their ids if there is a catalogue. Count those with a bad field."""
    good = []
    for row in rows:
        wrong = _wrong(row)
        if wrong:
            source.bad.add(source.name, row.line, *wrong)
        else:
            good.append(row)
    if not good:
        return
    lines, titles = [row.line for row in good], [row.item for row in good]
    mask = np.ones(len(good), bool)
    if catalogue:
        _, joined, mask = join(source, lines, titles, catalogue, "document id")
        good, titles = [row for row, is_known in zip(good, mask.tolist(), strict=True) if is_known], joined
    if not good:
        return
    times = [row.time for row in good]
    positions = numbers.parse_positions([row.position for row in good])
    yield Events(
        [row.query for row in good],
        titles,
        np.array([row.clicks for row in good], np.float64),
        [row.client for row in good] if any(row.client for row in good) else None,
        numbers.parse_times(times) if all(times) else None,
        positions if positions.any() else None,
    )


def _wrong(row: _Row) -> tuple[str, str] | None:
    if row.time and numbers.parse_times([row.time])[0] == numbers.NO_TIME:
        return f"time is {numbers.ALLOWED_TIMES}", f"time is {row.time[:40]!r}, {numbers.ALLOWED_TIMES}"
    if row.position and numbers.parse_positions([row.position])[0] < 0:
        allowed = numbers.ALLOWED_POSITIONS
        return f"position is {allowed}", f"position is {row.position[:40]!r}, {allowed}"
    return None
