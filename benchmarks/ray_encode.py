"""Encode a catalogue on a Ray cluster of two nodes on this machine, and by one process: titles/s.

    python benchmarks/ray_encode.py MODEL [--titles 1000000] [--shard 100000] [--rounds 2]

The titles are of made-up words. Each node has one CPU, and every process one thread. One process
is `clickvec encode`, which also writes Parquet. Titles/s are by the clock, which other programs on the machine disturb,
with the start of the cluster left out; titles per CPU second are of one core, in the process or in the tasks. Then the
run is repeated, and a node is killed when a quarter of the shards is done: the second table counts titles that are
lost, doubled, or have another vector than in one process. The last line is JSON. Takes about three minutes on two idle
cores.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # also for the workers of Ray

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))


def write_titles(path: Path, count: int, size: int) -> None:
    """Write titles of made-up words, with realistic frequencies, in row groups of some size."""
    import pyarrow
    from pyarrow import parquet

    letters = ("bdfgklmnprst", "aeiou", "dlmnrst", "aeiou", "knrst")
    words = ["".join(word) for word in product(*letters)]
    rng, frequency = np.random.default_rng(0), 1 / np.arange(1, len(words) + 1)
    schema = pyarrow.schema({"doc_id": pyarrow.string(), "title": pyarrow.string()})
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, count, size):
            ids = range(first, min(first + size, count))
            lengths = rng.integers(3, 12, len(ids))
            drawn = rng.choice(words, lengths.sum(), p=frequency / frequency.sum())
            titles = [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]
            writer.write_table(pyarrow.table({"doc_id": [f"d{k}" for k in ids], "title": titles}, schema))


def timed(*arguments: Any) -> tuple[int, float]:  # noqa: ANN401
    """Encode a shard. Return its titles and the CPU time that they took."""
    from clickvec.cluster.encoding import encode_shard

    begun = time.process_time()
    return encode_shard(*arguments).rows, time.process_time() - begun


def compare(out: Path, one: Path) -> dict[str, int]:
    """Count the titles of a folder of shards that are lost, doubled or different from those of one process."""
    from pyarrow import parquet

    expected, manifest = parquet.read_table(one), json.loads((out / "vectors.json").read_text())
    ids, first, different = list[str](), 0, 0
    for shard in manifest["shards"]:
        table = parquet.read_table(out / shard["file"])
        same = expected.slice(first, table.num_rows)
        rows = [np.concatenate([chunk.flatten() for chunk in part["vector"].chunks]) for part in (table, same)]
        different += int((rows[0] != rows[1]).reshape(table.num_rows, -1).any(axis=1).sum())
        ids += table["id"].to_pylist()
        first += table.num_rows
    return {"lost": expected.num_rows - len(set(ids)), "doubled": len(ids) - len(set(ids)), "different": different}


def main() -> None:
    """Encode, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--titles", type=int, default=1_000_000)
    parser.add_argument("--shard", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    import ray
    from two_nodes import two_nodes

    from clickvec.cluster.encoding import encode_on_cluster, plan
    from clickvec.data.parsing.columns import Columns
    from clickvec.model.encoder import Encoder
    from clickvec.search.vectors.vector_file import write_vectors

    speeds: dict[str, list[float]] = {"one process": [], "Ray, two nodes": []}
    by_cpu: dict[str, list[float]] = {"one process": [], "Ray, two nodes": []}
    with tempfile.TemporaryDirectory() as folder, two_nodes() as nodes:
        titles, one = Path(folder, "titles.parquet"), Path(folder, "one.parquet")
        write_titles(titles, options.titles, options.shard)
        encoder = Encoder.load(options.model)

        def on_cluster(name: str, **more: Any) -> Path:  # noqa: ANN401
            out = Path(folder, name)
            encode_on_cluster(ray, options.model, [titles], out, Columns(), shard_titles=options.shard, **more)
            return out

        on_cluster("warm")  # starts the workers
        for number in range(options.rounds):
            begun, cpu = time.monotonic(), time.process_time()
            write_vectors(encoder, titles, one, overwrite=True)
            speeds["one process"].append(options.titles / (time.monotonic() - begun))
            by_cpu["one process"].append(options.titles / (time.process_time() - cpu))
            begun = time.monotonic()
            on_cluster(f"two-{number}")
            speeds["Ray, two nodes"].append(options.titles / (time.monotonic() - begun))
            task, shards = ray.remote(timed), plan([titles], options.shard)
            more = (Path(folder, f"timed-{number}"), Columns(), "float32")
            tasks = [task.remote(options.model, encoder.fingerprint, shard, *more) for shard in shards]
            rows, seconds = zip(*ray.get(tasks), strict=True)
            by_cpu["Ray, two nodes"].append(sum(rows) / sum(seconds))
        killed = list[int]()

        def kill(label: str, done: int, total: int | None, note: str = "") -> None:
            if not killed and total and done >= total // 4:
                nodes.kill_second()
                killed.append(done)

        faults = {"nothing killed": compare(Path(folder, "two-0"), one)}
        faults["a node killed"] = compare(on_cluster("killed", progress=kill), one)
    print("| | titles/s | titles per CPU second |")
    print("|---|--:|--:|")
    for name, found in speeds.items():
        print(f"| {name} | {max(found):,.0f} | {max(by_cpu[name]):,.0f} |")
    print(f"\n| {options.titles:,} titles in shards of {options.shard:,} | lost | doubled | different |")
    print("|---|--:|--:|--:|")
    for name, counts in faults.items():
        print(f"| {name} | {' | '.join(f'{count:,}' for count in counts.values())} |")
    print(json.dumps({"speeds": speeds, "by CPU": by_cpu, "faults": faults, "killed after shards": killed}))


if __name__ == "__main__":
    main()
