"""A live index on disk.

Any process may search and change it: SQLite lets one transaction after the other change the documents. Changes of
threads that wait at the same time share a transaction, because a small change mostly waits for the disk. Each of them
is still made as a whole or not at all. A search looks for changes of other processes at most every 0.2 s.
"""

import contextlib
import itertools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.live.compaction import BackgroundCompaction
from clickvec.search.live.index_folder import IndexFolder
from clickvec.search.live.live_index import Live, is_bulk, is_due, view_of_segment
from clickvec.search.live.new_segment import ATTEMPTS, Read, Task, compact, rebuild
from clickvec.search.live.view import Settings, View
from clickvec.search.segments.segment import DamagedSegmentError
from clickvec.storage.snapshot import PATIENCE_SECONDS

POLL_SECONDS = 0.2
_MOST_TOGETHER = 64  # changes in one transaction
_log = logging.getLogger(__name__)
_opened: "weakref.WeakSet[LiveFolder]" = weakref.WeakSet()

Result = TypeVar("Result")
Write = Callable[[DocumentStore], int]


class LiveFolder(Live):
    """The documents of an index folder, and the present view of them."""

    def __init__(self, path: Path, encoder: Encoder | None = None, repair: bool = False) -> None:
        """Open an index folder. If `repair`, build derived files that are damaged again, now and later."""
        self.path = path.absolute()  # the working directory may change
        self.folder, self._given, self._repairs = IndexFolder(self.path), encoder, repair
        self._identity: tuple[int, int] | None = None  # of what is open
        self._polled, self._stores, self._is_closed = time.monotonic(), list[DocumentStore](), False
        self._start_process()
        _opened.add(self)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _start_process(self) -> None:
        """Forget the locks, waiting changes and children of the parent of a forked process."""
        self._version = None
        self._refreshing, self._committing = threading.RLock(), threading.Lock()
        self._waiting: deque[tuple[Write, Future[int]]] = deque()
        self._compaction = BackgroundCompaction(self.path, self._present_segment)

    def _check_open(self) -> None:
        if self._is_closed:
            raise UnavailableError(f"{self.path} is closed; open it again")

    def _open(self) -> None:
        """Open what is at the path now, all of it of one version of the folder. On an error, keep what was open."""
        before, stores = None if self._identity is None else (self.store, self._view), list(self._stores)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            identity = self.folder.identity()
            try:
                store = self._open_store(writing=False)
                self._start(store, self._open_view(store))
                self._refresh()
                if identity == self.folder.identity():
                    self._identity, self._stores = identity, [store]  # others are closed with their last view
                    return
            except BaseException as error:  # perhaps because the folder was replaced meanwhile
                self._forget_stores(stores)
                if before is not None:
                    self._start(*before)
                    self._is_broken = True
                is_same = identity == self.folder.identity() and identity is not None
                is_final = is_same or self._is_closed or time.monotonic() > deadline
                if is_final or not isinstance(error, ClickvecError | OSError):
                    raise
                time.sleep(0.001)
            else:
                self._forget_stores(stores)

    def _forget_stores(self, kept: list[DocumentStore]) -> None:
        opened, self._stores = self._stores, list(kept)
        for store in opened[len(kept) :]:
            store.close()

    def _open_store(self, writing: bool) -> DocumentStore:
        store = DocumentStore.open(self.folder.documents, writing)
        self._stores.append(store)
        return store

    def _open_view(self, store: DocumentStore) -> View:
        while True:
            settings = self._tried = Settings.of(store.state())
            try:
                encoder = self._open_encoder(settings)
                return view_of_segment(store, encoder, settings, self.folder.open_segment(settings, encoder))
            except ClickvecError as error:
                if self._is_outdated(store):
                    continue
                if not (self._repairs and isinstance(error, DamagedSegmentError)):
                    raise
                _log.warning("%s", error)
                compact(self.path, settings.segment)

    def _open_encoder(self, settings: Settings) -> Encoder:
        """Return the given encoder, which must be that of the index when it is opened. Later, the model may change."""
        given, is_first = self._given, self._identity is None
        if given is not None and (is_first or given.fingerprint == settings.model):
            return self.folder.check_encoder(given, settings)
        return self.folder.open_encoder(settings)

    def _is_outdated(self, store: DocumentStore) -> bool:
        """Return whether what could not be opened is no longer in use, so that others may have removed it."""
        settings = Settings.of(store.state())
        return (settings.model, settings.segment) != (self._tried.model, self._tried.segment)

    # --- the view ------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """Return the present view. Every 0.2 s, one thread looks for changes, while others use the old view."""
        self._check_open()
        now = time.monotonic()
        if now - self._polled > POLL_SECONDS and self._refreshing.acquire(blocking=False):
            try:
                self._polled = now
                self.refresh()
            finally:
                self._refreshing.release()
        view = self._view
        try:
            view.segment.check()
        except DamagedSegmentError:
            if self._repairs:
                self._compaction.start(view.settings.segment)
            raise
        return view

    def refresh(self) -> None:
        """Let the view follow all changes that were made before this call."""
        self._check_open()
        with self._refreshing:
            while not self._reopen_if_replaced():
                try:
                    self._refresh()
                except ClickvecError:
                    if self.folder.identity() in (None, self._identity):
                        raise
                else:
                    return

    def _reopen_if_replaced(self) -> bool:
        """Open the index that has replaced this one, if there is one."""
        is_replaced = self.folder.identity() not in (None, self._identity)
        if is_replaced:
            self._open()
        return is_replaced

    def _refresh(self) -> None:
        for attempt in itertools.count(1):
            try:
                super().refresh()
            except ClickvecError:
                if attempt == ATTEMPTS or not self._is_outdated(self.store):
                    raise
            else:
                return

    def _first_view(self, settings: Settings) -> View:
        self._tried, view = settings, self._view
        encoder = view.encoder if settings.model == view.settings.model else self.folder.open_encoder(settings)
        is_same = (settings.model, settings.segment) == (view.settings.model, view.settings.segment)
        segment = view.segment if is_same else self.folder.open_segment(settings, encoder)
        return view_of_segment(self.store, encoder, settings, segment)

    def _present_segment(self) -> str:
        self.refresh()
        return self._view.settings.segment

    # --- changes -------------------------------------------------------------------------------------------------

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given."""
        every = list(documents)
        if is_bulk(len(every), self._view):
            return self._add_in_bulk(len(every), lambda _: every, progress)
        return self._change(lambda store: store.add(every))

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there. Return how many were given."""
        every = list(changes)
        if is_bulk(len(every), self._view):
            return self._add_in_bulk(len(every), lambda store: store.merged(every), progress, is_update=True)
        return self._change(lambda store: store.update(every))

    def _add_in_bulk(self, count: int, read: Read, progress: Progress | None, is_update: bool = False) -> int:
        self._rebuild(Task(size=count, read=read, is_update=is_update, progress=progress))
        return count

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""
        every = list(ids)
        return self._change(lambda store: store.delete(every))

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""

        def change(store: DocumentStore) -> int:
            store.set_state(**values)
            return 0

        self._change(change)

    def compact(self, progress: Progress | None = None) -> None:
        """Write a new segment of all documents, in this process."""
        self._rebuild(Task(progress=progress))

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> None:  # noqa: ANN401
        """Encode all titles with another model and use it from then on, together with other settings."""
        self._rebuild(Task(encoder, values, progress=progress))

    def _rebuild(self, task: Task) -> None:
        self._check_open()
        self._in_present_index(lambda store: rebuild(self.folder, store, task, self._view.encoder))
        self._follow()

    def _change(self, write: Write) -> int:
        """Make a change, in one transaction with those of other threads. Return what `write` returns."""
        self._check_open()
        future: Future[int] = Future()
        self._waiting.append((write, future))
        try:
            with self._committing:
                while not future.done():  # else another thread has made the change
                    self._commit_waiting()
        finally:
            with contextlib.suppress(ValueError):  # after an interrupt, nobody makes it
                self._waiting.remove((write, future))
        return future.result()

    def _commit_waiting(self) -> None:
        """Make changes that wait, and show them to the searches of this process before they are acknowledged."""
        together = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_TOGETHER))]
        try:
            results = self._in_present_index(lambda store: _commit(store, [write for write, _ in together]))
        except BaseException as error:
            for _, future in together:
                future.set_exception(error if isinstance(error, Exception) else UnavailableError("interrupted"))
            if not isinstance(error, Exception):
                raise
            return
        try:
            self._follow()
        finally:
            for (_, future), result in zip(together, results, strict=True):
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _in_present_index(self, change: Callable[[DocumentStore], Result]) -> Result:
        """Make a change of the index that is at the path now: again, if another one has replaced it meanwhile."""
        while True:
            self._check_open()
            with self._refreshing:
                self._reopen_if_replaced()
                if not self.store.is_writable:
                    self.store, self._version = self._open_store(writing=True), None
                store, identity = self.store, self._identity
            try:
                result = change(store)
            except (ClickvecError, OSError):
                if self.folder.identity() in (None, identity):
                    raise
            else:
                present = self.folder.identity()
                if present == identity:
                    return result
                if present is None:
                    raise UnavailableError(f"{self.path} was removed while it was changed; restore it")

    def _follow(self) -> None:
        """Show a change, which is durable, to the searches of this process."""
        try:
            self.refresh()
        except ClickvecError as error:
            _log.warning("%s", error)
        else:
            if is_due(self._view):
                self._compaction.start()

    def close(self) -> None:
        """Release everything. The index cannot be used any more."""
        self._is_closed = True
        self._compaction.stop()
        for store in self._stores:
            store.close()

    def copied(self) -> "LiveFolder":
        """Open the folder again."""
        return LiveFolder(self.path, repair=self._repairs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path."""
        return LiveFolder, (self.path, None, self._repairs)


def _commit(store: DocumentStore, writes: list[Write]) -> list[int | Exception]:
    """Make changes in one transaction. Return a result or an exception for each."""
    if len(writes) == 1:
        return [writes[0](store)]
    results: list[int | Exception] = []
    with store.transaction():
        for write in writes:
            try:
                with store.transaction():
                    results.append(write(store))
            except Exception as error:  # which must not undo the others
                results.append(error)
    return results


def _start_in_child() -> None:
    for folder in list(_opened):
        folder._start_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_child)
