"""Read click logs of any format and layout as blocks of `Events`."""

from collections.abc import Iterator
from pathlib import Path

from clickvec.data.events import Events
from clickvec.data.layouts import ga4, judgements, tables, ubi
from clickvec.data.layouts.joins import CATALOGUE, QUERIES, Texts
from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.head import look_at
from clickvec.data.parsing.lines import MAX_BAD, BadLines
from clickvec.data.parsing.paths import log_parts
from clickvec.data.parsing.source import Given, open_source

Paths = Given  # or a sequence of them


def read_events(
    paths: Paths,
    columns: Columns = OWN_NAMES,
    *,
    catalogue: Given | None = None,
    queries: Given | None = None,
    bad: BadLines | None = None,
    max_bad: float = MAX_BAD,
) -> Iterator[Events]:
    """Yield the good lines of click logs, some thousand at a time, in the order of the files.

    `paths` are files, patterns, folders, - or tables in memory. `catalogue` and `queries` are files or tables with the
    texts of ids, for logs that hold ids; `max_bad` is the share of their lines that may be bad. Bad lines of the log
    are skipped, counted and listed in `bad`, and so are good lines that give no event (`bad.unused`). Whether there are
    too many is for the caller to check, with `bad.check`, and so is `columns.check_used`.
    """
    bad = BadLines() if bad is None else bad
    titles = Texts(catalogue, CATALOGUE, columns, max_bad) if catalogue is not None else None
    texts = Texts(queries, QUERIES, columns, max_bad) if queries is not None else None
    files, exports = ubi.Files(), ga4.Files()
    for path in log_parts(paths):
        if isinstance(path, Path) and path.is_dir():
            yield from judgements.read_beir(path, bad, max_bad)
            continue
        source = open_source(path, bad, columns, tables.LOG.layouts)
        head = look_at(source)
        if files.take(source, head):
            continue
        if ga4.is_ga4(head, columns):
            yield from exports.read_file(source, titles)
        elif tables.is_orcas(head):
            yield from tables.read_orcas(source, titles)
        elif tables.is_aol(head):
            yield from tables.read_aol(source, titles)
        elif judgements.is_trec(head) or judgements.is_beir_qrels(head):
            beir = judgements.is_beir_qrels(head)
            yield from judgements.read_judgements(source, beir=beir, catalogue=titles, queries=texts)
        else:
            yield from tables.read_table_log(source, head, titles, texts)
    yield from files.read(titles)
    yield from exports.read_waiting(titles)
    bad.others += [join.bad for join in (titles, texts) if join]
