"""What a teacher says about the texts of a dataset."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.teacher.reduction import DIMENSIONS, SAMPLE, fit

_ROWS_AT_ONCE = 2**16


class Teacher(NamedTuple):
    """The teacher's vectors of all texts of a dataset, with fewer dimensions than its own, in int8.

    A row times `scales` is the projection of a unit vector, and the product of two of them is about the cosine of the
    teacher's own vectors. A text that the teacher does not know has a row of zeros.
    """

    name: str  # for the model card
    queries: NDArray[np.int8]  # (queries of the dataset, dimensions); memory-mapped
    titles: NDArray[np.int8]  # (titles of the dataset, dimensions), in the order of Dataset.titles
    scales: NDArray[np.float32]  # (dimensions,)
    made_from: str = ""  # a hash of the vectors that these were computed from, if their last digits may differ

    def fingerprint(self) -> str:
        """Return a hash that is the same if the teacher is."""
        if self.made_from:
            return self.made_from
        digest = hashlib.sha256()
        for part in (self.queries, self.titles, self.scales):
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        return len(self.scales)

    def facts(self) -> dict[str, str | int]:
        """Return what the model card tells: the name, and how many titles it teaches."""
        blocks = (self.titles[first : first + _ROWS_AT_ONCE] for first in range(0, len(self.titles), _ROWS_AT_ONCE))
        return {"name": self.name, "titles": sum(int(np.count_nonzero(rows.any(1))) for rows in blocks)}


def mean_of(teachers: Sequence[Teacher]) -> Teacher:
    """Return a teacher whose cosines are the means of those of several. It knows what all of them know.

    Its rows have at most DIMENSIONS dimensions: more would make training slower.
    """
    if len(teachers) == 1:
        return teachers[0]
    share = 1 / np.sqrt(len(teachers))  # of each vector; cosines are products of two
    both = Teacher(
        " and ".join(teacher.name for teacher in teachers),
        _side_by_side([teacher.queries for teacher in teachers]),
        _side_by_side([teacher.titles for teacher in teachers]),
        np.concatenate([teacher.scales for teacher in teachers]).astype(np.float32) * np.float32(share),
    )
    return both if both.dimensions <= DIMENSIONS else _reduced(both)


def _reduced(teacher: Teacher) -> Teacher:
    """Return a teacher with DIMENSIONS dimensions, whose products are about the same.

    The last digits depend on the number of threads, and a run must be resumable with another number.
    """
    rng = np.random.default_rng(0)
    sample = [part[np.sort(rng.choice(len(part), min(SAMPLE // 2, len(part)), replace=False))] for part in teacher[1:3]]
    reduction = fit(np.concatenate(sample) * teacher.scales)

    def rows(all_rows: NDArray[np.int8]) -> NDArray[np.int8]:
        made = np.empty((len(all_rows), DIMENSIONS), np.int8)
        for first in range(0, len(all_rows), _ROWS_AT_ONCE):
            block = slice(first, first + _ROWS_AT_ONCE)
            made[block] = reduction.rows(all_rows[block] * teacher.scales)
        return made

    return Teacher(
        teacher.name, rows(teacher.queries), rows(teacher.titles), reduction.scales, teacher.fingerprint()
    )  # fmt: skip


def _side_by_side(parts: Sequence[NDArray[np.int8]]) -> NDArray[np.int8]:
    rows = np.concatenate(parts, axis=1)
    for part in parts:
        rows[~part.any(1)] = 0
    return rows
