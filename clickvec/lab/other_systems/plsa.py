"""Probabilistic latent semantic analysis (Hofmann 1999), trained on titles by maximum a posteriori (Gao et al. 2011).

A title d is a mixture of topics z: P(w|d) = Σ_z P(w|z) P(z|d). Both factors have a symmetric Dirichlet prior that
weighs as much as `prior` words: β = prior / words for each P(·|z), α = prior / topics for each P(·|d). EM maximises

    log posterior = Σ_{d,w} n(d,w) log P(w|d) + β Σ_{w,z} log P(w|z) + α Σ_{d,z} log P(z|d)

With prior 0 this is the likelihood, and the problem is NMF with the Kullback-Leibler divergence.
"""

import copy
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import Ranker
from clickvec.text.lexical_tokens import TokenKind, tokenise

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.floating]
Bag = tuple[str, ...]  # the sorted tokens of a title; the model cannot distinguish titles with the same bag

# The settings to choose from on dev. There are few because a fit takes minutes on a large log; each fit is tried with
# each weight of a title's own words. Stopping after ten iterations acts as a prior of its own.
PLSA_GRID: tuple[dict[str, Any], ...] = (
    {"tokens": "words", "topics": 500, "prior": 10.0, "iterations": 10},
    {"tokens": "words", "topics": 100, "prior": 1.0, "iterations": 30},
    {"tokens": "stems-stop", "topics": 500, "prior": 10.0, "iterations": 10},
    {"tokens": "stems-stop", "topics": 200, "prior": 1.0, "iterations": 30},
    {"tokens": "words+trigrams", "topics": 100, "prior": 30.0, "iterations": 10},
    {"tokens": "words+trigrams", "topics": 500, "prior": 1.0, "iterations": 30},
)
OWN_WORDS_GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)

_BLOCK = 250_000  # numbers processed at once, so that a block fits into the cache


class Aspects(NamedTuple):
    """The parameters of PLSA."""

    word_given_topic: Floats  # P(w|z): (words, topics)
    topic_given_title: Floats  # P(z|d): (titles, topics)


