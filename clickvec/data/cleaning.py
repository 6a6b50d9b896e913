"""Clean a click log: mask secrets, merge repeated clicks, drop bots, listed, long, rare and identifying queries.

Without clients and without options only secrets are masked. The rules run in the order of `Cleaning`, here in memory;
sql_cleaning.py does the same to a log on disk, and a test compares the two.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.clicks import ClickLog
from clickvec.data.privacy import K_ANONYMOUS, may_show
from clickvec.data.secrets import mask, may_have_secret
from clickvec.errors import ClickvecError
from clickvec.native.words import AnyTokenTable, token_table
from clickvec.text.tokens import canonical, text_blocks
from clickvec.text.trigrams import Tokens

logger = logging.getLogger(__name__)
NO_CLIENT = 0
MUCH = 0.5  # a rule that drops a larger share of the clicks says so before
HOUR = 3600
_AT_ONCE = 2**15
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Cleaning:
    """What is dropped from a click log. 0 turns a rule off. Rules about clients and times need logs that have them.

    A search is a query at a second. An unknown (blank) client is nobody: such lines are in no bot and in no duplicate.
    """

    keep_secrets: bool = False
    drop_clients: frozenset[str] = frozenset()
    max_per_client: int = 0  # drop all lines of a client with more lines than this
    max_per_hour: int = 0  # drop all lines of a client with more searches than this in a clock hour
    merge_minutes: int = 30  # a client's click on the same title for the same query counts once within this time
    drop_queries: frozenset[str] = frozenset()  # in canonical form
    max_query_words: int = 0
    k_anonymous: int | None = None  # drop queries that fewer clients typed; None: see `least_clients`
    min_clicks: float = 0  # drop queries with fewer clicks

    def least_clients(self, sessions: bool) -> int:
        """Return how many clients must have typed a query.

        By default 3, and 0 if the log names only sessions: several of them may be one person's, so the rule would drop
        much and protect little.
        """
        if self.k_anonymous is None:
            return 0 if sessions else K_ANONYMOUS
        return self.k_anonymous

    @classmethod
    def with_lists(cls, queries: Iterable[str], clients: Iterable[str], **rules: float | None) -> "Cleaning":
        """Return rules that drop listed queries, in any spelling of case and white space, and listed clients."""
        return cls(
            drop_queries=frozenset(map(canonical, queries)),
            drop_clients=frozenset(map(str.strip, clients)),
            **rules,  # type: ignore[arg-type]
        )


class Left(NamedTuple):
    """What is left of a log."""

    lines: int
    queries: int
    clicks: float


class Dropped(NamedTuple):
    """What one rule dropped."""

    rule: str
    lines: int
    queries: int  # that have no line left


@dataclass
class CleaningReport:
    """What cleaning changed: the secrets that were masked in distinct texts, by kind, and what each rule dropped."""

    secrets: Counter[str] = field(default_factory=Counter)
    dropped: list[Dropped] = field(default_factory=list)
    clicks: dict[str, tuple[float, float]] = field(default_factory=dict)  # before and after each rule
    frequent: list[str] = field(default_factory=list)  # queries that may be shown, if they were asked for
    only_sessions: bool = False  # whether k-anonymity was not applied because the log names no users

    def add(self, rule: str, before: Left, after: Left) -> None:
        """Add what a rule drops."""
        self.dropped.append(Dropped(rule, before.lines - after.lines, before.queries - after.queries))
        self.clicks[rule] = before.clicks, after.clicks

    def warn(self, rule: str, rules: Cleaning) -> None:
        """Log a warning if a rule drops most of the clicks, with the option that keeps them."""
        before, after = self.clicks[rule]
        if after >= (1 - MUCH) * before:
            return
        value = rules.least_clients(sessions=False) if rule == "k_anonymous" else getattr(rules, rule)
        given = _option(rule) if isinstance(value, frozenset) else f"{_option(rule)} {value:g}"
        keep = f"give no {_option(rule)}" if isinstance(value, frozenset) else f"give {_option(rule)} 0"
        logger.warning(
            "%s drops %s of %s clicks (%.0f%%): %s. To keep them, %s to clickvec prepare, up or retrain",
            given, f"{before - after:,.0f}", f"{before:,.0f}", 100 * (before - after) / before,
            _DROPS[rule].format(value), keep,
        )  # fmt: skip

    def mask(self, texts: Sequence[str]) -> list[str]:
        """Return canonical texts with their secrets masked, and count the secrets."""
        masked, found = mask(texts)
        self.secrets += found
        return list(map(canonical, masked)) if found else masked

    def check_left(self, left: int) -> None:
        """Raise if no click is left."""
        if not left:
            most = max(self.dropped, key=lambda dropped: dropped.lines)
            raise ClickvecError(
                f"cleaning leaves no click: {_option(most.rule)} alone drops {most.lines:,} lines. "
                f"Give clickvec prepare another value for {_option(most.rule)}; 0 keeps all"
            )

    def as_json(self) -> dict[str, object]:
        """Return the report for programs."""
        dropped = {rule: {"lines": lines, "queries": queries} for rule, lines, queries in self.dropped}
        return {"secrets": dict(sorted(self.secrets.items())), "dropped": dropped}

    def __str__(self) -> str:
        """Return the report for people, one line for each rule."""
        secrets = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.secrets.items()))
        return "\n".join(
            [f"Masked secrets in queries: {secrets}. {_KEEP}"] * bool(secrets)
            + [_NO_USERS] * self.only_sessions
            + [
                f"Dropped by {_option(rule)}: {lines:,} lines; {queries:,} queries have none left"
                for rule, lines, queries in self.dropped
                if lines
            ]
        )


_DROPS = {
    "drop_clients": "the lines of the listed clients",
    "max_per_client": "the lines of clients with more than {:,} lines",
    "max_per_hour": "the lines of clients with more than {:,} searches in an hour",
    "merge_minutes": "a client's clicks on the same title within {:,} minutes",
    "drop_queries": "the listed queries",
    "max_query_words": "queries of more than {:,} words",
    "k_anonymous": "queries that fewer than {:,} clients typed",
    "min_clicks": "queries with fewer than {:,} clicks",
}
_KEEP = "If these are article numbers, prepare and up keep them with --keep-secrets"
_NO_USERS = (
    "The log names sessions and no users, so rare queries are kept. --k-anonymous 3 drops queries of fewer than 3 "
    "sessions; --columns client=COLUMN names a column of users"
)


def _option(rule: str) -> str:
    return f"--{rule.replace('_', '-')}"


def clean(
    log: ClickLog, rules: Cleaning, known: Tokens = (), *, has_clients: bool = False, is_part: bool = False
) -> tuple[ClickLog, CleaningReport]:
    """Return a log without what the rules drop, and a report. `known` are queries that k_anonymous and min_clicks keep.

    A rule that drops most of the clicks logs a warning. Raise ClickvecError if no click is left. If it `is_part` of a
    log, neither is done; `has_clients` then tells whether the log has clients, whether this part has some or not.
    """
    report = CleaningReport()
    if not rules.keep_secrets:
        log = _mask_log(log, report)
    any_clients = has_clients or any(part.clients is not None for part in (log, log.shown) if part)
    if not (any_clients or rules.drop_queries or rules.max_query_words or rules.min_clicks):
        return replace(log, is_clean=True), report
    lines = _Lines(log, known)
    lines.has_clients |= has_clients
    report.only_sessions = lines.has_clients and log.sessions and rules.k_anonymous is None
    for rule, dropped in _rules(lines, rules):
        report.add(rule, lines.left(lines.keep), lines.left(lines.keep & ~dropped))
        if not is_part:
            report.warn(rule, rules)
        lines.keep &= ~dropped
    if not lines.keep.all():
        if not is_part:
            report.check_left(int(lines.keep[: len(log)].sum()))
        shown = None if log.shown is None else _select(log.shown, lines.keep[len(log) :])
        log = replace(_select(log, lines.keep[: len(log)]), shown=shown if shown else None)
    return replace(log, is_clean=True), report


class _Lines:
    """The lines of a log as numbers: first the clicked ones, then those that were only shown."""

    def __init__(self, log: ClickLog, known: Tokens) -> None:
        self.log, self.parts = log, [log] if log.shown is None else [log, log.shown]
        table = token_table(0)
        for first in range(0, len(known), _AT_ONCE):
            table.read(list(known[first : first + _AT_ONCE]))
        self.known = len(table)
        self.query = _numbers(table, [text for part in self.parts for text in part.queries])
        self.queries: Tokens = table
        self.clicks = np.concatenate([part.clicks for part in self.parts])
        self.keep = np.ones(len(self.query), bool)
        clients = [hash_clients(part.clients, len(part)) for part in self.parts]
        self.client = np.concatenate(clients)
        self.has_clients = bool((self.client != NO_CLIENT).any())
        times = [part.times for part in self.parts if part.times is not None]
        self.time = np.concatenate(times) if len(times) == len(self.parts) else None

    def left(self, keep: Mask) -> Left:
        return Left(int(keep.sum()), len(np.unique(self.query[keep])), float(self.clicks[keep].sum()))

    def of_queries(self, dropped: Mask) -> Mask:
        """Return the lines of the queries that are to be dropped."""
        return dropped[self.query]


def _rules(lines: _Lines, rules: Cleaning) -> Iterator[tuple[str, Mask]]:
    """Yield the rules that apply, with the lines that each drops. A rule sees what those before it have left."""
    if rules.drop_clients and lines.has_clients:
        yield "drop_clients", np.isin(lines.client, hash_clients(list(rules.drop_clients), len(rules.drop_clients)))
    if rules.max_per_client and lines.has_clients:
        clients, numbers = np.unique(lines.client[lines.keep], return_counts=True)
        heavy = clients[(numbers > rules.max_per_client) & (clients != NO_CLIENT)]
        yield "max_per_client", np.isin(lines.client, heavy)
    if rules.max_per_hour and lines.has_clients and lines.time is not None:
        yield "max_per_hour", np.isin(lines.client, _bots(lines, lines.time, rules.max_per_hour))
    if rules.merge_minutes and lines.has_clients and lines.time is not None:
        yield "merge_minutes", _repeated(lines, lines.time, 60 * rules.merge_minutes)
    if rules.drop_queries:
        yield "drop_queries", lines.of_queries(_listed(lines.queries, rules.drop_queries))
    if rules.max_query_words:
        yield "max_query_words", lines.of_queries(_long(lines.queries, rules.max_query_words))
    least = rules.least_clients(lines.log.sessions)
    if least and lines.has_clients:
        yield "k_anonymous", lines.of_queries(_fewer(lines, _clients_of_queries(lines), least))
    if rules.min_clicks:
        clicks = np.bincount(lines.query[lines.keep], lines.clicks[lines.keep])
        yield "min_clicks", lines.of_queries(_fewer(lines, clicks, rules.min_clicks))


def _clients_of_queries(lines: _Lines) -> NDArray[np.int64]:
    """Return how many clients typed each query. Queries without any may be left out at the end."""
    identified = lines.keep & (lines.client != NO_CLIENT)
    typed, _ = _distinct(lines.query[identified], lines.client[identified])
    return np.bincount(typed)


def frequent_queries(log: ClickLog, most: int, k_anonymous: int | None = None) -> list[str]:
    """Return the queries with the most clicks of a clean log, only those that may be shown (privacy.py)."""
    lines = _Lines(log, ())
    clicks = np.bincount(lines.query, lines.clicks)
    typed: NDArray[Any] = clicks
    if lines.has_clients:
        typed = _clients_of_queries(lines)
        typed = np.pad(typed, (0, len(clicks) - len(typed)))
    order = np.argsort(-clicks, kind="stable")
    chosen = order[(may_show(typed, k_anonymous) & (clicks > 0))[order]][:most]
    texts = lines.queries[:]
    return [texts[at] for at in chosen.tolist()]


def _fewer(lines: _Lines, counts: NDArray[np.number], least: float) -> Mask:
    """Return which queries have fewer than this, without those that are known already."""
    few = np.ones(len(lines.queries), bool)
    few[: len(counts)] = counts < least
    few[: lines.known] = False
    return few


def _bots(lines: _Lines, time: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the clients with more searches in a clock hour than a person makes."""
    chosen = lines.keep & (lines.client != NO_CLIENT)
    client, seconds, _ = _distinct(lines.client[chosen], time[chosen], lines.query[chosen])
    starts = np.flatnonzero(_changes(client, seconds // HOUR))
    return client[starts[np.diff(starts, append=len(client)) > most]]


def _repeated(lines: _Lines, time: NDArray[np.int64], seconds: int) -> Mask:
    """Return the clicks that follow the same client's click on the same pair within some seconds."""
    title = _numbers(token_table(0), lines.log.titles)
    chosen = np.flatnonzero(lines.keep[: len(title)] & (lines.client[: len(title)] != NO_CLIENT))
    pair, at = (lines.client[chosen], lines.query[chosen], title[chosen]), time[chosen]
    order = np.lexsort((at, *pair))
    later = ~_changes(*(column[order] for column in pair))
    later[1:] &= np.diff(at[order]) <= seconds
    repeated = np.zeros(len(lines.keep), bool)
    repeated[chosen[order[later]]] = True
    return repeated


def _distinct(*columns: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the distinct rows of some columns, sorted."""
    order = np.lexsort(columns[::-1])
    ordered = [column[order] for column in columns]
    new = _changes(*ordered)
    return [column[new] for column in ordered]


def _changes(*columns: NDArray[Any]) -> Mask:
    """Return which rows differ from the row before. The first one does."""
    changes = np.ones(len(columns[0]), bool)
    changes[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changes


def _listed(queries: Tokens, listed: frozenset[str]) -> Mask:
    return np.array([text in listed for text in queries[:]], bool)


def _long(queries: Tokens, words: int) -> Mask:
    return np.array([text.count(" ") >= words for text in queries[:]], bool)


def hash_clients(clients: Sequence[str] | None, size: int) -> NDArray[np.int64]:
    """Return 64 bits for each client, NO_CLIENT for a blank one. The hash holds within this process only."""
    if clients is None:
        return np.full(size, NO_CLIENT, np.int64)
    return np.fromiter(map(hash, map(str.strip, clients)), np.int64, size)  # hash("") is 0


def _numbers(table: AnyTokenTable, texts: list[str]) -> NDArray[np.int32]:
    """Return the number of each text in a table of distinct texts."""
    blocks = text_blocks(texts, _AT_ONCE)
    return np.concatenate([np.zeros(0, np.int32), *(table.read(block).values for block in blocks)])


def _mask_log(log: ClickLog, report: CleaningReport) -> ClickLog:
    """Mask the secrets in the queries of a log. Titles are documents, which an index shows as they are."""
    parts = [log] if log.shown is None else [log, log.shown]
    queries = _mask_texts([part.queries for part in parts], report)
    parts = [replace(part, queries=texts) for part, texts in zip(parts, queries, strict=True)]
    return replace(parts[0], shown=parts[1]) if parts[1:] else parts[0]


def _mask_texts(lists: list[list[str]], report: CleaningReport) -> list[list[str]]:
    """Mask each distinct text once. Other texts stay as they are in the file."""
    suspects = [_suspects(texts) for texts in lists]
    table = token_table(0)
    numbers = [_numbers(table, [texts[row] for row in rows]) for texts, rows in zip(lists, suspects, strict=True)]
    before = table[:]
    after = report.mask(before)
    is_secret = np.array([text != old for text, old in zip(after, before, strict=True)], bool)
    if not is_secret.any():
        return lists
    copies = [list(texts) for texts in lists]
    for texts, rows, number in zip(copies, suspects, numbers, strict=True):
        for at in np.flatnonzero(is_secret[number]).tolist():
            texts[rows[at]] = after[number[at]]
    return copies


def _suspects(texts: list[str]) -> list[int]:
    """Return the lines that may have a secret."""
    found = [may_have_secret(block) for block in text_blocks(texts, _AT_ONCE)]
    suspects: list[int] = np.flatnonzero(np.concatenate([np.zeros(0, bool), *found])).tolist()
    return suspects


def _select(log: ClickLog, keep: Mask) -> ClickLog:
    chosen = keep.tolist()
    return replace(
        log,
        queries=list(compress(log.queries, chosen)),
        titles=list(compress(log.titles, chosen)),
        clicks=log.clicks[keep],
        clients=None if log.clients is None else list(compress(log.clients, chosen)),
        times=None if log.times is None else log.times[keep],
        positions=None if log.positions is None else log.positions[keep],
    )
