"""Keywords, as section V-A.2 and supplement IV of the paper define them: the words at which the active cells change.

A cell detects a word if its output changes there by at least an equal share of its final activation, which is what each
of the T words would give if all gave the same:

    |y_k(t) - y_k(t-1)| >= THRESHOLD · |y_k(T)| / T,    THRESHOLD = 1

If outputs are pooled, the change is what pooling keeps of it (`Direction.gains`). The paper asks for "a large enough
change" without a number; docs/inside.md tells how this one was chosen.

The ten most active cells of the final vector vote, separately in each direction. The output starts at zero, so the word
read first always changes it, and that direction has no say on this word. A word is a keyword if at least 4 of the 10
cells detect it in every direction that has a say. So the first word of a text is decided by reading from right to left,
the last one by reading from left to right, and a model that reads in one direction has no verdict on the first word.

The paper's own tables break this rule twice, both in the bath tub title: "how" (5 cells from right to left, the only
direction that has a say) and "should you ..." (4 cells from left to right, a keyword elsewhere) are not red.
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


class Rule(NamedTuple):
    """What makes a word a keyword."""

    active: int = ACTIVE  # how many of the most active cells vote
    threshold: float = THRESHOLD  # how much a cell must change at a word to detect it, in equal shares
    share: float = SHARE  # share of the voting cells that must detect the word


RULE = Rule()


@dataclass(frozen=True)
class Keywords:
    """How many of the active cells detect each word of a text, and which words are keywords."""

    words: tuple[str, ...]
    active: int  # cells that vote in each direction
    counts: dict[str, tuple[int | None, ...]]  # by direction; None for the word read first
    cells: dict[str, tuple[tuple[int, ...], ...]]  # by direction, the cells that detect each word
    verdicts: tuple[bool | None, ...]  # None if no direction has a say
    needed: int = math.ceil(SHARE * ACTIVE)  # how many of the active cells make a keyword


def keywords(encoder: Encoder, text: str, side: str = "query", rule: Rule = RULE) -> Keywords:
    """Return the keywords of a text, as the tower of `side` reads it."""
    return keywords_of(read(encoder, side, text), rule)


def keywords_of(reading: Reading, rule: Rule = RULE) -> Keywords:
    """Return the keywords of a text that has been read."""
    active, threshold, share = rule
    if active < 1 or not threshold > 0 or not 0 < share <= 1:
        raise ClickvecError(
            f"active must be at least 1, threshold above 0, and share above 0 and at most 1, "
            f"not {active}, {threshold} and {share}"
        )
    counts: dict[str, tuple[int | None, ...]] = {}
    cells: dict[str, tuple[tuple[int, ...], ...]] = {}
    for way in reading.directions:
        voters = most_active(way.embedding, active)
        hits = detections(way.gains, way.embedding, len(way.gains), threshold)[:, voters]
        hits[way.first] = False
        cells[way.name] = tuple(tuple(voters[row].tolist()) for row in hits)
        counts[way.name] = tuple(None if at == way.first else int(row.sum()) for at, row in enumerate(hits))
    voting = min([active, *(len(way.embedding) for way in reading.directions)])
    return Keywords(reading.words, voting, counts, cells, verdicts(counts, voting, share), votes_needed(voting, share))


def most_active(embedding: Floats, count: int) -> NDArray[np.int64]:
    """Return the cells of the greatest magnitude in each row, greatest first."""
    return np.argsort(-np.abs(embedding), kind="stable")[..., :count]


def detections(changes: Floats, embedding: Floats, words: int, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
    """Return whether each cell detects each word of a text of `words` words. A cell that ends at zero detects none."""
    size = np.abs(embedding)
    return np.asarray((words * np.abs(changes) >= threshold * size) & (size > 0))


def votes_needed(active: int, share: float) -> int:
    """Return how many of the active cells are at least this share of them."""
    return max(1, math.ceil(share * active - 1e-9))  # rounding must not make 0.4 * 10 more than 4


def verdicts(
    counts: Mapping[str, Sequence[int | None]], active: int = ACTIVE, share: float = SHARE
) -> tuple[bool | None, ...]:
    """Return whether each word is a keyword in every direction that has a say, or None if none has."""
    enough = votes_needed(active, share)
    by_word = ([count for count in row if count is not None] for row in zip(*counts.values(), strict=True))
    return tuple(all(count >= enough for count in votes) if votes else None for votes in by_word)
