"""Count what clients do, exactly and in bounded memory: lines, searches per hour, clients per query, repeats.

The definitions are those of data/cleaning.py: a search is a query at a second, and a blank client is nobody.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.cleaning import HOUR, NO_CLIENT, hash_clients
from clickvec.data.events import Events
from clickvec.data.privacy import Pseudonyms, may_show
from clickvec.doctor.grouping import Groups, sum_by
from clickvec.doctor.text_hashes import Keys, hash_texts, mix

MANY_PER_HOUR = 120  # two searches a minute for an hour: no person keeps that up
BUSIEST = 5


@dataclass(frozen=True)
class ClientCounts:
    """What `ClientCounter` counted. Counters are by a number of clients or of searches."""

    sessions: bool  # whether the clients are sessions
    lines_by_client: NDArray[np.int64]  # most first
    heaviest: tuple[tuple[str, int], ...]  # the clients with most lines
    may_be_shown: Keys  # hashes of the queries that enough clients typed
    queries_by_clients: Counter[int]  # how many queries were typed by how many clients
    lines_by_clients: Counter[int]  # the lines of these queries
    clicks_by_clients: Counter[int]  # the clicks of these queries
    repeats: int  # clicked lines on a pair that the same client has clicked before
    clients_by_most_per_hour: Counter[int] | None  # by their searches in their busiest hour; None without times
    bots: int  # clients with more than MANY_PER_HOUR
    busiest: tuple[tuple[str, int], ...]  # some of these, with the searches in their busiest hour, most first
    bot_lines: int
    identical: int | None  # lines that repeat an earlier line in every column; None without times


@dataclass
class ClientCounter:
    """Add the blocks of a log that has clients, then call `finish`."""

    k_anonymous: int | None = None
    sessions: bool = False
    lines: int = 0
    has_times: bool = True
    identified_clicks: int = 0
    clients: Groups = field(default_factory=lambda: Groups(sums=1))  # sum: lines
    typed: Groups = field(default_factory=lambda: Groups(tags=1, sums=2))  # tag: query; sums: lines, clicks
    searches: Groups = field(default_factory=lambda: Groups(tags=2))  # tags: client, client and hour
    clicked: Groups = field(default_factory=Groups)  # (client, query, title)
    exact: Groups = field(default_factory=Groups)  # whole lines
    pseudonym: Pseudonyms = field(default_factory=Pseudonyms)

    def add(self, events: Events, query: Keys, title: Keys) -> None:
        """Count a block: `query` has the hashes of the canonical queries, `title` those of the clicked titles."""
        assert events.clients is not None
        self.lines += len(query)
        client = hash_clients(events.clients, len(query)).view(np.uint64)
        known = client != NO_CLIENT
        self.sessions |= events.sessions
        self.clients.add(client[known], (), (np.ones(int(known.sum())),))
        lines = mix(query[known], client[known])
        self.typed.add(lines, (query[known],), (np.ones(len(lines)), events.clicks[known]))
        is_clicked = events.clicks > 0
        by_known = known[is_clicked]
        pair = mix(client[is_clicked], query[is_clicked], title)[by_known]
        self.identified_clicks += len(pair)
        self.clicked.add(pair)
        self.has_times &= events.times is not None
        if events.times is not None and self.has_times:
            time = events.times.view(np.uint64)
            self._add_searches(client[known], time[known], query[known])
            columns = [hash_texts(events.queries), hash_texts(events.titles), client, time]
            columns.append(events.clicks.view(np.uint64))
            if events.positions is not None:
                columns.append(events.positions.astype(np.uint64))
            self.exact.add(mix(*columns))

    def _add_searches(self, client: Keys, time: Keys, query: Keys) -> None:
        """Add searches. The titles of a result page are consecutive lines, so most repeats are dropped at once."""
        search = mix(client, time, query)
        new = np.concatenate(([True], search[1:] != search[:-1])) if len(search) else np.zeros(0, bool)
        client, hour = client[new], time[new] // np.uint64(HOUR)
        self.searches.add(search[new], (client, mix(client, hour)))

    def finish(self) -> ClientCounts:
        """Return the counts."""
        queries, lines, clicks = Counter[int](), Counter[int](), Counter[int]()
        shown = [np.zeros(0, np.uint64)]
        for part in self.typed.parts():
            _, query, (clients, of_query, clicked) = sum_by(part.tags[0], np.ones(len(part)), *part.sums)
            number = clients.astype(np.int64)
            shown.append(query[may_show(number, self.k_anonymous)])
            for counter, weights in ((queries, None), (lines, of_query), (clicks, clicked)):
                sums = np.bincount(number, weights)
                counter.update({at: float(sums[at]) for at in np.flatnonzero(sums).tolist()})
        busiest, bots, most = self._busiest()
        names, by_client = np.zeros(0, np.uint64), np.zeros(0)
        for part in self.clients.parts():
            names, by_client = np.append(names, part.keys), np.append(by_client, part.sums[0])
        return ClientCounts(
            self.sessions, np.sort(by_client.astype(np.int64))[::-1], self._most(names, by_client),
            np.concatenate(shown), queries, lines, clicks,
            self.identified_clicks - self.clicked.count(),
            busiest if self.has_times else None,
            len(bots), self._most(bots, most), int(by_client[np.isin(names, bots)].sum()),
            self.lines - self.exact.count() if self.has_times else None,
        )  # fmt: skip

    def _most(self, clients: Keys, values: NDArray[Any]) -> tuple[tuple[str, int], ...]:
        """Return the clients with the largest values under their pseudonyms."""
        order = np.argsort(-values, kind="stable")[:BUSIEST]
        return tuple((self.pseudonym(int(clients[at])), int(values[at])) for at in order)

    def _busiest(self) -> tuple[Counter[int], Keys, NDArray[np.int64]]:
        """Return how many clients have how many searches in their busiest hour, the bots, and their searches."""
        clients, bots, rates = Counter[int](), [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for part in self.searches.parts() if self.has_times else ():
            client, client_hour = part.tags
            _, first, searches = np.unique(client_hour, return_index=True, return_counts=True)
            names, of_client = np.unique(client[first], return_inverse=True)
            most = np.zeros(len(names), np.int64)
            np.maximum.at(most, of_client, searches)
            clients.update(most.tolist())
            bots.append(names[most > MANY_PER_HOUR])
            rates.append(most[most > MANY_PER_HOUR])
        return clients, np.concatenate(bots), np.concatenate(rates)

    def close(self) -> None:
        """Remove the temporary files."""
        for groups in (self.clients, self.typed, self.searches, self.clicked, self.exact):
            groups.close()
