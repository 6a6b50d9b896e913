"""Encoder: a model folder that turns texts into vectors. NumPy only."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec import forward
from clickvec.errors import ClickvecError
from clickvec.folder import Model, open_model
from clickvec.terminal import track
from clickvec.text import Ragged, StepTable, Vocabulary, pack, split_steps

Vectors = NDArray[np.float32]
BATCH_SIZE = 2048
CACHE_BYTES = 64 * 2**20


class Trace(NamedTuple):
    """Every step of reading one text: `values[name]` is (steps, cells), in the order the steps were read.

    An LSTM-RNN has cell_input, input_gate, forget_gate, cell, output_gate and output; a bidirectional one has them
    twice, under `forward.` and `backward.`, the latter from the last step to the first.
    """

    steps: tuple[str, ...]
    values: dict[str, forward.Array]
    vector: forward.Array

    def __repr__(self) -> str:
        """The text and the shapes; the numbers would fill the screen."""
        shapes = ", ".join(f"{name} {value.shape}" for name, value in self.values.items())
        return f"Trace({' '.join(self.steps)!r}: {shapes})"


class Traces(NamedTuple):
    """Many texts, read side by side with the longest first: `values[name][t]` is (texts that have a step t, cells).

    Row k of it is of the text `order[k]`, whose step t in the order of reading it is; the names are those of a `Trace`.
    """

    steps: tuple[tuple[str, ...], ...]
    order: NDArray[np.int64]
    values: forward.Record
    embeddings: forward.Array  # in the order of the texts, before scaling to length 1; zero where there is no vector


class Encoder:
    """Turns queries and titles into vectors of length 1, so that their product is their cosine.

    Threads may share one.
    """

    def __init__(self, model: Model, path: Path | None = None) -> None:
        """Run `model`; `path` is the folder that it was read from, if any."""
        self.model, self.path = model, path
        self.vocabulary = Vocabulary(model.trigrams)
        self._query = _Reader(model, "query", self.vocabulary)
        self._title = self._query if model.shared_tower else _Reader(model, "title", self.vocabulary)

    @classmethod
    def load(cls, path: str | Path) -> "Encoder":
        """Open a model folder."""
        return cls(open_model(Path(path)), Path(path).resolve())

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self.model.tower.dimensions

    @property
    def fingerprint(self) -> str:
        """The name of what this model computes; an index remembers it."""
        return self.model.fingerprint

    def encode_query(
        self, queries: str | Iterable[str], *, batch_size: int = BATCH_SIZE, progress: bool = False
    ) -> Vectors:
        """The vectors of queries, (n, dimensions); of one query given as a str, (dimensions,). No words: zeros."""
        return self._encode(self._query, queries, batch_size, progress)

    def encode_document(
        self, titles: str | Iterable[str], *, batch_size: int = BATCH_SIZE, progress: bool = False
    ) -> Vectors:
        """The vectors of titles, like `encode_query`, by the title tower."""
        return self._encode(self._title, titles, batch_size, progress)

    @staticmethod
    def similarity(one: Vectors, other: Vectors) -> Vectors:
        """The cosine of every vector of one with every vector of the other."""
        return np.asarray(one @ other.T, np.float32)

    def trace_query(self, query: str) -> Trace:
        """Everything that happens while the query tower reads a query."""
        return self._query.trace(query)

    def trace_document(self, title: str) -> Trace:
        """Everything that happens while the title tower reads a title."""
        return self._title.trace(title)

    def trace_queries(self, queries: Sequence[str]) -> Traces:
        """The same of many queries at once, which is far faster than one by one; all is held in memory."""
        return self._query.trace_many(queries)

    def trace_documents(self, titles: Sequence[str]) -> Traces:
        """The same of many titles at once."""
        return self._title.trace_many(titles)

    def _encode(self, reader: "_Reader", texts: str | Iterable[str], batch_size: int, progress: bool) -> Vectors:
        if isinstance(texts, str):
            vector: Vectors = reader.encode([texts])[0]
            return vector
        if batch_size < 1:
            raise ClickvecError(f"batch_size is at least 1, not {batch_size}")
        total = len(texts) if isinstance(texts, list | tuple) else None
        batches = [
            reader.encode(batch) for batch in track(in_batches(texts, batch_size), "encoding", total, enabled=progress)
        ]
        return np.concatenate(batches) if batches else np.zeros((0, self.dimensions), np.float32)


def in_batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """The texts, `size` at a time."""
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch


class _Reader:
    """One tower, with W l(t) kept for the steps it has met, up to a bound; then it starts afresh."""

    def __init__(self, model: Model, side: str, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._weights = model.tower_weights(side)
        self._width = sum(
            int(np.prod(weight.shape[1:])) for name, weight in self._weights.items() if name.endswith(".input")
        )
        self._limit = max(1, CACHE_BYTES // (4 * self._width))
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._steps = StepTable(self._model.max_words)
        self._table = np.zeros((0, self._width), np.float32)
        self._known = np.zeros(0, np.bool_)  # whether a step has a trigram that the model knows
        self._characters = 0  # of the steps: the last step of a long text can be longer than its row

    def encode(self, texts: list[str]) -> Vectors:
        """The unit vectors of a batch."""
        step_ids, table, known = self._read(texts)
        vectors = forward.run(self._model.tower, self._weights, table, step_ids)
        return np.asarray(_unit(vectors, step_ids, known), np.float32)

    def trace(self, text: str) -> Trace:
        """One text, with everything kept."""
        (step_ids, table, known), record = self._read([text]), forward.Record()
        raw = forward.run(self._model.tower, self._weights, table, step_ids, record)
        values = {name: np.concatenate(steps) for name, steps in record.items()}
        return Trace(tuple(split_steps(text, self._model.max_words)), values, _unit(raw, step_ids, known)[0])

    def trace_many(self, texts: Sequence[str]) -> Traces:
        """Many texts, with everything kept."""
        (step_ids, table, known), record = self._read(texts), forward.Record()
        embeddings = forward.run(self._model.tower, self._weights, table, step_ids, record)
        steps = tuple(tuple(split_steps(text, self._model.max_words)) for text in texts)
        return Traces(steps, pack(step_ids).order, record, _checked(embeddings, step_ids, known))

    def _read(self, texts: Sequence[str]) -> tuple[Ragged, forward.Array, NDArray[np.bool_]]:
        """The step ids of the texts; the table, a row of W l(t) for each; and which steps have a known trigram."""
        with self._lock:
            try:
                return self._look_up(texts), self._table, self._known
            except BaseException:  # Ctrl-C too: steps without their rows would give wrong vectors from then on
                self._forget()
                raise

    def _look_up(self, texts: Sequence[str]) -> Ragged:
        if len(self._steps) + self._characters // (4 * self._width) > self._limit:
            self._forget()
        known = len(self._steps)
        step_ids = self._steps.read(texts)
        if len(self._steps) > known:
            trigrams = self._steps.trigrams(self._vocabulary, first=known)
            fresh = forward.project(self._weights, trigrams)
            self._known = np.concatenate([self._known, trigrams.lengths > 0])
            self._characters += sum(map(len, self._steps.steps(first=known)))
            if len(self._steps) > len(self._table):  # double the room, so that growing costs little on average
                room = np.empty((2 * len(self._steps), self._width), fresh.dtype)
                room[:known] = self._table[:known]
                self._table = room
            self._table[known : len(self._steps)] = fresh
        return step_ids


def _unit(vectors: forward.Array, step_ids: Ragged, known: NDArray[np.bool_]) -> forward.Array:
    """Unit vectors, all of them numbers; zero where not one trigram of a text is known."""
    return forward.unit(_checked(vectors, step_ids, known))


def _checked(vectors: forward.Array, step_ids: Ragged, known: NDArray[np.bool_]) -> forward.Array:
    """The vectors, all of them numbers; zero where not one trigram of a text is known.

    Such a text leaves nothing but the biases, and would be the double of every other such text.
    """
    if not np.isfinite(vectors).all():
        raise ClickvecError("a weight of the model is not a number; check it with: clickvec info MODEL --verify")
    seen = known[step_ids.values]
    if not seen.all():
        text = np.repeat(np.arange(len(vectors)), step_ids.lengths)
        vectors[np.bincount(text, seen, len(vectors)) == 0] = 0
    return vectors
