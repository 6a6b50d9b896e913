"""Measure start-up: `clickvec --help`, and opening a model of the paper's size, compared with starting Python.

    python benchmarks/start.py

The last line is JSON.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from clickvec.config import Tower
from clickvec.model import folder, forward

REPEATS = 9


def seconds(*command: str) -> float:
    """Return the median time of a command."""
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def full_size_model(path: Path) -> None:
    """Write the paper's LSTM-RNN: two towers of 96 cells, 50,000 trigrams. The values do not affect speed."""
    tower, trigrams = Tower(), [f"{number:05x}" for number in range(50_000)]
    shapes = forward.shapes(tower, len(trigrams))
    weights = {
        f"{side}.{name}": np.zeros(shape, np.float32) for side in ("query", "title") for name, shape in shapes.items()
    }
    folder.save_model(folder.Model(tower, False, 10, tuple(trigrams), weights, {}), path)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model"
        full_size_model(model)
        opening = (
            f"import time, sys; from clickvec import Encoder; t = time.perf_counter(); Encoder.load({str(model)!r}); "
        )
        opening += "print(time.perf_counter() - t)"
        opened = [
            float(subprocess.run([sys.executable, "-c", opening], check=True, capture_output=True).stdout)
            for _ in range(REPEATS)
        ]
    python, shown = seconds("-c", "pass"), seconds("-m", "clickvec", "--help")
    print(f"python -c pass               {1000 * python:7.1f} ms")
    print(f"clickvec --help              {1000 * shown:7.1f} ms   ratio {shown / python:.1f}")
    print(f"Encoder.load, 2 x 14.4M      {1000 * statistics.median(opened):7.1f} ms")
    print(json.dumps({"python": python, "help": shown, "open": statistics.median(opened), "ratio": shown / python}))


if __name__ == "__main__":
    main()
