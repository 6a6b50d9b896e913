"""A live index: the documents, the present view of them, and how the view follows the changes. In memory.

`live_folder.py` adds what an index on disk needs.
"""

import pickle
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from clickvec.model.encoder import Encoder, Vectors
from clickvec.model.shrink import StoredVectors
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.fusion import fusion_settings
from clickvec.search.live.delta import Delta
from clickvec.search.live.view import Settings, View
from clickvec.search.segments.building import Plan, build_in_memory
from clickvec.search.segments.segment import Coverage, Segment, vectors_alone

MOST_ADDED = 10_000  # documents in the delta, or deleted ones in the segment, before a new segment is built
BULK = 20_000  # so many documents in one call are not added to the delta
MOST_SHARE = 0.05  # or this share of the segment, if it is more


class Live:
    """The documents of an index, and the present view of them."""

    def __init__(self, store: DocumentStore, view: View) -> None:
        self._refreshing, self._writing = threading.RLock(), threading.RLock()
        self._newest = (view.encoder, view.segment)
        self._start(store, view)
        self.refresh()

    def _start(self, store: DocumentStore, view: View) -> None:
        """Follow the changes of this store from this view on."""
        self.store, self._view = store, view
        self._version: int | None = None
        self._is_broken = False  # the last refresh has failed half-way, so the delta is not reliable

    @classmethod
    def in_memory(
        cls, encoder: Encoder, documents: Iterable[Document], vector_type: str, progress: Progress | None = None
    ) -> "Live":
        """Make an index of documents."""
        store, every = DocumentStore.create(), list(documents)
        store.add(every)
        chosen = fusion_settings(encoder.model)
        settings = Settings(model=encoder.fingerprint, segment="1", vectors=vector_type, **chosen)
        store.set_state(**settings._asdict())
        coverage = Coverage(*store.last())
        blocks = [(np.arange(1, len(every) + 1), every)] if every else []
        segment = build_in_memory(Plan(lambda: iter(blocks), len(every), coverage, encoder, vector_type), progress)
        return cls(store, view_of_segment(store, encoder, settings, segment))

    # --- the view ------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """Return the present view."""
        if self.store.version() != self._version:
            self.refresh()
        return self._view

    def refresh(self) -> None:
        """Let the view follow all changes that were made before this call."""
        with self._refreshing:
            if self.store.version() == self._version and not self._is_broken:
                return
            with self.store.reading():
                version = self.store.version()
                was_broken, self._is_broken = self._is_broken, True
                self._view = self._next_view(Settings.of(self.store.state()), was_broken)
                self._version, self._is_broken = version, False

    def reading(self) -> AbstractContextManager[object]:
        """Let everything that this thread reads inside a `with` block belong to one state of the documents."""
        return self.store.reading()

    def _next_view(self, settings: Settings, is_broken: bool) -> View:
        """Return the view of what the store holds now."""
        view = self._view
        if is_broken or (settings.model, settings.segment) != (view.settings.model, view.settings.segment):
            view = self._first_view(settings)
        deleted, last_deletion = self.store.deletions(view.covers.deletion)
        last_seq, _ = self.store.last()
        for seqs, documents in self.store.blocks(view.covers.seq, upto=last_seq):
            view.delta.add(seqs, [one.title for one in documents], [one.payload for one in documents])
        following = view.followed_by(settings, deleted, Coverage(last_seq, last_deletion))
        self.store.check_count(following.count)
        return following

    def _first_view(self, settings: Settings) -> View:
        """Return a view of a segment alone, as it was when it was built."""
        return view_of_segment(self.store, self._newest[0], settings, self._newest[1])

    # --- changes -------------------------------------------------------------------------------------------------

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given."""
        return self._write(lambda: self.store.add(documents), progress)

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there. Return how many were given."""
        return self._write(lambda: self.store.update(changes), progress)

    def _write(self, write: Callable[[], int], progress: Progress | None) -> int:
        with self._writing:
            count = write()
            if is_bulk(count, self._view):
                self.compact(progress)
        self.refresh()
        self._compact_if_due()
        return count

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""
        with self._writing:
            count = self.store.delete(ids)
        self.refresh()
        self._compact_if_due()
        return count

    def state(self) -> dict[str, Any]:
        """Return the stored settings."""
        return self.store.state()

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""
        with self._writing:
            self.store.set_state(**values)
        self.refresh()

    def compact(self, progress: Progress | None = None) -> None:
        """Build a new segment of all documents."""
        self._build(self._view.encoder, self._view.segment, {}, progress)

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> None:  # noqa: ANN401
        """Encode all titles with another model and use it from then on, together with other settings."""
        self._build(encoder, None, values, progress)

    def close(self) -> None:
        """Release everything. The index cannot be used any more."""
        self.store.close()

    def _build(self, encoder: Encoder, old: Segment | None, values: dict[str, Any], progress: Progress | None) -> None:
        with self._writing, self._refreshing:
            settings = self._view.settings
            store, coverage = self.store, Coverage(*self.store.last())
            plan = Plan(lambda: store.blocks(0), len(store), coverage, encoder, settings.vectors, old=old)
            segment = build_in_memory(plan, progress)
            self._newest = (encoder, segment)
            store.set_state(model=encoder.fingerprint, segment=str(1 + int(settings.segment)), **values)
            self.refresh()

    def _compact_if_due(self) -> None:
        if is_due(self._view):
            self.compact()

    def copied(self) -> "Live":
        """Return an independent copy."""
        copy, arguments = self.__reduce__()
        return copy(pickle.loads(pickle.dumps(arguments[0])), *arguments[1:])  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the documents and the vectors. Words are indexed again when they are needed."""
        with self._writing:
            self.refresh()
            if self._view.size > len(self._view.segment) or self._view.alive is not None:
                self.compact()
            view = self._view
            exact = view.segment.exact
            return _unpickle, (self.store, view.encoder, view.settings, exact.vectors, exact.scales)


def view_of_segment(store: DocumentStore, encoder: Encoder, settings: Settings, segment: Segment) -> View:
    """Return a view of a segment as it was when it was built."""
    return View(store, encoder, settings, segment, Delta(encoder, settings.vectors), segment.coverage)


def is_bulk(count: int, view: View) -> bool:
    """Return whether so many documents are added that a new segment is built at once."""
    return count > max(BULK, MOST_SHARE * len(view.segment))


def is_due(view: View) -> bool:
    """Return whether a new segment should be built: many documents were added or deleted since the last one."""
    limit = max(MOST_ADDED, MOST_SHARE * len(view.segment))
    return view.size - len(view.segment) > limit or view.size - view.count > limit


def _unpickle(
    store: DocumentStore, encoder: Encoder, settings: Settings, vectors: StoredVectors, scales: Vectors | None
) -> Live:
    blocks, coverage = list(store.blocks(0)), Coverage(*store.last())
    seqs = np.concatenate([np.zeros(0, np.int64), *(seqs for seqs, _ in blocks)])
    old = vectors_alone(seqs, vectors, scales)
    plan = Plan(lambda: iter(blocks), len(seqs), coverage, encoder, settings.vectors, old=old)
    return Live(store, view_of_segment(store, encoder, settings, build_in_memory(plan)))
