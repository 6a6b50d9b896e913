"""Files as they lie on disk, for tests that look into them or damage them."""

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickvec.model import folder
from clickvec.storage import arrays
from clickvec.storage.snapshot import describe_file


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file:
        return arrays.read_arrays(file, str(path))


def read_metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return arrays.read_metadata(file, str(path))


def change_config(path: Path, **values: object) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | values))


def sign(path: Path) -> None:
    """Make the config agree with the files again, as if they had been written like this."""
    config = json.loads((path / "config.json").read_text())
    config["files"] = {name: folder._bytes_and_hash(path / name) for name in config["files"]}
    config["samples"] = {name: describe_file(path / name) for name in config["files"]}
    config["fingerprint"] = folder._fingerprint(config)
    (path / "config.json").write_text(json.dumps(config))
