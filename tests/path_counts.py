"""Count the functions and modules of clickvec that four warm paths run through: `python tests/path_counts.py`.

It runs as a program of its own: nothing else is imported or cached, and NumPy takes the place of compiled code, so that
the counts are the same on every machine. Functions without a name (lambdas, comprehensions) are not counted, because
versions of Python differ there.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ |= {"CLICKVEC_COMPILED": "0", "OMP_NUM_THREADS": "1"}
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
OURS = f"{ROOT / 'clickvec'}{os.sep}"
REPEATED = 3  # times: what a path does after its end, such as the access log, is done when it runs again
BACKGROUND_SECONDS = 1.2  # a service looks for changes once a second, which is part of its path

QUERIES = 1_000  # enough to hold some out, to measure the model and to fit a fusion


class Tracer:
    """Notes the functions of ours that all threads call, as long as it is asked to."""

    def __init__(self) -> None:
        self.is_on = False
        self.called: set[CodeType] = set()
        threading.setprofile(self._note)  # threads that start from now on
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:  # noqa: ANN401
        if self.is_on and event == "call":
            self.called.add(frame.f_code)

    def functions(self, path: Callable[[], object], times: int = REPEATED, seconds: float = 0) -> dict[str, list[str]]:
        """Run a path several times, for at least so many seconds. Return the functions that it calls, by module."""
        path()  # what is loaded or computed once is not counted
        self.called.clear()
        self.is_on = True
        end = time.monotonic() + seconds
        for number in count(1):
            path()
            if number >= times and time.monotonic() > end:
                break
        self.is_on = False
        modules: dict[str, set[str]] = {}
        for code in list(self.called):
            name = code.co_qualname
            if code.co_filename.startswith(OURS) and not name.endswith(">"):
                module = Path(code.co_filename).relative_to(ROOT).with_suffix("")
                modules.setdefault(".".join(module.parts), set()).add(name)
        return {module: sorted(names) for module, names in sorted(modules.items())}


def write_log(path: Path) -> Path:
    """Write a click log."""
    rows = (f"word{number} thing{number % 7}\ttitle of word{number} thing\t2\n" for number in range(QUERIES))
    path.write_text("query\ttitle\tclicks\n" + "".join(rows), encoding="utf-8")
    return path


def trace() -> dict[str, dict[str, list[str]]]:
    """Return the functions that each path calls, by module."""
    tracer = Tracer()
    from serving import running
    from tiny import TEXTS, tiny_model

    import clickvec

    counts = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        encoder = clickvec.Encoder.load(tiny_model(folder / "model"))
        documents = [{"id": f"t{number}", "title": title, "price": number} for number, title in enumerate(TEXTS * 3)]
        with clickvec.Index.create(folder / "index", encoder, documents) as index:

            def search() -> None:
                assert index.search("hotels in shanghai", k=5)

            counts["search"] = tracer.functions(search)
        with running(folder / "index", folder, threads=1) as service:

            def post() -> None:
                assert service.post("/search", {"query": "hotels in shanghai", "k": 5}).json()["hits"]

            time.sleep(BACKGROUND_SECONDS)  # it also does something once
            counts["POST /search"] = tracer.functions(post, seconds=BACKGROUND_SECONDS)
        numbers, log = iter(range(100)), write_log(folder / "clicks.tsv")

        def train() -> None:
            settings: Any = {"cells": 8, "epochs": 1, "batch_size": 64, "device": "cpu"}
            clickvec.train(log, folder / f"trained{next(numbers)}", **settings)

        counts["train"] = tracer.functions(train, times=1)
        with clickvec.Index.open(folder / "index") as index:

            def add() -> None:
                number = next(numbers)
                index.add([{"id": f"new{number}", "title": f"a new hotel {number}", "price": 7}])

            counts["an added title"] = tracer.functions(add)
    return counts


def main() -> None:
    paths = trace()
    if "--json" in sys.argv:
        print(json.dumps(paths))
        return
    for path, modules in paths.items():
        print(f"{path}: {sum(map(len, modules.values()))} functions in {len(modules)} modules")
        if "--all" in sys.argv:
            for module, names in modules.items():
                print(f"    {module}: {', '.join(names)}")


if __name__ == "__main__":
    main()
