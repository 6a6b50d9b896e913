"""A random sample of the titles of an index, for answers about all of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.model.encoder import Vectors
from clickvec.model.shrink import inverse_lengths
from clickvec.search.documents.document import Document
from clickvec.search.view_protocol import SearchView
from clickvec.text.tokens import canonical


class TitleSample(NamedTuple):
    """Documents, and their positions in the view."""

    documents: list[Document]
    positions: NDArray[np.int64]

    @property
    def titles(self) -> list[str]:
        """The titles."""
        return [document.title for document in self.documents]


def sample_titles(view: SearchView, most: int) -> TitleSample:
    """Return documents at random positions, the same ones each time, in the order of the index.

    Of titles that the model reads as the same text, only the first is returned.
    """
    positions = view.sample(most)
    seqs = view.seqs_at(positions)
    documents = view.documents.get(seqs)
    first: dict[str, tuple[Document, int]] = {}
    for seq, position in zip(seqs, positions.tolist(), strict=True):
        document = documents.get(seq)  # one that was deleted meanwhile is missing
        if document is not None:
            first.setdefault(canonical(document.title), (document, position))
    return TitleSample(
        [document for document, _ in first.values()], np.array([place for _, place in first.values()], np.int64)
    )


def unit_vectors(view: SearchView, positions: NDArray[np.int64]) -> Vectors:
    """Return the vectors of titles, of length 1; those without a vector are zero."""
    stored = view.vectors_at(positions)
    return np.asarray(stored * inverse_lengths(stored)[:, None], np.float32)
