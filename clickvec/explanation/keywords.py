"""Keywords, as sections V-A.2 and supplement IV of the paper find them: the words at which the active cells change.

A cell detects a word when its output changes there by more than its share: by at least the part of its activation at
the end that each of the T words would have if all of them gave the same.

    |y_k(t) - y_k(t-1)| >= THRESHOLD · |y_k(T)| / T,    THRESHOLD = 1

Where outputs are pooled, the change is what pooling keeps of it (`Reading.gains`).
The paper says "a large enough change" and gives no number; docs/inside.md tells how this one was chosen. The ten most
active cells of the final vector vote, in each direction its own ten. The output starts at zero, so the word that is
read first always changes it: that direction has nothing to say of it. A word is a keyword when at least 4 of the 10
cells detect it in each direction that can speak: so the first word of a text is judged from right to left alone, the
last one from left to right alone, and a model that reads one way has no verdict on the first word.

The paper's own tables break this rule twice, both in the bath tub title: "how" (5 cells from right to left, the only
direction that can speak) and "should you ..." (4 cells from left to right, which is a keyword elsewhere) are not red.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.explanation.reading import Floats, Reading, read
from clickvec.model.encoder import Encoder

ACTIVE = 10
THRESHOLD = 1.0
SHARE = 0.4

Counts = Mapping[str, Sequence[int | None]]


class Rule(NamedTuple):
    """What makes a keyword: how many cells vote, what a detection takes, and which share of the votes."""

    active: int = ACTIVE
    threshold: float = THRESHOLD
    share: float = SHARE


RULE = Rule()


@dataclass(frozen=True)
class Keywords:
    """How many of the active cells detect each word, and what follows."""

    words: tuple[str, ...]
    active: int  # cells that vote in each direction
    counts: dict[str, tuple[int | None, ...]]  # by direction; None for the word that is read first
    cells: dict[str, tuple[tuple[int, ...], ...]]  # by direction, for each word the cells that detect it
    verdicts: tuple[bool | None, ...]  # None where no direction can speak
    needed: int = math.ceil(SHARE * ACTIVE)  # so many of the active cells make a keyword

    @property
    def found(self) -> tuple[str, ...]:
        """The keywords."""
        return tuple(word for word, verdict in zip(self.words, self.verdicts, strict=True) if verdict)


def keywords(
    encoder: Encoder,
    text: str,
    side: str = "query",
    *,
    active: int = ACTIVE,
    threshold: float = THRESHOLD,
    share: float = SHARE,
) -> Keywords:
    """The keywords of a text, as the tower of `side` finds them."""
    return keywords_of(read(encoder, side, text), active=active, threshold=threshold, share=share)


def keywords_of(
    reading: Reading, *, active: int = ACTIVE, threshold: float = THRESHOLD, share: float = SHARE
) -> Keywords:
    """The keywords of a text that has been read."""
    if active < 1 or not threshold > 0 or not 0 < share <= 1:
        raise ClickvecError(
            f"active is at least 1, threshold above 0 and share above 0 and at most 1, "
            f"not {active}, {threshold} and {share}"
        )
    counts: dict[str, tuple[int | None, ...]] = {}
    cells: dict[str, tuple[tuple[int, ...], ...]] = {}
    for way, changes, embedding in zip(reading.ways, reading.gains, reading.embeddings, strict=True):
        chosen = most_active(embedding, active)
        hits = detections(changes, embedding, len(changes), threshold)[:, chosen]
        hits[way.first] = False
        cells[way.name] = tuple(tuple(chosen[row].tolist()) for row in hits)
        counts[way.name] = tuple(
            None if place == way.first else int(row.sum()) for place, row in enumerate(hits)
        )  # fmt: skip
    voters = min(active, len(reading.embeddings[0])) if reading.ways else active
    found = verdicts(counts, voters, share, len(reading.words))
    return Keywords(reading.words, voters, counts, cells, found, votes_needed(voters, share))


def most_active(embedding: Floats, count: int) -> NDArray[np.int64]:
    """The cells of the greatest magnitude, the greatest first; of each row, where there are several."""
    return np.argsort(-np.abs(embedding), kind="stable")[..., :count]


def detections(
    changes: Floats, embedding: Floats, words: int | NDArray[np.int64], threshold: float = THRESHOLD
) -> NDArray[np.bool_]:
    """Whether a cell's output changes enough at a word, in a text of so many words. No cell that ends at zero does."""
    size = np.abs(embedding)
    return np.asarray((words * np.abs(changes) >= threshold * size) & (size > 0))


def votes_needed(active: int, share: float) -> int:
    """How many of the active cells are at least this share of them."""
    return max(1, math.ceil(share * active - 1e-9))  # 0.4 * 10 must not be a little more than 4


def verdicts(
    counts: Counts, active: int = ACTIVE, share: float = SHARE, words: int | None = None
) -> tuple[bool | None, ...]:
    """Whether each word is a keyword: by all directions that can speak of it, or None where none can."""
    enough = votes_needed(active, share)
    length = words if words is not None else len(next(iter(counts.values()), ()))
    found: list[bool | None] = []
    for place in range(length):
        said = [count for row in counts.values() if (count := row[place]) is not None]
        found.append(all(count >= enough for count in said) if said else None)
    return tuple(found)
