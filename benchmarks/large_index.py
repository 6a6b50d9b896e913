"""Build a whole index of many titles with `Index.create`, and measure building, opening and searching it.

    python benchmarks/large_index.py MODEL --data ../shared/data/dbpedia [--titles 10000000] [--vectors int8]

The titles are those of benchmarks/vectors.py: real ones, then pairs of them. Recall is that of the approximate search
against exact search, as measured at the build. The queries are real redirects that are not among the titles. One thread
builds and searches. The last line is JSON.
"""

import argparse
import json
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from vectors import make_titles, read_pairs

from clickvec import Encoder, Index
from clickvec.search.documents.document import Document


def measure(index: Index, queries: list[str], mode: str) -> dict[str, float]:
    """Search for each query alone, and return latencies in milliseconds and queries/s, on one thread."""
    for query in queries[:200]:
        index.search(query, mode=mode)
    times = []
    for query in queries[200:]:
        started = time.perf_counter()
        index.search(query, mode=mode)
        times.append(time.perf_counter() - started)
    p50, p99 = (1000 * float(value) for value in np.percentile(times, [50, 99]))
    return {"queries/s": len(times) / sum(times), "p50 ms": p50, "p99 ms": p99}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--titles", type=int, default=10_000_000)
    parser.add_argument("--vectors", default="int8")
    parser.add_argument("--out", type=Path, help="keep the index here")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp()) / "index"
    known, queries = read_pairs(options.data)
    documents = (Document(f"t{number}", title) for number, title in enumerate(make_titles(known, options.titles)))
    started = time.perf_counter()
    Index.create(out, Encoder.load(options.model), documents, overwrite=True, vectors=options.vectors).close()
    result: dict[str, object] = {"titles": options.titles, "numbers": options.vectors}
    result["build s"] = time.perf_counter() - started
    result["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    result["size GB"] = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e9
    started = time.perf_counter()
    index = Index.open(out)
    result["open s"] = time.perf_counter() - started
    result["recall@10"] = index.recall
    for mode in ("words", "vectors", "hybrid"):
        result[mode] = measure(index, queries, mode)
        print(mode, {name: round(value, 2) for name, value in result[mode].items()}, flush=True)  # type: ignore[union-attr]
    print({name: round(value, 3) for name, value in result.items() if isinstance(value, float)})
    print(json.dumps(result))
    index.close()
    if options.out is None:
        shutil.rmtree(out.parent)


if __name__ == "__main__":
    main()
