"""The scripts and languages of sampled texts.

The script of a text is that of most of its letters, by the first word of their Unicode names (LATIN SMALL LETTER A).
The language of a text in Latin script is that with the most function words in it; a text without one, or with as many
of two languages, has none. Words of one letter, and words that English has too, are left out of the other lists. That
is enough to see a second language in a log, and no more.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from clickvec.text.lexical_tokens import tokenise

NO_LETTERS = "no letters"
_SCRIPTS = {"CJK": "Han"}  # other names are in title case: Latin, Cyrillic, Hiragana
_FUNCTION_WORDS = {
    "English": "the of and to for in is on with how what you your my are best from near without an does do can at by",
    "German": "der das und für mit von im ist ein eine zu wie auf nicht ich zum zur ohne bei aus dem kaufen",
    "French": "le les des et pour avec du une est dans sur au aux que qui comment sans pas chez",
    "Spanish": "el los las para con del una es por que como sin al un se más cómo qué su lo",
    "Italian": "il gli di con del della una che come senza dei delle nel alla al un si più degli",
    "Portuguese": "os para com da dos das uma em na que como sem ao um não por mais pelo",
    "Dutch": "de het een en voor met van op te niet hoe zonder bij naar wat aan uit mijn kopen",
    "Polish": "na się jest nie dla jak co od po za bez ze oraz ile czy przez pod",
    "Swedish": "och för med att ett på av är som till inte hur utan från om vad det köpa",
    "Turkish": "ve bir için ile bu nasıl gibi çok var olan kadar nedir fiyatları",
}


class Languages(NamedTuple):
    """How many texts are in which script, and how many of those in Latin script in which language."""

    texts: int
    scripts: Counter[str]
    languages: Counter[str]  # only texts whose language was recognised


def count_languages(texts: Sequence[str]) -> Languages:
    """Count the scripts and languages of texts."""
    scripts, languages = Counter[str](), Counter[str]()
    for text in texts:
        name = script(text)
        scripts[name] += 1
        known = language(text) if name == "Latin" else None
        if known:
            languages[known] += 1
    return Languages(len(texts), scripts, languages)


def script(text: str) -> str:
    """Return the script of most letters of a text, the first one in a tie."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else NO_LETTERS
    counts = Counter(filter(None, map(_script_of, text)))
    return counts.most_common(1)[0][0] if counts else NO_LETTERS


def language(text: str) -> str | None:
    """Return the language with the most function words in a text; None if there is none, or a tie."""
    votes = Counter(name for word in tokenise(text) for name in _by_word().get(word, ()))
    best = votes.most_common(2)
    return best[0][0] if best and (len(best) == 1 or best[0][1] > best[1][1]) else None


@cache
def _script_of(char: str) -> str | None:
    if not char.isalpha():
        return None
    first = unicodedata.name(char, "").replace("FULLWIDTH ", "").replace("HALFWIDTH ", "").partition(" ")[0]
    return _SCRIPTS.get(first, first.capitalize()) or None


@cache
def _by_word() -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for name, words in _FUNCTION_WORDS.items():
        for word in words.split():
            names[word] = (*names.get(word, ()), name)
    return names


def shares(counts: Counter[str], total: int | None = None) -> Iterable[tuple[str, float]]:
    """Yield each name with its share, largest first."""
    whole = total or sum(counts.values())
    return ((name, count / whole) for name, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
