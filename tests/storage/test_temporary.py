"""Temporary names: nobody can guess them, no link is followed, and the next run removes what a killed one left."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import SMALL, ok, run, started
from tiny import TEXTS

from clickvec.storage import temporary
from clickvec.storage.files import replacing_file, replacing_path
from clickvec.storage.temporary import locked, remove_leftovers, temporary_folder

ROOT = str(Path(temporary.__file__).parents[2])
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from clickvec.storage import files
path = Path(sys.argv[3])
with files.replacing(path, "config.json") if sys.argv[2] == "folder" else files.replacing_file(path):
    print("writing", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_names_are_random_and_only_their_owner_can_enter(tmp_path: Path) -> None:
    with temporary_folder(tmp_path / "m") as one, temporary_folder(tmp_path / "m") as two:
        assert one.name != two.name
        assert all(re.fullmatch(r"\.m\.[0-9a-f]{16}\.partial", entry.name) for entry in (one, two))
        assert one.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == []


def test_a_name_as_long_as_a_file_system_allows(tmp_path: Path) -> None:
    name = "ß" * 127
    with replacing_file(tmp_path / name) as file:
        file.write(b"x")
    assert names(tmp_path) == [name]
    (tmp_path / temporary._prefix(tmp_path / name)[:-1]).touch()
    remove_leftovers(tmp_path / name)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_being_written_is_left_alone_and_what_a_killed_run_left_is_removed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "m"
    command = [sys.executable, "-c", WRITER, ROOT, kind, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        remove_leftovers(path)
        assert len(names(tmp_path)) == 1
        writer.kill()
    assert len(names(tmp_path)) == 1
    remove_leftovers(path)
    assert names(tmp_path) == []


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    kept = [".m.partial", ".m.0123.partial", ".m.0123456789abcdeg.partial", ".n.0123456789abcdef.partial", "m.partial"]
    for name in kept:
        (tmp_path / name).touch()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").touch()
    (tmp_path / ".m.0123456789abcdef.partial").symlink_to(tmp_path / "victim")
    (tmp_path / ".m.1123456789abcdef.partial").mkdir()
    remove_leftovers(tmp_path / "m")
    assert names(tmp_path) == sorted([*kept, "victim", ".m.0123456789abcdef.partial"])
    assert (tmp_path / "victim" / "file").exists()


def test_without_locks_only_old_leftovers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "fcntl", None)
    for name, age in ((".m.0123456789abcdef.partial", 0), (".m.1123456789abcdef.partial", 2 * 24 * 3600)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    remove_leftovers(tmp_path / "m")
    assert names(tmp_path) == [".m.0123456789abcdef.partial"]


# --- links planted where a run writes ----------------------------------------------------------------------------


def test_no_link_is_followed_to_a_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path, "it"):
        pass
    assert not (tmp_path / "made").exists()


def test_no_link_is_followed_while_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    victim, log = tmp_path / "victim", tmp_path / "clicks.tsv"
    victim.write_text("precious")
    log.write_text("query\ttitle\n" + "".join(f"{text}\t{text} page\n" for text in TEXTS))
    run_folder = tmp_path / "m.run"
    run_folder.mkdir()
    for name in ("checkpoint.tmp", "metrics.jsonl"):
        (run_folder / name).symlink_to(victim)
    assert run("train", log, "--out", tmp_path / "m", "--overwrite", *SMALL).status == 0
    assert victim.read_text() == "precious"


def test_the_file_behind_a_link_that_the_user_made_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with replacing_path(tmp_path / "link") as fresh:
        fresh.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


# --- programs that are stopped -----------------------------------------------------------------------------------


def wait_for_temporary(folder: Path, running: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None:
        if any(folder.glob(".*.partial/*/*")):  # it has begun to write there
            return
        time.sleep(0.001)
    pytest.fail(f"it wrote nothing: {running.poll()}")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_stopped_program_leaves_nothing_or_the_next_run_removes_it(tmp_path: Path, number: signal.Signals) -> None:
    with started("simulate", tmp_path / "out", "--impressions", "1000000") as running:
        wait_for_temporary(tmp_path, running)
        running.send_signal(number)
        running.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert [name[:5] for name in names(tmp_path)] == [".out."]
    else:
        assert running.returncode == 128 + number
        assert names(tmp_path) == []
    ok("simulate", tmp_path / "out", "--impressions", "100")
    assert names(tmp_path) == ["out"]
