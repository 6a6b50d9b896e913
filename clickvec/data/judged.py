"""Read judged sets: queries, each with titles that people graded for it. One file, or TREC qrels and two others."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.layouts.joins import CATALOGUE, QUERIES
from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.lines import MAX_BAD, BadLines, LineBlock, Rows, file_lines
from clickvec.data.parsing.open_files import name_of
from clickvec.data.parsing.records import records, wrong_width
from clickvec.data.parsing.source import Given, open_source

MAX_GRADE = 50  # 2^grade - 1 is exact up to here; a higher grade is a percentage, or an id in the wrong column

_JUDGED = Schema(
    columns=("query_id", "query", "doc_id", "title", "grade"),
    layouts=(("query_id", "query", "doc_id", "title", "grade"),),
)


class JudgedQuery(NamedTuple):
    """A query and the titles that people graded for it."""

    query_id: str
    query: str
    doc_ids: tuple[str, ...]
    titles: tuple[str, ...]
    grades: NDArray[np.int64]


Judged = Rows[JudgedQuery]  # queries in the order of their first line in the file


class _JudgedRows:
    """Group the rows of a judged set, which may be in any order, by query."""

    def __init__(self, bad: BadLines) -> None:
        self.bad = bad
        self.texts: dict[str, str] = {}
        self.rows: dict[str, dict[str, tuple[str, int]]] = {}

    def add(self, name: str, number: int, row: Sequence[str], grade: int) -> None:
        """Add a row (query_id, query, doc_id, title) and its grade, or count the line as bad."""
        query_id, query, doc_id, title = row
        blank = next((column for column, text in zip(_JUDGED.columns, row, strict=False) if not text.strip()), None)
        if blank:
            self.bad.add(name, number, f"blank {blank}")
        elif self.texts.get(query_id, query) != query:
            detail = f"query_id {query_id} is {query!r} here and {self.texts[query_id]!r} before"
            self.bad.add(name, number, "a query_id with two query texts", detail)
        elif doc_id in self.rows.get(query_id, ()):
            self.bad.add(name, number, "judged twice", f"doc_id {doc_id} is judged twice for query_id {query_id}")
        else:
            self.texts[query_id] = query
            self.rows.setdefault(query_id, {})[doc_id] = (title, grade)

    def judged(self, name: str, max_bad: float) -> Judged:
        self.bad.check(name, max_bad, len(self.rows), "judgement")
        return Judged(
            tuple(
                JudgedQuery(
                    query_id,
                    self.texts[query_id],
                    tuple(rows),
                    tuple(title for title, _ in rows.values()),
                    np.array([grade for _, grade in rows.values()], dtype=np.int64),
                )
                for query_id, rows in self.rows.items()
            ),
            self.bad,
        )


def read_judged(path: Given, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES) -> Judged:
    """Read a judged set with the columns query_id, query, doc_id, title and grade: a file, or a table in memory.

    Bad lines are skipped, counted and listed in `.bad`; ClickvecError is raised if more than `max_bad` of them are bad.
    """
    bad = BadLines()
    rows, source = _JudgedRows(bad), open_source(path, bad, columns, _JUDGED.layouts)
    for number, (*row, text) in records(source, _JUDGED):
        grade = parse_grade(text)
        if grade is None:
            bad.add(source.name, number, *bad_grade(text))
        else:
            rows.add(source.name, number, row, grade)
    return rows.judged(source.name, max_bad)


def read_qrels(
    qrels: str | Path,
    queries: str | Path | None = None,
    titles: str | Path | None = None,
    max_bad: float = MAX_BAD,
    columns: Columns = OWN_NAMES,
) -> Judged:
    """Read a judged set from TREC qrels (`qid 0 docid grade`), a file of query_id, query and one of doc_id, title.

    Without these files, ids take the place of texts: enough to measure run files. A negative grade counts as 0, as in
    trec_eval. `max_bad` applies to each file by itself.
    """
    bad, name = BadLines(), name_of(Path(qrels))
    lines = list(qrels_lines(file_lines(Path(qrels), bad, columns.encoding), name, bad))
    bad.check(name, max_bad, len(lines), "judgement")
    query_ids, doc_ids = {line[1] for line in lines}, {line[2] for line in lines}
    texts, bad_queries = _texts(queries, QUERIES, query_ids, max_bad, columns)
    names, bad_titles = _texts(titles, CATALOGUE, doc_ids, max_bad, columns)
    rows = _JudgedRows(bad)
    for number, query_id, doc_id, grade in lines:
        if query_id not in texts:
            bad.add(name, number, "unknown query", f"query {query_id} is not in {name_of(Path(queries or ''))}")
        elif doc_id not in names:
            bad.add(name, number, "unknown title", f"title {doc_id} is not in {name_of(Path(titles or ''))}")
        else:
            rows.add(name, number, (query_id, texts[query_id], doc_id, names[doc_id]), grade)
    judged = rows.judged(name, max_bad)
    bad.merge(bad_queries)
    bad.merge(bad_titles)
    return judged


def is_qrels(path: Path) -> bool:
    """Tell whether a file starts like TREC qrels: four fields, of which the last is a whole number."""
    if not path.is_file():
        return False
    first = next((line for _, lines in file_lines(path, BadLines()) for line in lines if line), "")
    fields = first.split()
    return len(fields) == 4 and parse_grade(fields[3], lowest=-(10**9)) is not None


def qrels_lines(blocks: Iterable[LineBlock], name: str, bad: BadLines) -> Iterator[tuple[int, str, str, int]]:
    """Yield (line number, query id, document id, grade) of TREC qrels. A negative grade is 0."""
    for first, lines in blocks:
        for number, line in enumerate(lines, first):
            fields = line.split()
            if not line:
                continue
            if len(fields) != 4:
                bad.add(name, number, *wrong_width(len(fields), ("query_id", "0", "doc_id", "grade")))
                continue
            grade = parse_grade(fields[3], lowest=-(10**9))
            if grade is None:
                bad.add(name, number, *bad_grade(fields[3]))
            else:
                yield number, fields[0], fields[2], max(grade, 0)


def _texts(
    path: str | Path | None, schema: Schema, wanted: set[str], max_bad: float, columns: Columns
) -> tuple[dict[str, str], BadLines]:
    """Return the texts of the wanted ids only: a catalogue may be far larger than the judged set."""
    if path is None:
        return dict(zip(wanted, wanted, strict=True)), BadLines()
    bad, texts, read = BadLines(), dict[str, str](), 0
    source = open_source(path, bad, columns)
    for _, (key, text) in records(source, schema):
        read += 1
        if key in wanted:
            texts.setdefault(key, text)
    bad.check(source.name, max_bad, read, "text with its id")
    return texts, bad


def parse_grade(text: str, lowest: int = 0) -> int | None:
    """Return the grade in a field; None if it is not a whole number from `lowest` to MAX_GRADE."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 9):
        return None
    return int(text) if lowest <= int(text) <= MAX_GRADE else None


def bad_grade(text: str) -> tuple[str, str]:
    """Return the reason, and its detail, why a line with this grade is bad."""
    reason = f"grade is not a whole number from 0 to {MAX_GRADE}"
    return reason, reason.replace("grade is", f"grade is {text[:40]!r},")
