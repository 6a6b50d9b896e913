"""Re-order the results of another search engine: the task of the paper."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.parsing.columns import listed
from clickvec.data.parsing.lines import MAX_BAD, BadLines, stream_lines
from clickvec.data.parsing.records import wrong_width
from clickvec.data.parsing.usual_names import CATALOGUE_IDS, USUAL, find_usual
from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import distinct_texts

COLUMNS = ("query", "id", "title")
# Weight of the engine's score. With BM25 as the engine on msrd dev, a weight of 0.1 raises NDCG by 0.1 to 0.6 points,
# and one above 0.2 lowers it (benchmarks/rerank.py, models of three seeds). On dbpedia dev it brings nothing.
WEIGHT = 0.1

Scores = NDArray[np.float32]


class ResultList(NamedTuple):
    """Consecutive result lines with the same query."""

    query: str
    ids: tuple[str, ...]
    titles: tuple[str, ...]
    lines: tuple[str, ...]  # all columns, as they came
    scores: tuple[float, ...] | None  # the engine's, if a column was named


def reranked(
    encoder: Encoder,
    stream: BinaryIO,
    bad: BadLines,
    max_bad: float,
    score: str | None = None,
    weight: float = WEIGHT,
) -> Iterator[list[str]]:
    """Yield the lines of each result list, best first, with the new score as a last column.

    Lines are `query<TAB>id<TAB>title`, with any number of further columns, which are copied. Equal scores keep the
    order of the other engine. `score` names the column of the engine's score, by its header or its number from 1; the
    new score then is a blend of both.
    """
    for results in read_result_lists(stream, bad, max_bad, score=score):
        scores = rerank_scores(encoder, results.query, results.titles, results.scores, weight)
        order = np.argsort(-scores, kind="stable").tolist()
        yield [f"{results.lines[row]}\t{scores[row]:.6f}" for row in order]


def rerank_scores(
    encoder: Encoder,
    query: str,
    titles: Sequence[str],
    engine: Sequence[float] | None = None,
    weight: float = WEIGHT,
) -> Scores:
    """Return the cosine of a query with each title, blended with the scores of the engine if there are any."""
    texts, rows = distinct_texts(titles)
    cosines: Scores = (encoder.encode_document(texts) @ encoder.encode_query(query))[rows]
    return cosines if engine is None else blend(cosines, np.asarray(engine, np.float64), weight)


def blend(cosines: NDArray[np.floating], engine: NDArray[np.floating], weight: float) -> Scores:
    """Return (1 - weight) · standard(cosines) + weight · standard(engine), over the titles of one query."""
    if not 0 <= weight <= 1:
        raise ClickvecError(f"the weight of the engine's score is {weight}; it must be between 0 and 1")
    return ((1 - weight) * standard(cosines) + weight * standard(engine)).astype(np.float32)


def standard(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the scores minus their mean, divided by their standard deviation; zeros if all are equal."""
    if not scores.size or (scores == scores[0]).all():
        return np.zeros(scores.shape)
    # Divide by the largest first, so that huge scores do not overflow when they are squared.
    scaled = scores.astype(np.float64) / np.abs(scores).max()
    centred = scaled - scaled.mean()
    deviation = centred.std()
    return np.asarray(centred / deviation if deviation else np.zeros(scores.shape))


# --- reading -----------------------------------------------------------------------------------------------------


def read_result_lists(
    stream: BinaryIO,
    bad: BadLines | None = None,
    max_bad: float = MAX_BAD,
    name: str = "standard input",
    score: str | None = None,
) -> Iterator[ResultList]:
    """Yield result lists from lines `query<TAB>id<TAB>title`, with further columns if the first line has them.

    Consecutive lines with the same query are one list. A list is yielded as soon as it ends. `max_bad` is checked after
    the last one. Pass `bad` to see the bad lines.
    """
    bad = BadLines() if bad is None else bad
    lists = 0
    for query, group in groupby(_rows(stream, name, bad, score), key=lambda row: row[0]):
        _, ids, titles, lines, scores = zip(*group, strict=True)
        lists += 1
        yield ResultList(query, ids, titles, lines, None if score is None else scores)
    bad.check(name, max_bad, lists, "result")


def _rows(stream: BinaryIO, name: str, bad: BadLines, score: str | None) -> Iterator[tuple[str, str, str, str, float]]:
    """Yield the query, id, title, whole line and engine's score of each good line."""
    names: tuple[str, ...] = ()  # of the columns, once a line with enough of them was read
    at = 0
    for first, lines in stream_lines(stream, name, bad):
        for number, line in enumerate(lines, first):
            fields = line.split("\t")
            if not line:
                continue
            is_first = not names and len(fields) >= len(COLUMNS)
            if is_first:
                is_header = number == 1 and _is_header(fields, name)
                names = (*COLUMNS, *_further_names(fields, is_header))
                at = 0 if score is None else _score_column(names, score, is_header, name)
                if is_header:
                    bad.total -= 1
                    bad.headers += 1
                    continue
            if len(fields) != len(names or COLUMNS):
                bad.add(name, number, *wrong_width(len(fields), names or COLUMNS))
                continue
            blank = next((column for column, text in zip(COLUMNS, fields, strict=False) if not text.strip()), None)
            if blank:
                bad.add(name, number, f"blank {blank}")
                continue
            value = 0.0 if score is None else _finite(fields[at])
            if value is None:
                bad.add(name, number, "score is not a number", f"{names[at]} is {fields[at]!r}, not a number")
            else:
                yield fields[0], fields[1], fields[2], line, value


def _is_header(fields: Sequence[str], name: str) -> bool:
    """Return whether the first line names the columns. Raise if it names them in another order."""
    groups = ((("query",), *USUAL["query"]), CATALOGUE_IDS, (("title",), *USUAL["title"]))
    places = [find_usual(group, fields, ()) for group in groups]
    if not places[0] or not places[2]:
        return False
    if any(at not in place for at, place in enumerate(places)):
        raise ClickvecError(
            f"{name}:1: the columns are {listed(fields)}; the first three must be query, id and title, in this order"
        )
    return True


def _further_names(fields: Sequence[str], is_header: bool) -> list[str]:
    further = range(len(COLUMNS), len(fields))
    return [fields[at] if is_header else f"column {at + 1}" for at in further]


def _score_column(names: Sequence[str], score: str, is_header: bool, name: str) -> int:
    """Return the position of the column of the engine's score."""
    if is_header and names.count(score) == 1:
        at = names.index(score)
    elif is_header and names.count(score) > 1:
        raise ClickvecError(f"{name}: {names.count(score)} columns are called {score!r}; give the column's number")
    elif score.isascii() and score.isdigit() and 0 < int(score) <= len(names):
        at = int(score) - 1
    else:
        known = ", ".join(names) if is_header else f"{len(names)} columns and no header: give a number"
        raise ClickvecError(f"{name} has no column {score!r}; it has {known}")
    if at < len(COLUMNS):
        raise ClickvecError(f"{name}: column {score!r} is the {names[at]}; name the column of the engine's score")
    return at


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
