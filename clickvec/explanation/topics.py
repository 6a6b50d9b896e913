"""Topics of cells, as section V-A.3 of the paper finds them: the words that each cell detects over a set of texts.

In every text the five most active cells are asked which words they detect, by the rule of keywords.py. The words that a
cell detects, with their counts, are its topic. A cell ends a text above or below zero, and two texts are similar if
their cells agree in sign, so each sign of a cell is a topic of its own. (On the built-in log, signed cells separate the
known topics better than cells; docs/inside.md has the numbers.)

| measure     | of             | meaning                                                                            |
|-------------|----------------|------------------------------------------------------------------------------------|
| lift        | word in a cell | its share of the cell's detections, divided by its share of all detections         |
| weight      | word in a cell | count · log lift, which orders the words; low if common everywhere or detected once |
| specificity | cell           | 1 - H / H_max: 0 if no word is detected twice, 1 if it is always the same word     |
| group       | signed cells   | cells whose positive weights have a mean cosine of at least SAME_WORDS             |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.explanation.keywords import THRESHOLD, Rule, keywords_of, most_active
from clickvec.explanation.reading import Floats, cell_names, read_many
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress

ACTIVE = 5  # section V-A.3
WORDS = 10  # kept of each topic
SAME_WORDS = 0.4  # about the highest of a thousand cosines between signed cells of a model of the built-in log
ENOUGH = 20  # detections of a signed cell that can be in a group
HARDLY = 0.1  # a cell is dead if its spread is below this share of the largest spread
SIGNS = ("+", "-")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Detections:
    """All detections in a set of texts, sorted by text, dimension of the vector and position, and the activations.

    One detection is (text, cell, word): the cell is among the most active of its direction at the end of the text, the
    word is not the one read first, and the cell's output changes at the word by at least `threshold` equal shares.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]  # distinct detected words
    cells: tuple[tuple[int, str], ...]  # number and direction of the cell behind each dimension

    # One entry per detection.
    text: Ints  # index into `texts`
    dimension: Ints
    word: Ints  # index into `words`
    positive: Bools  # whether the cell ends the text above zero

    activations: Floats  # (texts, dimensions): the cells at the end of each text; zero if the text has no vector
    times_active: Ints  # for each dimension, the number of texts in which the cell is among the most active

    side: str
    active: int
    threshold: float


@dataclass(frozen=True)
class TopicWord:
    """A word that a cell detects."""

    word: str
    count: int
    lift: float


@dataclass(frozen=True)
class Topic:
    """The words that a cell detects in texts that it ends above zero (+), or below (-)."""

    dimension: int  # of the vector
    cell: int
    way: str
    sign: str
    detections: int
    words: tuple[TopicWord, ...]  # largest weight first
    specificity: float
    group: int | None  # number of the group that it is in

    @property
    def worth(self) -> tuple[bool, float]:
        """The sort key, the most specific last. The specificity of few detections says little."""
        enough = self.detections >= ENOUGH
        return enough, self.specificity if enough else self.detections


@dataclass(frozen=True)
class Topics:
    """The topics of all cells of a tower over a set of texts."""

    side: str
    texts: int
    detections: int
    active: int
    threshold: float
    topics: tuple[Topic, ...]  # two for each dimension
    groups: tuple[tuple[str, ...], ...]  # words of each group of topics with the same words, largest group first
    dead: tuple[int, ...]  # dimensions that are never among the most active, or hardly vary


def random_sample(items: Sequence[Item], most: int, seed: int = 0) -> list[Item]:
    """Return all items or, if there are more than `most`, a random sample of that size in the original order."""
    if len(items) <= most:
        return list(items)
    chosen = np.random.default_rng(seed).choice(len(items), most, replace=False)
    return [items[at] for at in np.sort(chosen).tolist()]


def detect(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    side: str = "query",
    active: int = ACTIVE,
    threshold: float = THRESHOLD,
    progress: Progress | None = None,
) -> Detections:
    """Return what the most active cells of the tower of `side` detect in each text."""
    rule, ids = Rule(active, threshold), dict[str, int]()
    rows: list[tuple[int, int, int]] = []
    activations = np.zeros((len(texts), encoder.dimensions))
    times_active = np.zeros(encoder.dimensions, np.int64)
    for at, reading in enumerate(read_many(encoder, side, texts, progress)):
        keywords, found, first = keywords_of(reading, rule), list[tuple[int, int]](), 0
        for way in reading.directions:
            activations[at, first : first + len(way.embedding)] = way.embedding
            most = most_active(way.embedding, active)
            times_active[first + most] += way.embedding[most] != 0
            found += [(first + cell, p) for p, cells in enumerate(keywords.cells[way.name]) for cell in cells]
            first += len(way.embedding)
        words = keywords.words
        rows += [(at, dimension, ids.setdefault(words[p], len(ids))) for dimension, p in sorted(found)]
    text, dimension, word = np.array(rows, np.int64).reshape(-1, 3).T
    return Detections(
        tuple(texts), tuple(ids), tuple(cell_names(encoder)), text, dimension, word, activations[text, dimension] > 0,
        activations, times_active, side, active, threshold,
    )  # fmt: skip


