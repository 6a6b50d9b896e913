"""Topics of cells, as section V-A.3 of the paper finds them: the words that each cell detects over a set of texts.

In every text the five most active cells are asked which words they detect (detections.py). The words that a cell
detects, with their counts, are its topic. A cell ends a text above or below zero, and two texts are similar if their
cells agree in sign, so each sign of a cell is a topic of its own. (On the built-in log, signed cells separate the known
topics better than cells; docs/inside.md has the numbers.)

| measure     | of             | meaning                                                                            |
|-------------|----------------|------------------------------------------------------------------------------------|
| lift        | word in a cell | its share of the cell's detections, divided by its share of all detections         |
| weight      | word in a cell | count · log lift, which orders the words; low if common everywhere or detected once |
| specificity | cell           | 1 - H / H_max: 0 if no word is detected twice, 1 if it is always the same word     |
| group       | signed cells   | cells whose positive weights have a mean cosine of at least SAME_WORDS             |
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.explanation.detections import Detections, Ints
from clickvec.explanation.reading import Floats

SAME_WORDS = 0.4  # about the highest of a thousand cosines between signed cells of a model of the built-in log
ENOUGH = 20  # detections of a signed cell that can be in a group
HARDLY = 0.1  # a cell is dead if its spread is below this share of the largest spread
GROUP_WORDS = 10
SIGNS = ("+", "-")


@dataclass(frozen=True)
class TopicWord:
    """A word that a cell detects."""

    word: str
    count: int
    lift: float


@dataclass(frozen=True)
class Topic:
    """The words that a cell detects, with one of its signs or with both."""

    detections: int
    words: tuple[TopicWord, ...]  # largest weight first
    specificity: float

    @property
    def worth(self) -> tuple[bool, float]:
        """The sort key of signed cells, the most specific last. The specificity of few detections says little."""
        enough = self.detections >= ENOUGH
        return enough, self.specificity if enough else self.detections


@dataclass(frozen=True)
class CellTopics:
    """The topics of one cell, and how active it is."""

    dimension: int  # of the vector
    cell: int
    way: str
    active: int  # texts in which it is among the most active cells
    activation: float  # mean magnitude at the end of a text
    spread: float  # standard deviation of its value there
    dead: str | None  # why it counts as dead
    both: Topic
    signs: dict[str, Topic]  # "+" and "-"


@dataclass(frozen=True)
class SignedCell:
    """A cell together with one of its signs."""

    dimension: int
    sign: str


@dataclass(frozen=True)
class Group:
    """Signed cells that detect the same words, and the words of the largest total weight."""

    members: tuple[SignedCell, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Topics:
    """The topics of all cells of a tower over a set of texts."""

    side: str
    texts: int
    detections: int
    active: int
    threshold: float
    cells: tuple[CellTopics, ...]
    groups: tuple[Group, ...]  # largest first

    @property
    def dead(self) -> tuple[CellTopics, ...]:
        """The cells that do nothing on these texts."""
        return tuple(cell for cell in self.cells if cell.dead)

    @property
    def group_of(self) -> dict[SignedCell, int]:
        """The number of the group of each signed cell that is in one."""
        return {member: number for number, group in enumerate(self.groups) for member in group.members}

    def top(self, words: int) -> "Topics":
        """Return the topics with at most this many words each."""

        def cut(topic: Topic) -> Topic:
            return dataclasses.replace(topic, words=topic.words[:words])

        cells = (
            dataclasses.replace(cell, both=cut(cell.both), signs={sign: cut(cell.signs[sign]) for sign in SIGNS})
            for cell in self.cells
        )
        return dataclasses.replace(self, cells=tuple(cells))


def topics(detections: Detections) -> Topics:
    """Return the topics of all cells. Raise ClickvecError if no text has a vector."""
    activations = detections.activations[detections.activations.any(axis=1)]  # of the texts that have a vector
    if not len(activations):
        raise ClickvecError(
            f"none of the {len(detections.texts):,} texts has a letter trigram that the model knows; give others"
        )
    counts = _counts(detections)
    lift = _lift(counts)
    total = counts.sum(axis=1)
    total_lift = _lift(total)
    times, magnitudes = detections.chosen.sum(axis=0).tolist(), np.abs(activations).mean(axis=0).tolist()
    spreads = activations.std(axis=0).tolist()
    words = detections.words
    cells = tuple(
        CellTopics(
            dimension, cell, way, times[dimension], magnitudes[dimension], spreads[dimension],
            _why_dead(detections.active, times[dimension], spreads[dimension], max(spreads)),
            _topic(total[dimension], total_lift[dimension], words),
            {sign: _topic(counts[dimension, at], lift[dimension, at], words) for at, sign in enumerate(SIGNS)},
        )
        for dimension, (cell, way) in enumerate(detections.cells)
    )  # fmt: skip
    return Topics(
        detections.side, len(detections.texts), len(detections), detections.active, detections.threshold, cells,
        _groups(counts, lift, words),
    )  # fmt: skip


def _counts(detections: Detections) -> Ints:
    """Return (dimensions, signs, words): how often each cell detects each word, above zero and below."""
    shape = len(detections.cells), len(SIGNS), len(detections.words)
    counts = np.zeros(shape, np.int64)
    np.add.at(counts, (detections.dimension, 1 - detections.positive, detections.word), 1)
    return counts


def _lift(counts: Ints) -> Floats:
    """Return the share of each word in its row divided by its share in all rows; 0 if the row does not hold it."""
    shares = counts.sum(axis=tuple(range(counts.ndim - 1))) / max(counts.sum(), 1)
    return np.asarray(counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1) / shares, np.float64)


def _weights(counts: Ints, lift: Floats) -> Floats:
    return np.asarray(counts * np.log(np.where(counts, lift, 1)), np.float64)


def _topic(counts: Ints, lift: Floats, words: tuple[str, ...]) -> Topic:
    present = np.flatnonzero(counts)
    heaviest = present[np.argsort(-_weights(counts[present], lift[present]), kind="stable")]
    return Topic(
        int(counts.sum()),
        tuple(TopicWord(words[at], int(counts[at]), float(lift[at])) for at in heaviest.tolist()),
        _specificity(counts[present], len(words)),
    )


def _specificity(counts: Ints, words: int) -> float:
    """Return 1 - H / H_max. The entropy of n detections of `words` distinct words is at most log min(n, words)."""
    n = int(counts.sum())
    if min(n, words) < 2:  # a single detection shows nothing
        return 0.0
    shares = counts / n
    return max(0.0, float(1 + (shares * np.log(shares)).sum() / np.log(min(n, words))))


def _why_dead(active: int, times: int, spread: float, largest: float) -> str | None:
    if not times:
        return f"never among the {active} most active"
    return "its activation hardly varies" if spread < HARDLY * largest else None


def _groups(counts: Ints, lift: Floats, words: tuple[str, ...]) -> tuple[Group, ...]:
    """Return the groups of signed cells that detect the same words."""
    weights = np.concatenate(np.maximum(_weights(counts, lift), 0))  # (signed cells, words)
    enough = np.flatnonzero((counts.sum(axis=-1).ravel() >= ENOUGH) & weights.any(axis=1))
    rows = weights[enough]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    groups = [enough[members] for members in agglomerate(unit @ unit.T, SAME_WORDS)]
    return tuple(
        Group(
            tuple(SignedCell(int(row) // len(SIGNS), SIGNS[row % len(SIGNS)]) for row in members),
            tuple(words[at] for at in np.argsort(-weights[members].sum(axis=0), kind="stable")[:GROUP_WORDS].tolist()),
        )
        for members in sorted(groups, key=lambda members: (-len(members), members[0]))
    )


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
