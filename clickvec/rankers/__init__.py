"""Every system of the comparison behind one protocol. Cheap to import: a system loads its library when made."""

from clickvec.rankers.doc2vec import Doc2Vec
from clickvec.rankers.hybrid import Mixture, ReciprocalRank
from clickvec.rankers.lexical import BM25, ULM
from clickvec.rankers.neural import Neural
from clickvec.rankers.plsa import PLSA
from clickvec.rankers.protocol import BaseRanker, Ranker, Search
from clickvec.rankers.skipthought import SkipThought
from clickvec.rankers.transformer import Transformer

__all__ = [
    "BM25", "PLSA", "ULM", "BaseRanker", "Doc2Vec", "Mixture", "Neural", "Ranker", "ReciprocalRank", "Search",
    "SkipThought", "Transformer",
]  # fmt: skip
