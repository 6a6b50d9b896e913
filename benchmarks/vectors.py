"""Measure exact and approximate search among the vectors of real titles, on one core.

    python benchmarks/vectors.py --data ../shared/data/dbpedia [--titles 100000 1000000] [--model FOLDER]
    python benchmarks/vectors.py --data ../shared/data/dbpedia --titles 10000000 --vectors int8

The titles are those of Wikipedia and the redirects to them; if these are not enough, further titles join two of them.
The queries are other redirects. Without --model, a model is trained on 200,000 pairs in two epochs. The vectors are
memory-mapped from a temporary folder (--folder), as those of an index are. Recall is the share of the 10 nearest titles
that approximate search finds; with a filter, among the titles that a random filter allows. `faiss flat` is the exact
search of faiss, as a baseline. Times are CPU time, except that of opening. With --factories, other indexes of faiss are
measured too, on float32 vectors. The last line is JSON.
"""

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from clickvec import Encoder
from clickvec.evaluation.result import text_table
from clickvec.model.shrink import inverse_lengths, shrink_vectors
from clickvec.search.vectors.approximate import ApproximateSearch, import_faiss, recall_of
from clickvec.search.vectors.exact import ExactSearch
from clickvec.storage.arrays import npy_header, read_array

K = 10
SHARES = (0.5, 0.1, 0.01, 0.001)  # of the titles that a filter allows
BLOCK = 65_536


