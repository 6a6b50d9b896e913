"""The two tasks of preparing a log on a cluster: read a file, and clean the lines of some of the queries.

All rules of cleaning but one look at the lines of one query only. So the lines are divided among the tasks by a hash of
their query, after its secrets are masked, and each task cleans as `cleaning.clean` does for a whole log. Each line
keeps its number in the whole log, by which texts get their final order.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.cleaning import Cleaning, CleaningReport, clean
from clickvec.data.clicks import collect
from clickvec.data.events import Events
from clickvec.data.logs import read_events
from clickvec.data.parsing.columns import Columns
from clickvec.data.parsing.lines import BadLines
from clickvec.native.words import token_table

LINES_OF_A_FILE = 2**40  # more than any file has: the numbers of lines are in the order of the files
_NO_LINES = np.zeros(0, np.int64)


class ReadFile(NamedTuple):
    """What reading one file found, beside its lines."""

    bad: BadLines
    columns: Columns
    report: CleaningReport  # of the secrets
    clicked: int  # lines with a click
    has_clients: bool
    has_times: bool
    has_positions: bool
    sessions: bool


class Whole(NamedTuple):
    """What is known about the log when all files are read."""

    has_clients: bool
    has_times: bool
    has_positions: bool
    sessions: bool


class CleanPart(NamedTuple):
    """The clean lines of some queries, and what cleaning dropped."""

    events: Events
    report: CleaningReport
    clicked: int


def read_part(path: Path, number: int, columns: Columns, keep_secrets: bool, parts: int) -> list[ReadFile | Events]:
    """Read one file of a log. Return what was found, and then its lines in as many parts, by query."""
    bad, report, blocks = BadLines(), CleaningReport(), list[Events]()
    queries, titles = token_table(0), token_table(0)
    numbers = list[tuple[NDArray[np.int32], NDArray[np.int32]]]()
    for block in read_events([path], columns, bad=bad):
        numbers.append((queries.read(list(block.queries)).values, titles.read(list(block.titles)).values))
        blocks.append(block._replace(queries=(), titles=()))
    query_texts, title_texts = queries[:] if keep_secrets else report.mask(queries[:]), titles[:]
    part_of_query = np.array([part_of(text, parts) for text in query_texts], np.int64)
    clicked = sum(int(np.count_nonzero(block.clicks)) for block in blocks)
    has_clients = any(block.clients is not None and any(map(str.strip, block.clients)) for block in blocks)
    has_times = all(block.times is not None for block in blocks)
    has_positions = any(block.positions is not None for block in blocks)
    sessions = any(block.sessions for block in blocks)
    found = ReadFile(bad, columns, report, clicked, has_clients, has_times, has_positions, sessions)
    lines, divided = number * LINES_OF_A_FILE, list[list[Events]]([] for _ in range(parts))
    for block, (query, title) in zip(blocks, numbers, strict=True):
        whole = block._replace(
            queries=[query_texts[at] for at in query.tolist()], titles=[title_texts[at] for at in title.tolist()],
            lines=lines + np.arange(len(query)),
        )  # fmt: skip
        lines += len(query)
        belongs = part_of_query[query]
        for part in np.unique(belongs).tolist():
            divided[part].append(whole.where(belongs == part))
    return [found, *(together(some) for some in divided)]


def part_of(query: str, parts: int) -> int:
    """Return the part that a query belongs to, the same in every process."""
    return zlib.crc32(query.encode("utf-8", "surrogatepass")) % parts


def together(blocks: Sequence[Events]) -> Events:
    """Return the lines of all blocks. A column that only some blocks have is blank in the others."""
    in_order = (block._replace(clicks=np.ones(len(block.clicks))) for block in blocks)  # else clicked ones come first
    log = collect(in_order, BadLines())
    clicks = np.concatenate([np.zeros(0), *(block.clicks for block in blocks)])
    lines = np.concatenate([_NO_LINES, *(block.lines for block in blocks if block.lines is not None)])
    return Events(log.queries, log.titles, clicks, log.clients, log.times, log.positions, lines)


def clean_part(whole: Whole, rules: Cleaning, *files: Events) -> CleanPart:
    """Clean the lines of some queries, which come from all files, and add up the clicks of each pair."""
    every = together([events for events in files if len(events.queries)])
    assert every.lines is not None
    # The position of a line carries its number through the cleaning, which does not look at positions.
    rows = np.arange(len(every.queries), dtype=np.int32)
    times = every.times if whole.has_times else None
    log = collect([every._replace(positions=rows, times=times)], BadLines())
    log = replace(log, sessions=whole.sessions)
    log, report = clean(log, replace(rules, keep_secrets=True), has_clients=whole.has_clients, is_part=True)
    kept = [part.positions for part in (log, log.shown) if part is not None and part.positions is not None]
    mask = np.zeros(len(rows), np.bool_)
    mask[np.concatenate([np.zeros(0, np.int32), *kept])] = True
    left = every._replace(times=times, clients=None, positions=every.positions if whole.has_positions else None)
    left = left.where(mask)
    clicked = int(np.count_nonzero(left.clicks))
    return CleanPart(left if whole.has_positions else add_up(left), report, clicked)


def add_up(events: Events) -> Events:
    """Return one line for each pair that was clicked, and one for each that was only shown: the first one.

    Clicks are added up in the order of the lines, as for a whole log: floats have the same sum.
    """
    assert events.lines is not None
    (query, queries), (title, titles) = (_numbers(texts) for texts in (events.queries, events.titles))
    key = (query.astype(np.int64) << 32 | title) << 1 | (events.clicks > 0)
    _, first, pair = np.unique(key, return_index=True, return_inverse=True)
    times = None
    if events.times is not None:
        times = np.full(len(first), np.iinfo(np.int64).max)
        np.minimum.at(times, pair, events.times)
    clicks = np.bincount(pair, events.clicks, len(first)).astype(np.float64)
    chosen_queries, chosen_titles = ([texts[at] for at in number[first].tolist()] for texts, number in
                                     ((queries, query), (titles, title)))  # fmt: skip
    return Events(chosen_queries, chosen_titles, clicks, None, times, None, events.lines[first])


def _numbers(texts: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    numbers: dict[str, int] = {}
    found = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int64, len(texts))
    return found, list(numbers)
