"""Probabilistic latent semantic analysis (Hofmann 1999), on titles alone and by maximum a posteriori (Gao et al. 2011).

A title d is a mixture of topics z: P(w|d) = Σ_z P(w|z) P(z|d). The prior is a symmetric Dirichlet on both factors, and
worth `prior` words a distribution: β = prior / words for each P(·|z), α = prior / topics for each P(·|d). EM climbs

    log posterior = Σ_{d,w} n(d,w) log P(w|d) + β Σ_{w,z} log P(w|z) + α Σ_{d,z} log P(z|d)

which with prior 0 is the likelihood alone, and then the same problem as NMF under the Kullback-Leibler divergence.
"""

import copy
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import BaseRanker
from clickvec.text.lexical_tokens import TokenKind, tokenise

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.floating]
Bag = tuple[str, ...]  # the tokens of a title, sorted: titles of one bag are one to the model

# What is tried on a dev set: few fits, as one takes minutes on a large log; with each fit, each weight of own words.
# Ten iterations stop early, which is a prior of its own.
PLSA_GRID: tuple[dict[str, Any], ...] = (
    {"tokens": "words", "topics": 500, "prior": 10.0, "iterations": 10},
    {"tokens": "words", "topics": 100, "prior": 1.0, "iterations": 30},
    {"tokens": "stems-stop", "topics": 500, "prior": 10.0, "iterations": 10},
    {"tokens": "stems-stop", "topics": 200, "prior": 1.0, "iterations": 30},
    {"tokens": "words+trigrams", "topics": 100, "prior": 30.0, "iterations": 10},
    {"tokens": "words+trigrams", "topics": 500, "prior": 1.0, "iterations": 30},
)
OWN_WORDS_GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)

_BLOCK = 250_000  # numbers gathered at a time: a block stays in the cache


class Aspects(NamedTuple):
    """The parameters of PLSA."""

    word_given_topic: Floats  # P(w|z): (words, topics)
    topic_given_title: Floats  # P(z|d): (titles, topics)


