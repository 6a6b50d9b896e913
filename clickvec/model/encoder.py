"""Encoder: turn queries and titles into vectors with a trained model. NumPy only."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, UnavailableError, check_type
from clickvec.model import forward
from clickvec.model.about import describe_tower
from clickvec.model.fast import FastTower
from clickvec.model.folder import Model, open_model
from clickvec.model.packing import pack
from clickvec.model.projection import project
from clickvec.model.threads import map_in_threads
from clickvec.native.words import CompiledTokenTable, token_table
from clickvec.progress import Progress, track
from clickvec.text.ragged import Ragged
from clickvec.text.token_table import TokenTable
from clickvec.text.tokens import split_tokens
from clickvec.text.trigrams import Vocabulary, count_units

Vectors = NDArray[np.float32]
BATCH_SIZE = 8192
CACHE_BYTES = 64 * 2**20
ROWS_AT_ONCE = 2048  # new tokens whose rows are computed together: few enough for the processor's cache
TokenIds = TypeVar("TokenIds")


class Trace(NamedTuple):
    """Everything that happens while a tower reads one text: `values[name]` is (tokens, cells), in reading order.

    An LSTM-RNN has cell_input, input_gate, forget_gate, cell, output_gate and output. A bidirectional one has them
    twice, under `forward.` and `backward.`; the latter run from the last token to the first.
    """

    tokens: tuple[str, ...]
    values: dict[str, forward.Array]
    vector: forward.Array

    def __repr__(self) -> str:
        """Show the text and the shapes. The numbers would fill the screen."""
        shapes = ", ".join(f"{name} {value.shape}" for name, value in self.values.items())
        return f"Trace({' '.join(self.tokens)!r}: {shapes})"


class Traces(NamedTuple):
    """The same for many texts, longest first: `values[name][t]` is (texts that have a token t, cells).

    Row k belongs to the text `order[k]`, at its token t in reading order. The names are those of a `Trace`.
    """

    tokens: tuple[tuple[str, ...], ...]
    order: NDArray[np.int64]
    values: forward.Record
    embeddings: forward.Array  # in the order of the texts, before scaling to length 1; zero where there is no vector


class Encoder:
    """Turn queries and titles into vectors of length 1, so that their product is their cosine.

    Threads may share an encoder. It encodes several batches in parallel, on every core or on as many threads as
    OMP_NUM_THREADS says; the vectors are the same. It can be pickled and copied. A pickle holds the whole model, and no
    file is needed to load it.
    """

    def __init__(self, model: Model, path: Path | None = None) -> None:
        """Run `model`. `path` is the folder that it was read from, if any."""
        check_type("model", model, Model, "a Model; Encoder.load(path) opens a folder")
        self.model, self.path = model, path
        self.vocabulary = Vocabulary(model.trigrams)
        self._query = _Reader(model, "query", self.vocabulary)
        self._title = self._query if model.shared_tower else _Reader(model, "title", self.vocabulary)

    @classmethod
    def load(cls, path: str | Path) -> "Encoder":
        """Open a model folder."""
        check_type("path", path, (str, PathLike), "the path of a model folder")
        return cls(open_model(Path(path)), Path(path).resolve())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the model alone. Locks, compiled code and cached tokens are made anew."""
        return type(self), (self.model, self.path)

    def __repr__(self) -> str:
        """Show the tower, the number of trigrams and whole words, and the folder."""
        where = f", {str(self.path)!r}" if self.path else ""
        units = ", ".join(f"{count:,} {name}" for name, count in count_units(self.model.trigrams).items())
        return f"Encoder({describe_tower(self.model.tower)}, {units}{where})"

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self.model.tower.dimensions

    @property
    def fingerprint(self) -> str:
        """A hash of what the model computes. An index remembers it."""
        return self.model.fingerprint

    def encode_query(
        self, queries: str | Iterable[str], *, batch_size: int = BATCH_SIZE, progress: Progress | None = None
    ) -> Vectors:
        """Return the vectors of queries, (n, dimensions), or of a single str, (dimensions,).

        A query without any known trigram becomes a zero vector.
        """
        return self._encode(self._query, queries, batch_size, progress)

    def encode_document(
        self, titles: str | Iterable[str], *, batch_size: int = BATCH_SIZE, progress: Progress | None = None
    ) -> Vectors:
        """Return the vectors of titles, computed by the title tower. See `encode_query`."""
        return self._encode(self._title, titles, batch_size, progress)

    @staticmethod
    def similarity(one: Vectors, other: Vectors) -> Vectors:
        """Return the cosine of every vector of `one` and every vector of `other`."""
        for vectors in (one, other):
            check_type("a vector", vectors, np.ndarray, "what encode_query and encode_document return")
        return np.asarray(one @ other.T, np.float32)

    def trace_query(self, query: str) -> Trace:
        """Return everything that happens while the query tower reads a query."""
        return self._query.trace(query)

    def trace_document(self, title: str) -> Trace:
        """Return everything that happens while the title tower reads a title."""
        return self._title.trace(title)

    def trace_queries(self, queries: Sequence[str]) -> Traces:
        """Trace many queries at once, which is far faster than one by one. All activations are held in memory."""
        return self._query.trace_many(queries)

    def trace_documents(self, titles: Sequence[str]) -> Traces:
        """Trace many titles at once."""
        return self._title.trace_many(titles)

    def _encode(
        self, reader: "_Reader", texts: str | Iterable[str], batch_size: int, progress: Progress | None
    ) -> Vectors:
        if isinstance(texts, str):
            return reader.encode_one(texts)
        if not isinstance(texts, Iterable) or hasattr(texts, "columns"):
            kind = type(texts).__name__
            raise ClickvecError(f"a text is a str, and many are a list of str, not {kind}; of a table, give one column")
        if batch_size < 1:
            raise ClickvecError(f"batch_size is {batch_size}; it must be at least 1")
        texts = texts if isinstance(texts, list | tuple) else list(texts)
        batches = in_batches(texts, batch_size)
        encoded = (map if len(texts) <= batch_size else map_in_threads)(reader.encode, batches)
        vectors, start = np.empty((len(texts), self.dimensions), np.float32), 0
        for rows in track(encoded, "encoding", len(texts), progress):
            vectors[start : start + len(rows)] = rows
            start += len(rows)
        return vectors


