"""Arrays and lines on disk are what they would be in memory, and safetensors files those of the library."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from clickvec.storage.arrays import write_arrays
from clickvec.storage.disk_arrays import DiskArray, DiskLines, zeros

TYPES = ["f8", "f4", "f2", "i8", "i4", "i1", "u1", "?"]


def test_the_bytes_are_those_of_the_safetensors_library(tmp_path: Path) -> None:
    arrays = {f"{name}.{dtype}": np.arange(size).astype(dtype) for name, size in (("b", 3), ("a", 0), ("é", 5))
              for dtype in TYPES}  # fmt: skip
    arrays["square"] = np.ones((2, 3)).T
    for metadata in ({}, {"run": '{"a": "上海"}'}):
        write_arrays(tmp_path / "x", arrays, metadata)
        expected = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)
        assert (tmp_path / "x").read_bytes() == expected


@pytest.mark.parametrize("dtype", TYPES)
def test_an_array_on_disk(tmp_path: Path, dtype: str) -> None:
    expected, array = np.arange(10).astype(dtype), DiskArray(tmp_path / "a", dtype)
    array.append(expected[:7])
    array.append(expected[:0])
    assert array.read(5, 9).tolist() == expected[5:7].tolist()
    array.append(expected[7:])
    assert np.concatenate(list(array.blocks(3))).tolist() == array.mapped().tolist() == expected.tolist()
    write_arrays(tmp_path / "x", {"a": array})
    assert (tmp_path / "x").read_bytes() == save({"a": expected}, {})
    assert array.read(2, 100).tolist() == expected[2:].tolist()


def test_empty_arrays(tmp_path: Path) -> None:
    assert len(DiskArray(tmp_path / "a", np.int32).mapped()) == len(zeros(tmp_path / "b", 0, np.int32)) == 0
    assert not list(DiskLines(tmp_path / "c"))
    assert DiskLines(tmp_path / "c").take(np.zeros(0, int)) == []


@given(st.lists(st.lists(st.text(st.characters(blacklist_characters="\n", codec="utf-8"), max_size=4), max_size=5)))
def test_lines_on_disk(tmp_path_factory: pytest.TempPathFactory, blocks: list[list[str]]) -> None:
    lines, expected = DiskLines(tmp_path_factory.mktemp("lines") / "lines"), list[str]()
    for block in blocks:
        lines.append(block)
        expected += block
        assert lines[max(0, len(expected) - 3) :] == expected[-3:]
    assert list(lines) == expected
    assert len(lines) == len(expected)
    order = np.argsort([hash(line) for line in expected])
    assert lines.take(order) == [expected[row] for row in order]
    assert lines.size == len("".join(f"{line}\n" for line in expected).encode())