def read_pairs(data: Path) -> tuple[list[str], list[str]]:
    """Return distinct titles in random order, and queries that are not among them."""
    with gzip.open(data / "clicks_redirects.tsv.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in islice(file, 1, None)]
    titles = dict.fromkeys(title for _, title, _ in pairs)
    others = [query for query in dict.fromkeys(query for query, _, _ in pairs) if query not in titles]
    rng = np.random.default_rng(0)
    known, more = list(titles), [others[at] for at in rng.permutation(len(others))]
    return [known[at] for at in rng.permutation(len(known))] + more[1000:], more[:1000]


def make_titles(known: list[str], count: int) -> Iterator[str]:
    """Yield distinct titles: the known ones, then pairs of them."""
    yield from known[:count]
    for number in range(len(known), count):
        yield f"{known[number % len(known)]} {known[(number * 7919 + number // len(known)) % len(known)]}"


def train(data: Path, folder: Path) -> Path:
    """Train a model on the first 200,000 pairs."""
    with gzip.open(data / "clicks_redirects.tsv.gz", "rb") as file, gzip.open(folder / "pairs.tsv.gz", "wb", 1) as out:
        out.writelines(islice(file, 200_001))
    command = [sys.executable, "-m", "clickvec", "train", str(folder / "pairs.tsv.gz"), "--out", str(folder / "model")]
    subprocess.run([*command, "--no-hold-out", "--set", "epochs=2"], check=True, capture_output=True)
    return folder / "model"


def encode(encoder: Encoder, titles: Iterator[str], count: int, kind: str, folder: Path) -> ExactSearch:
    """Write the vectors of titles into a file block by block, and map it."""
    path, scales = folder / f"{count}.npy", []
    with path.open("wb") as file:
        file.write(npy_header(np.dtype(kind), (count, encoder.dimensions)))
        while block := list(islice(titles, BLOCK)):
            rows = shrink_vectors(encoder.encode_document(block), kind)
            scales.append(inverse_lengths(rows))
            file.write(rows.data)
    with path.open("rb") as file:
        vectors = read_array(file, str(path), kind, (count, encoder.dimensions))
    return ExactSearch(vectors, None if kind == "float32" else np.concatenate(scales))


def latencies(search: Callable[[NDArray[Any]], object], queries: NDArray[Any]) -> dict[str, float]:
    """Search for one query after the other, for ten seconds at most."""
    for query in queries[:5]:
        search(query[None])
    seconds: list[float] = []
    for query in queries:
        started = time.thread_time()
        search(query[None])
        seconds.append(time.thread_time() - started)
        if sum(seconds) > 10:
            break
    half, most = np.percentile(seconds, (50, 99)) * 1000
    return {"queries/s": round(len(seconds) / sum(seconds)), "p50 ms": round(half, 2), "p99 ms": round(most, 2)}


def recall(search: ApproximateSearch, queries: NDArray[Any], allowed: NDArray[np.bool_] | None) -> float:
    found, nearest = (which.nearest(queries, K, allowed) for which in (search, search.exact))
    return round(recall_of((scores for _, scores in found), (scores for _, scores in nearest)), 3)


def measure(exact: ExactSearch, queries: NDArray[Any], folder: Path) -> list[dict[str, Any]]:
    count, faiss = len(exact.vectors), import_faiss()
    judged = queries[: min(len(queries), max(200, 5 * 10**8 // count))]
    shared = {"titles": count, "vectors": str(exact.vectors.dtype)}
    rows = [shared | {"search": "exact", "MB": round(exact.vectors.nbytes / 1e6), "recall@10": 1.0}]
    rows[0] |= latencies(lambda query: list(exact.nearest(query, K)), queries)
    if count <= 1_000_000 and exact.vectors.dtype == np.float32:
        flat = faiss.IndexFlatIP(exact.vectors.shape[1])
        flat.add(exact.vectors)
        timed = latencies(lambda query: flat.search(query, K), queries)
        rows.append(
            shared | {"search": "faiss flat", "MB": round(exact.vectors.nbytes / 1e6), "recall@10": 1.0} | timed
        )
        del flat
    started = time.process_time()
    built = ApproximateSearch.build(exact.vectors, exact.scales)
    seconds, path = time.process_time() - started, folder / f"{count}.faiss"
    built.save(path)
    started = time.perf_counter()
    search = ApproximateSearch.open(path, exact.vectors, exact.scales, built.settings)
    opened = time.perf_counter() - started
    row = shared | {"search": "approximate", "MB": round(path.stat().st_size / 1e6), "build s": round(seconds, 1)}
    row |= {"open ms": round(1000 * opened, 1), "lists": search.settings["lists"]}
    rows.append(row | {"recall@10": recall(search, judged, None)})
    rows[-1] |= latencies(lambda query: list(search.nearest(query, K)), queries)
    for share in SHARES:
        allowed = np.random.default_rng(1).random(count) < share
        row = shared | {"search": f"filter {share:.1%}", "recall@10": recall(search, judged, allowed)}
        rows.append(row | latencies(lambda query, mask=allowed: list(search.nearest(query, K, mask)), queries))  # type: ignore[misc]
    return rows


def compare(exact: ExactSearch, queries: NDArray[Any], factories: list[str]) -> list[dict[str, Any]]:
    """Measure other indexes of faiss. Each reads the fewest lists, a power of 2, that find 97% in 200 candidates."""
    count, faiss, rows = len(exact.vectors), import_faiss(), []
    nearest = [scores for _, scores in exact.nearest(queries, K)]
    for factory in factories:
        index = faiss.index_factory(exact.vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter, index.cp.spherical, index.cp.max_points_per_centroid = 8, True, 64
        started = time.process_time()
        sample = np.random.default_rng(0).choice(count, min(count, 64 * index.nlist), replace=False)
        index.train(exact.vectors[np.sort(sample)])
        index.add(exact.vectors)
        seconds, size, share = time.process_time() - started, len(faiss.serialize_index(index)), 0.0

        def search(query: NDArray[Any], index: Any = index) -> NDArray[np.float32]:  # noqa: ANN401
            candidates = index.search(query, 200)[1][0]
            ((_, scores),) = exact.among(query, np.sort(candidates[candidates >= 0]), K)
            return scores

        index.nprobe = 8
        while share < 0.97 and index.nprobe < index.nlist:
            index.nprobe *= 2
            share = recall_of((search(query[None]) for query in queries), nearest)
        row = {"titles": count, "vectors": str(exact.vectors.dtype), "search": factory, "MB": round(size / 1e6)}
        row |= {"build s": round(seconds, 1), "lists": index.nprobe, "recall@10": round(share, 3)}
        rows.append(row | latencies(search, queries))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--titles", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--vectors", choices=("float32", "int8"), default="float32")
    parser.add_argument("--model", type=Path)
    parser.add_argument(
        "--folder", type=Path, help="Where to write the vectors. Default: the system's temporary folder."
    )
    parser.add_argument("--factories", nargs="*", default=[], help="Other indexes of faiss, such as IVF2048,SQ8.")
    options = parser.parse_args()
    known, texts = read_pairs(options.data)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        encoder = Encoder.load(options.model or train(options.data, Path(temporary)))
        queries = np.asarray(encoder.encode_query(texts))
        queries = queries[queries.any(axis=1)]
        for count in options.titles:
            exact = encode(encoder, make_titles(known, count), count, options.vectors, Path(temporary))
            rows += compare(exact, queries[:500], options.factories) if options.factories else []
            rows += measure(exact, queries, Path(temporary))
            del exact
            (Path(temporary) / f"{count}.npy").unlink()
    names = [
        "titles",
        "vectors",
        "search",
        "MB",
        "build s",
        "open ms",
        "lists",
        "recall@10",
        "queries/s",
        "p50 ms",
        "p99 ms",
    ]
    table = [
        [f"{row[name]:,}" if isinstance(row.get(name), int) else str(row.get(name, "")) for name in names]
        for row in rows
    ]
    print(text_table([names, *table]))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"one core; peak memory {memory:,.0f} MB, including mapped files")
    print(json.dumps({"vectors": rows, "peak MB": round(memory)}))


if __name__ == "__main__":
    main()
