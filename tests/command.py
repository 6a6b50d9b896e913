"""Run the command line in tests: in this process, which is fast, or as a program."""

import contextlib
import os
import pty
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from clickvec.cli.app import app

PROGRAM = (sys.executable, "-m", "clickvec")
SMALL = ("--set", "cells=8", "--set", "hidden=8", "--set", "epochs=1")


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


def run(*arguments: str | Path, stdin: str | bytes = "") -> Done:
    """Run a command in this process. An error that it does not catch fails the test."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)
    return Done(done.exit_code, done.stdout, done.stderr)


def ok(*arguments: str | Path, stdin: str | bytes = "") -> str:
    """Run a command that must succeed, and return its stdout."""
    done = run(*arguments, stdin=stdin)
    assert done.status == 0, done.err
    return done.out


def refused(*arguments: str | Path, stdin: str | bytes = "", status: int = 1) -> str:
    """Run a command that must fail without a result, and return its error message."""
    done = run(*arguments, stdin=stdin)
    assert done.status == status, done
    assert done.out == ""
    return sentence(done.err)


def wrong_usage(*arguments: str | Path) -> str:
    """Run a command with wrong usage, and return the error."""
    done = run(*arguments)
    assert (done.status, done.out) == (2, ""), done
    assert done.err.startswith("Usage: ")
    return done.err.splitlines()[-1]


def sentence(err: str) -> str:
    """Return the error message: the last line of stderr, and the only one of its kind."""
    said = [line for line in err.splitlines() if line.startswith("clickvec: ")]
    assert len(said) == 1, err
    assert err.splitlines()[-1] == said[0]
    assert "Traceback" not in err
    return said[0].removeprefix("clickvec: ")


def check_tells(message: str, *parts: str | Path) -> None:
    """Check that a message contains each of these: a file, a line, a value, or how to fix it."""
    missing = [str(part) for part in parts if str(part) not in message]
    assert not missing, message


def program(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
    """Run a command as a program."""
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, **({"capture_output": True, "text": True, "timeout": 300} | options))


@contextlib.contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command as a program, and kill it at the end if it is still running."""
    command = [*PROGRAM, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def wait_for(path: Path, running: subprocess.Popen[str]) -> None:
    """Wait until a running program has written a file."""
    deadline = time.monotonic() + 60
    while not path.exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.exists(), running.poll()


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes, like a full disk. Python ignores the signal."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def contents(path: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, without those that readers of an index create."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("documents.sqlite-"))
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def in_a_terminal(*arguments: str | Path, **environment: str) -> str:
    """Return what a program prints if its output is a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "TERM")}
    with subprocess.Popen(
        [*PROGRAM, *map(str, arguments)], stdout=theirs, stderr=subprocess.PIPE, env=kept | environment
    ) as running:
        os.close(theirs)
        read = b""
        with contextlib.suppress(OSError):  # when the other end is closed
            while more := os.read(ours, 65536):
                read += more
        assert running.wait(60) == 0
    os.close(ours)
    return read.decode().replace("\r\n", "\n")
