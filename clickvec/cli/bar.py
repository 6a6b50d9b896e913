"""What people see while they wait, and tables. Progress goes to stderr, results to stdout.

Our own dozen lines rather than a library: training must run where only numpy, torch and safetensors are installed.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TypeVar

from clickvec.cli import streams
from clickvec.text.printable import clean

Item = TypeVar("Item", bound=Sized)
EVERY_SECONDS = 10.0


def track(batches: Iterable[Item], label: str, total: int | None, *, enabled: bool = True) -> Iterator[Item]:
    """Pass batches through, showing how many items have gone by, the rate and the time left, on stderr."""
    if not enabled:
        yield from batches
        return
    line = Line(label, total)
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        line.show(done)
    line.close(done)


class Line:
    """One line on stderr: redrawn in place on a terminal, printed every ten seconds elsewhere."""

    def __init__(self, label: str, total: int | None = None, unit: str = "", start: int = 0) -> None:
        self.label, self.total, self.unit, self.start = label, total, unit, start
        self._begun = self._shown = time.monotonic()
        self._live = streams.is_terminal(sys.stderr)

    def show(self, done: int, note: str = "", *, force: bool = False) -> None:
        """Show the state, if it is time to."""
        now = time.monotonic()
        if not force and now - self._shown < (0.2 if self._live else EVERY_SECONDS):
            return
        self._shown = now
        rate = (done - self.start) / max(now - self._begun, 1e-9)
        text = f"{self.label} {done:,}"
        if self.total:
            share, left = done / self.total, (self.total - done) / rate if rate else 0.0
            bar = f" {'━' * round(20 * share):╌<20}" if self._live else ""
            text = f"{self.label}{bar} {share:.0%} of {self.total:,}, {_clock(left)} left"
        text += f", {rate:,.0f}{self.unit}/s" + (f", {note}" if note else "")
        (streams.redraw_line if self._live else streams.print_message)(text)

    def clear(self) -> None:
        """Take the line off the terminal, to print something else."""
        if self._live:
            streams.redraw_line("")

    def close(self, done: int) -> None:
        """The last state, and an end of line."""
        if self._live:
            self.show(done, force=True)
            streams.print_message("")


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows as aligned columns: text to the left, numbers to the right; the first row is the head."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    numeric = [all(_is_number(row[column]) for row in cells[1:]) for column in range(len(widths))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _is_number(cell: str) -> bool:
    return cell.strip("%").replace(",", "").replace(".", "", 1).lstrip("-").isdigit()
