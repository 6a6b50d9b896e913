"""Files to lines of text in UTF-8. Bad lines are counted and listed, and no line is endless.

A line ends with "\\n" or "\\r\\n". U+2028, form feed and the like are text.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from clickvec.data.parsing.encodings import UTF_8, as_utf_8
from clickvec.data.parsing.open_files import name_of, open_stream, read_bytes
from clickvec.errors import ClickvecError

T = TypeVar("T")

MAX_LINE_BYTES = 10_000_000
TOO_LONG = f"longer than {MAX_LINE_BYTES:,} bytes"
MAX_EXAMPLES = 20
FEW_EXAMPLES = 3  # of each reason
MAX_BAD = 0.01  # the share of bad lines that readers accept by default
_CHUNK_BYTES = 1 << 20

# What is said if the format of a file may not be the one that its name says.
_FORMAT_REASONS = {"wrong number of columns", "not CSV", "not JSON", "not a JSON object"}
_FORMAT_HINT = (
    " (columns are separated by tabs, commas, ; or |, which --delimiter names; .jsonl is JSON lines: objects)"
)

LineBlock = tuple[int, list[str]]  # the number of the first line, and lines without their line ends


@dataclass(repr=False)
class BadLines:
    """The lines that a reader skipped: how many for which reason, and the first few as `file:line: reason`."""

    count: int = 0
    total: int = 0  # good and bad lines, without headers and blank lines
    headers: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)  # good lines that give no pair, by reason
    encodings: dict[str, str] = field(default_factory=dict)  # file -> its encoding, if it is not UTF-8
    delimiters: dict[str, str] = field(default_factory=dict)  # file -> its delimiter, if not that of its name
    layouts: dict[str, str] = field(default_factory=dict)  # file -> how it was read, if not by its columns alone
    others: list["BadLines"] = field(default_factory=list)  # of the files that ids were joined to
    _first: dict[str, list[tuple[int, str]]] = field(default_factory=dict, repr=False)  # of each file: line, message
    _unused_first: dict[str, str] = field(default_factory=dict, repr=False)
    by_reason: dict[str, list[str]] = field(default_factory=dict, repr=False)  # a few messages of each reason

    def __repr__(self) -> str:
        """Show the number of lines, the most frequent reasons, and the first bad line."""
        reasons = "".join(f", {count:,} {reason}" for reason, count in self.reasons.most_common(3))
        first = f"; first: {self.examples[0][:120]}" if self.examples else ""
        return f"BadLines({self.count:,} of {self.total:,}{reasons}{first})"

    @property
    def examples(self) -> list[str]:
        """The first bad lines, in the order of the files."""
        return [text for lines in self._first.values() for _, text in lines][:MAX_EXAMPLES]

    def first_of(self, name: str) -> tuple[int, str] | None:
        """Return the number of the first bad line of a file, and its message."""
        return self._first[name][0] if name in self._first else None

    def add(self, name: str, line: int, reason: str, detail: str | None = None, lines: int = 1) -> None:
        """Count a bad line. Lines are counted by `reason`; the example shows `detail` instead, if there is one."""
        self.count += lines
        self.reasons[reason] += lines
        few = self.by_reason.setdefault(reason, [])
        if len(few) < FEW_EXAMPLES:
            few.append(f"{name}:{line}: {detail or reason}")
        first = self._first.setdefault(name, [])
        if len(first) < MAX_EXAMPLES or line < first[-1][0]:
            insort(first, (line, f"{name}:{line}: {detail or reason}"))  # lines are checked by blocks, not in order
            del first[MAX_EXAMPLES:]

    def leave_out(self, name: str, line: int, reason: str, detail: str, lines: int = 1) -> None:
        """Count good lines that give no pair, such as one with an id that is not in the catalogue."""
        if reason not in self.unused:
            self._unused_first[reason] = f"{name}:{line}: {detail}"
        self.unused[reason] += lines

    @property
    def unused_examples(self) -> dict[str, str]:
        """Of each reason why good lines give no pair, the first line as `file:line: detail`."""
        return self._unused_first

    def merge(self, other: "BadLines") -> None:
        """Add the counts and examples of another file."""
        self.count += other.count
        self.total += other.total
        self.headers += other.headers
        self.reasons += other.reasons
        self.unused += other.unused
        self.encodings |= other.encodings
        self.delimiters |= other.delimiters
        self.layouts |= other.layouts
        self._first |= other._first
        for reason, few in other.by_reason.items():
            self.by_reason[reason] = [*self.by_reason.get(reason, []), *few][:FEW_EXAMPLES]
        self._unused_first = other._unused_first | self._unused_first

    def check(self, name: str, max_bad: float, kept: int, kind: str) -> None:
        """Raise if nothing was kept or the share of bad lines is above `max_bad`; `kind` names what is kept."""
        if not self.total:
            raise ClickvecError(f"{name} has a header and no lines below it" if self.headers else f"{name} is empty")
        is_alone = self.total == 1
        no_line_is = "its only line is not" if is_alone else f"none of its {self.total:,} lines is"
        first = ": " if is_alone else "; first: "
        if not kept and self.count:
            hint = _FORMAT_HINT if self.reasons.keys() & _FORMAT_REASONS else self._encoding_hint()
            raise ClickvecError(f"{name}: {no_line_is} a good {kind}{first}{self.examples[0]}{hint}")
        if not kept:
            example = next((f"{first}{example}" for example in self._unused_first.values()), "")
            raise ClickvecError(f"{name}: {no_line_is} a {kind}{example}")
        if self.count > max_bad * self.total:
            are = "is" if self.count == 1 else "are"
            raise ClickvecError(
                f"{name}: {self.count:,} of {self.total:,} lines ({100 * self.count / self.total:.1f}%) {are} bad, "
                f"more than --max-bad {max_bad:g} allows; first: {self.examples[0]}{self._encoding_hint()}"
            )

    @property
    def likely_encoding(self) -> str:
        """The encoding that most bad lines seem to have, nothing if they are bad for other reasons."""
        if not self.count or 2 * max(self.reasons["not UTF-8"], self.reasons["NUL byte"]) < self.count:
            return ""
        return "cp1252" if self.reasons["not UTF-8"] else "utf-16-le"

    def _encoding_hint(self) -> str:
        encoding = self.likely_encoding
        return f". Name the encoding of the file with --encoding {encoding}" if encoding else ""


@dataclass(frozen=True, repr=False)
class Rows(Generic[T]):
    """What a reader returns: the good rows of its files, in order, and the bad lines."""

    rows: tuple[T, ...]
    bad: BadLines = field(default_factory=BadLines)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the rows, in order."""
        return iter(self.rows)

    def __repr__(self) -> str:
        """Show the number of rows and the start of the first one."""
        bad = f", {self.bad.count:,} bad lines" if self.bad.count else ""
        return f"Rows({len(self):,} rows{bad}{f': {repr(self.rows[0])[:200]}, ...' if self.rows else ''})"

    def __getitem__(self, index: int) -> T:
        """Return the row at an index."""
        return self.rows[index]


