"""Contiguous prose for Skip-Thought: split plain text into sentences, in order. An empty sentence marks a break.

The rules are simple on purpose. A blank line ends a paragraph. Two or more blank lines (a chapter, another file) break
contiguity; with `paragraphs_break`, every paragraph does. A sentence ends at . ! ? or … with closing quotes and
brackets, if white space and a capital, a digit or an opening quote follow, but not after an initial ("J. Austen") or
one of the abbreviations below.
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

BREAK = ""  # marks that the next sentence does not continue the previous one

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
    """Return the sentences of a paragraph, with single spaces."""
    text = " ".join(paragraph.split())
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if text[end.start()] == "." and _is_abbreviation(text[start : end.start()]):
            continue
        sentences.append(text[start : end.end()].rstrip())
        start = end.end()
    return [*sentences, text[start:]] if text[start:] else sentences


def _is_abbreviation(before: str) -> bool:
    match = _LAST_WORD.search(before)
    word = match[0] if match else ""
    return _ABBREVIATIONS.fullmatch(word.lower()) is not None or (len(word) == 1 and word.isupper() and word != "I")


def split_prose(text: str, *, paragraphs_break: bool = False) -> list[str]:
    """Return the sentences of a text, with a BREAK at two or more blank lines, or after every paragraph."""
    sentences: list[str] = []
    for chapter in _BREAK.split(text):
        for paragraph in _PARAGRAPH_END.split(chapter):
            sentences += split_sentences(paragraph)
            if paragraphs_break:
                sentences.append(BREAK)
        sentences.append(BREAK)
    return _tidy(sentences)


def _tidy(sentences: Iterable[str]) -> list[str]:
    """Remove repeated BREAKs and those at either end."""
    kept: list[str] = []
    for sentence in sentences:
        if sentence or (kept and kept[-1]):
            kept.append(sentence)
    return kept[:-1] if kept and not kept[-1] else kept


def read_prose(paths: Iterable[str | Path], *, paragraphs_break: bool = False) -> list[str]:
    """Return the sentences of plain text files, with a BREAK between files."""
    sentences: list[str] = []
    for path in map(Path, paths):
        sentences += [*split_prose(_read(path), paragraphs_break=paragraphs_break), BREAK]
    kept = _tidy(sentences)
    if not kept:
        raise ClickvecError("the prose contains no sentence; give plain text files of contiguous English")
    return kept


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ClickvecError(f"{path} is not UTF-8 text; give plain text files") from None
    except OSError as error:
        raise ClickvecError(f"the prose {path} cannot be read: {error.strerror}; give a plain text file") from None


def builtin_prose() -> list[str]:
    """Return the Python language reference, which comes with Python: small, but contiguous English."""
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
    """Sentences as word ids, each ending in <eos>, and the positions of those with two neighbours."""

    words: tuple[str, ...]
    sentences: Ragged
    middles: NDArray[np.int64]
    frequency: NDArray[np.float64]  # of each word

    @classmethod
    def read(cls, sentences: Sequence[str], limit: int, max_words: int) -> "Corpus":
        """Keep the most frequent words (`limit`, including <eos> and UNK) and the sentences to learn from.

        Those are the sentences that have, like both their neighbours, at most `max_words` words, including <eos>.
        """
        split = [split_words(sentence) for sentence in sentences]
        counts = Counter(word for words in split for word in words)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = (EOS, UNKNOWN, *ranked[: limit - 2])
        ids = {word: number for number, word in enumerate(words)}
        rows = ragged([ids.get(word, ids[UNKNOWN]) for word in words] + [ids[EOS]] * bool(words) for words in split)
        usable = (rows.lengths > 0) & (rows.lengths <= max_words)
        middles = 1 + np.flatnonzero(usable[:-2] & usable[1:-1] & usable[2:])
        if not len(middles):
            raise ClickvecError(
                f"none of the {len(sentences):,} sentences of the prose has two neighbours with fewer than {max_words} "
                f"words; give contiguous prose"
            )
        return cls(words, rows, middles, np.bincount(rows.values, minlength=len(words)) / len(rows.values))

    def batches(self, size: int, seed: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
        """Yield the middles in minibatches of similar length, in an order that depends on the seed."""
        rng = np.random.default_rng(seed)
        shuffled = rng.permutation(self.middles)
        batches: list[NDArray[np.int64]] = []
        for first in range(0, len(shuffled), _POOL * size):
            pool = shuffled[first : first + _POOL * size]
            pool = pool[np.argsort(self.sentences.lengths[pool], kind="stable")]
            batches += [pool[start : start + size] for start in range(0, len(pool), size)]
        return (batches[number] for number in rng.permutation(len(batches)))
