"""Judgements as clicks: TREC qrels, and folders in the layout of BEIR. A grade above 0 is one click, 0 is none."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from clickvec.data.events import Events
from clickvec.data.judged import bad_grade, parse_grade, qrels_lines
from clickvec.data.layouts.joins import BEIR_CORPUS, QUERIES, Texts
from clickvec.data.layouts.tables import join
from clickvec.data.parsing.columns import OWN_NAMES
from clickvec.data.parsing.head import Head
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.lines import BadLines
from clickvec.data.parsing.records import records
from clickvec.data.parsing.source import Source, open_source
from clickvec.errors import ClickvecError

_TREC = re.compile(r"\S+\s+(0|Q0)\s+\S+\s+-?\d+\s*")
_BEIR = Schema(columns=("query-id", "corpus-id", "score"), layouts=(("query-id", "corpus-id", "score"),))
_ROWS_AT_ONCE = 10_000

Judgement = tuple[int, str, str, int]  # line number, query id, document id, grade


def is_trec(head: Head) -> bool:
    """Whether the first line is one of TREC qrels: query id, 0, document id, grade."""
    return not head.named and bool(_TREC.fullmatch(head.line))


def is_beir_qrels(head: Head) -> bool:
    """Whether a file has the columns of the judgements in a BEIR folder."""
    return head.names == {"queryid", "corpusid", "score"}


def read_beir(folder: Path, bad: BadLines, max_bad: float) -> Iterator[Events]:
    """Yield the judgements of a BEIR folder: qrels/train.tsv, or all if there is no such file."""
    files = [folder / "qrels" / "train.tsv"]
    if not files[0].exists():
        files = sorted((folder / "qrels").glob("*.tsv"))
    if not files:
        raise ClickvecError(f"{folder / 'qrels'} holds no .tsv file")
    corpus = Texts(folder / "corpus.jsonl", BEIR_CORPUS, max_bad=max_bad)
    queries = Texts(folder / "queries.jsonl", QUERIES, max_bad=max_bad)
    for file in files:
        source = open_source(file, bad, OWN_NAMES)
        yield from read_judgements(source, beir=True, catalogue=corpus, queries=queries)
    bad.others += [corpus.bad, queries.bad]


def read_judgements(source: Source, *, beir: bool, catalogue: Texts | None, queries: Texts | None) -> Iterator[Events]:
    """Yield the judgements of one file, with the texts of their ids."""
    if catalogue is None or queries is None:
        raise ClickvecError(
            f"{source.name} holds judgements of ids (qrels); give the texts with --queries FILE and --catalogue FILE"
        )
    rows = iter(_beir_rows(source) if beir else qrels_lines(source.lines, source.name, source.bad))
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        numbers, query_ids, doc_ids, grades = zip(*block, strict=True)
        events = Events(query_ids, doc_ids, np.minimum(np.array(grades, np.float64), 1))
        lines, texts, mask = join(source, numbers, events.queries, queries, "query id")
        events = events.where(mask)._replace(queries=texts)
        lines, texts, mask = join(source, lines, events.titles, catalogue, "document id")
        events = events.where(mask)._replace(titles=texts)
        if len(lines):
            yield events


def _beir_rows(source: Source) -> Iterable[Judgement]:
    for number, (query_id, doc_id, score) in records(source, _BEIR):
        grade = parse_grade(score, lowest=-(10**9))
        if grade is None:
            source.bad.add(source.name, number, *bad_grade(score))
        else:
            yield number, query_id, doc_id, max(grade, 0)
