"""The delta: the documents that were added since a segment was built, in memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.model.encoder import Encoder
from clickvec.model.shrink import StoredVectors, inverse_lengths
from clickvec.search.lexical.word_segment import WordDelta
from clickvec.search.payload.fields import Fields, GrowingFields
from clickvec.search.segments.building import encode_titles
from clickvec.search.vectors.exact import ExactSearch

Positions = NDArray[np.int64]


class Delta:
    """The documents since a segment, in memory. It only grows; a view knows how many of them it shows."""

    def __init__(self, encoder: Encoder, vector_type: str) -> None:
        self._encoder, self._vector_type = encoder, vector_type
        self._vectors: StoredVectors = np.empty((0, encoder.dimensions), vector_type)
        self._scales = np.empty(0, np.float32)
        self._seqs = np.empty(0, np.int64)
        self._count = 0
        self.words, self._fields = WordDelta(), GrowingFields()

    def __len__(self) -> int:
        """Return the number of documents, also of those that were deleted since."""
        return self._count

    def add(self, seqs: Positions, titles: list[str], payloads: list[Any]) -> None:
        """Append documents."""
        start, end = self._count, self._count + len(titles)
        if end > len(self._seqs):  # views keep the old arrays
            self._seqs, self._vectors, self._scales = (
                _grown(rows, start, 2 * end) for rows in (self._seqs, self._vectors, self._scales)
            )
        vectors = encode_titles(self._encoder, titles, self._vector_type)
        self._vectors[start:end], self._scales[start:end] = vectors, inverse_lengths(vectors)
        self._seqs[start:end] = seqs
        self.words.add(titles)
        self._fields.add(payloads)
        self._count = end

    def seqs(self) -> Positions:
        """Return the sequence numbers of the documents that are there now."""
        return self._seqs[: self._count]

    def exact(self) -> ExactSearch:
        """Return the exact search among the documents that are there now."""
        scales = None if self._vector_type == "float32" else self._scales[: self._count]
        return ExactSearch(self._vectors[: self._count], scales)

    def fields(self) -> tuple[Fields, ...]:
        """Return the fields of the documents that are there now."""
        return self._fields.parts


def _grown(rows: NDArray[Any], count: int, room: int) -> NDArray[Any]:
    larger = np.empty((room, *rows.shape[1:]), rows.dtype)
    larger[:count] = rows[:count]
    return larger
