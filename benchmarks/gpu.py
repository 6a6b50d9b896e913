"""Measure training speed on a GPU, in pairs/s, and compare it with the readable version on the same GPU.

    python benchmarks/gpu.py [--updates 100]

Sizes are the paper's, as in train.py: 50,000 trigrams, 96 cells, titles of nine words, queries of three, 200,000
pairs. `plain` is our readable towers with autograd; `nn.LSTM` is the tuned baseline of train.py. The minibatches are
the same. The upper bounds of this GPU are measured too: by memory (bytes that must move, at the speed of a copy) and
by matrix products (float32, at the speed of a large product). Then the losses of the first updates are compared with
the CPU's. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from baseline import make as make_baseline
from train import TRIGRAMS, prepared

from clickvec.config import Recipe, recipe
from clickvec.data.dataset import Dataset
from clickvec.training.device import make_updater as make
from clickvec.training.negatives import Sampler
from clickvec.training.towers import TowerPair
from clickvec.training.update import Plain, Seed

PAIRS, WARM, CELLS, GATES = 200_000, 10, 96, 3
IN_BATCH = {"batch_negatives": True}
SETTINGS: dict[str, dict[str, Any]] = {
    "in-batch, 4,096": {"batch_size": 4096, **IN_BATCH},
    "in-batch, 1,024": {"batch_size": 1024, **IN_BATCH},
    "n = 4, 4,096": {"batch_size": 4096},
    "n = 4, 1,024": {"batch_size": 1024},
    "n = 4, 256": {"batch_size": 256},
}


class NNLSTM:
    """The tuned baseline of train.py, on the GPU."""

    def __init__(self, data: Dataset, chosen: Recipe, towers: TowerPair, sampler: Sampler, *others: object) -> None:
        self._size = chosen.batch_size
        self._update = make_baseline(SimpleNamespace(recipe=chosen, data=data, sampler=sampler), True, "cuda")

    def epoch(self, order: np.ndarray, seed: Seed, first: int) -> Iterator[object]:
        """Yield the updates of an epoch, as `Update.epoch` does."""
        for batch in range(first, seed.batches):
            pairs = order[batch * self._size : (batch + 1) * self._size]
            yield self._update(pairs, np.random.default_rng(seed.draw(batch)), seed.update(batch))


def way(data: Dataset, chosen: Recipe, device: str, kind: Any = make) -> Any:  # noqa: ANN401
    towers = TowerPair(chosen, data.trigrams, torch.device(device))
    updates = chosen.epochs * -(-PAIRS // chosen.batch_size)
    return kind(data, chosen, towers, Sampler(data, chosen), np.ones(PAIRS, np.float32), updates)


def outcomes(updater: Any, chosen: Recipe) -> Any:  # noqa: ANN401
    """Yield the updates of one epoch after the other."""
    batches, epoch = -(-PAIRS // chosen.batch_size), 0
    while True:
        order = np.random.default_rng(epoch).permutation(PAIRS)
        yield from updater.epoch(order, Seed(1, epoch, batches), 0)
        epoch += 1


def pairs_per_second(data: Dataset, chosen: Recipe, kind: Any, updates: int) -> float:  # noqa: ANN401
    going = outcomes(way(data, chosen, "cuda", kind), chosen)
    list(islice(going, WARM))
    torch.cuda.synchronize()
    started = time.perf_counter()
    list(islice(going, updates))
    torch.cuda.synchronize()
    return updates * chosen.batch_size / (time.perf_counter() - started)


def seconds(work: Any, times: int = 20) -> float:  # noqa: ANN401
    """Return the median time of some work on the GPU."""
    taken = []
    for _ in range(times + 3):
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken[3:]))


def speeds() -> tuple[float, float]:
    """Return bytes/s of a copy (read and written) and operations/s of a large float32 matrix product."""
    many, large = torch.rand(2**29, device="cuda"), torch.rand(8192, 8192, device="cuda")
    other, product = torch.empty_like(many), torch.empty_like(large)
    copy = seconds(lambda: other.copy_(many))
    return 2 * 4 * len(many) / copy, 2 * 8192**3 / seconds(lambda: torch.mm(large, large, out=product), 5)


def bounds(data: Dataset, chosen: Recipe, copy: float, product: float) -> tuple[float, float]:
    """Return upper bounds in pairs/s: by memory, and by matrix products.

    Of each token: its sums, activations and gradients are written and read once each, cells and outputs too. Of each
    row that a minibatch touches: weight, change and gradient. The products are those of the recurrence, three times
    (forward, to the token before, to the weights), and of the cosines.
    """
    rng, width = np.random.default_rng(0), GATES * CELLS
    pairs = rng.permutation(PAIRS)[: chosen.batch_size]
    found = Sampler(data, chosen).draw(pairs, rng, mask=False)
    sides = data.queries.take(data.pair_query[pairs]), data.titles.take(found.titles)
    rows = sum(len(np.unique(data.tokens.take(np.unique(side.values)).values)) for side in sides)
    tokens = sum(len(side.values) for side in sides)
    moved = 4 * (tokens * (6 * width + 4 * CELLS) + rows * 6 * width)
    titles = len(found.titles) if chosen.batch_negatives else 1 + chosen.negatives
    operations = 6 * CELLS * (tokens * width + len(pairs) * titles)
    return len(pairs) * copy / moved, len(pairs) * product / operations


def readable(*arguments: Any) -> Plain:  # noqa: ANN401
    """Return the readable version on the CPU, with autograd."""
    made = Plain(*arguments)
    for tower in made.towers.towers.values():
        tower.use_compiled = False
    return made


def agreement(data: Dataset, chosen: Recipe, device: str, kind: Any, updates: int = 50) -> dict[str, float]:  # noqa: ANN401
    """Return the largest absolute and relative difference of mean losses to those on the CPU."""
    both = outcomes(way(data, chosen, "cpu"), chosen), outcomes(way(data, chosen, device, kind), chosen)
    losses = [
        (float(here.loss) / here.weight, float(there.loss) / here.weight)
        for here, there in islice(zip(*both, strict=True), updates)
    ]
    return {
        "absolute": max(abs(here - there) for here, there in losses),
        "relative": max(abs(here - there) / here for here, there in losses),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=100)
    updates = parser.parse_args().updates
    data, (copy, product) = prepared(PAIRS), speeds()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {TRIGRAMS:,} trigrams, 96 cells, nine words")
    print(f"copy: {copy / 1e12:.2f} TB/s, float32 matrix product: {product / 1e12:.0f} TFLOP/s")
    print("negatives, minibatch      plain   nn.LSTM        ours   ratios     memory allows products allow")
    found: dict[str, dict[str, float]] = {}
    for name, settings in SETTINGS.items():
        chosen = recipe("paper", **settings)
        few = max(5, updates // 10)
        rates = {"plain": pairs_per_second(data, chosen, Plain, few)}
        rates["nn.LSTM"] = pairs_per_second(data, chosen, NNLSTM, few)
        rates["ours"] = pairs_per_second(data, chosen, make, updates)
        rates["memory"], rates["products"] = bounds(data, chosen, copy, product)
        ratios = f"{rates['ours'] / rates['plain']:.0f}, {rates['ours'] / rates['nn.LSTM']:.0f}"
        print(
            f"{name:18} {rates['plain']:12,.0f} {rates['nn.LSTM']:9,.0f} {rates['ours']:11,.0f}   {ratios:10}"
            f" {rates['memory']:13,.0f} {rates['products']:15,.0f}"
        )
        found[name] = rates
    default = recipe("default")
    rate, parted = pairs_per_second(data, default, make, updates), dict[str, dict[str, dict[str, float]]]()
    print(f"recipe default (Adam, word dropout), minibatches of {default.batch_size:,}: {rate:,.0f} pairs/s")
    for name in ("paper", "default"):
        parted[name] = {
            "GPU": agreement(data, recipe(name), "cuda", make),
            "CPU by autograd": agreement(data, recipe(name), "cpu", readable),
        }
        for there, by in parted[name].items():
            print(
                f"recipe {name}: mean losses of 50 updates on the {there} differ from the CPU's by at most "
                f"{by['absolute']:.1e} ({by['relative']:.1e} of the loss)"
            )
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "rates": found, "default": rate, "parted": parted}))


if __name__ == "__main__":
    main()
