"""One version of a folder: whatever writers do meanwhile, and whatever a stranger put into it."""

import contextlib
import errno
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from command import program, refused
from forged import forge_segment
from tiny import TEXTS, tiny, tiny_model

from clickvec import Encoder, Index
from clickvec.data import data_folder
from clickvec.errors import ClickvecError
from clickvec.model import folder
from clickvec.model.folder import open_model
from clickvec.model.shrink import write_shrunk
from clickvec.storage import files, snapshot, temporary
from clickvec.storage.snapshot import describe_file, open_folder

ROOT = str(Path(folder.__file__).parents[2])


# --- writers meanwhile -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def replaced_all_the_time(write: Callable[[int], object]) -> Iterator[None]:
    """Have a thread write version after version."""
    stop = threading.Event()

    def loop() -> None:
        version = 0
        while not stop.is_set():
            write(version := version + 1)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize("swaps", [True, False])
def test_every_open_of_an_index_gives_one_version(tmp_path: Path, swaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not swaps:
        monkeypatch.setattr(files, "_swap", lambda one, other: False)
    encoders = [Encoder.load(tiny_model(tmp_path / f"model{seed}", seed=seed)) for seed in range(2)]
    versions = [Index.build(one, [f"{text} {seed}" for text in TEXTS]) for seed, one in enumerate(encoders)]
    prints, found = [encoder.fingerprint for encoder in encoders], set[int]()
    vectors = [index._live.view().segment.exact.vectors for index in versions]
    versions[0].save(tmp_path / "index")
    with replaced_all_the_time(lambda version: versions[version % 2].save(tmp_path / "index", overwrite=True)):
        for opened in range(2_000):
            if opened >= 60 and found == {0, 1}:
                break  # on a busy machine, the other thread may not come to replace it for a while
            with Index.open(tmp_path / "index") as index:
                view = index._live.view()
                documents = view.documents.get(view.segment.seqs.tolist())
                number = prints.index(view.encoder.fingerprint)
                assert [one.title for one in documents.values()] == [f"{text} {number}" for text in TEXTS]
                np.testing.assert_array_equal(view.segment.exact.vectors, vectors[number])
                found.add(number)
    assert found == {0, 1}


def test_every_load_of_a_model_gives_one_version(tmp_path: Path) -> None:
    models = [tiny(seed=seed) for seed in range(2)]
    path = tmp_path / "model"
    prints = [folder.save_model(model, path) for model in models]
    with replaced_all_the_time(lambda version: folder.save_model(models[version % 2], path)):
        opened = [open_model(path) for _ in range(150)]
    for model in opened:
        expected = models[prints.index(model.fingerprint)]
        for name, weight in expected.weights.items():
            np.testing.assert_array_equal(model.weights[name], weight)


def test_an_index_opened_with_an_encoder_does_not_load_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "model"))
    Index.build(encoder, TEXTS).save(tmp_path / "index")
    monkeypatch.setattr(folder, "read_model", lambda opened: pytest.fail("it was loaded"))
    assert Index.open(tmp_path / "index", encoder).encoder is encoder


def test_a_folder_that_is_set_aside_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """Where two folders cannot be swapped, there is a moment without one."""
    path = tiny_model(tmp_path / "m")
    with temporary.temporary_folder(path) as aside:
        path.rename(aside / "old")
        timer = threading.Timer(0.2, lambda: (aside / "old").rename(path))
        timer.start()
        try:
            assert open_model(path).fingerprint
        finally:
            timer.join(60)


def test_a_folder_that_a_killed_run_set_aside_is_named_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PATIENCE_SECONDS", 0.0)
    path = tiny_model(tmp_path / "m")
    before = open_model(path).fingerprint
    aside = tmp_path / ".m.0123456789abcdef.partial"
    aside.mkdir()
    path.rename(aside / "old")
    with pytest.raises(ClickvecError, match=r"m; .*partial/old"):
        open_model(path)
    temporary.remove_leftovers(path)
    assert open_model(path).fingerprint == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("swaps", [True, False])
