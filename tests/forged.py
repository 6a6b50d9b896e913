"""Forge files of an index as a stranger could: with the right sizes and checksums."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.segments.segment import MARKER, describe
from clickvec.storage.arrays import read_arrays, write_arrays

Arrays = dict[str, NDArray[Any]]


def segment_folder(index: Path) -> Path:
    (folder,) = (entry for entry in (index / "segments").iterdir() if not entry.name.startswith("."))
    return folder


def forge_settings(index: Path, **values: Any) -> None:  # noqa: ANN401
    """Change settings that the index stores."""
    store = DocumentStore.open(index / "documents.sqlite", writing=True)
    store.set_state(**values)
    store.close()


def forge_segment(index: Path, change: Callable[[dict[str, Any]], object] = lambda about: None) -> None:
    """Record the files of the segment as they are now, after a change of segment.json."""
    record = segment_folder(index) / MARKER
    about = json.loads(record.read_text())
    about["files"] = {name: describe(record.parent / name) for name in about["files"]}
    change(about)
    record.write_text(json.dumps(about))
    forge_settings(index, segment_crc32=zlib.crc32(record.read_bytes()))


def forge_arrays(index: Path, name: str, change: Callable[[Arrays], object]) -> None:
    """Change the arrays of a file of the segment."""
    path = segment_folder(index) / name
    with path.open("rb") as file:
        arrays = {key: np.array(values) for key, values in read_arrays(file, name).items()}
    change(arrays)
    write_arrays(path, arrays)
    forge_segment(index)
