"""The texts that a teacher gets: each distinct text of a dataset once, read in blocks from disk."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Dataset, Texts
from clickvec.text.trigrams import Tokens

Keys = NDArray[np.uint64]
_TEXTS_AT_ONCE = 2**15


class TaughtTexts:
    """The distinct texts of a dataset, numbered: its queries, then those titles that are not queries too.

    Texts are known by a key, a hash of 64 bits. Among 50 million texts, the chance that any two have the same key is
    less than one in ten thousand, and then one of them would get the vector of the other.
    """

    def __init__(self, data: Dataset, texts: Texts) -> None:
        """Read all texts once, for their keys."""
        self._texts = texts
        self.queries, self.titles = len(data.queries.offsets) - 1, len(data.titles.offsets) - 1
        self.query_keys = _keys(texts.queries, self.queries)
        self.title_keys = _keys(texts.titles, self.titles)
        query = KeyTable(self.query_keys).find(self.title_keys)
        self._own = np.flatnonzero(query < 0)  # the titles that are not queries
        query[self._own] = self.queries + np.arange(len(self._own))
        self.number_of_title: NDArray[np.int64] = query
        self.keys: Keys = np.concatenate([self.query_keys, self.title_keys[self._own]])

    def __len__(self) -> int:
        """The number of distinct texts."""
        return len(self.keys)

    @property
    def digest(self) -> str:
        """A hash of all texts and their order."""
        digest = hashlib.sha256(np.array([self.queries, self.titles], "<u8").tobytes())
        for keys in (self.query_keys, self.title_keys):
            digest.update(np.ascontiguousarray(keys, "<u8").data)
        return digest.hexdigest()[:32]

    def block(self, first: int, stop: int) -> list[str]:
        """Return the texts with consecutive numbers."""
        stop = min(stop, len(self))
        texts = list(self._texts.queries[first : min(stop, self.queries)]) if first < self.queries else []
        own = self._own[max(first - self.queries, 0) : max(stop - self.queries, 0)]
        if len(own):
            between = self._texts.titles[int(own[0]) : int(own[-1]) + 1]
            texts += [between[row] for row in (own - own[0]).tolist()]
        return texts

    def take(self, numbers: NDArray[np.int64]) -> list[str]:
        """Return the texts with these numbers, which are in ascending order."""
        texts: list[str] = []
        for first in range(0, len(self), _TEXTS_AT_ONCE):
            here = numbers[np.searchsorted(numbers, first) : np.searchsorted(numbers, first + _TEXTS_AT_ONCE)]
            if len(here):
                block = self.block(int(here[0]), int(here[-1]) + 1)
                texts += [block[at] for at in (here - here[0]).tolist()]
        return texts


class KeyTable:
    """The rows of keys. If a key is there several times, the first row counts."""

    def __init__(self, keys: Keys) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    @property
    def duplicates(self) -> int:
        """The number of keys that are there already."""
        return int(np.count_nonzero(self._sorted[1:] == self._sorted[:-1]))

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return the row of each key, -1 if it is not there."""
        if not len(self._sorted):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[at] == keys, self._order[at], -1)


def keys_of(texts: Iterable[str]) -> Keys:
    """Return the keys of texts, which are in canonical form."""
    digests = (hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def in_blocks(texts: Iterable[str], size: int = _TEXTS_AT_ONCE) -> Iterator[list[str]]:
    """Yield texts, `size` at a time."""
    remaining = iter(texts)
    while block := list(islice(remaining, size)):
        yield block


def _keys(texts: Tokens, count: int) -> Keys:
    blocks = (texts[first : min(first + _TEXTS_AT_ONCE, count)] for first in range(0, count, _TEXTS_AT_ONCE))
    return np.concatenate([np.zeros(0, np.uint64), *map(keys_of, blocks)])
