"""Tokens to letter trigrams to ids: the fixed hashing operator W_h of the paper (section III-A)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from clickvec.text.ragged import Ints, Offsets, Ragged
from clickvec.text.tokens import split_words

MAX_TRIGRAMS = 50_000
_LAST_KEY = 2**21 - 1  # of three ASCII letters
_NO_KEY = 2**63 - 1  # larger than that of any three letters
_AT_ONCE = 2**14  # tokens whose trigrams are looked up at once, to spare memory


def trigrams(token: str) -> list[str]:
    """The letter trigrams of `#word#`, for each word of the token, repeated as often as they occur."""
    found: list[str] = []
    for word in token.split(" "):
        marked = f"#{word}#"
        found.extend(marked[at : at + 3] for at in range(len(marked) - 2))
    return found


class Vocabulary:
    """The trigrams a model knows; the id of a trigram is its place. Unknown trigrams count nothing."""

    def __init__(self, known: Sequence[str]) -> None:
        self.trigrams = tuple(known)
        self._ids = {trigram: place for place, trigram in enumerate(self.trigrams)}
        self._by_key: Ints | None = None
        self._by_long_key: tuple[Offsets, Ints] | None = None

    def __len__(self) -> int:
        """The number of trigrams."""
        return len(self.trigrams)

    @classmethod
    def count(cls, texts: Iterable[str], limit: int = MAX_TRIGRAMS) -> "Vocabulary":
        """The most frequent trigrams of the texts, at most `limit`, by count and then by text."""
        words: Counter[str] = Counter()
        for text in texts:
            words.update(split_words(text))
        counts: Counter[str] = Counter()
        for word, times in words.items():
            for trigram in trigrams(word):
                counts[trigram] += times
        ranked = sorted(counts, key=lambda trigram: (-counts[trigram], trigram))
        return cls(ranked[:limit])

    def ids(self, token: str) -> list[int]:
        """The ids of a token's known trigrams, each as often as it occurs: the non-zeros of l(t) = W_h x(t)."""
        known = self._ids
        return [known[trigram] for trigram in trigrams(token) if trigram in known]

    def rows(self, tokens: Sequence[str]) -> Ragged:
        """`ids` of each of many tokens, thirty times as fast."""
        some = [self._rows(tokens[first : first + _AT_ONCE]) for first in range(0, len(tokens), _AT_ONCE)]
        lengths = [np.zeros(1, np.int64), *(rows.lengths for rows in some)]
        return Ragged(
            np.concatenate([np.zeros(0, np.int32), *(rows.values for rows in some)]), np.cumsum(np.concatenate(lengths))
        )

    def _rows(self, tokens: Sequence[str]) -> Ragged:
        """The trigrams of all the tokens at once: one around each letter, as an end of a word is read as #."""
        text = "\n" + "\n".join(tokens) + "\n"
        letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32)
        ends = letters == ord("\n")
        between = ends | (letters == ord(" "))
        letters = np.where(between, np.int32(ord("#")), letters)
        before, at, after = letters[:-2], letters[1:-1], letters[2:]
        ids = self._keys()[(before << 14 | at << 7 | after) & _LAST_KEY]
        other = np.flatnonzero((before | at | after) >= 128)  # not ASCII: the key is of another trigram
        if len(other):
            ids[other] = self._not_ascii(_long_keys(before[other], at[other], after[other]))
        found = (ids >= 0) & ~between[1:-1]
        found_before = np.concatenate(([0], np.cumsum(found)))
        return Ragged(ids[found], found_before[ends.nonzero()[0].clip(max=len(found))])

    def _keys(self) -> Ints:
        """The id of each trigram of ASCII letters by its key, 7 bits for a letter; -1 where it is not known."""
        if self._by_key is None:
            by_key = np.full(_LAST_KEY + 1, -1, np.int32)
            ascii_ids = [place for trigram, place in self._ids.items() if len(trigram) == 3 and trigram.isascii()]
            letters = "".join([self.trigrams[place] for place in ascii_ids]).encode("ascii")
            first, second, third = np.frombuffer(letters, np.uint8).reshape(-1, 3).T.astype(np.int32)
            by_key[first << 14 | second << 7 | third] = ascii_ids
            self._by_key = by_key
        return self._by_key

    def _not_ascii(self, keys: Offsets) -> Ints:
        """The ids of trigrams that are not of ASCII letters, by their long keys; -1 where one is not known."""
        if self._by_long_key is None:
            some = [place for trigram, place in self._ids.items() if len(trigram) == 3 and not trigram.isascii()]
            letters = "".join([self.trigrams[place] for place in some]).encode("utf-32-le", "surrogatepass")
            known = _long_keys(*np.frombuffer(letters, np.int32).reshape(-1, 3).T)
            order = np.argsort(known)
            # One more at the end, which no trigram has, so that every key has a place.
            self._by_long_key = (
                np.append(known[order], _NO_KEY),
                np.append(np.array(some, np.int32)[order], np.int32(-1)),
            )
        known, ids = self._by_long_key
        places = known.searchsorted(keys)
        found: Ints = ids[places]
        found[known[places] != keys] = -1
        return found


def _long_keys(before: Ints, at: Ints, after: Ints) -> Offsets:
    """Trigrams of any letters as numbers: 21 bits for a letter."""
    return (before.astype(np.int64) << 21 | at) << 21 | after
