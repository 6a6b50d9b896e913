"""Train by two processes and by one, at equal minibatches: pairs/s and the loss of each epoch.

    python benchmarks/distributed.py [--impressions 600000] [--epochs 3] [--rounds 3] [--set KEY=VALUE ...]

The data is the built-in log, the recipe is `default`. Each system is a program of its own; they run one after the
other, in several rounds, and the table has the best round of each. Pairs/s are by the clock, which other programs on
the machine disturb; pairs per CPU second are the pairs of all processes divided by the CPU time of one of them (of its
threads together), which they disturb little. The last line is JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
SYSTEMS: dict[str, tuple[tuple[str, ...], int]] = {
    "one process, 1 thread": ((), 1),
    "one process, 2 threads": ((), 2),
    "two processes, 1 thread each": (TORCHRUN, 1),
}


def work(data: Path, settings: list[str]) -> None:
    """Train as one worker. The first one prints what it measured."""
    from clickvec.config import recipe
    from clickvec.training.process_settings import tuned_for_training

    with tuned_for_training():
        import torch

        from clickvec.data import data_folder
        from clickvec.training.loop import Run
        from clickvec.training.workers import joined

        with joined() as workers, tempfile.TemporaryDirectory() as folder:
            run = Run(data_folder.load(data), recipe("default", settings=settings), Path(folder), workers=workers)
            workers.sum(torch.zeros(1))  # the first exchange imports much
            clock, cpu = time.monotonic(), time.process_time()
            run.all_epochs()
            clock, cpu = time.monotonic() - clock, time.process_time() - cpu
            pairs, losses = run.pairs * run.recipe.epochs, [row["loss"] for row in run.state.history]
            if workers.is_first:
                print(json.dumps({"clock": pairs / clock, "cpu": pairs / cpu, "losses": losses}))


def measure(name: str, data: Path, settings: list[str]) -> dict[str, Any]:
    """Train once, and return what the first worker printed."""
    launch, threads = SYSTEMS[name]
    command = [sys.executable, *launch, __file__, "--worker", data, *(f"--set={text}" for text in settings)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--impressions", type=int, default=600_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--worker", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.set)
        return
    settings = [f"epochs={options.epochs}", *options.set]
    with tempfile.TemporaryDirectory() as folder:
        site, data = Path(folder, "site"), Path(folder, "data")
        for verb in (
            ("lab", "simulate", site, "--impressions", str(options.impressions)),
            ("prepare", site / "clicks.tsv.gz", "--out", data),
        ):
            subprocess.run([sys.executable, "-m", "clickvec", *verb], check=True, capture_output=True)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in SYSTEMS}
        for number in range(options.rounds):
            for name in SYSTEMS:
                rounds[name].append(measure(name, data, settings))
                print(f"round {number + 1}: {name}", file=sys.stderr)
    print(f"| | pairs/s | pairs per CPU second | {' | '.join(f'loss {k + 1}' for k in range(options.epochs))} |")
    print("|---|--:|--:|" + "--:|" * options.epochs)
    for name, runs in rounds.items():
        losses = " | ".join(f"{loss:.6f}" for loss in runs[0]["losses"])
        clock, cpu = (max(run[kind] for run in runs) for kind in ("clock", "cpu"))
        print(f"| {name} | {clock:,.0f} | {cpu:,.0f} | {losses} |")
    one, *_, two = (runs[0]["losses"] for runs in rounds.values())
    gap = max(abs(a - b) for a, b in zip(one, two, strict=True))
    print(f"\nLargest difference between the losses of two processes and of one: {gap:.1e}")
    print(json.dumps({"rounds": rounds, "gap": gap}))


if __name__ == "__main__":
    main()
