"""A lock on a folder."""

import multiprocessing
import os
from pathlib import Path

import pytest
from child import run_script

from clickvec.errors import ClickvecError
from clickvec.storage import lock as lock_module
from clickvec.storage.lock import lock_holder, take_lock


def test_only_one_lock_at_a_time(tmp_path: Path) -> None:
    lock = take_lock(tmp_path)
    assert lock is not None
    assert take_lock(tmp_path) is None  # not even in the same process
    assert lock_holder(tmp_path) == f"process {os.getpid()}"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(is_locked, (tmp_path,))
        lock.close()
        assert not pool.apply(is_locked, (tmp_path,))


def is_locked(folder: Path) -> bool:
    lock = take_lock(folder)
    if lock is not None:
        lock.close()
    return lock is None


FORKED = """
    import os, sys
    from pathlib import Path
    from clickvec.storage.lock import take_lock

    def is_locked(folder):
        lock = take_lock(folder)
        if lock is not None:
            lock.close()
        return lock is None

    folder = Path(sys.argv[1])
    lock = take_lock(folder)
    assert lock is not None
    to_parent, to_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # waits until the parent ends
        os.close(to_child[1])
        lock.close()
        os.write(to_parent[1], b"x")
        os.read(to_child[0], 1)
        os._exit(0)
    os.read(to_parent[0], 1)
    assert is_locked(folder)
    os.close(lock._handle)  # as the end of the process does
    lock._handle = None
    assert not is_locked(folder)
"""


def test_a_forked_child_neither_keeps_nor_releases_the_lock(tmp_path: Path) -> None:
    run_script(FORKED, tmp_path)


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"cannot lock .*nowhere/lock: No such file"):
        take_lock(tmp_path / "nowhere")


def test_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.setattr(lock_module, "fcntl", None)
    with take_lock(tmp_path) or pytest.fail("locked"):
        assert take_lock(tmp_path)
    assert lock_holder(tmp_path) == "another process"
