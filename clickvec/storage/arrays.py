"""Arrays on disk: safetensors for several arrays by name, .npy for a single one. Both are memory-mapped.

The safetensors library cannot be used here. It opens files by path, but a folder must be read through files that are
already open (see `snapshot.py`), and the size of a header must be bounded; and it writes only what fits in memory.
"""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError
from clickvec.storage.disk_arrays import DiskArray
from clickvec.storage.json_files import MAX_BYTES, parse_json

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "BOOL": "|b1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
}  # fmt: skip
_TYPES = {dtype: name for name, dtype in _DTYPES.items()}
# The order in which the safetensors library writes arrays.
_ORDER = ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I8", "U8", "BOOL")


def write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any] | DiskArray], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file: the bytes that the safetensors library writes, but without a copy in memory."""
    types = {name: _TYPES[np.dtype(array.dtype).newbyteorder("<").str] for name, array in arrays.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata or {})}
    end = 0
    for name in sorted(arrays, key=lambda name: (_ORDER.index(types[name]), name.encode())):
        start, end = end, end + math.prod(arrays[name].shape) * arrays[name].dtype.itemsize
        header[name] = {"dtype": types[name], "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    path.unlink(missing_ok=True)  # an array may be mapped from the file that is replaced
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in list(header)[1:]:
            array = arrays[name]
            for block in array.blocks() if isinstance(array, DiskArray) else (array,):
                file.write(np.asarray(block, block.dtype.newbyteorder("<"), order="C").data)


def read_arrays(file: BinaryIO, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file, memory-mapped and read-only. Errors call the file `name`."""
    header, start = _safetensors_header(file, name)
    arrays: dict[str, NDArray[Any]] = {}
    content = map_file(file)
    for key, entry in header.items():
        if key == "__metadata__":
            continue
        try:
            first, last = entry["data_offsets"]
            dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
            if not 0 <= first <= last <= len(content) - start:
                raise ValueError
            values = content[start + first : start + last]
            if values.ctypes.data % dtype.itemsize:  # another program's header: C and torch need aligned numbers
                values = np.array(values)
            arrays[key] = values.view(dtype).reshape(shape)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UnavailableError(f"{name} is truncated or damaged at {key}; copy or make it again") from None
    return arrays


def read_metadata(file: BinaryIO, name: str) -> dict[str, str]:
    """Return the strings that a safetensors file stores beside its arrays."""
    metadata = _safetensors_header(file, name)[0].get("__metadata__", {})
    return metadata if isinstance(metadata, dict) else {}


def _safetensors_header(file: BinaryIO, name: str) -> tuple[dict[str, Any], int]:
    """Return the header and the offset of the data."""
    try:
        file.seek(0)
        size = int.from_bytes(file.read(8), "little")
        header = parse_json(file.read(size)) if size <= MAX_BYTES else None
        if not isinstance(header, dict):
            raise ValueError
        return header, 8 + size
    except (ValueError, OSError):
        raise UnavailableError(f"{name} is not a complete safetensors file; copy or make it again") from None


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write an .npy file. Unlike `np.save`, a failed write raises an OSError that says why."""
    values = np.ascontiguousarray(values)
    with path.open("wb") as file:
        file.write(npy_header(values.dtype, values.shape))
        file.write(values.data)


def read_array(file: BinaryIO, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array of an .npy file, memory-mapped and read-only. Raise if its type or shape is another one."""
    content, header = map_file(file), npy_header(np.dtype(dtype), shape)
    start = content[: len(header)].tobytes()
    if start != header:
        raise UnavailableError(
            f"{name} holds {start[10:].decode('latin-1').strip()!r}, expected {np.dtype(dtype)} of shape {shape}; "
            "build the index again"
        )
    values = content[len(header) :]
    if len(values) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise UnavailableError(f"{name} is truncated or damaged; build the index again")
    return np.asarray(values.view(dtype).reshape(shape))


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of an .npy file. NumPy pads it, so that its length does not depend on the number of rows."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return file.getvalue()


def check_texts(content: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    """Raise ValueError unless the offsets rise from 0 to the end and divide the content into texts in UTF-8."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(content) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"the offsets of texts do not rise from 0 to {len(content)}")
    inside = offsets[offsets < len(content)]
    if (content[inside] & 0xC0 == 0x80).any():
        raise ValueError("a text begins within a character")
    content.tobytes().decode("utf-8", "surrogatepass")  # raises a ValueError


def map_file(file: BinaryIO) -> NDArray[np.uint8]:
    """Return the bytes of a file, memory-mapped. They stay readable if the file is closed, renamed or removed."""
    empty = not file.seek(0, 2)
    return np.zeros(0, np.uint8) if empty else np.asarray(np.memmap(file, np.uint8, "r"))  # a memmap is slow to index
