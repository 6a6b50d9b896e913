"""One text as the tower of its side reads it: its words, vector and keywords, and what each word does to the vector."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clickvec.config import RECURRENT
from clickvec.errors import ClickvecError
from clickvec.explanation.contributions import METHODS, leave_one_out, shapley, without_each
from clickvec.explanation.keywords import Keywords, keywords_of
from clickvec.explanation.reading import Floats, Reading, encode, read
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_tokens

UNIMPORTANT = 0.5  # A word is unimportant if its effect is below this share of the mean effect of its text.


@dataclass(frozen=True)
class Side:
    """A text and the tower that reads it. Each variant of the text with words left out is encoded only once."""

    encoder: Encoder
    side: str  # "query" or "title"
    text: str

    @cached_property
    def words(self) -> list[str]:
        """The words of the text. The last one of a long text holds all remaining words."""
        return split_tokens(self.text, self.encoder.model.max_words)

    @cached_property
    def known(self) -> tuple[float, ...]:
        """For each word, the share of its letter trigrams that the model knows."""
        return tuple(map(self.encoder.vocabulary.known_share, self.words))

    @cached_property
    def reading(self) -> Reading | None:
        """The activations at each word, or None if the tower does not read word by word."""
        return read(self.encoder, self.side, self.text) if self.encoder.model.tower.kind in RECURRENT else None

    @cached_property
    def keywords(self) -> Keywords | None:
        """The keywords, or None if the tower does not read word by word."""
        return keywords_of(self.reading) if self.reading else None

    @cached_property
    def vector(self) -> Floats:
        """The vector of the text: of length 1, or zero."""
        return self.reading.vector if self.reading else self.encode([self.text])[0]

    @cached_property
    def without(self) -> Floats:
        """The vectors of the text without each of its words, one row per word."""
        return self.encode(without_each(self.words))

    @cached_property
    def effects(self) -> Floats:
        """How far the vector turns without each word: 1 - the cosine of the vectors with the word and without it."""
        return effects_of(self.vector, self.without)

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


def effects_of(vector: Floats, without: Floats) -> Floats:
    """Return the effect of each word from the vector of a text and, in rows, of the text without each word."""
    # A text without a vector has none without a word either. Rounding must not make an effect negative.
    return np.maximum(1 - without @ vector, 0) if vector.any() else np.zeros(len(without))


def unimportant(effects: Floats) -> NDArray[np.bool_]:
    """Return whether each word of a text is unimportant."""
    return np.asarray(effects < UNIMPORTANT * effects.mean()) if len(effects) else np.zeros(0, np.bool_)
