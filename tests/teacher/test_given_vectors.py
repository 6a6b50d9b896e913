"""Vectors that a user has: each text finds its own, and what is wrong with a file is told in one sentence."""

from pathlib import Path

import numpy as np
import pytest
from fake_teacher import QUERIES, TITLES, tiny_data, vector_of, write_npy

from clickvec.errors import ClickvecError
from clickvec.teacher import teacher_folder
from clickvec.teacher.given_vectors import open_npy, open_parquet
from clickvec.teacher.opening import folder_of, open_source, open_teacher
from clickvec.teacher.reduction import unit
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.text.tokens import canonical

ALL = [*QUERIES, *TITLES, "Green  shoe", "a lamp"]
ALL_TITLES = [*TITLES, "green shoe", "a lamp", "bath tub"]


def opened(tmp_path: Path, teacher: Path | str) -> Teacher:
    return open_teacher(*tiny_data(), teacher, tmp_path / "data")


def assert_right(teacher: Teacher, first_spelling: dict[str, str]) -> None:
    for rows, texts in ((teacher.queries, QUERIES), (teacher.titles, ALL_TITLES)):
        expected = np.stack([vector_of(first_spelling[canonical(text)]) for text in texts])
        np.testing.assert_allclose(rows * teacher.scales, unit(expected), atol=0.01)


def spellings() -> dict[str, str]:
    return {canonical(text): text for text in reversed(ALL)}  # the first one counts


def test_an_npy_file_with_texts_beside_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_npy(tmp_path / "v.npy", ALL)
    teacher = opened(tmp_path, path)
    assert teacher.name == "v.npy"
    assert_right(teacher, spellings())
    assert "v.npy has 1 of its texts twice; the first vector counts" in caplog.text
    path.with_suffix(".txt").unlink()
    path.with_suffix(".tsv").write_text("".join(f"{text}\tmore\r\n" for text in ALL), encoding="utf-8-sig")
    assert_right(open_teacher(*tiny_data(), str(path), tmp_path / "other"), spellings())


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_other_floats(tmp_path: Path, kind: str) -> None:
    path = write_npy(tmp_path / "v.npy", ALL)
    np.save(path, np.load(path).astype(kind))
    assert_right(opened(tmp_path, path), spellings())


def test_a_parquet_file(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    vectors = [vector_of(text).tolist() for text in ALL]
    for name, kind in (("a", pyarrow.list_(pyarrow.float32())), ("b", pyarrow.list_(pyarrow.float64(), 6))):
        table = pyarrow.table({"id": range(len(ALL)), "name": ALL, "values": pyarrow.array(vectors, kind)})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
        assert_right(open_teacher(*tiny_data(), tmp_path / f"{name}.parquet", tmp_path / name), spellings())
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "vector": [[1.0, 2.0], [1.0]]}), tmp_path / "c.parquet")
    with pytest.raises(ClickvecError, match=r"c\.parquet has vectors of 1 and of 2 dimensions"):
        open_parquet(tmp_path / "c.parquet", tmp_path)
    parquet.write_table(pyarrow.table({"x": ["a"], "y": ["b"], "z": [1.0]}), tmp_path / "c.parquet")
    with pytest.raises(ClickvecError, match="has 2 columns of text; leave one, or name it text"):
        open_parquet(tmp_path / "c.parquet", tmp_path)
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "vector": [[1.0], None]}), tmp_path / "c.parquet")
    with pytest.raises(ClickvecError, match="has 1 rows without a vector"):
        open_parquet(tmp_path / "c.parquet", tmp_path)
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ClickvecError, match="cannot be read as a Parquet file"):
        open_parquet(tmp_path / "c.parquet", tmp_path)


def test_the_folder_of_other_data_is_a_teacher(tmp_path: Path) -> None:
    teacher = opened(tmp_path, write_npy(tmp_path / "v.npy", ALL))
    folder = folder_of(tmp_path / "data")
    again = opened(tmp_path, folder)
    np.testing.assert_array_equal(again.titles, teacher.titles)
    more = open_teacher(*tiny_data(["not known", "x"]), folder, tmp_path / "more")
    np.testing.assert_array_equal(more.titles[: len(ALL_TITLES)], teacher.titles)
    assert not more.titles[len(ALL_TITLES) :].any()
    # What it did not know is asked for again when the teacher itself is there.
    write_npy(tmp_path / "v.npy", [*ALL, "not known", "x"])
    assert open_teacher(*tiny_data(["not known", "x"]), tmp_path / "v.npy", tmp_path / "more").titles.any(1).all()


def test_bad_files_are_told(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "v.npy", ALL)
    text = path.with_suffix(".txt")
    text.write_text("a\nb\n")
    with pytest.raises(ClickvecError, match=r"v\.txt has 2 lines, and .*v\.npy has 10 vectors"):
        open_npy(path)
    text.write_bytes(b"\xff\n")
    with pytest.raises(ClickvecError, match=r"v\.txt is not UTF-8"):
        open_npy(path)
    text.unlink()
    with pytest.raises(ClickvecError, match=r"has no texts beside it; write them to .*v\.txt, one in a line"):
        open_npy(path)
    for values, message in (
        (np.zeros((3, 2), np.int64), "holds int64; vectors are float16, float32 or float64"),
        (np.zeros(3, np.float32), r"has the shape \(3,\)"),
        (np.zeros((0, 4), np.float32), r"has the shape \(0, 4\)"),
    ):
        np.save(path, values)
        with pytest.raises(ClickvecError, match=message):
            open_npy(path)
    path.write_bytes(b"")
    with pytest.raises(ClickvecError, match=r"v\.npy cannot be read as an \.npy file"):
        open_npy(path)


def test_nan_is_told_with_its_row(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "v.npy", ALL)
    vectors = np.load(path)
    vectors[2, 1] = np.nan
    np.save(path, vectors)
    with pytest.raises(ClickvecError, match=r"v\.npy has NaN or infinity in row 2, the vector of 'bath tub'"):
        opened(tmp_path, path)


def test_zero_vectors_are_not_known(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "v.npy", ALL)
    vectors = np.load(path)
    vectors[-1] = 0
    np.save(path, vectors)
    assert opened(tmp_path, path).titles.any(1).tolist() == [True, True, True, True, True, False, True]


def test_what_is_no_teacher(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"there is no .*none\.npy; --teacher is a model, a teacher folder"):
        opened(tmp_path, tmp_path / "none.npy")
    with pytest.raises(ClickvecError, match="neither a teacher folder nor a transformer folder"):
        opened(tmp_path, tmp_path)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "teacher.json").write_text('{"format": 7}')
    with pytest.raises(ClickvecError, match="teacher folder of format 7, and this clickvec reads format 1"):
        open_source(tmp_path / "t", tmp_path / "data.teacher")
    assert teacher_folder.is_teacher_folder(tmp_path / "t")
