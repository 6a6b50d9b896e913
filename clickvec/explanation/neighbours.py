"""What the model learned: the words and the titles nearest to a word, as the paper tests its doc2vec (supplement V).

A word gets a vector as a text of one word. Words are letter trigrams here, so one that nobody has ever typed has a
vector too, as long as the model knows one of its trigrams; `Nearest.known` says how much of it the model can see.

The list of near words ignores punctuation at the edges of a word: "faucet," and "(faucet)" count as "faucet". Marks
inside a word, as in "wi-fi", stay. The titles themselves are encoded as they are.
"""

import dataclasses
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.explanation.reading import encode
from clickvec.model.encoder import Encoder, Vectors
from clickvec.progress import Progress
from clickvec.text.tokens import canonical
from clickvec.text.trigrams import trigrams


@dataclass(frozen=True)
class NearWord:
    """A word of the titles, its cosine with the word asked for, and how often the titles hold it."""

    word: str
    cosine: float
    count: int


@dataclass(frozen=True)
class NearTitle:
    """A title, its cosine with the word asked for, and how often it is among the titles."""

    title: str
    cosine: float
    count: int


@dataclass(frozen=True)
class Nearest:
    """What is near to a word, the nearest first; nothing is when the model knows none of its trigrams."""

    word: str  # as the model reads it: in lower case, with single spaces
    count: int  # how often the titles hold it
    known: float  # the share of its letter trigrams that the model knows
    words: tuple[NearWord, ...]
    titles: tuple[NearTitle, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return dataclasses.asdict(self)


class Neighbours:
    """The words and the titles of a catalogue, each different one encoded once, to ask for the nearest among them."""

    def __init__(
        self, encoder: Encoder, titles: Iterable[str], *, side: str = "query", progress: Progress | None = None
    ) -> None:
        """Encode the titles, and with the tower of `side` their words."""
        self.encoder, self.side = encoder, side
        self._titles: Counter[str] = Counter()  # by their words alone
        as_written: dict[str, str] = {}
        for title in titles:
            read = canonical(title)
            self._titles[read] += 1
            as_written.setdefault(read, title)
        self._as_written = list(as_written.values())
        self._title_vectors = encoder.encode_document(list(self._titles), progress=progress)
        words: Counter[str] = Counter()
        for title, times in self._titles.items():
            for word in _bare_words(title):
                words[word] += times
        self.words = dict(sorted(words.items(), key=lambda word: (-word[1], word[0])))  # the frequent first
        self._word_vectors = encode(encoder, side, list(self.words))

    def nearest(self, word: str, k: int = 10, *, least: int = 1, unlike: bool = False) -> Nearest:
        """The k words and the k titles nearest to a word, or to a phrase.

        The word itself is left out, and so are words that the titles hold fewer than `least` times: among thousands of
        rare ones, misspellings of the word would fill the list. With `unlike` so are words that share a letter trigram
        with it: those left are near by what was learned, and not by their spelling.
        """
        if k < 1 or least < 1:
            raise ClickvecError(f"k and least are at least 1, not {k} and {least}")
        text = canonical(word)
        if not text:
            raise ClickvecError(f"{word!r} has no words; give a word or a phrase")
        letters = [trigram for token in text.split() for trigram in trigrams(token)]
        known = sum(len(self.encoder.vocabulary.ids(token)) for token in text.split())
        barred = {" ".join(_bare_words(text))}
        if unlike:
            barred.update(other for other in self.words if not set(letters).isdisjoint(trigrams(other)))
        vector = encode(self.encoder, self.side, [text])[0]
        words, titles = list(self.words.items()), list(self._titles.values())
        near_words = (
            NearWord(words[row][0], cosine, words[row][1])
            for row, cosine in _by_cosine(self._word_vectors, vector)
            if words[row][1] >= least and words[row][0] not in barred
        )
        near_titles = (
            NearTitle(" ".join(self._as_written[row].split()), cosine, titles[row])
            for row, cosine in _by_cosine(self._title_vectors, vector)
        )
        return Nearest(
            text, self.count(text), known / len(letters), tuple(islice(near_words, k)), tuple(islice(near_titles, k))
        )

    def count(self, text: str) -> int:
        """How often the titles hold a word, or the words of a phrase one after the other."""
        words = _bare_words(canonical(text))
        if len(words) < 2:
            return self.words.get("".join(words), 0)
        phrase = _spaced(words)
        return sum(times * _spaced(_bare_words(title)).count(phrase) for title, times in self._titles.items())


def _bare_words(text: str) -> list[str]:
    """The words of a text without punctuation at their edges; a word of punctuation alone is none."""
    return [bare for word in text.split() if (bare := _bare(word))]


def _bare(word: str) -> str:
    if word.isalnum():
        return word
    inner = [at for at, char in enumerate(word) if not unicodedata.category(char).startswith("P")]
    return word[inner[0] : inner[-1] + 1] if inner else ""


def _spaced(words: list[str]) -> str:
    """The words with a space on either side of each, so that words that follow each other do not share one."""
    return f" {'  '.join(words)} "


def _by_cosine(vectors: Vectors, vector: Vectors) -> Iterator[tuple[int, float]]:
    """Rows and their cosines, the nearest first, of equal ones the first; where there is no vector, nothing is near."""
    if vector.any():
        cosines = vectors @ vector
        for row in np.argsort(-cosines, kind="stable").tolist():
            if vectors[row].any():
                yield row, float(cosines[row])
