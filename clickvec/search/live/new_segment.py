"""Build a new segment outside of the transaction that takes it into use.

This takes minutes for a million titles, and changes go on meanwhile. The transaction checks that the index still has
the model, the fusion and the segment that the new one was built for; otherwise the segment is built again. Documents
that were added since are in the delta of the new segment, as they were in that of the old one.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.model.encoder import BATCH_SIZE, Encoder
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_rows import check_documents
from clickvec.search.documents.document_store import DocumentStore, Seqs
from clickvec.search.live.index_folder import MODELS, SEGMENTS, IndexFolder
from clickvec.search.live.view import Settings
from clickvec.search.segments.building import Block, Plan
from clickvec.search.segments.segment import Coverage
from clickvec.storage.lock import Lock, lock_holder, take_lock

_RETRY_SECONDS = 0.05
ATTEMPTS = 5  # to build a segment before others change what it is built for

Read = Callable[[DocumentStore], list[Document]]


class OutdatedError(UnavailableError):
    """The index has another model, fusion or segment than those that a new segment was built for."""


class Added(NamedTuple):
    """Documents that are added by the transaction that takes the segment with them into use."""

    documents: list[Document]
    first: int  # the first of the sequence numbers that are reserved for them
    replaced: Seqs  # the sequence numbers of those with the same ids, when the segment was built


class NewSegment(NamedTuple):
    """A segment that is not in use yet."""

    built_for: Settings
    model: str
    name: str
    crc32: int
    last_deletion: int
    added: Added | None


class Task(NamedTuple):
    """What a new segment is built for."""

    encoder: Encoder | None = None  # another model than that of the index
    values: Mapping[str, Any] = MappingProxyType({})  # other settings of the index from then on
    damaged: str = ""  # the segment in use, if it is damaged: encode all titles again, unless others have replaced it
    size: int = 0  # how many documents are added
    read: Read | None = None  # returns them
    is_update: bool = False  # what `read` returns depends on the documents that they replace
    progress: Progress | None = None


def rebuild(
    folder: IndexFolder,
    store: DocumentStore,
    task: Task,
    present: Encoder | None = None,
    is_background: bool = False,
) -> None:
    """Build a new segment and take it into use.

    `present` may be the model of the index, so that it need not be opened again. Wait for others who build one, because
    two would make each other outdated. Only a compaction in the background neither waits nor is waited for.
    """
    with contextlib.nullcontext() if is_background else _wait_for_lock(folder.path, task.progress or ignore):
        for attempt in itertools.count(1):
            if task.damaged and Settings.of(store.state()).segment != task.damaged:
                return
            try:
                new = _build(folder, store, task, present)
                _take_into_use(folder, store, new, task)
            except OutdatedError:
                if attempt == ATTEMPTS:
                    raise
            else:
                return


def compact(path: Path, damaged: str = "", progress: Progress | None = None, is_background: bool = False) -> None:
    """Build a new segment of all documents of an index that this process has not opened."""
    folder = IndexFolder(path)
    with DocumentStore.open(folder.documents, writing=True) as store:
        rebuild(folder, store, Task(damaged=damaged, progress=progress), is_background=is_background)


def _wait_for_lock(path: Path, progress: Progress) -> Lock:
    while (lock := take_lock(path)) is None:
        progress(f"waiting for {lock_holder(path)}", 0, None)
        time.sleep(_RETRY_SECONDS)
    return lock


def _build(folder: IndexFolder, store: DocumentStore, task: Task, present: Encoder | None) -> NewSegment:
    if task.read is None:
        store.check_pages()  # opening a large file did not
    first = store.reserve(task.size) if task.read else 0
    settings = Settings.of(store.state())
    try:
        with store.reading():
            settings = Settings.of(store.state())
            added = None
            if task.read:
                documents = task.read(store)
                check_documents(documents)
                added = Added(documents, first, store.seqs_of(document.id for document in documents))
            if task.encoder is not None:
                encoder, fingerprint, old = task.encoder, folder.add_model(task.encoder), None
            else:
                is_present = present is not None and present.fingerprint == settings.model
                encoder = present if present is not None and is_present else folder.open_encoder(settings)
                fingerprint, old = settings.model, None if task.damaged else folder.open_segment(settings, encoder)
                if old is not None:
                    old.check(wait=True)  # damage must not be copied
            plan = folder.plan(store, settings, encoder, old)
            if added:
                plan = _with_added(plan, store, added)
            name, crc32 = folder.write_segment(plan, fingerprint, task.progress)
    except ClickvecError:
        if _basis(Settings.of(store.state())) != _basis(settings):
            raise _outdated(folder) from None  # others have removed what is no longer in use
        raise
    return NewSegment(settings, fingerprint, name, crc32, plan.coverage.deletion, added)


def _with_added(plan: Plan, store: DocumentStore, added: Added) -> Plan:
    """Return the plan of a segment with the documents before the reserved numbers, and those that get them.

    What was added after the reservation is left to the delta.
    """
    last = added.first + len(added.documents) - 1
    count = len(store) - store.count_after(last) - len(added.replaced[added.replaced < added.first])

    def blocks() -> Iterator[Block]:
        for seqs, documents in store.blocks(0, BATCH_SIZE, added.first - 1):
            at = np.searchsorted(added.replaced, seqs)
            kept = np.flatnonzero(np.append(added.replaced, -1)[at] != seqs)
            if len(kept):
                yield seqs[kept], [documents[row] for row in kept.tolist()]
        for start in range(0, len(added.documents), BATCH_SIZE):
            some = added.documents[start : start + BATCH_SIZE]
            yield np.arange(added.first + start, added.first + start + len(some)), some

    coverage = Coverage(last, plan.coverage.deletion)
    return plan._replace(blocks=blocks, title_count=count + len(added.documents), coverage=coverage)


def _take_into_use(folder: IndexFolder, store: DocumentStore, new: NewSegment, task: Task) -> None:
    """Use a new segment from now on. Remove what it replaces, or the segment itself on an error."""
    try:
        if task.encoder is not None and not folder.inside(MODELS, new.model).is_dir():
            folder.add_model(task.encoder)  # others have removed it, because it was not in use for long
        with store.transaction():
            before = Settings.of(store.state())
            is_there = folder.inside(MODELS, new.model).is_dir() and folder.inside(SEGMENTS, new.name).is_dir()
            if _basis(before) != _basis(new.built_for) or not is_there:
                raise _outdated(folder)
            if new.added:
                documents, first, replaced = new.added
                ids = (document.id for document in documents)
                if task.is_update and not np.array_equal(store.seqs_of(ids), replaced):
                    raise _outdated(folder)
                store.add(documents, first)
            store.set_state(model=new.model, segment=new.name, segment_crc32=new.crc32, **task.values)
            store.forget_deletions(new.last_deletion)
    except BaseException:
        with contextlib.suppress(ClickvecError, OSError):
            _clean(folder, store, new.name)  # unless it is in use: an interrupt may come after the commit
        raise
    with contextlib.suppress(ClickvecError, OSError):
        _clean(folder, store, before.model, before.segment)


def _clean(folder: IndexFolder, store: DocumentStore, *names: str) -> None:
    """Remove models and segments unless they are in use, in a transaction: nobody takes them into use meanwhile."""
    with store.transaction():
        folder.clean(Settings.of(store.state()), names)


def _basis(settings: Settings) -> tuple[object, ...]:
    return settings.model, settings.segment, settings.fusion


def _outdated(folder: IndexFolder) -> OutdatedError:
    return OutdatedError(
        f"{folder.path} has got another segment meanwhile, {ATTEMPTS} times in a row; try again when fewer others "
        "change it"
    )
