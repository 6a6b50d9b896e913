"""Read texts with known topics."""

from pathlib import Path
from typing import NamedTuple

from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.lines import MAX_BAD, BadLines
from clickvec.data.parsing.records import records
from clickvec.data.parsing.source import open_source
from clickvec.text.tokens import canonical

_LABELS = Schema(
    columns=("text", "kind", "topic"),
    layouts=(("text", "topic"), ("text", "kind", "topic", "intent")),
    defaults={"kind": ""},
)


class Labels(NamedTuple):
    """The topics of the texts of one kind. All texts are in canonical form."""

    topics: dict[str, str]
    texts: tuple[str, ...]  # all texts of the file, of any kind
    bad: BadLines


def read_labels(
    path: str | Path, kind: str = "query", max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Labels:
    """Read the columns text and topic. If there is a column `kind`, use only lines with this kind or none."""
    bad, topics, texts = BadLines(), dict[str, str](), dict[str, None]()
    source = open_source(path, bad, columns)
    for number, (text, text_kind, topic) in records(source, _LABELS):
        key = canonical(text)
        if not key or not topic.strip():
            bad.add(source.name, number, "blank topic" if key else "blank text")
            continue
        texts[key] = None
        if text_kind not in ("", kind):
            continue
        if topics.setdefault(key, topic) != topic:
            detail = f"the topic of {text[:40]!r} is {topic!r} here and {topics[key]!r} before"
            bad.add(source.name, number, "a text with two topics", detail)
    bad.check(source.name, max_bad, len(texts), "text with its topic")
    return Labels(topics, tuple(texts), bad)
