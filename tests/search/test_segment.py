"""Segments: each derived file that is damaged or missing is named and refused, or built again by the repaired."""

import contextlib
import json
import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from child import run_script
from forged import Arrays, forge_arrays, forge_segment, segment_folder
from numpy.typing import NDArray
from tiny import TEXTS, tiny

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.index import Document, Index
from clickvec.search.live.live_folder import LiveFolder
from clickvec.search.segments import segment
from clickvec.search.segments.building import encode_titles
from clickvec.search.segments.consumer import Consumer
from clickvec.search.segments.segment import DamagedSegmentError, Segment

FILES = ("segment.json", "seqs.npy", "vectors.npy", "scales.npy", "words.safetensors", "fields.safetensors")


@pytest.fixture
def path(encoder: Encoder, tmp_path: Path) -> Path:
    documents = (Document(number, title, {"n": number, "name": title}) for number, title in enumerate(TEXTS))
    Index.create(tmp_path / "index", encoder, documents, vectors="int8").close()
    return tmp_path / "index"


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte[0] ^ 16]))


def flip_at(share: float) -> Callable[[Path], None]:
    return lambda file: flip(file, int(share * (file.stat().st_size - 1)))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage", [Path.unlink, flip_at(0), flip_at(0.5), flip_at(1), lambda file: file.write_bytes(file.read_bytes()[:-1])]
)
def test_a_damaged_file_is_refused_and_built_again_to_repair_it(
    path: Path, name: str, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    with Index.open(path) as index:
        expected = index.search("hotels in new york")
    damage(segment_folder(path) / name)
    with pytest.raises(DamagedSegmentError, match="the documents are not affected") as refused:
        Index.open(path)
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)
    with caplog.at_level(logging.WARNING), Index.open(path, repair=True) as repaired:
        assert name in caplog.text
        assert repaired.search("hotels in new york") == expected
        assert Index.open(path).search("hotels in new york") == expected


def test_a_missing_segment_is_built_again(path: Path) -> None:
    shutil.rmtree(segment_folder(path))
    with pytest.raises(DamagedSegmentError, match="segments/"):
        Index.open(path)
    with Index.open(path, repair=True) as repaired:
        assert len(repaired) == len(TEXTS)
        assert repaired.search("hotels in shanghai", 1, mode="words")[0].id == 0


def test_a_backup_without_derived_files_is_built_again_to_repair_it(path: Path, tmp_path: Path) -> None:
    """This is what the backup of docs/serve.md holds: documents by VACUUM INTO, the model, the marker."""
    backup = tmp_path / "backup"
    backup.mkdir()
    with Index.open(path) as index, contextlib.closing(sqlite3.connect(path / "documents.sqlite")) as database:
        expected = index.search("hotels in new york")
        database.execute("VACUUM INTO ?", (str(backup / "documents.sqlite"),))
    shutil.copytree(path / "models", backup / "models")
    shutil.copy(path / "index.json", backup)
    with pytest.raises(DamagedSegmentError, match="built again"):
        Index.open(backup)
    with Index.open(backup, repair=True) as repaired:
        assert repaired.search("hotels in new york") == expected
        repaired.add(ids=["new"], titles=["a new hotel"])
    with Index.open(backup) as index:
        assert len(index) == len(TEXTS) + 1


@pytest.mark.parametrize("name", ["weights.safetensors", "trigrams.txt", "config.json"])
def test_a_damaged_model_is_refused(path: Path, encoder: Encoder, name: str) -> None:
    file = path / "models" / encoder.fingerprint / name
    flip(file, file.stat().st_size - 10)
    for repair in (False, True):
        with pytest.raises(ClickvecError, match=name if name != "config.json" else "config"):
            Index.open(path, repair=repair)
    with Index.open(path, encoder) as index:  # it does not need that of the folder
        assert len(index) == len(TEXTS)


