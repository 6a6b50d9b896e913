"""What a tower did with one text, by direction, with its words in the order of the text.

The vector of a text is a sum of its changes from word to word, since the output starts at zero:

    y(T) = Σ_t Δy(t),    Δy(t) = y(t) - y(t-1),    y(0) = 0

`Reading.parts` has these changes, divided by the length of the vector: its rows are the words' parts of the unit
vector, and add up to it. Numbers are float64 from here on; the outputs themselves are the encoder's float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.config import RECURRENT
from clickvec.errors import ClickvecError
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder, Trace, Vectors

Floats = NDArray[np.float64]


class Way(NamedTuple):
    """One direction of reading: `values[name]` is (words, cells), in the order of the text whatever the direction."""

    name: str  # "left to right" or "right to left"
    values: dict[str, Floats]

    @property
    def backward(self) -> bool:
        """Whether the last word is read first."""
        return self.name == "right to left"

    @property
    def first(self) -> int:
        """The place of the word that is read first."""
        return len(self.values["output"]) - 1 if self.backward else 0

    @property
    def outputs(self) -> Floats:
        """y(t) in the order of reading."""
        output = self.values["output"]
        return output[::-1] if self.backward else output

    def in_text_order(self, values: Floats) -> Floats:
        """Rows that are in the order of reading, in the order of the text."""
        return values[::-1] if self.backward else values


@dataclass(frozen=True)
class Reading:
    """One text, as one tower read it."""

    words: tuple[str, ...]  # the tokens: the last one of a long text is several words
    ways: tuple[Way, ...]
    vector: Floats  # of unit length, or zero
    pooling: str

    @cached_property
    def changes(self) -> tuple[Floats, ...]:
        """Δy(t) of each direction, (words, cells), in the order of the text."""
        return tuple(
            way.in_text_order(np.diff(way.outputs, axis=0, prepend=np.zeros((1, way.outputs.shape[1]))))
            for way in self.ways
        )

    @cached_property
    def embeddings(self) -> tuple[Floats, ...]:
        """What each direction gives to the vector, before scaling: y(T), unless the outputs are pooled.

        Zero where not one trigram of the text is known: then y is what the biases make of nothing, and the encoder
        gives no vector.
        """
        pooled = (_POOLED[self.pooling](way.outputs) for way in self.ways)
        return tuple(embedding if self.vector.any() else np.zeros_like(embedding) for embedding in pooled)

    @cached_property
    def gains(self) -> tuple[Floats, ...]:
        """What each word gave to what embeds the text, of each direction: Δy(t), or what pooling keeps of it."""
        return tuple(
            way.in_text_order(_kept(self.pooling, way.outputs)) * change
            for way, change in zip(self.ways, self.changes, strict=True)
        )

    @cached_property
    def parts(self) -> Floats:
        """(words, dimensions): the part of the unit vector that comes from each word. The rows add up to the vector."""
        if not self.vector.any():  # no word, or not one known trigram
            return np.zeros((len(self.words), len(self.vector)))
        return np.concatenate(self.gains, axis=1) / float(np.linalg.norm(np.concatenate(self.embeddings)))


# What embeds a text, from y(t) in the order of reading (forward.pool), and how much of each change Δy(t) is in it.
_POOLED: dict[str, Callable[[Floats], Floats]] = {
    "last": lambda outputs: outputs[-1],
    "mean": lambda outputs: outputs.mean(axis=0),
    "max": lambda outputs: outputs.max(axis=0),
}


def _kept(pooling: str, outputs: Floats) -> Floats:
    positions = np.arange(len(outputs))[:, None]
    if pooling == "mean":  # Δy(t) is in the outputs of this word and of all that follow
        return (len(outputs) - positions) / len(outputs) + np.zeros_like(outputs)
    if pooling == "max":  # ... and counts when the greatest output is one of those
        return np.asarray(positions <= outputs.argmax(axis=0), np.float64)
    return np.ones_like(outputs)


def read(encoder: Encoder, side: str, text: str) -> Reading:
    """Read a text with the query or the title tower, word by word."""
    directions = directions_of(encoder)
    trace = trace_of(encoder, side, text)
    ways = tuple(_way(trace, name, prefix) for name, prefix in directions.items())
    words = trace.tokens
    return Reading(words, ways if words else (), trace.vector.astype(np.float64), encoder.model.tower.pooling)


def directions_of(encoder: Encoder) -> dict[str, str]:
    """The directions in which a model reads, each with the prefix that its values have in a trace."""
    tower = encoder.model.tower
    if tower.kind not in RECURRENT:
        raise ClickvecError(
            f"this model is a {describe_tower(tower)}: it does not read word by word, and has no output at each word "
            "to look at; train with --tower rnn, lstm or bilstm"
        )
    if tower.kind == "bilstm":
        return {"left to right": "forward.", "right to left": "backward."}
    return {"left to right": ""}


def cell_names(encoder: Encoder) -> list[tuple[int, str]]:
    """Return the number of the cell, and its direction, behind each dimension of a vector."""
    tower = encoder.model.tower
    if tower.kind == "bilstm":
        return [(cell, way) for way in ("left to right", "right to left") for cell in range(tower.cells)]
    return [(cell, "left to right" if tower.kind in RECURRENT else "") for cell in range(tower.dimensions)]


def _way(trace: Trace, name: str, prefix: str) -> Way:
    values = {
        key.removeprefix(prefix): value.astype(np.float64)
        for key, value in trace.values.items()
        if key.startswith(prefix)
    }
    return Way(name, {key: value[::-1] if prefix == "backward." else value for key, value in values.items()})


def trace_of(encoder: Encoder, side: str, text: str) -> Trace:
    """The trace of a text by the tower of its side."""
    check_side(side)
    return encoder.trace_query(text) if side == "query" else encoder.trace_document(text)


def check_side(side: str) -> None:
    """Refuse what is neither tower."""
    if side not in ("query", "title"):
        raise ClickvecError(f"a text is read as a query or as a title, not as {side!r}")


def encode(encoder: Encoder, side: str, texts: list[str]) -> Vectors:
    """The unit vectors of texts by the tower of their side."""
    check_side(side)
    return encoder.encode_query(texts) if side == "query" else encoder.encode_document(texts)