class PLSA(BaseRanker):
    """Ranks by log P(Q|D) = Σ_w log [(1 - λ) Σ_z P(w|z) P(z|d) + λ c(w,d) / |d|].

    λ, `own_words`, is the weight of the title's own words; 0 is pure PLSA, which forgets which words of a topic the
    title has. P(z|d) of any title, trained on or not, comes from folding it in: EM with P(w|z) fixed, under the same
    prior. A query word that no training title has is left out, for all titles alike. One to which the mixture gives
    nothing (with prior 0 it can) counts as the smallest float32, so that every score is finite.
    """

    def __init__(
        self,
        words: Sequence[str],
        word_given_topic: Floats,
        *,
        prior: float,
        log_posteriors: Sequence[float] = (),
        tokens: TokenKind = "words",
        own_words: float = 0.3,
        name: str = "PLSA",
    ) -> None:
        """Take trained P(w|z): a row for each of `words`, a column for each topic."""
        self.name = name
        self.word_given_topic = word_given_topic
        self.log_posteriors = tuple(log_posteriors)  # at the random start, then after each iteration
        self._ids = {word: place for place, word in enumerate(words)}
        self._alpha = prior / word_given_topic.shape[1]
        self._tokens = tokens
        self._own_words = _share(own_words)
        self._folded: dict[Bag, Floats] = {}

    @classmethod
    def fit(
        cls,
        titles: Iterable[str],
        *,
        topics: int = 500,
        prior: float = 10.0,
        iterations: int = 10,
        seed: int = 0,
        tokens: TokenKind = "words",
        own_words: float = 0.3,
        name: str = "PLSA",
        dtype: DTypeLike = np.float32,
    ) -> "PLSA":
        """Train on the distinct ones of `titles`."""
        if topics < 1 or iterations < 1 or prior < 0:
            raise ClickvecError(
                f"PLSA needs 1 topic and 1 iteration at least and a prior of 0 or more; "
                f"there are {topics} topics, {iterations} iterations and a prior of {prior}"
            )
        bags = [bag for title in dict.fromkeys(titles) if (bag := _bag(title, tokens))]
        ids = {word: place for place, word in enumerate(dict.fromkeys(word for bag in bags for word in bag))}
        if not ids:
            raise ClickvecError("PLSA has no titles with words to train on")
        counts = count(bags, ids, dtype)
        start = random_start(counts.shape, topics, seed, dtype)
        aspects, log_posteriors = climb(counts, start, prior, iterations)
        return cls(
            list(ids),
            aspects.word_given_topic,
            prior=prior,
            log_posteriors=log_posteriors,
            tokens=tokens,
            own_words=own_words,
            name=name,
        )

    @property
    def parameters(self) -> int:
        """The number of P(w|z): all that is kept, as P(z|d) comes from folding in."""
        return self.word_given_topic.size

    def with_own_words(self, own_words: float, name: str | None = None) -> "PLSA":
        """The same model with another λ; titles that are folded in stay so."""
        other = copy.copy(self)
        other.name = self.name if name is None else name
        other._own_words = _share(own_words)
        return other

    def topics_of(self, titles: Sequence[str]) -> Floats:
        """P(z|d) of each title: (titles, topics)."""
        return self._topics_of([_bag(title, self._tokens) for title in titles])

    def known_words(self, text: str) -> Floats:
        """P(w|z) of each word of a text that some training title has: (words, topics)."""
        return self.word_given_topic[[self._ids[word] for word in tokenise(text, self._tokens) if word in self._ids]]

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """log P(Q|D) of each title; 0 for all if no training title has a word of the query."""
        words = [word for word in tokenise(query, self._tokens) if word in self._ids]
        # Titles of one bag are scored once: in a product of matrices the last bit depends on the row, and undoes ties.
        rows: dict[Bag, int] = {}
        row = [rows.setdefault(_bag(title, self._tokens), len(rows)) for title in titles]
        shape = len(rows), len(words)
        latent = self._topics_of(list(rows)) @ self.word_given_topic[[self._ids[word] for word in words]].T
        own = np.array([bag.count(word) / max(len(bag), 1) for bag in rows for word in words]).reshape(shape)
        p = (1 - self._own_words) * latent + self._own_words * own
        scores: NDArray[np.floating] = np.log(np.maximum(p, np.finfo(np.float32).tiny)).sum(axis=1)
        return scores.astype(np.float32)[row]

    def _topics_of(self, bags: Sequence[Bag]) -> Floats:
        new = [bag for bag in dict.fromkeys(bags) if bag not in self._folded]
        if new:
            counts = count(new, self._ids, self.word_given_topic.dtype)
            self._folded.update(zip(new, fold_in(counts, self.word_given_topic, self._alpha), strict=True))
        topics = self.word_given_topic.shape[1]
        return np.array([self._folded[bag] for bag in bags], self.word_given_topic.dtype).reshape(len(bags), topics)


def count(bags: Sequence[Bag], ids: dict[str, int], dtype: DTypeLike) -> "csr_matrix":
    """n(d,w), sparse: how often each bag has each of the words with an id."""
    known = [[ids[word] for word in bag if word in ids] for bag in bags]
    row = np.repeat(np.arange(len(bags)), [len(places) for places in known])
    column = np.array([place for places in known for place in places], np.intp)
    return _sparse().csr_matrix((np.ones(len(row), dtype), (row, column)), shape=(len(bags), len(ids)))


def random_start(shape: tuple[int, int], topics: int, seed: int, dtype: DTypeLike = np.float64) -> Aspects:
    """Random P(w|z) and P(z|d) for so many titles and words; none is 0, where EM would stay."""
    titles, words = shape
    rng = np.random.default_rng(seed)
    return Aspects(
        _normalised((1 - rng.random((words, topics))).astype(dtype), axis=0),
        _normalised((1 - rng.random((titles, topics))).astype(dtype), axis=1),
    )


def climb(counts: "csr_matrix", aspects: Aspects, prior: float, iterations: int) -> tuple[Aspects, list[float]]:
    """So many steps of EM, and the log posterior before the first and after each."""
    words, topics = aspects.word_given_topic.shape
    beta, alpha = prior / words, prior / topics
    p = word_given_title(counts, aspects)
    log_posteriors = [log_posterior(counts, p, aspects, beta, alpha)]
    for _ in range(iterations):
        share = _with_values(counts, counts.data / p)
        aspects = Aspects(_word_step(share, aspects, beta), _topic_step(share, aspects, alpha))
        p = word_given_title(counts, aspects)
        log_posteriors.append(log_posterior(counts, p, aspects, beta, alpha))
    return aspects, log_posteriors


