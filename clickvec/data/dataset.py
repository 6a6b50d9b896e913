"""A click log as arrays, ready for training, and the data folder that holds them.

Training from the arrays needs only NumPy, torch and safetensors, so a data folder can be copied to a machine on which
nothing can be installed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, Judged
from clickvec.errors import ClickvecError
from clickvec.native.words import AnyTokenTable, token_table
from clickvec.storage import files
from clickvec.storage.arrays import write_arrays
from clickvec.storage.snapshot import describe_file, open_folder
from clickvec.text.ragged import Ints, Ragged, concatenate
from clickvec.text.trigrams import Vocabulary

FORMAT = 1
_TEXTS_AT_ONCE = 2**15  # to limit memory


class Dataset(NamedTuple):
    """A click log as numbers. A text is a row of token ids; a token is a row of trigram ids."""

    trigrams: tuple[str, ...]
    max_words: int
    tokens: Ragged  # the trigram ids of each token
    queries: Ragged  # the token ids of each distinct query
    titles: Ragged  # the token ids of each distinct title: first the clicked titles, then those that were only shown
    clicked_titles: int  # the number of clicked titles
    pair_query: NDArray[np.int32]  # the distinct (query, clicked title) pairs
    pair_title: NDArray[np.int32]
    pair_clicks: NDArray[np.float32]
    clicked: Ragged  # the clicked titles of each query
    shown: Ragged  # the titles of each query that were shown and not clicked; empty rows if that is not known


def prepare(log: ClickLog, max_words: int, max_trigrams: int, shown: Judged | None = None) -> Dataset:
    """Return the arrays of a click log, with the titles that were shown and not clicked.

    Those are in the log, if it has impressions, and in `shown`, a judged set, where they have grade 0.
    """
    tokens = token_table(max_words)
    shown_queries = [judged.query for judged in shown or () for _ in judged.titles]
    shown_titles = [title for judged in shown or () for title in judged.titles]
    if log.shown:
        shown_queries += log.shown.queries
        shown_titles += log.shown.titles
    query, query_tokens, shown_query = _read(log.queries, shown_queries, tokens)
    title, title_tokens, shown_title = _read(log.titles, shown_titles, tokens)
    asked, width = len(query_tokens.lengths), len(title_tokens.lengths)
    pair_query, pair_title, clicks = _pairs(query, title, log.clicks, width)
    clicked, passed_over = _rows(pair_query, pair_title, asked), _rows(_NONE, _NONE, asked)
    if shown_titles:
        grades = np.zeros(len(shown_titles), np.int64)
        graded = [grade for judged in shown or () for grade in judged.grades.tolist()]
        grades[: len(graded)] = graded
        passed_over, others = _passed_over(shown_query, shown_title, grades, clicked, width)
        text_of = dict(zip(shown_title.tolist(), shown_titles, strict=True))
        title_tokens = concatenate([title_tokens, tokens.read([text_of[number] for number in others.tolist()])])
    times = _times(query_tokens, pair_query, len(tokens)) + _times(title_tokens, pair_title, len(tokens))
    vocabulary = Vocabulary.of_tokens(tokens, times, max_trigrams)
    return Dataset(
        vocabulary.trigrams, max_words, vocabulary.rows(tokens), query_tokens, title_tokens, width,
        pair_query, pair_title, clicks, clicked, passed_over,
    )  # fmt: skip


def _read(texts: list[str], others: list[str], tokens: AnyTokenTable) -> tuple[Ints, Ragged, Ints]:
    """Return the number of each text, the tokens of each distinct text, and the numbers of other texts.

    Distinct texts are numbered in order of first appearance. The tokens of the other texts are not read.
    """
    distinct, numbers, rows = token_table(max_words=0), np.empty(len(texts), np.int32), list[Ragged]()
    for first in range(0, len(texts), _TEXTS_AT_ONCE):
        known = len(distinct)
        numbers[first : first + _TEXTS_AT_ONCE] = distinct.read(texts[first : first + _TEXTS_AT_ONCE]).values
        rows.append(tokens.read_table(distinct, known))
    other_numbers = distinct.read(others).values
    del distinct  # free its memory
    return numbers, concatenate(rows), other_numbers


_NONE = np.zeros(0, np.int32)


def _pairs(query: Ints, title: Ints, clicks: NDArray[np.float64], width: int) -> tuple[Ints, Ints, NDArray[np.float32]]:
    """Return the distinct pairs, sorted by query and then by title, and the clicks of each."""
    keys, inverse = np.unique(query.astype(np.int64) * width + title, return_inverse=True)
    summed = np.bincount(inverse, clicks, len(keys)).astype(np.float32)
    return (keys // width).astype(np.int32), (keys % width).astype(np.int32), summed


def _rows(row: Ints, value: Ints, count: int) -> Ragged:
    """Return sorted pairs of (row, value) as rows of values."""
    return Ragged(value, np.concatenate(([0], np.cumsum(np.bincount(row, minlength=count)))))


def _times(texts: Ragged, pair_text: Ints, tokens: int) -> NDArray[np.float64]:
    """Return how often each token occurs in the texts of all pairs."""
    pairs, total = np.bincount(pair_text, minlength=len(texts.offsets) - 1), np.zeros(tokens)
    for first, rows in texts.blocks(_TEXTS_AT_ONCE):
        lengths = rows.lengths
        total += np.bincount(rows.values, np.repeat(pairs[first : first + len(lengths)], lengths), tokens)
    return total


def _passed_over(
    query: Ints, title: Ints, grades: NDArray[np.integer], clicked: Ragged, width: int
) -> tuple[Ragged, Ints]:
    """Return the titles of grade 0 that each query of the log has no click on, and those that are not in the log.

    The latter are renumbered: they follow the `width` titles of the log in order of first appearance.
    """
    asked, all_titles = len(clicked.offsets) - 1, max(width, int(title.max(initial=-1)) + 1)
    known = query < asked
    keys, first, inverse = np.unique(
        query[known].astype(np.int64) * all_titles + title[known], return_index=True, return_inverse=True
    )
    best = np.zeros(len(keys), np.int64)  # the best grade counts if a query and a title are judged several times
    np.maximum.at(best, inverse, grades[known])
    zero = np.flatnonzero(best == 0)
    passed = keys[zero[np.argsort(first[zero])]]
    query_of, title_of = passed // all_titles, (passed % all_titles).astype(np.int32)
    new, first_place = np.unique(title_of[title_of >= width], return_index=True)
    others = new[np.argsort(first_place)]
    number = np.arange(all_titles)
    number[others] = np.arange(width, width + len(others))
    wide = width + len(others)
    clicks = np.repeat(np.arange(asked), clicked.lengths) * wide + clicked.values
    left = np.setdiff1d(query_of * wide + number[title_of], clicks)
    return _rows((left // wide).astype(np.int32), (left % wide).astype(np.int32), asked), others


_FILES = ("data.json", "data.safetensors", "trigrams.txt")
# The fields and the names of their arrays on disk. The names on disk never change, so that older folders open.
_RAGGED = {"tokens": "steps", "queries": "queries", "titles": "titles", "clicked": "clicked", "shown": "shown"}
_PLAIN = {"pair_query": "int32", "pair_title": "int32", "pair_clicks": "float32"}
_DTYPES = _PLAIN | {
    f"{name}.{part}": dtype for name in _RAGGED.values() for part, dtype in (("values", "int32"), ("offsets", "int64"))
}
_ROWS_AT_ONCE = 2**18  # to limit memory


def check_target(path: Path, overwrite: bool) -> None:
    """Raise if `path` holds something else than a data folder, or a data folder and `overwrite` is false."""
    files.check_replaceable(path, "data.json", _FILES)
    if (path / "data.json").exists() and not overwrite:
        raise ClickvecError(f"{path} holds a data folder already; choose another --out, or replace it with --overwrite")


def save(data: Dataset, path: Path) -> None:
    """Write a data folder. On error, what was at `path` before is unchanged."""
    arrays = {name: getattr(data, name) for name in _PLAIN}
    for field, name in _RAGGED.items():
        arrays |= {f"{name}.values": getattr(data, field).values, f"{name}.offsets": getattr(data, field).offsets}
    about: dict[str, Any] = {"format": FORMAT, "max_words": data.max_words, "clicked_titles": data.clicked_titles}
    with files.replacing(path, "data.json", _FILES) as fresh:
        write_arrays(fresh / "data.safetensors", arrays)
        files.write_lines(fresh / "trigrams.txt", data.trigrams)
        about["files"] = {name: describe_file(fresh / name) for name in _FILES[1:]}
        files.write_json(fresh / "data.json", about)


def load(path: Path) -> Dataset:
    """Open a data folder. The arrays are memory-mapped. Raise if the folder is damaged or of another format."""
    with open_folder(path, _FILES, "data folder") as opened:
        about = opened.json("data.json")
        if about.get("format") != FORMAT:
            raise ClickvecError(
                f"{path} is a data folder of format {about.get('format')}, and this clickvec reads format {FORMAT}; "
                "make it again with prepare"
            )
        try:
            opened.check(about.get("files", {}), "data.json")  # folders written before have none
            return _from_arrays(opened.arrays("data.safetensors"), tuple(opened.lines("trigrams.txt")), about)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ClickvecError(
                f"{path} is damaged: it lacks or misspells {error}; make it again with prepare"
            ) from None


def _from_arrays(arrays: Mapping[str, NDArray[Any]], trigrams: tuple[str, ...], about: Mapping[str, Any]) -> Dataset:
    """Return the dataset of a folder. Raise ValueError for an array of the wrong type."""
    for name, dtype in _DTYPES.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise ValueError(
                f"{name}, which is {arrays[name].dtype} of {arrays[name].ndim} dimensions, not {dtype} of 1"
            )
    fields: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
    fields |= {field: Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"]) for field, name in _RAGGED.items()}
    return Dataset(trigrams, int(about["max_words"]), clicked_titles=int(about["clicked_titles"]), **fields)


def check(data: Dataset) -> None:
    """Raise if an index is out of bounds, as in a damaged folder: compiled code does not check."""
    queries, titles, tokens = (len(rows.offsets) - 1 for rows in (data.queries, data.titles, data.tokens))
    ends = {"tokens": len(data.trigrams), "queries": tokens, "titles": tokens, "clicked": titles, "shown": titles}
    bad = [name for name, end in ends.items() if not _are_rows_below(getattr(data, name), end)]
    bad += [name for name in ("clicked", "shown") if len(getattr(data, name).offsets) != queries + 1]
    for name, end in (("pair_query", queries), ("pair_title", data.clicked_titles)):
        column = getattr(data, name)
        if len(column) != len(data.pair_clicks) or not _are_below(column, end):
            bad.append(name)
    if not 0 <= data.clicked_titles <= titles:
        bad.append("clicked_titles")
    if len(data.pair_clicks) and not (data.pair_clicks.min() > 0 and np.isfinite(data.pair_clicks.max())):
        bad.append("pair_clicks")
    if bad:
        raise ClickvecError(f"the data is damaged: {bad[0]} has values out of range; make it again with prepare")


def _are_rows_below(rows: Ragged, end: int) -> bool:
    """Whether the offsets are valid, and all values below `end`."""
    offsets = rows.offsets
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(rows.values):
        return False
    blocks = (offsets[first : first + _ROWS_AT_ONCE + 1] for first in range(0, len(offsets) - 1, _ROWS_AT_ONCE))
    return all((block[1:] >= block[:-1]).all() for block in blocks) and _are_below(rows.values, end)


def _are_below(numbers: NDArray[np.integer], end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)


def describe(data: Dataset, by_title: NDArray[np.float64] | None = None) -> dict[str, int | float]:
    """Return counts for the model card and the warnings. `by_title` may be an array of zeros, one for each title."""
    by_title = np.zeros(data.clicked_titles) if by_title is None else by_title
    for first in range(0, len(data.pair_title), _ROWS_AT_ONCE):
        block = slice(first, first + _ROWS_AT_ONCE)
        np.add.at(by_title, data.pair_title[block].astype(np.intp), data.pair_clicks[block].astype(np.float64))
    return {
        "pairs": len(data.pair_query), "queries": len(data.queries.offsets) - 1, "titles": data.clicked_titles,
        "trigrams": len(data.trigrams), "distinct tokens": len(data.tokens.offsets) - 1,
        "shown": len(data.shown.values),
        "share of the most clicked title": float(by_title.max() / by_title.sum()) if len(by_title) else 0.0,
    }  # fmt: skip
