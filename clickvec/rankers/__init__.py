"""Every system of the comparison behind one protocol. Cheap to import: a system loads its library when made."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clickvec.rankers.doc2vec import Doc2Vec
from clickvec.rankers.hybrid import Mixture, ReciprocalRank
from clickvec.rankers.lexical import BM25, ULM
from clickvec.rankers.neural import Neural
from clickvec.rankers.plsa import PLSA
from clickvec.rankers.skipthought import SkipThought
from clickvec.rankers.transformer import Transformer

__all__ = [
    "BM25", "PLSA", "ULM", "Doc2Vec", "Mixture", "Neural", "Ranker", "ReciprocalRank", "SkipThought", "Transformer",
]  # fmt: skip


class Ranker(Protocol):
    """Scores titles for a query: all that `evaluate` knows of a system."""

    @property
    def name(self) -> str:
        """What tables call the system."""
        ...

    def score(self, query: str, titles: Sequence[str], /) -> NDArray[np.float32]:
        """One finite score a title; higher is better. The titles are distinct."""
        ...
