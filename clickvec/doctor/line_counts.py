"""Count every line of a log, exactly and in bounded memory: lines, pairs, queries, titles, clients, days, positions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat

import numpy as np
from numpy.typing import NDArray

from clickvec.data.events import Events
from clickvec.data.privacy import may_show
from clickvec.doctor.client_counts import ClientCounter, ClientCounts
from clickvec.doctor.grouping import Grouped, Groups, sum_by
from clickvec.doctor.text_hashes import Keys, canonical_texts, hash_texts, mix

DAY = 86_400  # seconds
PAGE_LINES = 200_000  # the first ones tell which lines are of one result page
LONGEST = 50  # words; longer queries are counted with those of this length
LAST_POSITION = 100  # lower positions are counted with this one

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Titles:
    """The distinct clicked titles: the hash of each, by how many queries it was clicked, and its clicks."""

    keys: Keys  # ascending
    queries: Floats
    clicks: Floats


@dataclass(frozen=True)
class Counted:
    """What `LineCounter` counted. Queries and titles are compared in canonical form; a pair is a clicked pair."""

    lines: int  # good lines
    shown: int  # lines without a click: titles that were shown and skipped
    clicks: float
    pairs: int
    pairs_by_clicks: Counter[float]  # how many pairs have how many clicks
    queries_by_clicks: Counter[float]
    titles: Titles
    clients: ClientCounts | None  # None if the log does not say who searched
    lines_by_day: dict[int, int] | None  # days since 1970
    lines_by_length: Ints  # clicked lines by the number of words in the query
    shown_by_position: Ints | None  # all lines, from position 0, which is unknown
    clicks_by_position: Ints | None  # clicked lines
    may_be_shown: Keys  # hashes of the queries that data/privacy.py lets show
    same_query: int  # lines of the page of the line before, with its query and another title; only if the log has times
    same_title: int  # lines of the page of the line before, with its title and another query

    @property
    def queries(self) -> int:
        """The number of distinct queries."""
        return sum(self.queries_by_clicks.values())


@dataclass
class LineCounter:
    """Add the blocks of a log, then call `finish`."""

    k_anonymous: int | None = None
    lines: int = 0
    clicks: float = 0.0
    clicked: int = 0
    same_query: int = 0
    same_title: int = 0
    by_day: Counter[int] = field(default_factory=Counter)
    by_length: Ints = field(default_factory=lambda: np.zeros(LONGEST + 1, np.int64))
    shown_at: Ints = field(default_factory=lambda: np.zeros(LAST_POSITION + 1, np.int64))
    clicked_at: Ints = field(default_factory=lambda: np.zeros(LAST_POSITION + 1, np.int64))
    pairs: Groups = field(default_factory=lambda: Groups(tags=2, sums=1))  # tags: query, title; sum: clicks
    clients: ClientCounter | None = None  # while all blocks so far have clients
    _columns: set[str] = field(default_factory=set)

    def add(self, events: Events) -> None:
        """Count a block of lines."""
        count = len(events.queries)
        if not count:
            return
        is_first = not self.lines
        self.lines += count
        is_clicked = events.clicks > 0
        clicks = events.clicks[is_clicked]
        typed = canonical_texts(events.queries if events.clients else list(compress(events.queries, is_clicked)))
        title = hash_texts(canonical_texts(list(compress(events.titles, is_clicked))))
        every_query = hash_texts(typed)
        queries, query = typed, every_query
        if events.clients:  # it takes all queries to say how many clients typed each
            queries, query = list(compress(typed, is_clicked)), every_query[is_clicked]
        self._add_clients(events, every_query, title, is_first)
        self._add_pages(events)
        self.clicked += len(queries)
        self.clicks += float(clicks.sum())
        self.pairs.add(mix(query, title), (query, title), (clicks,))
        words = np.fromiter(map(str.count, queries, repeat(" ")), np.int64, len(queries)) + 1
        self.by_length += np.bincount(np.minimum(words, LONGEST), minlength=LONGEST + 1)
        if events.times is not None:
            self._columns.add("times")
            days, lines = np.unique(events.times // DAY, return_counts=True)
            self.by_day.update(dict(zip(days.tolist(), lines.tolist(), strict=True)))
        if events.positions is not None:
            self._columns.add("positions")
            positions = np.clip(events.positions, 0, LAST_POSITION)
            self.shown_at += np.bincount(positions, minlength=LAST_POSITION + 1)
            self.clicked_at += np.bincount(positions[is_clicked], minlength=LAST_POSITION + 1)

    def _add_clients(self, events: Events, query: Keys, title: Keys, is_first: bool) -> None:
        """Count clients, as long as every file has them."""
        if events.clients is not None:
            self._columns.add("clients")
        if events.clients is None:
            if self.clients:
                self.clients.close()
            self.clients = None
            return
        if is_first:
            self.clients = ClientCounter(self.k_anonymous)
        if self.clients:
            self.clients.add(events, query, title)

    def _add_pages(self, events: Events) -> None:
        """Count neighbouring lines of one client at one second: those of a result page have the same query."""
        if events.clients is None or events.times is None or self.lines > PAGE_LINES:
            return
        client, query, title = (list(column) for column in (events.clients, events.queries, events.titles))
        for row in np.flatnonzero(np.diff(events.times) == 0).tolist():
            if client[row] and client[row] == client[row + 1]:
                same_query = query[row] == query[row + 1]
                if same_query != (title[row] == title[row + 1]):
                    self.same_query += same_query
                    self.same_title += not same_query

    def finish(self) -> Counted:
        """Return the counts."""
        shown = [np.zeros(0, np.uint64)]
        pairs_by_clicks, queries_by_clicks, titles, pairs = Counter[float](), Counter[float](), list[Grouped](), 0
        for part in self.pairs.parts():
            (query, title), (clicks,) = part.tags, part.sums
            pairs += len(part)
            _, queries, (of_query,) = sum_by(query, clicks)
            shown.append(queries[may_show(of_query, self.k_anonymous)])
            _, distinct, sums = sum_by(title, np.ones(len(part)), clicks)
            pairs_by_clicks += _frequencies(clicks)
            queries_by_clicks += _frequencies(of_query)
            titles.append(Grouped(distinct, (), sums))
        clients = self.clients.finish() if self.clients else None
        if "clients" in self._columns:  # some files do not say who typed a query: then show none
            shown = shown[:1]
        return Counted(
            self.lines, self.lines - self.clicked, self.clicks, pairs, pairs_by_clicks, queries_by_clicks,
            _all_titles(titles),
            clients,
            dict(sorted(self.by_day.items())) if "times" in self._columns else None,
            self.by_length,
            self.shown_at if "positions" in self._columns else None,
            self.clicked_at if "positions" in self._columns else None,
            clients.may_be_shown if clients else np.concatenate(shown), self.same_query, self.same_title,
        )  # fmt: skip

    def close(self) -> None:
        """Remove the temporary files."""
        self.pairs.close()
        if self.clients:
            self.clients.close()


def _frequencies(values: Floats) -> Counter[float]:
    distinct, counts = np.unique(values, return_counts=True)
    return Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))


def _all_titles(parts: Sequence[Grouped]) -> Titles:
    if not parts:
        return Titles(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0))
    columns = [np.concatenate(column) for column in zip(*(part.sums for part in parts), strict=True)]
    _, keys, (queries, clicks) = sum_by(np.concatenate([part.keys for part in parts]), *columns)
    return Titles(keys, queries, clicks)
