"""Distinct tokens to ids, in plain Python. `native/words.py` does the same in C; a test compares the two."""

from array import array
from collections.abc import Iterable
from itertools import chain, islice

import numpy as np

from clickvec.text.ragged import Ragged
from clickvec.text.tokens import canonical, normalise, split_tokens
from clickvec.text.trigrams import Tokens

_TEXTS_AT_ONCE = 64  # texts that are split before their tokens are looked up: few enough for the processor's cache


class _NewIds(dict[str, int]):
    """A dict that gives the next id to a token that it does not hold."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def __missing__(self, token: str) -> int:
        self[token] = token_id = len(self)
        self.tokens.append(token)
        return token_id


class TokenTable:
    """The distinct tokens read so far, with ids in order of first appearance. `table[first:stop]` lists tokens by id.

    With `max_words=0` every text is one token, its canonical form, even if it has no words. Such a table gives ids to
    distinct texts.
    """

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words
        self._ids = _NewIds()

    def __len__(self) -> int:
        """The number of distinct tokens read so far."""
        return len(self._ids)

    def __getitem__(self, ids: slice) -> list[str]:
        """Return the tokens with these ids."""
        return self._ids.tokens[ids]

    def read(self, texts: Iterable[str]) -> Ragged:
        """Return the token ids of each text. New tokens get the next ids."""
        look_up = self._ids.__getitem__
        if not self.max_words:
            ids = np.fromiter(map(look_up, map(_canonical, texts)), np.int32)
            return Ragged(ids, np.arange(len(ids) + 1))
        last = self.max_words - 1
        iterator, values, lengths = iter(texts), [np.zeros(0, np.int32)], array("q", [0])
        while block := list(islice(iterator, _TEXTS_AT_ONCE)):
            # The body of split_tokens, inlined: this loop sets the speed of everything that reads text without C.
            rows = [(text.lower() if text.isascii() else normalise(text)).split(None, last) for text in block]
            lengths.extend(map(len, rows))
            for tokens in rows:
                if len(tokens) > last:
                    tokens[last] = " ".join(tokens[last].split())
            values.append(np.fromiter(map(look_up, chain.from_iterable(rows)), np.int32))
        return Ragged(np.concatenate(values), np.cumsum(lengths))

    def read_table(self, texts: Tokens, first: int) -> Ragged:
        """Return what `read(texts[first:])` returns."""
        return self.read(texts[first:])

    def read_one(self, text: str) -> list[int]:
        """Return the token ids of one text as a plain list."""
        return [self._ids[token] for token in split_tokens(text, self.max_words)]


def _canonical(text: str) -> str:
    """Return `canonical(text)`, and the same string object if it is canonical already, to spare memory."""
    words = canonical(text)
    return text if words == text else words
