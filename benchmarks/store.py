"""Measure the store of documents: adding, replacing, deleting and reading, and changes from other processes.

    python benchmarks/store.py [--documents 1000000]

CPU seconds are those of this process; they do not depend on what else the machine does. The last line is JSON.
"""

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from clickvec.search.documents.document import Document
from clickvec.search.documents.document_store import DocumentStore

CHANGES = 200  # of a process


def documents(count: int, prefix: str = "t") -> list[Document]:
    return [Document(f"{prefix}{n:07d}", f"cheap hotels in town {n} of street {n % 977}") for n in range(count)]


def measure(name: str, count: int, unit: str, run: Callable[[], object], results: dict[str, dict[str, float]]) -> None:
    started, cpu = time.monotonic(), time.process_time()
    run()
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    results[name] = {"seconds": seconds, "cpu seconds": cpu, "count": count}
    print(f"{name:44} {count / seconds:12,.0f} {unit}/s  {count / cpu:12,.0f} per CPU second", flush=True)


def change(path: Path, number: int) -> None:
    with DocumentStore.open(path, writing=True) as store:
        for n in range(CHANGES):
            store.add([Document(f"s{number}-{n}", "a title of another process")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    count = parser.parse_args().documents
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as at:
        folder, every = Path(at), documents(count)
        shuffled = random.Random(0).sample(every, count)
        for name, rows in (("ids in order", every), ("ids in random order", shuffled)):
            path = folder / f"{name}.sqlite"
            with DocumentStore.create(path) as store:
                measure(f"bulk, {name}", count, "rows", lambda store=store, rows=rows: store.add(rows), results)
            print(f"{'':44} {path.stat().st_size / 1e6:12,.0f} MB", flush=True)
        part = count // 10
        measure("open", 1, "times", lambda: DocumentStore.open(path).close(), results)
        with DocumentStore.open(path, writing=True) as store:
            measure("read all, in blocks", count, "rows", lambda: sum(1 for _ in store), results)
            measure("add more", part, "rows", lambda: store.add(documents(part, "u")), results)
            measure("replace", part, "rows", lambda: store.add(every[:part]), results)
            measure("delete", part, "rows", lambda: store.delete(row.id for row in every[:part]), results)
            seqs = random.Random(0).sample(range(1, count), 10)
            measure("get 10 documents", 1000, "times", lambda: [store.get(seqs) for _ in range(1000)], results)
            measure("version", 1000, "times", lambda: [store.version() for _ in range(1000)], results)
            measure(
                "add 1 document", CHANGES, "times", lambda: [store.add([every[n]]) for n in range(CHANGES)], results
            )
            measure("check", count, "rows", store.check, results)
            for processes in (1, 8):
                started = [multiprocessing.Process(target=change, args=(path, n)) for n in range(processes)]

                def run_all(started: list[multiprocessing.Process] = started) -> None:
                    for process in started:
                        process.start()
                    for process in started:
                        process.join()

                measure(f"changes from {processes} processes", CHANGES * processes, "times", run_all, results)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
