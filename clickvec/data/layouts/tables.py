"""Tables of clicks or impressions, with texts or with ids that are joined to other files; ORCAS and AOL among them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from clickvec.data.events import Events
from clickvec.data.layouts.joins import Texts
from clickvec.data.parsing import numbers
from clickvec.data.parsing.columns import IGNORED, Columns
from clickvec.data.parsing.head import Head
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.records import read_blocks
from clickvec.data.parsing.source import Block, Blocks, Source
from clickvec.data.parsing.usual_names import URLS, USUAL, letters, names_sessions
from clickvec.errors import ClickvecError

LOG = Schema(
    columns=("query", "title", "clicks", "client", "time", "position"),
    layouts=(
        ("query", "title", "clicks"),
        ("query", "title"),
        ("time", "client", "query", "title", "position", "clicked"),
    ),
    aliases={"clicked": "clicks"},
    defaults={"clicks": "1"},
    foreign={"grade": "this is a judged set (it has grade and no clicks), and a click log was expected"},
    optional=("client", "time", "position"),
    usual={name: USUAL[name] for name in ("query", "title", "clicks", "client", "time", "position")},
)
_ORCAS = re.compile(r"\d+\t[^\t]*\tD\d+\thttps?://[^\t]*")
_AOL = {"anonid", "query", "querytime", "itemrank", "clickurl"}


def schema_of(head: Head, columns: Columns) -> Schema:
    """Return the schema of a log by its columns: `LOG`, with doc_id or query_id in place of a text that it lacks."""
    schema = LOG
    for text, key in (("title", "doc_id"), ("query", "query_id")):
        if not _has(head, text, columns) and _has(head, key, columns):
            usual = {name: groups for name, groups in schema.usual.items() if name != text} | {key: USUAL[key]}
            names = tuple(key if name == text else name for name in schema.columns)
            schema = schema._replace(columns=names, layouts=(names,), usual=usual)
    return schema


def _has(head: Head, column: str, columns: Columns, urls: bool = True) -> bool:
    """Whether a file has a column, by the user's name, ours or a usual one. Without `urls`, a URL is no id."""
    named = columns.names.get(column)
    if named == IGNORED:
        return False
    if named is not None and named.strip().lower() in {field.lower() for field in head.fields}:
        return True
    taken = {letters(name) for other, name in columns.names.items() if other != column}
    usual = {column.replace("_", ""), *(name for group in USUAL[column] for name in group)}
    return bool(head.names & usual - taken - set(() if urls else URLS))


def is_orcas(head: Head) -> bool:
    """Whether a file without a header has the columns of ORCAS: query id, query, document id, URL."""
    return bool(_ORCAS.fullmatch(head.line))


def is_aol(head: Head) -> bool:
    """Whether a file has the columns of the AOL log, and perhaps more."""
    return head.names >= _AOL


def read_table_log(source: Source, head: Head, catalogue: Texts | None, queries: Texts | None) -> Iterator[Events]:
    """Yield the lines of a log with texts, or with ids that are joined to the catalogue and the queries."""
    schema = schema_of(head, source.columns) if head.named or source.columns.header else LOG
    for key, kind, option, texts in (
        ("doc_id", "titles", "--catalogue", catalogue),
        ("query_id", "queries", "--queries", queries),
    ):
        if key in schema.columns and texts is None:
            text = "title" if key == "doc_id" else "query"
            cure = (
                f"give {option[2:]}=..., a table of ids and {kind}, or rename the column of the {kind} to {text}"
                if source.columns.of_table
                else f"give a file of ids and {kind} with {option}, or name the column of the {kind} with --columns "
                f"{text}=COLUMN"
            )
            raise ClickvecError(f"{source.name} has the ids of {kind}, and no {kind}; {cure}")
    by_url = "doc_id" in schema.columns and not _has(head, "doc_id", source.columns, urls=False)
    sessions = names_sessions(head.fields, source.columns.names)
    blocks = read_blocks(source, schema)
    if "doc_id" in schema.columns:
        blocks = (_clicked(source, block, schema.columns.index("doc_id")) for block in blocks)
    for events in _joined_blocks(source, blocks, schema.columns, catalogue, queries, by_url):
        yield events if events.clients is None else events._replace(sessions=sessions)


def read_orcas(source: Source, catalogue: Texts | None) -> Iterator[Events]:
    """Yield the lines of ORCAS. Its titles are in another file."""
    if catalogue is None:
        raise ClickvecError(
            f"{source.name} has the columns of ORCAS, without titles; give --catalogue msmarco-docs.tsv.gz"
        )
    schema = Schema(columns=("query", "doc_id"), layouts=(("query_id", "query", "doc_id", "url"),))
    blocks = read_blocks(source._replace(columns=Columns(header=False)), schema)
    yield from _joined_blocks(source, blocks, schema.columns, catalogue)


def read_aol(source: Source, catalogue: Texts | None) -> Iterator[Events]:
    """Yield the clicks of a log as AOL published it. Without a catalogue, the URLs are the titles."""
    columns = ("query", "clickurl", "anonid", "querytime", "itemrank")
    schema = Schema(columns, layouts=(columns,), usual={name: ((name,),) for name in columns})
    key = "doc_id" if catalogue else "title"
    blocks = (_clicked(source, block, columns.index("clickurl")) for block in read_blocks(source, schema))
    yield from _joined_blocks(source, blocks, ("query", key, "client", "time", "position"), catalogue, by_url=True)


