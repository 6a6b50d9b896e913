"""Score titles for a query by the cosine of their vectors: equation 3 of the paper."""

from collections.abc import Iterable, Sequence

import numpy as np

from clickvec.model.encoder import Encoder, Vectors
from clickvec.text.tokens import canonical


def score(encoder: Encoder, query: str, titles: Sequence[str]) -> Vectors:
    """Return the cosine of the query and each title, or 0 if either has no known trigram."""
    if not titles:
        return np.zeros(0, np.float32)
    distinct, rows = distinct_texts(titles)
    scores = encoder.encode_document(distinct) @ encoder.encode_query(query)
    return np.asarray(scores, np.float32)[rows]


def distinct_texts(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the distinct texts, as normalised words, and for each text the position of its words among them.

    Texts with the same words are encoded once: in a batch, the last bit of a vector depends on its row, so their scores
    would differ.
    """
    position: dict[str, int] = {}
    rows = [position.setdefault(canonical(text), len(position)) for text in texts]
    return list(position), rows
