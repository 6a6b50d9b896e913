"""Text to what word matching compares: words, singular forms or letter trigrams, with or without stop words."""

import re
import unicodedata
from typing import Literal, get_args

from clickvec.errors import ClickvecError
from clickvec.text.tokens import normalise
from clickvec.text.trigrams import trigrams

TokenKind = Literal["words", "words-stop", "stems", "stems-stop", "trigrams", "words+trigrams"]

# The English stop words of Lucene and of bm25s.
# fmt: off
STOP_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
))
# fmt: on
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def tokenise(text: str, tokens: TokenKind = "words") -> list[str]:
    """Return the tokens of a text, each as often as it occurs.

    - `words`: in lower case (`normalise`), split at everything but letters, digits and marks.
    - `words-stop`: without English stop words, unless the text has no other words: the film "It" keeps its name.
    - `stems`, `stems-stop`: the same, with plurals made singular.
    - `trigrams`: the letter trigrams of the words; a misspelling leaves half of them intact.
    - `words+trigrams`: both.
    """
    if tokens not in get_args(TokenKind):
        raise ClickvecError(f"tokens is {tokens!r}; use one of {', '.join(get_args(TokenKind))}")
    words = _words(text)
    if tokens.endswith("trigrams"):
        letters = trigrams(" ".join(words))
        # A word is marked as in a trigram, so that a word of three letters is not taken for one. A word of one letter
        # is its own trigram already.
        return letters if tokens == "trigrams" else [f"#{word}#" for word in words if len(word) > 1] + letters
    if tokens.endswith("-stop"):
        words = [word for word in words if word not in STOP_WORDS] or words
    return list(map(singular, words)) if tokens.startswith("stems") else words


def singular(word: str) -> str:
    """Return the singular by Harman's S-stemmer, as Lucene has it: ladies -> lady, cars -> car; bus and glass stay."""
    if len(word) < 3 or not word.endswith("s") or word.endswith(("us", "ss")):
        return word
    if word.endswith("ies") and len(word) > 3 and word[-4] not in "ae":
        return word[:-3] + "y"
    return word if word.endswith(("ies", "aes", "oes", "ees")) else word[:-1]


def _words(text: str) -> list[str]:
    text = normalise(text)
    if text.isascii():
        return _ASCII_WORD.findall(text)
    # The \w of a regular expression does not match the marks that are vowels in Hindi or Thai.
    return "".join(char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in text).split()
