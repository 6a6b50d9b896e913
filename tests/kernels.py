"""The compiled paths for tests: each one that this machine has is tested, whichever CLICKVEC_COMPILED chooses."""

from collections.abc import Callable

import pytest

from clickvec import compiled


def why_missing(processor: str) -> str:
    return f"the compiled code for {processor} is missing, or this processor cannot run it"


def each_path(load: Callable[[str], object]) -> list[object]:
    """One parameter for each compiled path: its kernel. Those that this machine does not have are skipped."""
    kernels = {processor: load(processor) for processor in compiled.PROCESSORS}
    return [
        pytest.param(kernel, id=processor, marks=[] if kernel else pytest.mark.skip(reason=why_missing(processor)))
        for processor, kernel in kernels.items()
    ]
