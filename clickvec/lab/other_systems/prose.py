"""Contiguous prose for Skip-Thought: plain text -> sentences in the order of the book. An empty one is a break.

Rules, simple on purpose. Lines are joined into paragraphs, which a blank line ends; two or more blank lines (a chapter,
another file) break contiguity, and so does every paragraph when asked. A sentence ends at . ! ? or … with its closing
quotes and brackets, where white space and a capital, a digit or an opening quote follow; not after an initial ("J.
Austen") or one of the abbreviations below.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.lab.other_systems.skipthought import EOS, UNKNOWN, split_words
from clickvec.text.ragged import Ragged, ragged

BREAK = ""  # stands where the next sentence does not follow the one before

_POOL = 64  # minibatches that are sorted by length together
_SENTENCE_END = re.compile(r"""[.!?…]+["'”’)\]]*\s+(?=["'“‘(\[]*[^\W_a-z])""")
_LAST_WORD = re.compile(r"[\w.]*$")
_ABBREVIATIONS = re.compile(
    "mr|mrs|ms|messrs|dr|st|prof|rev|hon|capt|col|gen|lt|sgt|esq|sir|jr|sr|vs|cf|ed|eds|no|nos|vol|vols|ch|chap|p|pp|"
    "fig|figs|sec|op|cit|ibid|viz|al|e[.]g|i[.]e|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec"
)
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n")
_BREAK = re.compile(r"\n[^\S\n]*\n[^\S\n]*\n")
_CODE = re.compile(r"::=|>>>|\*\*\*\*|====")  # or grammar, or a heading


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, white space made single."""
    text = " ".join(paragraph.split())
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if text[end.start()] == "." and _is_abbreviation(text[start : end.start()]):
            continue
        sentences.append(text[start : end.end()].rstrip())
        start = end.end()
    return [*sentences, text[start:]] if text[start:] else sentences


def _is_abbreviation(before: str) -> bool:
    found = _LAST_WORD.search(before)
    word = found[0] if found else ""
    return _ABBREVIATIONS.fullmatch(word.lower()) is not None or (len(word) == 1 and word.isupper() and word != "I")


def split_prose(text: str, *, paragraphs_break: bool = False) -> list[str]:
    """The sentences of a text in order, with a BREAK at two or more blank lines, or at each where asked."""
    sentences: list[str] = []
    for chapter in _BREAK.split(text):
        for paragraph in _PARAGRAPH_END.split(chapter):
            sentences += split_sentences(paragraph)
            if paragraphs_break:
                sentences.append(BREAK)
        sentences.append(BREAK)
    return _tidy(sentences)


def _tidy(sentences: Iterable[str]) -> list[str]:
    """One BREAK at a time, and none at either end."""
    kept: list[str] = []
    for sentence in sentences:
        if sentence or (kept and kept[-1]):
            kept.append(sentence)
    return kept[:-1] if kept and not kept[-1] else kept


def read_prose(paths: Iterable[str | Path], *, paragraphs_break: bool = False) -> list[str]:
    """The sentences of plain-text files, with a BREAK between one file and the next."""
    sentences: list[str] = []
    for path in map(Path, paths):
        sentences += [*split_prose(_read(path), paragraphs_break=paragraphs_break), BREAK]
    found = _tidy(sentences)
    if not found:
        raise ClickvecError("the prose holds no sentence; give plain text files of contiguous English")
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ClickvecError(f"{path} is not UTF-8 text; prose is given as plain text files") from None
    except OSError as error:
        raise ClickvecError(f"the prose {path} cannot be read: {error.strerror}; give a plain text file") from None


def builtin_prose() -> list[str]:
    """The reference of the Python language, which comes with every Python: small and dry, but contiguous English."""
    from pydoc_data.topics import topics

    return _tidy(
        sentence
        for topic in sorted(topics)
        for sentence in (*_topic_sentences(topics[topic].replace("\r\n", "\n")), BREAK)
    )


def _topic_sentences(topic: str) -> Iterator[str]:
    for paragraph in _PARAGRAPH_END.split(topic):
        text = paragraph.strip()
        if text[:1].isupper() and text.endswith((".", ":")) and not _CODE.search(text):
            yield from split_sentences(text.replace("*", "").replace('"', ""))


class Corpus(NamedTuple):
    """Sentences as word ids, each ended by <eos>, and which of them stand between two others."""

    words: tuple[str, ...]
    sentences: Ragged
    middles: NDArray[np.int64]
    frequency: NDArray[np.float64]  # of each word

    @classmethod
    def read(cls, sentences: Sequence[str], limit: int, max_words: int) -> "Corpus":
        """Keep the most frequent words, `limit` with <eos> and UNK, and the places of sentences to learn from.

        A sentence is one of those if it and both its neighbours have at most `max_words` words, <eos> counted.
        """
        split = [split_words(sentence) for sentence in sentences]
        counts = Counter(word for words in split for word in words)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = (EOS, UNKNOWN, *ranked[: limit - 2])
        ids = {word: place for place, word in enumerate(words)}
        found = ragged([ids.get(word, ids[UNKNOWN]) for word in words] + [ids[EOS]] * bool(words) for words in split)
        usable = (found.lengths > 0) & (found.lengths <= max_words)
        middles = 1 + np.flatnonzero(usable[:-2] & usable[1:-1] & usable[2:])
        if not len(middles):
            raise ClickvecError(
                f"of the {len(sentences):,} sentences of the prose none stands between two others, all of fewer than "
                f"{max_words} words; give contiguous prose"
            )
        return cls(words, found, middles, np.bincount(found.values, minlength=len(words)) / len(found.values))

    def batches(self, size: int, seed: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
        """The middles in minibatches, each of about equal lengths, in an order that the seed gives."""
        rng = np.random.default_rng(seed)
        shuffled = rng.permutation(self.middles)
        found: list[NDArray[np.int64]] = []
        for first in range(0, len(shuffled), _POOL * size):
            pool = shuffled[first : first + _POOL * size]
            pool = pool[np.argsort(self.sentences.lengths[pool], kind="stable")]
            found += [pool[at : at + size] for at in range(0, len(pool), size)]
        return (found[place] for place in rng.permutation(len(found)))
