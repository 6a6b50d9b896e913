"""Measure training speed on the CPU, in pairs/s, and compare it with a straightforward PyTorch version.

    python benchmarks/train.py [--threads 2] [--rounds 3]
    python benchmarks/train.py --run [--pairs 200000] [--epochs 20] [--device cpu]

Sizes are the paper's: 50,000 trigrams, 96 cells, titles of nine words, queries of three. `baseline` is what one would
write first (`baseline.py`). `baseline tuned` is the same network with every optimisation that we know: no padding,
each distinct word looked up once, fused SGD, memory kept by the process. `plain` is our version without compiled
code.

Each system runs in its own process, one after the other, in several rounds. With one thread, CPU time is measured,
which other programs disturb less. Lower bounds are measured too: the matrix products alone, and the memory traffic of
updating all weights. `--run` trains the paper's recipe on as many pairs as the paper had and measures the whole run;
with fewer epochs it extrapolates to 20. The last line is JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from clickvec.training.update import Seed

TRIGRAMS, WORDS, PAIRS, UPDATES, WARM = 50_000, 120_000, 40_000, 10, 2
PAPER_PAIRS, PAPER_EPOCHS = 200_000, 20
SYSTEMS = (
    "baseline", "baseline tuned", "plain paper", "paper",
    "baseline 1024", "baseline tuned 1024", "paper 1024",
    "plain default", "default",
)  # fmt: skip
BASES = {
    "default": "plain default",
    "1024": "baseline 1024",
    "": "baseline",
}  # the denominator of a ratio, by the end of the name


def made_up_words(rng: np.random.Generator) -> np.ndarray:
    """Return artificial words whose letters have realistic frequencies."""
    letters = np.array(list("etaoinsrhdlucmfywgpbvkxqjz0123456789"))
    chance = 1 / np.arange(1, len(letters) + 1) ** 1.3
    lengths = rng.integers(4, 10, WORDS)
    drawn = rng.choice(letters, lengths.sum(), p=chance / chance.sum())
    return np.array(["".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])])


def texts(pairs: int) -> tuple[list[str], list[str]]:
    """Return queries and titles of artificial words with realistic frequencies.

    A minibatch of 1,280 titles has about 6,500 distinct words and 7,000 trigrams, as many as titles of Wikipedia.
    """
    rng = np.random.default_rng(0)
    words = made_up_words(rng)
    chance = 1 / np.arange(1, WORDS + 1) ** 0.9
    titles = rng.choice(WORDS, (pairs, 9), p=chance / chance.sum())
    queries = np.take_along_axis(titles, rng.random((pairs, 9)).argsort(axis=1)[:, :3], axis=1)
    return [" ".join(row) for row in words[queries]], [" ".join(row) for row in words[titles]]


def prepared(pairs: int):  # noqa: ANN201
    """Return the texts as a dataset with as many trigrams as the paper had, including some that no word has."""
    from clickvec.data import BadLines, ClickLog, dataset

    queries, titles = texts(pairs)
    data = dataset.prepare(ClickLog(queries, titles, np.ones(pairs), BadLines()), 10, TRIGRAMS)
    missing = TRIGRAMS - len(data.trigrams)
    return data._replace(trigrams=data.trigrams + tuple(f"~{number}" for number in range(missing)))


def baseline_epoch(run, order: np.ndarray, seed: "Seed", tuned: bool) -> Iterator[object]:  # noqa: ANN001
    """Yield the updates of the baseline on the minibatches of our trainer."""
    import baseline

    update, size = baseline.make(run, tuned), run.recipe.batch_size
    for batch in range(seed.batches):
        pairs = order[batch * size : (batch + 1) * size]
        yield update(pairs, np.random.default_rng(seed.draw(batch)), batch)


def time_one(system: str) -> None:
    """Print the pairs/s of one system: the median over some minibatches."""
    if "plain" in system:
        os.environ["CLICKVEC_COMPILED"] = "0"
    if "baseline" not in system:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # as `tuned_for_training` sets it, before torch is imported
    import torch

    from clickvec.config import recipe
    from clickvec.training import loop
    from clickvec.training.process_settings import tuned_for_training
    from clickvec.training.update import Seed

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    larger = {"batch_size": 1024} if "1024" in system else {}
    chosen = recipe("default" if "default" in system else "paper", **larger)
    with tempfile.TemporaryDirectory() as place:
        run = loop.Run(prepared(PAIRS), chosen, Path(place), None, torch.device("cpu"))
    taken, order = [], np.random.default_rng(1).permutation(PAIRS)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    with ExitStack() as settings:
        if system.replace(" 1024", "") != "baseline":
            settings.enter_context(tuned_for_training())
        seed = Seed(1, 0, PAIRS // chosen.batch_size)
        updates = (
            baseline_epoch(run, order, seed, "tuned" in system)
            if "baseline" in system
            else run.updater.epoch(order, seed, 0)
        )
        for _ in range(WARM + UPDATES):
            started = clock()
            next(updates)
            taken.append(clock() - started)
    print(chosen.batch_size / statistics.median(taken[WARM:]))


def time_limits() -> None:
    """Print lower bounds for a minibatch of 256 pairs as JSON: seconds for each bound."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def fastest(work: Callable[[], object], times: int = 30) -> float:
        taken = []
        for _ in range(times):
            started = clock()
            work()
            taken.append(clock() - started)
        return min(taken)

    def products(inside: int, gates: int, first: int) -> float:
        """Time the forward and both gradient products of 1,280 titles and 256 queries, from token `first` on."""
        seconds = 0.0
        for texts, steps in ((1280, 9), (256, 3)):
            x, w, a = torch.randn(texts, inside), torch.randn(inside, gates), torch.randn(texts, gates)
            once = sum(map(fastest, (partial(torch.mm, x, w), partial(torch.mm, a, w.T), partial(torch.mm, x.T, a))))
            seconds += (steps - first) * once
        return seconds

    here, there = torch.randn(TRIGRAMS, 288), torch.randn(TRIGRAMS, 288)
    bandwidth = 2 * 4 * here.numel() / fastest(lambda: there.copy_(here))
    moved = 2 * 5 * 4 * here.numel()  # two towers; weights, changes and gradients read, weights and changes written
    found = {
        "products, ours": products(96, 288, 1),  # the first token has no recurrent product
        "products, baseline": products(288, 384, 0) + products(96, 384, 1),
        "update of all weights": moved / bandwidth,
    }
    print(json.dumps({"bandwidth": bandwidth, "seconds": found}))


