"""Where the vectors of a teacher come from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clickvec.teacher.reduction import Floats, Reduction


class Source(Protocol):
    """Something that has vectors of texts."""

    name: str  # for the model card
    identity: str  # changes if the vectors do
    texts_at_once: int  # a block: what is lost if the process is killed
    reduction: Reduction | None  # of vectors that are projected already; those of others need not have length 1

    def vectors(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> Floats:
        """Return a vector for each text of a dataset. A text that the teacher does not know has a row of zeros.

        `numbers` are those of the texts among the distinct texts of the dataset.
        """
