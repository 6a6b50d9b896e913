"""Load the C that was compiled at installation (build.py).

The environment variable CLICKVEC_COMPILED chooses the compiled path, for encoding and for training: `avx512`, `avx2`, 0
for none (NumPy and torch compute everything), or 1 for the fastest one that this machine has, which is the default.
"""

import ctypes
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError

SWITCH = "CLICKVEC_COMPILED"
PROCESSORS = ("avx512", "avx2")  # the fastest first
_ON, _OFF = ("", "1", "true", "yes", "on"), ("0", "false", "no", "off")
_Kernel = TypeVar("_Kernel")
_Number = TypeVar("_Number", bound=np.generic)


def choose(load: Callable[[str], _Kernel | None], work: str) -> _Kernel | None:
    """Load the fastest of the paths that CLICKVEC_COMPILED allows. A path that it names must be available."""
    paths = wanted()
    kernel = next(filter(None, map(load, paths)), None)
    if kernel is None and len(paths) == 1:
        others = (other for other in PROCESSORS if other != paths[0] and runs_here(other))
        raise ClickvecError(
            f"{SWITCH} is {paths[0]!r}, but for {work} that path was not compiled or this processor cannot run it; "
            f"use {', '.join(('0', '1', *others))}"
        )
    return kernel


def wanted() -> tuple[str, ...]:
    """Return the paths that CLICKVEC_COMPILED allows, the fastest first; none if it turns compiled code off."""
    value = os.environ.get(SWITCH, "")
    choice = value.lower()
    if choice in _OFF:
        return ()
    if choice in _ON:
        return PROCESSORS
    if choice not in PROCESSORS:
        raise ClickvecError(f"{SWITCH} is {value!r}; use {', '.join(('0', '1', *PROCESSORS))}")
    return (choice,)


def runs_here(processor: str) -> bool:
    """Whether the path was compiled from the present source, and this processor can run it."""
    loaded = library("lstm.c", processor)
    return loaded is not None and bool(loaded.lstm_runs_here())


def ready(array: NDArray[_Number], dtype: type[_Number]) -> NDArray[_Number]:
    """Return the array as C reads it: contiguous and aligned to its item size. Copy it only if it is not."""
    contiguous: NDArray[_Number] = np.ascontiguousarray(array, dtype)
    return contiguous if contiguous.flags.aligned else contiguous.copy()


def library(source: str, processor: str) -> ctypes.CDLL | None:
    """Load what a source was compiled to for a kind of processor; None if it was not, or from another source."""
    folder, path = Path(__file__).parent, Path(__file__).parent / source
    try:
        loaded = ctypes.CDLL(str(folder / f"_{path.stem}_{processor}.so"))
        compiled_from = getattr(loaded, f"{path.stem}_source")
        source_hash = hashlib.sha256(path.read_bytes() + (folder / "lanes.h").read_bytes()).hexdigest()
    except (OSError, AttributeError):
        return None
    compiled_from.restype = ctypes.c_char_p
    return loaded if compiled_from().decode() == source_hash else None
