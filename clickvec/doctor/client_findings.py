"""Findings about clients: who searches, bots by inhuman rates, and queries that may identify a person."""

from collections.abc import Iterator

import numpy as np

from clickvec.data.cleaning import Cleaning
from clickvec.doctor.client_counts import MANY_PER_HOUR
from clickvec.doctor.finding import NOTHING, Finding, Plot, count_of, percent
from clickvec.doctor.line_counts import Counted

K = Cleaning.k_anonymous
HOURLY = (1, 2, 5, 10, 20, 60, MANY_PER_HOUR)  # upper ends of the bars of searches per hour


def client_findings(counted: Counted) -> Iterator[Finding]:
    """Yield all findings of this module."""
    found = counted.clients
    if found is None or not len(found.lines_by_client):
        yield Finding(
            "clients", "Clients", "The log does not say who searched.",
            "Add a column client (a user, session or cookie): bots and rare queries can then be left out.",
            {"clients": None},
        )  # fmt: skip
        return
    lines = found.lines_by_client
    median = float(np.median(lines))
    text = f"{count_of(len(lines), 'client')}. The median client has {count_of(median, 'line')}, "
    text += f"the busiest {lines[0]:,} ({percent(int(lines[0]), counted.lines)})."
    numbers = {"clients": len(lines), "median_lines": median, "busiest_lines": int(lines[0])}
    yield Finding("clients", "Clients", text, NOTHING, numbers)
    yield _bots(counted)
    yield _anonymity(counted)


def _bots(counted: Counted) -> Finding:
    found = counted.clients
    assert found is not None
    by_rate = found.clients_by_most_per_hour
    if by_rate is None:
        text = "Without times, bots cannot be told from people who search a lot."
        return Finding("bots", "Bots", text, "Add a column time.", {"bots": None})
    text = (
        f"{count_of(found.bots, 'client')} made more than {MANY_PER_HOUR} searches in an hour, as hardly a person does"
    )
    text += f": {percent(found.bot_lines, counted.lines)} of the lines." if found.bots else "."
    advice = NOTHING
    if found.bots:
        advice = f"Leave them out: clickvec prepare LOG --max-per-hour {MANY_PER_HOUR} --out data."
    bars = [0] * (len(HOURLY) + 1)
    for rate, clients in by_rate.items():
        bars[sum(rate > end for end in HOURLY)] += clients
    labels = [f"up to {end}" for end in HOURLY]
    plot = Plot("Clients by searches in their busiest hour", "bars", (*labels, f"more than {MANY_PER_HOUR}"),
                tuple(map(float, bars)))  # fmt: skip
    numbers = {"bots": found.bots, "bot_lines": found.bot_lines, "per_hour": MANY_PER_HOUR,
               "most_per_hour": max(by_rate, default=0)}  # fmt: skip
    examples = tuple(f"{client}: {searches:,} searches in an hour" for client, searches in found.busiest)
    return Finding("bots", "Bots", text, advice, numbers, examples, (plot,), found.bots > 0)


def _anonymity(counted: Counted) -> Finding:
    found = counted.clients
    assert found is not None
    queries, lines, clicks = (
        sum(count for number, count in counter.items() if number < K)
        for counter in (found.queries_by_clients, found.lines_by_clients, found.clicks_by_clients)
    )
    every = sum(found.queries_by_clients.values())
    text = (
        f"Fewer than {K} clients typed {percent(queries, every)} of the queries, with "
        f"{percent(clicks, counted.clicks)} of the clicks. Such a query may identify a person."
    )
    numbers = {"k": K, "queries": queries, "of_queries": every, "lines": lines, "clicks": clicks}
    act = clicks > counted.clicks / 2
    advice = NOTHING
    if queries:
        advice = "prepare and train drop them. To keep them: clickvec prepare LOG --k-anonymous 0 --out data."
    return Finding("k_anonymity", "k-anonymity", text, advice, numbers, act=act)