def fold_in(counts: "csr_matrix", word_given_topic: Floats, alpha: float, iterations: int = 50) -> Floats:
    """P(z|d) of titles under a fixed P(w|z); a title without a known word is the mean of the prior, uniform."""
    titles, topics = counts.shape[0], word_given_topic.shape[1]
    uniform = np.full((titles, topics), 1 / topics, word_given_topic.dtype)
    aspects = Aspects(word_given_topic, uniform)
    for _ in range(iterations):
        share = _with_values(counts, counts.data / word_given_title(counts, aspects))
        aspects = Aspects(word_given_topic, _topic_step(share, aspects, alpha))
    return np.where(counts.getnnz(axis=1)[:, None], aspects.topic_given_title, uniform)


def word_given_title(counts: "csr_matrix", aspects: Aspects) -> Floats:
    """P(w|d) = Σ_z P(w|z) P(z|d) where n(d,w) is not 0, in the order of `counts.data`."""
    word, title = counts.indices, np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    p = np.empty(counts.nnz, counts.dtype)
    step = max(1, _BLOCK // aspects.word_given_topic.shape[1])
    for start in range(0, counts.nnz, step):
        block = slice(start, start + step)
        np.einsum(
            "iz,iz->i", aspects.word_given_topic[word[block]], aspects.topic_given_title[title[block]], out=p[block]
        )
    return p


def log_posterior(counts: "csr_matrix", p: Floats, aspects: Aspects, beta: float, alpha: float) -> float:
    """What EM climbs, up to a constant; `p` is P(w|d) at the words of `counts`."""
    log_likelihood = float((counts.data * np.log(p)).sum(dtype=np.float64))
    return log_likelihood + _log_prior(aspects.word_given_topic, beta) + _log_prior(aspects.topic_given_title, alpha)


# P(z|d,w) = P(w|z) P(z|d) / P(w|d), and `share` is n(d,w) / P(w|d). So the expected n(w,z) = Σ_d n(d,w) P(z|d,w) is
# P(w|z) Σ_d share(d,w) P(z|d), a sparse matrix times a dense one; no array of (titles, words, topics) is needed.


def _word_step(share: "csr_matrix", aspects: Aspects, beta: float) -> Floats:
    """P(w|z) ∝ Σ_d n(d,w) P(z|d,w) + β."""
    expected = share.T @ aspects.topic_given_title
    return _posterior_mode(expected, aspects.word_given_topic, beta, axis=0)


def _topic_step(share: "csr_matrix", aspects: Aspects, alpha: float) -> Floats:
    """P(z|d) ∝ Σ_w n(d,w) P(z|d,w) + α."""
    expected = share @ aspects.word_given_topic
    return _posterior_mode(expected, aspects.topic_given_title, alpha, axis=1)


def _posterior_mode(expected: Floats, probabilities: Floats, pseudo_count: float, axis: int) -> Floats:
    """Probabilities ∝ probabilities · expected + pseudo-count; in place, as the arrays are hundreds of megabytes."""
    expected *= probabilities
    expected += pseudo_count
    return _normalised(expected, axis)


def _log_prior(probabilities: Floats, pseudo_count: float) -> float:
    return pseudo_count * float(np.log(probabilities).sum(dtype=np.float64)) if pseudo_count else 0.0


def _normalised(values: Floats, axis: int) -> Floats:
    """Sums of 1 along the axis; with prior 0 a topic can die out, and stays 0."""
    values /= np.maximum(values.sum(axis=axis, keepdims=True), np.finfo(values.dtype).tiny)
    return values


def _with_values(counts: "csr_matrix", values: Floats) -> "csr_matrix":
    return _sparse().csr_matrix((values, counts.indices, counts.indptr), shape=counts.shape)


def _bag(title: str, tokens: TokenKind) -> Bag:
    return tuple(sorted(tokenise(title, tokens)))


def _share(own_words: float) -> float:
    if not 0 <= own_words <= 1:
        raise ClickvecError(f"own_words is {own_words}; it is a share, from 0 to 1")
    return own_words


def _sparse() -> ModuleType:
    try:
        import scipy.sparse
    except ImportError as error:
        raise missing_extra("scipy", "baselines") from error
    return cast(ModuleType, scipy.sparse)
