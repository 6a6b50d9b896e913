"""Each text of a dataset gets its teacher's vector, once, also if the run is stopped, killed or damaged."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import small_disk
from fake_teacher import QUERIES, TITLES, FakeSource, tiny_data, vector_of

from clickvec.errors import ClickvecError, Interrupted
from clickvec.teacher import reduction, teacher_folder, teaching
from clickvec.teacher.reduction import fit, unit
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.teacher.teaching import teach
from clickvec.text.tokens import canonical

TEXTS = ["red shoe", "blue shoe", "bath tub", "hotel in 上海"]
TEXTS += ["a blue shoe", "tub for a bath", "上海 hotel", "green shoe", "a lamp"]


def taught(*more: str) -> TaughtTexts:
    return TaughtTexts(*tiny_data(more))


def assert_right(teacher: Teacher, titles: list[str]) -> None:
    """Check that products of rows are the cosines of the teacher's own vectors."""
    for rows, texts in ((teacher.queries, QUERIES), (teacher.titles, titles)):
        assert rows.shape == (len(texts), teacher.dimensions)
        expected = unit(np.stack([vector_of(canonical(text)) for text in texts]))
        np.testing.assert_allclose(rows * teacher.scales, expected, atol=0.01)


ALL_TITLES = [*TITLES, "green shoe", "a lamp", "bath tub"]


def test_distinct_texts_are_numbered_once() -> None:
    texts = taught()
    assert texts.block(0, 100) == TEXTS
    assert [texts.block(first, first + 2) for first in (0, 3, 8)] == [TEXTS[:2], TEXTS[3:5], TEXTS[8:]]
    assert texts.take(np.array([0, 3, 4, 8])) == [TEXTS[0], TEXTS[3], TEXTS[4], TEXTS[8]]
    assert texts.number_of_title.tolist() == [0, 4, 5, 6, 7, 8, 2]
    assert texts.digest == taught().digest != taught("x").digest


def test_every_text_has_its_vector(tmp_path: Path) -> None:
    source = FakeSource()
    teacher = teach(taught(), source, tmp_path / "d.teacher")
    assert_right(teacher, ALL_TITLES)
    assert source.asked == TEXTS
    again = FakeSource()
    assert_right(teach(taught(), again, tmp_path / "d.teacher"), ALL_TITLES)
    assert not again.asked
    assert [path.name for path in tmp_path.iterdir()] == ["d.teacher"]


class Unreduced(FakeSource):
    reduction = None


@pytest.mark.parametrize("size", [3, 8])
def test_the_sample_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(teaching, "SAMPLE", size)
    source = Unreduced()
    teacher = teach(taught(), source, tmp_path / "d.teacher")
    assert sorted(source.asked) == sorted(TEXTS)
    assert teacher.titles.any(1).all()
    with pytest.raises(Interrupted):
        teach(taught(), Unreduced("other", stop_after=size), tmp_path / "e.teacher")
    again = Unreduced("other")
    np.testing.assert_array_equal(teach(taught(), again, tmp_path / "e.teacher").titles, teacher.titles)
    assert len(again.asked) == len(TEXTS) - size
    with pytest.raises(Interrupted, match="before the first block"):
        teach(taught(), Unreduced(stop_after=0), tmp_path / "f.teacher")


def test_texts_that_are_appended_are_computed_alone(tmp_path: Path) -> None:
    teach(taught(), FakeSource(), tmp_path / "d.teacher")
    source = FakeSource()
    assert_right(teach(taught("new lamp"), source, tmp_path / "d.teacher"), [*ALL_TITLES, "new lamp"])
    assert source.asked == ["new lamp"]


def test_another_teacher_replaces_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    teach(taught(), FakeSource(), tmp_path / "d.teacher")
    source = FakeSource("fake 2")
    teach(taught(), source, tmp_path / "d.teacher")
    assert source.asked == TEXTS
    assert "vectors of another teacher, fake" in caplog.text


def test_a_stopped_run_continues(tmp_path: Path) -> None:
    counts = list[int]()
    with pytest.raises(Interrupted, match=r"Stopped after 4 of 9 texts of the teacher\. Run the same command again"):
        teach(taught(), FakeSource(stop_after=4), tmp_path / "d.teacher")
    source = FakeSource()
    teacher = teach(taught(), source, tmp_path / "d.teacher", lambda _, done, __, note="": counts.append(done))
    assert_right(teacher, ALL_TITLES)
    assert source.asked == TEXTS[4:]
    assert counts == [4, 6, 8, 9]


def test_the_state_of_other_texts_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Interrupted):
        teach(taught("x"), FakeSource(stop_after=5), tmp_path / "d.teacher")
    assert_right(teach(taught(), FakeSource(), tmp_path / "d.teacher"), ALL_TITLES)
    assert "for another teacher or other texts; removed" in caplog.text


