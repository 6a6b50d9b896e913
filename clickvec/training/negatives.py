"""The titles that a clicked title must beat: random ones, those of the minibatch, shown ones, and mined ones.

`mining.py` finds the mined ones.
"""

import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.config import HARD_POOL, Recipe
from clickvec.data.dataset import Dataset
from clickvec.text.ragged import Ragged
from clickvec.training import scratch

Ids = NDArray[np.int64]
Drawn = tuple[Ids, NDArray[np.bool_]]  # titles for each pair, and which of them to use
REDRAWS = 20


class Candidates(NamedTuple):
    """The titles of one minibatch: pair r should prefer `titles[positive[r]]` to `titles[negative[r]]`, if they count.

    With in-batch negatives, `negative` is None: every title of the minibatch is one, if `counts` is true for it.
    """

    titles: Ids
    positive: Ids
    negative: Ids | None
    counts: NDArray[np.bool_]
    masked: int  # false negatives: left out because they were clicked for the query
    taught: Ids  # titles for the teacher: positions in `titles`


class Sampler:
    """Draws negatives for minibatches, never a title that was clicked for the query.

    Drawing changes no state, so several threads may draw. Mined titles are on the disk of `folder`.
    """

    def __init__(self, data: Dataset, recipe: Recipe, folder: Path | None = None, *, has_teacher: bool = False) -> None:
        self.data, self.recipe = data, recipe
        self.taught = recipe.teacher_titles if has_teacher else 0  # titles drawn for the teacher in each minibatch
        self._titles = len(data.titles.offsets) - 1
        queries = len(data.queries.offsets) - 1 if recipe.hard_negatives else 0
        self.mined: NDArray[np.int32] = scratch.array(folder, (queries, HARD_POOL), np.int32)  # for each query
        self.mined.fill(-1)  # none

    def of_part(self, data: Dataset, mined: NDArray[np.int32]) -> "Sampler":
        """Return a sampler for a part of the data, and what was mined for its queries."""
        part = copy.copy(self)
        part.data, part.mined = data, mined
        return part

    def was_clicked(self, query: NDArray[np.integer], title: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return whether the title was clicked for the query, by bisection in the sorted titles of each query."""
        titles, offsets = self.data.clicked
        low, end = offsets[query], offsets[query + 1]
        high, last = end, len(titles) - 1
        for _ in range(int((end - low).max(initial=0)).bit_length()):
            middle = (low + high) // 2
            before = (titles[np.minimum(middle, last)] < title) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        clicked: NDArray[np.bool_] = (titles[np.minimum(low, last)] == title) & (low < end)
        return clicked

    def draw(self, pairs: Ids, rng: np.random.Generator, *, mask: bool = True) -> Candidates:
        """Return the candidates of a minibatch of pairs. Without `mask`, in-batch negatives are not masked yet."""
        queries, clicked = self.data.pair_query[pairs], self.data.pair_title[pairs]
        drawn, counts = _side_by_side(self._shown(queries, rng), self._mined(queries, rng))
        if self.recipe.batch_negatives:
            taught = self._draw_taught(rng)
            titles = np.unique(np.concatenate([clicked.astype(np.int64), drawn[counts], taught]))
            positive, taught = np.searchsorted(titles, clicked), np.searchsorted(titles, taught)
            found = Candidates(titles, positive, None, np.ones((0, 0), np.bool_), 0, taught)
            return self.mask(pairs, found) if mask else found
        random, random_counts = self._random(queries, rng)
        taught = self._draw_taught(rng)
        drawn, counts = _side_by_side((random, random_counts), (drawn, counts))
        wanted = np.concatenate([clicked[:, None], drawn], axis=1)
        titles, indices = np.unique(np.concatenate([wanted.ravel(), taught]), return_inverse=True)
        indices, taught = indices[: wanted.size].reshape(len(pairs), -1), indices[wanted.size :]
        masked = int((~random_counts).sum())
        return Candidates(titles.astype(np.int64), indices[:, 0], indices[:, 1:], counts, masked, taught)

    def _draw_taught(self, rng: np.random.Generator) -> Ids:
        """Return random titles of log and catalogue for the teacher, if there is one."""
        return rng.integers(0, self._titles, self.taught) if self.taught else np.zeros(0, np.int64)

    def _random(self, queries: NDArray[np.integer], rng: np.random.Generator) -> Drawn:
        """Return random titles of the log. If every redraw was clicked too, the last one does not count."""
        shape = (len(queries), self.recipe.negatives)
        titles = rng.integers(0, self.data.clicked_titles, shape)
        queries = np.broadcast_to(queries[:, None], shape)
        again = self.was_clicked(queries, titles)
        for _ in range(REDRAWS):
            if not again.any():
                break
            titles[again] = rng.integers(0, self.data.clicked_titles, int(again.sum()))
            again = self.was_clicked(queries, titles)
        return titles, ~again

    def _shown(self, queries: NDArray[np.integer], rng: np.random.Generator) -> Drawn:
        """Return titles that were shown for the query and not clicked, as many as there are."""
        shown, count = self.data.shown, self.recipe.shown_negatives
        if not len(shown.values) or not count:
            return _none(len(queries))
        starts = shown.offsets[queries][:, None]
        lengths = shown.offsets[queries + 1][:, None] - starts
        # Consecutive titles from a random start: they are distinct as long as there are enough of them.
        offset = rng.integers(0, np.maximum(lengths, 1)) + np.arange(count)
        counts = np.broadcast_to(np.arange(count) < lengths, offset.shape)
        indices = np.where(counts, starts + offset % np.maximum(lengths, 1), 0)
        return shown.values[indices].astype(np.int64), counts

    def _mined(self, queries: NDArray[np.integer], rng: np.random.Generator) -> Drawn:
        """Return different random titles among those mined for the query; before mining, none count."""
        if not self.recipe.hard_negatives:
            return _none(len(queries))
        columns = rng.random((len(queries), HARD_POOL)).argsort(axis=1)[:, : self.recipe.hard_negatives]
        titles = np.take_along_axis(self.mined[queries], columns, axis=1)
        return np.maximum(titles, 0).astype(np.int64), titles >= 0

    def mask(self, pairs: Ids, drawn: Candidates) -> Candidates:
        """Mask the known clicks of in-batch negatives: every title is a candidate of every query."""
        queries, titles = self.data.pair_query[pairs], drawn.titles
        known: Ragged = self.data.clicked.take(queries)
        rows, columns = np.repeat(np.arange(len(queries)), known.lengths), positions(known.values, titles)
        counts = np.ones((len(queries), len(titles)), np.bool_)
        counts[rows[columns >= 0], columns[columns >= 0]] = False  # including the pair's own title
        return drawn._replace(counts=counts, masked=int((~counts).sum()) - len(queries))


def positions(titles: NDArray[np.integer], among: Ids) -> Ids:
    """Return the position of each title in a sorted array, or -1 if it is not there."""
    position = np.minimum(np.searchsorted(among, titles), len(among) - 1)
    return np.where(among[position] == titles, position, -1)


def _none(pairs: int) -> Drawn:
    return np.zeros((pairs, 0), np.int64), np.zeros((pairs, 0), np.bool_)


def _side_by_side(left: Drawn, right: Drawn) -> Drawn:
    return np.concatenate([left[0], right[0]], axis=1), np.concatenate([left[1], right[1]], axis=1)
