"""Text for a terminal: signed numbers as colours or bars, words that are two columns wide, nothing that steers it.

With colour, green raises and red lowers; without, plus and minus signs say the same, so that nothing is lost.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clickvec.cli.streams import is_terminal
from clickvec.text.printable import COLOURS, clean

_LEVELS = (0.08, 0.35, 0.7)  # of the largest size: where weak, middling and strong begin
_STYLES = ("", "3{}", "1;3{}", "7;3{}")
GREEN, RED = 2, 1
ROWS = 8  # of links, cells and edits
BAR = 10  # columns
SHORT = 24  # columns for a word in running text
ARROWS = {"left to right": "l->r", "right to left": "r->l", "": ""}
WIDEST = 120  # columns of running text that one likes to read


def width(text: str) -> int:
    """How many columns a text takes; our own escape codes take none."""
    plain = COLOURS.sub("", text) if "\x1b" in text else text
    return len(plain) if plain.isascii() else sum(map(_columns, plain))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """A text made clean and, where it is too long, cut."""
    text = clean(text[: 4 * columns + 4])  # more than can be seen, unless every letter has a stack of accents
    if width(text) <= columns:
        return text
    kept, left = "", columns - 3
    for char in text:
        left -= _columns(char)
        if left < 0:
            break
        kept += char
    return kept + "..."[: max(0, columns)]


def pad(text: str, columns: int, align: str = "<") -> str:
    """A text filled up with spaces: `<` on its right, `>` on its left, `^` on both sides."""
    room = max(0, columns - width(text))
    before = {"<": 0, ">": room, "^": room // 2}[align]
    return " " * before + text + " " * (room - before)


@dataclass(frozen=True)
class Screen:
    """A terminal of some columns, with colours or without."""

    columns: int = 80
    colour: bool = False

    def strong(self, text: str) -> str:
        """A heading, or a keyword."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def paint(self, text: str, value: float, largest: float) -> str:
        """A text in the colour of a number, the stronger the larger it is; no colour, no change."""
        style = _STYLES[level(value, largest)].format(GREEN if value > 0 else RED)
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and style else text

    def bar(self, value: float, largest: float, columns: int) -> str:
        """A number as a bar."""
        size = min(columns, round(columns * abs(value) / largest)) if largest else 0
        if self.colour and size:
            return f"\x1b[4{GREEN if value > 0 else RED}m{' ' * size}\x1b[0m{' ' * (columns - size)}"
        return pad(("+" if value > 0 else "-") * size, columns)

    def shaded(self, label: str, words: Sequence[str], values: Sequence[float], largest: float) -> list[str]:
        """A text with its words in their colours; without colours, with signs under them."""
        room = self.columns - len(label)
        rows, used = [("", "")], 0
        for word, value in zip(words, values, strict=True):
            shown = clip(word, room)
            mark = "" if self.colour else ("+" if value > 0 else "-") * level(value, largest)
            columns = max(width(shown), len(mark))
            if used and used + columns > room:
                rows.append(("", ""))
                used = 0
            text, marks = rows[-1]
            painted = self.paint(shown, value, largest) + " " * (columns - width(shown))
            rows[-1] = (f"{text}{painted} ", f"{marks}{pad(mark, columns)} ")
            used += columns + 1
        lines = [line.rstrip() for row in rows for line in row if line.strip()]
        return [f"{label if at == 0 else ' ' * len(label)}{line}" for at, line in enumerate(lines or [""])]

    def wrap(self, text: str | Sequence[str]) -> list[str]:
        """Clean text in as many lines as it needs, broken at spaces, or between the pieces that are given."""
        lines = [""]
        for piece in text.split(" ") if isinstance(text, str) else text:
            if lines[-1] and width(lines[-1]) + 1 + width(piece) > self.columns:
                lines.append("")
            lines[-1] += f" {piece}" if lines[-1] else piece
        return lines

    def table(
        self, align: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, cut: int = 0, rule: bool = False
    ) -> list[str]:
        """Rows of cells under a head, and under a rule if asked for, each column aligned as `pad` does it.

        The column `cut` is made clean, and cut to fit the screen; what is in the others must be clean already.
        """
        every = [[*row[:cut], clip(row[cut], self.columns), *row[cut + 1 :]] for row in (head, *rows)]
        widths = [max(map(width, column)) for column in zip(*every, strict=True)]
        others = sum(widths) - widths[cut] + 2 * (len(widths) - 1)
        widths[cut] = min(widths[cut], max(8, self.columns - others))
        for row in every:
            row[cut] = clip(row[cut], widths[cut])
        lines = ["  ".join(map(pad, row, widths, align)).rstrip() for row in every]
        return [lines[0], "-" * max(map(width, lines)), *lines[1:]] if rule else lines

    def blocks(self, align: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """A table that may be wider than the screen: as many tables as it takes, each with the first column."""
        named = [clip(row[0], self.columns // 2) for row in (head, *rows)]
        room = self.columns - max(map(width, named)) - 2
        cells = [[clip(cell, room) for cell in row[1:]] for row in (head, *rows)]
        widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
        found = []
        for block in _blocks(widths, room) or [range(0)]:
            first, *others = ([name, *(row[at] for at in block)] for name, row in zip(named, cells, strict=True))
            found.append(self.table(align[0] + "".join(align[1 + at] for at in block), first, others, rule=True))
        return found

    def across(
        self, label: str, words: Sequence[str], marked: Sequence[bool], rows: Sequence[tuple[str, Sequence[str]]]
    ) -> list[str]:
        """A table with the words across, as the paper prints them: in blocks, where it is wider than the screen."""
        names = [clip(name, self.columns // 2) for name in (label, *(name for name, _ in rows))]
        first = max(map(width, names))
        room = self.columns - first - 3
        heads = [clip(word, room) + ("*" if mark else "") for word, mark in zip(words, marked, strict=True)]
        widths = [max(width(head), *(width(cells[at]) for _, cells in rows)) for at, head in enumerate(heads)]
        lines: list[str] = []
        for block in _blocks(widths, room + 1):
            lines += [""] if lines else []
            for name, cells in zip(names, (heads, *(cells for _, cells in rows)), strict=True):
                shown = [pad(cells[at], widths[at], "^") for at in block]
                if cells is heads:
                    shown = [self.strong(cell) if marked[at] else cell for at, cell in zip(block, shown, strict=True)]
                lines.append("  ".join([pad(name, first), *shown]).rstrip())
        return lines


def _blocks(widths: Sequence[int], room: int) -> list[range]:
    """Columns that fit beside each other, two spaces apart; a column that is too wide stands alone."""
    blocks, start, used = [], 0, 0
    for at, columns in enumerate(widths):
        if at > start and used + columns > room:
            blocks.append(range(start, at))
            start, used = at, 0
        used += columns + 2
    return [*blocks, range(start, len(widths))] if widths else []


def this_screen(*, piped: int = 80, most: int = WIDEST) -> Screen:
    """The terminal of standard output: in colour, unless it is none, or NO_COLOR asks for plain text.

    Text that goes elsewhere is `piped` columns wide; no text is wider than `most`.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(sys.stdout)
    columns = shutil.get_terminal_size((piped, 24)).columns
    return Screen(min(max(columns, 60), most), not plain)


def cell_name(cell: int, way: str, both_ways: bool, sign: str = "") -> str:
    """Its number, with a sign if any, and with the direction of reading where there are two."""
    return f"{cell}{sign} {ARROWS[way]}" if both_ways else f"{cell}{sign}"


def level(value: float, largest: float) -> int:
    """How strong a number is beside the largest one: 0, 1, 2 or 3."""
    return sum(abs(value) >= share * largest for share in _LEVELS) if largest > 0 else 0


def largest_of(values: Sequence[float]) -> float:
    """The greatest size."""
    return max(map(abs, values), default=0.0)


def fixed(values: Sequence[float], signed: bool = False) -> list[str]:
    """Numbers with three digits after the point; zero is never minus zero."""
    rounded = [round(value, 3) + 0.0 for value in values]
    return [f"{value:+.3f}" if signed else f"{value:.3f}" for value in rounded]


def apart(parts: Iterable[Sequence[str]]) -> list[str]:
    """The lines of parts, with one empty line between those that have any."""
    lines: list[str] = []
    for part in parts:
        lines += ["", *part] if lines and part else part
    return lines


def counted(number: int, thing: str, things: str = "") -> str:
    """A number of things: 1 title, 2,910 titles."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def count(cells: int | None) -> str:
    """How many cells detect a word; the direction that reads it first cannot tell."""
    return "-" if cells is None else str(cells)


def verdict(keyword: bool | None) -> str:
    """Whether a word is a keyword, in one character."""
    return "?" if keyword is None else "*" if keyword else ""