def test_damaged_blocks_are_computed_again(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        teach(taught(), FakeSource(stop_after=6), tmp_path / "d.teacher")
    run = tmp_path / "d.teacher.run"
    rows = bytearray((run / "rows").read_bytes())
    rows[2 * 6 + 1] ^= 1  # the third text
    (run / "rows").write_bytes(rows)
    with (run / "done.txt").open("a") as file:
        file.write("6")  # half a line
    source = FakeSource()
    assert_right(teach(taught(), source, tmp_path / "d.teacher"), ALL_TITLES)
    assert source.asked == [TEXTS[2], TEXTS[3], *TEXTS[6:]]


@pytest.mark.parametrize("name", ["titles.npy", "teacher.json", "reduction.safetensors"])
def test_a_damaged_folder_is_computed_again(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    teach(taught(), FakeSource(), tmp_path / "d.teacher")
    path = tmp_path / "d.teacher" / name
    path.write_bytes(path.read_bytes()[:-3])
    assert_right(teach(taught(), FakeSource(), tmp_path / "d.teacher"), ALL_TITLES)
    assert "computed again" in caplog.text
    assert_right(teacher_folder.load(tmp_path / "d.teacher").teacher, ALL_TITLES)


KILLED = """
import os, signal, sys
from pathlib import Path
from clickvec.teacher import teaching
from fake_teacher import FakeSource
from test_teaching import taught
class Killed(FakeSource):
    def vectors(self, numbers, texts):
        if len(self.asked) >= 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().vectors(numbers, texts)
teaching.teach(taught(), Killed(), Path(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_run_continues(tmp_path: Path) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (here, here.parent, here.parents[1])))
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "d.teacher")],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        timeout=300,
    )
    assert ended.returncode == -signal.SIGKILL
    source = FakeSource()
    assert_right(teach(taught(), source, tmp_path / "d.teacher"), ALL_TITLES)
    assert source.asked == TEXTS[4:]


def test_a_teacher_of_other_texts_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    class Knows(FakeSource):
        known = 3

        def vectors(self, numbers: np.ndarray, texts: list[str]) -> reduction.Floats:  # type: ignore[override]
            vectors = super().vectors(numbers, texts)
            vectors[[text not in TEXTS[: self.known] for text in texts]] = 0
            return vectors

    with pytest.raises(ClickvecError, match=r"the teacher fake knows 2 of 7 titles, and half of them are needed"):
        teach(taught(), Knows(), tmp_path / "d.teacher")
    Knows.known = 6
    teacher = teach(taught(), Knows(), tmp_path / "e.teacher")
    assert (teacher.titles.any(1)).tolist() == [True, True, True, False, False, False, True]
    assert "does not know 3 of 7 titles and 0 of 4 queries" in caplog.text


def test_nan_is_refused(tmp_path: Path) -> None:
    class Nan(FakeSource):
        def vectors(self, numbers: np.ndarray, texts: list[str]) -> reduction.Floats:  # type: ignore[override]
            return np.full((len(texts), 3), np.nan, np.float32)

    Nan.reduction = None
    with pytest.raises(ClickvecError, match="the teacher fake gives NaN for 'red shoe'"):
        teach(taught(), Nan(), tmp_path / "d.teacher")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_somebody_else_is_kept(tmp_path: Path) -> None:
    (tmp_path / "d.teacher").mkdir()
    (tmp_path / "d.teacher" / "notes").write_text("mine")
    with pytest.raises(ClickvecError, match="a folder with other files in it"):
        teach(taught(), FakeSource(), tmp_path / "d.teacher")
    assert (tmp_path / "d.teacher" / "notes").read_text() == "mine"
    (tmp_path / "e.teacher.run").mkdir()
    (tmp_path / "e.teacher.run" / "notes").write_text("mine")
    teach(taught(), FakeSource(), tmp_path / "e.teacher")
    assert [path.name for path in (tmp_path / "e.teacher.run").iterdir()] == ["notes"]


def test_a_full_disk_is_told_and_the_run_continues_later(tmp_path: Path) -> None:
    for size in (40, 300):  # the plan cannot be written, or what follows it
        with small_disk(size), pytest.raises(ClickvecError, match=r"cannot write .*d\.teacher.*: File too large"):
            teach(taught(), FakeSource(), tmp_path / "d.teacher")
    assert not (tmp_path / "d.teacher").exists()
    assert_right(teach(taught(), FakeSource(), tmp_path / "d.teacher"), ALL_TITLES)


def test_two_processes_do_not_write_the_same_folder(tmp_path: Path) -> None:
    class Waits(FakeSource):
        def vectors(self, numbers: np.ndarray, texts: list[str]) -> reduction.Floats:  # type: ignore[override]
            with pytest.raises(ClickvecError, match=r"d\.teacher is in use by another process"):
                teach(taught(), FakeSource(), tmp_path / "d.teacher")
            return super().vectors(numbers, texts)

    assert_right(teach(taught(), Waits(), tmp_path / "d.teacher"), ALL_TITLES)


def test_products_of_rows_are_about_the_cosines() -> None:
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(8, 40))
    vectors = unit((rng.normal(size=(500, 8)) @ basis + 0.02 * rng.normal(size=(500, 40))).astype(np.float32))
    small = fit(vectors[:300], 8)
    rows = small.rows(vectors) * small.scales
    assert rows.shape == (500, 8)
    np.testing.assert_allclose(rows @ rows.T, vectors @ vectors.T, atol=0.03)
    assert not small.rows(np.zeros((1, 40), np.float32)).any()
    assert fit(vectors, 100).projection.shape == (40, 40)
    assert teaching.SAMPLE > reduction.DIMENSIONS
