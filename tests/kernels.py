"""The compiled paths for tests: each one that this machine has is tested, whichever CLICKVEC_COMPILED chooses."""

from collections.abc import Callable

import numpy as np
import pytest

from clickvec.native import loader


def why_missing(processor: str) -> str:
    return f"the compiled code for {processor} is missing, or this processor cannot run it"


def each_path(load: Callable[[str], object]) -> list[object]:
    """One parameter for each compiled path: its kernel. Those that this machine does not have are skipped."""
    kernels = {processor: load(processor) for processor in loader.PROCESSORS}
    return [
        pytest.param(kernel, id=processor, marks=[] if kernel else pytest.mark.skip(reason=why_missing(processor)))
        for processor, kernel in kernels.items()
    ]


def misaligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins one byte past a multiple of its item size, as one mapped from a file may."""
    room = np.empty(array.nbytes + 2 * array.itemsize, np.uint8)
    first = -room.ctypes.data % array.itemsize + 1
    made = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    assert made.ctypes.data % array.itemsize == 1
    return made
