"""Distinct tokens to ids, in plain Python. `native/words.py` does the same in C; a test compares the two."""

from array import array
from collections.abc import Iterable

import numpy as np

from clickvec.text.ragged import Ragged
from clickvec.text.tokens import canonical, split_tokens
from clickvec.text.trigrams import Tokens


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
        ids, ends = array("i"), array("q", [0])
        for text in texts:
            ids.extend(map(look_up, split_tokens(text, self.max_words) if self.max_words else [canonical(text)]))
            ends.append(len(ids))
        return Ragged(np.array(ids, np.int32), np.array(ends, np.int64))

    def read_table(self, texts: Tokens, first: int) -> Ragged:
        """Return what `read(texts[first:])` returns."""
        return self.read(texts[first:])

    def read_one(self, text: str) -> list[int]:
        """Return the token ids of one text as a plain list."""
        return [self._ids[token] for token in split_tokens(text, self.max_words)]
