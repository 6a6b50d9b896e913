"""The words of a title and of a query, as the postings of an index hold them.

Both sides have the same plain words: lower case, without Latin accents, split at everything but letters, digits and
marks. They are found by their singular (`indexed`). Scripts that are written without blanks (Chinese, Japanese, Thai,
Lao, Khmer, Burmese) become overlapping pairs of characters.

A title also has extra words, under which other spellings find it: parts that punctuation joins as one word (`AB-1234`
as ab1234, `spider-man` as spiderman), letters and digits apart (`AB1234` as ab and 1234), what could be a code that is
written with blanks (`iphone 7` as iphone7, `ABC 123 D4` as abc123d4), and single Chinese characters. Extra words do not
count in the length of a title, as in Lucene, where words at the same place count once.

A query has the words that it is written with, and `joined_codes` are what its neighbours could be together. So a code
is found however query and title write it.
"""

import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b

from clickvec.text.lexical_tokens import singular
from clickvec.text.tokens import normalise

LONGEST = 64  # characters of a word; the rest is cut off
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_HAS_JOINED = re.compile(r"[^\W_]['’./_&-]+[^\W_]")
_JOINED = re.compile(r"[^\W_]+(?:['’./_&-]+[^\W_]+)+")
_PIECES = re.compile(r"\d+|[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_SHORT = 4  # letters of a part of a code, at most: ab 260; longer parts are words
_DIGITS = 2  # at least, of a code that is written with blanks: `man 2` is none
_MOST_PARTS = 6  # of a code: an ISBN has five
_ARTICLE_NUMBER = 5  # digits, at least, of a number that is a code by itself
_LONG_NUMBER = 8  # digits, at least, of a number that is written in parts: an EAN, a telephone number, a date
_MOST_WORDS = 64  # of a query that are read for codes
_WORD = 4  # letters of a part that is a word by itself: iphone12
_SIZE = re.compile(r"(\d{2,})[^\W\d_]{1,3}")  # a number and its unit: 260in
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
    """Return whether a word is a code or a number: whether it has a digit."""
    return _DIGIT.search(word) is not None


def is_number(word: str) -> bool:
    """Return whether a word is a short number, such as a year or a size, and not a code."""
    return word.isdecimal() and len(word) < _ARTICLE_NUMBER


def joined_codes(query: str) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield each code that neighbours of a query could be together, the place of the first, and all of them.

    Codes of many words come first.
    """
    if not _DIGIT.search(query):
        return
    chunks = [plain_words(chunk) for chunk in normalise(query).split()[:_MOST_WORDS]]
    words = [(word, number) for number, chunk in enumerate(chunks) for word in chunk][:_MOST_WORDS]
    for count in range(min(_MOST_PARTS, len(words)), 1, -1):
        for first in range(len(words) - count + 1):
            parts, numbers = zip(*words[first : first + count], strict=True)
            if _are_one_code(parts, has_blank=numbers[0] != numbers[-1]):
                yield indexed("".join(parts)), first, parts


def hyphenated_codes(query: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each code that a query writes with hyphens, dots or slashes, as it is written, and its parts."""
    for run in _JOINED.findall(query) if _DIGIT.search(query) else ():
        parts = tuple(plain_words(run))
        if _are_one_code(parts, has_blank=True):  # `toy-story-3` is none
            yield run, parts


def _are_one_code(parts: tuple[str, ...], has_blank: bool) -> bool:
    """Return whether parts can be one code. 2.0 is not 20, and `story 3` is two words."""
    code = "".join(parts)
    digits = len(_DIGIT.findall(code))
    if not digits or len(code) > LONGEST:
        return False
    if digits == len(code):
        return digits >= _LONG_NUMBER
    return not has_blank or (digits >= _DIGITS and all(len(part) <= _SHORT for part in parts if part.isalpha()))


def code_beginnings(code: str) -> list[str]:
    """Return the shorter codes with which a code begins, the longest first: xk750 for xk750b."""
    pieces = _PIECES.findall(code)
    return ["".join(pieces[:end]) for end in range(len(pieces) - 1, 1, -1)]


def words_of_code(code: str) -> list[str]:
    """Return the words that a code which no title has may stand for: iphone for iphone12, 260 for 260in.

    Single letters and the parts of article numbers say nothing.
    """
    size = _SIZE.fullmatch(code)
    return [size[1]] if size else [piece for piece in _PIECES.findall(code) if piece.isalpha() and len(piece) >= _WORD]


def word_hash(word: str) -> int:
    """Return the 64-bit number by which a word is found in the vocabulary of an index."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _around_digits(words: list[str]) -> list[str]:
    """Return the pieces of words that mix letters and digits, and what neighbours could be together as a code."""
    extra = [piece for word in words if not word.isdecimal() and _DIGIT.search(word) for piece in _PIECES.findall(word)]
    for first, word in enumerate(words):
        code, longest = word, len(word)
        for parts, following in enumerate(words[first + 1 : first + _MOST_PARTS], 2):
            longest = max(longest, len(following))
            is_number = code.isdecimal() and following.isdecimal()
            if not is_number and (
                not _alternate(code, following) or (parts > 2 and (longest > _SHORT or code.isdecimal()))
            ):
                break
            code += following
            if not is_number or len(code) >= _LONG_NUMBER:
                extra.append(code)
    return extra


def _alternate(word: str, following: str) -> bool:
    """Return whether letters follow digits, or digits letters, where two words meet."""
    before, after = word[-1], following[0]
    return (before.isdecimal() and after.isalpha()) or (before.isalpha() and after.isdecimal())


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
