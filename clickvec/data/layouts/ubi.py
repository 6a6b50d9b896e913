"""OpenSearch User Behavior Insights (UBI 1.x): queries with their hits, and events that point to queries by query_id.

Each hit of a query is an impression. It is clicked if there is an event with the action click for it. Titles that only
events name were shown too. The texts of titles come from the catalogue, or from the events.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clickvec.data.events import Events
from clickvec.data.layouts.joins import Texts, check_titles_differ
from clickvec.data.layouts.ubi_events import ShownTitle, ShownTitles
from clickvec.data.parsing import numbers
from clickvec.data.parsing.head import Head
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.json_rows import json_cell
from clickvec.data.parsing.open_files import is_regular
from clickvec.data.parsing.records import read_blocks, records
from clickvec.data.parsing.source import Source, open_source
from clickvec.data.parsing.usual_names import USUAL, letters
from clickvec.errors import ClickvecError
from clickvec.storage.json_files import parse_json

log = logging.getLogger(__name__)

_CLICKS = {"click", "clickthrough", "itemclick", "productclick", "resultclick", "documentclick", "onclick"}
_IMPRESSIONS = {"impression", "itemimpression", "productimpression"}
_HITS = ("query_response_hit_ids", "query_response_object_ids", "query_response_objects_ids")
_ROWS_AT_ONCE = 10_000

_QUERIES = Schema(
    columns=("query_id", "user_query", "client_id", "timestamp", "hits"),
    layouts=((),),
    aliases=dict.fromkeys(_HITS, "hits"),
    defaults={"query_id": "", "user_query": "", "client_id": "", "hits": ""},
    optional=("query_id", "user_query", "client_id", "timestamp", "hits"),
    lists=("hits",),
)
_MAY_BE_ABSENT = ("query_id", "object_id", "ordinal", "name", "description", "user_query", "client_id")
_EVENTS = Schema(
    columns=("action_name", *_MAY_BE_ABSENT),
    layouts=((),),
    defaults=dict.fromkeys(_MAY_BE_ABSENT, ""),
    optional=_MAY_BE_ABSENT,
    usual={
        "object_id": (("eventattributesobjectobjectid", "objectobjectid"),),
        "ordinal": (("eventattributespositionordinal", "positionordinal"), ("position",)),
        "name": (("eventattributesobjectname", "objectname"),),
        "description": (("eventattributesobjectdescription", "objectdescription"),),
    },
)


class _Asked(NamedTuple):
    """A query that a user asked."""

    query: str
    client: str
    time: int | None


class Files:
    """The UBI files of a log: they are joined when all of them are known."""

    def __init__(self) -> None:
        self._queries, self._events = list[Source](), list[Source]()

    def take(self, source: Source, head: Head) -> bool:
        """Keep a file for `read` if its columns are those of UBI."""
        names = head.names
        if "actionname" in names and any(name == "queryid" or name.startswith("eventattributes") for name in names):
            self._events.append(source)
            return True
        texts = {"title", "docid", *(name for column in ("title", "doc_id") for name in USUAL[column][0])}
        hits = {letters(name) for name in _HITS}
        if "queryid" in names and (names & hits or ("userquery" in names and not names & texts)):
            self._queries.append(source)
            return True
        return False

    def read(self, catalogue: Texts | None) -> Iterator[Events]:
        """Yield all hits of the queries, and what was clicked."""
        if self._queries or self._events:
            yield from _Join(catalogue).read(self._queries, self._events)


class _Rows:
    """Titles that were shown, on the way to become a block of events."""

    def __init__(self, source: Source) -> None:
        self.source, self.lines, self.asked = source, list[int](), list[_Asked]()
        self.ids, self.clicks, self.positions = list[str](), list[int](), list[int]()

    def add(self, line: int, asked: _Asked, doc_id: str, clicks: int, position: int) -> None:
        self.lines.append(line)
        self.asked.append(asked)
        self.ids.append(doc_id)
        self.clicks.append(clicks)
        self.positions.append(position)


class _Join:
    """Join events to queries by query_id, and both to titles by document id."""

    def __init__(self, catalogue: Texts | None) -> None:
        self._catalogue = catalogue
        self._titles: dict[str, str] = {}  # from the events
        self._shown = ShownTitles()
        self._asked: dict[str, _Asked] = {}  # query_id -> the query, if events point to titles that are no hits

    def read(self, queries: Sequence[Source], events: Sequence[Source]) -> Iterator[Events]:
        for source in events:
            self._read_events(_opened(source))
        if not self._catalogue and events:
            _check_titles(events[0].name, list(self._titles.values()))
            told = "the titles are names or descriptions of objects in the events; --catalogue FILE gives others"
            events[0].bad.layouts[events[0].name] = told
        if not queries and not self._asked:
            raise ClickvecError(
                f"{events[0].name} holds events of UBI; give the file of their queries too (query_id, user_query)"
            )
        for source in queries:
            yield from self._read_queries(_opened(source))
        if events:
            yield from self._not_hits(events[0])

    def _read_events(self, source: Source) -> None:
        for line, (action, query_id, doc_id, ordinal, name, description, query, client) in records(source, _EVENTS):
            title = next((text for text in (name, description) if text.strip()), None)
            if title and doc_id:
                self._titles.setdefault(doc_id, title)
            kind = letters(action)
            position = 0 if ordinal == "0" else int(numbers.parse_positions([ordinal])[0])
            if kind not in _CLICKS and kind not in _IMPRESSIONS:
                reason = "another action than a click or an impression"
                source.bad.leave_out(source.name, line, reason, f"action_name is {action[:40]!r}")
            elif not (query_id.strip() and doc_id.strip()):
                reason = "a click or an impression without query_id or object_id"
                source.bad.leave_out(source.name, line, reason, reason)
            elif position < 0:
                allowed = numbers.ALLOWED_POSITIONS
                source.bad.add(source.name, line, f"position is {allowed}", f"position is {ordinal[:40]!r}, {allowed}")
            else:
                self._shown.add(query_id, doc_id, kind in _CLICKS, position)
                if query.strip():
                    self._asked.setdefault(query_id, _Asked(query, client, None))

    def _read_queries(self, source: Source) -> Iterator[Events]:
        rows = _Rows(source)
        for lines, (query_ids, queries, clients, time, hits) in read_blocks(source, _QUERIES):
            times = numbers.parse_times(time).tolist() if time else [None] * len(lines)
            again: set[str] = set()  # the events of a query that occurs twice in a block are looked up again
            for line, query_id, query, client, at, listed, shown in zip(
                lines, query_ids, queries, clients, times, hits, self._shown.of(query_ids), strict=True
            ):
                doc_ids = _hits(listed)
                if at == numbers.NO_TIME:
                    source.bad.add(source.name, line, f"time is {numbers.ALLOWED_TIMES}")
                elif doc_ids is None:
                    source.bad.add(source.name, line, "the hits are not a list of ids")
                elif not query.strip():
                    source.bad.leave_out(source.name, line, "query without a text", "blank user_query")
                else:
                    titles = self._shown.of([query_id])[0] if query_id in again else shown
                    self._add_hits(rows, line, query_id, _Asked(query, client, at), doc_ids, titles)
                    again.add(query_id)
                if len(rows.ids) >= _ROWS_AT_ONCE:
                    yield from self._events(rows)
                    rows = _Rows(source)
        yield from self._events(rows)

    def _add_hits(
        self, rows: _Rows, line: int, query_id: str, asked: _Asked, doc_ids: list[str], shown: dict[str, ShownTitle]
    ) -> None:
        if not doc_ids and not shown:
            reason = "query without a hit or a click"
            rows.source.bad.leave_out(rows.source.name, line, reason, reason)
        for position, doc_id in enumerate(doc_ids, 1):
            title = shown.pop(doc_id, None)
            rows.add(line, asked, doc_id, title.clicks if title else 0, position)
            if title:
                self._shown.use(title)
        if shown:
            self._asked[query_id] = asked

    def _not_hits(self, source: Source) -> Iterator[Events]:
        """Yield the titles that events name and that are not among the hits of their query."""
        for query_ids in self._shown.unused(_ROWS_AT_ONCE):
            rows, without_time = _Rows(source), _Rows(source)
            for query_id, titles in zip(query_ids, self._shown.of(query_ids), strict=True):
                asked = self._asked.get(query_id)
                for doc_id, title in titles.items():
                    self._shown.use(title)
                    if asked is None:
                        detail = f"query_id {query_id[:40]!r} is in no file of queries"
                        lines = len(title.entries)
                        source.bad.leave_out(source.name, 1, "query_id without a query", detail, lines)
                    else:
                        block = without_time if asked.time is None else rows
                        block.add(1, asked, doc_id, title.clicks, title.position)
            yield from self._events(rows)
            yield from self._events(without_time)

    def _events(self, rows: _Rows) -> Iterator[Events]:
        """Yield the rows with their titles. Count those without."""
        titles = [self._titles.get(doc_id) for doc_id in rows.ids]
        if self._catalogue:
            known = self._catalogue.of(rows.ids)
            titles = [title if text is None else text for text, title in zip(known, titles, strict=True)]
        elif not self._titles and rows.ids:
            raise ClickvecError(f"{rows.source.name} holds the ids of titles; give the titles with --catalogue FILE")
        mask = np.array([title is not None for title in titles], bool)
        if not mask.all():
            first = int(np.argmin(mask))
            where = self._catalogue.name if self._catalogue else "the events"
            detail = f"document id {rows.ids[first][:40]!r} is not in {where}"
            count = len(mask) - int(mask.sum())
            rows.source.bad.leave_out(rows.source.name, rows.lines[first], f"document id not in {where}", detail, count)
        clients = [asked.client for asked in rows.asked]
        times = [asked.time for asked in rows.asked]
        events = Events(
            [asked.query for asked in rows.asked],
            [title or "" for title in titles],
            np.array(rows.clicks, np.float64),
            clients if any(clients) else None,
            None if None in times else np.array(times, np.int64),
            np.array(rows.positions, np.int32),
        )
        if mask.any():
            yield events.where(mask)


def _check_titles(name: str, titles: Sequence[str]) -> None:
    """Raise if all objects of events have the same name or description. Say if some share theirs."""
    cure = "give the titles with --catalogue FILE"
    check_titles_differ(name, titles, cure, few=2)
    times = Counter(titles)
    shared = sum(count for count in times.values() if count > 1)
    if shared:
        log.warning(
            "%s: %d of %d objects share their name or description with another one and count as one title; %s",
            name, shared, len(titles), cure,
        )  # fmt: skip


def _opened(source: Source) -> Source:
    """Open a file again, as the files of UBI are kept for later; a pipe stays open."""
    return open_source(source.path, source.bad, source.columns) if is_regular(source.path) else source


def _hits(text: str) -> list[str] | None:
    """Return the ids in a field: a JSON list, or ids separated by commas. None if it is neither."""
    text = text.strip()
    if not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    for candidate in (text, text.replace("'", '"')):  # Python writes lists with single quotes
        try:
            value = parse_json(candidate)
        except ValueError:
            continue
        cells = [json_cell(item) for item in value]
        return [cell for cell in cells if cell and cell.strip()]
    return None
