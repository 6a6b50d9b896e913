"""A click log as arrays, ready to train on: distinct queries, titles and steps, and who was clicked for what.

Preparing needs text and Python; training from the arrays needs numpy, torch and safetensors alone, so a data folder
made here can be carried to a machine where nothing can be installed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec import files
from clickvec.errors import ClickvecError
from clickvec.readers import ClickLog, Judged
from clickvec.text import Ragged, StepTable, canonical

FORMAT = 1


class Dataset(NamedTuple):
    """Texts are rows of step ids; a step is a row of trigram ids."""

    trigrams: tuple[str, ...]
    max_words: int
    steps: Ragged  # the trigram ids of each step
    queries: Ragged  # the step ids of each distinct query
    titles: Ragged  # of each distinct title: the clicked ones first, then those that were only shown
    clicked_titles: int  # how many of the titles were clicked
    pair_query: NDArray[np.int32]  # the distinct (query, clicked title) pairs
    pair_title: NDArray[np.int32]
    pair_clicks: NDArray[np.float32]
    clicked: Ragged  # the clicked titles of each query
    shown: Ragged  # the titles of each query that were shown and not clicked; no rows' values without `shown`


class _Numbering(dict[str, int]):
    """Distinct texts, by their normalised words, in order of appearance."""

    def add(self, text: str) -> int:
        return self.setdefault(canonical(text), len(self))

    def add_all(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of many texts; those that are the same letter by letter are normalised once."""
        raw = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        number = np.fromiter(map(self.add, raw), np.int64, len(raw))
        return number[np.fromiter(map(raw.__getitem__, texts), np.int64, len(texts))]


def prepare(log: ClickLog, max_words: int, max_trigrams: int, shown: Judged | None = None) -> Dataset:
    """The arrays of a click log; `shown` adds titles of grade 0 as titles that were seen and passed over."""
    queries, titles = _Numbering(), _Numbering()
    query, title = queries.add_all(log.queries), titles.add_all(log.titles)
    width = len(titles)
    keys, inverse = np.unique(query * width + title, return_inverse=True)
    clicks = np.bincount(inverse, log.clicks, len(keys)).astype(np.float32)
    pair_query, pair_title = (keys // width).astype(np.int32), (keys % width).astype(np.int32)
    clicked = _rows(pair_query, pair_title, len(queries))
    passed_over = _passed_over(shown, queries, titles, clicked) if shown else _rows(*_NONE, len(queries))
    table = StepTable(max_words)
    query_steps, title_steps = table.read(queries), table.read(titles)
    times = _times(query_steps, pair_query, len(table)) + _times(title_steps, pair_title, len(table))
    trigrams, step_trigrams = _vocabulary(table.steps(), times, max_trigrams)
    return Dataset(
        trigrams, max_words, step_trigrams, query_steps, title_steps, width,
        pair_query, pair_title, clicks, clicked, passed_over,
    )  # fmt: skip


_NONE = (np.zeros(0, np.int32), np.zeros(0, np.int32))


def _times(texts: Ragged, pair_text: NDArray[np.int32], steps: int) -> NDArray[np.int64]:
    """How often each step occurs in the texts of all pairs."""
    pairs = np.bincount(pair_text, minlength=len(texts.lengths))
    return np.bincount(texts.values, np.repeat(pairs, texts.lengths), steps).astype(np.int64)


def _vocabulary(steps: Sequence[str], times: NDArray[np.int64], limit: int) -> tuple[tuple[str, ...], Ragged]:
    """`Vocabulary.count` of steps that occur so often, and `Vocabulary.ids` of each step: all of them at once.

    A trigram is a number made of its three characters, 21 bits for each, so that numbers are ordered as texts are.
    """
    marked = [f"#{step.replace(' ', '##')}#" for step in steps]
    letters = np.frombuffer("".join(marked).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(np.fromiter(map(len, marked), np.int64, len(marked)))))
    keys = letters[:-2] << 42 | letters[1:-1] << 21 | letters[2:]
    at = np.flatnonzero(_inside_a_word(steps, len(letters)))
    found, place = np.unique(keys[at], return_inverse=True)
    step_of = np.searchsorted(ends, at, side="right") - 1
    counts = np.bincount(place, times[step_of], len(found))
    ranked = np.lexsort((found, -counts))[: min(limit, int((counts > 0).sum()))]
    number = np.full(len(found), -1, np.int32)
    number[ranked] = np.arange(len(ranked))
    ids = number[place]
    lengths = np.bincount(step_of[ids >= 0], minlength=len(steps))
    names = ["".join(map(chr, (key >> 42, key >> 21 & 0x1FFFFF, key & 0x1FFFFF))) for key in found[ranked].tolist()]
    return tuple(names), Ragged(ids[ids >= 0], np.concatenate(([0], np.cumsum(lengths))))


