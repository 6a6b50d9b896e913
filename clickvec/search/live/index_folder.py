"""The folder of an index.

    INDEX/
      index.json             {"format": 4}: the marker, written once
      documents.sqlite       the documents, which ones were deleted, and the settings: the only source of truth
      models/FINGERPRINT/    a copy of the model folder
      segments/NUMBER/       what is derived from the documents (see `segments/segment.py`)
      lock                   held by the process that builds a segment for a change
      compaction.lock        held by the process that compacts the index in the background

The settings name the model and the segment in use, and one transaction changes them. A folder in models/ or segments/
that they do not name is being built, or was left by a process that was killed. Then a later one removes it.
"""

import contextlib
import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.model import folder
from clickvec.model.encoder import BATCH_SIZE, Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.live.view import SEARCHES, Settings
from clickvec.search.segments.building import Plan, write_segment
from clickvec.search.segments.segment import Coverage, Segment, empty_segment, open_segment
from clickvec.storage import files, temporary
from clickvec.storage.lock import LOCK
from clickvec.storage.snapshot import open_folder

INDEX_FORMAT = 4
COMPACTION_LOCK = "compaction.lock"
MARKER, DOCUMENTS, MODELS, SEGMENTS = "index.json", "documents.sqlite", "models", "segments"
_FILES = (MARKER, DOCUMENTS, f"{DOCUMENTS}-wal", f"{DOCUMENTS}-shm", MODELS, SEGMENTS, LOCK, COMPACTION_LOCK)
_STALE_SECONDS = 3600  # what is not in use for so long, no process is about to take into use
_VERIFIED_BYTES = 256 * 2**20  # the weights of a smaller model are checked byte for byte


def check_index_output(path: Path, overwrite: bool) -> None:
    """Refuse to replace a folder that is not an index or holds other files, or an index without `overwrite`."""
    files.check_replaceable(path, MARKER, _FILES)
    if (path / MARKER).exists() and not overwrite:
        raise ClickvecError(
            f"{path} already holds an index; choose another folder, or overwrite it (--overwrite; overwrite=True)"
        )


def check_search(search: str) -> None:
    """Refuse an unknown kind of vector search."""
    if search not in SEARCHES:
        raise ClickvecError(f"search is {search!r}; it must be {', '.join(SEARCHES[:-1])} or {SEARCHES[-1]}")


def check_index(path: Path) -> None:
    """Raise if a folder is no index, or one of another version."""
    with open_folder(path, (MARKER,), "index folder") as opened:
        number = opened.json(MARKER).get("format")
    folder.check_format(number, INDEX_FORMAT, path, "index")
    if number != INDEX_FORMAT:
        raise UnavailableError(
            f"{path} has index format {number}, which is no longer read; build it again with: "
            "clickvec index MODEL CATALOGUE --out INDEX"
        )


def model_in(path: Path) -> Path:
    """Return the folder of the model of an index."""
    check_index(path)
    with DocumentStore.open(IndexFolder(path).documents) as store:
        return IndexFolder(path).inside(MODELS, Settings.of(store.state()).model)


def contents_of(path: Path) -> tuple[int, int, int, str]:
    """Return what changes when documents are added or deleted, or the model is replaced."""
    with DocumentStore.open(IndexFolder(path).documents) as store:
        return *store.contents(), Settings.of(store.state()).model


@contextlib.contextmanager
def new_folder(path: Path, overwrite: bool) -> Iterator["IndexFolder"]:
    """Yield a temporary folder that becomes the index folder `path` on success. On error, `path` is unchanged."""
    check_index_output(path, overwrite)
    with files.replacing(path, MARKER) as fresh:
        for name in (MODELS, SEGMENTS):
            (fresh / name).mkdir()
        yield IndexFolder(fresh, path)
        files.write_json(fresh / MARKER, {"format": INDEX_FORMAT})


def not_a_link(path: Path) -> Path:
    """Return the path. Raise if it is a link: the folder of a stranger must not lead anywhere else."""
    if path.is_symlink():
        raise UnavailableError(f"{path} is a link; replace it by what it leads to")
    return path


def regular(path: Path) -> Path:
    """Return the path. Raise if there is something else than a file."""
    if not_a_link(path).exists() and not path.is_file():
        raise UnavailableError(f"{path} is not a regular file")
    return path