def in_batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield the texts, `size` at a time."""
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch


class _Reader:
    """One tower, with a cache of the table rows of the tokens it has met. A full cache is emptied."""

    def __init__(self, model: Model, side: str, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._weights = model.tower_weights(side)
        self._fast = FastTower(model.tower, self._weights)
        self._width = sum(
            math.prod(weight.shape[1:]) for name, weight in self._weights.items() if name.endswith(".input")
        )
        self._limit = max(1, CACHE_BYTES // (4 * self._width))
        self._lock = Lock()
        self._empty_cache()

    def _empty_cache(self) -> None:
        self._tokens = token_table(self._model.max_words)
        self._table = np.zeros((self._fast.parts, 0, self._width // self._fast.parts), np.float32)
        self._known = np.zeros(0, np.bool_)  # whether a token has a trigram that the model knows
        self._characters = 0  # of all tokens: the last token of a long text can be longer than its row

    def encode_one(self, text: str) -> Vectors:
        """Return the unit vector of one text. This skips batching and takes a third of the time of a batch of one."""
        token_ids, table, known = self._look_up(lambda tokens: tokens.read_one(text))
        if not known[token_ids].any():
            return np.zeros(self._model.tower.dimensions, np.float32)
        vector = self._fast.run_one(table, token_ids)
        length = math.sqrt(vector @ vector)
        _check_finite(math.isfinite(length))
        return np.asarray(vector / np.float32(length or 1), np.float32)

    def encode(self, texts: list[str]) -> Vectors:
        """Return the unit vectors of a batch."""
        try:
            if len(texts) == 1:
                return self.encode_one(texts[0])[None]
            token_ids, table, known = self._look_up(lambda tokens: tokens.read(texts))
        except (AttributeError, TypeError):
            wrong = next((text for text in texts if not isinstance(text, str)), "")
            if isinstance(wrong, str):
                raise
            raise ClickvecError(f"a text must be a str, not {wrong!r} ({type(wrong).__name__})") from None
        vectors = _zero_unknown(self._fast.run(table, token_ids), token_ids, known)
        lengths = np.sqrt(np.einsum("td,td->t", vectors, vectors))
        _check_finite(bool(np.isfinite(lengths).all()))  # then all numbers of the vectors are finite too
        lengths[lengths == 0] = 1
        vectors /= lengths[:, None]
        return np.asarray(vectors, np.float32)

    def trace(self, text: str) -> Trace:
        """Trace one text. Its vector is the one that `encode_one` returns, to the last bit."""
        traces = self.trace_many([text])
        values = {name: np.concatenate(rows) for name, rows in traces.values.items()}
        return Trace(traces.tokens[0], values, self.encode_one(text))

    def trace_many(self, texts: Sequence[str]) -> Traces:
        """Trace many texts, by the equations as they are written in `forward.py`."""
        table, record = TokenTable(self._model.max_words), forward.Record()
        token_ids = table.read(texts)
        trigrams = self._vocabulary.rows(table)
        embeddings = forward.run(self._model.tower, self._weights, project(self._weights, trigrams), token_ids, record)
        _check_finite(bool(np.isfinite(embeddings).all()))
        tokens = tuple(tuple(split_tokens(text, self._model.max_words)) for text in texts)
        embeddings = _zero_unknown(embeddings, token_ids, trigrams.lengths > 0)
        return Traces(tokens, pack(token_ids).order, record, embeddings)

    def _look_up(
        self, read: Callable[[TokenTable | CompiledTokenTable], TokenIds]
    ) -> tuple[TokenIds, forward.Array, NDArray[np.bool_]]:
        """Return the token ids that `read` finds, the table with their rows, and which tokens have a known trigram."""
        with self._lock:
            try:
                if len(self._tokens) + self._characters // (4 * self._width) > self._limit:
                    self._empty_cache()
                token_ids = read(self._tokens)
                if len(self._tokens) > len(self._known):
                    self._add_rows()
                return token_ids, self._table, self._known
            except BaseException:  # Ctrl-C too: tokens without their rows would give wrong vectors from then on
                self._empty_cache()
                raise

    def _add_rows(self) -> None:
        """Compute the table rows of the tokens that have none yet."""
        before, now = len(self._known), len(self._tokens)
        if now > self._table.shape[1]:  # grow little for queries, and to the limit for a catalogue: copying is slow
            row_count = 2 * now if now < ROWS_AT_ONCE else 2 * now + self._limit
            larger = np.empty((self._table.shape[0], row_count, self._table.shape[2]), np.float32)
            larger[:, :before] = self._table[:, :before]
            self._table = larger
        new_tokens, known = self._tokens[before:], [self._known]
        for first in range(0, len(new_tokens), ROWS_AT_ONCE):
            trigrams = self._vocabulary.rows(new_tokens[first : first + ROWS_AT_ONCE])
            self._fast.write_rows(self._table[:, before + first :][:, : len(trigrams.lengths)], trigrams)
            known.append(trigrams.lengths > 0)
        self._characters += sum(map(len, new_tokens))
        self._known = np.concatenate(known)


def _check_finite(is_finite: bool) -> None:
    if not is_finite:
        raise UnavailableError("a weight of the model is NaN or infinite; check it with: clickvec info MODEL --verify")


def _zero_unknown(vectors: forward.Array, token_ids: Ragged, known: NDArray[np.bool_]) -> forward.Array:
    """Set the vectors of texts without any known trigram to zero: all such texts would get the same vector."""
    is_known = known[token_ids.values]
    if not is_known.all():
        text = np.repeat(np.arange(len(vectors)), token_ids.lengths)
        vectors[np.bincount(text, is_known, len(vectors)) == 0] = 0
    return vectors
