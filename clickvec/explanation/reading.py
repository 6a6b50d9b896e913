"""What a tower did with one text, by direction, with the words in the order of the text.

The vector of a text is the sum of the changes of the output from word to word, because the output starts at zero:

    y(T) = Σ_t Δy(t),    Δy(t) = y(t) - y(t-1),    y(0) = 0

`Reading.parts` holds these changes divided by the length of the vector. Its rows are the words' parts of the unit
vector, and add up to it. Numbers are float64 from here on; the outputs themselves are the encoder's float32.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.config import RECURRENT
from clickvec.errors import ClickvecError
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder, Trace, Vectors, in_batches
from clickvec.model.forward import unit
from clickvec.progress import Progress, track

BATCH = 1024  # texts traced together

Floats = NDArray[np.float64]


class Direction(NamedTuple):
    """What one direction of reading did. Rows are words, in the order of the text in both directions."""

    name: str  # "left to right" or "right to left"
    first: int  # position of the word that is read first
    values: dict[str, Floats]  # by name of the activation, (words, cells)
    embedding: Floats  # what it gives to the vector before scaling: y(T), or the pooled outputs; zero without a vector
    gains: Floats  # (words, cells): what each word gives to the embedding, Δy(t) or what pooling keeps of it


@dataclass(frozen=True)
class Reading:
    """One text, as one tower read it."""

    words: tuple[str, ...]  # the tokens; the last one of a long text holds all remaining words
    directions: tuple[Direction, ...]
    vector: Floats  # of length 1, or zero

    @cached_property
    def parts(self) -> Floats:
        """The part of the unit vector that comes from each word, (words, dimensions). The rows add up to the vector."""
        if not self.vector.any():  # no words, or no known trigram
            return np.zeros((len(self.words), len(self.vector)))
        length = np.linalg.norm(np.concatenate([way.embedding for way in self.directions]))
        with np.errstate(over="ignore", invalid="ignore"):  # whoever uses the parts checks them
            return np.asarray(np.concatenate([way.gains for way in self.directions], axis=1) / length)

    def mean(self, *names: str) -> Floats | None:
        """Return, for each word, the mean magnitude of the product of these activations over cells and directions.

        Return None if the tower lacks one of them.
        """
        if not all(name in way.values for way in self.directions for name in names):
            return None
        products = [np.prod([way.values[name] for name in names], axis=0) for way in self.directions]
        return np.mean([np.abs(product).mean(axis=1) for product in products], axis=0) if products else np.zeros(0)


def _pool(pooling: str, outputs: Floats) -> Floats:
    """Return the embedding of a text from its outputs in the order of reading, as forward.pool does."""
    if pooling == "mean":
        return np.asarray(outputs.mean(axis=0))
    return np.asarray(outputs.max(axis=0) if pooling == "max" else outputs[-1])


def _gains(pooling: str, outputs: Floats) -> Floats:
    """Return what each change Δy(t) gives to the embedding, in the order of reading."""
    changes, tokens = np.diff(outputs, axis=0, prepend=0), np.arange(len(outputs))[:, None]
    if pooling == "mean":  # Δy(t) is part of the output at this word and at all following words
        return np.asarray((len(outputs) - tokens) / len(outputs) * changes)
    if pooling == "max":  # the same, but only the greatest output counts
        return np.asarray((tokens <= outputs.argmax(axis=0)) * changes)
    return changes


def read(encoder: Encoder, side: str, text: str) -> Reading:
    """Read a text word by word with the query tower or the title tower.

    Raise ClickvecError if the tower does not read word by word.
    """
    check_side(side)
    directions_of(encoder)
    return _reading(encoder, encoder.trace_query(text) if side == "query" else encoder.trace_document(text))


def read_many(encoder: Encoder, side: str, texts: Sequence[str], progress: Progress | None = None) -> Iterator[Reading]:
    """Read texts as `read` does, many at a time, which is far faster. Of the activations, only the outputs are kept."""
    check_side(side)
    directions_of(encoder)
    for batch in track(in_batches(texts, BATCH), "reading", len(texts), progress):
        traces = encoder.trace_queries(batch) if side == "query" else encoder.trace_documents(batch)
        outputs = {name: rows for name, rows in traces.values.items() if name.endswith("output")}
        row_of = np.argsort(traces.order).tolist()
        for tokens, row, vector in zip(traces.tokens, row_of, unit(traces.embeddings), strict=True):
            values = {name: np.array([output[row] for output in rows[: len(tokens)]]) for name, rows in outputs.items()}
            yield _reading(encoder, Trace(tokens, values, vector))


def _reading(encoder: Encoder, trace: Trace) -> Reading:
    prefixes, pooling = directions_of(encoder) if trace.tokens else {}, encoder.model.tower.pooling
    directions = tuple(_direction(trace, name, prefix, pooling) for name, prefix in prefixes.items())
    return Reading(trace.tokens, directions, trace.vector.astype(np.float64))


def _direction(trace: Trace, name: str, prefix: str, pooling: str) -> Direction:
    values = {
        key.removeprefix(prefix): value.astype(np.float64)
        for key, value in trace.values.items()
        if key.startswith(prefix)
    }
    embedding, gains = _pool(pooling, values["output"]), _gains(pooling, values["output"])
    if not trace.vector.any():  # the outputs come from the biases alone
        embedding = np.zeros_like(embedding)
    if prefix != "backward.":
        return Direction(name, 0, values, embedding, gains)
    return Direction(name, len(gains) - 1, {key: value[::-1] for key, value in values.items()}, embedding, gains[::-1])


def directions_of(encoder: Encoder) -> dict[str, str]:
    """Return the directions in which a model reads, each with the prefix of its values in a trace.

    Raise ClickvecError if the tower does not read word by word.
    """
    tower = encoder.model.tower
    if tower.kind not in RECURRENT:
        raise ClickvecError(
            f"this model is a {describe_tower(tower)}: it does not read word by word, so it has no output at each "
            f"word; train with --tower {' or '.join(RECURRENT)}"
        )
    if tower.kind == "bilstm":
        return {"left to right": "forward.", "right to left": "backward."}
    return {"left to right": ""}


def cell_names(encoder: Encoder) -> list[tuple[int, str]]:
    """Return the number of the cell, and its direction, behind each dimension of a vector."""
    tower = encoder.model.tower
    if tower.kind not in RECURRENT:
        return [(cell, "") for cell in range(tower.dimensions)]
    directions = directions_of(encoder)
    return [(cell, way) for way in directions for cell in range(tower.dimensions // len(directions))]


def check_side(side: str) -> None:
    """Raise ClickvecError unless `side` is "query" or "title"."""
    if side not in ("query", "title"):
        raise ClickvecError(f"side must be 'query' or 'title', not {side!r}")


def encode(encoder: Encoder, side: str, texts: list[str]) -> Vectors:
    """Return the unit vectors of texts, encoded by the tower of their side."""
    check_side(side)
    return encoder.encode_query(texts) if side == "query" else encoder.encode_document(texts)