class IndexFolder:
    """The files of an index folder beside the documents."""

    def __init__(self, path: Path, name: Path | None = None) -> None:
        """Use the folder at a path. Errors call it `name`, if it is still a temporary one."""
        self.path, self.name = path, name or path

    @property
    def documents(self) -> Path:
        """The path of the documents."""
        for ending in ("-wal", "-shm", "-journal"):  # SQLite would write to where a link leads, and wait for a pipe
            regular(self.path / f"{DOCUMENTS}{ending}")
        return regular(self.path / DOCUMENTS)

    def inside(self, parent: str, name: str = "") -> Path:
        """Return the path of a model or a segment, or of the folder that holds them."""
        return not_a_link(not_a_link(self.path / parent) / name)

    def _present(self, parent: str) -> list[Path]:
        """Return the models or segments that are there. A copy of the documents alone has no folder of segments."""
        path = self.inside(parent)
        path.mkdir(exist_ok=True)
        return list(path.iterdir())

    def identity(self) -> tuple[int, int] | None:
        """Return what tells the documents from those of another index that has replaced it; None if there is none.

        While the documents are open, no other file gets these numbers.
        """
        try:
            status = (self.path / DOCUMENTS).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    # --- models --------------------------------------------------------------------------------------------------

    def add_model(self, encoder: Encoder) -> str:
        """Copy a model into the folder, unless it is there, and return its fingerprint."""
        target = self.inside(MODELS, encoder.fingerprint)
        if encoder.fingerprint and target.exists():
            return encoder.fingerprint
        with temporary.temporary_folder(self.inside(MODELS, "new")) as unnamed:
            fingerprint = folder.write_model(encoder.model, unnamed)  # a model that was never saved gets one now
        with files.filling(self.inside(MODELS, fingerprint), self.name) as fresh:
            folder.write_model(encoder.model, fresh)
        return fingerprint

    def open_encoder(self, settings: Settings) -> Encoder:
        """Open the model in use."""
        path = self.inside(MODELS, settings.model)
        if not path.is_dir():
            raise UnavailableError(f"{path} is missing; restore a copy of the index or build it again")
        size = sum(file.stat().st_size for file in path.iterdir())
        encoder = Encoder(folder.open_model(path, verify=size <= _VERIFIED_BYTES), path.resolve())
        return self.check_encoder(encoder, settings, "the model in it")

    def check_encoder(self, encoder: Encoder, settings: Settings, whose: str = "the given encoder") -> Encoder:
        """Return the encoder. Raise if it is not the one that the index was built with."""
        if encoder.fingerprint != settings.model:
            raise UnavailableError(
                f"{self.path} is an index of another model: it was built with {settings.model}, but {whose} is "
                f"{encoder.fingerprint or 'one that was never saved'}; build the index again with that model"
            )
        return encoder

    # --- segments ------------------------------------------------------------------------------------------------

    def open_segment(self, settings: Settings, encoder: Encoder) -> Segment:
        """Open the segment in use. Raise `DamagedSegmentError` if it is damaged."""
        if not settings.segment:
            return empty_segment(encoder.dimensions, settings.vectors)
        path = self.inside(SEGMENTS, settings.segment)
        return open_segment(path, settings.segment_crc32, settings.model, encoder.dimensions)

    def write_segment(self, plan: Plan, fingerprint: str, progress: Progress | None = None) -> tuple[str, int]:
        """Write a new segment folder and return its name and checksum. It is not in use yet."""
        names = (entry.name for entry in self._present(SEGMENTS))
        numbers = [int(name[:6]) for name in names if re.match("[0-9]{6}", name)]
        name = f"{1 + max(numbers, default=0):06d}-{secrets.token_hex(4)}"  # another process may build one too
        with files.filling(self.inside(SEGMENTS, name), self.name) as fresh:
            return name, write_segment(plan, fresh, fingerprint, progress)

    def plan(self, store: DocumentStore, settings: Settings, encoder: Encoder, old: Segment | None = None) -> Plan:
        """Return the plan of a segment with all present documents. Use it within one read of the store."""
        last_seq, last_deletion = store.last()
        return Plan(
            lambda: store.blocks(0, BATCH_SIZE, last_seq), len(store), Coverage(last_seq, last_deletion), encoder,
            settings.vectors, settings.search, old,
        )  # fmt: skip

    def clean(self, settings: Settings, names: Collection[str]) -> None:
        """Remove models and segments of these names, and what killed processes have left, unless it is in use.

        Processes that have opened a segment keep their maps.
        """
        for parent, used in ((MODELS, settings.model), (SEGMENTS, settings.segment)):
            for entry in self._present(parent):
                if entry.name.startswith("."):
                    temporary.remove_leftovers(self.path / parent / entry.name[1:].rsplit(".", 2)[0])
                elif entry.name != used:
                    is_stale = time.time() - entry.lstat().st_mtime > _STALE_SECONDS
                    if is_stale or entry.name in names:
                        shutil.rmtree(entry, ignore_errors=True)


def write_index(
    path: Path,
    encoder: Encoder,
    documents: Iterable[Document],
    settings: Settings,
    overwrite: bool,
    progress: Progress | None = None,
    known: Segment | None = None,
) -> None:
    """Write a new index folder atomically. The vectors of the first documents may be known already."""
    with new_folder(path, overwrite) as folder:
        fingerprint = folder.add_model(encoder)
        store = DocumentStore.create(folder.documents)
        try:
            store.add(documents)
            settings = settings._replace(model=fingerprint, segment="", segment_crc32=0)
            if len(store):
                plan = folder.plan(store, settings, encoder, known)
                name, crc32 = folder.write_segment(plan, fingerprint, progress)
                settings = settings._replace(segment=name, segment_crc32=crc32)
            store.set_state(**settings._asdict())
        finally:
            store.close()
