"""Doc2vec (PV-DM, Le and Mikolov 2014), by gensim, with the paper's settings: its unsupervised baseline (section VI-A).

gensim's answers depend on Python's hash seed and on what was inferred before, unless that is taken away from it: here
the same texts in the same order and the same seed give the same vectors, in every process.
"""

import zlib
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import BaseRanker
from clickvec.text.tokens import canonical, split_words

# The paper's. The rest is gensim's default, as it was for the paper.
SETTINGS: dict[str, Any] = {
    "dm": 1,
    "min_count": 1,
    "window": 5,
    "vector_size": 100,
    "sample": 1e-4,
    "negative": 5,
}
EPOCHS = 30

Vectors = NDArray[np.float32]


class Doc2Vec(BaseRanker):
    """Ranks by the cosine of the vectors that training gave to the query and to the title.

    `texts` are the queries and titles of the training log and, as in the paper, those of the test set: a text has a
    vector because it was trained on. Each distinct text, by `canonical`, is trained on once an epoch. Any other text is
    inferred.
    """

    def __init__(self, texts: Iterable[str], seed: int = 1, epochs: int = EPOCHS, name: str = "doc2vec") -> None:
        """Train on the distinct ones of `texts`; short ones want more epochs than the paper's (on msrd dev, 100)."""
        self.name = name
        self.seed = seed
        self._gensim = _gensim()
        distinct = [text for text in dict.fromkeys(map(canonical, texts)) if text]
        if not distinct:
            raise ClickvecError(f"{name} has no word to learn from; give it the texts of a click log")
        self._place = {text: place for place, text in enumerate(distinct)}
        documents = [self._gensim.TaggedDocument(text.split(" "), [place]) for text, place in self._place.items()]
        # A second worker would change the order of the updates from run to run. gensim's corpus_file is four times
        # faster, but (4.4) it never sets the windows of PV-DM there and reads what happens to be in memory.
        repeatable = {"workers": 1, "seed": seed, "hashfxn": stable_hash}
        self._model: Any = self._gensim.Doc2Vec(documents, epochs=epochs, **SETTINGS, **repeatable)

    @property
    def parameters(self) -> int:
        """How many numbers were learned: the vectors of texts, of words in the window and of words predicted."""
        model = self._model
        return int(model.dv.vectors.size + model.wv.vectors.size + model.syn1neg.size)

    def score(self, query: str, titles: Sequence[str]) -> Vectors:
        """The cosine of the query with each title; 0 where either text is empty or has no known word."""
        if not titles:
            return np.zeros(0, dtype=np.float32)
        rows = np.stack([self.vector(title) for title in titles])
        # A sum row by row and no matrix product: equal titles have to get the same last bit.
        return np.asarray((_unit(rows) * _unit(self.vector(query))).sum(axis=-1), dtype=np.float32)

    def vector(self, text: str) -> Vectors:
        """The trained vector of a text; an inferred one if it was not trained on; zero if it has no known word."""
        place = self._place.get(canonical(text))
        if place is not None:
            return np.asarray(self._model.dv.vectors[place], dtype=np.float32)
        return self._infer([word for word in split_words(text) if word in self._model.wv])

    def most_similar(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words nearest to a word and their cosines, nearest first: the paper's check of what was learned."""
        known = canonical(word)
        if known not in self._model.wv:
            raise ClickvecError(
                f"{self.name} has not met the word {word!r}; it knows those of the texts it learned from"
            )
        return [(str(other), float(cosine)) for other, cosine in self._model.wv.most_similar(known, topn=count)]

    def _infer(self, words: list[str]) -> Vectors:
        """gensim's `infer_vector`, from a start and a generator that do not change between calls and processes."""
        model, size = self._model, self._model.vector_size
        if not words:
            return np.zeros(size, dtype=np.float32)
        start = self._gensim.pseudorandom_weak_vector(size, seed_string=" ".join(words), hashfxn=stable_hash)
        vector: Vectors = start.reshape(1, size)
        model.random = np.random.RandomState(self.seed)
        work, hidden = np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.float32)
        frozen = {"learn_words": False, "learn_hidden": False}
        for rate in np.linspace(model.alpha, model.min_alpha, model.epochs).tolist():
            self._gensim.train_document_dm(
                model, words, [0], rate, work, hidden,
                doctag_vectors=vector, doctags_lockf=np.ones(1, dtype=np.float32), **frozen,
            )  # fmt: skip
        return np.asarray(vector[0], dtype=np.float32)


def stable_hash(text: str) -> int:
    """A hash that is the same in every process, for gensim to seed by."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def _gensim() -> ModuleType:
    try:
        import gensim.models.doc2vec
    except ImportError as error:
        raise missing_extra("gensim", "baselines") from error
    return cast(ModuleType, gensim.models.doc2vec)
