"""Text -> words -> letter trigrams -> ids: the fixed hashing operator W_h of the paper (sections III-A and V).

A text is read as *steps*. A step is one word, except that a text of more than `max_words` words ends in one last step
that holds all the words left over; its trigrams are summed, as the paper does in its bath tub example ("treated as
one word"). A step is written as its words with single spaces between them, so a step that is one word has no space.

Nothing here learns, and nothing here depends on hash or set order: the same texts give the same ids.
"""

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_TRIGRAMS = 50_000
_LAST_KEY = 2**21 - 1  # of three ASCII letters
_NO_KEY = 2**63 - 1  # larger than that of any three letters
_AT_ONCE = 2**14  # steps whose trigrams are looked up at once, to spare memory
_SIDE_BY_SIDE = 64  # texts that are split before their steps are looked up: few enough for the processor's cache

Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]


def normalise(text: str) -> str:
    """NFKC and lower case. Applying it twice changes nothing."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())


def split_words(text: str) -> list[str]:
    """The white-space words of a text, lower-cased; digits kept, no stemming (section V)."""
    return normalise(text).split()


def canonical(text: str) -> str:
    """The words of a text with single spaces: texts that are the same here get the same vector."""
    return " ".join(split_words(text))


def split_steps(text: str, max_words: int) -> list[str]:
    """The steps of a text: its words, the ones from `max_words` on joined into one last step."""
    steps = normalise(text).split(None, max_words - 1)
    if len(steps) == max_words:
        steps[-1] = " ".join(steps[-1].split())
    return steps


def trigrams(step: str) -> list[str]:
    """The letter trigrams of `#word#`, for each word of the step, repeated as often as they occur."""
    found: list[str] = []
    for word in step.split(" "):
        marked = f"#{word}#"
        found.extend(marked[at : at + 3] for at in range(len(marked) - 2))
    return found


class Ragged(NamedTuple):
    """Rows of different lengths: row k is `values[offsets[k]:offsets[k + 1]]`."""

    values: Ints
    offsets: Offsets

    @property
    def lengths(self) -> Offsets:
        """The length of each row."""
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.integer]) -> "Ragged":
        """The given rows, in the given order."""
        starts = self.offsets[rows]
        lengths = self.offsets[np.asarray(rows) + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Ragged(self.values[np.repeat(starts, lengths) + within], offsets)


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Rows of ints as one `Ragged`."""
    values, lengths = array("i"), array("q")
    for row in rows:
        values.extend(row)
        lengths.append(len(row))
    return Ragged(np.array(values, np.int32), np.concatenate(([0], np.cumsum(np.array(lengths, np.int64)))))


class Packed(NamedTuple):
    """A batch of texts, longest first and time-major, so that the batch shrinks as short texts end.

    `order[k]` is the text in place k; `sizes[t]` is how many texts have a step t; `steps` holds the step ids of time 0,
    then of time 1, and so on, `sizes[t]` of them each.
    """

    order: Offsets
    sizes: tuple[int, ...]
    steps: Ints

    def chunks(self, size: int) -> Iterator[tuple[Offsets, list[Ints]]]:
        """At most `size` texts at a time, longest first: which they are, and their step ids at time 0, 1, and so on.

        Texts without a step are left out.
        """
        starts = np.cumsum((0, *self.sizes)).tolist()
        for first in range(0, self.sizes[0] if self.sizes else 0, size):
            columns = [
                self.steps[start + first : start + min(first + size, n)]
                for start, n in zip(starts, self.sizes, strict=False)
                if n > first
            ]
            yield self.order[first : first + len(columns[0])], columns


def pack(texts: Ragged, *, backwards: bool = False) -> Packed:
    """Lay a batch out for the time loop; `backwards` reads each text from its last step to its first."""
    lengths = texts.lengths
    order = np.argsort(-lengths, kind="stable")
    longest_first = lengths[order]
    first, direction = texts.offsets[:-1][order], 1
    if backwards:
        first, direction = first + longest_first - 1, -1
    deepest = int(longest_first[0]) if len(longest_first) else 0
    sizes = np.searchsorted(-longest_first, -np.arange(deepest), side="left")
    columns = [texts.values[first[:size] + direction * t] for t, size in enumerate(sizes)]
    steps = np.concatenate(columns) if columns else np.zeros(0, np.int32)
    return Packed(order, tuple(int(size) for size in sizes), steps)


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

    def ids(self, step: str) -> list[int]:
        """The ids of a step's known trigrams, each as often as it occurs: the non-zeros of l(t) = W_h x(t)."""
        known = self._ids
        return [known[trigram] for trigram in trigrams(step) if trigram in known]

    def rows(self, steps: Sequence[str]) -> Ragged:
        """`ids` of each of many steps, thirty times as fast."""
        some = [self._rows(steps[first : first + _AT_ONCE]) for first in range(0, len(steps), _AT_ONCE)]
        lengths = [np.zeros(1, np.int64), *(rows.lengths for rows in some)]
        return Ragged(
            np.concatenate([np.zeros(0, np.int32), *(rows.values for rows in some)]), np.cumsum(np.concatenate(lengths))
        )

    def _rows(self, steps: Sequence[str]) -> Ragged:
        """The trigrams of all the steps at once: one around each letter, as an end of a word is read as #."""
        text = "\n" + "\n".join(steps) + "\n"
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


class _NewIds(dict[str, int]):
    """A dict that gives the next number to a key it has not seen."""

    def __missing__(self, key: str) -> int:
        self[key] = number = len(self)
        return number


class StepTable:
    """Distinct steps met so far -> small integers. Reading a text is then one look-up a word. words.py has it in C."""

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words
        self._ids = _NewIds()

    def __len__(self) -> int:
        """The number of distinct steps met so far."""
        return len(self._ids)

    def read(self, texts: Iterable[str]) -> Ragged:
        """The step ids of each text; new steps get the next ids."""
        last = self.max_words - 1
        look_up = self._ids.__getitem__
        iterator, values, lengths = iter(texts), [np.zeros(0, np.int32)], array("q", [0])
        while some := list(islice(iterator, _SIDE_BY_SIDE)):
            # The body of split_steps, unrolled: this loop sets the speed of everything that reads text.
            rows = [(text.lower() if text.isascii() else normalise(text)).split(None, last) for text in some]
            lengths.extend(map(len, rows))
            for steps in rows:
                if len(steps) > last:
                    steps[last] = " ".join(steps[last].split())
            values.append(np.fromiter(map(look_up, chain.from_iterable(rows)), np.int32))
        return Ragged(np.concatenate(values), np.cumsum(lengths))

    def read_one(self, text: str) -> list[int]:
        """The step ids of one text, as a plain list."""
        return [self._ids[step] for step in split_steps(text, self.max_words)]

    def steps(self, first: int = 0) -> list[str]:
        """The steps from id `first` on, in order of id."""
        return list(islice(self._ids, first, None))

    def trigrams(self, vocabulary: Vocabulary, first: int = 0) -> Ragged:
        """The trigram ids of the steps from id `first` on."""
        return vocabulary.rows(self.steps(first))
