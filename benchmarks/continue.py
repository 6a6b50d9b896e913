"""Train on nine tenths of a log, continue on the last tenth, and compare with training on the whole log.

    python benchmarks/continue.py [--seeds 3] [--log built-in] [--log msrd]

The logs are the built-in one (`clickvec lab simulate --impressions 1000000`) and ../shared/data/msrd, if it is there.
The last tenth is a tenth of the queries, by a hash of their words. `full` and `nine tenths` are trained by
`clickvec.train`, which holds clicks out; `continued` by `clickvec.continue_training` from the model of nine tenths,
with the old clicks for the decision. NDCG@10 is that of the judged set test. Times are CPU seconds of one thread, of
the whole call; and seconds of the epochs alone, by the clock. The last line is JSON.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Iterator
from hashlib import blake2b
from itertools import compress
from pathlib import Path

import numpy as np
import torch

import clickvec
from clickvec.data import ClickLog
from clickvec.data.held_out import near_duplicate_key
from clickvec.lab.simulate import write
from clickvec.training.process_settings import tuned_for_training

MSRD = Path(__file__).parents[2] / "shared" / "data" / "msrd"
IMPRESSIONS = 1_000_000
SYSTEMS = ("full", "nine tenths", "continued")


def is_new(query: str) -> bool:
    """Tell whether a query is in the last tenth."""
    return blake2b(near_duplicate_key(query).encode(), digest_size=8, key=b"continue").digest()[0] % 10 == 0


def select(log: ClickLog, rows: np.ndarray) -> ClickLog:
    """Return some lines of a log."""
    queries, titles = (list(compress(column, rows)) for column in (log.queries, log.titles))
    return dataclasses.replace(log, queries=queries, titles=titles, clicks=log.clicks[rows])


def sites(folder: Path, logs: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the names and folders of the logs."""
    if "built-in" in logs:
        write(folder / "site", impressions=IMPRESSIONS, log=False)
        yield "built-in log", folder / "site"
    if "msrd" in logs and MSRD.exists():
        yield "msrd", MSRD


def measure(site: Path, seed: int, folder: Path) -> dict[str, tuple[float, float, float]]:
    """Return NDCG@10 on test, the CPU seconds of the call and the seconds of the epochs, for each system."""
    log = clickvec.read_clicks(site / "clicks.tsv.gz")
    new = np.array([is_new(query) for query in log.queries])
    old_clicks = select(log, ~new)
    found = {}
    for name in SYSTEMS:
        out, started = folder / f"{name} {seed}", time.process_time()
        if name == "continued":
            old = folder / f"nine tenths {seed}"
            encoder = clickvec.continue_training(select(log, new), old, out, old_clicks=old_clicks, device="cpu")
            for row in encoder.model.training.get("continued", {"compared": []})["compared"]:
                print(f"  {row['on']}: {row['before']:.2f} before, {row['now']:.2f} now, p = {row['p']:.2g}")
        else:
            clicks = log if name == "full" else old_clicks
            encoder = clickvec.train(clicks, out, device="cpu", seed=seed)
        seconds = time.process_time() - started
        last = json.loads(encoder.model.metrics.splitlines()[-1])
        found[name] = clickvec.evaluate(encoder, site / "test.tsv.gz").means[0][2], seconds, last["seconds"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--log", choices=("built-in", "msrd"), action="append", help="default: both")
    options = parser.parse_args()
    seeds, logs = options.seeds, options.log or ["built-in", "msrd"]
    torch.set_num_threads(1)
    result = {}
    with tempfile.TemporaryDirectory() as place, tuned_for_training():
        for name, site in sites(Path(place), logs):
            runs = [measure(site, seed, Path(place) / name.replace(" ", "-")) for seed in range(1, seeds + 1)]
            values = np.array([[run[system] for system in SYSTEMS] for run in runs])
            means = values.mean(axis=0)
            for system, (score, seconds, epochs) in zip(SYSTEMS, means, strict=True):
                print(f"{name:14} {system:12} NDCG@10 {score:6.2f}   {seconds:6.1f} s, epochs {epochs:6.1f} s")
            difference, whole, epochs = means[2, 0] - means[0, 0], *(means[2, 1:] / means[0, 1:])
            print(f"{name:14} continued - full: {difference:+.2f}; time {whole:.3f}, epochs {epochs:.3f}", flush=True)
            result[name] = {system: values[:, at].tolist() for at, system in enumerate(SYSTEMS)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