def in_a_process(threads: int, *arguments: str) -> str:
    command, environment = [sys.executable, __file__, *arguments], {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def compare(threads: int, rounds: int) -> None:
    """Measure all systems in turns, and the lower bounds."""
    found: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    for _ in range(rounds):
        for system in SYSTEMS:
            found[system].append(float(in_a_process(threads, "--one", system)))
    limits = json.loads(in_a_process(threads, "--limits"))
    rates = {system: statistics.median(values) for system, values in found.items()}
    print(f"{TRIGRAMS:,} trigrams, 96 cells, titles of nine words; {threads} threads, {rounds} rounds")
    for system, rate in rates.items():
        base = next(base for end, base in BASES.items() if system.endswith(end))
        spread = f"{min(found[system]):,.0f} to {max(found[system]):,.0f}"
        print(f"{system:22} {rate:9,.0f} pairs/s   ratio {rate / rates[base]:5.2f}   ({spread})")
    print(f"lower bounds for 256 pairs, at a memory bandwidth of {limits['bandwidth'] / 1e9:.0f} GB/s:")
    for name, seconds in limits["seconds"].items():
        print(f"{name:22} {1000 * seconds:9.1f} ms        {256 / seconds:9,.0f} pairs/s at most")
    ratios = {
        "baseline": rates["paper"] / rates["baseline"],
        "baseline tuned": rates["paper"] / rates["baseline tuned"],
        "baseline tuned 1024": rates["paper 1024"] / rates["baseline tuned 1024"],
    }
    print(json.dumps({"threads": threads, "pairs_per_second": rates, "ratio_to": ratios, "limits": limits}))


def whole_run(pairs: int, epochs: int, device: str, threads: int) -> None:
    """Train as a user does, and print how long it took."""
    import torch

    from clickvec.config import recipe
    from clickvec.training import loop

    torch.set_num_threads(threads)
    data = prepared(pairs)
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        loop.run_training(data, recipe("paper", epochs=epochs), Path(place) / "model", device=device)
        seconds = time.perf_counter() - started
    rate = pairs * epochs / seconds
    print(f"{pairs:,} pairs, {epochs} epochs on {device}: {seconds:,.1f} s in total, {rate:,.0f} pairs/s")
    if epochs != PAPER_EPOCHS:
        print(f"at this rate {PAPER_EPOCHS} epochs would take {PAPER_EPOCHS * pairs / rate:,.0f} s (not run)")
    print(
        json.dumps({"pairs": pairs, "epochs": epochs, "device": device, "seconds": seconds, "pairs_per_second": rate})
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", action="store_true", help="train the paper's recipe on the paper's number of pairs")
    parser.add_argument("--pairs", type=int, default=PAPER_PAIRS)
    parser.add_argument("--epochs", type=int, default=PAPER_EPOCHS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--one", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--limits", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        time_one(options.one)
    elif options.limits:
        time_limits()
    elif options.run:
        whole_run(options.pairs, options.epochs, options.device, options.threads)
    else:
        compare(options.threads, options.rounds)


if __name__ == "__main__":
    main()
