"""The lines of a click log in blocks, whatever the format of its files: all readers of logs yield `Events`."""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Events(NamedTuple):
    """Some consecutive good lines of a log, as columns. Texts are as in the file.

    A line with 0 clicks is a title that was shown and not clicked. A column that the log does not have is None.
    """

    queries: Sequence[str]
    titles: Sequence[str]
    clicks: NDArray[np.float64]
    clients: Sequence[str] | None = None  # who typed the query: a user, a session, a cookie
    times: NDArray[np.int64] | None = None  # seconds since 1970, UTC
    positions: NDArray[np.int32] | None = None  # in the list that was shown; the first is 1, and 0 is unknown
    lines: NDArray[np.int64] | None = None  # numbers of the lines in the whole log; None if they follow those before
    sessions: bool = False  # whether the clients are sessions, several of which may be one person's

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each line with the columns that it has, as a reader of JSON lines takes it."""
        who = "session" if self.sessions else "client"
        columns = {
            "query": self.queries, "title": self.titles, "clicks": self.clicks.tolist(), who: self.clients,
            "time": None if self.times is None else self.times.tolist(),
            "position": None if self.positions is None else [at or None for at in self.positions.tolist()],
        }  # fmt: skip
        present = {name: column for name, column in columns.items() if column is not None}
        return (dict(zip(present, row, strict=True)) for row in zip(*present.values(), strict=True))

    def where(self, mask: NDArray[np.bool_]) -> "Events":
        """Return the lines that a mask selects."""
        chosen = mask.tolist()
        return Events(
            list(compress(self.queries, chosen)),
            list(compress(self.titles, chosen)),
            self.clicks[mask],
            None if self.clients is None else list(compress(self.clients, chosen)),
            None if self.times is None else self.times[mask],
            None if self.positions is None else self.positions[mask],
            None if self.lines is None else self.lines[mask],
            self.sessions,
        )
