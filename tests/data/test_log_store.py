"""A log that goes through DuckDB gives the same data folder as in memory, byte for byte, also if it is appended."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from clickvec.data import BadLines, Judged, JudgedQuery, data_folder, dataset, held_out
from clickvec.data.cleaning import Cleaning
from clickvec.data.events import Events
from clickvec.data.on_disk.log_store import LEAST_MEMORY, open_store
from clickvec.data.on_disk.numbering import Numbering
from clickvec.data.preparation import Preparation, write_data_folder
from clickvec.errors import ClickvecError
from clickvec.text import trigrams

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

Line = tuple[str, str, float, int]  # query, title, clicks, time
WORDS = ["a", "A", "b", "bath  tub", "上海", "ＨＯＴＥＬ", "naïve", "İ", "Σ", "ﬁ", "½", "x" * 30, "1", "é", "\u2028"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=13).map(" ".join).filter(str.strip)
CLICKS = st.sampled_from([0.0, 1.0, 2.0]) | st.sampled_from([0.0, 0.1, 0.3, 1e12, 1 / 3])
LINES = st.lists(st.tuples(TEXTS, TEXTS, CLICKS, st.integers(0, 10**10)), min_size=1, max_size=20)
FEW = st.sampled_from(["a", "A ", "b", "a b", "b  a", "c d e", "x"])
DAY = st.lists(st.tuples(FEW, FEW, CLICKS, st.integers(0, 10**10)), min_size=1, max_size=12)
CATALOGUE = st.lists(FEW | st.sampled_from(["only here", "Only  HERE", "call 555-123-4567"]), max_size=6)
LAST = ("last", "one", 1.0, 5)  # every log needs a click
NO_SHRINK = (Phase.explicit, Phase.generate)  # each example takes half a second
RULES = Cleaning(k_anonymous=0, merge_minutes=0)


def blocks_of(lines: Sequence[Line], size: int = 7, timed: bool = True) -> list[Events]:
    blocks = []
    for first in range(0, len(lines), size):
        queries, titles, clicks, times = zip(*lines[first : first + size], strict=True)
        blocks.append(Events(list(queries), list(titles), np.array(clicks), None, np.array(times) if timed else None))
    return blocks


def write(lines: Sequence[Line], out: Path, on_disk: bool, block: int = 7, shown: Judged | None = None,
          append: bool = False, hold_out: bool = False, catalogue: Sequence[str] = ()) -> dict[str, bytes]:  # fmt: skip
    memory = LEAST_MEMORY if on_disk else None
    preparation = Preparation(4, 20, RULES, shown, hold_out, append, memory, catalogue, whole_words=True)
    write_data_folder(blocks_of(lines, block), out, preparation, check=lambda _: None)
    dataset.check(data_folder.load(out))
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(autouse=True)
def words_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small logs have whole words."""
    monkeypatch.setattr(trigrams, "LEAST_TIMES", 2)


