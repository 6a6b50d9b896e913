"""Index folders of the formats 1 to 3, which earlier versions wrote. They can be searched, but not changed.

Such a folder holds
    index.json              format, count, dimensions, the fingerprint of the model, the size of each file
    vectors.npy             float32 (titles, dimensions); or int8 or float16 (format 2)
    scales.npy              float32 (titles,): the factor that scales each int8 or float16 vector to length 1
    documents.jsonl         one JSON object per line: id, title and, if there is one, payload
    documents.offsets.npy   int64: the offset of each line, and the end of the last one
    model/                  a copy of the model folder
Format 3 has integer ids. The words are indexed in memory when they are first needed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from clickvec.errors import UnavailableError
from clickvec.model import folder, shrink
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.search.live.delta import Delta
from clickvec.search.live.view import Settings, View
from clickvec.search.payload.fields import Fields
from clickvec.search.segments.segment import Coverage, Segment
from clickvec.storage.arrays import map_file
from clickvec.storage.json_files import parse_json
from clickvec.storage.snapshot import Snapshot, open_folder

OLD_FORMAT = 3  # the newest of them
_MARKER = "index.json"
_FILES = (
    _MARKER, "vectors.npy", "scales.npy", "documents.jsonl", "documents.offsets.npy",
    *(f"model/{name}" for name in folder.MODEL_FILES),
)  # fmt: skip


class OldDocuments:
    """The documents of an old folder, as memory-mapped lines of JSON. Their sequence numbers are their positions."""

    def __init__(self, opened: Snapshot, count: int) -> None:
        """Map the lines of an open folder."""
        self._offsets = opened.array("documents.offsets.npy", "int64", (count + 1,))
        self._lines = np.asarray(map_file(opened.file("documents.jsonl")))
        if self._offsets[0] != 0 or self._offsets[-1] != len(self._lines):
            raise UnavailableError(
                f"{opened.path}/documents.jsonl and documents.offsets.npy disagree; build the index again"
            )

    def get(self, seqs: Sequence[int]) -> dict[int, Document]:
        """Return documents by sequence number. Only their lines are parsed."""
        return {seq: self._document(seq) for seq in seqs}

    def find(self, doc_id: str | int) -> int | None:
        """Return the sequence number of an id, or None. 7 and "7" are the same id.

        This compares the beginnings of the lines, which is far faster than parsing them.
        """
        text = str(doc_id)
        ids = {json.dumps(text, ensure_ascii=False), json.dumps(text)}  # a line may escape it
        if re.fullmatch("0|-?[1-9][0-9]*", text, re.ASCII):
            ids.add(text)
        beginnings = (f'{{"id": {value}, "title": '.encode("utf-8", "surrogatepass") for value in ids)
        for match in re.finditer(b"|".join(map(re.escape, beginnings)), self._lines.data):
            position = int(np.searchsorted(self._offsets, match.start()))
            if self._offsets[position] == match.start():  # and not within a payload
                return position
        return None

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in insertion order."""
        return map(self._document, range(len(self._offsets) - 1))

    def _document(self, position: int) -> Document:
        try:
            value = parse_json(self._lines[self._offsets[position] : self._offsets[position + 1]].tobytes())
            if type(value["id"]) not in (str, int) or type(value["title"]) is not str:
                raise TypeError
            return Document(value["id"], value["title"], value.get("payload"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnavailableError(
                f"documents.jsonl is damaged at line {position + 1}; build the index again"
            ) from None


def open_old_view(path: Path, encoder: Encoder | None = None) -> View:
    """Open an index folder of an old format. With an `encoder` of the same model, the model in it is not loaded."""
    with open_folder(path, _FILES, "index folder") as opened:
        about = opened.json(_MARKER)
        folder.check_format(about.get("format"), OLD_FORMAT, opened.path, "index")
        try:
            count, dimensions = int(about["count"]), int(about["dimensions"])
            fingerprint, vector_type = str(about["fingerprint"]), about.get("vectors", "float32")
            if vector_type not in shrink.READABLE_VECTOR_TYPES or count < 0:
                raise ValueError(f"vectors: {vector_type!r}" if count >= 0 else f"count: {count}")
            opened.check(about["files"], _MARKER)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UnavailableError(f"{path}/{_MARKER} lacks or misspells {error}; build the index again") from None
        own, whose = opened.folder("model"), "the model in it" if encoder is None else "the given encoder"
        encoder = encoder or Encoder(folder.read_model(own), own.path.resolve())
        if encoder.fingerprint != fingerprint:
            raise UnavailableError(
                f"{path} is an index of another model: it was built with {fingerprint}, but {whose} is "
                f"{encoder.fingerprint or 'one that was never saved'}; build the index again with that model"
            )
        if dimensions != encoder.dimensions:
            raise UnavailableError(
                f"{path}/{_MARKER} says {dimensions} dimensions, but its model has {encoder.dimensions}"
            )
        vectors = opened.array("vectors.npy", vector_type, (count, dimensions))
        scales = None if vector_type == "float32" else opened.array("scales.npy", "float32", (count,))
        documents = OldDocuments(opened, count)
    segment = Segment(
        np.arange(count),
        vectors,
        scales,
        lambda: WordSegment.build(document.title for document in documents),
        lambda: Fields.build(document.payload for document in documents),
        Coverage(),
    )
    settings = Settings(model=fingerprint, vectors=vector_type)
    return View(documents, encoder, settings, segment, Delta(encoder, vector_type), Coverage())


class OldIndex:
    """An index of an old format, as `Index` uses it. It never changes."""

    is_writer = False

    def __init__(self, path: Path, encoder: Encoder | None, writing: bool = False) -> None:
        self.path = path
        if writing:
            self._refuse()
        self._view = open_old_view(path, encoder)

    def view(self) -> View:
        """Return the one view."""
        return self._view

    def reading(self) -> AbstractContextManager[object]:
        """Do nothing: what is read never changes."""
        return nullcontext()

    def state(self) -> dict[str, Any]:
        """Return no settings: there are none."""
        return {}

    def refresh(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: the files are mapped, not open."""

    def _refuse(self, *arguments: object, **values: object) -> NoReturn:
        raise UnavailableError(f"{self.path} has an old format that is only read; build the index again to change it")

    add = update = delete = set_state = compact = use_model = _refuse

    def copied(self) -> "OldIndex":
        """Return this index: it never changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path."""
        return OldIndex, (self.path, None)