def topics(detections: Detections, words: int = WORDS) -> Topics:
    """Return the topics of all cells, each with at most so many words. Raise ClickvecError if no text has a vector."""
    activations = detections.activations[detections.activations.any(axis=1)]
    if not len(activations):
        raise ClickvecError(
            f"none of the {len(detections.texts):,} texts has a letter trigram that the model knows; give others"
        )
    counts = np.zeros((2 * len(detections.cells), len(detections.words)), np.int64)  # (signed cells, words)
    np.add.at(counts, (2 * detections.dimension + ~detections.positive, detections.word), 1)
    shares = counts.sum(axis=0) / max(counts.sum(), 1)
    lift = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) / shares
    weights = np.asarray(counts * np.log(np.where(counts, lift, 1)), np.float64)
    groups = _groups(counts, weights)
    group_of = {row: number for number, members in enumerate(groups) for row in members}
    every = []
    for row in range(len(counts)):
        present = np.flatnonzero(counts[row])
        heaviest = present[np.argsort(-weights[row, present], kind="stable")][:words].tolist()
        every.append(
            Topic(
                row // 2, *detections.cells[row // 2], SIGNS[row % 2], int(counts[row].sum()),
                tuple(TopicWord(detections.words[at], int(counts[row, at]), float(lift[row, at])) for at in heaviest),
                _specificity(counts[row, present], len(detections.words)), group_of.get(row),
            )
        )  # fmt: skip
    spread = activations.std(axis=0)
    return Topics(
        detections.side, len(detections.texts), len(detections.text), detections.active, detections.threshold,
        tuple(every),
        tuple(_words_of_group(weights[members], detections.words) for members in groups),
        tuple(np.flatnonzero((detections.times_active == 0) | (spread < HARDLY * spread.max())).tolist()),
    )  # fmt: skip


def _specificity(counts: Ints, words: int) -> float:
    """Return 1 - H / H_max. The entropy of n detections of `words` distinct words is at most log min(n, words)."""
    n = int(counts.sum())
    if min(n, words) < 2:  # a single detection shows nothing
        return 0.0
    shares = counts / n
    return max(0.0, float(1 + (shares * np.log(shares)).sum() / np.log(min(n, words))))


def _words_of_group(weights: Floats, words: Sequence[str]) -> tuple[str, ...]:
    heaviest = np.argsort(-np.maximum(weights, 0).sum(axis=0), kind="stable")[:WORDS]
    return tuple(words[at] for at in heaviest.tolist())


def _groups(counts: Ints, weights: Floats) -> list[list[int]]:
    """Return the groups of signed cells that detect the same words, largest first."""
    helpful = np.maximum(weights, 0)
    enough = np.flatnonzero((counts.sum(axis=1) >= ENOUGH) & helpful.any(axis=1))
    unit = helpful[enough] / np.linalg.norm(helpful[enough], axis=1, keepdims=True)
    groups = [enough[members].tolist() for members in agglomerate(unit @ unit.T, SAME_WORDS)]
    return sorted(groups, key=lambda members: (-len(members), members[0]))


def agglomerate(similarities: Floats, least: float) -> list[list[int]]:
    """Merge the two most similar groups while their mean similarity is at least `least`. Return those of two or more.

    The mean over all pairs counts; with the maximum, chains of single pairs would merge everything in the end.
    """
    total = similarities.copy()  # over the pairs between two groups
    groups = {at: [at] for at in range(len(total))}
    sizes = np.ones(len(total))
    merged = np.eye(len(total), dtype=np.bool_)
    while len(groups) > 1:
        mean = np.where(merged, -np.inf, total / np.outer(sizes, sizes))
        kept, absorbed = sorted(map(int, np.unravel_index(mean.argmax(), mean.shape)))
        if mean[kept, absorbed] < least:
            break
        groups[kept] += groups.pop(absorbed)
        total[kept] += total[absorbed]
        total[:, kept] += total[:, absorbed]
        sizes[kept] += sizes[absorbed]
        merged[absorbed] = merged[:, absorbed] = True
    return [sorted(members) for members in groups.values() if len(members) > 1]
