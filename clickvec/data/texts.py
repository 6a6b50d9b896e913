"""Read plain texts: the queries or titles of any file that has them."""

from pathlib import Path

from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.lines import MAX_BAD, BadLines, Rows
from clickvec.data.parsing.records import records
from clickvec.data.parsing.source import open_source

_JUDGED = ("query_id", "query", "doc_id", "title", "grade")
_IMPRESSIONS = ("time", "client", "query", "title", "position", "clicked")
# The wanted column comes first; the other one may be absent. There is no layout of two columns for queries: without a
# header they may be a query and a title, or an id and a query.
_SCHEMAS = {
    "query": Schema(
        columns=("query", "title"),
        layouts=(("query",), ("query", "title", "clicks"), _JUDGED, _IMPRESSIONS),
        defaults={"title": ""},
    ),
    "title": Schema(
        columns=("title", "query"),
        layouts=(("title",), ("doc_id", "title"), ("doc_id", "title", "url"), _JUDGED, _IMPRESSIONS),
        defaults={"query": ""},
    ),
}


def read_texts(
    path: str | Path, column: str = "query", max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Rows[str]:
    """Read the distinct texts in the column `query` or `title` of a click log, a judged set or a catalogue."""
    bad, texts = BadLines(), dict[str, None]()
    source = open_source(path, bad, columns)
    for number, (text, _) in records(source, _SCHEMAS[column]):
        if text.strip():
            texts[text] = None
        else:
            bad.add(source.name, number, f"blank {column}")
    bad.check(source.name, max_bad, len(texts), column)
    return Rows(tuple(texts), bad)