def test_a_large_segment_is_checked_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening compares sizes alone. The check finds the changed byte, and the segment is built again."""
    encoder, path = Encoder(tiny(cells=93)), tmp_path / "index"
    Index.create(path, encoder, (Document(number, f"hotel {number}") for number in range(4000))).close()
    monkeypatch.setattr(segment, "CHECKED_BYTES", 0)
    flip(segment_folder(path) / "vectors.npy", 700_000)
    with Index.open(path, repair=True) as index:
        live = index._live
        assert isinstance(live, LiveFolder)
        with pytest.raises(DamagedSegmentError, match=r"vectors\.npy is damaged: its checksum disagrees"):
            live._view.segment.check(wait=True)
        with pytest.raises(DamagedSegmentError):
            index.search("hotel")
        for change in (index.compact, lambda: index.save(tmp_path / "copy")):
            with pytest.raises(DamagedSegmentError):  # damage is never copied
                change()
        deadline, found = time.monotonic() + 60, []
        while not found and time.monotonic() < deadline:  # a search starts the repair, unless another build is at work
            with suppress(DamagedSegmentError):
                found = index.search("hotel 7", 1, mode="words")
            time.sleep(0.05)
        assert [hit.id for hit in found] == [7]


HOSTILE_WORDS: dict[str, Callable[[Arrays], object]] = {
    "fewer codes than positions": lambda words: words.update(codes=words["codes"][:1]),
    "fewer lengths than titles": lambda words: words.update(lengths=words["lengths"][:1]),
    "positions behind the last title": lambda words: words.update(positions=words["positions"] + 100_000_000),
    "negative positions": lambda words: words.update(positions=-1 - words["positions"]),
    "offsets behind the end": lambda words: words.update(offsets=words["offsets"] * 1_000_000),
    "offsets that fall": lambda words: words.update(offsets=words["offsets"][::-1].copy()),
    "letters that are no text": lambda words: words.update(letters=words["letters"] | 128),
    "numbers of words that do not exist": lambda words: words.update(deletions=words["deletions"] | 0xFFFFFF),
    "a length below zero": lambda words: words.update(total_length=-words["total_length"]),
}
HOSTILE_FIELDS: dict[str, Callable[[Arrays], object]] = {
    "codes of values that do not exist": lambda fields: fields.update(bytes=fields["bytes"] | 200),
    "offsets behind the end": lambda fields: fields.update(offsets=fields["offsets"] * 1_000_000),
    "codes in place of numbers": lambda fields: fields.update(numbers=fields["numbers"].view(np.int64)),
    "texts that are none": lambda fields: fields.update(texts=fields["texts"] | 128),
    "no documents": lambda fields: fields.update(about=about_as(fields, count=0)),
    "too many documents": lambda fields: fields.update(about=about_as(fields, count=10**12)),
}


def about_as(fields: Arrays, **values: object) -> NDArray[np.uint8]:
    about = json.loads(fields["about"].tobytes()) | values
    return np.frombuffer(json.dumps(about).encode(), np.uint8)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((pytest.param("words.safetensors", change, id=name)) for name, change in HOSTILE_WORDS.items()),
        *((pytest.param("fields.safetensors", change, id=name)) for name, change in HOSTILE_FIELDS.items()),
    ],
)
@pytest.mark.parametrize("is_large", [False, True])
def test_arrays_that_lead_outside_each_other_are_refused_before_the_first_search(
    name: str, change: Callable[[Arrays], object], is_large: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's checksums are right, and those of a large segment are compared in the background."""
    monkeypatch.setattr(segment, "CHECKED_BYTES", 0 if is_large else 2**28)
    forge_arrays(path, name, change)
    with pytest.raises(DamagedSegmentError, match=name.partition(".")[0]):
        Index.open(path)
    with Index.open(path, repair=True) as repaired:  # builds it again
        assert repaired.search("hotels in shanghai", 1, mode="words")[0].id == 0


def test_a_foreign_segment_with_too_few_codes_does_not_end_the_process(encoder: Encoder, tmp_path: Path) -> None:
    """C reads a code for each position. So many titles have the word that it would read far behind the codes."""
    titles = (Document(number, "hotel") for number in range(60_000))
    Index.create(tmp_path / "index", encoder, titles, search="exact").close()
    forge_arrays(tmp_path / "index", "words.safetensors", lambda words: words.update(codes=words["codes"][:0]))
    run_script(
        """
        import sys
        from clickvec.errors import ClickvecError
        from clickvec.search.index import Index
        from clickvec.search.segments import segment

        segment.CHECKED_BYTES = 0
        try:
            Index.open(sys.argv[1]).search("hotel", mode="words")
        except ClickvecError as error:
            sys.exit(0 if "damaged" in str(error) else str(error))
        sys.exit("it was searched")
        """,
        tmp_path / "index",
    )


