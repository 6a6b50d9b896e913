"""The changes that the writer of an index makes, each within a transaction of the documents.

A change is a message: {"change": "add", "documents": [[id, title, payload], ...]}, {"change": "update", ...} likewise
with some fields of them, {"change": "delete", "ids": [...]}, {"change": "state", "state": {...}}, or
{"change": "swap", ...}, which takes a new segment into use (compaction.py).
"""

import json
from collections.abc import Sequence
from itertools import starmap
from typing import Any

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.documents.document_rows import duplicate_id
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.live.compaction import Swap
from clickvec.search.live.index_folder import MODELS, SEGMENTS, IndexFolder
from clickvec.search.live.live_index import is_bulk
from clickvec.search.live.view import Settings, View
from clickvec.storage.messages import MOST_BYTES

MOST_IN_MESSAGE = 10_000  # documents: as many as a request to the service may have


def apply_change(store: DocumentStore, folder: IndexFolder, view: View, message: dict[str, Any]) -> object:
    """Make a change and return how many documents it concerns, if it concerns any. `view` is the present one."""
    match message.get("change"):
        case "add" | "update" as change:
            rows = message["documents"]
            count = store.add(starmap(Document, rows)) if change == "add" else store.update(starmap(Change, rows))
            if is_bulk(count, view):
                _build_segment(store, folder, view, message.get("progress"))
            return count
        case "delete":
            return store.delete(message["ids"])
        case "state":
            store.set_state(**message["state"])
            return None
        case "swap":
            take_into_use(store, folder, message)
            return None
    raise ClickvecError(f"the writer does not know the change {message.get('change')!r}; update clickvec")


def in_parts(documents: Sequence[Document | Change]) -> list[list[Document | Change]]:
    """Split documents into messages to the writer, each of which is added as a whole.

    Raise ClickvecError if a payload is not JSON, or if an id occurs twice, before anything is sent.
    """
    parts, size, ids = [list[Document | Change]()], 0, set[str]()
    for document in documents:
        if str(document.id) in ids:
            raise duplicate_id(str(document.id))
        ids.add(str(document.id))
        try:
            length = len(json.dumps(document, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ClickvecError(f"the payload of the id {document.id!r} is not JSON: {error}") from None
        if parts[-1] and (len(parts[-1]) == MOST_IN_MESSAGE or size + length > MOST_BYTES // 2):
            parts.append([])
            size = 0
        parts[-1].append(document)
        size += length
    return parts if parts[-1] else []


def take_into_use(store: DocumentStore, folder: IndexFolder, swap: Swap) -> None:
    """Use a new segment from now on, unless another one has replaced the segment that it was built from."""
    state = swap["state"]
    for parent, name in ((MODELS, state["model"]), (SEGMENTS, state["segment"])):
        if not (folder.path / parent / name).is_dir():
            raise UnavailableError(f"{folder.path / parent / name} is missing; build it again")
    with store.transaction():
        if Settings.of(store.state()).segment != swap["replaces"]:
            folder.remove(SEGMENTS, state["segment"])
            raise UnavailableError(f"{folder.path} has got another segment meanwhile; build it again")
        store.set_state(**state)
        store.forget_deletions(swap["last_deletion"])


def _build_segment(store: DocumentStore, folder: IndexFolder, view: View, progress: Progress | None) -> None:
    """Build a segment of all documents, also of those that are not committed yet."""
    settings = Settings.of(store.state())
    view.segment.check(wait=True)  # damage must not be copied
    plan = folder.plan(store, settings, view.encoder, view.segment)
    name, crc32 = folder.write_segment(plan, settings.model, progress)
    store.set_state(segment=name, segment_crc32=crc32)
    store.forget_deletions(plan.coverage.deletion)
