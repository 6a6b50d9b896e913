"""What is on disk: whole or not at all, checked when it is opened, and never lost to a failed write."""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ondisk import change_config, read_arrays, read_metadata, sign
from tiny import TOWERS, tiny, tiny_model

from clickvec.config import POOLINGS, Tower
from clickvec.errors import ClickvecError
from clickvec.model import folder
from clickvec.model.folder import open_model, save_model, write_model
from clickvec.storage import files
from clickvec.storage.arrays import write_arrays
from clickvec.storage.files import replacing, replacing_file
from clickvec.storage.snapshot import open_folder
from clickvec.storage.temporary import locked

FILES = ("README.md", "config.json", "metrics.jsonl", "trigrams.txt", "weights.safetensors")
ROOT = str(Path(folder.__file__).parents[2])


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# --- the model folder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
@pytest.mark.parametrize("shared_tower", [False, True])
def test_round_trip(tmp_path: Path, fields: dict[str, Any], shared_tower: bool) -> None:
    model = tiny(shared_tower=shared_tower, seed=3, max_words=8, **fields)
    fingerprint = save_model(model._replace(metrics="{}\n", card="# Card\n"), tmp_path / "m")
    found = open_model(tmp_path / "m", verify=True)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == sorted(FILES)
    assert found.fingerprint == fingerprint != ""
    assert found._replace(weights={}, fingerprint="") == model._replace(weights={}, metrics="{}\n", card="# Card\n")
    assert found.weights.keys() == model.weights.keys()
    for name, weight in model.weights.items():
        np.testing.assert_array_equal(found.weights[name], weight)
        assert found.weights[name].dtype == np.float32
        assert not found.weights[name].flags.writeable
    for side in ("query", "title"):
        expected = [name.split(".", 1)[1] for name in model.weights if name.split(".")[0] in ("shared", side)]
        assert list(found.tower_weights(side)) == expected
    assert (tmp_path / "m" / "README.md").read_text() == "# Card\n"
    assert (tmp_path / "m" / "metrics.jsonl").read_text() == "{}\n"


def test_pooling_is_written_where_it_is_not_that_of_the_paper(tmp_path: Path) -> None:
    towers = {name: tiny()._replace(tower=Tower("lstm", 7, 9, 6, pooling=name)) for name in POOLINGS}
    prints = {name: save_model(model, tmp_path / name) for name, model in towers.items()}
    assert len(set(prints.values())) == len(POOLINGS)
    for name in POOLINGS:
        fields = json.loads((tmp_path / name / "config.json").read_text())["tower"]
        assert fields.get("pooling") == (None if name == "last" else name)
        assert open_model(tmp_path / name).tower == towers[name].tower


