"""How fast a model is trained on the CPU, in pairs a second, against the straightforward PyTorch version.

    python benchmarks/train.py [--threads 2] [--rounds 3]
    python benchmarks/train.py --run [--pairs 200000] [--epochs 20] [--device cpu]

The paper's full size: 50,000 trigrams, 96 cells, titles of nine words, queries of three. `rival` is what one would
write first (`rival.py`), `rival tuned` the same with all that we know: no padding, distinct words looked up once, SGD
in one pass, memory that stays with the process. `plain` is our readable tower, every row updated at each update; `not
compiled` what ours is without a C compiler.
Each is timed in its own process, one after the other, in turns; with one thread it is the time of the processor, which
other work on the machine disturbs less. Beside them stand the limits: the matrix products alone, and what the update of
all weights moves, at the speed of a copy. `--run` trains the paper's recipe on as many pairs as the paper had, and says
how long all of it takes; with fewer epochs it says what 20 would take. The last line is JSON.
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
    "rival", "rival tuned", "plain paper", "not compiled, paper", "paper",
    "rival 1024", "rival tuned 1024", "paper 1024",
    "plain default", "default",
)  # fmt: skip
BASES = {"default": "plain default", "1024": "rival 1024", "": "rival"}  # what a ratio is to, by the end of a name


def made_up_words(rng: np.random.Generator) -> np.ndarray:
    """Words whose letters have frequencies that fall as they do in real ones."""
    letters = np.array(list("etaoinsrhdlucmfywgpbvkxqjz0123456789"))
    chance = 1 / np.arange(1, len(letters) + 1) ** 1.3
    lengths = rng.integers(4, 10, WORDS)
    drawn = rng.choice(letters, lengths.sum(), p=chance / chance.sum())
    return np.array(["".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])])


def texts(pairs: int) -> tuple[list[str], list[str]]:
    """Queries and titles of made-up words, whose frequencies fall as they do in real ones.

    A minibatch of 1,280 titles has some 6,500 different words and 7,000 trigrams, as many as titles of Wikipedia do.
    """
    rng = np.random.default_rng(0)
    words = made_up_words(rng)
    chance = 1 / np.arange(1, WORDS + 1) ** 0.9
    titles = rng.choice(WORDS, (pairs, 9), p=chance / chance.sum())
    queries = np.take_along_axis(titles, rng.random((pairs, 9)).argsort(axis=1)[:, :3], axis=1)
    return [" ".join(row) for row in words[queries]], [" ".join(row) for row in words[titles]]


def prepared(pairs: int):  # noqa: ANN201
    """The texts as a data set with as many trigrams as the paper had; rows that no word has are there all the same."""
    from clickvec.data import BadLines, ClickLog, dataset

    queries, titles = texts(pairs)
    data = dataset.prepare(ClickLog(queries, titles, np.ones(pairs), BadLines()), 10, TRIGRAMS)
    missing = TRIGRAMS - len(data.trigrams)
    return data._replace(trigrams=data.trigrams + tuple(f"~{number}" for number in range(missing)))


def make_plain(run) -> None:  # noqa: ANN001
    """Let our towers run as they are written to be read, and the optimizer over all rows."""
    from clickvec.training import optimizers
    from clickvec.training.cpu import rows

    parameters = [weight for tower in run.towers.towers.values() for weight in tower.parameters()]
    run.updater.optimizer = optimizers.make(run.recipe, parameters, run.updates)
    for side, tower in run.towers.towers.items():
        tower.by_hand = False
        run.updater.inputs[side] = rows.Whole(tower.weights["input"])


def rivals_epoch(run, order: np.ndarray, seed: "Seed", tuned: bool) -> Iterator[object]:  # noqa: ANN001
    """The updates of the rival on the minibatches that ours takes."""
    import rival

    update, size = rival.make(run, tuned), run.recipe.batch_size
    for batch in range(seed.batches):
        pairs = order[batch * size : (batch + 1) * size]
        yield update(pairs, np.random.default_rng(seed.draw(batch)), batch)


def time_one(system: str) -> None:
    """Print the pairs a second of one system: the median over some minibatches."""
    if "not compiled" in system or "plain" in system:
        os.environ["CLICKVEC_COMPILED"] = "0"
    if "rival" not in system:
        import clickvec.training  # noqa: F401 - before torch is loaded it says how threads are to wait
    import torch

    from clickvec.config import recipe
    from clickvec.training import loop, memory
    from clickvec.training.update import Seed

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    larger = {"batch_size": 1024} if "1024" in system else {}
    chosen = recipe("default" if "default" in system else "paper", **larger)
    with tempfile.TemporaryDirectory() as place:
        run = loop.Run(prepared(PAIRS), chosen, Path(place), None, torch.device("cpu"), "", True)
    taken, order = [], np.random.default_rng(1).permutation(PAIRS)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    with ExitStack() as settings:
        if "plain" in system:
            make_plain(run)
        if "plain" not in system and system.replace(" 1024", "") != "rival":
            settings.enter_context(memory.kept())
        seed = Seed(1, 0, PAIRS // chosen.batch_size)
        updates = (
            rivals_epoch(run, order, seed, "tuned" in system)
            if "rival" in system
            else run.updater.epoch(order, seed, 0)
        )
        for _ in range(WARM + UPDATES):
            begun = clock()
            next(updates)
            taken.append(clock() - begun)
    print(chosen.batch_size / statistics.median(taken[WARM:]))


def time_limits() -> None:
    """Print what a minibatch of 256 pairs takes at the least, as JSON: seconds for each limit."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def fastest(work: Callable[[], object], times: int = 30) -> float:
        taken = []
        for _ in range(times):
            begun = clock()
            work()
            taken.append(clock() - begun)
        return min(taken)

    def products(inside: int, gates: int, first: int) -> float:
        """Forward, and both products of the gradient, of 1,280 titles and 256 queries, from step `first` on."""
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
        "products, ours": products(96, 288, 1),  # before the first word there is nothing to multiply
        "products, rival": products(288, 384, 0) + products(96, 384, 1),
        "update of all weights": moved / bandwidth,
    }
    print(json.dumps({"bandwidth": bandwidth, "seconds": found}))


