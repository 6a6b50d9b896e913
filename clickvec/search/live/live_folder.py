"""A live index on disk.

Any process may search. The first that changes something becomes the writer, until it closes the index or ends, and
other processes hand their changes to it. A search looks for changes of other processes at most every 0.2 s.
"""

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.live.changes import apply_change, in_parts, take_into_use
from clickvec.search.live.compaction import BackgroundCompaction, build_segment
from clickvec.search.live.index_folder import MODELS, SEGMENTS, IndexFolder
from clickvec.search.live.live_index import Live, is_due, view_of_segment
from clickvec.search.live.view import Settings, View
from clickvec.search.live.writer import (
    ChangeServer,
    Lock,
    NoWriterError,
    lock_holder,
    send_changes,
    serve_changes,
    take_lock,
)
from clickvec.search.segments.segment import DamagedSegmentError
from clickvec.storage.snapshot import PATIENCE_SECONDS

POLL_SECONDS = 0.2
_ATTEMPTS = 5
_log = logging.getLogger(__name__)


class LiveFolder(Live):
    """The documents of an index folder, and the present view of them."""

    def __init__(
        self, path: Path, encoder: Encoder | None = None, writing: bool = False, searching: bool = True
    ) -> None:
        """Open an index folder. If `writing`, become the writer at once, and build what is damaged again.

        If not `searching`, this process only writes: its view follows the changes later.
        """
        self.path, self.folder, self._given, self._is_searching = path, IndexFolder(path), encoder, searching
        self._refreshing, self._writing = threading.RLock(), threading.RLock()
        self._polled, self._pid, self._stores = time.monotonic(), os.getpid(), list[DocumentStore]()
        self._process = self._pid
        self._must_follow = False  # the commit has changed more than documents
        self._lock: Lock | None = None
        self._server: ChangeServer | None = None
        self._compaction = BackgroundCompaction(path, self._submit)
        if writing and (lock := take_lock(path)):
            self._lock = lock
        elif writing:
            raise UnavailableError(f"{path} is already open for writing, by {lock_holder(path)}; open it for reading")
        try:
            self._open(writing)
            if writing:
                self._start_server()
        except BaseException:
            self.close()
            raise

    def _open(self, writing: bool) -> None:
        """Open what is at the path now, all of it of one version of the folder."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._identity = self.folder.identity()
            try:
                store = self._open_store(writing)
                self._start(store, self._open_view(store, writing))
            except (ClickvecError, OSError):  # perhaps because the folder was replaced meanwhile
                is_same = self._identity == self.folder.identity() and self._identity is not None
                if is_same or time.monotonic() > deadline:
                    raise
                time.sleep(0.001)
            else:
                if self._identity == self.folder.identity():
                    self._stores = [store]  # others are closed with the last view that reads them
                    return
                store.close()

    def _open_store(self, writing: bool) -> DocumentStore:
        store = DocumentStore.open(self.folder.documents, writing)
        self._stores.append(store)
        return store

    def _open_view(self, store: DocumentStore, writing: bool) -> View:
        while True:
            settings = Settings.of(store.state())
            if self._given is None:
                encoder = self.folder.open_encoder(settings)
            else:
                encoder = self.folder.check_encoder(self._given, settings)
            try:
                return view_of_segment(store, encoder, settings, self.folder.open_segment(settings, encoder))
            except DamagedSegmentError as error:
                if Settings.of(store.state()).segment != settings.segment:
                    continue  # the writer has just replaced it
                if not writing:
                    raise
                _log.warning("%s", error)
                take_into_use(store, self.folder, build_segment(self.path, is_fresh=True))

    # --- the view ------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """Return the present view. Every 0.2 s, one thread looks for changes, while others use the old view."""
        now = time.monotonic()
        if now - self._polled > POLL_SECONDS and self._refreshing.acquire(blocking=False):
            try:
                self._polled = now
                is_reader = not self.is_writer
                if is_reader and self.folder.identity() not in (None, self._identity):
                    self._open(writing=False)  # another index has replaced it
                elif is_reader or self._is_broken:
                    self.refresh()
            finally:
                self._refreshing.release()
        view = self._view
        try:
            view.segment.check()
        except DamagedSegmentError:
            if self.is_writer:
                self._compaction.start(is_fresh=True)
            raise
        return view

    def refresh(self) -> None:
        """Let the view follow all changes that were made before this call."""
        if os.getpid() != self._process:  # in a forked process, the version of the store is counted anew
            self._process, self._version = os.getpid(), None
        for attempt in itertools.count(1):
            try:
                super().refresh()
            except DamagedSegmentError:
                if attempt >= _ATTEMPTS or self._tried == Settings.of(self.store.state()).segment:
                    raise  # else the writer has just replaced it
            else:
                return

    def _first_view(self, settings: Settings) -> View:
        self._tried = settings.segment
        view = self._view
        encoder = view.encoder if settings.model == view.settings.model else self.folder.open_encoder(settings)
        is_same = (settings.model, settings.segment) == (view.settings.model, view.settings.segment)
        segment = view.segment if is_same else self.folder.open_segment(settings, encoder)
        return view_of_segment(self.store, encoder, settings, segment)

    # --- the writer ----------------------------------------------------------------------------------------------

    @property
    def is_writer(self) -> bool:  # type: ignore[override]
        """Whether this process takes the changes of all processes."""
        return self._server is not None and self._pid == os.getpid()

    def _submit(self, message: dict[str, Any]) -> Any:  # noqa: ANN401
        """Make a change as the writer, become the writer, or hand the change to it."""
        while True:
            with self._writing:
                if not self.is_writer:
                    self._become_writer()
                server = self._server if self.is_writer else None
            if server is not None:
                return server.submit(message)
            with contextlib.suppress(NoWriterError):
                try:
                    result = send_changes(self.path, message)
                except (TypeError, ValueError, RecursionError) as error:
                    raise ClickvecError(f"a payload is not JSON: {error}") from None
                self.refresh()
                return result

    def _become_writer(self) -> None:
        lock = take_lock(self.path)
        if lock is None:
            return
        self._lock = lock
        try:
            with self._refreshing:
                if self.folder.identity() != self._identity:
                    self._open(writing=True)
                else:
                    self.store, self._version = self._open_store(writing=True), None
                self.refresh()
            self._start_server()
        except BaseException:
            self._stop_writing()
            raise

    def _start_server(self) -> None:
        self._pid = os.getpid()
        self.folder.clean(self._view.settings)
        self._server = serve_changes(self.path, self._apply, self.store.transaction, self._committed)

    def _stop_writing(self) -> None:
        server, self._server = self._server, None
        lock, self._lock = self._lock, None
        self._compaction.stop()
        if server is not None:
            server.close()
        if lock is not None:
            lock.close()

    def _apply(self, message: dict[str, Any]) -> object:
        if message.get("change") not in ("add", "update", "delete"):
            self._must_follow = True
        return apply_change(self.store, self.folder, self._view, message)

    def _committed(self) -> None:
        """Show the changes of a commit to the searches of this process, before they are acknowledged.

        Without searches, the view only tells when to compact: it follows other changes than documents, and every 0.2 s.
        """
        now = time.monotonic()
        if not (self._is_searching or self._must_follow) and now - self._polled < POLL_SECONDS:
            return
        self._polled, self._must_follow = now, False
        before = self._view.settings
        try:
            self.refresh()
        except ClickvecError as error:  # the changes are durable all the same
            _log.warning("%s", error)
            return
        after = self._view.settings
        for parent, old, new in ((MODELS, before.model, after.model), (SEGMENTS, before.segment, after.segment)):
            if old != new:
                self.folder.remove(parent, old)
        self._compact_if_due()

    # --- changes -------------------------------------------------------------------------------------------------

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given."""
        return self._change_documents("add", list(documents), progress)

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there. Return how many were given."""
        return self._change_documents("update", list(changes), progress)

    def _change_documents(self, change: str, every: Sequence[Document | Change], progress: Progress | None) -> int:
        with self._writing:
            if not self.is_writer:
                self._become_writer()
        if self.is_writer:
            return int(self._submit({"change": change, "documents": every, "progress": progress}))
        done = 0
        for part in in_parts(every):
            try:
                done += int(self._submit({"change": change, "documents": part}))
            except ClickvecError as error:
                if not done:
                    raise
                told = f"the first {done:,} of {len(every):,} documents were changed, and then: {error}"
                raise type(error)(f"{told}. Send all of them again") from error
        return done

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""
        return int(self._submit({"change": "delete", "ids": list(ids)}))

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""
        self._submit({"change": "state", "state": values})

    def compact(self, progress: Progress | None = None) -> None:
        """Write a new segment of all documents, in this process."""
        self._submit(build_segment(self.path, progress=progress))

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> None:  # noqa: ANN401
        """Encode all titles with another model and use it from then on, together with other settings."""
        swap = build_segment(self.path, encoder, progress=progress)
        self._submit(swap | {"state": swap["state"] | values})

    def _compact_if_due(self) -> None:
        if is_due(self._view):
            self._compaction.start()

    def close(self) -> None:
        """Release everything. The index cannot be used any more."""
        self._stop_writing()
        for store in self._stores:
            store.close()

    def copied(self) -> "LiveFolder":
        """Open the folder again."""
        return LiveFolder(self.path, self._given)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path."""
        return LiveFolder, (self.path,)
