"""Findings about clients: who searches, bots by inhuman rates, and queries that may identify a person."""

import math
from collections.abc import Iterator

import numpy as np

from clickvec.data.privacy import K_ANONYMOUS
from clickvec.doctor.client_counts import MANY_PER_HOUR, ClientCounts
from clickvec.doctor.cures import Cures
from clickvec.doctor.finding import NOTHING, Finding, Plot, count_of, percent
from clickvec.doctor.line_counts import Counted

K = K_ANONYMOUS
HEAVY_SHARE, HEAVY_TIMES, HEAVY_LINES = 0.01, 1_000, 1_000  # see _heaviest
HOURLY = (1, 2, 5, 10, 20, 60, MANY_PER_HOUR)  # upper ends of the bars of searches per hour


def client_findings(counted: Counted, cures: Cures) -> Iterator[Finding]:
    """Yield all findings of this module."""
    found = counted.clients
    if found is None or not len(found.lines_by_client):
        yield Finding(
            "clients", "Clients", "The log does not say who searched.",
            "Add a column client (a user, session or cookie): bots and rare queries can then be left out.",
            {"clients": None},
        )  # fmt: skip
        return
    yield _heaviest(found, counted.lines, cures)
    yield _bots(counted, cures)
    yield _anonymity(counted, cures)


def _heaviest(found: ClientCounts, every: int, cures: Cures) -> Finding:
    """Report the clients with most lines. A heavy one has more than a share of the log, or than many median clients."""
    lines = found.lines_by_client
    median = float(np.median(lines))
    kind = "session" if found.sessions else "client"
    text = f"{count_of(len(lines), kind)}. The median {kind} has {count_of(median, 'line')}, "
    text += f"the busiest {lines[0]:,} ({percent(int(lines[0]), every)})."
    if found.sessions:
        text += " A session is not a user: one person may have several, so by default training keeps rare queries."
    most = max(HEAVY_LINES, math.ceil(min(HEAVY_SHARE * every, HEAVY_TIMES * median)))
    heavy = int(np.count_nonzero(lines > most))
    advice, cure, examples = NOTHING, "", tuple[str, ...]()
    if heavy:
        share = percent(int(lines[:heavy].sum()), every)
        text += (
            f" {count_of(heavy, kind)} {'has' if heavy == 1 else 'have'} more than {most:,} lines: {share} of the log."
        )
        advice, cure = "Hardly people. To leave them out:", cures.prepare("--max-per-client", str(most))
        examples = tuple(f"{client}: {count:,} lines" for client, count in found.heaviest[:heavy])
    numbers = {"clients": len(lines), "sessions": found.sessions, "median_lines": median,
               "busiest_lines": int(lines[0]), "heavy": heavy, "heavy_lines": most}  # fmt: skip
    return Finding("clients", "Clients", text, advice, numbers, examples, act=heavy > 0, cure=cure)


def _bots(counted: Counted, cures: Cures) -> Finding:
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
    advice, cure = NOTHING, ""
    if found.bots:
        advice, cure = "To leave them out:", cures.prepare("--max-per-hour", str(MANY_PER_HOUR))
    bars = [0] * (len(HOURLY) + 1)
    for rate, clients in by_rate.items():
        bars[sum(rate > end for end in HOURLY)] += clients
    labels = [f"up to {end}" for end in HOURLY]
    plot = Plot("Clients by searches in their busiest hour", "bars", (*labels, f"more than {MANY_PER_HOUR}"),
                tuple(map(float, bars)))  # fmt: skip
    numbers = {"bots": found.bots, "bot_lines": found.bot_lines, "per_hour": MANY_PER_HOUR,
               "most_per_hour": max(by_rate, default=0)}  # fmt: skip
    examples = tuple(f"{client}: {searches:,} searches in an hour" for client, searches in found.busiest)
    return Finding("bots", "Bots", text, advice, numbers, examples, (plot,), found.bots > 0, cure)


def _anonymity(counted: Counted, cures: Cures) -> Finding:
    found = counted.clients
    assert found is not None
    queries, lines, clicks = (
        sum(count for number, count in counter.items() if number < K)
        for counter in (found.queries_by_clients, found.lines_by_clients, found.clicks_by_clients)
    )
    every = sum(found.queries_by_clients.values())
    kind = "sessions" if found.sessions else "clients"
    text = (
        f"Fewer than {K} {kind} typed {percent(queries, every)} of the queries, with "
        f"{percent(clicks, counted.clicks)} of the clicks. Such a query may identify a person."
    )
    numbers = {"k": K, "queries": queries, "of_queries": every, "lines": lines, "clicks": clicks}
    act = clicks > counted.clicks / 2 and not found.sessions
    advice, cure = NOTHING, ""
    if queries and found.sessions:
        advice, cure = "Training keeps them. To drop them:", cures.prepare("--k-anonymous", str(K))
    elif queries:
        advice, cure = "Training drops them. To keep them:", cures.prepare("--k-anonymous", "0")
    return Finding("k_anonymity", "k-anonymity", text, advice, numbers, act=act, cure=cure)