def test_a_model_from_before_pooling_opens_and_one_that_names_it_too(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m")
    assert open_model(path).tower.pooling == "last"
    config = json.loads((path / "config.json").read_text())
    config["tower"]["pooling"] = "last"
    (path / "config.json").write_text(json.dumps(config))
    sign(path)
    assert open_model(path).tower.pooling == "last"


def test_a_model_of_no_trigrams(tmp_path: Path) -> None:
    model = tiny()
    weights = {name: weight[:0] if name.endswith(".input") else weight for name, weight in model.weights.items()}
    save_model(model._replace(trigrams=(), weights=weights), tmp_path / "m")
    assert open_model(tmp_path / "m", verify=True).trigrams == ()


def test_the_same_model_is_the_same_bytes(tmp_path: Path) -> None:
    one, two = tiny_model(tmp_path / "one"), tiny_model(tmp_path / "two")
    assert contents(one) == contents(two)
    again = open_model(one)  # with its weights in the order of the file
    save_model(again, tmp_path / "three")
    assert contents(tmp_path / "three") == contents(one)
    assert open_model(tiny_model(tmp_path / "four", seed=1)).fingerprint != again.fingerprint


def test_the_fingerprint_is_of_what_is_computed(tmp_path: Path) -> None:
    model = tiny()
    fingerprint = save_model(model._replace(card="one card"), tmp_path / "a")
    assert (
        save_model(model._replace(training={"recipe": "other"}, metrics="{}", card="other card"), tmp_path / "b")
        == fingerprint
    )
    assert save_model(model._replace(max_words=9), tmp_path / "c") != fingerprint
    assert save_model(model._replace(trigrams=model.trigrams[::-1]), tmp_path / "d") != fingerprint


def test_others_may_read_the_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = tiny_model(tmp_path / "m")
    finally:
        os.umask(before)
    assert {stat.S_IMODE((path / name).stat().st_mode) for name in FILES} == {0o640}
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def bytes_of(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(change((path / name).read_bytes())) and None


def put_nan(path: Path) -> None:
    arrays = {name: np.array(value) for name, value in read_arrays(path / "weights.safetensors").items()}
    arrays["query.input_gate.bias"][3] = np.nan
    write_arrays(path / "weights.safetensors", arrays)
    sign(path)


def wrong_shape(path: Path) -> None:
    arrays = dict(read_arrays(path / "weights.safetensors"))
    arrays["query.input_gate.recurrent"] = np.zeros((7, 6), np.float32)
    write_arrays(path / "weights.safetensors", arrays)
    sign(path)


def resigned(**values: object) -> Callable[[Path], None]:
    """Other settings, with a fingerprint that agrees with them."""

    def change(path: Path) -> None:
        change_config(path, **values)
        sign(path)

    return change


def no_weight(path: Path) -> None:
    arrays = dict(read_arrays(path / "weights.safetensors"))
    del arrays["title.output_gate.bias"]
    write_arrays(path / "weights.safetensors", arrays)
    sign(path)


def cut_inside(path: Path) -> None:
    """As long as config.json says, and shorter than its own header says."""
    (path / "weights.safetensors").write_bytes((path / "weights.safetensors").read_bytes()[:-4])
    sign(path)


def not_utf8(path: Path) -> None:
    (path / "trigrams.txt").write_bytes(b"\xff\n" + (path / "trigrams.txt").read_bytes())
    sign(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "weights.safetensors").unlink(), "weights.safetensors is missing"),
        (lambda path: (path / "trigrams.txt").unlink(), "trigrams.txt is missing"),
        (lambda path: (path / "config.json").unlink(), "config.json is missing"),
        (bytes_of("weights.safetensors", lambda data: data[:-1]), "bytes, config.json says"),
        (bytes_of("weights.safetensors", lambda data: b""), "has 0 bytes, config.json says"),
        (bytes_of("trigrams.txt", lambda data: data + b"new\n"), "bytes, config.json says"),
        (bytes_of("config.json", lambda data: data[:99]), "cannot be read"),
        (bytes_of("config.json", lambda data: b""), "cannot be read"),
        (bytes_of("config.json", lambda data: b"[]"), "does not hold a JSON object"),
        (bytes_of("config.json", lambda data: b"{}"), "names no format"),
        (bytes_of("config.json", lambda data: b'{"format": 1}'), "lacks or misspells 'tower'"),
        (lambda path: change_config(path, format=4), "format 4, newer than 3: update clickvec"),
        (lambda path: change_config(path, max_words=11), "fingerprint disagrees"),
        (lambda path: change_config(path, files={}), "fingerprint disagrees"),
        (lambda path: change_config(path, files=None), "fingerprint disagrees"),
        (lambda path: change_config(path, tower={"kind": "lstm", "wheels": 4}), "lacks or misspells .*wheels"),
        (resigned(max_words="ten"), "lacks or misspells max_words: 'ten'"),
        (resigned(max_words=0), "lacks or misspells max_words: 0"),
        (resigned(tower={"kind": "cnn"}), "tower is one of .* not 'cnn'"),
        (resigned(tower={"cells": True}), "cells takes a whole number, not True"),
        (resigned(tower={"pooling": "sum"}), "pooling is one of .* not 'sum'"),
        (resigned(tower={"pooling": 1}), "pooling takes a word, not 1"),
        (resigned(training=None), "lacks or misspells training: None"),
        (wrong_shape, r"query.input_gate.recurrent .*\(7, 7\).*\(7, 6\)"),
        (no_weight, "title.output_gate.bias .*nothing"),
        (put_nan, "query.input_gate.bias holds a NaN"),
        (cut_inside, "truncated or damaged"),
        (not_utf8, "trigrams.txt cannot be read"),
    ],
)
def test_opening_refuses_what_is_damaged(model_folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(model_folder)
    with pytest.raises(ClickvecError, match=message) as error:
        open_model(model_folder)
    assert "\n" not in str(error.value)


def test_opening_refuses_what_is_not_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="there is no model folder at"):
        open_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ClickvecError, match="is a file; expected: model folder"):
        open_model(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ClickvecError, match=r"config\.json is missing"):
        open_model(tmp_path / "empty")


