"""A log that goes through DuckDB gives the same data folder as in memory, byte for byte."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickvec.data import BadLines, data_folder, dataset
from clickvec.data.assembly import assemble
from clickvec.data.clicks import ClickLog, collect
from clickvec.data.events import Events
from clickvec.data.log_store import LEAST_MEMORY, Store, open_store
from clickvec.data.numbering import Numbering
from clickvec.errors import ClickvecError

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

Line = tuple[str, str, float, str, int]
WORDS = ["a", "A", "b", "bath  tub", "上海", "ＨＯＴＥＬ", "naïve", "İ", "Σ", "ﬁ", "½", "x" * 30, "1", "é", "\u2028"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=13).map(" ".join).filter(str.strip)
CLICKS = st.sampled_from([0.0, 1.0, 2.0]) | st.sampled_from([0.0, 0.1, 0.3, 1e12, 1 / 3])
LINES = st.lists(
    st.tuples(TEXTS, TEXTS, CLICKS, st.sampled_from(["", "u1", "u2"]), st.integers(0, 10**10)), min_size=1, max_size=20
)


def blocks_of(lines: Sequence[Line], size: int) -> list[Events]:
    blocks = []
    for first in range(0, len(lines), size):
        queries, titles, clicks, clients, times = zip(*lines[first : first + size], strict=True)
        blocks.append(Events(list(queries), list(titles), np.array(clicks), list(clients), np.array(times)))
    return blocks


def in_memory(lines: Sequence[Line], out: Path, max_words: int = 4, max_trigrams: int = 20) -> ClickLog:
    log = collect(blocks_of(lines, 7), BadLines())
    data, texts = dataset.prepare_with_texts(log, max_words, max_trigrams)
    data_folder.save(data, out, texts)
    return log


def write_store(store: Store, out: Path, max_words: int = 4, max_trigrams: int = 20) -> None:
    made = assemble(store, max_words, max_trigrams)
    about = {"max_words": max_words, "clicked_titles": made.clicked_titles}
    data_folder.write(out, made.arrays, made.trigrams, about, made.texts)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextmanager
def small_tables(size: int) -> Iterator[None]:
    """Begin a new token table after so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        start = Numbering.__init__
        patch.setattr(Numbering, "__init__", lambda self, path, max_words, _: start(self, path, max_words, size))
        yield


@settings(max_examples=15, deadline=None)
@given(LINES, st.integers(1, 5), st.sampled_from([1, 200, 10**9]))
@example([("a", "b", 1.0, "", 0)], 1, 1)
@example([("a", "x", 0.0, "", 0), ("b", "y", 1.0, "", 0), ("b", "x", 0.0, "", 0), ("b", "y", 0.0, "", 0)], 2, 1)
def test_the_folder_is_that_of_the_log_in_memory(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line], block: int, table: int
) -> None:
    lines.append(("last", "one", 1.0, "u3", 5))  # at least one click
    folder = tmp_path_factory.mktemp("store")
    in_memory(lines, folder / "expected")
    with small_tables(table), open_store(folder / "found", LEAST_MEMORY) as store:
        for events in blocks_of(lines, block):
            store.add(events)
        store.finish()
        write_store(store, folder / "found")
    assert contents(folder / "found") == contents(folder / "expected")
    assert sorted(path.name for path in folder.iterdir()) == ["expected", "found"]
    dataset.check(data_folder.load(folder / "found"))


def test_the_store_is_removed_after_an_error(tmp_path: Path) -> None:
    broken = Events(["a"], ["b"], np.ones(1), clients=[])
    with pytest.raises(ValueError, match="iterator too short"), open_store(tmp_path / "out", LEAST_MEMORY) as store:
        store.add(broken)
    assert not list(tmp_path.iterdir())


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="10 MB; give at least 500 MB"), open_store(tmp_path / "out", 10**7):
        pass