def _clicked(source: Source, block: Block, doc_id: int) -> Block:
    """Leave out lines that have no document id: queries without a click. AOL wrote a hyphen for a query it removed."""
    lines, fields = block
    queries, ids = fields[0], fields[doc_id]
    mask = [bool(key.strip()) and query.strip() != "-" for query, key in zip(queries, ids, strict=True)]
    if all(mask):
        return block
    for line, is_click, key in zip(lines, mask, ids, strict=True):
        if not is_click:
            reason = "query without a text" if key.strip() else "query without a click"
            source.bad.leave_out(source.name, line, reason, reason)
    return list(compress(lines, mask)), [list(compress(column, mask)) for column in fields]


def _joined_blocks(
    source: Source,
    blocks: Blocks,
    names: Sequence[str],
    catalogue: Texts | None,
    queries: Texts | None = None,
    by_url: bool = False,
) -> Iterator[Events]:
    """Parse blocks of the named columns, and replace ids by their texts."""
    for block_lines, columns in blocks:
        fields = dict(zip(names, columns, strict=True))
        lines, events = parse_block(source, block_lines, fields)
        if queries and "query_id" in fields:
            lines, texts, mask = join(source, lines, events.queries, queries, "query id")
            events = events.where(mask)._replace(queries=texts)
        if catalogue and "doc_id" in fields:
            lines, texts, mask = join(source, lines, events.titles, catalogue, "document id", by_url)
            events = events.where(mask)._replace(titles=texts)
        if len(lines):
            yield events


def join(
    source: Source, lines: Sequence[int], ids: Sequence[str], texts: Texts, kind: str, by_url: bool = False
) -> tuple[Sequence[int], list[str], NDArray[np.bool_]]:
    """Return the lines whose id has a text, these texts, and a mask of the lines. Count the other lines."""
    found = texts.of(ids, by_url)
    joined = [text for text in found if text is not None]
    mask = np.ones(len(found), bool)
    if len(joined) < len(found):
        mask = np.array([text is not None for text in found])
        reason = f"{kind} not in {texts.name}"
        first = int(np.argmin(mask))
        count = len(found) - len(joined)
        detail = f"{kind} {ids[first][:40]!r} is not in {texts.name}"
        source.bad.leave_out(source.name, lines[first], reason, detail, count)
        lines = list(compress(lines, mask.tolist()))
    return lines, joined, mask


def parse_block(
    source: Source, lines: Sequence[int], fields: Mapping[str, Sequence[str]]
) -> tuple[Sequence[int], Events]:
    """Parse the fields of some lines, and count bad lines. Return the good ones, with ids where there are no texts."""
    texts = {name: fields[name] for name in ("query", "query_id", "title", "doc_id") if name in fields}
    counts, time, position = (fields.get(name, ()) for name in ("clicks", "time", "position"))
    clicks = np.array(numbers.parse_clicks(counts, source.separator), np.float64) if counts else np.ones(len(lines))
    times = numbers.parse_times(time) if time else None
    positions = numbers.parse_positions(position) if position else None
    good = clicks >= 0
    for column, wrong in ((times, numbers.NO_TIME), (positions, -1)):
        if column is not None:
            good &= column != wrong
    query, title = texts.values()
    events = Events(query, title, clicks, fields.get("client") or None, times, positions)
    if good.all() and all(map(str.strip, query)) and all(map(str.strip, title)):
        return lines, events
    good &= np.array([bool(one.strip() and other.strip()) for one, other in zip(query, title, strict=True)])
    for row in np.flatnonzero(~good).tolist():
        found = {name: column[row] for name, column in fields.items() if column}
        source.bad.add(source.name, lines[row], *_problem(source, list(texts), found))
    return list(compress(lines, good.tolist())), events.where(good)


def _problem(source: Source, texts: Sequence[str], fields: Mapping[str, str]) -> tuple[str, str]:
    """Return the reason, and its detail, why a line is bad. `texts` are the columns that may not be blank."""
    blank = next((name for name in texts if not fields[name].strip()), None)
    if blank:
        return f"blank {blank}", f"blank {blank}"
    if "clicks" in fields and numbers.parse_clicks([fields["clicks"]], source.separator)[0] < 0:
        if numbers.is_ambiguous(clicks := fields["clicks"]):
            plain = clicks.replace(".", "")
            return "clicks with a point", f"clicks is {clicks!r}, which is {plain} or {float(clicks):g}; write {plain}"
        name, allowed = "clicks", numbers.ALLOWED_CLICKS
    elif "time" in fields and numbers.parse_times([fields["time"]])[0] == numbers.NO_TIME:
        name, allowed = "time", numbers.ALLOWED_TIMES
    else:
        name, allowed = "position", numbers.ALLOWED_POSITIONS
    option = f"columns={{{name!r}: '-'}}" if source.columns.of_table else f"--columns {name}=-"
    ignore = "" if name == "clicks" else f" ({option} ignores the column)"
    return f"{name} is {allowed}", f"{name} is {fields[name][:40]!r}, {allowed}{ignore}"
