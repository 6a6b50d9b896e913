"""One text as the tower of its side reads it: its vector, its keywords and its attenuation.

Attenuation is section V-A.1 of the paper: which words the model lets through, and which it suppresses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clickvec.config import RECURRENT
from clickvec.errors import ClickvecError
from clickvec.explanation.contributions import METHODS, leave_one_out, shapley, without_each
from clickvec.explanation.keywords import RULE, Keywords, Rule, keywords_of
from clickvec.explanation.reading import Floats, Reading, encode, read
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_tokens
from clickvec.text.trigrams import trigrams

UNIMPORTANT = 0.5  # A word is unimportant if its effect is below this share of the mean effect of its text.


@dataclass(frozen=True)
class Attenuation:
    """For each word of a text, how far the input gates opened and how much the word changed the final vector."""

    words: tuple[str, ...]
    gates: tuple[float, ...] | None  # mean of i(t) over cells and directions; None without gates
    taken_in: tuple[float, ...] | None  # mean of |i(t) y_g(t)|: what passes the gate into the cells
    effects: tuple[float, ...]  # 1 - the cosine of the vectors of the text with the word and without it
    unimportant: tuple[bool, ...]


@dataclass(frozen=True)
class Side:
    """A text and the tower that reads it. Each variant of the text with words left out is encoded only once."""

    encoder: Encoder
    side: str  # "query" or "title"
    text: str
    rule: Rule = RULE

    @cached_property
    def words(self) -> list[str]:
        """The words of the text. The last one of a long text holds all remaining words."""
        return split_tokens(self.text, self.encoder.model.max_words)

    @cached_property
    def known(self) -> tuple[float, ...]:
        """For each word, the share of its letter trigrams that the model knows."""
        return tuple(len(self.encoder.vocabulary.ids(word)) / len(trigrams(word)) for word in self.words)

    @cached_property
    def reading(self) -> Reading | None:
        """The activations at each word, or None if the tower does not read word by word."""
        return read(self.encoder, self.side, self.text) if self.encoder.model.tower.kind in RECURRENT else None

    @cached_property
    def keywords(self) -> Keywords | None:
        """The keywords, or None if the tower does not read word by word."""
        return keywords_of(self.reading, self.rule) if self.reading else None

    @cached_property
    def vector(self) -> Floats:
        """The vector of the text: of length 1, or zero."""
        return self.reading.vector if self.reading else self.encode([self.text])[0]

    @cached_property
    def without(self) -> Floats:
        """The vectors of the text without each of its words, one row per word."""
        return self.encode(without_each(self.words))

    @cached_property
    def attenuation(self) -> Attenuation:
        """How much each word gets through to the vector."""
        return attenuate(self.words, self.vector, self.without, self.reading)

    def contributions(self, other: Floats, method: str = METHODS[0]) -> Floats:
        """Return what each word contributes to the cosine with the unit vector `other`.

        Raise ClickvecError if the method is unknown, or if it needs an output at each word and the tower has none.
        """
        if method not in METHODS:
            raise ClickvecError(f"there is no method {method!r}; the methods are {', '.join(METHODS)}")
        if method == "changes":
            reading = self.reading or read(self.encoder, self.side, self.text)  # without a reading, `read` says why
            return np.asarray(reading.parts @ other)
        compute = shapley if method == "shapley" else leave_one_out
        return compute(self.words, lambda texts: self.encode(texts) @ other)

    def encode(self, texts: list[str]) -> Floats:
        """Return the vectors of texts by the same tower. Texts not seen before are encoded together."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._seen]
        if fresh:
            self._seen.update(zip(fresh, np.asarray(encode(self.encoder, self.side, fresh), np.float64), strict=True))
        return np.array([self._seen[text] for text in texts]).reshape(len(texts), self.encoder.dimensions)

    @cached_property
    def _seen(self) -> dict[str, Floats]:
        return {}


def attenuate(words: Sequence[str], vector: Floats, without: Floats, reading: Reading | None) -> Attenuation:
    """Compute attenuation from the vector of a text and, in the rows of `without`, of the text without each word."""
    # A text without a vector has none without a word either. Rounding must not make an effect negative.
    effects = np.maximum(1 - without @ vector, 0) if vector.any() else np.zeros(len(words))
    least = UNIMPORTANT * effects.mean() if len(words) else 0.0
    return Attenuation(
        tuple(words),
        _mean(reading, "input_gate"),
        _mean(reading, "input_gate", "cell_input"),
        tuple(effects.tolist()),
        tuple((effects < least).tolist()),
    )


def _mean(reading: Reading | None, *names: str) -> tuple[float, ...] | None:
    """Return, for each word, the mean magnitude of the product of these activations over cells and directions."""
    if reading is None or not all(name in way.values for way in reading.directions for name in names):
        return None
    products = [np.prod([way.values[name] for name in names], axis=0) for way in reading.directions]
    return tuple(np.mean([np.abs(product).mean(axis=1) for product in products], axis=0).tolist()) if products else ()
