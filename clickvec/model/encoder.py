"""Encoder: a model folder that turns texts into vectors. NumPy only."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model import forward
from clickvec.model.fast import FastTower
from clickvec.model.folder import Model, open_model
from clickvec.model.packing import pack
from clickvec.model.threads import in_order
from clickvec.native.words import token_table
from clickvec.progress import Progress, track
from clickvec.text.ragged import Ragged
from clickvec.text.token_table import TokenTable
from clickvec.text.tokens import split_tokens
from clickvec.text.trigrams import Vocabulary

Vectors = NDArray[np.float32]
BATCH_SIZE = 8192
CACHE_BYTES = 64 * 2**20
FRESH_AT_ONCE = 2048  # new tokens whose rows are made together, few enough for the processor's cache
TokenIds = TypeVar("TokenIds")


class Trace(NamedTuple):
    """Every token of reading one text: `values[name]` is (tokens, cells), in the order the tokens were read.

    An LSTM-RNN has cell_input, input_gate, forget_gate, cell, output_gate and output; a bidirectional one has them
    twice, under `forward.` and `backward.`, the latter from the last token to the first.
    """

    tokens: tuple[str, ...]
    values: dict[str, forward.Array]
    vector: forward.Array

    def __repr__(self) -> str:
        """The text and the shapes; the numbers would fill the screen."""
        shapes = ", ".join(f"{name} {value.shape}" for name, value in self.values.items())
        return f"Trace({' '.join(self.tokens)!r}: {shapes})"


class Traces(NamedTuple):
    """Many texts, read side by side with the longest first: `values[name][t]` is (texts that have a token t, cells).

    Row k of it is of the text `order[k]`, at its token t in the order of reading; the names are those of a `Trace`.
    """

    tokens: tuple[tuple[str, ...], ...]
    order: NDArray[np.int64]
    values: forward.Record
    embeddings: forward.Array  # in the order of the texts, before scaling to length 1; zero where there is no vector


class Encoder:
    """Turns queries and titles into vectors of length 1, so that their product is their cosine.

    Threads may share one. Several batches are encoded side by side, on every core or by as many threads as
    OMP_NUM_THREADS says; the vectors are the same.
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
        self, queries: str | Iterable[str], *, batch_size: int = BATCH_SIZE, progress: Progress | None = None
    ) -> Vectors:
        """The vectors of queries, (n, dimensions); of one query given as a str, (dimensions,). No words: zeros."""
        return self._encode(self._query, queries, batch_size, progress)

    def encode_document(
        self, titles: str | Iterable[str], *, batch_size: int = BATCH_SIZE, progress: Progress | None = None
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

    def _encode(
        self, reader: "_Reader", texts: str | Iterable[str], batch_size: int, progress: Progress | None
    ) -> Vectors:
        if isinstance(texts, str):
            return reader.encode_one(texts)
        if batch_size < 1:
            raise ClickvecError(f"batch_size is at least 1, not {batch_size}")
        total = len(texts) if isinstance(texts, list | tuple) else None
        encoded = in_order(reader.encode, in_batches(texts, batch_size))
        batches = track(encoded, "encoding", total, progress)
        if total is None or total <= batch_size:
            whole = list(batches) or [np.zeros((0, self.dimensions), np.float32)]
            return whole[0] if len(whole) == 1 else np.concatenate(whole)
        found, place = np.empty((total, self.dimensions), np.float32), 0
        for rows in batches:  # as they come: all of them twice would be much memory
            found[place : place + len(rows)] = rows
            place += len(rows)
        return found


def in_batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """The texts, `size` at a time."""
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch


class _Reader:
    """One tower, with a row of its table kept for each token it has met, up to a bound; then it starts afresh."""

    def __init__(self, model: Model, side: str, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._weights = model.tower_weights(side)
        self._fast = FastTower(model.tower, self._weights)
        self._width = sum(
            int(np.prod(weight.shape[1:])) for name, weight in self._weights.items() if name.endswith(".input")
        )
        self._limit = max(1, CACHE_BYTES // (4 * self._width))
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._tokens = token_table(self._model.max_words)
        self._table = np.zeros((self._fast.parts, 0, self._width // self._fast.parts), np.float32)
        self._known = np.zeros(0, np.bool_)  # whether a token has a trigram that the model knows
        self._characters = 0  # of the tokens: the last token of a long text can be longer than its row

    def encode(self, texts: list[str]) -> Vectors:
        """The unit vectors of a batch."""
        try:
            return self._encode(texts)
        except (AttributeError, TypeError):
            wrong = [text for text in texts if not isinstance(text, str)]
            if not wrong:
                raise
            raise ClickvecError(f"a text is a str, not {wrong[0]!r} ({type(wrong[0]).__name__})") from None

    def _encode(self, texts: list[str]) -> Vectors:
        if len(texts) == 1:
            return self.encode_one(texts[0])[None]
        token_ids, table, known = self._look_up(lambda: self._tokens.read(texts))
        vectors = _without_unknown(self._fast.run(table, token_ids), token_ids, known)
        lengths = np.sqrt(np.einsum("td,td->t", vectors, vectors))
        _check(bool(np.isfinite(lengths).all()))  # so are the numbers of the vectors then
        lengths[lengths == 0] = 1
        vectors /= lengths[:, None]
        return np.asarray(vectors, np.float32)

    def encode_one(self, text: str) -> Vectors:
        """The unit vector of one text: the same as a batch of one, in a third of the time."""
        tokens, table, known = self._look_up(lambda: self._tokens.read_one(text))
        if not known[tokens].any():
            return np.zeros(self._model.tower.dimensions, np.float32)
        vector = self._fast.run_one(table, tokens)
        length = math.sqrt(vector @ vector)
        _check(math.isfinite(length))
        return np.asarray(vector / np.float32(length or 1), np.float32)

    def trace(self, text: str) -> Trace:
        """One text, with everything kept; its vector is the one that `encode_one` gives, to the last bit."""
        traces = self.trace_many([text])
        values = {name: np.concatenate(tokens) for name, tokens in traces.values.items()}
        return Trace(traces.tokens[0], values, self.encode_one(text))

    def trace_many(self, texts: Sequence[str]) -> Traces:
        """Many texts, with everything kept; by the equations as they stand in `forward.py`."""
        table, record = TokenTable(self._model.max_words), forward.Record()
        token_ids = table.read(texts)
        trigrams = self._vocabulary.rows(table)
        projections = forward.project(self._weights, trigrams)
        embeddings = forward.run(self._model.tower, self._weights, projections, token_ids, record)
        _check(bool(np.isfinite(embeddings).all()))
        tokens = tuple(tuple(split_tokens(text, self._model.max_words)) for text in texts)
        known = _without_unknown(embeddings, token_ids, trigrams.lengths > 0)
        return Traces(tokens, pack(token_ids).order, record, known)

    def _look_up(self, read: Callable[[], TokenIds]) -> tuple[TokenIds, forward.Array, NDArray[np.bool_]]:
        """What `read` gives, token ids; the table with a row for each; and which tokens have a known trigram."""
        with self._lock:
            try:
                if len(self._tokens) + self._characters // (4 * self._width) > self._limit:
                    self._forget()
                token_ids = read()
                if len(self._tokens) > len(self._known):
                    self._add_rows()
                return token_ids, self._table, self._known
            except BaseException:  # Ctrl-C too: tokens without their rows would give wrong vectors from then on
                self._forget()
                raise

    def _add_rows(self) -> None:
        """Rows of the table for the tokens that have none yet."""
        before, now = len(self._known), len(self._tokens)
        if now > self._table.shape[1]:  # little room for queries; for a catalogue all there may be, as copying is dear
            rows = 2 * now if now < FRESH_AT_ONCE else 2 * now + self._limit
            room = np.empty((self._table.shape[0], rows, self._table.shape[2]), np.float32)
            room[:, :before] = self._table[:, :before]
            self._table = room
        fresh, known = self._tokens[before:], [self._known]
        for first in range(0, len(fresh), FRESH_AT_ONCE):
            trigrams = self._vocabulary.rows(fresh[first : first + FRESH_AT_ONCE])
            self._fast.write_rows(self._table[:, before + first :][:, : len(trigrams.lengths)], trigrams)
            known.append(trigrams.lengths > 0)
        self._characters += sum(map(len, fresh))
        self._known = np.concatenate(known)


def _check(all_are_numbers: bool) -> None:
    if not all_are_numbers:
        raise ClickvecError("a weight of the model is not a number; check it with: clickvec info MODEL --verify")


def _without_unknown(vectors: forward.Array, token_ids: Ragged, known: NDArray[np.bool_]) -> forward.Array:
    """The vectors, zero where not one trigram of a text is known.

    Such a text leaves nothing but the biases, and would be the double of every other such text.
    """
    seen = known[token_ids.values]
    if not seen.all():
        text = np.repeat(np.arange(len(vectors)), token_ids.lengths)
        vectors[np.bincount(text, seen, len(vectors)) == 0] = 0
    return vectors
