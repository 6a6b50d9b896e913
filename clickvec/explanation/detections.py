"""Which words the most active cells detect in many texts: the rule of keywords.py, a batch of texts at a time.

One detection is (text, cell, word): the cell is among the most active of its direction at the end of the text, the word
is not the one read first, and the cell's output changes at the word by at least `threshold` equal shares.
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
    """All detections in a set of texts, sorted by text, dimension of the vector and position, and the activations."""

    texts: tuple[str, ...]
    words: tuple[str, ...]  # distinct detected words
    cells: tuple[tuple[int, str], ...]  # number and direction of the cell behind each dimension

    # One entry per detection.
    text: Ints  # index into `texts`
    dimension: Ints
    position: Ints  # of the word in the text
    word: Ints  # index into `words`
    positive: Bools  # whether the cell ends the text above zero

    activations: Floats  # (texts, dimensions): the cells at the end of each text; zero if the text has no vector
    chosen: Bools  # (texts, dimensions): whether the cell is among the most active

    side: str
    active: int
    threshold: float

    def __len__(self) -> int:
        """Return the number of detections."""
        return len(self.text)


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
    check_side(side)
    if active < 1 or not threshold > 0:
        raise ClickvecError(f"active must be at least 1 and threshold above 0, not {active} and {threshold}")
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
    rows = np.concatenate(found)
    text, dimension, position = rows[np.lexsort(rows.T[::-1])].T
    activations = np.concatenate(ends)
    ids: dict[str, int] = {}
    word = [ids.setdefault(tokens[i][j], len(ids)) for i, j in zip(text.tolist(), position.tolist(), strict=True)]
    return Detections(
        tuple(texts), tuple(ids), tuple(cell_names(encoder)),
        text, dimension, position, np.array(word, np.int64), activations[text, dimension] > 0,
        activations, np.concatenate([_chosen(half, active) for half in _halves(activations, prefixes)], axis=1),
        side, active, threshold,
    )  # fmt: skip


def _in_batch(traces: Traces, prefixes: Sequence[str], pooling: str, active: int, threshold: float) -> Iterator[Ints]:
    """Yield rows (text of the batch, dimension, position), one per detection."""
    lengths = np.array([len(tokens) for tokens in traces.tokens], np.int64)
    first_dimension = 0
    for prefix, half in zip(prefixes, _halves(traces.embeddings.astype(np.float64), prefixes), strict=True):
        ends = half[traces.order]
        chosen = _chosen(ends, active)
        outputs = traces.values.get(f"{prefix}output", [])
        greatest = _greatest(outputs) if pooling == "max" else None
        for t in range(1, len(outputs)):
            still = len(outputs[t])  # texts that have a token t; the others are shorter
            change = outputs[t].astype(np.float64) - outputs[t - 1][:still]
            words = lengths[traces.order[:still], None]
            if greatest is not None:
                change *= t <= greatest[:still]
            elif pooling == "mean":
                change *= (words - t) / words
            row, cell = np.nonzero(detections(change, ends[:still], words, threshold) & chosen[:still])
            text = traces.order[row]
            position = lengths[text] - 1 - t if prefix == "backward." else np.full(len(text), t)
            yield np.stack([text, first_dimension + cell, position], axis=1)
        first_dimension += half.shape[1]


def _greatest(outputs: Sequence[forward.Array]) -> Ints:
    """Return (texts, cells): the first token at which each output is greatest."""
    best, at = outputs[0].copy(), np.zeros(outputs[0].shape, np.int64)
    for t, y in enumerate(outputs):
        at[: len(y)][y > best[: len(y)]] = t
        np.maximum(best[: len(y)], y, out=best[: len(y)])
    return at


def _halves(activations: Floats, prefixes: Sequence[str]) -> list[Floats]:
    """Return the activations of each direction."""
    return np.split(activations, len(prefixes), axis=1)


def _chosen(activations: Floats, active: int) -> Bools:
    """Return whether each cell is among the most active of its row. A cell at zero never is."""
    chosen = np.zeros(activations.shape, np.bool_)
    np.put_along_axis(chosen, most_active(activations, active), values=True, axis=1)
    chosen[activations == 0] = False
    return chosen
