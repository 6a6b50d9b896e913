"""What the most active cells detect over many texts: the rule of `keywords.py`, a batch of texts at a time.

One detection is (text, cell, word): the cell is among the most active of its direction at the end of the text, the word
is not the one that is read first, and the cell's output changes at it by more than an equal share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.explanation.keywords import THRESHOLD, detections, most_active
from clickvec.explanation.reading import Floats, cell_names, check_side, directions_of
from clickvec.model import forward
from clickvec.model.encoder import Encoder, Traces, in_batches
from clickvec.progress import Progress, track

ACTIVE = 5  # section V-A.3
BATCH = 1024

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Detections:
    """Every detection in a set of texts, by text, then dimension of the vector, then place; and the activations."""

    texts: tuple[str, ...]
    words: tuple[str, ...]  # the distinct ones that are detected
    cells: tuple[tuple[int, str], ...]  # the number and the direction of the cell behind each dimension

    # one entry a detection
    text: Ints  # its place in `texts`
    dimension: Ints
    place: Ints  # of the word in the text
    word: Ints  # its place in `words`
    positive: Bools  # whether the cell ends above zero

    activations: Floats  # (texts, dimensions): the cells at the end of each text; zero where the text has no vector
    chosen: Bools  # (texts, dimensions): whether the cell is among the most active

    side: str
    active: int
    threshold: float

    def __len__(self) -> int:
        """The number of detections."""
        return len(self.text)


def some_of(items: Sequence[Item], most: int, seed: int = 0) -> list[Item]:
    """At most so many, drawn by chance, the same ones every time, in their order."""
    if len(items) <= most:
        return list(items)
    chosen = np.random.default_rng(seed).choice(len(items), most, replace=False)
    return [items[place] for place in np.sort(chosen).tolist()]


def detect(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    side: str = "query",
    active: int = ACTIVE,
    threshold: float = THRESHOLD,
    progress: Progress | None = None,
) -> Detections:
    """What the most active cells detect in each text, as the tower of `side` reads it."""
    check_side(side)
    if active < 1 or not threshold > 0:
        raise ClickvecError(f"active is at least 1 and threshold above 0, not {active} and {threshold}")
    prefixes = tuple(directions_of(encoder).values())
    tokens: list[tuple[str, ...]] = []
    found: list[Ints] = [np.zeros((0, 3), np.int64)]
    ends: list[Floats] = [np.zeros((0, encoder.dimensions))]
    for batch in track(in_batches(texts, BATCH), "reading", len(texts), progress):
        traces = encoder.trace_queries(batch) if side == "query" else encoder.trace_documents(batch)
        in_batch = _in_batch(traces, prefixes, encoder.model.tower.pooling, active, threshold)
        found += [rows + np.array([len(tokens), 0, 0]) for rows in in_batch]
        tokens += traces.tokens
        ends.append(traces.embeddings.astype(np.float64))
    text, dimension, place = _sorted(np.concatenate(found)).T
    activations = np.concatenate(ends)
    ids: dict[str, int] = {}
    word = [ids.setdefault(tokens[i][j], len(ids)) for i, j in zip(text.tolist(), place.tolist(), strict=True)]
    return Detections(
        tuple(texts), tuple(ids), tuple(cell_names(encoder)),
        text, dimension, place, np.array(word, np.int64), activations[text, dimension] > 0,
        activations, np.concatenate([_chosen(half, active) for half in _halves(activations, prefixes)], axis=1),
        side, active, threshold,
    )  # fmt: skip


def _in_batch(traces: Traces, prefixes: Sequence[str], pooling: str, active: int, threshold: float) -> Iterator[Ints]:
    """(text of the batch, dimension, place), a row a detection."""
    lengths = np.array([len(tokens) for tokens in traces.tokens], np.int64)
    first_dimension = 0
    for prefix, half in zip(prefixes, _halves(traces.embeddings.astype(np.float64), prefixes), strict=True):
        ends = half[traces.order]
        chosen = _chosen(ends, active)
        outputs = traces.values.get(f"{prefix}output", [])
        greatest = _greatest(outputs) if pooling == "max" else None
        for t in range(1, len(outputs)):
            still = len(outputs[t])  # texts that have a token t; the others have ended
            change = outputs[t].astype(np.float64) - outputs[t - 1][:still]
            words = lengths[traces.order[:still], None]
            if greatest is not None:
                change *= t <= greatest[:still]
            elif pooling == "mean":
                change *= (words - t) / words
            row, cell = np.nonzero(detections(change, ends[:still], words, threshold) & chosen[:still])
            text = traces.order[row]
            place = lengths[text] - 1 - t if prefix == "backward." else np.full(len(text), t)
            yield np.stack([text, first_dimension + cell, place], axis=1)
        first_dimension += half.shape[1]


def _greatest(outputs: Sequence[forward.Array]) -> Ints:
    """(texts, cells): the token at which each output is greatest, the first of equals."""
    best, at = outputs[0].copy(), np.zeros(outputs[0].shape, np.int64)
    for t, y in enumerate(outputs):
        at[: len(y)][y > best[: len(y)]] = t
        np.maximum(best[: len(y)], y, out=best[: len(y)])
    return at


def _halves(activations: Floats, prefixes: Sequence[str]) -> list[Floats]:
    """The activations of each direction."""
    return np.split(activations, len(prefixes), axis=1)


def _chosen(activations: Floats, active: int) -> Bools:
    """Whether each cell is among the most active of its row; a cell at zero never is."""
    chosen = np.zeros(activations.shape, np.bool_)
    np.put_along_axis(chosen, most_active(activations, active), values=True, axis=1)
    chosen[activations == 0] = False
    return chosen


def _sorted(rows: Ints) -> Ints:
    return rows[np.lexsort(rows.T[::-1])]
