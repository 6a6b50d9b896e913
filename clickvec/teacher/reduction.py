"""Make the vectors of a teacher small: fewer dimensions, and int8.

Projected vectors are not scaled to length 1 again: their products are nearer to the cosines without (docs/teacher.md).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
DIMENSIONS = 128
SAMPLE = 8_192  # texts that a reduction is fitted on
MARGIN = 1.25  # the largest number of all texts may be larger than that of the sample


class Reduction(NamedTuple):
    """How vectors become rows of int8. A row times `scales` is the projected vector, to half a scale."""

    projection: Floats  # (dimensions of the teacher, dimensions of a row)
    scales: Floats  # (dimensions of a row,)

    def rows(self, vectors: Floats) -> NDArray[np.int8]:
        """Return unit vectors as rows. A vector of zeros becomes a row of zeros."""
        rows = vectors @ (self.projection / self.scales)
        return np.rint(rows, out=rows).clip(-127, 127, out=rows).astype(np.int8)


def fit(sample: Floats, dimensions: int = DIMENSIONS) -> Reduction:
    """Return the reduction that keeps most of the products of some unit vectors: an SVD that is not centred."""
    if sample.shape[1] <= dimensions:
        projection = np.eye(sample.shape[1], dtype=np.float32)
    else:
        # Eigenvectors of the products of dimensions, largest first: those of the SVD, in memory that does not depend
        # on the number of vectors.
        _, vectors = np.linalg.eigh(sample.T.astype(np.float64) @ sample)
        projection = np.ascontiguousarray(vectors[:, ::-1][:, :dimensions], np.float32)
    largest = np.abs(sample @ projection).max(0, initial=0)
    return Reduction(projection, np.maximum(MARGIN * largest, 1e-6).astype(np.float32) / 127)


def unit(vectors: Floats) -> Floats:
    """Return vectors of length 1. A vector of zeros stays what it is."""
    vectors = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