def _inside_a_word(steps: Sequence[str], letters: int) -> NDArray[np.bool_]:
    """Which characters of the marked words begin a trigram: all but the last two of a word and its marks."""
    words = [word for step in steps for word in step.split(" ")]
    stops = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)) + 2)
    inside = np.ones(letters, np.bool_)
    inside[stops - 1] = inside[stops - 2] = False
    return inside[: max(0, letters - 2)]


def _rows(row: NDArray[np.int32], value: NDArray[np.int32], count: int) -> Ragged:
    """Values grouped by row, in order of value; `row` and `value` are sorted together by row."""
    order = np.lexsort((value, row))
    return Ragged(value[order], np.concatenate(([0], np.cumsum(np.bincount(row, minlength=count)))))


def _passed_over(shown: Judged, queries: _Numbering, titles: _Numbering, clicked: Ragged) -> Ragged:
    """For each training query, the titles of grade 0 in `shown` that the log has no click on."""
    best: dict[tuple[int, str], int] = {}  # the best grade of each query and title, which may stand there twice
    for judged in shown:
        query = queries.get(canonical(judged.query))
        if query is not None:
            for title, grade in zip(judged.titles, judged.grades.tolist(), strict=True):
                key = query, canonical(title)
                best[key] = max(best.get(key, 0), grade)
    known = zip(np.repeat(np.arange(len(queries)), clicked.lengths).tolist(), clicked.values.tolist(), strict=True)
    passed = {(query, titles.add(title)) for (query, title), grade in best.items() if grade == 0}
    pairs = np.array(sorted(passed.difference(known)), np.int32).reshape(-1, 2)
    return _rows(pairs[:, 0], pairs[:, 1], len(queries))


_FILES = ("data.json", "data.safetensors", "trigrams.txt")
_RAGGED = ("steps", "queries", "titles", "clicked", "shown")
_PLAIN = ("pair_query", "pair_title", "pair_clicks")
_AT_ONCE = 2**18  # pairs that are counted at a time


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse to write a data folder over something else; over another one, when not told to."""
    files.check_replaceable(path, "data.json", _FILES)
    if (path / "data.json").exists() and not overwrite:
        raise ClickvecError(f"{path} holds a data folder already; choose another --out, or replace it with --overwrite")


def save(data: Dataset, path: Path) -> None:
    """Write the arrays as a data folder, whole or not at all."""
    arrays = {name: getattr(data, name) for name in _PLAIN}
    for name in _RAGGED:
        arrays |= {f"{name}.values": getattr(data, name).values, f"{name}.offsets": getattr(data, name).offsets}
    about = {"format": FORMAT, "max_words": data.max_words, "clicked_titles": data.clicked_titles}
    with files.replacing(path, "data.json", _FILES) as fresh:
        files.write_arrays(fresh / "data.safetensors", arrays)
        files.write_lines(fresh / "trigrams.txt", data.trigrams)
        files.write_json(fresh / "data.json", about)


def load(path: Path) -> Dataset:
    """Open a data folder; the arrays stay on disk until they are used."""
    about = files.read_json(path / "data.json", "data folder")
    if about.get("format") != FORMAT:
        raise ClickvecError(
            f"{path} is a data folder of format {about.get('format')}; here it is {FORMAT}: prepare it again"
        )
    arrays = files.read_arrays(path / "data.safetensors")
    trigrams = tuple(files.read_lines(path / "trigrams.txt"))
    try:
        fields: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
        fields |= {name: Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"]) for name in _RAGGED}
        return Dataset(trigrams, int(about["max_words"]), clicked_titles=int(about["clicked_titles"]), **fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ClickvecError(f"{path} is damaged: it lacks or misspells {error}; make it again with prepare") from None


def describe(data: Dataset, by_title: NDArray[np.float64] | None = None) -> dict[str, int | float]:
    """Counts for the model card and for the alarms; `by_title`, zeros, is room for the clicks of each title."""
    by_title = np.zeros(data.clicked_titles) if by_title is None else by_title
    for first in range(0, len(data.pair_title), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        np.add.at(by_title, data.pair_title[some].astype(np.intp), data.pair_clicks[some].astype(np.float64))
    return {
        "pairs": len(data.pair_query), "queries": len(data.queries.offsets) - 1, "titles": data.clicked_titles,
        "trigrams": len(data.trigrams), "distinct steps": len(data.steps.offsets) - 1, "shown": len(data.shown.values),
        "share of the most clicked title": float(by_title.max() / by_title.sum()) if len(by_title) else 0.0,
    }  # fmt: skip
