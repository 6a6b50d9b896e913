"""Write index folders of the formats 1 to 3, as earlier versions did."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.model.shrink import inverse_lengths, shrink_vectors
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
    ids = [str(number) for number in range(len(titles))] if ids is None else list(ids)
    lines = [_line(*row) for row in zip(ids, titles, payloads or [None] * len(titles), strict=True)]
    encoded = encoder.encode_document(titles)
    stored = encoded.astype(np.float16) if vectors == "float16" else shrink_vectors(encoded, vectors)
    np.save(path / "vectors.npy", stored)
    if vectors != "float32":
        np.save(path / "scales.npy", inverse_lengths(stored))
    np.save(path / "documents.offsets.npy", np.cumsum([0, *map(len, lines)], dtype=np.int64))
    (path / "documents.jsonl").write_bytes(b"".join(lines))
    written = sorted(file for file in path.rglob("*") if file.is_file())
    about = {
        "format": 3 if any(isinstance(doc_id, int) for doc_id in ids) else 1 if vectors == "float32" else 2,
        "count": len(titles),
        "dimensions": encoder.dimensions,
        "fingerprint": fingerprint,
        "files": {str(file.relative_to(path).as_posix()): describe_file(file) for file in written},
    }
    if vectors != "float32":
        about["vectors"] = vectors
    (path / "index.json").write_text(json.dumps(about, indent=2))
    return path


def _line(doc_id: str | int, title: str, payload: object) -> bytes:
    value = {"id": doc_id, "title": title} | ({} if payload is None else {"payload": payload})
    try:
        return json.dumps(value, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can express and UTF-8 cannot
        return json.dumps(value).encode() + b"\n"