def test_without_handles_of_folders_it_works_by_name(
    tmp_path: Path, swaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, which has no handles of folders, syncs only what is open for writing, and has no C library."""
    monkeypatch.setattr(snapshot, "_USES_HANDLES", False)
    monkeypatch.setattr(temporary, "fcntl", None)
    open_file, sync = os.open, os.fsync
    writable = set[int]()

    def open_as_windows(path: object, flags: int, *rest: int, **options: object) -> int:
        if Path(str(path)).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        handle = open_file(path, flags, *rest, **options)  # type: ignore[arg-type]
        (writable.add if flags & (os.O_RDWR | os.O_WRONLY) else writable.discard)(handle)
        return handle

    def sync_as_windows(handle: int) -> None:
        if handle not in writable:
            raise OSError(errno.EBADF, "Bad file descriptor")
        sync(handle)

    def no_library(name: object) -> None:
        raise TypeError("argument of type 'NoneType'")

    monkeypatch.setattr(os, "open", open_as_windows)
    monkeypatch.setattr(os, "fsync", sync_as_windows)
    if not swaps:
        monkeypatch.setattr("ctypes.CDLL", no_library)
    path = tiny_model(tmp_path / "m")
    first = open_model(path)
    tiny_model(path, seed=1)
    assert open_model(path).fingerprint != first.fingerprint
    (path / "trigrams.txt").rename(tmp_path / "elsewhere")
    (path / "trigrams.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ClickvecError, match="is a link"):
        open_model(path)
    with pytest.raises(ClickvecError, match="there is no model folder"):
        open_model(tmp_path / "nowhere")
    with pytest.raises(ClickvecError, match="is a file; expected: model folder"):
        open_model(tmp_path / "elsewhere")


# --- files of another version ------------------------------------------------------------------------------------


def test_a_file_of_another_version_of_the_same_size_is_refused(tmp_path: Path) -> None:
    """As a copy leaves that was made while the folder was replaced."""
    tiny_model(tmp_path / "model")
    tiny_model(tmp_path / "model1", seed=1)
    (tmp_path / "model" / "weights.safetensors").write_bytes((tmp_path / "model1" / "weights.safetensors").read_bytes())
    with pytest.raises(ClickvecError, match=r"weights\.safetensors.*another version.*config\.json"):
        open_model(tmp_path / "model")


def test_a_sample_sees_the_size_and_every_block_that_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = bytearray(os.urandom(10_000))
    path.write_bytes(data)
    first = describe_file(path)
    for place in (0, 5_000, 9_999):  # a small file is read whole
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert describe_file(path)["sample"] != first["sample"]
    path.write_bytes(b"")
    assert describe_file(path)["bytes"] == 0


def test_folders_written_before_there_were_samples_still_open(tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "model"))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    del config["samples"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert open_model(tmp_path / "model", verify=True).fingerprint == encoder.fingerprint


# --- folders from a stranger -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors", "trigrams.txt", "README.md", "metrics.jsonl"])
def test_a_link_in_a_model_folder_is_refused_and_never_copied(tmp_path: Path, name: str) -> None:
    secret, path = tmp_path / "secret", tiny_model(tmp_path / "model")
    (path / name).rename(secret)
    (path / name).symlink_to(secret)
    with pytest.raises(ClickvecError, match=f"{name} is a link"):
        open_model(path)
    with pytest.raises(ClickvecError, match=f"{name} is a link"):
        write_shrunk(path, tmp_path / "small", "int8")
    assert not (tmp_path / "small").exists()


def test_a_link_to_a_whole_folder_is_the_users_own_affair(tmp_path: Path) -> None:
    tiny_model(tmp_path / "v1")
    (tmp_path / "model").symlink_to("v1")
    assert open_model(tmp_path / "model").fingerprint == open_model(tmp_path / "v1").fingerprint


def test_a_pipe_a_socket_and_a_folder_in_the_place_of_a_file_are_refused_at_once(tmp_path: Path) -> None:
    for kind in ("pipe", "socket", "folder"):
        path = tiny_model(tmp_path / kind)
        place = path / "metrics.jsonl"
        place.unlink()
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "socket":
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as bound, contextlib.chdir(path):
                bound.bind("metrics.jsonl")
        else:
            place.mkdir()
        done = program("info", path, "--verify", timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert "metrics.jsonl is not a regular file" in done.stderr


def test_an_index_whose_model_is_a_link_is_refused(tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "model"))
    Index.build(encoder, TEXTS).save(tmp_path / "index")
    segment = next((tmp_path / "index" / "segments").iterdir())
    for number, path in enumerate(
        (tmp_path / "index" / "models" / encoder.fingerprint, segment, tmp_path / "index" / "documents.sqlite")
    ):  # fmt: skip
        path.rename(tmp_path / f"elsewhere{number}")
        path.symlink_to(tmp_path / f"elsewhere{number}")
        with pytest.raises(ClickvecError, match=f"{path.name} is a link"):
            Index.open(tmp_path / "index")
        path.unlink()
        (tmp_path / f"elsewhere{number}").rename(path)
    Index.open(tmp_path / "index")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "/dev/zero", "model/../../secret", "./trigrams.txt", "\0"]
)
def test_config_and_index_can_name_no_file_outside_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tiny_model(tmp_path / "model")
    Index.create(tmp_path / "index", Encoder.load(path), TEXTS).close()
    config = json.loads((path / "config.json").read_text())
    config["files"][name] = {"bytes": 6, "sha256": "0"}
    config["fingerprint"] = folder._fingerprint(config)
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ClickvecError, match=r"model/config\.json lacks or misspells files"):
        open_model(path, verify=True)
    forge_segment(tmp_path / "index", lambda about: about["files"].update({name: {"bytes": 6, "crc32": 0}}))
    with pytest.raises(ClickvecError, match="is missing"):
        Index.open(tmp_path / "index")


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("text", [DEEP, f'{{"format": {DEEP}}}', '{"format": 1e999}', '{"format": ' + "9" * 5000 + "}"])
def test_json_that_would_end_the_program_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tiny_model(tmp_path / "model")
    Index.build(Encoder.load(path), TEXTS).save(tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(text)
    with pytest.raises(ClickvecError, match=r"index\.json cannot be read"):
        Index.open(tmp_path / "index")
    (path / "config.json").write_text(text)
    with pytest.raises(ClickvecError, match=r"config\.json cannot be read"):
        open_model(path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.json").write_text(text)
    with pytest.raises(ClickvecError, match=r"data\.json cannot be read"):
        data_folder.load(tmp_path / "data")


def test_huge_json_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "model")
    with (path / "config.json").open("r+b") as file:
        file.truncate(10**12)  # a file with a hole
    assert "bytes, more than" in refused("info", path)


@pytest.mark.parametrize("size", [2**63, 10**9, 20_000_000])
def test_a_huge_header_of_safetensors_is_refused(tmp_path: Path, size: int) -> None:
    path = tiny_model(tmp_path / "model")
    weights = path / "weights.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(size.to_bytes(8, "little") + data[8:])
    config = json.loads((path / "config.json").read_text())
    del config["samples"]
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ClickvecError, match=r"weights\.safetensors is not a complete"):
        open_model(path)


def test_a_nested_header_of_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(len(DEEP).to_bytes(8, "little") + DEEP.encode())
    with (
        open_folder(tmp_path, ["x"], "folder") as opened,
        pytest.raises(ClickvecError, match="not a complete safetensors"),
    ):
        opened.arrays("x")


def test_arrays_behind_a_header_of_any_length_are_aligned(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    for padding in range(8):
        header = b'{"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}}' + b" " * padding
        (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + values.tobytes())
        with open_folder(tmp_path, ["x"], "folder") as opened:
            found = opened.arrays("x")["a"]
        assert found.flags.aligned
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    "header", [b"{'descr': " + b"[" * 4000 + b"]" * 4000 + b"}", b"{'descr': '|O', 'shape': (1,)}"]
)
def test_an_npy_header_that_is_none_is_one_sentence(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "vectors.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with (
        open_folder(tmp_path, ["vectors.npy"], "folder") as opened,
        pytest.raises(ClickvecError, match=r"vectors\.npy"),
    ):
        opened.array("vectors.npy", "float32", (1,))


def test_opening_keeps_no_file_of_a_folder_open_that_failed(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "model")
    (path / "config.json").write_text("{}")
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    for _ in range(20):
        with pytest.raises(ClickvecError):
            open_model(path)
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) == before
