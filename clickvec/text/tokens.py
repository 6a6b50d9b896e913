"""Text to words to tokens: the words of a text, the last ones joined when there are many (section V of the paper).

A text is read as *tokens*. A token is one word, but a text of more than `max_words` words ends in one last token that
holds all the remaining words. Its trigrams are summed, as the paper does in its bath tub example ("treated as one
word"). A token is written as its words with single spaces between them, so a token of one word has no space.
"""

import unicodedata
from collections.abc import Iterator, Sequence

_BLOCK_CHARACTERS = 2**24


def normalise(text: str) -> str:
    """Return a text in NFKC and lower case. Applying it twice changes nothing."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())


def split_words(text: str) -> list[str]:
    """Return the words of a text: split at white space, in lower case; digits are kept, nothing is stemmed."""
    return normalise(text).split()


def text_blocks(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    """Yield consecutive texts, at most so many and of a limited size together: joined, they need memory twice."""
    for first in range(0, len(texts), most):
        block = list(texts[first : first + most])
        if sum(map(len, block)) <= _BLOCK_CHARACTERS:
            yield block
            continue
        start = size = 0
        for end, text in enumerate(block, 1):
            size += len(text)
            if size >= _BLOCK_CHARACTERS or end == len(block):
                yield block[start:end]
                start, size = end, 0


def canonical(text: str) -> str:
    """Return the words of a text with single spaces. Texts with the same canonical form get the same vector."""
    return " ".join(split_words(text))


def split_tokens(text: str, max_words: int) -> list[str]:
    """Return the tokens of a text: its words, those from word `max_words` on joined into one last token."""
    tokens = normalise(text).split(None, max_words - 1)
    if len(tokens) == max_words:
        tokens[-1] = " ".join(tokens[-1].split())
    return tokens