@contextmanager
def small_tables(size: int) -> Iterator[None]:
    """Begin a new token table after so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        start = Numbering.__init__
        patch.setattr(Numbering, "__init__", lambda self, path, max_words, _: start(self, path, max_words, size))
        yield


@settings(max_examples=12, deadline=None, phases=NO_SHRINK)
@given(LINES, st.integers(1, 5), st.sampled_from([1, 200, 10**9]))
@example([("a", "b", 1.0, 0)], 1, 1)
@example([("a", "x", 0.0, 0), ("b", "y", 1.0, 0), ("b", "x", 0.0, 0), ("b", "y", 0.0, 0)], 2, 1)
def test_the_folder_is_that_of_the_log_in_memory(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line], block: int, table: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    expected = write([*lines, LAST], folder / "expected", on_disk=False)
    with small_tables(table):
        assert write([*lines, LAST], folder / "found", on_disk=True, block=block) == expected
    assert sorted(path.name for path in folder.iterdir()) == ["expected", "found"]


@settings(max_examples=8, deadline=None, phases=NO_SHRINK)
@given(DAY, DAY, st.tuples(st.booleans(), st.booleans()), CATALOGUE, CATALOGUE)
def test_appending_equals_preparing_both_logs(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[Line],
    second: list[Line],
    on_disk: tuple[bool, bool],
    early: list[str],
    late: list[str],
) -> None:
    clicked = {" ".join(query.lower().split()) for query, _, clicks, _ in first if clicks}
    # What was shown for a query without a click is not kept.
    first = [line for line in first if line[2] or " ".join(line[0].lower().split()) in clicked]
    folder = tmp_path_factory.mktemp("append")
    expected = write([*first, LAST, *second, LAST], folder / "both", on_disk=False, catalogue=[*early, *late])
    write([*first, LAST], folder / "data", on_disk[0], catalogue=early)
    assert write([*second, LAST], folder / "data", on_disk[1], append=True, catalogue=late) == expected


@settings(max_examples=4, deadline=None, phases=NO_SHRINK)
@given(DAY, DAY)
def test_the_same_queries_are_held_out(
    tmp_path_factory: pytest.TempPathFactory, first: list[Line], second: list[Line]
) -> None:
    folder = tmp_path_factory.mktemp("held out")
    first = [*first, LAST, ("one more", "x", 1.0, 6), ("more  ONE", "y", 2.0, 7)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "FEWEST", 1)
        patch.setattr(held_out, "LARGEST_SHARE", 0.4)
        expected = write(first, folder / "expected", on_disk=False, hold_out=True)
        assert write(first, folder / "found", on_disk=True, hold_out=True) == expected
    test = data_folder.load_with_texts(folder / "found")[1].held_out
    assert ("test.tsv" in expected) == (test is not None)
    expected = write([*second, LAST], folder / "expected", on_disk=False, append=True)
    assert write([*second, LAST], folder / "found", on_disk=True, append=True) == expected
    if test:  # near-duplicates of held-out queries never get into the training part
        keys = {held_out.near_duplicate_key(query) for part in test for query in part.queries}
        data, texts = data_folder.load_with_texts(folder / "found")
        assert not keys & {held_out.near_duplicate_key(query) for query in texts.queries[:]}
        assert len(texts.queries) == len(data.queries.offsets) - 1


@settings(max_examples=6, deadline=None, phases=NO_SHRINK)
@given(DAY, st.lists(st.tuples(FEW, st.lists(st.tuples(FEW, st.integers(0, 2)), max_size=4)), max_size=4))
def test_a_judged_set_of_shown_titles(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line], judged: list[tuple[str, list[tuple[str, int]]]]
) -> None:
    shown = Judged(
        tuple(
            JudgedQuery(
                str(k), query, ("",) * len(rows), tuple(t for t, _ in rows), np.array([g for _, g in rows], int)
            )
            for k, (query, rows) in enumerate(judged)
        ),
        BadLines(),
    )
    folder = tmp_path_factory.mktemp("shown")
    expected = write([*lines, LAST], folder / "expected", on_disk=False, shown=shown)
    assert write([*lines, LAST], folder / "found", on_disk=True, shown=shown) == expected


def test_the_store_is_removed_after_an_error(tmp_path: Path) -> None:
    broken = Events(["a"], ["b"], np.ones(1), clients=[])
    with pytest.raises(ValueError, match="iterator too short"), open_store(tmp_path / "out", LEAST_MEMORY) as store:
        store.add(broken)
    assert not list(tmp_path.iterdir())


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="10 MB; give at least 500 MB"), open_store(tmp_path / "out", 10**7):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.data.test_log_store import LAST, write
from clickvec.data import {module}
{module}.{name} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
write([LAST], Path(sys.argv[1]), on_disk=True, append=True)
"""


@pytest.mark.parametrize(("module", "name"), [("preparation", "assemble"), ("data_folder", "write_arrays")])
def test_a_kill_while_appending_leaves_the_old_folder(tmp_path: Path, module: str, name: str) -> None:
    before = write([("a", "b", 1.0, 0)], tmp_path / "data", on_disk=False)
    program = KILLED.format(module=module, name=name)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "data"], env=environment, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before
    write([LAST], tmp_path / "data", on_disk=True, append=True)  # removes what the killed run left
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_folder_without_texts_cannot_be_appended_to(tmp_path: Path) -> None:
    write([LAST], tmp_path / "data", on_disk=False)
    data_folder.save(data_folder.load(tmp_path / "data"), tmp_path / "data")
    with pytest.raises(ClickvecError, match=r"data has no texts.*clickvec prepare"):
        write([LAST], tmp_path / "data", on_disk=False, append=True)


FULL = """
import resource, signal, sys
from pathlib import Path
from clickvec.errors import ClickvecError
from tests.data.test_log_store import write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))  # no file may grow beyond this
try:
    write([(f"query {k}", f"title {k}", 1.0, k) for k in range(5000)], Path(sys.argv[1]), on_disk=True, block=1000)
except ClickvecError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("size", [20_000, 200_000])  # our own files fail first, or those of DuckDB
def test_a_full_disk_is_told_and_leaves_the_old_folder(tmp_path: Path, size: int) -> None:
    before = write([LAST], tmp_path / "data", on_disk=False)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "data", str(size)],
        env=environment, check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert re.fullmatch(r"cannot write \S+/data: .*File too large.*; what was there before is unchanged\n", done.stderr)
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_duckdb_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ClickvecError, match=r"duckdb is not installed.*clickvec\[data\]"):
        write([LAST], tmp_path / "data", on_disk=True)
