"""What a teacher says about the texts of a dataset."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        return len(self.scales)

    def facts(self) -> dict[str, str | int]:
        """Return what the model card tells: the name, and how many titles it teaches."""
        blocks = (self.titles[first : first + _ROWS_AT_ONCE] for first in range(0, len(self.titles), _ROWS_AT_ONCE))
        return {"name": self.name, "titles": sum(int(np.count_nonzero(rows.any(1))) for rows in blocks)}