class PLSA(Ranker):
    """Ranks by log P(Q|D) = Σ_w log [(1 - λ) Σ_z P(w|z) P(z|d) + λ c(w,d) / |d|].

    λ, `own_words`, is the weight of the title's own words. With 0 this is pure PLSA, which does not know which words of
    a topic the title contains. P(z|d) of any title comes from folding it in: EM with fixed P(w|z) and the same prior. A
    query word that no training title has is ignored. A probability of 0, which is possible with prior 0, counts as the
    smallest float32, so that every score is finite.
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
        """Use a trained P(w|z): one row per word, one column per topic."""
        self.name = name
        self.word_given_topic = word_given_topic
        self.log_posteriors = tuple(log_posteriors)  # before the first iteration and after each one
        self._ids = {word: row for row, word in enumerate(words)}
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
        """Train on the distinct titles."""
        if topics < 1 or iterations < 1 or prior < 0:
            raise ClickvecError(
                f"PLSA needs at least 1 topic, 1 iteration and a prior of 0; "
                f"got {topics} topics, {iterations} iterations and a prior of {prior}"
            )
        bags = [bag for title in dict.fromkeys(titles) if (bag := _bag(title, tokens))]
        ids = {word: row for row, word in enumerate(dict.fromkeys(word for bag in bags for word in bag))}
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
        """The number of values P(w|z). P(z|d) is not stored, it comes from folding in."""
        return self.word_given_topic.size

    def with_own_words(self, own_words: float, name: str | None = None) -> "PLSA":
        """Return the same model with another λ. It shares the topics of the titles seen so far."""
        other = copy.copy(self)
        other.name = self.name if name is None else name
        other._own_words = _share(own_words)
        return other

    def topics_of(self, titles: Sequence[str]) -> Floats:
        """Return P(z|d) of each title: (titles, topics)."""
        return self._topics_of([_bag(title, self._tokens) for title in titles])

    def known_words(self, text: str) -> Floats:
        """Return P(w|z) of each known word of a text: (words, topics)."""
        return self.word_given_topic[[self._ids[word] for word in tokenise(text, self._tokens) if word in self._ids]]

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """Return log P(Q|D) of each title; 0 for all titles if no query word is known."""
        words = [word for word in tokenise(query, self._tokens) if word in self._ids]
        # Each bag is scored once: in a matrix product the last bit depends on the row, which would break ties.
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
    """Return n(d,w) as a sparse matrix: how often each bag contains each known word."""
    known = [[ids[word] for word in bag if word in ids] for bag in bags]
    row = np.repeat(np.arange(len(bags)), [len(words) for words in known])
    column = np.array([word for words in known for word in words], np.intp)
    return _sparse().csr_matrix((np.ones(len(row), dtype), (row, column)), shape=(len(bags), len(ids)))


def random_start(shape: tuple[int, int], topics: int, seed: int, dtype: DTypeLike = np.float64) -> Aspects:
    """Return random P(w|z) and P(z|d) for `shape`, (titles, words). None is 0, because EM never leaves 0."""
    titles, words = shape
    rng = np.random.default_rng(seed)
    return Aspects(
        _normalised((1 - rng.random((words, topics))).astype(dtype), axis=0),
        _normalised((1 - rng.random((titles, topics))).astype(dtype), axis=1),
    )


def climb(counts: "csr_matrix", aspects: Aspects, prior: float, iterations: int) -> tuple[Aspects, list[float]]:
    """Run iterations of EM. Return the result, and the log posterior before the first and after each iteration."""
    words, topics = aspects.word_given_topic.shape
    beta, alpha = prior / words, prior / topics
    p = word_given_title(counts, aspects)
    log_posteriors = [log_posterior(counts, p, aspects, beta, alpha)]
    for _ in range(iterations):
        share = _with_values(counts, counts.data / p)
        aspects = Aspects(_update_words(share, aspects, beta), _update_topics(share, aspects, alpha))
        p = word_given_title(counts, aspects)
        log_posteriors.append(log_posterior(counts, p, aspects, beta, alpha))
    return aspects, log_posteriors


def fold_in(counts: "csr_matrix", word_given_topic: Floats, alpha: float, iterations: int = 50) -> Floats:
    """Return P(z|d) of titles for a fixed P(w|z). A title without a known word gets the uniform distribution."""
    titles, topics = counts.shape[0], word_given_topic.shape[1]
    uniform = np.full((titles, topics), 1 / topics, word_given_topic.dtype)
    aspects = Aspects(word_given_topic, uniform)
    for _ in range(iterations):
        share = _with_values(counts, counts.data / word_given_title(counts, aspects))
        aspects = Aspects(word_given_topic, _update_topics(share, aspects, alpha))
    return np.where(counts.getnnz(axis=1)[:, None], aspects.topic_given_title, uniform)


def word_given_title(counts: "csr_matrix", aspects: Aspects) -> Floats:
    """Return P(w|d) = Σ_z P(w|z) P(z|d) where n(d,w) is not 0, in the order of `counts.data`."""
    word, title = counts.indices, np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    p = np.empty(counts.nnz, counts.dtype)
    size = max(1, _BLOCK // aspects.word_given_topic.shape[1])
    for start in range(0, counts.nnz, size):
        block = slice(start, start + size)
        np.einsum(
            "iz,iz->i", aspects.word_given_topic[word[block]], aspects.topic_given_title[title[block]], out=p[block]
        )
    return p


def log_posterior(counts: "csr_matrix", p: Floats, aspects: Aspects, beta: float, alpha: float) -> float:
    """Return the log posterior, up to a constant; `p` is P(w|d) in the order of `counts.data`."""
    log_likelihood = float((counts.data * np.log(p)).sum(dtype=np.float64))
    return log_likelihood + _log_prior(aspects.word_given_topic, beta) + _log_prior(aspects.topic_given_title, alpha)


# P(z|d,w) = P(w|z) P(z|d) / P(w|d), and `share` is n(d,w) / P(w|d). So the expected n(w,z) = Σ_d n(d,w) P(z|d,w) is
# P(w|z) Σ_d share(d,w) P(z|d), a sparse matrix times a dense one; no array of (titles, words, topics) is needed.


def _update_words(share: "csr_matrix", aspects: Aspects, beta: float) -> Floats:
    """P(w|z) ∝ Σ_d n(d,w) P(z|d,w) + β."""
    expected = share.T @ aspects.topic_given_title
    return _posterior_mode(expected, aspects.word_given_topic, beta, axis=0)


def _update_topics(share: "csr_matrix", aspects: Aspects, alpha: float) -> Floats:
    """P(z|d) ∝ Σ_w n(d,w) P(z|d,w) + α."""
    expected = share @ aspects.word_given_topic
    return _posterior_mode(expected, aspects.topic_given_title, alpha, axis=1)


def _posterior_mode(expected: Floats, probabilities: Floats, pseudo_count: float, axis: int) -> Floats:
    """Return probabilities ∝ probabilities · expected + pseudo-count. Works in place: arrays can be hundreds of MB."""
    expected *= probabilities
    expected += pseudo_count
    return _normalised(expected, axis)


def _log_prior(probabilities: Floats, pseudo_count: float) -> float:
    return pseudo_count * float(np.log(probabilities).sum(dtype=np.float64)) if pseudo_count else 0.0


def _normalised(values: Floats, axis: int) -> Floats:
    """Scale to sums of 1 along the axis. A topic that is all 0, which is possible with prior 0, stays 0."""
    values /= np.maximum(values.sum(axis=axis, keepdims=True), np.finfo(values.dtype).tiny)
    return values


def _with_values(counts: "csr_matrix", values: Floats) -> "csr_matrix":
    return _sparse().csr_matrix((values, counts.indices, counts.indptr), shape=counts.shape)


def _bag(title: str, tokens: TokenKind) -> Bag:
    return tuple(sorted(tokenise(title, tokens)))


def _share(own_words: float) -> float:
    if not 0 <= own_words <= 1:
        raise ClickvecError(f"own_words is {own_words}; it must be between 0 and 1")
    return own_words


def _sparse() -> ModuleType:
    try:
        import scipy.sparse
    except ImportError as error:
        raise missing_extra("scipy", "baselines") from error
    return cast(ModuleType, scipy.sparse)
