"""Train by two processes and by one, at equal minibatches: pairs/s and the loss of each epoch.

    python benchmarks/distributed.py [--log FILE] [--impressions 400000] [--epochs 5] [--rounds 3] [--set KEY=VALUE ...]

The data is a click log, or the built-in one; the recipe is `default`. Each system is a program of its own; they run one
after the other, in several rounds, and the table has the best round of each. Pairs/s are by the clock, which other
programs on the machine disturb; pairs per CPU second are the pairs of all processes divided by the CPU time of one of
them (of its threads together), which they disturb little.

Weights of two processes differ from those of one by rounding, so mining may order two titles with almost the same
cosine the other way round. A run with mined negatives has a last system, to tell this from an error: the two processes
mine, count the queries whose titles differ from those of one process, and go on with the titles of one process. The
last line is JSON. A round takes about a minute and a half on two idle cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickvec.training.loop import Run

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
SYSTEMS: dict[str, tuple[tuple[str, ...], int]] = {
    "one process, 1 thread": ((), 1),
    "one process, 2 threads": ((), 2),
    "two processes, 1 thread each": (TORCHRUN, 1),
}
ONE, TWO, SAME_MINED = "one process, 1 thread", "two processes, 1 thread each", "two processes, titles mined by one"


def work(data: Path, mined: Path | None, settings: list[str]) -> None:
    """Train as one worker. The first one prints what it measured.

    In the folder `mined`, one process leaves the titles that it mines, and several take them from there.
    """
    from clickvec.config import recipe
    from clickvec.training.process_settings import tuned_for_training

    with tuned_for_training():
        import torch

        from clickvec.data import data_folder
        from clickvec.training.loop import Run
        from clickvec.training.workers import joined

        with joined() as workers, tempfile.TemporaryDirectory() as folder:
            run = Run(data_folder.load(data), recipe("default", settings=settings), Path(folder), workers=workers)
            differing = share_mined(run, mined) if mined else []
            workers.sum(torch.zeros(1))  # the first exchange imports much
            clock, cpu = time.monotonic(), time.process_time()
            run.all_epochs()
            clock, cpu = time.monotonic() - clock, time.process_time() - cpu
            pairs, losses = run.pairs * run.recipe.epochs, [row["loss"] for row in run.state.history]
            if workers.is_first:
                found = {"clock": pairs / clock, "cpu": pairs / cpu, "losses": losses, "differing": differing}
                print(json.dumps(found))


def share_mined(run: "Run", folder: Path) -> list[dict[str, float]]:
    """Let one process write the titles that it mines in each epoch, and several use these instead of their own.

    Return a list to which each mining by several processes adds how many queries have other titles, how many of them in
    another order only, and the largest difference of their cosines.
    """
    import numpy as np

    differing, mine = list[dict[str, float]](), run._mine

    def shared() -> None:
        mine()
        own, path = run.sampler.mined, folder / f"{run.state.epoch}.npy"
        if run.workers.count == 1:
            np.save(path, own)
            return
        theirs = np.load(path)
        rows = np.flatnonzero((own != theirs).any(axis=1))
        same = (np.sort(own[rows]) == np.sort(theirs[rows])).all(axis=1)
        gap = cosine_gap(run, rows, own[rows], theirs[rows]) if len(rows) else 0.0
        if run.state.epoch:  # the first epoch has no mined titles
            differing.append({"queries": len(own), "differ": len(rows), "only order": int(same.sum()), "gap": gap})
        own[:] = theirs

    run._mine = shared  # type: ignore[method-assign]
    return differing


def cosine_gap(run: "Run", queries: Any, *mined: Any) -> float:  # noqa: ANN401
    """Return the largest difference between the cosines of two lists of titles, compared position by position."""
    import torch

    from clickvec.training.mining import _encode

    with torch.no_grad():
        data, device = run.data, run.device
        y_q = _encode(run.towers.query, data.queries.take(queries), data.tokens, device)
        y_d = [_encode(run.towers.title, data.titles.take(part.ravel()), data.tokens, device) for part in mined]
        ours, theirs = (torch.einsum("rd,rkd->rk", y_q, part.view(len(y_q), -1, part.shape[1])) for part in y_d)
        return float((ours - theirs).abs().max())


def measure(name: str, data: Path, mined: Path, settings: list[str]) -> dict[str, Any]:
    """Train once, and return what the first worker printed."""
    launch, threads = SYSTEMS[TWO if name == SAME_MINED else name]
    command = [sys.executable, *launch, __file__, "--worker", data, *(f"--set={text}" for text in settings)]
    command += ["--mined", mined] if name in (ONE, SAME_MINED) else []
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", type=Path, help="a click log; without it, the built-in log of --impressions")
    parser.add_argument("--impressions", type=int, default=400_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--worker", type=Path)
    parser.add_argument("--mined", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.mined, options.set)
        return
    settings = [f"epochs={options.epochs}", *options.set]
    from clickvec.config import recipe

    names = [*SYSTEMS, *([SAME_MINED] if recipe("default", settings=settings).hard_negatives else [])]
    with tempfile.TemporaryDirectory() as folder:
        site, data, mined = (Path(folder, name) for name in ("site", "data", "mined"))
        mined.mkdir()
        log = options.log or site / "clicks.tsv.gz"
        if not options.log:
            clickvec("lab", "simulate", site, "--impressions", str(options.impressions))
        clickvec("prepare", log, "--out", data)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for number in range(options.rounds):
            for name in names:
                rounds[name].append(measure(name, data, mined, settings))
                print(f"round {number + 1}: {name}", file=sys.stderr)
    print(f"| | pairs/s | pairs per CPU second | {' | '.join(f'loss {k + 1}' for k in range(options.epochs))} |")
    print("|---|--:|--:|" + "--:|" * options.epochs)
    for name, runs in rounds.items():
        losses = " | ".join(f"{loss:.6f}" for loss in runs[0]["losses"])
        clock, cpu = (max(run[kind] for run in runs) for kind in ("clock", "cpu"))
        print(f"| {name} | {clock:,.0f} | {cpu:,.0f} | {losses} |")
    print("\nLargest difference between the losses of two processes and of one:")
    gaps = {name: largest_gap(rounds[ONE], rounds[name]) for name in names if name in (TWO, SAME_MINED)}
    for name, gap in gaps.items():
        print(f"- {name}: {gap:.1e}")
    for epoch, found in enumerate(rounds[names[-1]][0]["differing"], 2):
        print(
            f"Mining before epoch {epoch}: {found['differ']} of {found['queries']:,} queries get other titles, "
            f"{found['only order']} of them only in another order; their cosines differ by {found['gap']:.0e} at most."
        )
    print(json.dumps({"rounds": rounds, "gaps": gaps}))


def clickvec(*arguments: str | Path) -> None:
    """Run a command of clickvec."""
    subprocess.run([sys.executable, "-m", "clickvec", *arguments], check=True, capture_output=True)


def largest_gap(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> float:
    """Return the largest difference between the losses of the first rounds."""
    return max(abs(a - b) for a, b in zip(one[0]["losses"], two[0]["losses"], strict=True))


if __name__ == "__main__":
    main()
