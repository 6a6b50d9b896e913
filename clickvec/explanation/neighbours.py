"""The words and titles nearest to a word, as the paper examines its doc2vec (supplement V).

The vector of a word is that of a text of one word. Words are read as letter trigrams, so even a word that nobody has
ever typed has a vector if the model knows one of its trigrams; `Nearest.known` is the share of trigrams it knows.

Punctuation at the edges of words is ignored: "faucet," and "(faucet)" count as "faucet", but "wi-fi" stays as it is.
The titles themselves are encoded unchanged.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.explanation.reading import encode
from clickvec.model.encoder import Encoder, Vectors
from clickvec.progress import Progress
from clickvec.text.tokens import canonical
from clickvec.text.trigrams import trigrams


@dataclass(frozen=True)
class NearWord:
    """A word of the titles, its cosine with the given word, and how often it occurs in the titles."""

    word: str
    cosine: float
    count: int


@dataclass(frozen=True)
class NearTitle:
    """A title, its cosine with the given word, and how often the title occurs."""

    title: str
    cosine: float
    count: int


@dataclass(frozen=True)
class Nearest:
    """The words and titles nearest to a word, nearest first. Both are empty if no trigram of the word is known."""

    word: str  # in lower case, with single spaces
    count: int  # how often it occurs in the titles
    known: float  # share of its letter trigrams that the model knows
    words: tuple[NearWord, ...]
    titles: tuple[NearTitle, ...]


class Neighbours:
    """The distinct words and titles of a catalogue with their vectors, to find the nearest ones."""

    def __init__(
        self, encoder: Encoder, titles: Iterable[str], *, side: str = "query", progress: Progress | None = None
    ) -> None:
        """Encode the titles with the title tower and their words with the tower of `side`."""
        self.encoder, self.side = encoder, side
        self._titles: Counter[str] = Counter()  # by canonical text
        spelled: dict[str, str] = {}
        for title in titles:
            text = canonical(title)
            self._titles[text] += 1
            spelled.setdefault(text, title)
        self._spelled = list(spelled.values())
        self._title_vectors = encoder.encode_document(list(self._titles), progress=progress)
        counts: Counter[str] = Counter()
        for text, times in self._titles.items():
            for word in _bare_words(text):
                counts[word] += times
        self.words = dict(sorted(counts.items(), key=lambda word: (-word[1], word[0])))  # most frequent first
        self._word_vectors = encode(encoder, side, list(self.words))

    def nearest(self, word: str, k: int = 10, *, least: int = 1, unlike: bool = False) -> Nearest:
        """Return the k words and the k titles nearest to a word or a phrase.

        Words that occur fewer than `least` times in the titles are ignored; among thousands of rare words,
        misspellings of the given one would fill the list. With `unlike`, words that share a letter trigram with it are
        ignored too: the others are near because of what the model learned, not because of their spelling.
        """
        if k < 1 or least < 1:
            raise ClickvecError(f"k and least must be at least 1, not {k} and {least}")
        text = canonical(word)
        if not text:
            raise ClickvecError(f"{word!r} has no words; give a word or a phrase")
        letters = [trigram for token in text.split() for trigram in trigrams(token)]
        known = sum(len(self.encoder.vocabulary.ids(token)) for token in text.split())
        ignored = {" ".join(_bare_words(text))}
        if unlike:
            ignored.update(other for other in self.words if not set(letters).isdisjoint(trigrams(other)))
        vector = encode(self.encoder, self.side, [text])[0]
        words, title_counts = list(self.words.items()), list(self._titles.values())
        near_words = (
            NearWord(words[row][0], cosine, words[row][1])
            for row, cosine in _by_cosine(self._word_vectors, vector)
            if words[row][1] >= least and words[row][0] not in ignored
        )
        near_titles = (
            NearTitle(" ".join(self._spelled[row].split()), cosine, title_counts[row])
            for row, cosine in _by_cosine(self._title_vectors, vector)
        )
        return Nearest(
            text, self.count(text), known / len(letters), tuple(islice(near_words, k)), tuple(islice(near_titles, k))
        )

    def count(self, text: str) -> int:
        """Return how often a word, or a phrase, occurs in the titles."""
        words = _bare_words(canonical(text))
        if len(words) < 2:
            return self.words.get("".join(words), 0)
        phrase = _spaced(words)
        return sum(times * _spaced(_bare_words(title)).count(phrase) for title, times in self._titles.items())


def _bare_words(text: str) -> list[str]:
    """Return the words of a text without punctuation at their edges, and without words that are only punctuation."""
    return [bare for word in text.split() if (bare := _bare(word))]


def _bare(word: str) -> str:
    if word.isalnum():
        return word
    inner = [at for at, char in enumerate(word) if not unicodedata.category(char).startswith("P")]
    return word[inner[0] : inner[-1] + 1] if inner else ""


def _spaced(words: list[str]) -> str:
    """Return the words with a space on both sides of each, so that neighbouring occurrences do not share one."""
    return f" {'  '.join(words)} "


def _by_cosine(vectors: Vectors, vector: Vectors) -> Iterator[tuple[int, float]]:
    """Yield rows and their cosines, nearest first, ties in order. Yield nothing if the vector is zero."""
    if vector.any():
        cosines = vectors @ vector
        for row in np.argsort(-cosines, kind="stable").tolist():
            if vectors[row].any():
                yield row, float(cosines[row])
