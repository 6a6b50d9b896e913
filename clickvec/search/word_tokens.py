"""The words of a title and of a query, as the postings of an index hold them.

Both sides have the same plain words: lower case, split at everything but letters, digits and marks. Scripts that are
written without blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese) become overlapping pairs of characters. A title
also has extra words, under which other spellings find it: parts that punctuation joins as one word (`AB-1234` as
ab1234, `spider-man` as spiderman), letters and digits apart (`AB1234` as ab and 1234), a word with the number behind it
(`iphone 7` as iphone7), and single Chinese characters. Extra words do not count in the length of a title.
"""

import re
import unicodedata
from hashlib import blake2b

from clickvec.text.tokens import normalise

LONGEST = 64  # characters of a word; the rest is cut off
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_JOINED = re.compile(r"[^\W_]+(?:['’./_&-][^\W_]+)+")
_PIECES = re.compile(r"\d+|[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_UNIT = 3  # letters of a word that is joined to the number before it: 500 gb
# Han, Hiragana and Katakana, Thai and Lao, Myanmar, Khmer
_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = _HAN + "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_HAN = re.compile(f"[{_HAN}]")


def query_words(text: str) -> list[str]:
    """Return the plain words of a text, each as often as it occurs."""
    text = normalise(text)
    if text.isascii():
        words = _ASCII_WORD.findall(text)
    else:
        words = text.translate(_SEPARATED).split()
        if _HAS_UNSPACED.search(text):
            words = [piece for word in words for run in _RUNS.findall(word) for piece in _pairs(run)]
    return words if len(text) <= LONGEST else [word[:LONGEST] for word in words]


def title_words(text: str) -> tuple[list[str], list[str]]:
    """Return the plain words of a title and the extra words under which it is found as well."""
    words = query_words(text)
    has_digit = _DIGIT.search(text) is not None
    is_ascii = text.isascii()
    extra: dict[str, None] = {}
    if len(words) > 1 and len(" ".join(words)) <= len(text):
        for run in _JOINED.findall(normalise(text)):
            joined = "".join(query_words(run)) if is_ascii or not _HAS_UNSPACED.search(run) else ""
            extra[joined[:LONGEST]] = None
    if has_digit:
        extra.update(dict.fromkeys(_around_digits(words)))
    if not is_ascii:
        extra.update(dict.fromkeys(_IS_HAN.findall(text)))
    extra.pop("", None)
    for word in words:
        extra.pop(word, None)
    return words, list(extra)


def is_code(word: str) -> bool:
    """Return whether a word is a number or a code: whether it has a digit."""
    return _DIGIT.search(word) is not None


def word_hash(word: str) -> int:
    """Return the 64-bit number by which a word is found in the vocabulary of an index."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _around_digits(words: list[str]) -> list[str]:
    """Return the pieces of words that mix letters and digits, and the neighbours of which one is a number, joined."""
    extra = []
    before = ""
    for word in words:
        if word.isdigit():
            if before.isalpha():
                extra.append((before + word)[:LONGEST])
        elif _DIGIT.search(word):
            extra += _PIECES.findall(word)
        elif before.isdigit() and len(word) <= _UNIT:
            extra.append(before + word)
        before = word
    return extra


def _pairs(run: str) -> list[str]:
    """Return the overlapping pairs of characters of a run without blanks; any other run as it is."""
    if len(run) < 3 or not _HAS_UNSPACED.match(run):
        return [run]
    return [run[at : at + 2] for at in range(len(run) - 1)]


class _Separated(dict[int, int]):
    """Map each character that is not part of a word to a space. Marks are: they are vowels in Hindi and Thai."""

    def __missing__(self, code: int) -> int:
        char = chr(code)
        self[code] = code if char.isalnum() or unicodedata.category(char)[0] == "M" else ord(" ")
        return self[code]


_SEPARATED = _Separated()
