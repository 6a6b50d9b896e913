"""Text -> words -> letter trigrams -> ids: the fixed hashing operator W_h of the paper (sections III-A and V).

A text is read as *tokens*. A token is one word, but a text of more than `max_words` words ends in one last token
that holds all the words left over; its trigrams are summed, as the paper does in its bath tub example ("treated as
one word"). A token is written as its words with single spaces between them, so a token that is one word has no space.

Nothing here learns, and nothing here depends on hash or set order: the same texts give the same ids.
"""

import unicodedata


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


def split_tokens(text: str, max_words: int) -> list[str]:
    """The tokens of a text: its words, the ones from `max_words` on joined into one last token."""
    tokens = normalise(text).split(None, max_words - 1)
    if len(tokens) == max_words:
        tokens[-1] = " ".join(tokens[-1].split())
    return tokens
