"""The data folder: a click log as arrays on disk, with the texts of its queries and titles.

Training from the arrays needs only NumPy and torch, so a data folder can be copied to a machine on which nothing can
be installed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickvec.data.clicks import ClickLog
from clickvec.data.dataset import AnyArray, Before, Dataset, Texts
from clickvec.data.held_out_files import parse_part, write_part
from clickvec.errors import ClickvecError
from clickvec.native.words import CompiledTokenTable
from clickvec.storage import files
from clickvec.storage.arrays import map_file, write_arrays
from clickvec.storage.disk_arrays import MappedLines
from clickvec.storage.snapshot import Snapshot, describe_file, open_folder
from clickvec.text.ragged import Ragged
from clickvec.text.trigrams import Tokens, is_whole_word

FORMAT = 2  # with whole words; folders without are written as format 1
_FILES = ("data.json", "data.safetensors", "trigrams.txt", "queries.txt", "titles.txt", "log.safetensors",
          "dev.tsv", "test.tsv")  # fmt: skip
_TEXTS = _FILES[3:5]  # a folder that was saved from arrays alone has none
_HELD_OUT = _FILES[-2:]
_LINES_AT_ONCE = 2**16
# The fields and the names of their arrays on disk. The names on disk never change, so that older folders open.
_RAGGED = {"tokens": "steps", "queries": "queries", "titles": "titles", "clicked": "clicked", "shown": "shown"}
_PLAIN = {"pair_query": "int32", "pair_title": "int32", "pair_clicks": "float32"}
_DTYPES = _PLAIN | {
    f"{name}.{part}": dtype for name in _RAGGED.values() for part, dtype in (("values", "int32"), ("offsets", "int64"))
}


def check_target(path: Path, overwrite: bool) -> None:
    """Raise if `path` holds something else than a data folder, or a data folder and `overwrite` is false."""
    files.check_replaceable(path, "data.json", _FILES)
    if (path / "data.json").exists() and not overwrite:
        raise ClickvecError(
            f"{path} holds a data folder already; choose another --out, "
            "replace it with --overwrite, or add to it with --append"
        )


def save(data: Dataset, path: Path, texts: Texts | None = None) -> None:
    """Write a data folder. On error, what was at `path` before is unchanged."""
    arrays = {name: getattr(data, name) for name in _PLAIN}
    if data.pair_looks is not None:
        arrays["pair_looks"] = data.pair_looks
    for field, name in _RAGGED.items():
        arrays |= {f"{name}.values": getattr(data, field).values, f"{name}.offsets": getattr(data, field).offsets}
    counts = counts_of(data.max_words, data.clicked_titles, data.catalogue_titles, data.whole_words)
    write(path, arrays, data.trigrams, counts, texts)


def counts_of(max_words: int, clicked_titles: int, catalogue_titles: int, whole_words: bool) -> dict[str, int]:
    """Return what data.json says about the arrays. Without catalogue and words, it is what earlier versions wrote."""
    more = {"catalogue_titles": catalogue_titles, "whole_words": whole_words}
    return {
        "max_words": max_words, "clicked_titles": clicked_titles,
        **{name: value for name, value in more.items() if value},
    }  # fmt: skip


def write(
    path: Path, arrays: Mapping[str, AnyArray], trigrams: Sequence[str], counts: Mapping[str, int], texts: Texts | None
) -> None:
    """Write a data folder from its arrays, by their names on disk; they may themselves be on disk."""
    with files.replacing(path, "data.json", _FILES) as fresh:
        write_arrays(fresh / "data.safetensors", arrays)
        files.write_lines(fresh / "trigrams.txt", trigrams)
        described: dict[str, Any] = {"format": FORMAT if any(map(is_whole_word, trigrams)) else 1, **counts}
        if texts:
            described["max_trigrams"] = texts.max_trigrams
            for name, lines in zip(_TEXTS, (texts.queries, texts.titles), strict=True):
                count = len(arrays[f"{name.removesuffix('.txt')}.offsets"]) - 1
                _write_texts(fresh / name, lines, count)
            for name, part in zip(_HELD_OUT, texts.held_out or (), strict=False):
                write_part(fresh / name, part)
            more = {"query_times": texts.query_times, "pair_sums": texts.pair_sums}
            write_arrays(fresh / "log.safetensors", {name: array for name, array in more.items() if array is not None})
        described["files"] = {name: describe_file(fresh / name) for name in _FILES[1:] if (fresh / name).exists()}
        files.write_json(fresh / "data.json", described)


def _write_texts(path: Path, lines: Tokens, count: int) -> None:
    with path.open("wb") as file:
        for first in range(0, count, _LINES_AT_ONCE):
            stop = min(first + _LINES_AT_ONCE, count)
            if isinstance(lines, CompiledTokenTable):
                file.write(lines.encoded(first, stop))
            else:
                file.write("\n".join([*lines[first:stop], ""]).encode("utf-8", "surrogatepass"))


def load(path: Path) -> Dataset:
    """Open a data folder. The arrays are memory-mapped. Raise if the folder is damaged or of another format."""
    with _open(path) as (opened, about):
        return _from_arrays(opened.arrays("data.safetensors"), tuple(opened.lines("trigrams.txt")), about)


def has_texts(path: Path) -> bool:
    """Tell whether a data folder has the texts of its queries and titles, as `clickvec prepare` writes them."""
    with _open(path) as (opened, _):
        return all(name in opened for name in _TEXTS)


def load_with_texts(path: Path) -> Before:
    """Open a data folder with the texts of its queries and titles. Raise if it has none."""
    with _open(path) as (opened, about):
        if any(name not in opened for name in _TEXTS):
            raise ClickvecError(f"{path} has no texts; make it with clickvec prepare")
        data = _from_arrays(opened.arrays("data.safetensors"), tuple(opened.lines("trigrams.txt")), about)
        queries, titles = (MappedLines(map_file(opened.file(name))) for name in _TEXTS)
        for name, lines, rows in (("queries.txt", queries, data.queries), ("titles.txt", titles, data.titles)):
            if len(lines) != len(rows.offsets) - 1:
                raise ValueError(f"{name}, which has {len(lines):,} lines for {len(rows.offsets) - 1:,} texts")
        more = opened.arrays("log.safetensors")
        times, sums, trigrams = more.get("query_times"), more.get("pair_sums"), int(about["max_trigrams"])
        return data, Texts(queries, titles, times, sums, trigrams, _held_out(opened))


def load_held_out(path: Path) -> tuple[ClickLog, ClickLog, Sequence[str]] | None:
    """Return the clicks that a data folder holds out, dev and test, and its titles. None if it holds nothing out."""
    with _open(path) as (opened, _):
        parts = _held_out(opened)
        return (*parts, MappedLines(map_file(opened.file("titles.txt")))[:]) if parts else None


def _held_out(opened: Snapshot) -> tuple[ClickLog, ClickLog] | None:
    if any(name not in opened for name in _HELD_OUT):
        return None
    dev, test = (parse_part(opened.lines(name)) for name in _HELD_OUT)
    return dev, test


@contextmanager
def _open(path: Path) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    """Yield the files of a data folder and its data.json."""
    with open_folder(path, _FILES, "data folder") as opened:
        about = opened.json("data.json")
        number = about.get("format")
        if number not in range(1, FORMAT + 1):
            cure = "update clickvec" if isinstance(number, int) and number > FORMAT else "make it again with prepare"
            raise ClickvecError(
                f"{path} is a data folder of format {number}, and this clickvec reads formats up to {FORMAT}; {cure}"
            )
        try:
            opened.check(about.get("files", {}), "data.json")  # folders written before have none
            yield opened, about
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ClickvecError(
                f"{path} is damaged: it lacks or misspells {error}; make it again with prepare"
            ) from None


def _from_arrays(arrays: Mapping[str, NDArray[Any]], trigrams: tuple[str, ...], about: Mapping[str, Any]) -> Dataset:
    """Return the dataset of a folder. Raise ValueError for an array of the wrong type."""
    plain = {**_PLAIN, **({"pair_looks": "float32"} if "pair_looks" in arrays else {})}
    for name, dtype in (_DTYPES | plain).items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise ValueError(
                f"{name}, which is {arrays[name].dtype} of {arrays[name].ndim} dimensions, not {dtype} of 1"
            )
    fields: dict[str, Any] = {name: arrays[name] for name in plain}
    fields |= {field: Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"]) for field, name in _RAGGED.items()}
    fields |= {
        "clicked_titles": int(about["clicked_titles"]),
        "catalogue_titles": int(about.get("catalogue_titles", 0)),
        "whole_words": bool(about.get("whole_words", False)),
    }
    return Dataset(trigrams, int(about["max_words"]), **fields)
