"""Half of a pair, a query or a title: what its own tower makes of it, each thing computed once and when asked for."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clickvec.config import RECURRENT
from clickvec.explanation.attenuation import Attenuation, attenuate
from clickvec.explanation.attribution import contributions, without_each
from clickvec.explanation.keywords import RULE, Keywords, Rule, keywords_of
from clickvec.explanation.reading import Floats, Reading, encode, read
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_tokens
from clickvec.text.trigrams import trigrams


@dataclass(frozen=True)
class Half:
    """A text and the tower of its side. Whatever is asked of the text with words left out is encoded once."""

    encoder: Encoder
    side: str  # "query" or "title"
    text: str
    rule: Rule = RULE

    @cached_property
    def words(self) -> list[str]:
        """The words of the text; the last one of a long text is several."""
        return split_tokens(self.text, self.encoder.model.max_words)

    @cached_property
    def known(self) -> tuple[float, ...]:
        """For each word, the share of its letter trigrams that the model knows."""
        return tuple(len(self.encoder.vocabulary.ids(word)) / len(trigrams(word)) for word in self.words)

    @cached_property
    def reading(self) -> Reading | None:
        """None where the model does not read word by word; then there are no keywords either."""
        return read(self.encoder, self.side, self.text) if self.encoder.model.tower.kind in RECURRENT else None

    @cached_property
    def keywords(self) -> Keywords | None:
        """The keywords, by the rule."""
        return keywords_of(self.reading, **self.rule._asdict()) if self.reading else None

    @cached_property
    def vector(self) -> Floats:
        """Of unit length, or zero."""
        return self.reading.vector if self.reading else self.encode([self.text])[0]

    @cached_property
    def without(self) -> Floats:
        """A row for each word: the vector of the text without it."""
        return self.encode(without_each(self.words))

    @cached_property
    def attenuation(self) -> Attenuation:
        """What becomes of each word."""
        return attenuate(self.words, self.vector, self.without, self.reading)

    def contributions(self, other: "Half", method: str) -> Floats:
        """What each word gives to the score with the other half."""
        if method == "changes" and self.reading:
            return np.asarray(self.reading.parts @ other.vector)
        return contributions(self.encoder, self.side, self.text, other.vector, method, encoded=self.encode)

    def encode(self, texts: list[str]) -> Floats:
        """The vectors of texts that are read as this one is; those that are new are encoded together."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._seen]
        if fresh:
            self._seen.update(zip(fresh, np.asarray(encode(self.encoder, self.side, fresh), np.float64), strict=True))
        return np.array([self._seen[text] for text in texts]).reshape(len(texts), self.encoder.dimensions)

    @cached_property
    def _seen(self) -> dict[str, Floats]:
        return {}