def file_lines(path: Path, bad: BadLines, encoding: str | None = None) -> Iterator[LineBlock]:
    """Yield the lines of a plain or compressed file, as `stream_lines` does."""
    with open_stream(path) as stream:
        yield from stream_lines(stream, name_of(path), bad, encoding)


def stream_lines(stream: BinaryIO, name: str, bad: BadLines, encoding: str | None = None) -> Iterator[LineBlock]:
    """Yield blocks of (number of the first line, lines without their line ends).

    Without an `encoding`, the first bytes tell it. A line that is not text is counted in `bad` and replaced by an empty
    line, which callers skip, so that line numbers stay right. Lines come in blocks because one decode and one split for
    thousands of lines is much faster.
    """
    first = 1
    stream, encoding = as_utf_8(stream, name, encoding, _CHUNK_BYTES)
    if encoding != UTF_8:
        bad.encodings[name] = encoding
    for block in _blocks(stream, name):
        lines = _decode(block)
        if lines is None:
            lines = [_decode_line(raw, name, first + i, bad, encoding) for i, raw in enumerate(block.split(b"\n"))]
        if first == 1:
            lines[0] = lines[0].removeprefix("\ufeff")
        bad.total += len(lines) - lines.count("")
        yield first, lines
        first += len(lines)


def _blocks(stream: BinaryIO, name: str) -> Iterator[bytearray]:
    """Yield pieces of whole lines, without the last line end. A line over the limit is cut off."""
    tail = bytearray()
    while chunk := read_bytes(stream, _CHUNK_BYTES, name):
        cut = chunk.rfind(b"\n")
        if cut >= 0:
            tail += chunk[:cut]
            yield tail
            tail = bytearray(chunk[cut + 1 :])
        elif len(tail) <= MAX_LINE_BYTES:  # beyond the limit the line is bad: keep no more of it
            tail += chunk
    if tail:
        yield tail


def _decode(block: bytearray) -> list[str] | None:
    """Return the lines of a block; None if a line is bad."""
    if len(block) > MAX_LINE_BYTES or b"\0" in block:
        return None
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text.split("\n")


def _decode_line(raw: bytearray, name: str, number: int, bad: BadLines, encoding: str) -> str:
    reason = detail = None
    if len(raw) > MAX_LINE_BYTES:
        reason = TOO_LONG
    elif b"\0" in raw:
        reason = "NUL byte"
    else:
        try:
            return raw.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            reason, detail = "not UTF-8", f"not UTF-8: byte 0x{raw[error.start]:02x} at {error.start + 1}"
            if encoding != UTF_8:  # the bytes of the file are not known any more
                reason, detail = f"not {encoding}", None
    bad.add(name, number, reason, detail)
    bad.total += 1
    return ""
