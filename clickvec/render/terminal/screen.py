"""Lay out text for the terminal: tables, bars, wrapped lines, words in the colour of their contribution.

On a terminal with colours, rich does the layout. With NO_COLOR or in a pipe, the same content comes as
plain text. All text is made safe here: data can neither send escape sequences nor rich markup to the terminal.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import NamedTuple

from clickvec.text.printable import COLOURS, clean, is_terminal

BAR = 12  # columns of a bar
SHORT = 24  # columns of a word in running text
LONGEST = 400  # columns of a cell of a table, in a terminal that wraps it
WIDEST = 120  # columns of a line that is comfortable to read


class Bar(NamedTuple):
    """A cell of a table that shows a number as a bar."""

    value: float
    largest: float

    def __str__(self) -> str:
        """Return the bar as signs."""
        return ("+" if self.value > 0 else "-") * self.length

    @property
    def length(self) -> int:
        """The number of columns."""
        return min(BAR, round(BAR * abs(self.value) / self.largest)) if self.largest else 0


Cell = str | Bar


@dataclass(frozen=True)
class Screen:
    """A terminal with this many columns."""

    columns: int = 80
    colour: bool = False

    def strong(self, text: str) -> str:
        """Return a text in bold. The text must be clean."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def table(self, align: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], *, cut: int = 0) -> list[str]:
        """Return the lines of a table. `align` has `<` or `>` for each column.

        If the table is too wide, column `cut` is shortened, or wrapped on a terminal with colours.
        """
        if self.colour:
            return self._rich_table(align, head, rows, cut)
        lines = [[clean(str(cell)) for cell in row] for row in (head, *rows)]
        widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
        others = sum(widths) - widths[cut] + 2 * (len(widths) - 1)
        widths[cut] = min(widths[cut], max(8, self.columns - others))
        for row in lines:
            row[cut] = clip(row[cut], widths[cut])
        drawn = ["  ".join(map(pad, row, widths, align)).rstrip() for row in lines]
        return [drawn[0], "-" * max(map(width, drawn)), *drawn[1:]]

    def _rich_table(
        self, align: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], cut: int
    ) -> list[str]:  # fmt: skip
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for at, (side, name) in enumerate(zip(align, head, strict=True)):
            table.add_column(
                Text(clean(name)), justify="right" if side == ">" else "left", no_wrap=at != cut, overflow="ellipsis"
            )
        for row in rows:
            table.add_row(*(
                Text("━" * cell.length, "green" if cell.value > 0 else "red") if isinstance(cell, Bar)
                else Text(clip(cell, LONGEST)) for cell in row
            ))  # fmt: skip
        return self._printed(table)

    def words(self, label: str, words: Sequence[str], values: Sequence[float], largest: float) -> list[str]:
        """Return a text after a label. With colours, each word has that of its value: green raises, red lowers."""
        if not self.colour:
            room = self.columns - len(label)
            lines = Screen(room).wrap(" ".join(clip(word, room) for word in words))
            return [f"{' ' * len(label) if at else label}{line}".rstrip() for at, line in enumerate(lines)]
        from rich.table import Table
        from rich.text import Text

        shown = Text(overflow="fold")
        for word, value in zip(words, values, strict=True):
            strength = abs(value) / largest if largest else 0.0
            weight = "" if strength < 0.35 else "bold " if strength < 0.7 else "reverse "
            shown.append(clip(word, LONGEST), f"{weight}{'green' if value > 0 else 'red'}" if strength > 0.08 else "")
            shown.append(" ")
        grid = Table.grid()
        grid.add_row(label, shown)
        return self._printed(grid)

    def _printed(self, renderable: object) -> list[str]:
        from rich.console import Console

        file = StringIO()
        console = Console(
            file=file, width=self.columns, force_terminal=True, color_system="standard", highlight=False, markup=False,
            emoji=False, legacy_windows=False, _environ={},
        )  # fmt: skip
        console.print(renderable)
        return [line.rstrip() for line in file.getvalue().rstrip("\n").split("\n")]

    def wrap(self, text: str) -> list[str]:
        """Return a clean text as lines that are broken at spaces."""
        lines = [""]
        for word in text.split(" "):
            if lines[-1] and width(lines[-1]) + 1 + width(word) > self.columns:
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
        return lines


def this_screen(*, piped: int = 80, most: int = WIDEST) -> Screen:
    """Return the screen of standard output. Text in a pipe is `piped` columns wide, and no text is wider than `most`.

    There are no colours in a pipe or if NO_COLOR is set.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(sys.stdout)
    columns = shutil.get_terminal_size((piped, 24)).columns
    return Screen(min(max(columns, 60), most), not plain)


def joined(parts: Sequence[Sequence[str]]) -> str:
    """Return the lines of all parts, with an empty line between parts."""
    return "\n\n".join("\n".join(part) for part in parts if part)


# --- the width of text -------------------------------------------------------------------------------------------


def width(text: str) -> int:
    """Return how many columns a text takes. Our own colour codes take none."""
    plain = COLOURS.sub("", text) if "\x1b" in text else text
    return len(plain) if plain.isascii() else sum(map(_columns, plain))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """Return a text made safe, and shortened to this many columns."""
    text = clean(text[: 4 * columns + 4])  # enough to fill the columns, unless every letter carries many accents
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
    """Return a text filled up with spaces: `<` on its right, `>` on its left."""
    room = " " * max(0, columns - width(text))
    return room + text if align == ">" else text + room