def test_verifying_finds_one_flipped_bit(model_folder: Path) -> None:
    open_model(model_folder, verify=True)
    weights = model_folder / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    change_config(model_folder, samples={})  # as of a model that was written before there were samples
    open_model(model_folder)
    with pytest.raises(ClickvecError, match=r"weights\.safetensors.*hash"):
        open_model(model_folder, verify=True)


def test_verifying_finds_a_nan_that_opening_leaves_unread(tmp_path: Path) -> None:
    model = tiny()
    model.weights["query.input_gate.input"][0, 0] = np.nan
    save_model(model, tmp_path / "m")
    open_model(tmp_path / "m")
    with pytest.raises(ClickvecError, match=r"query\.input_gate\.input holds a NaN"):
        open_model(tmp_path / "m", verify=True)


def test_a_copy_from_memory_is_byte_for_byte_the_folder_that_was_opened(tmp_path: Path) -> None:
    source = tiny_model(tmp_path / "source")
    before, model = contents(source), open_model(source)
    tiny_model(source, seed=1)  # another model takes its place
    (tmp_path / "copy").mkdir()
    assert write_model(model, tmp_path / "copy") == model.fingerprint
    assert contents(tmp_path / "copy") == before
    open_model(tmp_path / "copy", verify=True)


# --- atomic writes -----------------------------------------------------------------------------------------------


def test_an_older_folder_is_replaced_whole(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m")
    (path / "README.md").unlink()
    tiny_model(path, seed=1)
    assert sorted(file.name for file in path.iterdir()) == sorted(FILES)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_what_somebody_put_into_a_model_folder_is_not_lost(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m")
    (path / "notes.txt").write_text("mine")
    before = contents(path)
    with pytest.raises(ClickvecError, match=r"m holds notes\.txt"):
        tiny_model(path, seed=1)
    assert contents(path) == before


@pytest.mark.parametrize("name", [".", "..", "/", ""])
def test_a_place_without_a_name_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClickvecError, match="cannot be the name of a new folder"):
        tiny_model(Path(name))


def test_links_in_a_circle_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ClickvecError, match="symbolic links"):
        tiny_model(tmp_path / "loop")
    with pytest.raises(ClickvecError, match="links form a loop"), replacing_file(tmp_path / "loop"):
        pass


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path, link = tmp_path / "new" / "file", tmp_path / "link"
    with replacing_file(path) as file:
        file.write(b"one")
    link.symlink_to(path)
    with pytest.raises(RuntimeError):
        fail_inside_file(path)
    assert path.read_bytes() == b"one"
    with replacing_file(link) as file:
        file.write(b"two")
    assert link.is_symlink()
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask()


def fail_inside_file(path: Path) -> None:
    with replacing_file(path) as file:
        file.write(b"half")
        raise RuntimeError


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_does_not_take_the_place_of_a_folder_a_pipe_or_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, what in ((tmp_path, "a folder"), (Path("."), "a folder"), (tmp_path / "pipe", "not a regular file")):
        with pytest.raises(ClickvecError, match=f"is {what}; name a file to write"), replacing_file(place):
            pass
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'{"a": 1}',
        b'{"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0.5, 4]}}',
        b'{"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}',
    ],
)
def test_a_header_that_makes_no_sense_is_one_sentence(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ClickvecError, match="make it again"):
        read_arrays(tmp_path / "x")


