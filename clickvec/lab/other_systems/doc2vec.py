"""Doc2vec (PV-DM, Le and Mikolov 2014), by gensim, with the paper's settings: its unsupervised baseline (section VI-A).

By default, gensim's results depend on Python's hash seed and on earlier inferences. Here, the same texts in the same
order and the same seed give the same vectors in every process.
"""

import zlib
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import Ranker
from clickvec.text.tokens import canonical, split_words

# The paper's settings. All others are gensim's defaults, as in the paper.
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


class Doc2Vec(Ranker):
    """Ranks by the cosine of the trained vectors of query and title.

    Training gives vectors only to the texts it sees. So `texts` are the queries and titles of the log and, as in the
    paper, of the test set. Each distinct text is used once per epoch. The vectors of other texts are inferred.
    """

    def __init__(self, texts: Iterable[str], seed: int = 1, epochs: int = EPOCHS, name: str = "doc2vec") -> None:
        """Train on the distinct texts. Short texts need more epochs than the paper's 30 (100 on msrd dev)."""
        self.name = name
        self.seed = seed
        self._gensim = _gensim()
        distinct = [text for text in dict.fromkeys(map(canonical, texts)) if text]
        if not distinct:
            raise ClickvecError(f"{name} has no words to learn from; give it the texts of a click log")
        self._row = {text: row for row, text in enumerate(distinct)}
        documents = [self._gensim.TaggedDocument(text.split(" "), [row]) for text, row in self._row.items()]
        # With a second worker, the order of the updates would change from run to run. gensim's corpus_file is four
        # times faster, but in version 4.4 it does not initialise the windows of PV-DM and reads uninitialised memory.
        repeatable = {"workers": 1, "seed": seed, "hashfxn": stable_hash}
        self._model: Any = self._gensim.Doc2Vec(documents, epochs=epochs, **SETTINGS, **repeatable)

    @property
    def parameters(self) -> int:
        """The number of learned parameters: the vectors of texts, of context words and of predicted words."""
        model = self._model
        return int(model.dv.vectors.size + model.wv.vectors.size + model.syn1neg.size)

    def score(self, query: str, titles: Sequence[str]) -> Vectors:
        """Return the cosine of the query with each title; 0 if either text has no known word."""
        if not titles:
            return np.zeros(0, dtype=np.float32)
        rows = np.stack([self.vector(title) for title in titles])
        # A sum per row instead of a matrix product: equal titles must get the same last bit.
        return np.asarray((_unit(rows) * _unit(self.vector(query))).sum(axis=-1), dtype=np.float32)

    def vector(self, text: str) -> Vectors:
        """Return the trained vector of a text, or an inferred one; zero if the text has no known word."""
        row = self._row.get(canonical(text))
        if row is not None:
            return np.asarray(self._model.dv.vectors[row], dtype=np.float32)
        return self._infer([word for word in split_words(text) if word in self._model.wv])

    def most_similar(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """Return the nearest words of a word and their cosines, nearest first: the paper's check of the training."""
        known = canonical(word)
        if known not in self._model.wv:
            raise ClickvecError(
                f"{self.name} does not know the word {word!r}; it knows only the words of its training texts"
            )
        return [(str(other), float(cosine)) for other, cosine in self._model.wv.most_similar(known, topn=count)]

    def _infer(self, words: list[str]) -> Vectors:
        """Infer a vector as gensim's `infer_vector` does, but depending only on the words and the seed."""
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
    """Return a hash that is the same in every process; gensim seeds with it."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _unit(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def _gensim() -> ModuleType:
    try:
        import gensim.models.doc2vec
    except ImportError as error:
        raise missing_extra("gensim", "baselines") from error
    return cast(ModuleType, gensim.models.doc2vec)
