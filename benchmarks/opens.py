"""Open a model and an index again and again while a writer replaces them: each open must see one version.

    python benchmarks/opens.py [--opens 10000]

The two versions of the index have files of equal sizes: the same titles in another order. So have the two models.
Each result is compared bit for bit with that of its version. One version is kept open during the run and compared at
the end. The last line is JSON.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from clickvec import Encoder, Index
from clickvec.config import Tower
from clickvec.errors import ClickvecError
from clickvec.model import folder, forward
from clickvec.text.trigrams import Vocabulary

TITLES = [
    f"{first} {second} guide" for first in ("hotel", "pizza", "tax", "bath") for second in ("paris", "rome", "oslo")
]
QUERY = "hotel rome"


def make_model(seed: int) -> folder.Model:
    tower, trigrams = Tower("lstm", cells=16), Vocabulary.count(TITLES).trigrams
    rng = np.random.default_rng(seed)
    shapes = forward.shapes(tower, len(trigrams))
    weights = {f"shared.{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return folder.Model(tower, True, 10, trigrams, weights, {})


def write_index(path: Path, model: Path, ready: Event, stop: Event, count: "Synchronized[int]") -> None:
    encoder = Encoder.load(model)
    versions = [Index.build(encoder, titles=titles, ids=map(str, range(12))) for titles in (TITLES, TITLES[::-1])]
    replace(lambda number: versions[number % 2].save(path, overwrite=True), ready, stop, count)


def write_model(path: Path, ready: Event, stop: Event, count: "Synchronized[int]") -> None:
    versions = [make_model(seed) for seed in range(2)]
    replace(lambda number: folder.save_model(versions[number % 2], path), ready, stop, count)


def replace(write: Callable[[int], object], ready: Event, stop: Event, count: "Synchronized[int]") -> None:
    while not stop.is_set():
        write(count.value)
        count.value += 1
        ready.set()


def measure(what: str, opens: int, place: Path) -> dict[str, int | str | float]:
    """Open a folder `opens` times, and count wrong results and errors."""
    ready, stop, count = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Value("q", 0)
    path = place / what
    if what == "index":
        model = place / "model-of-index"
        folder.save_model(make_model(0), model)
        encoder = Encoder.load(model)
        ids = [str(number) for number in range(12)]
        expected = {
            str(Index.build(encoder, titles=titles, ids=ids).search(QUERY, k=12)) for titles in (TITLES, TITLES[::-1])
        }
        writer = multiprocessing.Process(target=write_index, args=(path, model, ready, stop, count))
        opened = lambda: str(Index.open(path).search(QUERY, k=12))  # noqa: E731
    else:
        expected = {str(Encoder(make_model(seed)).encode_document(TITLES).tobytes()) for seed in range(2)}
        writer = multiprocessing.Process(target=write_model, args=(path, ready, stop, count))
        opened = lambda: str(Encoder.load(path).encode_document(TITLES).tobytes())  # noqa: E731
    writer.start()
    ready.wait()
    held = Index.open(path) if what == "index" else Encoder.load(path)
    seen, errors, started = Counter[str](), Counter[str](), time.monotonic()
    for _ in range(opens):
        try:
            seen[opened()] += 1
        except ClickvecError as error:
            errors[str(error)] += 1
    seconds = time.monotonic() - started
    stop.set()
    writer.join()
    last = str(held.search(QUERY, k=12)) if isinstance(held, Index) else str(held.encode_document(TITLES).tobytes())
    for error, times in errors.most_common(3):
        print(f"  {times} times: {error}")
    return {
        "opened": what, "opens": opens, "replaced": count.value, "versions seen": len(seen),
        "wrong": sum(times for result, times in seen.items() if result not in expected), "errors": sum(errors.values()),
        "version kept open": "complete" if last in expected else "wrong", "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opens", type=int, default=10_000)
    opens = parser.parse_args().opens
    memory = Path("/dev/shm")  # where writing is fastest, so that the writer replaces more often
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        found = [measure(what, opens, Path(place)) for what in ("model", "index")]
    for row in found:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
    print(json.dumps({"opens": found}))
    sys.exit(any(row["wrong"] or row["errors"] or row["version kept open"] == "wrong" for row in found))


if __name__ == "__main__":
    main()
