"""Write index folders of the formats 1 to 3, as earlier versions did."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.model.shrink import inverse_lengths, shrink_vectors
from clickvec.search.documents import Documents
from clickvec.storage.snapshot import describe_file


def save_old_index(
    encoder: Encoder,
    titles: Sequence[str],
    path: Path,
    ids: Iterable[str | int] | None = None,
    payloads: Iterable[Any] | None = None,
    vectors: str = "float32",
) -> Path:
    """Write the folder and return its path."""
    (path / "model").mkdir(parents=True)
    fingerprint = folder.write_model(encoder.model, path / "model")
    documents, encoded = Documents.of(list(titles), ids, payloads), encoder.encode_document(titles)
    stored = encoded.astype(np.float16) if vectors == "float16" else shrink_vectors(encoded, vectors)
    np.save(path / "vectors.npy", stored)
    if vectors != "float32":
        np.save(path / "scales.npy", inverse_lengths(stored))
    np.save(path / "documents.offsets.npy", documents.offsets)
    (path / "documents.jsonl").write_bytes(documents.lines.tobytes())
    written = sorted(file for file in path.rglob("*") if file.is_file())
    about = {
        "format": 3 if documents.has_integer_ids else 1 if vectors == "float32" else 2,
        "count": len(titles),
        "dimensions": encoder.dimensions,
        "fingerprint": fingerprint,
        "files": {str(file.relative_to(path).as_posix()): describe_file(file) for file in written},
    }
    if vectors != "float32":
        about["vectors"] = vectors
    (path / "index.json").write_text(json.dumps(about, indent=2))
    return path
