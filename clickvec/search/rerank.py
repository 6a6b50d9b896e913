"""Re-order the results of another search engine: the task of the paper."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

import numpy as np

from clickvec.data.parsing.lines import MAX_BAD, BadLines, stream_lines
from clickvec.data.parsing.records import wrong_width
from clickvec.model.encoder import Encoder
from clickvec.search.documents import distinct_texts


def reranked(encoder: Encoder, stream: BinaryIO, bad: BadLines, max_bad: float) -> Iterator[list[str]]:
    """Yield the lines of each list of `query id title` lines, best first, with the score as a fourth column.

    Equal scores keep the order of the other engine.
    """
    for query, ids, titles in read_result_lists(stream, bad, max_bad):
        texts, rows = distinct_texts(titles)
        scores = (encoder.encode_document(texts) @ encoder.encode_query(query))[rows]
        order = np.argsort(-scores, kind="stable").tolist()
        yield [f"{query}\t{ids[row]}\t{titles[row]}\t{scores[row]:.6f}" for row in order]


def read_result_lists(
    stream: BinaryIO, bad: BadLines | None = None, max_bad: float = MAX_BAD, name: str = "standard input"
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield the query, ids and titles of result lists, from lines `query<TAB>id<TAB>title`.

    Consecutive lines with the same query are one list. A list is yielded as soon as it ends. `max_bad` is checked after
    the last one. Pass `bad` to see the bad lines.
    """
    bad = BadLines() if bad is None else bad
    lists = 0
    for query, rows in groupby(_result_rows(stream_lines(stream, name, bad), name, bad), key=itemgetter(0)):
        _, ids, titles = zip(*rows, strict=True)
        lists += 1
        yield query, ids, titles
    bad.check(name, max_bad, lists, "result")


def _result_rows(blocks: Iterator[tuple[int, list[str]]], name: str, bad: BadLines) -> Iterator[Sequence[str]]:
    columns = ("query", "id", "title")
    for first, lines in blocks:
        for number, line in enumerate(lines, first):
            fields = line.split("\t")
            if not line:
                continue
            if len(fields) != len(columns):
                bad.add(name, number, *wrong_width(fields, columns))
                continue
            blank = next((column for column, text in zip(columns, fields, strict=True) if not text.strip()), None)
            if blank:
                bad.add(name, number, f"blank {blank}")
            elif number == 1 and tuple(field.lower().replace("doc_id", "id") for field in fields) == columns:
                bad.total -= 1
                bad.headers += 1
            else:
                yield fields
