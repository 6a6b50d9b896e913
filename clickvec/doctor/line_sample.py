"""A uniform random sample of the clicked lines of a log, drawn in one pass."""

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from clickvec.data.events import Events
from clickvec.data.secrets import mask
from clickvec.doctor.text_hashes import canonical_texts, hash_texts

SAMPLE_LINES = 100_000
SEED = 0


@dataclass(frozen=True)
class Sample:
    """Sampled lines, in the order of their times, or of the log if it has no times."""

    queries: list[str]
    titles: list[str]
    clicks: list[float]
    lines: int  # clicked lines that the sample was drawn from
    times: list[int] | None = None  # seconds since 1970, UTC
    shown: frozenset[str] = frozenset()  # its queries that may be shown (data/privacy.py)

    def masked(self, may_be_shown: NDArray[np.uint64]) -> "Sample":
        """Mask the secrets in queries, and tell which queries may be shown, by the hashes of their canonical forms."""
        queries = mask(self.queries)[0]
        is_shown = np.isin(hash_texts(canonical_texts(self.queries)), may_be_shown).tolist()
        return replace(self, queries=queries, shown=frozenset(compress(queries, is_shown)))

    def __len__(self) -> int:
        """The number of sampled lines."""
        return len(self.queries)


_Line = tuple[float, int, int, str, str, float]  # random key, time, number, query, title, clicks


class LineSampler:
    """Keep the lines with the smallest random keys. The sample does not depend on how lines come in blocks."""

    def __init__(self, size: int = SAMPLE_LINES, seed: int = SEED) -> None:
        self._size, self._rng = size, np.random.default_rng(seed)
        self._kept: list[_Line] = []
        self._limit = 1.0  # no line with a larger key can be in the sample
        self._lines = 0
        self._has_times = True

    def add(self, events: Events) -> None:
        """Draw from a block of lines."""
        self._has_times &= events.times is not None
        clicked = np.flatnonzero(events.clicks > 0)
        keys = self._rng.random(len(clicked))
        chosen = keys < self._limit
        rows = clicked[chosen].tolist()
        numbers = (self._lines + np.flatnonzero(chosen)).tolist()
        times = [0] * len(rows) if events.times is None else events.times[clicked[chosen]].tolist()
        self._lines += len(clicked)
        queries, titles = [events.queries[row] for row in rows], [events.titles[row] for row in rows]
        clicks = events.clicks[clicked[chosen]].tolist()
        self._kept += zip(keys[chosen].tolist(), times, numbers, queries, titles, clicks, strict=True)
        if len(self._kept) >= 2 * self._size:
            self._drop()

    def _drop(self) -> None:
        self._kept = sorted(self._kept)[: self._size]  # by key
        if len(self._kept) == self._size:
            self._limit = self._kept[-1][0]

    def finish(self) -> Sample:
        """Return the sample."""
        self._drop()
        lines = sorted((time if self._has_times else 0, number, *texts) for _, time, number, *texts in self._kept)
        times, _, queries, titles, clicks = (list(column) for column in zip(*lines, strict=True)) if lines else [[]] * 5
        return Sample(queries, titles, clicks, self._lines, times if self._has_times else None)
