"""W l(t): project the letter trigrams of tokens through the input weights of a tower.

l(t) counts the trigrams of a token: a few of tens of thousands. So W l(t) is a sum of a few rows of W.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clickvec.model.packing import Array, chunks
from clickvec.text.ragged import Ragged

CHUNK = 2048  # tokens whose trigrams are summed side by side: few enough for the processor's cache
_FEW = 256  # trigrams: those of a query or two


def project(weights: Mapping[str, Array], trigram_ids: Ragged) -> Array:
    """Return W l(t) for each row of trigram ids, (tokens, width).

    If a tower has several input matrices, their projections are side by side, in the order of `forward.shapes`.
    """
    inputs = {name: np.asarray(weight) for name, weight in weights.items() if name.endswith(".input")}
    matrices = {name: weight.reshape(len(weight), -1) for name, weight in inputs.items()}
    ends = np.cumsum([matrix.shape[1] for matrix in matrices.values()]).tolist()
    row_count, precision = len(trigram_ids.lengths), np.result_type(next(iter(matrices.values())), np.float32)
    projections = np.zeros((row_count, ends[-1]), precision)
    if len(trigram_ids.values) <= _FEW:
        for (name, matrix), end in zip(matrices.items(), ends, strict=True):
            each = _rows(matrix, weights.get(f"{name}.scale"), trigram_ids.values)
            _sum_few(each, trigram_ids, out=projections[:, end - matrix.shape[1] : end])
        return projections
    for rows, columns in chunks(trigram_ids, CHUNK):
        for (name, matrix), end in zip(matrices.items(), ends, strict=True):
            scale = weights.get(f"{name}.scale")
            total = _rows(matrix, scale, columns[0])
            for ids in columns[1:]:
                total[: len(ids)] += _rows(matrix, scale, ids)
            projections[rows, end - matrix.shape[1] : end] = total
    return projections


def _sum_few(rows: Array, trigram_ids: Ragged, out: Array) -> None:
    """Sum the rows of each token, in the same order as above and so with the same bits. Sorting would take longer."""
    offsets = trigram_ids.offsets.tolist()
    for token, (start, end) in enumerate(pairwise(offsets)):
        if start < end:
            np.add.reduce(rows[start:end], axis=0, out=out[token])


def _rows(matrix: Array, scale: Array | None, ids: NDArray[np.integer]) -> Array:
    """Return rows of W in float32 or better. A shrunk model stores float16, or int8 with one scale per trigram."""
    rows = matrix.take(ids, axis=0)  # faster than matrix[ids]
    return rows.astype(np.result_type(rows, np.float32), copy=False) if scale is None else rows * scale[ids, None]
