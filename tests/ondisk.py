"""Files as they lie on disk, for tests that look into them or damage them."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickvec import arrays


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file:
        return arrays.read_arrays(file, str(path))


def read_metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return arrays.read_metadata(file, str(path))
