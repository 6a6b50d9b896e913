"""Vectors in Milvus beside an index of words, because this version of Milvus cannot search words.

The index of words, a folder or PostgreSQL, has the documents, the words and the model; it is the source of truth. It
names the collection that has its vectors. A change is committed there first, then its vectors go to Milvus. If Milvus
fails in between, the vectors are written when the index is opened the next time. Vectors of documents that are no
longer there are not found: each hit is looked up in the index of words.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, cast

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder, Vectors
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Change, Document
from clickvec.search.engines.address import Address, without_password
from clickvec.search.engines.milvus_collection import MOST_HITS, MilvusCollection
from clickvec.search.engines.milvus_filters import expression
from clickvec.search.engines.postgres_index import PostgresIndex
from clickvec.search.live.live_index import Live
from clickvec.search.payload.fields import Fields
from clickvec.search.payload.filters import Filter
from clickvec.search.segments.building import encode_titles
from clickvec.search.title_view import Positions
from clickvec.search.view_protocol import LiveDocuments, SearchView

_BLOCK = 10_000  # documents that are encoded at once
_SETTING = "milvus"  # of the index of words: the name of the collection

Allowed = tuple[Filter | None, Any]


class MilvusView:
    """A view of the index of words, except that Milvus finds the nearest vectors."""

    def __init__(self, base: SearchView, collection: MilvusCollection) -> None:
        """Search the vectors of a collection for the titles of a view."""
        self._base, self._collection = base, collection
        self.words = _Words(base)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return what the index of words has, but hybrid search in one step: it would use the vectors there."""
        if name == "hybrid" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._base, name)

    def __len__(self) -> int:
        """Return the number of titles."""
        return len(self._base)

    def allowed(self, where: Filter | None) -> Allowed:
        """Return a filter, and what the index of words makes of it."""
        return where, self._base.allowed(where)

    def count_values(self, field: str, positions: Positions | None, allowed: Allowed, limit: int) -> Any:  # noqa: ANN401
        """Count the values of a field."""
        return self._base.count_values(field, positions, allowed[1], limit)

    @property
    def compared(self) -> None:
        """None: only Milvus knows what its graph compares."""
        return None

    @property
    def is_exact(self) -> bool:
        """False: the vectors are in an HNSW graph."""
        return False

    def nearest(self, queries: Vectors, k: int, allowed: Allowed) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the k nearest titles of each query and their cosines, best first, ties by position."""
        for query in queries:
            yield self._nearest(query, k, allowed[0])

    def _nearest(self, query: Vectors, k: int, where: Filter | None) -> tuple[Positions, Vectors]:
        """Search for more titles until enough of them are still there and satisfy the filter."""
        text = "" if where is None else expression(where)
        limit = min(k, MOST_HITS)
        while True:
            seqs, scores = (
                self._collection.nearest(query, limit, text)
                if query.any()
                else (np.zeros(0, np.int64), np.zeros(0, np.float32))
            )
            documents = self._base.documents.get(seqs.tolist())
            is_kept = np.array([seq in documents for seq in seqs.tolist()], np.bool_)
            if where is not None and is_kept.any():
                payloads = [documents[seq].payload for seq in seqs[is_kept].tolist()]
                is_kept[is_kept] = where.mask(Fields.build(payloads))
            if is_kept.sum() >= min(k, MOST_HITS) or len(seqs) < limit or limit == MOST_HITS:
                break
            limit = min(4 * limit, MOST_HITS)
        kept = np.flatnonzero(is_kept)
        places = [self._base.positions_of(seqs[row : row + 1]) for row in kept.tolist()]
        has_place = [len(place) > 0 for place in places]
        positions = np.concatenate([np.zeros(0, np.int64), *places])
        scores = scores[kept[has_place]] if len(kept) else scores[:0]
        best = np.lexsort((positions, -scores))[:k]
        return positions[best], scores[best]


class _Words:
    """The search by words of another view, with our filters."""

    def __init__(self, base: SearchView) -> None:
        self._base = base

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._base.words, name)

    def best(self, terms: Any, k: int, allowed: Allowed | None = None) -> Any:  # noqa: ANN401
        """Return the k best titles by words."""
        return self._base.words.best(terms, k, None if allowed is None else allowed[1])


class MilvusIndex:
    """An index of words and its vectors in Milvus, as `Index` uses them."""

    def __init__(self, address: Address, base: LiveDocuments) -> None:
        """Connect, and write vectors that are missing. Raise if the vectors are not those of the index of words."""
        self._address, self.base = address, base
        name = base.state().get(_SETTING)
        if not isinstance(name, str) or not name.startswith(f"{address.name}_clickvec_"):
            raise ClickvecError(
                f"the index {without_password(address.words)} has no vectors in {address.shown}; build it with: "
                "clickvec index MODEL CATALOGUE --to ADDRESS"
            )
        encoder = base.view().encoder
        self._collection = MilvusCollection(address, name)
        try:
            self._collection.check(encoder.dimensions, encoder.fingerprint)
            self._collection.load()
            self._repair()
        except BaseException:
            self._collection.close()
            raise

    def view(self) -> SearchView:
        """Return the present view."""
        return cast(SearchView, MilvusView(self.base.view(), self._collection))

    def state(self) -> dict[str, Any]:
        """Return the stored settings."""
        return self.base.state()

    def refresh(self) -> None:
        """Let the next view show all changes that were made before this call."""
        self.base.refresh()

    def reading(self) -> AbstractContextManager[object]:
        """Let everything that is read inside a `with` block belong to one state of the documents."""
        return self.base.reading()

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given."""
        every = list(documents)
        return self._put([document.id for document in every], lambda: self.base.add(every, progress))

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there. Return how many were given."""
        every = list(changes)
        return self._put([change.id for change in every], lambda: self.base.update(every, progress))

    def _put(self, ids: list[str | int], change: Callable[[], int]) -> int:
        """Change documents in the index of words. Then write their new vectors, and delete the old ones."""
        replaced = self._seqs(ids)
        count = change()
        self.base.refresh()
        view, seqs = self.base.view(), self._seqs(ids)
        for first in range(0, len(seqs), _BLOCK):
            documents = view.documents.get(seqs[first : first + _BLOCK])
            vectors = encode_titles(view.encoder, [document.title for document in documents.values()], "float32")
            self._collection.put(list(documents), list(documents.values()), vectors)
        self._collection.remove(sorted({*replaced} - {*seqs}))
        return count

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""
        ids = list(ids)
        deleted = self._seqs(ids)
        count = self.base.delete(ids)
        self._collection.remove(deleted)
        return count

    def _seqs(self, ids: Iterable[str | int]) -> list[int]:
        documents = self.base.view().documents
        return [seq for seq in map(documents.find, ids) if seq is not None]

    def _repair(self) -> None:
        """If a process died between a commit and the vectors, write those that are missing, and delete the others."""
        view = self.base.view()
        if self._collection.count() == len(view) - view.unreachable():
            return
        last = view.size - 1 if isinstance(self.base, PostgresIndex) else last_seq(self.base)
        stored, there = set(self._collection.seqs(max(0, last))), set[int]()
        for seqs, documents in blocks(self.base, 0):
            there.update(map(int, seqs))
            missing = [row for row, seq in enumerate(seqs) if int(seq) not in stored]
            if missing:
                chosen = [documents[row] for row in missing]
                vectors = encode_titles(view.encoder, [document.title for document in chosen], "float32")
                self._collection.put([int(seqs[row]) for row in missing], chosen, vectors)
        self._collection.remove(sorted(stored - there))

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""
        self.base.set_state(**values)

    def compact(self, progress: Progress | None = None) -> None:
        """Build what is derived from the documents again."""
        self.base.compact(progress)

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> NoReturn:  # noqa: ANN401
        """Refuse: the vectors in Milvus get another model when the index is built again."""
        raise ClickvecError(
            f"the index at {self._address.shown} cannot change its model; build it again: "
            "clickvec index MODEL CATALOGUE --to ADDRESS --overwrite"
        )

    def close(self) -> None:
        """Close both."""
        self._collection.close()
        self.base.close()

    def copied(self) -> "MilvusIndex":
        """Return another index at the same address."""
        return MilvusIndex(self._address, self.base.copied())


def blocks(base: LiveDocuments, after: int) -> Iterator[tuple[Sequence[int], list[Document]]]:
    """Yield the documents of an index of words after a sequence number, with their sequence numbers."""
    if isinstance(base, PostgresIndex):
        yield from base.view().documents.blocks(after)
    elif isinstance(base, Live):
        for seqs, documents in base.store.blocks(after):
            yield seqs.tolist(), documents


def last_seq(base: LiveDocuments) -> int:
    """Return the last sequence number of an index in files."""
    return base.store.last()[0] if isinstance(base, Live) else 0


def fill_milvus(address: Address, base: LiveDocuments, progress: Progress | None = None) -> None:
    """Load the vectors of an index of words into a new collection, and let the index use it."""
    report, encoder = progress or ignore, base.view().encoder
    collection = MilvusCollection(address, f"{address.name}_clickvec_{secrets.token_hex(4)}")
    try:
        collection.create(encoder.dimensions, encoder.fingerprint)
        done, total = 0, len(base.view())
        report("loading vectors", done, total)
        for seqs, documents in blocks(base, 0):
            vectors = encode_titles(encoder, [document.title for document in documents], "float32")
            collection.put(seqs, documents, vectors, is_new=True)
            done += len(seqs)
            report("loading vectors", done, total)
        collection.finish()
        base.set_state(**{_SETTING: collection.name})
        for name in collection.others():
            collection.drop(name)
    finally:
        collection.close()
