"""Read click logs into memory: (query, title, clicks), or every impression with whether it was clicked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.events import Events
from clickvec.data.logs import read_events
from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.given_table import is_table, table_name
from clickvec.data.parsing.lines import MAX_BAD, BadLines
from clickvec.data.parsing.open_files import name_of
from clickvec.data.parsing.source import Given
from clickvec.errors import check_type


@dataclass(frozen=True, repr=False)
class ClickLog:
    """Pairs of (query, clicked title) with their clicks, in the order of the log. A pair may occur several times.

    Clients and positions are None if no file has them; where one of several files has none, they are "" and 0. Times
    are None unless all files have them.
    """

    queries: list[str]
    titles: list[str]
    clicks: NDArray[np.float64]
    bad: BadLines = field(default_factory=BadLines)
    clients: list[str] | None = None
    times: NDArray[np.int64] | None = None  # seconds since 1970, UTC
    positions: NDArray[np.int32] | None = None  # the first is 1; 0 is unknown
    shown: "ClickLog | None" = None  # what was shown and not clicked (clicks are 0); None if there are no such lines
    sessions: bool = False  # whether some clients are sessions, several of which may be one person's
    is_clean: bool = False  # whether `clean` has made it, by rules that its user chose

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.queries)

    def __repr__(self) -> str:
        """Show how much the log holds, and its first pair."""
        known = {"clients": self.clients, "times": self.times, "positions": self.positions}
        columns = "".join(f", {name}" for name, column in known.items() if column is not None)
        shown = f", {len(self.shown):,} shown and not clicked" if self.shown else ""
        bad = f", {self.bad.count:,} bad lines" if self.bad.count else ""
        first = f": {self.queries[0][:40]!r} -> {self.titles[0][:60]!r}" if self.queries else ""
        return f"ClickLog({len(self):,} pairs with clicks{columns}{shown}{bad}{first})"


def read_clicks(
    paths: Given,
    max_bad: float = MAX_BAD,
    columns: Columns | Mapping[str, str] = OWN_NAMES,
    catalogue: Given | None = None,
    queries: Given | None = None,
) -> ClickLog:
    """Read a click log into memory: TSV, CSV (.csv), JSON lines (.jsonl) or Parquet, plain, gzip or zstd.

    `paths` are files, patterns such as logs/*.tsv.gz, folders or -; or a table in memory: a DataFrame of pandas or
    polars, a Table of pyarrow, a list of dicts or of tuples (query, title[, clicks]).

    The columns are query, title and, optionally, clicks, client, time and position; or those of impressions, with a
    column `clicked`. They are found by their usual names, or `columns` maps these names to the names in the files, as
    in {"query": "search_term"}; what is nested has a dotted name, such as items.item_name. A log of ids is joined to
    `catalogue` and `queries`, which are files or tables of ids and texts. Logs of UBI, GA4, ORCAS and AOL, BEIR
    folders and TREC qrels are recognised.

    Lines with 0 clicks are in `.shown`. Bad lines are skipped, counted and listed in `.bad`; good lines that give no
    pair are in `.bad.unused`. ClickvecError is raised if more than `max_bad` of the lines are bad, or no pair is left.
    """
    paths = list(paths) if isinstance(paths, Iterator) else paths
    check_type("max_bad", max_bad, (int, float), "a share of the lines, such as 0.01")
    names = columns if isinstance(columns, Columns) else Columns(columns)
    bad = BadLines()
    blocks = read_events(paths, names, catalogue=catalogue, queries=queries, bad=bad, max_bad=max_bad)
    log = collect(blocks, bad)
    bad.check(describe_files(paths), max_bad, len(log), "pair with a click")
    if names is not columns:  # nobody else can check the names of a mapping
        names.check_used(in_python=True)
    return log


def describe_files(paths: Given) -> str:
    """Return the name of a log in messages: that of its first file."""
    files = paths if isinstance(paths, list | tuple) and not is_table(paths) else [paths]
    if not files:
        return "the click log"
    name = table_name(files[0]) if is_table(files[0]) else name_of(Path(files[0]))
    return name + (f" and {len(files) - 1} more" if files[1:] else "")


def collect(blocks: Iterable[Events], bad: BadLines) -> ClickLog:
    """Return the lines of a log, the clicked ones and those that were only shown."""
    clicked, shown = _Lines(), _Lines()
    for events in blocks:
        mask = events.clicks > 0
        if mask.all():
            clicked.add(events)
        else:
            clicked.add(events.where(mask))
            shown.add(events.where(~mask))
    return clicked.log(bad, shown.log(BadLines()) if shown.queries else None)


class _Lines:
    """Blocks of events that become one log."""

    def __init__(self) -> None:
        self.queries, self.titles, self.clients = list[str](), list[str](), list[str]()
        self.clicks = list[NDArray[np.float64]]()
        self.times, self.positions = list[NDArray[np.int64] | None](), list[NDArray[np.int32] | None]()
        self.any_clients = self.sessions = False

    def add(self, events: Events) -> None:
        self.queries += events.queries
        self.titles += events.titles
        self.clicks.append(events.clicks)
        self.any_clients |= events.clients is not None
        self.sessions |= events.sessions
        self.clients += [""] * len(events.queries) if events.clients is None else events.clients
        self.times.append(events.times)
        self.positions.append(events.positions)

    def log(self, bad: BadLines, shown: ClickLog | None = None) -> ClickLog:
        times = [block for block in self.times if block is not None]
        positions = None
        if any(block is not None for block in self.positions):
            sizes = map(len, self.clicks)
            blocks = zip(sizes, self.positions, strict=True)
            positions = _joined([np.zeros(n, np.int32) if block is None else block for n, block in blocks], np.int32)
        return ClickLog(
            self.queries,
            self.titles,
            _joined(self.clicks, np.float64),
            bad,
            self.clients if self.any_clients else None,
            _joined(times, np.int64) if times and len(times) == len(self.times) else None,
            positions,
            shown,
            self.sessions or bool(shown and shown.sessions),
        )


def _joined(blocks: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *blocks])
