"""Distinct tokens to small integers."""

from array import array
from collections.abc import Iterable
from itertools import chain, islice

import numpy as np

from clickvec.text.ragged import Ragged
from clickvec.text.tokens import normalise, split_tokens
from clickvec.text.trigrams import Vocabulary

_SIDE_BY_SIDE = 64  # texts that are split before their tokens are looked up: few enough for the processor's cache


class _NewIds(dict[str, int]):
    """A dict that gives the next number to a key it has not seen."""

    def __missing__(self, key: str) -> int:
        self[key] = number = len(self)
        return number


class TokenTable:
    """Distinct tokens met so far -> small integers. Reading a text is then one look-up a word. words.py has it in C."""

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words
        self._ids = _NewIds()

    def __len__(self) -> int:
        """The number of distinct tokens met so far."""
        return len(self._ids)

    def read(self, texts: Iterable[str]) -> Ragged:
        """The token ids of each text; new tokens get the next ids."""
        last = self.max_words - 1
        look_up = self._ids.__getitem__
        iterator, values, lengths = iter(texts), [np.zeros(0, np.int32)], array("q", [0])
        while some := list(islice(iterator, _SIDE_BY_SIDE)):
            # The body of split_tokens, unrolled: this loop sets the speed of everything that reads text.
            rows = [(text.lower() if text.isascii() else normalise(text)).split(None, last) for text in some]
            lengths.extend(map(len, rows))
            for tokens in rows:
                if len(tokens) > last:
                    tokens[last] = " ".join(tokens[last].split())
            values.append(np.fromiter(map(look_up, chain.from_iterable(rows)), np.int32))
        return Ragged(np.concatenate(values), np.cumsum(lengths))

    def read_one(self, text: str) -> list[int]:
        """The token ids of one text, as a plain list."""
        return [self._ids[token] for token in split_tokens(text, self.max_words)]

    def tokens(self, first: int = 0) -> list[str]:
        """The tokens from id `first` on, in order of id."""
        return list(islice(self._ids, first, None))

    def trigrams(self, vocabulary: Vocabulary, first: int = 0) -> Ragged:
        """The trigram ids of the tokens from id `first` on."""
        return vocabulary.rows(self.tokens(first))
