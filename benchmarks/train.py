"""How fast a model is trained on the CPU, in pairs a second, against the straightforward PyTorch version.

    python benchmarks/train.py [--threads 2] [--rounds 3]

The paper's full size: 50,000 trigrams, 96 cells, titles of nine words, queries of three. The rival is what one would
write first: EmbeddingBag, packed nn.LSTM, SGD with Nesterov over all weights, on the same minibatches and negatives.
Beside it, for the recipes `paper` and `default`, `plain`: our readable towers, every row updated at each update.
Each is timed in its own process, one after the other, in turns; with one thread it is the time of the processor, which
other work on the machine disturbs less. The last line is JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np

TRIGRAMS, WORDS, PAIRS, UPDATES, WARM = 50_000, 120_000, 40_000, 10, 2
SYSTEMS = ("rival", "plain paper", "paper", "plain default", "default")
Update = Callable[[np.ndarray, np.random.Generator, int], object]


def texts(pairs: int) -> tuple[list[str], list[str]]:
    """Queries and titles of made-up words, with the frequencies of words and letters falling as they do in real ones.

    A minibatch of 1,280 titles has some 6,500 different words and 7,000 trigrams, as many as titles of Wikipedia do.
    """
    rng, letters = np.random.default_rng(0), np.array(list("etaoinsrhdlucmfywgpbvkxqjz0123456789"))
    chance = 1 / np.arange(1, len(letters) + 1) ** 1.3
    lengths = rng.integers(4, 10, WORDS)
    drawn = rng.choice(letters, lengths.sum(), p=chance / chance.sum())
    words = np.array(["".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])])
    chance = 1 / np.arange(1, WORDS + 1) ** 0.9
    titles = rng.choice(WORDS, (pairs, 9), p=chance / chance.sum())
    queries = np.take_along_axis(titles, rng.random((pairs, 9)).argsort(axis=1)[:, :3], axis=1)
    return [" ".join(row) for row in words[queries]], [" ".join(row) for row in words[titles]]


def straightforward(run) -> Update:  # noqa: ANN001
    """The rival, on the minibatches that `run` would draw."""
    import torch
    from torch import nn

    from clickvec.text import Ragged

    recipe, data = run.recipe, run.data

    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.EmbeddingBag(TRIGRAMS, 3 * recipe.cells, mode="sum")  # 14.4 million weights, as ours
            self.lstm = nn.LSTM(3 * recipe.cells, recipe.cells, batch_first=True)

        def forward(self, texts) -> torch.Tensor:  # noqa: ANN001
            lengths, no_word = torch.from_numpy(texts.lengths), len(data.steps.lengths)
            padded = np.full((len(lengths), int(lengths.max())), no_word)
            padded[np.arange(padded.shape[1]) < texts.lengths[:, None]] = texts.values
            trigrams = Ragged(data.steps.values, np.append(data.steps.offsets, len(data.steps.values))).take(
                padded.ravel()
            )
            ids, starts = torch.from_numpy(trigrams.values).long(), torch.from_numpy(trigrams.offsets[:-1])
            words = self.words(ids, starts).view(*padded.shape, -1)
            packed = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
            _, (last, _) = self.lstm(packed)
            return nn.functional.normalize(last[0], dim=1)

    query, title = Tower(), Tower()
    rule = torch.optim.SGD([*query.parameters(), *title.parameters()], recipe.step, recipe.momentum, nesterov=True)

    def update(pairs: np.ndarray, rng: np.random.Generator, number: int) -> float:
        found = run.sampler.draw(pairs, rng)
        y_q, y_d = query(data.queries.take(data.pair_query[pairs])), title(data.titles.take(found.titles))
        candidates = torch.from_numpy(np.concatenate([found.positive[:, None], found.negative], axis=1))
        cosines = torch.einsum("rd,rjd->rj", y_q, y_d[candidates])
        loss = nn.functional.cross_entropy(recipe.gamma * cosines, torch.zeros(len(pairs), dtype=torch.int64))
        rule.zero_grad()
        loss.backward()
        for tower in (query, title):
            nn.utils.clip_grad_norm_(tower.parameters(), recipe.clip)
        rule.step()
        return loss.item()

    return update


def plain(run) -> Update:  # noqa: ANN001
    """Our towers as they are written to be read, and the optimizer over all rows."""
    from clickvec.train import optimizers, rows

    parameters = [weight for tower in run.towers.towers.values() for weight in tower.parameters()]
    run.updater.optimizer = optimizers.make(run.recipe, parameters, run.updates)
    for side, tower in run.towers.towers.items():
        tower.by_hand = False
        run.updater.inputs[side] = rows.Whole(tower.weights["input"])
    return run.updater.one_update


def time_one(system: str) -> None:
    """Print the pairs a second of one system: the median over some minibatches."""
    import torch

    from clickvec import dataset
    from clickvec.config import recipe
    from clickvec.readers import BadLines, ClickLog
    from clickvec.train import loop, memory

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    queries, titles = texts(PAIRS)
    data = dataset.prepare(ClickLog(queries, titles, np.ones(PAIRS), BadLines()), 10, TRIGRAMS)
    missing = TRIGRAMS - len(data.trigrams)  # rows that no word has are there all the same
    data = data._replace(trigrams=data.trigrams + tuple(f"~{number}" for number in range(missing)))
    chosen = recipe("default" if "default" in system else "paper")
    with tempfile.TemporaryDirectory() as place:
        run = loop.Run(data, chosen, Path(place), None, torch.device("cpu"), "", True)
    made = {"rival": straightforward, "plain": plain}.get(system.split()[0])
    update = made(run) if made else run.updater.one_update
    taken, order = [], np.random.default_rng(1).permutation(PAIRS)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    with nullcontext() if made else memory.kept():
        for number in range(WARM + UPDATES):
            pairs = order[np.arange(number * chosen.batch_size, (number + 1) * chosen.batch_size) % PAIRS]
            begun = clock()
            update(pairs, np.random.default_rng([3, number]), number)
            taken.append(clock() - begun)
    print(chosen.batch_size / statistics.median(taken[WARM:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=SYSTEMS)
    options = parser.parse_args()
    if options.one:
        time_one(options.one)
        return
    found: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    for _ in range(options.rounds):
        for system in SYSTEMS:
            command = [sys.executable, __file__, "--one", system]
            environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            found[system].append(float(done.stdout))
    rates = {system: statistics.median(values) for system, values in found.items()}
    print(f"{TRIGRAMS:,} trigrams, 96 cells, nine words a title; {options.threads} threads, {options.rounds} rounds")
    for system, rate in rates.items():
        base = rates["plain default" if "default" in system else "rival"]
        spread = f"{min(found[system]):,.0f} to {max(found[system]):,.0f}"
        print(f"{system:14} {rate:9,.0f} pairs/s   ratio {rate / base:5.2f}   ({spread})")
    print(json.dumps({"threads": options.threads, "pairs_per_second": rates, "ratio": rates["paper"] / rates["rival"]}))


if __name__ == "__main__":
    main()
