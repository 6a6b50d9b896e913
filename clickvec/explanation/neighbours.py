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
    """A title, and its cosine with the given word."""

    title: str
    cosine: float


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

    def __init__(self, encoder: Encoder, titles: Iterable[str], *, progress: Progress | None = None) -> None:
        """Encode the titles with the title tower and their words with the query tower."""
        self._encoder = encoder
        self._bare: list[str] = []  # for each title, its words between spaces
        spelled: dict[str, str] = {}  # by canonical text, the title as it is written first
        counts: Counter[str] = Counter()
        for title in titles:
            text = canonical(title)
            spelled.setdefault(text, " ".join(title.split()))
            counts.update(_bare_words(text))
            self._bare.append(_spaced(_bare_words(text)))
        self._titles = list(spelled.values())
        self._title_vectors = encoder.encode_document(list(spelled), progress=progress)
        self.words = dict(sorted(counts.items(), key=lambda word: (-word[1], word[0])))  # most frequent first
        self._word_vectors = encoder.encode_query(list(self.words))

    def nearest(self, word: str, k: int = 10, *, least: int = 1, unlike: bool = False) -> Nearest:
        """Return the k words and the k titles nearest to a word or a phrase.

        Words that occur fewer than `least` times in the titles are ignored; among thousands of rare words,
        misspellings of the given one would fill the list. With `unlike`, words that share a letter trigram with it are
        ignored too: the others are near because of what the model learned, not because of their spelling.
        """
        text = canonical(word)
        if not text:
            raise ClickvecError(f"{word!r} has no words; give a word or a phrase")
        letters = [trigram for token in text.split() for trigram in trigrams(token)]
        ignored = {" ".join(_bare_words(text))}
        if unlike:
            ignored.update(other for other in self.words if not set(letters).isdisjoint(trigrams(other)))
        vector, words = self._encoder.encode_query([text])[0], list(self.words.items())
        near_words = (
            NearWord(words[row][0], cosine, words[row][1])
            for row, cosine in _by_cosine(self._word_vectors, vector)
            if words[row][1] >= least and words[row][0] not in ignored
        )
        near_titles = (NearTitle(self._titles[row], cosine) for row, cosine in _by_cosine(self._title_vectors, vector))
        return Nearest(
            text,
            self.count(text),
            self._encoder.vocabulary.known_share(text),
            tuple(islice(near_words, k)),
            tuple(islice(near_titles, k)),
        )

    def count(self, text: str) -> int:
        """Return how often a word, or a phrase, occurs in the titles."""
        words = _bare_words(canonical(text))
        if len(words) < 2:
            return self.words.get("".join(words), 0)
        return sum(title.count(_spaced(words)) for title in self._bare)


def _bare_words(text: str) -> list[str]:
    """Return the words of a text without punctuation at their edges, and without words that are only punctuation."""
    return [bare for word in text.split() if (bare := word if word.isalnum() else _bare(word))]


def _bare(word: str) -> str:
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
