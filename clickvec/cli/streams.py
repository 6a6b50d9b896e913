"""Write to standard output and standard error. Nothing else in the package writes to either.

Results go to stdout: `print_result`, `print_json` and `print_bytes` raise OutputError if they cannot write. Messages
go to stderr: `print_message` never raises, because a message that nobody reads must not change the outcome of a run.

Text is made safe for a terminal here: control characters, bidirectional overrides and other unprintable characters are
replaced by visible symbols.
"""

import contextlib
import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TextIO

from clickvec.errors import without_passwords
from clickvec.text.printable import COLOURS, clean, clean_lines, is_terminal

_REDRAW = "\r\x1b[K"  # return to the start of the line and erase it
_is_redrawn = False  # whether the terminal shows a line that `redraw_line` wrote


class OutputError(Exception):
    """A result could not be written to standard output."""


class ReaderClosedError(OutputError):
    """The program that reads standard output has closed it, as `head` does."""


# --- standard output ---------------------------------------------------------------------------------------------


def print_result(text: str, *, coloured: bool = False) -> None:
    """Print a result for people, followed by a newline.

    With `coloured`, the colour codes of screen.py are kept. Data must then be cleaned before it is coloured.
    """
    if coloured:  # the odd parts are colour codes
        parts = enumerate(COLOURS.split(text))
        safe = "".join(part if number % 2 else clean_lines(part) for number, part in parts)
    else:
        safe = clean_lines(text)
    _write(lambda stream: stream.write(f"{safe}\n"))


def print_json(value: object) -> None:
    """Print a value as one line of JSON. Escape characters that are unprintable or missing in the stream's encoding."""
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    _write(lambda stream: stream.write(f"{text}\n"))


def print_bytes(data: bytes) -> None:
    """Print lines of UTF-8 unchanged. If stdout is a terminal, print them as safe text with their tabs."""

    def write(stream: TextIO) -> None:
        if is_terminal(stream) or not hasattr(stream, "buffer"):
            lines = data.decode(errors="replace").split("\n")
            stream.write("\n".join("\t".join(map(clean, line.split("\t"))) for line in lines))
        else:
            stream.flush()  # keep the order: text that was printed before goes first
            stream.buffer.write(data)

    _write(write)


def print_summary(text: str) -> None:
    """Print a summary of files that were written. Only warn if it cannot be printed: the files are complete."""
    try:
        print_result(text)
    except OutputError as error:
        print_message(f"{error}; the summary is lost, but all files are written")


@contextlib.contextmanager
def printing_parser_output() -> Iterator[None]:
    """Capture what an argument parser prints, then print it safely: help to stdout, errors to stderr."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        if err.getvalue():
            for line in err.getvalue().removesuffix("\n").split("\n"):
                print_message(line)
        if out.getvalue():
            print_result(out.getvalue().removesuffix("\n"))


def _write(write: Callable[[TextIO], object]) -> None:
    stream: TextIO | None = sys.stdout
    _erase_redrawn()
    if stream is None or stream.closed:
        raise OutputError("cannot write to standard output: it is closed")
    try:
        write(stream)
        stream.flush()
    except OSError as error:
        _discard(stream)
        kind = ReaderClosedError if isinstance(error, BrokenPipeError) else OutputError
        raise kind(f"cannot write to standard output: {error.strerror or error}") from error


# --- standard error ----------------------------------------------------------------------------------------------


def print_message(text: str) -> None:
    """Print one line to stderr, without passwords."""
    _write_error(f"{clean(without_passwords(text))}\n")


def print_traceback(kind: type[BaseException], error: BaseException, stack: TracebackType | None) -> None:
    """Print the traceback of an unknown error, which is a bug. Its message may hold a password."""
    _write_error(clean_lines(without_passwords("".join(traceback.format_exception(kind, error, stack)))))


def redraw_line(text: str, *, keep: bool = False) -> None:
    """Replace the current line of the terminal on stderr. The next message erases it, unless it is kept."""
    global _is_redrawn
    _is_redrawn = True
    _write_error(f"{clean(text)}\n" if keep else clean(text))
    _is_redrawn = not keep


def show_log() -> None:
    """Show the messages that the library logs."""
    logger, handler = logging.getLogger("clickvec"), logging.Handler()
    handler.emit = lambda record: print_message(record.getMessage())  # type: ignore[method-assign]
    logger.setLevel(logging.INFO)
    logger.handlers = [handler]


def _erase_redrawn() -> None:
    global _is_redrawn
    if _is_redrawn:
        _is_redrawn = False
        _write_error(_REDRAW)


def _write_error(text: str) -> None:
    _erase_redrawn()
    with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be full, broken, closed or None
        sys.stderr.write(text)
        sys.stderr.flush()


# --- start and exit of the program -------------------------------------------------------------------------------


def open_streams() -> None:
    """Open closed standard streams on the null device. Call this before any file is opened.

    Otherwise the next file to be opened would get the descriptor of stdout or stderr, and output would go into it.
    `sys.stdout` stays None if it was closed, so that a lost result is an error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the locale's encoding may lack some characters
            stream.reconfigure(errors="backslashreplace")


def close_streams() -> None:
    """Erase a progress bar and flush the standard streams.

    Discard what cannot be written; otherwise Python fails on it at exit.
    """
    _erase_redrawn()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, including what it still buffers."""
    with contextlib.suppress(OSError):  # some streams have no descriptor
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
