"""Reads plain texts: the queries or titles of whatever file has them, and texts whose topics are known."""

from pathlib import Path
from typing import NamedTuple

from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.header import Schema
from clickvec.data.lines import MAX_BAD, BadLines
from clickvec.data.records import open_source, records
from clickvec.text.tokens import canonical

_JUDGED = ("query_id", "query", "doc_id", "title", "grade")
_IMPRESSIONS = ("time", "client", "query", "title", "position", "clicked")
# What is wanted stands first; the other of the two is read along, and may be absent. Two columns without a header may
# be a query and a title, or an id and a query: no query is taken from those.
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
_LABELS = Schema(
    columns=("text", "kind", "topic"),
    layouts=(("text", "topic"), ("text", "kind", "topic", "intent")),
    defaults={"kind": ""},
)


class Texts(NamedTuple):
    """The distinct texts of a file, in its order."""

    texts: tuple[str, ...]
    bad: BadLines


class Labels(NamedTuple):
    """The known topics of the texts of one kind. The texts are as `text.canonical` writes them."""

    topics: dict[str, str]
    texts: tuple[str, ...]  # all that the file names, of whatever kind
    bad: BadLines


def read_texts(
    path: str | Path, column: str = "query", max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Texts:
    """The column `query` or `title` of a click log, a judged set or a catalogue."""
    bad, found = BadLines(), dict[str, None]()
    source = open_source(path, bad, columns)
    for number, (text, _) in records(source, _SCHEMAS[column]):
        if text.strip():
            found[text] = None
        else:
            bad.add(source.name, number, f"blank {column}")
    bad.check(source.name, max_bad, len(found), column)
    return Texts(tuple(found), bad)


def read_labels(
    path: str | Path, kind: str = "query", max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Labels:
    """`text topic`, and where there is a column `kind` only the lines that have this one or none."""
    bad, found, texts = BadLines(), dict[str, str](), dict[str, None]()
    source = open_source(path, bad, columns)
    for number, (text, of, topic) in records(source, _LABELS):
        key = canonical(text)
        if not key or not topic.strip():
            bad.add(source.name, number, "blank topic" if key else "blank text")
            continue
        texts[key] = None
        if of not in ("", kind):
            continue
        if found.setdefault(key, topic) != topic:
            detail = f"the topic of {text[:40]!r} is {topic!r} here and {found[key]!r} before"
            bad.add(source.name, number, "a text with two topics", detail)
    bad.check(source.name, max_bad, len(texts), "text with its topic")
    return Labels(found, tuple(texts), bad)