@pytest.mark.parametrize("swaps", [True, False])
def test_the_swap_and_what_stands_in_for_it(tmp_path: Path, swaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not swaps:
        monkeypatch.setattr(files, "_swap", lambda one, other: False)
    path = tiny_model(tmp_path / "m")
    opened = open_model(path)
    tiny_model(path, seed=1)
    assert open_model(path).fingerprint != opened.fingerprint
    np.testing.assert_array_equal(opened.weights["query.input_gate.bias"], tiny().weights["query.input_gate.bias"])
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_the_swap_is_one_system_call(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "1").touch()
    if not files._swap(one, two):
        pytest.skip("this system does not exchange folders")
    assert (two / "1").exists()
    assert not (one / "1").exists()
    assert not files._swap(one, tmp_path / "nowhere")


def test_without_the_swap_a_failed_rename_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_model(tmp_path / "m")
    before = contents(path)
    monkeypatch.setattr(files, "_swap", lambda one, other: False)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":  # the fresh folder
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ClickvecError, match=r"Input/output error.*unchanged"):
        tiny_model(path, seed=1)
    assert contents(path) == before
    (tmp_path / "m").rename(tmp_path / "away")
    with pytest.raises(ClickvecError, match="Input/output error"):
        tiny_model(path, seed=1)
    (tmp_path / "away").rename(tmp_path / "m")
    assert contents(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def fail_inside(path: Path, failure: BaseException) -> None:
    with replacing(path, "config.json") as fresh:
        (fresh / "config.json").write_text("new")
        raise failure


@pytest.mark.parametrize("failure", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(3), ClickvecError("bad")])
def test_a_failure_inside_leaves_the_old_folder(tmp_path: Path, failure: BaseException) -> None:
    path = tiny_model(tmp_path / "m")
    before = contents(path)
    for place in (path, tmp_path / "new" / "m"):
        with pytest.raises(type(failure)):
            fail_inside(place, failure)
    assert contents(path) == before
    assert sorted(file.name for file in tmp_path.rglob("*")) == sorted([*FILES, "m", "new"])


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("place", ["write_arrays", "write_lines", "write_json", "_sync"])
def test_a_full_disk_leaves_the_old_folder(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_model(tmp_path / "m")
    before = contents(path)
    monkeypatch.setattr(files if place == "_sync" else folder, place, full_disk)
    with pytest.raises(ClickvecError, match=r"m: No space left on device.*unchanged"):
        tiny_model(path, seed=1)
    assert contents(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_write_that_really_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m")
    before = contents(path)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # no file may grow beyond this
    try:
        with pytest.raises(ClickvecError, match=r"m: .*unchanged"):
            tiny_model(path, seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert contents(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("cat")
    with pytest.raises(ClickvecError, match="a folder with other files in it"):
        tiny_model(tmp_path / "photos")
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ClickvecError, match="is a file"):
        tiny_model(tmp_path / "notes")
    with pytest.raises(ClickvecError, match="cannot write"):
        tiny_model(tmp_path / "notes" / "m")
    assert contents(tmp_path) == {"photos/cat.jpg": b"cat", "notes": b"mine"}


def test_an_empty_folder_and_missing_parents_are_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    open_model(tiny_model(tmp_path / "empty"))
    open_model(tiny_model(tmp_path / "a" / "b" / "c"))


def test_the_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    tiny_model(tmp_path / "m")
    (tmp_path / "link").symlink_to("m")
    tiny_model(tmp_path / "link", seed=1)
    assert (tmp_path / "link").is_symlink()
    assert open_model(tmp_path / "m").fingerprint == open_model(tiny_model(tmp_path / "other", seed=1)).fingerprint
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "m", "other"]


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from clickvec.storage.files import replacing
with replacing(Path(sys.argv[2]), "config.json") as fresh:
    (fresh / "config.json").write_text("half of it")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_the_old_folder(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m")
    before = contents(path)
    done = subprocess.run([sys.executable, "-c", KILLED, ROOT, str(path)], capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert contents(path) == before
    tiny_model(path, seed=1)
    open_model(path, verify=True)


HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from clickvec.storage.temporary import locked
with locked(Path(sys.argv[2]), "it"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_held_by_one_process_and_freed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, ROOT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ClickvecError, match="models/x is in use by another process"), locked(path, "models/x"):
            pass
        holder.kill()
    with locked(path, "x"):
        pass
    with locked(path, "x"), pytest.raises(ClickvecError, match="in use"), locked(path, "x"):
        pass


# --- lines and arrays --------------------------------------------------------------------------------------------


def test_lines_end_in_a_line_feed_only(tmp_path: Path) -> None:
    lines = ["a\u2028b", "c\x85d", "", "上海", "\r"]
    files.write_lines(tmp_path / "x", lines)
    with open_folder(tmp_path, ["x"], "folder") as opened:
        assert opened.lines("x") == lines
    files.write_lines(tmp_path / "x", [])
    with open_folder(tmp_path, ["x"], "folder") as opened:
        assert opened.lines("x") == []


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2", "<i8", "<i4", "|u1", "|b1"])
def test_arrays_of_every_type(tmp_path: Path, dtype: str) -> None:
    arrays = {"b": np.arange(6).reshape(2, 3).astype(dtype), "a": np.zeros((0, 3), dtype), "s": np.ones((), dtype)}
    write_arrays(tmp_path / "x", arrays, {"about": "上海"})
    found = read_arrays(tmp_path / "x")
    assert found.keys() == arrays.keys()
    for name, value in arrays.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype
    assert read_metadata(tmp_path / "x") == {"about": "上海"}


def test_every_truncation_of_an_array_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_arrays(path, {"a": np.arange(5, dtype=np.float32), "b": np.ones((2, 2), np.float32)})
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(ClickvecError, match="make it again"):
            read_arrays(path)
