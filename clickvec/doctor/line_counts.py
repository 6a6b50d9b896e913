"""Count every line of a log, exactly and in bounded memory: lines, pairs, queries, titles, clients, days, positions."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from clickvec.data.events import Events
from clickvec.doctor.grouping import Grouped, Groups, sum_by
from clickvec.doctor.text_hashes import Keys, canonical_texts, hash_texts, mix

DAY = 86_400  # seconds
LONGEST = 50  # words; longer queries are counted with those of this length
LAST_POSITION = 100  # lower positions are counted with this one
TOP_TITLES = 10

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Titles:
    """The distinct clicked titles: the hash of each, by how many queries it was clicked, and its clicks."""

    keys: Keys
    queries: Floats
    clicks: Floats

    @property
    def order(self) -> NDArray[np.intp]:
        """The titles by the number of their queries, most first."""
        return np.lexsort((self.keys, -self.clicks, -self.queries))


@dataclass(frozen=True)
class Counted:
    """What `LineCounter` counted. Queries and titles are compared in canonical form; a pair is a clicked pair."""

    lines: int  # good lines
    shown: int  # lines without a click: titles that were shown and skipped
    clicks: float
    pairs: int
    pairs_by_clicks: Counter[float]  # how many pairs have how many clicks
    queries_by_clicks: Counter[float]
    queries_by_clients: Counter[int]  # how many queries were typed by how many clients; empty if clients are not known
    clicks_by_clients: dict[int, float]  # the clicks of these queries
    titles: Titles
    identical: int | None  # lines that repeat an earlier line in every column; None without clients and times
    lines_by_client: Ints | None  # most first
    lines_by_day: dict[int, int] | None  # days since 1970
    lines_by_length: Ints  # clicked lines by the number of words in the query
    shown_by_position: Ints | None  # all lines, from position 0, which is unknown
    clicks_by_position: Ints | None  # clicked lines

    @property
    def queries(self) -> int:
        """The number of distinct queries."""
        return sum(self.queries_by_clicks.values())


@dataclass
class LineCounter:
    """Add the blocks of a log, then call `finish`."""

    lines: int = 0
    clicks: float = 0.0
    clicked: int = 0
    by_day: Counter[int] = field(default_factory=Counter)
    by_length: Ints = field(default_factory=lambda: np.zeros(LONGEST + 1, np.int64))
    shown_at: Ints = field(default_factory=lambda: np.zeros(LAST_POSITION + 1, np.int64))
    clicked_at: Ints = field(default_factory=lambda: np.zeros(LAST_POSITION + 1, np.int64))
    pairs: Groups = field(default_factory=lambda: Groups(tags=2, sums=1))  # tags: query, title; sum: clicks
    typed: Groups = field(default_factory=lambda: Groups(tags=1, sums=1))  # (query, client); tag: query; sum: clicks
    clients: Groups = field(default_factory=lambda: Groups(sums=1))  # sum: lines
    exact: Groups = field(default_factory=Groups)  # whole lines
    _columns: set[str] = field(default_factory=set)

    def add(self, events: Events) -> None:
        """Count a block of lines."""
        count = len(events.queries)
        if not count:
            return
        self.lines += count
        is_clicked = events.clicks > 0
        clicks = events.clicks[is_clicked]
        queries = canonical_texts(list(compress(events.queries, is_clicked)))
        titles = canonical_texts(list(compress(events.titles, is_clicked)))
        self.clicked += len(queries)
        self.clicks += float(clicks.sum())
        query, title = hash_texts(queries), hash_texts(titles)
        self.pairs.add(mix(query, title), (query, title), (clicks,))
        words = np.fromiter((text.count(" ") for text in queries), np.int64, len(queries)) + 1
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
        if events.clients is not None:
            self._columns.add("clients")
            self._add_clients(events, query, is_clicked)

    def _add_clients(self, events: Events, query: Keys, is_clicked: NDArray[np.bool_]) -> None:
        assert events.clients is not None
        client = hash_texts(events.clients)
        self.clients.add(client, (), (np.ones(len(client)),))
        self.typed.add(mix(query, client[is_clicked]), (query,), (events.clicks[is_clicked],))
        if events.times is not None:
            columns = [hash_texts(events.queries), hash_texts(events.titles), client, events.times.view(np.uint64)]
            columns.append(events.clicks.view(np.uint64))
            if events.positions is not None:
                columns.append(events.positions.astype(np.uint64))
            self.exact.add(mix(*columns))

    def finish(self) -> Counted:
        """Return the counts."""
        pairs_by_clicks, queries_by_clicks, titles, pairs = Counter[float](), Counter[float](), list[Grouped](), 0
        for part in self.pairs.parts():
            (query, title), (clicks,) = part.tags, part.sums
            pairs += len(part)
            _, _, (of_query,) = sum_by(query, clicks)
            _, distinct, sums = sum_by(title, np.ones(len(part)), clicks)
            pairs_by_clicks += _frequencies(clicks)
            queries_by_clicks += _frequencies(of_query)
            titles.append(Grouped(distinct, (), sums))
        by_clients, clicks_by_clients = self._by_clients()
        known = {name: name in self._columns for name in ("clients", "times", "positions")}
        whole = known["clients"] and known["times"]
        return Counted(
            self.lines, self.lines - self.clicked, self.clicks, pairs, pairs_by_clicks, queries_by_clicks,
            by_clients, clicks_by_clients, _all_titles(titles),
            self.lines - self.exact.count() if whole else None,
            self._by_client() if known["clients"] else None,
            dict(sorted(self.by_day.items())) if known["times"] else None,
            self.by_length,
            self.shown_at if known["positions"] else None,
            self.clicked_at if known["positions"] else None,
        )  # fmt: skip

    def _by_client(self) -> Ints:
        lines = np.concatenate([np.zeros(0), *(part.sums[0] for part in self.clients.parts())]).astype(np.int64)
        return np.sort(lines)[::-1]

    def _by_clients(self) -> tuple[Counter[int], dict[int, float]]:
        """Return how many queries were typed by how many clients, and the clicks of these queries."""
        queries, clicks = Counter[int](), defaultdict[int, float](float)
        for part in self.typed.parts():
            _, _, (clients, of_query) = sum_by(part.tags[0], np.ones(len(part)), part.sums[0])
            counts, total = np.bincount(clients.astype(np.int64)), np.bincount(clients.astype(np.int64), of_query)
            for number in np.flatnonzero(counts).tolist():
                queries[number] += int(counts[number])
                clicks[number] += float(total[number])
        return queries, clicks

    def close(self) -> None:
        """Remove the temporary files."""
        for groups in (self.pairs, self.typed, self.clients, self.exact):
            groups.close()


def _frequencies(values: Floats) -> Counter[float]:
    distinct, counts = np.unique(values, return_counts=True)
    return Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))


def _all_titles(parts: Sequence[Grouped]) -> Titles:
    if not parts:
        return Titles(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0))
    columns = [np.concatenate(column) for column in zip(*(part.sums for part in parts), strict=True)]
    _, keys, (queries, clicks) = sum_by(np.concatenate([part.keys for part in parts]), *columns)
    return Titles(keys, queries, clicks)
