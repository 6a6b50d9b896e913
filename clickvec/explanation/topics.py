"""Topics of cells, as section V-A.3 of the paper finds them: the words that each cell detects over a set of texts.

In every text the five most active cells are asked which words they detect (`detections.py`); a cell's words, with how
often it detects them, are its topic. A cell ends a text above or below zero, and two texts are alike when their cells
agree in sign: the two signs of a cell are two topics, and are kept apart here. (On the built-in log they tell topics
apart better than cells do; docs/inside.md has the numbers.)

| measure     | of                 | meaning                                                                          |
|-------------|--------------------|----------------------------------------------------------------------------------|
| lift        | a word in a cell   | its share of the cell's detections, divided by its share of all detections       |
| weight      | a word in a cell   | count · log lift: what orders the words. Common everywhere, or met once: light   |
| specificity | a cell             | 1 - H / H_max: 0 when no word comes twice, 1 when it is one word, again and again |
| group       | signed cells       | cells whose weights (those above 0) have a cosine of SAME_WORDS on average       |
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.explanation.detections import ACTIVE, Detections, Ints, detect
from clickvec.explanation.keywords import THRESHOLD
from clickvec.explanation.reading import Floats
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress

SAME_WORDS = 0.4  # about the highest cosine in a thousand pairs of signed cells of a model of the built-in log
ENOUGH = 20  # detections: a signed cell with fewer is in no group
HARDLY = 0.1  # of the spread of the liveliest cell: one that varies less is dead
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
    """What a cell detects, whatever its sign at the end of the text, or with one of the two."""

    detections: int
    words: tuple[TopicWord, ...]  # the heaviest first
    specificity: float


@dataclass(frozen=True)
class CellTopics:
    """One cell: its words, and how alive it is."""

    dimension: int  # its place in the vector
    cell: int
    way: str
    active: int  # texts in which it is among the most active
    activation: float  # the mean of its magnitude at the end of a text
    spread: float  # the standard deviation of its value there
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
    """Signed cells that detect the same words, and the heaviest words of all of them together."""

    members: tuple[SignedCell, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Topics:
    """What every cell of a tower answers to, over a set of texts."""

    side: str
    texts: int
    detections: int
    active: int
    threshold: float
    cells: tuple[CellTopics, ...]
    groups: tuple[Group, ...]  # the largest first

    @property
    def dead(self) -> tuple[CellTopics, ...]:
        """The cells that do nothing on these texts."""
        return tuple(cell for cell in self.cells if cell.dead)

    @property
    def group_of(self) -> dict[SignedCell, int]:
        """The number of the group of each signed cell that is in one."""
        return {member: number for number, group in enumerate(self.groups) for member in group.members}

    def top(self, words: int) -> "Topics":
        """The same with at most so many words a topic."""

        def cut(topic: Topic) -> Topic:
            return dataclasses.replace(topic, words=topic.words[:words])

        cells = (
            dataclasses.replace(cell, both=cut(cell.both), signs={sign: cut(cell.signs[sign]) for sign in SIGNS})
            for cell in self.cells
        )
        return dataclasses.replace(self, cells=tuple(cells))

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class QueryTable:
    """Query by cell, as the paper prints it: in each entry the words of the query that the cell detects."""

    queries: tuple[str, ...]
    cells: tuple[tuple[int, str], ...]  # number and direction, a column each
    rows: tuple[dict[int, tuple[str, ...]], ...]  # for each query, by column: those that are not empty


def topics(
    encoder: Encoder,
    queries: Sequence[str],
    *,
    side: str = "query",
    active: int = ACTIVE,
    threshold: float = THRESHOLD,
    progress: Progress | None = None,
) -> Topics:
    """The topics of the cells of the tower of `side`, from texts that it reads."""
    return topics_of(detect(encoder, queries, side=side, active=active, threshold=threshold, progress=progress))


def query_table(
    encoder: Encoder,
    queries: Sequence[str],
    *,
    side: str = "query",
    active: int = ACTIVE,
    threshold: float = THRESHOLD,
) -> QueryTable:
    """The table query by cell."""
    return query_table_of(detect(encoder, queries, side=side, active=active, threshold=threshold))


def query_table_of(found: Detections) -> QueryTable:
    """The table of detections that are there already; a word that comes twice in an entry is given once."""
    rows: list[dict[int, dict[str, None]]] = [{} for _ in found.texts]
    for text, dimension, word in zip(found.text.tolist(), found.dimension.tolist(), found.word.tolist(), strict=True):
        rows[text].setdefault(dimension, {})[found.words[word]] = None
    return QueryTable(
        found.texts, found.cells, tuple({column: tuple(words) for column, words in row.items()} for row in rows)
    )


def topics_of(found: Detections) -> Topics:
    """The topics that follow from detections."""
    counts = _counts(found)
    lift = _lift(counts)
    in_all = counts.sum(axis=1)
    in_all_lift = _lift(in_all)
    activations = found.activations[found.activations.any(axis=1)]  # of the texts that have a vector
    if not len(activations):
        raise ClickvecError(
            f"none of the {len(found.texts):,} texts has a letter trigram that the model knows; give others"
        )
    times, magnitudes = found.chosen.sum(axis=0).tolist(), np.abs(activations).mean(axis=0).tolist()
    spreads = activations.std(axis=0).tolist()
    cells = tuple(
        CellTopics(
            dimension, cell, way, times[dimension], magnitudes[dimension], spreads[dimension],
            _why_dead(found.active, times[dimension], spreads[dimension], max(spreads)),
            _topic(in_all[dimension], in_all_lift[dimension], found.words),
            {sign: _topic(counts[dimension, k], lift[dimension, k], found.words) for k, sign in enumerate(SIGNS)},
        )
        for dimension, (cell, way) in enumerate(found.cells)
    )  # fmt: skip
    return Topics(
        found.side, len(found.texts), len(found), found.active, found.threshold, cells,
        _groups(counts, lift, found.words),
    )  # fmt: skip


def _counts(found: Detections) -> Ints:
    """(dimensions, signs, words): how often each cell detects each word, above zero and below."""
    shape = len(found.cells), len(SIGNS), len(found.words)
    place = np.ravel_multi_index((found.dimension, 1 - found.positive, found.word), shape) if len(found) else found.text
    return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)


def _lift(counts: Ints) -> Floats:
    """The share of a word in each row, divided by its share in all; 0 where the row does not have it."""
    shares = counts.sum(axis=tuple(range(counts.ndim - 1))) / max(counts.sum(), 1)
    return np.asarray(counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1) / shares, np.float64)


def _weights(counts: Ints, lift: Floats) -> Floats:
    return np.asarray(counts * np.log(np.where(counts, lift, 1)), np.float64)


def _topic(counts: Ints, lift: Floats, words: tuple[str, ...]) -> Topic:
    there = np.flatnonzero(counts)
    heaviest = there[np.argsort(-_weights(counts[there], lift[there]), kind="stable")]
    return Topic(
        int(counts.sum()),
        tuple(TopicWord(words[at], int(counts[at]), float(lift[at])) for at in heaviest.tolist()),
        _specificity(counts[there], len(words)),
    )


def _specificity(counts: Ints, words: int) -> float:
    """1 - H / H_max; n detections of `words` different words have at most the entropy log min(n, words)."""
    n = int(counts.sum())
    if min(n, words) < 2:  # one detection shows nothing
        return 0.0
    shares = counts / n
    return max(0.0, float(1 + (shares * np.log(shares)).sum() / np.log(min(n, words))))


def _why_dead(asked: int, times: int, spread: float, greatest: float) -> str | None:
    if not times:
        return f"never among the {asked} most active"
    return "its activation hardly varies" if spread < HARDLY * greatest else None


# --- groups ------------------------------------------------------------------------------------------------------


def _groups(counts: Ints, lift: Floats, words: tuple[str, ...]) -> tuple[Group, ...]:
    """Signed cells that detect the same words."""
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
    """Join the two nearest groups for as long as their members are `least` similar, on average; then those of two up.

    The average of all pairs, and not one bridge between two groups, or everything hangs together in the end.
    """
    total = similarities.copy()  # of the pairs between two groups
    groups = {place: [place] for place in range(len(total))}
    sizes = np.ones(len(total))
    gone = np.eye(len(total), dtype=np.bool_)
    while len(groups) > 1:
        mean = np.where(gone, -np.inf, total / np.outer(sizes, sizes))
        one, other = sorted(map(int, np.unravel_index(mean.argmax(), mean.shape)))
        if mean[one, other] < least:
            break
        groups[one] += groups.pop(other)
        total[one] += total[other]
        total[:, one] += total[:, other]
        sizes[one] += sizes[other]
        gone[other] = gone[:, other] = True
    return [sorted(members) for members in groups.values() if len(members) > 1]
