"""Standard output and standard error. Nothing else in the package writes to either.

Results go to stdout: `give`, `give_json` and `give_bytes` raise OutputError if they cannot be written. Everything else
goes to stderr: `tell` never raises, because a message that nobody reads must not change the outcome of a run.

Text is made safe for a terminal here: control characters, bidirectional overrides and other unprintable characters are
shown as pictures. This module needs only the standard library: training runs without the command line's packages.
"""

import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from clickvec.text.printable import COLOURS, clean, clean_lines

_REDRAW = "\r\x1b[K"  # back to the start of the line, and erase it
_is_redrawn = False  # whether the terminal shows a line that `redraw_line` wrote


class OutputError(Exception):
    """A result could not be written to standard output."""


class ReaderClosedError(OutputError):
    """Whoever read standard output has closed it: it has seen enough."""


# --- safe text ---------------------------------------------------------------------------------------------------


def _clean_between_colours(text: str) -> str:
    return "".join(part if place % 2 else clean_lines(part) for place, part in enumerate(COLOURS.split(text)))


# --- standard output ---------------------------------------------------------------------------------------------


def print_result(text: str, *, coloured: bool = False) -> None:
    """Print a result for people, and an end of line.

    If it is coloured, our own colour codes are kept. Data must then be clean before it is coloured.
    """
    safe = _clean_between_colours(text) if coloured else clean_lines(text)
    _write(lambda stream: stream.write(f"{safe}\n"))


def print_json(value: object) -> None:
    """Print a value as one line of JSON, in which all that is unprintable, or not in the encoding, is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    if not _encodable(text):
        text = json.dumps(value)
    _write(lambda stream: stream.write(f"{text}\n"))


def print_bytes(data: bytes) -> None:
    """Print UTF-8 lines as they are; on a terminal, print them as safe text with their tabs."""

    def write(stream: TextIO) -> None:
        if is_terminal(stream) or not hasattr(stream, "buffer"):
            lines = data.decode(errors="replace").split("\n")
            stream.write("\n".join("\t".join(map(clean, line.split("\t"))) for line in lines))
        else:
            stream.flush()  # what was printed before comes before
            stream.buffer.write(data)

    _write(write)


def print_summary(text: str) -> None:
    """Print a line about files that are written. If it is lost, warn: the files are there all the same."""
    try:
        print_result(text)
    except OutputError as lost:
        print_message(f"{lost}; the summary is lost, all files are written")


@contextlib.contextmanager
def printing_parser_output() -> Iterator[None]:
    """Hold back what a parser of arguments prints, then print it: its help to stdout, its complaints to stderr."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        if err.getvalue():
            print_message_lines(err.getvalue().removesuffix("\n"))
        if out.getvalue():
            print_result(out.getvalue().removesuffix("\n"))


def _write(write: Callable[[TextIO], object]) -> None:
    stream: TextIO | None = sys.stdout
    _erase_redrawn()
    if stream is None or stream.closed:
        sys.stdout = _nowhere()
        raise OutputError("cannot write to standard output: it is closed")
    try:
        write(stream)
        stream.flush()
    except OSError as error:
        _drop(stream)
        kind = ReaderClosedError if isinstance(error, BrokenPipeError) else OutputError
        raise kind(f"cannot write to standard output: {error.strerror or error}") from error


def _encodable(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


# --- standard error ----------------------------------------------------------------------------------------------


def print_message(text: str) -> None:
    """Say something that is no result, in one line."""
    _say(f"{clean(text)}\n")


def print_message_lines(text: str) -> None:
    """Say something that is no result, in several lines."""
    _say(f"{clean_lines(text)}\n")


def redraw_line(text: str, *, keep: bool = False) -> None:
    """Replace the current line of the terminal behind standard error. The next message erases it, unless it is kept."""
    global _is_redrawn
    _is_redrawn = True
    _say(f"{clean(text)}\n" if keep else clean(text))
    _is_redrawn = not keep


class LogHandler(logging.Handler):
    """Write the messages of the library to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message as one line."""
        print_message(record.getMessage())


def show_log() -> None:
    """Show the messages that the library logs."""
    logger = logging.getLogger("clickvec")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, LogHandler) for handler in logger.handlers):
        logger.addHandler(LogHandler())


def _erase_redrawn() -> None:
    global _is_redrawn
    if _is_redrawn:
        _is_redrawn = False
        _say(_REDRAW)


def _say(text: str) -> None:
    _erase_redrawn()
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be full, broken, closed or None
        sys.stderr.write(text)
        sys.stderr.flush()


# --- the life of a program ---------------------------------------------------------------------------------------


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream, which may be closed, is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def open_streams() -> None:
    """Open the standard streams that are closed on the null device. Call this before any file is opened.

    Otherwise the next file that is opened would be standard output or standard error to all that writes there.
    `sys.stdout` stays None if it was closed: a result must not vanish without an error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number, which is this one
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the locale may lack the characters of a text
            stream.reconfigure(errors="backslashreplace")


def close_streams() -> None:
    """Erase a progress bar and flush the standard streams.

    Drop what cannot be written: otherwise Python fails on it when it exits.
    """
    _erase_redrawn()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            _drop(stream)


def _drop(stream: TextIO) -> None:
    """Send what a stream still holds, and all that follows, to the null device."""
    with contextlib.suppress(OSError):  # some streams have no descriptor
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")
