"""The texts of ids, for logs that hold ids: titles in a catalogue, queries in a file of queries."""

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import compress

from clickvec.data.layouts.id_texts import IdTexts
from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.given_table import is_table, table_name
from clickvec.data.parsing.head import Head, look_at
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.lines import MAX_BAD, BadLines
from clickvec.data.parsing.open_files import name_of
from clickvec.data.parsing.records import read_blocks
from clickvec.data.parsing.source import Given, Source, as_path, open_source
from clickvec.data.parsing.usual_names import CATALOGUE_IDS, URLS, USUAL, find_usual
from clickvec.errors import ClickvecError

# The first column is the id. The text is the first of the other columns that is not blank.
CATALOGUE = Schema(
    columns=("doc_id", "title"),
    layouts=(("doc_id", "title"), ("doc_id", "title", "url")),
    usual={"doc_id": CATALOGUE_IDS, "title": USUAL["title"]},
)
QUERIES = Schema(
    columns=("query_id", "query"),
    layouts=(("query_id", "query"),),
    aliases={"id": "query_id", "_id": "query_id"},
    usual={"query_id": USUAL["query_id"], "query": (*USUAL["query"], ("text",))},
)
BEIR_CORPUS = Schema(
    columns=("_id", "title", "text"), layouts=(("_id", "title", "text"),), defaults={"title": "", "text": ""}
)
_BY_URL = Schema(columns=("url", "title"), layouts=(("url", "title"),), usual={"url": (URLS,), "title": USUAL["title"]})
_MSMARCO = Schema(columns=("doc_id", "title"), layouts=(("doc_id", "url", "title", "body"),))
_FEW, _SAME = 3, 0.9  # so many documents are no chance, and such a share of them is nearly all
_MSMARCO_LINE = re.compile(r"D\d+\thttps?://[^\t]*\t[^\t]*\t")


def catalogue_schema(schema: Schema, source: Source, head: Head) -> tuple[Schema, Source]:
    """Return the schema of a catalogue, and the file to read. The documents of MS MARCO have no header."""
    if _MSMARCO_LINE.match(head.line):
        return _MSMARCO, source._replace(columns=Columns(header=False))
    return schema, source


def check_titles_differ(name: str, titles: Sequence[str], cure: str, few: int = _FEW) -> None:
    """Raise if nearly all of not too `few` ids have the same title: then another field than the title was read."""
    if len(titles) < few:
        return
    title, count = Counter(titles).most_common(1)[0]
    if count >= _SAME * len(titles):
        raise ClickvecError(
            f"{name}: {count:,} of {len(titles):,} documents have the title {title[:40]!r}, so it is not their title; "
            f"{cure}"
        )


class Texts:
    """The texts of ids. The file is read when they are first asked for; the first line of an id counts."""

    def __init__(self, path: Given, schema: Schema, columns: Columns = OWN_NAMES, max_bad: float = MAX_BAD) -> None:
        self.path, self._schema, self._columns, self._max_bad = path, schema, columns, max_bad
        self.name = table_name(path) if is_table(path) else name_of(as_path(path))
        self.bad = BadLines()
        self._texts = IdTexts()

    def of(self, ids: Sequence[str], by_url: bool = False) -> list[str | None]:
        """Return the text of each id, None for an id that is not in the file. `by_url` says that the ids are URLs."""
        if not self.bad.total:
            self._read(by_url)
        return self._texts.get(ids)

    def _read(self, by_url: bool) -> None:
        source = open_source(self.path, self.bad, self._columns, self._schema.layouts)
        head = look_at(source)
        schema = self._schema
        if schema is CATALOGUE:
            has_urls = self._columns.header and bool(find_usual((URLS,), head.fields, ()))
            schema, source = catalogue_schema(_BY_URL if by_url and has_urls else CATALOGUE, source, head)
        numbers = array("q")  # of the lines
        for lines, (ids, *columns) in read_blocks(source, schema):
            texts = [next(filter(str.strip, row), "") for row in zip(*columns, strict=True)]
            if self._schema is CATALOGUE and not len(self._texts):
                option = "columns={'title': ...}" if self._columns.of_table else "--columns title=COLUMN"
                check_titles_differ(source.name, texts, f"name the column with {option}")
            known = list(map(bool, texts))
            self._texts.add(list(compress(ids, known)), list(compress(texts, known)))
            numbers.extend(compress(lines, known))
        for entry, key in self._texts.repeated():
            self.bad.add(source.name, numbers[entry], "id with two texts", f"id {key[:40]} is given twice")
        self.bad.check(self.name, self._max_bad, len(self._texts), "text with its id")
