"""Measure one part of clickvec at one size, in a process of its own. benchmarks/scale.py calls it.

    python benchmarks/scale_parts.py PART SIZE FOLDER [--data DIR]

`inputs` writes the texts and logs that the other parts read, so that making them costs these nothing. Every other part
prints one line of JSON. `cpu_s` is CPU time of the process and its children, start included; `peak_mb` is its peak
resident memory with the pages of mapped files; `own_mb` is the peak without them.
"""

import argparse
import gzip
import http.client
import json
import math
import os
import random
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from growth import Memory, made_up, with_all_trigrams
from logs import write_log
from train import TRIGRAMS

Row = dict[str, float]
MODES = ("words", "vectors", "hybrid")
QUERIES, BLOCK = 800, 200  # queries in all, and measured at once; the first block warms up


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak_mb() -> float:
    """Return the peak resident memory of this process. ru_maxrss would count the parent's memory at the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1.024e-3


def disk_mb(folder: Path) -> float:
    """Return the size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def read_queries(folder: Path) -> list[str]:
    """Return the queries to search for."""
    return (folder / "queries.txt").read_text(encoding="utf-8").split("\n")[:QUERIES]


# --- inputs ----------------------------------------------------------------------------------------------------------


def click_pairs(data: Path | None, count: int) -> list[tuple[str, str]]:
    """Return distinct pairs of query and title in random order: redirects of Wikipedia, or artificial ones."""
    if data is None:
        return list(zip(*made_up(count), strict=True))
    with gzip.open(data / "clicks_redirects.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [tuple(line.split("\t")[:2]) for line in islice(file, 1, None)]
    random.Random(0).shuffle(pairs)
    return pairs  # type: ignore[return-value]


def write_inputs(folder: Path, data: Path | None, sizes: dict[str, list[int]]) -> None:
    """Write logs, data folders, titles and queries of all sizes. A larger one begins with the smaller ones."""
    from clickvec.data import BadLines, ClickLog, data_folder, dataset

    for lines in sizes.get("lines", []):
        write_log(folder / f"log-{lines}.tsv", lines)
    pairs = click_pairs(data, max([*sizes.get("pairs", []), *sizes.get("titles", []), QUERIES]))
    for count in sizes.get("pairs", []):
        queries, titles = zip(*pairs[:count], strict=True)
        made = dataset.prepare(ClickLog(list(queries), list(titles), np.ones(count), BadLines()), 10, TRIGRAMS)
        data_folder.save(with_all_trigrams(made), folder / f"pairs-{count}")
    texts = list(dict.fromkeys(text for pair in pairs for text in pair if text.strip()))
    random.Random(1).shuffle(texts)
    asked, texts = texts[:QUERIES], texts[QUERIES:]
    (folder / "queries.txt").write_text("".join(f"{text}\n" for text in asked), encoding="utf-8")
    for count in sizes.get("titles", []):
        if count > len(texts):
            raise SystemExit(f"There are only {len(texts):,} different texts, not {count:,}.")
        path = folder / f"titles-{count}.tsv"
        path.write_text("title\n" + "".join(f"{text}\n" for text in texts[:count]), encoding="utf-8")


# --- parts -----------------------------------------------------------------------------------------------------------


def prepare(lines: int, folder: Path, *options: str) -> Row:
    """Prepare a log of clicks with times and clients: read, mask, clean, count trigrams, write."""
    from clickvec.cli.app import app
    from clickvec.data import data_folder

    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = ["prepare", str(folder / f"log-{lines}.tsv"), "--out", f"{out}/data", *options]
        app(command, standalone_mode=False)
        row = {"cpu_s": cpu_seconds(), "peak_mb": peak_mb(), "disk_mb": disk_mb(Path(out))}
        row["log_mb"] = (folder / f"log-{lines}.tsv").stat().st_size / 1e6
        return row | {"pairs": len(data_folder.load(Path(out) / "data").pair_query)}


def prepare_on_disk(lines: int, folder: Path) -> Row:
    """Do the same with DuckDB, within 1 GB of memory."""
    return prepare(lines, folder, "--memory", "1GB")


def train(pairs: int, folder: Path) -> Row:
    """Train one epoch, keep the model, and mine hard negatives once."""
    import torch

    from clickvec.config import recipe
    from clickvec.data import data_folder
    from clickvec.training import loop

    data, chosen, memory = data_folder.load(folder / f"pairs-{pairs}"), recipe("default", epochs=1), Memory()
    with tempfile.TemporaryDirectory(dir=folder) as out:
        loop.run_training(data, chosen, Path(out, "model"), device="cpu")
        row = {"cpu_s": cpu_seconds(), "own_mb": memory.anonymous, "disk_mb": disk_mb(folder / f"pairs-{pairs}")}
        run = loop.Run(data, chosen, Path(out), None, torch.device("cpu"))
        run.state.epoch, before = 1, cpu_seconds()  # the first epoch that mines
        run._mine()
        row["mine_cpu_s"] = cpu_seconds() - before
        kept = folder / f"model-{pairs}"
        if not kept.exists():
            Path(out, "model").rename(kept)
    return row


def encode(titles: int, folder: Path) -> Row:
    """Encode titles and write their vectors."""
    from clickvec.cli.app import app

    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = ["encode", str(folder / "model"), str(folder / f"titles-{titles}.tsv"), "--out", f"{out}/vectors.npy"]
        app([*command, "--vectors", "int8"], standalone_mode=False)
        return {"cpu_s": cpu_seconds(), "peak_mb": peak_mb()}


def build(titles: int, folder: Path, search: str) -> Row:
    """Build an index with int8 vectors, and keep it."""
    from clickvec import Encoder, Index
    from clickvec.search.documents.document import Document

    def documents() -> Iterator[Document]:
        with (folder / f"titles-{titles}.tsv").open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(islice(file, 1, None)):
                yield Document(number, line[:-1])

    path, memory = folder / f"{search}-{titles}", Memory()
    options: dict[str, Any] = {"overwrite": True, "vectors": "int8", "search": search}
    Index.create(path, Encoder.load(folder / "model"), documents(), **options).close()
    return {"cpu_s": cpu_seconds(), "peak_mb": peak_mb(), "own_mb": memory.anonymous, "disk_mb": disk_mb(path)}


def build_exact(titles: int, folder: Path) -> Row:
    """Build an index with exact search."""
    return build(titles, folder, "exact")


def build_approximate(titles: int, folder: Path) -> Row:
    """Build an index with approximate search."""
    return build(titles, folder, "approximate")


def search(titles: int, folder: Path, kind: str) -> Row:
    """Search for queries one by one: CPU time of each mode, in milliseconds."""
    from clickvec import Index

    queries, row = read_queries(folder), Row()
    with Index.open(folder / f"{kind}-{titles}") as index:
        for mode in MODES if kind == "approximate" else MODES[1:2]:
            means = []
            for first in range(0, len(queries), BLOCK):  # other queries each time: words of known ones are cached
                started = time.process_time()
                for query in queries[first : first + BLOCK]:
                    index.search(query, mode=mode)
                means.append(1000 * (time.process_time() - started) / BLOCK)
            row[f"{mode}_ms"] = statistics.median(means[1:])
    return row


def search_exact(titles: int, folder: Path) -> Row:
    """Search by vectors, exactly."""
    return search(titles, folder, "exact")


def search_approximate(titles: int, folder: Path) -> Row:
    """Search by words, by vectors approximately, and by both."""
    return search(titles, folder, "approximate") | codes_read(titles, folder)


def nearest(titles: int, folder: Path) -> Row:
    """Find the 100 nearest titles of query vectors, as a hybrid search does: CPU time in milliseconds."""
    from clickvec import Index

    with Index.open(folder / f"approximate-{titles}") as index:
        view, means = index._live.view(), []
        vectors = np.asarray(view.encoder.encode_query(read_queries(folder)))
        for first in range(0, len(vectors), BLOCK):
            started = time.process_time()
            for vector in vectors[first : first + BLOCK]:
                list(view.nearest(vector[None], 100, None))
            means.append(1000 * (time.process_time() - started) / BLOCK)
    return {"nearest_ms": min(means[1:])} | codes_read(titles, folder)


def codes_read(titles: int, folder: Path) -> Row:
    """Return how many vectors an approximate search reads, of the lists that the index has chosen for its recall."""
    (about,) = (folder / f"approximate-{titles}").glob("segments/*/segment.json")
    settings = json.loads(about.read_text())["approximate"]
    all_lists = 2 ** round(math.log2(titles) / 2)  # as in clickvec/search/vectors/approximate.py
    return {"codes": titles * settings["lists"] / all_lists, "recall": settings["recall"]}


def serve(titles: int, folder: Path) -> Row:
    """Send hybrid searches to the service over one connection: its CPU time for each, in milliseconds."""
    from serve import served, service

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queries = read_queries(folder)
    with served(service(folder / f"approximate-{titles}", port, 1, 1), port) as server:
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def ask(first: int) -> float:
            before = server.cpu_seconds()
            for query in queries[first : first + BLOCK]:
                body = json.dumps({"query": query[:500]})
                connection.request("POST", "/search", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise SystemExit(f"The service answered {answer.status} to {body}.")
            return 1000 * (server.cpu_seconds() - before) / BLOCK

        means = [ask(first) for first in range(0, len(queries), BLOCK)]
    return {"request_ms": statistics.median(means[1:])} | codes_read(titles, folder)


PARTS = {
    "prepare in memory": prepare, "prepare on disk": prepare_on_disk, "train": train, "encode": encode,
    "build exact": build_exact, "build approximate": build_approximate, "search exact": search_exact,
    "search approximate": search_approximate, "nearest approximate": nearest, "serve": serve,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["inputs", *PARTS])
    parser.add_argument("size", help="a number; for inputs, the sizes of each kind as JSON")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    if options.part == "inputs":
        write_inputs(options.folder, options.data, json.loads(options.size))
        return
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit("Set OMP_NUM_THREADS=1: waiting threads cost CPU time.")
    print(json.dumps(PARTS[options.part](int(options.size), options.folder)))


if __name__ == "__main__":
    main()
