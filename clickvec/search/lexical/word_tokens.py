"""The words of a title and of a query, as the postings of an index hold them.

Both sides have the same plain words: lower case, without Latin accents, split at everything but letters, digits and
marks. They are found by their singular (`indexed`). Scripts that are written without blanks (Chinese, Japanese, Thai,
Lao, Khmer, Burmese) become overlapping pairs of characters.

A title also has extra words, under which other spellings find it: parts that punctuation joins as one word (`AB-1234`
as ab1234, `spider-man` as spiderman), letters and digits apart (`AB1234` as ab and 1234), a word and the number behind
it (`iphone 7` as iphone7), and single Chinese characters. Extra words do not count in the length of a title, as in
Lucene, where words at the same place count once.
"""

import re
import unicodedata
from hashlib import blake2b

from clickvec.text.lexical_tokens import singular
from clickvec.text.tokens import normalise

LONGEST = 64  # characters of a word; the rest is cut off
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_HAS_JOINED = re.compile(r"[^\W_]['’./_&-]+[^\W_]")
_JOINED = re.compile(r"[^\W_]+(?:['’./_&-]+[^\W_]+)+")
_PIECES = re.compile(r"\d+|[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_UNIT = 3  # letters of a word that is joined to the number before it: 500 gb
# Han, Hiragana and Katakana, Thai and Lao, Myanmar, Khmer
_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = _HAN + "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_HAN = re.compile(f"[{_HAN}]")
_LETTERS = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ı": "i"}


def plain_words(text: str) -> list[str]:
    """Return the plain words of a text, each as often as it occurs."""
    text = normalise(text)
    if text.isascii():
        words = _ASCII_WORD.findall(text)
    else:
        words = text.translate(_CLEANED).split()
        if _HAS_UNSPACED.search(text):
            words = [piece for word in words for run in _RUNS.findall(word) for piece in _pairs(run)]
    return words if len(text) <= LONGEST else [word[:LONGEST] for word in words]


def extra_words(title: str, words: list[str]) -> list[str]:
    """Return the further words under which a title with these plain words is found."""
    extra: list[str] = []
    if _HAS_JOINED.search(title):
        extra += ["".join(plain_words(run)) for run in _JOINED.findall(title) if not _HAS_UNSPACED.search(run)]
    if _DIGIT.search(title):
        extra += _around_digits(words)
    if not title.isascii():
        extra += _IS_HAN.findall(title)
    if not extra:
        return extra
    known = set(map(indexed, words))
    return [word for word in dict.fromkeys([indexed(word[:LONGEST]) for word in extra]) if word and word not in known]


def title_words(title: str) -> tuple[dict[str, int], int]:
    """Return how often a title has each word in its indexed form, extra words included, and its length in words."""
    words = plain_words(title)
    times: dict[str, int] = {}
    for word in (*map(indexed, words), *extra_words(title, words)):
        times[word] = times.get(word, 0) + 1
    return times, len(words)


def indexed(word: str) -> str:
    """Return the form under which the index has a word: its singular."""
    return singular(word)


def is_code(word: str) -> bool:
    """Return whether a word is a number or a code: whether it has a digit."""
    return _DIGIT.search(word) is not None


def code_pieces(word: str) -> list[str]:
    """Return the letters and the numbers that a word consists of."""
    return _PIECES.findall(word)


def word_hash(word: str) -> int:
    """Return the 64-bit number by which a word is found in the vocabulary of an index."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _around_digits(words: list[str]) -> list[str]:
    """Return the pieces of words that mix letters and digits, and neighbours of which one is a number as one word."""
    extra = []
    before = ""
    for word in words:
        if word.isdecimal():
            if before.isalpha():
                extra.append(before + word)
        elif _DIGIT.search(word):
            extra += code_pieces(word)
        elif before.isdecimal() and len(word) <= _UNIT:
            extra.append(before + word)
        before = word
    return extra


def _pairs(run: str) -> list[str]:
    """Return the overlapping pairs of characters of a run without blanks; any other run as it is."""
    if len(run) < 3 or not _HAS_UNSPACED.match(run):
        return [run]
    return [run[at : at + 2] for at in range(len(run) - 1)]


class _Cleaned(dict[int, str]):
    """What each character becomes: a space if it is not part of a word, an ASCII letter if it is one with an accent.

    Marks are part of a word: they are vowels in Hindi and Thai.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        base = unicodedata.normalize("NFD", char)[0]
        if char in _LETTERS or (base.isascii() and base.isalpha()):
            self[code] = _LETTERS.get(char, base)
        else:
            self[code] = char if char.isalnum() or unicodedata.category(char)[0] == "M" else " "
        return self[code]


_CLEANED = _Cleaned()