def in_a_process(threads: int, *arguments: str) -> str:
    command, environment = [sys.executable, __file__, *arguments], {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def compare(threads: int, rounds: int) -> None:
    """All systems in turns, and the limits."""
    found: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    for _ in range(rounds):
        for system in SYSTEMS:
            found[system].append(float(in_a_process(threads, "--one", system)))
    limits = json.loads(in_a_process(threads, "--limits"))
    rates = {system: statistics.median(values) for system, values in found.items()}
    print(f"{TRIGRAMS:,} trigrams, 96 cells, nine words a title; {threads} threads, {rounds} rounds")
    for system, rate in rates.items():
        base = next(base for end, base in BASES.items() if system.endswith(end))
        spread = f"{min(found[system]):,.0f} to {max(found[system]):,.0f}"
        print(f"{system:22} {rate:9,.0f} pairs/s   ratio {rate / rates[base]:5.2f}   ({spread})")
    print(f"the least that 256 pairs take, where a copy moves {limits['bandwidth'] / 1e9:.0f} GB/s:")
    for name, seconds in limits["seconds"].items():
        print(f"{name:22} {1000 * seconds:9.1f} ms        {256 / seconds:9,.0f} pairs/s at most")
    ratios = {
        "rival": rates["paper"] / rates["rival"],
        "rival tuned": rates["paper"] / rates["rival tuned"],
        "rival tuned 1024": rates["paper 1024"] / rates["rival tuned 1024"],
    }
    print(json.dumps({"threads": threads, "pairs_per_second": rates, "ratio_to": ratios, "limits": limits}))


def whole_run(pairs: int, epochs: int, device: str, threads: int) -> None:
    """Train as a user does, and say how long it took."""
    import torch

    from clickvec.config import recipe
    from clickvec.training import loop

    torch.set_num_threads(threads)
    data = prepared(pairs)
    with tempfile.TemporaryDirectory() as place:
        begun = time.perf_counter()
        loop.train(data, recipe("paper", epochs=epochs), Path(place) / "model", device=device, quiet=True)
        seconds = time.perf_counter() - begun
    rate = pairs * epochs / seconds
    print(f"{pairs:,} pairs, {epochs} epochs on {device}: {seconds:,.1f} s in all, {rate:,.0f} pairs/s")
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
