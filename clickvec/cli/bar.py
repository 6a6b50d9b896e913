"""The progress bar on stderr."""

import contextlib
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

from clickvec.cli import streams
from clickvec.text.printable import is_terminal

EVERY_SECONDS = 10.0
_keeps_finished = True  # whether the line of finished work stays on the terminal


class Bar:
    """Show how far work is, with its rate and the time left. Pass it as `progress` to any long work.

    On a terminal, one line is redrawn in place. Elsewhere, a line is printed every ten seconds.
    """

    def __init__(self) -> None:
        self._label, self._start, self._done = "", 0, 0
        self._begun = self._shown = 0.0

    def __call__(self, label: str, done: int, total: int | None, note: str = "") -> None:
        """Show the state, if it is time to."""
        now, live = time.monotonic(), is_terminal(sys.stderr)
        if label != self._label or done < self._done:  # other work begins, perhaps in the middle of a resumed run
            self._label, self._start, self._begun, self._shown = label, done, now, now
        self._done = done
        finished = live and done == total
        if not finished and now - self._shown < (0.2 if live else EVERY_SECONDS):
            return
        self._shown = now
        rate = (done - self._start) / max(now - self._begun, 1e-9)
        text = f"{label} {done:,}"
        if total:
            share, left = done / total, (total - done) / rate if rate else 0.0
            drawn = f" {'━' * round(20 * share):╌<20}" if live else ""
            text = f"{label}{drawn} {share:.0%} of {total:,}, {timedelta(seconds=int(left))} left"
        text += f", {rate:,.0f}/s" + (f", {note}" if note else "")
        if live:
            streams.redraw_line(text, keep=finished and _keeps_finished)
        else:
            streams.print_message(text)


@contextlib.contextmanager
def erased_bars() -> Iterator[None]:
    """Erase the line of finished work, for a verb that does much and tells it in its own words."""
    global _keeps_finished
    _keeps_finished = False
    try:
        yield
    finally:
        _keeps_finished = True
