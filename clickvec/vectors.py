"""Vectors written to a .npy file as they come: memory stays flat, and the file is there whole or not at all."""

from collections.abc import Iterable
from pathlib import Path

from clickvec import files
from clickvec.encoder import BATCH_SIZE, Encoder, in_batches
from clickvec.terminal import track

_HEADER_BYTES = 128


def write_vectors(path: Path, encoder: Encoder, texts: Iterable[str], *, queries: bool = False) -> int:
    """Encode texts into `path`; returns how many there were."""
    encode, count = encoder.encode_query if queries else encoder.encode_document, 0
    with files.replacing_file(path) as file:
        file.write(bytes(_HEADER_BYTES))  # the shape is known at the end
        for batch in track(in_batches(texts, BATCH_SIZE), "encoding", None):
            file.write(encode(batch).tobytes())
            count += len(batch)
        file.seek(0)
        file.write(_header(count, encoder.dimensions))
    return count


def _header(rows: int, columns: int) -> bytes:
    """The head of a version 1.0 .npy file, always of the same length."""
    about = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    padded = about.ljust(_HEADER_BYTES - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("ascii")
