"""The postings of titles: which titles contain a word, how often, and how long those titles are.

A `WordSegment` is immutable and consists of plain arrays, which open memory-mapped. A `WordDelta` holds in memory the
titles that were added later. Both give their postings by the hash of a word (word_tokens.py).
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.native.postings import Codes, Positions, Postings, sort_postings
from clickvec.search.lexical.spelling import Numbers, RecentSpelling, Spelling
from clickvec.search.lexical.word_tokens import extra_words, indexed, plain_words, title_words, word_hash
from clickvec.storage.arrays import check_texts

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]
MOST = 255  # the largest frequency and length in a code
_KEPT = 10_000  # words whose postings are known
_DTYPES = {
    "hashes": np.uint64, "offsets": np.int64, "positions": np.int32, "codes": np.uint16, "lengths": np.uint8,
    "letters": np.uint8, "letter_offsets": np.int64, "total_length": np.int64, "spelled": np.int32,
    "spelled_lengths": np.uint8, "deletions": np.uint64, "trigrams": np.uint64, "trigram_offsets": np.int64,
    "trigram_words": np.int32,
}  # fmt: skip

NO_POSTINGS = Postings(np.zeros(0, np.int32), np.zeros(0, np.uint16))


class WordSegment:
    """The postings of titles at the positions 0 to `len(segment) - 1`."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)
        self.hashes: Hashes = arrays["hashes"]  # of the distinct words, rising
        self.offsets: NDArray[np.int64] = arrays["offsets"]  # word k has the postings offsets[k] to offsets[k + 1]
        self.positions: Positions = arrays["positions"]
        self.codes: Codes = arrays["codes"]
        self.lengths: NDArray[np.uint8] = arrays["lengths"]  # of the titles, at most 255
        self.letters: NDArray[np.uint8] = arrays["letters"]  # the words in UTF-8, in the order of their hashes
        self.letter_offsets: NDArray[np.int64] = arrays["letter_offsets"]
        self.total_length = int(arrays["total_length"][0])  # words of all titles, of each at most 255
        self.spelling = Spelling(arrays)
        self._known: dict[int, Postings] = {}

    def __len__(self) -> int:
        """The number of titles."""
        return len(self.lengths)

    @classmethod
    def build(cls, titles: Iterable[str], split: Callable[[str], list[str]] | None = None) -> "WordSegment":
        """Index titles. They are read once and not kept; memory is needed for the words and the postings.

        With `split`, the words of a title are what it returns, as they are; no other spelling finds them.
        """
        ids = _Ids(indexed if split is None else str)
        tokens, counts, lengths = array("i"), array("i"), array("i")
        for title in titles:
            words = plain_words(title) if split is None else split(title)
            extra = extra_words(title, words) if split is None else []
            lengths.append(len(words))
            counts.append(len(words) + len(extra))
            tokens.extend([ids[word] for word in words])
            tokens.extend([ids[word] for word in extra])
        hashes = np.fromiter(map(word_hash, ids.words), np.uint64, len(ids.words))
        order = np.argsort(hashes, kind="stable")
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        distinct = list(ids.words)
        vocabulary = [distinct[number] for number in order.tolist()]
        del ids, distinct
        encoded = [word.encode("utf-8", "surrogatepass") for word in vocabulary]
        clipped = np.minimum(np.array(lengths, np.int64), MOST).astype(np.uint8)
        offsets, positions, codes = sort_postings(
            rank[np.array(tokens, np.int32)], np.array(counts, np.int32), clipped, len(order)
        )
        return cls(
            {
                "hashes": hashes[order],
                "offsets": offsets,
                "positions": positions,
                "codes": codes,
                "lengths": clipped,
                "letters": np.frombuffer(b"".join(encoded), np.uint8),
                "letter_offsets": np.concatenate(([0], np.cumsum([len(word) for word in encoded]))).astype(np.int64),
                "total_length": np.array([clipped.sum(dtype=np.int64)]),
                **Spelling.build(vocabulary if split is None else (), np.diff(offsets)),
            }
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store; `from_arrays` opens them."""
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "WordSegment":
        """Return the segment with these arrays, which may be memory-mapped. Use `check` before it is searched.

        Raise ValueError if an array is missing or has another type. Nothing else of the arrays is read.
        """
        for name, dtype in _DTYPES.items():
            if name not in arrays or arrays[name].dtype != dtype or arrays[name].ndim != 1:
                raise ValueError(f"the array {name} is missing or has the wrong type")
        if not len(arrays["total_length"]):
            raise ValueError("the array total_length is empty")
        return cls(arrays)

    def check(self, count: int) -> None:
        """Read all arrays. Raise ValueError if they are not of `count` titles or lead outside each other."""
        arrays = self._arrays
        sizes = {name: len(array) for name, array in arrays.items()}
        spelled, trigrams = sizes["spelled"], sizes["trigrams"]
        for name, size in (("lengths", count), ("codes", sizes["positions"]), ("spelled_lengths", spelled)):
            if sizes[name] != size:
                raise ValueError(f"the array {name} has {sizes[name]} rows instead of {size}")
        for name, rows, last in (
            ("offsets", sizes["hashes"], sizes["positions"]),
            ("letter_offsets", sizes["hashes"], sizes["letters"]),
            ("trigram_offsets", trigrams, sizes["trigram_words"]),
        ):
            offsets = arrays[name]
            if len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] != last or (offsets[1:] < offsets[:-1]).any():
                raise ValueError(f"the array {name} does not rise from 0 to {last}")
        for name, values, end in (
            ("positions", self.positions, count),
            ("spelled", arrays["spelled"], sizes["hashes"]),
            ("trigram_words", arrays["trigram_words"], spelled),
            ("deletions", arrays["deletions"] & np.uint64(0xFFFFFFFF), spelled),
        ):
            if len(values) and not (values.min() >= 0 and values.max() < end):
                raise ValueError(f"the array {name} has values outside of 0 to {end - 1}")
        if not 0 <= self.total_length < 2**53:
            raise ValueError(f"the array total_length has {self.total_length}")
        check_texts(self.letters, self.letter_offsets)

    def postings(self, hashes: Sequence[int]) -> list[Postings]:
        """Return the postings of each of these words. Those of many words are kept: each new view asks for them."""
        known = self._known
        if len(known) > _KEPT:
            known = self._known = {}
        fresh = [value for value in hashes if value not in known]
        numbers = np.searchsorted(self.hashes, np.array(fresh, np.uint64)) if fresh else np.zeros(0, np.int64)
        for number, value in zip(numbers.tolist(), fresh, strict=True):
            if number < len(self.hashes) and int(self.hashes[number]) == value:
                rows = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
                known[value] = Postings(self.positions[rows], self.codes[rows])
            else:
                known[value] = NO_POSTINGS
        return [known[value] for value in hashes]

    def near(self, word: str) -> list[str]:
        """Return the words that may be at distance 1."""
        return [self.word(number) for number in self.spelling.one_deletion(word)]

    def hashes_of(self, numbers: Numbers) -> Hashes:
        """Return the hashes of words that have these numbers in `spelling`."""
        return self.hashes[self.spelling.rows[numbers]]

    def are_alive(self, numbers: Numbers, alive: Mask) -> Mask:
        """Return whether a living title, one of `alive`, has each of the words with these numbers in `spelling`."""
        return self._are_alive(self.spelling.rows[numbers], alive)

    def has_alive(self, hashes: Hashes, alive: Mask) -> Mask:
        """Return whether a living title has each of these words."""
        rows = np.minimum(np.searchsorted(self.hashes, hashes), max(0, len(self.hashes) - 1))
        found = self.hashes[rows] == hashes if len(self.hashes) else np.zeros(len(hashes), np.bool_)
        found[found] = self._are_alive(rows[found], alive)
        return found

    def _are_alive(self, rows: NDArray[Any], alive: Mask) -> Mask:
        at, ends = self.offsets[rows], self.offsets[rows + 1]
        found = np.zeros(len(rows), np.bool_)
        remaining = np.arange(len(rows))  # words of which no living title is found yet
        while len(remaining):
            found[remaining] = alive.take(self.positions[at[remaining]], mode="clip")
            remaining = remaining[~found[remaining]]
            at[remaining] += 1
            remaining = remaining[at[remaining] < ends[remaining]]
        return found

    def word(self, number: int) -> str:
        """Return the word that has this number in `spelling`."""
        row = int(self.spelling.rows[number])
        letters = self.letters[int(self.letter_offsets[row]) : int(self.letter_offsets[row + 1])]
        return letters.tobytes().decode("utf-8", "surrogatepass")


class WordDelta:
    """The postings of titles in memory, to which titles can be added while other threads search the earlier ones.

    One thread at a time may add. `Words` looks only at the titles that were there when it was made.
    """

    def __init__(self, titles: Iterable[str] = ()) -> None:
        self._postings: dict[int, _Growing] = {}
        self._words: list[tuple[str, int]] = []  # and their hashes, in the order in which they came
        self.spelling = RecentSpelling()
        self._lengths = _Growing()
        self.total_lengths = [0]  # words of the first n titles, of each at most 255
        self.add(titles)

    def __len__(self) -> int:
        """The number of titles."""
        return len(self.total_lengths) - 1

    def add(self, titles: Iterable[str]) -> None:
        """Index further titles, at the next positions."""
        for title in titles:
            times, length = title_words(title)
            position, clipped = len(self), min(length, MOST)
            for word, count in times.items():
                value = word_hash(word)
                growing = self._postings.get(value)
                if growing is None:
                    growing = self._postings[value] = _Growing()
                    self._words.append((word, value))
                    self.spelling.add(word, len(self._words) - 1)
                growing.append(position, min(count, MOST) << 8 | clipped)
            self._lengths.append(position, clipped)
            self.total_lengths.append(self.total_lengths[-1] + clipped)  # now the title counts

    def postings(self, hashes: Sequence[int], count: int) -> list[Postings]:
        """Return the postings of each of these words in the first `count` titles."""
        found = []
        for value in hashes:
            growing = self._postings.get(value)
            found.append(NO_POSTINGS if growing is None else growing.before(count))
        return found

    def near(self, word: str) -> list[str]:
        """Return the words that may be at distance 1."""
        return list(self.spelling.one_deletion(word))

    def hashes_of(self, numbers: Numbers) -> Hashes:
        """Return the hashes of words that have these numbers in `spelling`."""
        return np.array([self._words[number][1] for number in numbers.tolist()], np.uint64)

    def are_alive(self, numbers: Numbers, alive: Mask) -> Mask:
        """Return whether a living title, one of `alive`, has each of the words with these numbers in `spelling`."""
        return self.has_alive(self.hashes_of(numbers), alive)

    def has_alive(self, hashes: Hashes, alive: Mask) -> Mask:
        """Return whether a living title has each of these words."""
        postings = self.postings(hashes.tolist(), len(alive))
        return np.array([bool(alive[one.positions].any()) for one in postings], np.bool_)

    def word(self, number: int) -> str:
        """Return the word that has this number in `spelling`."""
        return self._words[number][0]

    def lengths(self, count: int) -> NDArray[np.uint8]:
        """Return the lengths of the first `count` titles."""
        return self._lengths.before(count).codes.astype(np.uint8)


class _Ids(dict[str, int]):
    """The number of each word. Words with the same indexed form have the same one; `words` holds those forms."""

    def __init__(self, form: Callable[[str], str]) -> None:
        super().__init__()
        self.words: dict[str, int] = {}
        self._form = form

    def __missing__(self, word: str) -> int:
        number = self[word] = self.words.setdefault(self._form(word), len(self.words))
        return number


class _Growing:
    """Postings to which others can be added. Readers keep what they have: rows are added behind it, or in a copy."""

    def __init__(self) -> None:
        self._rows, self._count = (np.empty(2, np.int32), np.empty(2, np.uint16)), 0

    def append(self, position: int, code: int) -> None:
        positions, codes = self._rows
        if self._count == len(positions):
            positions, codes = self._rows = np.resize(positions, 2 * len(positions)), np.resize(codes, 2 * len(codes))
        positions[self._count], codes[self._count] = position, code
        self._count += 1

    def before(self, position: int) -> Postings:
        """Return the postings of titles before a position."""
        count = self._count  # read first: the rows may be newer than the count
        positions, codes = self._rows
        end = int(np.searchsorted(positions[:count], position))
        return Postings(positions[:end], codes[:end])
