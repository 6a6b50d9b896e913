"""Index: the titles of a catalogue, to search by words and vectors while they change.

`live/index_folder.py` describes the folder of an index. Titles with the same words get the same score.
"""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from clickvec.data.parsing.given_table import has_columns, table_name
from clickvec.errors import ClickvecError, check_type
from clickvec.model.encoder import Encoder
from clickvec.model.shrink import check_vector_type
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.documents.given_documents import Given, changes_of, documents_of
from clickvec.search.engines.address import is_address
from clickvec.search.engines.engine_opening import create_at, open_address
from clickvec.search.fusion import Fusion, fusion_settings
from clickvec.search.hits import Hit
from clickvec.search.live.index_folder import check_index, check_index_output, check_search, write_index
from clickvec.search.live.live_folder import LiveFolder
from clickvec.search.live.live_index import Live
from clickvec.search.live.view import Settings, View
from clickvec.search.searchable import Searchable
from clickvec.search.segments.segment import vectors_alone
from clickvec.search.view_protocol import LiveDocuments

__all__ = ["Change", "Document", "Hit", "Index", "check_index_output"]


class Index(Searchable):
    """Searchable titles. Iteration yields their documents in insertion order; a replaced document moves to the end.

    Threads may share an index, and search while others change it. An index in memory can be pickled and copied; the
    pickle of an index on disk holds its path.
    """

    def __init__(self, live: LiveDocuments) -> None:
        """Use `build`, `create` or `open`."""
        if isinstance(live, str | PathLike | Encoder):
            raise ClickvecError("an index is made by Index.build or Index.create, and opened by Index.open(path)")
        self._live = live

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        documents: Given | None = None,
        *,
        ids: Iterable[str | int] | None = None,
        titles: Iterable[str] | None = None,
        payloads: Iterable[Any] | None = None,
        progress: Progress | None = None,
        vectors: str = "float32",
    ) -> "Index":
        """Make an index in memory. `vectors` is the number format of the vectors: float32 or int8.

        A document is a `Document`, or a dict with the columns of a catalogue: an id (id, doc_id, sku, ...), a title,
        and further ones, which become the payload. Or give lists by keyword: `ids`, `titles`, and `payloads` of any
        values that JSON has. If no document has an id, or documents are plain titles, they are called "0", "1", ...

        Ids may be str or int and are returned as they were given. All ids must differ as text, so 7 and "7" cannot be
        in one index.
        """
        check_vector_type(vectors)
        _check_encoder(encoder)
        given = documents_of(documents, ids, titles, payloads, numbered=True)
        return cls(Live.in_memory(encoder, given, vectors, progress))

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: Encoder,
        documents: Given | None = None,
        *,
        ids: Iterable[str | int] | None = None,
        titles: Iterable[str] | None = None,
        payloads: Iterable[Any] | None = None,
        overwrite: bool = False,
        vectors: str = "float32",
        search: str = "auto",
        progress: Progress | None = None,
    ) -> "Index":
        """Create an index, which appears as a whole, with a copy of the model, and open it.

        `path` is a folder or the address of a database (see `engines/address.py`).

        Documents are given as to `build`. They are read once, and memory does not grow with their number. Replace an
        existing index only with `overwrite`. `search` is exact, approximate, or auto: approximate for more than 100,000
        titles.
        """
        check_vector_type(vectors)
        check_search(search)
        check_type("path", path, (str, PathLike), "the folder of the index, and the encoder after it")
        _check_encoder(encoder)
        given = documents_of(documents, ids, titles, payloads, numbered=True)
        if isinstance(path, str) and is_address(path):
            create_at(path, encoder, given, overwrite, vectors, search, progress)
            return cls.open(path, encoder if encoder.fingerprint else None)
        settings = Settings(vectors=vectors, search=search, **fusion_settings(encoder.model))
        write_index(Path(path), encoder, given, settings, overwrite, progress)
        return cls.open(path, encoder if encoder.fingerprint else None)

    @classmethod
    def open(cls, path: str | Path, encoder: Encoder | None = None, repair: bool = False) -> "Index":
        """Open an index folder, or the index at the address of a database.

        With an `encoder` of the same model, the model in the index is not loaded.

        Every process may change the index; changes at the same time wait for each other. Damaged files are refused;
        with `repair`, those that are derived from the documents are built again.
        """
        check_type("path", path, (str, PathLike), "the folder of an index, or its address")
        if isinstance(path, str) and is_address(path):
            return cls(open_address(path, encoder, repair))
        check_index(Path(path))
        return cls(LiveFolder(Path(path), encoder, repair))

    def save(self, path: str | Path, overwrite: bool = False, progress: Progress | None = None) -> None:
        """Write the titles as a new index folder, atomically. Replace an existing index only with `overwrite`."""
        with self._live.reading():
            self._live.refresh()
            view = self._live.view()
            if not isinstance(view, View):  # in a database
                settings = Settings(fusion=view.fusion.as_json(), fusion_report=view.fusion_report)
                write_index(Path(path), view.encoder, view.documents, settings, overwrite, progress)
                return
            view.segment.check(wait=True)
            vectors, scales = view.live_vectors()
            known = vectors_alone(np.arange(1, len(vectors) + 1), vectors, scales)
            write_index(Path(path), view.encoder, view.documents, view.settings, overwrite, progress, known)

    # --- changes -------------------------------------------------------------------------------------------------

    def add(
        self,
        documents: Given | None = None,
        *,
        ids: Iterable[str | int] | None = None,
        titles: Iterable[str] | None = None,
        payloads: Iterable[Any] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Add documents, replacing those with the same id as a whole. Return how many were given.

        They are given as to `build`, and each needs an id. They are durable and found by this process when this
        returns, and found by other processes within a second. Either all of them are added or, on an error, none.
        """
        return self._live.add(documents_of(documents, ids, titles, payloads, numbered=False), progress)

    def update(self, changes: Iterable[Change | Mapping[str, Any]], progress: Progress | None = None) -> int:
        """Change fields of documents that are there, as in [{"id": "a17", "price": 9.5}]. Return how many were given.

        A dict has an id, and new values of the title or of fields of the payload. None removes a field; fields that are
        not given stay. An unknown id is an error, and then nothing is changed. Changes of other fields at the same time
        are kept.
        """
        return self._live.update(changes_of(changes), progress)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete titles by id. Return how many of the ids existed."""
        if has_columns(ids):
            raise ClickvecError(f"{table_name(ids)} is a table; give only its ids, as in table['id']")
        if isinstance(ids, str | int):
            raise ClickvecError(f"ids must be a list, not the single {type(ids).__name__} {ids!r}")
        return self._live.delete(list(ids))

    def use_fusion(
        self, fusion: Fusion, k1: float | None = None, b: float | None = None, report: dict[str, Any] | None = None
    ) -> None:
        """Fuse words and vectors in this way from now on, with these constants of BM25.

        `report` says how the fusion was chosen, as `fusion_report` has it.
        """
        constants = {name: value for name, value in (("k1", k1), ("b", b)) if value is not None}
        self._live.set_state(**_checked({"fusion": fusion.as_json(), "fusion_report": report, **constants}))

    def use_model(
        self,
        encoder: Encoder,
        fusion: Fusion | None = None,
        progress: Progress | None = None,
        report: dict[str, Any] | None = None,
    ) -> None:
        """Encode all titles with another model, then use it and the fusion from one moment on.

        Without a fusion, the one that training has chosen for the model is used, or the default. `report` says how
        the fusion was chosen.
        """
        chosen = {"fusion": fusion.as_json(), "fusion_report": report} if fusion else fusion_settings(encoder.model)
        self._live.use_model(encoder, progress, **_checked(chosen))

    def compact(self, progress: Progress | None = None) -> None:
        """Write everything that is derived from the documents again. This happens by itself after many changes."""
        self._live.compact(progress)

    def refresh(self) -> None:
        """Find all changes that other processes have made before this call."""
        self._live.refresh()

    def close(self) -> None:
        """Close the files. The index cannot be used any more."""
        self._live.close()

    def __enter__(self) -> "Index":
        """Return the index."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the index."""
        self.close()

    def __copy__(self) -> "Index":
        """Return an independent copy. The copy of an index on disk opens the same folder."""
        return type(self)(self._live.copied())

    def __deepcopy__(self, memo: dict[int, Any]) -> "Index":
        """Do the same."""
        return self.__copy__()


def _check_encoder(encoder: Encoder) -> None:
    if not hasattr(encoder, "encode_document"):
        check_type("encoder", encoder, Encoder, 'what clickvec.train returns, or clickvec.Encoder.load("MODEL")')


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings for an index. Raise if one is not valid: the index could not be opened any more."""
    if name := Settings(**values).invalid():
        raise ClickvecError(f"{name} cannot be {values[name]!r:.100}; nothing was changed")
    return values