@pytest.mark.parametrize("name", ["count", "last_seq", "last_deletion", "vectors", "approximate", "files"])
@pytest.mark.parametrize("value", [None, "x", "S1000000000", True, -1, 1.5, 10**30, [], {"a": 1}])
def test_a_segment_record_with_a_wrong_type_is_refused(name: str, value: object, path: Path) -> None:
    if name == "approximate" and value is None:
        return
    forge_segment(path, lambda about: about.update({name: value}))
    with pytest.raises(DamagedSegmentError, match="segment"):
        Index.open(path)


def test_a_folder_with_a_strange_name_among_the_segments_is_left_alone(path: Path) -> None:
    for name in ("²²²-x", "²²²²²²-x", "000_01", "x"):
        (path / "segments" / name).mkdir()
    with Index.open(path) as index:
        index.compact()
        assert index.search("hotels in shanghai", 1, mode="words")[0].id == 0


def test_titles_of_the_same_words_get_the_same_vector_in_any_batch(encoder: Encoder) -> None:
    titles = [f"{text} {number}" for number in range(3) for text in TEXTS]
    together = encode_titles(encoder, titles, "float32")
    for row, title in enumerate(titles):
        np.testing.assert_array_equal(encode_titles(encoder, [title.upper()], "float32")[0], together[row])
    assert encode_titles(encoder, [], "int8").shape == (0, encoder.dimensions)


def test_a_title_scores_the_same_in_the_segment_and_in_the_delta(path: Path) -> None:
    with Index.open(path) as index:
        index.add(ids=["again"], titles=["  Hotels in SHANGHAI"])
        for mode in ("hybrid", "words", "vectors"):
            scores = {hit.id: hit.score for hit in index.search("hotels in new york", 20, mode=mode)}
            assert scores[0] == scores["again"]


def test_a_segment_without_titles(encoder: Encoder) -> None:
    empty: Segment = segment.empty_segment(encoder.dimensions, "int8")
    assert len(empty) == len(empty.words) == len(empty.fields) == 0


def test_an_approximate_segment(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    encoder = Encoder(tiny(cells=16))
    documents = [Document(at, f"{TEXTS[at % 8]} {at % 700}", {"n": at % 2}) for at in range(3000)]
    paths = {search: tmp_path / search for search in ("exact", "approximate")}
    for search, path in paths.items():
        Index.create(path, encoder, documents, search=search).close()
    with Index.open(paths["exact"]) as exact, Index.open(paths["approximate"]) as approximate:
        assert exact.recall is None
        assert approximate.recall is not None
        assert approximate.recall > 0.9
        approximate.add(ids=["new"], titles=["hotels in shanghai"])
        exact.add(ids=["new"], titles=["hotels in shanghai"])
        approximate.delete([0])
        exact.delete([0])
        common = 0
        for query in TEXTS:
            one, other = (
                {hit.id for hit in each.search(query, 10, {"n": 1}, "vectors")} for each in (exact, approximate)
            )
            common += len(one & other)
            assert 0 not in {hit.id for hit in approximate.search(query, 20)}
        assert common > 60
        approximate.compact()
        assert approximate.recall > 0.9
    flip(segment_folder(paths["approximate"]) / "approximate.safetensors", 5000)
    with pytest.raises(DamagedSegmentError, match=r"approximate\.safetensors"):
        Index.open(paths["approximate"])
    with Index.open(paths["approximate"], repair=True) as again:
        assert again.recall is not None
        assert len(again) == 3000


# --- values that are consumed while they are produced ------------------------------------------------------------


def test_a_consumer_gets_all_values_in_order() -> None:
    with Consumer(list) as consumer:
        for first in range(0, 100, 10):
            consumer.put(list(range(first, first + 10)))
        assert consumer.result() == list(range(100))


def test_what_a_consumer_raises_is_raised_where_values_are_produced() -> None:
    def fail(values: Iterator[int]) -> None:
        next(values)
        raise ZeroDivisionError

    def produce() -> None:
        with Consumer(fail) as consumer:
            for _ in range(100):
                consumer.put([1])

    with pytest.raises(ZeroDivisionError):
        produce()


def test_a_consumer_ends_with_its_producer() -> None:
    consumer = Consumer(sum)
    consumer.put([1])
    with pytest.raises(KeyError), consumer:
        raise KeyError
    assert consumer._future.done()
