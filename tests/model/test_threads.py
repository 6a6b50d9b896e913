"""Several threads give what one gives: the same results in the same order, byte for byte, and few at a time."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command import ok
from kernels import each_path
from tiny import TEXTS, tiny_model

from clickvec.model import encoder as encoder_module
from clickvec.model import fast
from clickvec.model.encoder import Encoder
from clickvec.model.threads import map_in_threads, thread_count
from clickvec.native import lstm
from clickvec.search.vectors import vector_file

numbers_of_threads = pytest.mark.parametrize("threads", ["1", "2", "3"])


@numbers_of_threads
@pytest.mark.parametrize("count", [0, 1, 2, 3, 20])
def test_results_come_in_the_order_of_the_batches(threads: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)

    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3 == 0))  # some take longer, and the next overtake them
        return number * number

    assert list(map_in_threads(work, iter(range(count)))) == [number * number for number in range(count)]


def test_the_work_is_done_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    meeting = threading.Barrier(3, timeout=30)  # nobody passes before three have come
    assert sorted(map_in_threads(lambda _: meeting.wait(), range(3))) == [0, 1, 2]


@numbers_of_threads
def test_few_batches_are_read_ahead(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    read = []

    def batches() -> Iterator[int]:
        for number in range(50):
            read.append(number)
            yield number

    for number in map_in_threads(lambda number: number, batches()):
        assert len(read) <= number + int(threads) + 3


@numbers_of_threads
def test_an_error_comes_out(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    found: list[int] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(map_in_threads(lambda number: 12 // (3 - number), range(20)))
    assert found == [4, 6, 12]


@pytest.mark.parametrize(("setting", "expected"), [("1", 1), ("7", 7), ("4,2", 4), (" 3 ", 3), ("1000000", 1024)])
def test_the_number_of_threads_can_be_set(setting: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert thread_count() == expected


@pytest.mark.parametrize("setting", ["", " ", "0", "many", "-2", "1.5", "²", "9" * 5000, ",2"])
def test_or_there_is_one_for_each_core(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert 1 <= thread_count() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("kernel", [pytest.param(None, id="numpy"), *each_path(lstm.load)])
def test_vectors_are_the_same_to_the_last_bit(
    kernel: lstm.Kernel | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast.native, "kernel", lambda: kernel)
    monkeypatch.setattr(encoder_module, "CACHE_BYTES", 4 * 3 * 32 * 300)  # so that it is emptied on the way
    model = tiny_model(tmp_path / "model", cells=32)
    texts = [f"{TEXTS[number % len(TEXTS)]} {number % 701}" for number in range(2000)]
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(Encoder.load(model).encode_document(texts, batch_size=64))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_files_are_the_same_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "BATCH_SIZE", 50)
    model = tiny_model(tmp_path / "model", cells=32)
    (tmp_path / "titles.txt").write_text(
        "title\n" + "".join(f"{TEXTS[k % len(TEXTS)]} {k % 701}\n" for k in range(2000))
    )
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        ok("encode", model, tmp_path / "titles.txt", "--out", tmp_path / f"{threads}.npy")
        ok("index", model, tmp_path / "titles.txt", "--out", tmp_path / f"{threads}.index")
    assert (tmp_path / "1.npy").read_bytes() == (tmp_path / "3.npy").read_bytes()
    (first,), (other,) = (tmp_path.glob(f"{threads}.index/segments/*/vectors.npy") for threads in ("1", "3"))
    assert first.read_bytes() == other.read_bytes()
