"""Train from a data folder that does not fit into memory.

Minibatches read the arrays of a dataset in random order, which is slow if they must come from disk. A window is what
some consecutive minibatches of an epoch read, copied to memory in ascending order of rows, so that the disk is read
sequentially. While one window is trained on, a thread copies the next. Order, minibatches and weights do not depend on
windows. If the data fits into memory there are none, and nothing is copied.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Dataset
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.text.ragged import Ragged
from clickvec.training.memory import available_memory
from clickvec.training.negatives import Candidates, Ids, Sampler
from clickvec.training.workers import current

SHARE = 4  # a window gets this part of the available memory; there are two at a time
_AT_ONCE = 2**14  # to limit memory
_PLAIN, _RAGGED = ("pair_query", "pair_title"), ("tokens", "queries", "titles", "clicked", "shown")
NO_ROWS = Ragged(np.zeros(0, np.int32), np.zeros(1, np.int64))
Random = np.random.Generator


class Window(NamedTuple):
    """What minibatches read: the whole data, or a part with its own numbers for pairs, queries and tokens.

    Titles keep their numbers, because random ones are drawn among all. A part has drawn its negatives already.
    """

    data: Dataset
    sampler: Sampler
    weights: NDArray[np.float32]  # of the pairs
    title_ids: Ids | None = None  # of the rows of `data.titles`, ascending; None if all titles are there
    drawn: dict[int, Candidates] = {}  # noqa: RUF012  # by the first pair of the minibatch, not masked; never changed
    teacher: Teacher | None = None  # its rows are those of `data.queries` and `data.titles`

    def draw(self, pairs: Ids, random: Random) -> Candidates:
        """Return the candidates of a minibatch of pairs."""
        if self.title_ids is None:
            return self.sampler.draw(pairs, random)
        drawn = self.drawn[int(pairs[0])]
        return drawn if drawn.negative is not None else self.sampler.mask(pairs, drawn)

    def titles(self, ids: Ids) -> Ragged:
        """Return the tokens of titles."""
        return self.data.titles.take(self._rows(ids))

    def teacher_vectors(self, pairs: Ids, titles: Ids) -> NDArray[np.float32]:
        """Return the teacher's vectors of titles, then those of the queries of pairs."""
        assert self.teacher is not None
        rows = self.teacher.titles[self._rows(titles)], self.teacher.queries[self.data.pair_query[pairs]]
        vectors: NDArray[np.float32] = np.concatenate(rows) * self.teacher.scales
        return vectors

    def _rows(self, titles: Ids) -> Ids:
        return titles if self.title_ids is None else np.searchsorted(self.title_ids, titles)

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays that minibatches read."""
        arrays = [getattr(self.data, name) for name in _PLAIN]
        for name in _RAGGED:
            arrays += getattr(self.data, name)
        for candidates in self.drawn.values():
            arrays += [part for part in candidates if isinstance(part, np.ndarray)]
        if self.teacher is not None:
            arrays += [self.teacher.queries, self.teacher.titles]
        return [*arrays, self.weights, self.sampler.mined]


def minibatches(
    whole: Window, order: Ids, size: int, batches: range, random_of: Callable[[int], Random]
) -> Iterator[tuple[int, Ids, Random, Window]]:
    """Yield the number of each minibatch, its pairs, its random numbers, and the window that it reads."""
    room = window_bytes(whole)
    if room is None or not batches:
        for batch in batches:
            yield batch, np.asarray(order[batch * size : (batch + 1) * size]), random_of(batch), whole
        return

    def copy(first: int, count: int) -> tuple[range, list[Random], Window]:
        numbers = range(first, min(first + count, batches.stop))
        pairs = np.asarray(order[numbers.start * size : numbers.stop * size])
        randoms = [random_of(batch) for batch in numbers]
        return numbers, randoms, copy_window(whole, pairs, size, randoms)

    with ThreadPoolExecutor(1) as pool:
        end, bytes_per_batch = batches.start, _mapped_bytes(whole) * size / len(order)
        copying = pool.submit(copy, end, max(1, int(room / bytes_per_batch / 2)))
        while end < batches.stop:
            numbers, randoms, window = copying.result()
            end = numbers.stop
            if end < batches.stop:
                # Titles and tokens that minibatches share make the size of a window hard to predict.
                used = sum(array.nbytes for array in window.arrays())
                copying = pool.submit(copy, end, max(1, min(2 * len(numbers), int(len(numbers) * room / used))))
            for first, batch, random in zip(range(0, len(window.weights), size), numbers, randoms, strict=True):
                yield batch, np.arange(first, min(first + size, len(window.weights))), random, window


def copy_window(whole: Window, pairs: Ids, size: int, randoms: Iterable[Random]) -> Window:
    """Copy what the minibatches of these pairs read to memory, and draw their negatives.

    Pairs are renumbered from 0 in their order.
    """
    data, mined = whole.data, whole.sampler.mined
    ascending, place = np.unique(pairs, return_inverse=True)
    query_ids, pair_query = np.unique(data.pair_query[ascending], return_inverse=True)
    # For a query without any, the sampler takes the first shown title of all, which it then does not count.
    first_shown, shown = data.shown.values[:1], _take(data.shown, query_ids)
    part = data._replace(
        pair_query=pair_query.astype(np.int32)[place], pair_title=data.pair_title[ascending][place],
        queries=_take(data.queries, query_ids), clicked=_take(data.clicked, query_ids),
        shown=Ragged(np.concatenate([first_shown, shown.values]), shown.offsets + len(first_shown)),
    )  # fmt: skip
    sampler = whole.sampler.of_part(part, mined[query_ids] if len(mined) else mined)
    numbers = np.arange(len(pairs))
    drawn = {
        first: sampler.draw(numbers[first : first + size], random, mask=False)
        for first, random in zip(range(0, len(pairs), size), randoms, strict=True)
    }
    part = part._replace(shown=NO_ROWS)
    del sampler, shown  # with what was mined: only drawing needs it
    title_ids = np.unique(np.concatenate([candidates.titles for candidates in drawn.values()]))
    part = _renumber_tokens(part._replace(titles=_take(data.titles, title_ids)))
    teacher = whole.teacher
    if teacher is not None:
        teacher = teacher._replace(queries=teacher.queries[query_ids], titles=teacher.titles[title_ids])
    weights = whole.weights[ascending][place]
    return Window(part, whole.sampler.of_part(part, mined[:0]), weights, title_ids, drawn, teacher)


def _renumber_tokens(data: Dataset) -> Dataset:
    """Copy the tokens that the texts have, and renumber them in the texts, in place. They keep their order."""
    is_used = np.zeros(len(data.tokens.offsets) - 1, np.bool_)
    is_used[data.queries.values] = True
    is_used[data.titles.values] = True
    number = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    for values in (data.queries.values, data.titles.values):
        for first in range(0, len(values), _AT_ONCE):
            values[first : first + _AT_ONCE] = number[values[first : first + _AT_ONCE]]
    return data._replace(tokens=_take(data.tokens, np.flatnonzero(is_used)))


def _take(rows: Ragged, ids: NDArray[np.integer]) -> Ragged:
    """Do the same as `rows.take` with less memory."""
    offsets = np.concatenate(([0], np.cumsum(rows.offsets[ids + 1] - rows.offsets[ids])))
    values = np.empty(offsets[-1], np.int32)
    for first in range(0, len(ids), _AT_ONCE):
        some = ids[first : first + _AT_ONCE]
        values[offsets[first] : offsets[first + len(some)]] = rows.take(some).values
    return Ragged(values, offsets)


def window_bytes(whole: Window) -> int | None:
    """Return the size of a window. None if half of the available memory holds the whole data."""
    available = available_memory()
    if available is not None:
        available //= current().local_count
    return None if available is None or _mapped_bytes(whole) <= available // 2 else available // SHARE


def _mapped_bytes(whole: Window) -> int:
    """Return the size of the arrays that are mapped from files."""
    return sum(array.nbytes for array in whole.arrays() if _is_mapped(array))


def _is_mapped(array: NDArray[Any]) -> bool:
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)
