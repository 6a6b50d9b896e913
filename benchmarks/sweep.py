"""Train with many different settings and print dev NDCG of each. The recipes were chosen this way.

    python benchmarks/sweep.py --clicks clicks.tsv.gz --dev dev.tsv.gz --recipe paper --towers lstm,rnn --random 12
    python benchmarks/sweep.py --clicks clicks.tsv.gz --dev dev.tsv.gz --trials trials.txt

`--random N` draws N settings from one of the spaces below, the same N for every tower, so that each gets the same
budget. A trials file has one trial per line, `key=value key=value ...`. Each result is one line of JSON; the best one
is printed last on stderr. Dev is measured once, on the model that the recipe keeps, and so is a second judged set
(`--also`), which helps if dev is small. Needs only numpy and torch.
"""

import argparse
import json
import logging
import multiprocessing
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SPACES: dict[str, dict[str, list[Any]]] = {
    "wide": {
        "learning_rate": [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05],
        "gamma": [5.0, 10.0, 15.0, 20.0, 30.0],
        "clip_norm": [0.3, 1.0, 3.0, 10.0],
        "epochs": [5, 10, 20],
        "initial_scale": [0.02, 0.05, 0.1, 0.2],
    },
    "narrow": {  # drawn around what the wide search liked
        "learning_rate": [0.003, 0.005, 0.01, 0.02, 0.03],
        "gamma": [2.0, 3.0, 5.0, 7.0, 10.0],
        "clip_norm": [0.1, 0.3, 1.0],
        "epochs": [5, 10],
        "initial_scale": [0.01, 0.02, 0.05],
    },
}


def random_trials(space: str, count: int, towers: list[str], seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    choices = SPACES[space].items()
    drawn = [[f"{key}={values[rng.integers(len(values))]}" for key, values in choices] for _ in range(count)]
    return [[f"tower={tower}", *settings] for settings in drawn for tower in towers]


@cache
def prepared(clicks: tuple[Path, ...], shown: Path | None, max_words: int, whole_words: bool) -> Any:  # noqa: ANN401
    from clickvec.data import dataset, read_clicks, read_judged

    judged = read_judged(shown) if shown else None
    return dataset.prepare(read_clicks(clicks), max_words, 50_000, judged, whole_words=whole_words)


def one_trial(options: argparse.Namespace, settings: list[str]) -> dict[str, Any]:
    import torch

    from clickvec import config
    from clickvec.data import read_judged
    from clickvec.errors import ClickvecError
    from clickvec.evaluation.evaluate import evaluate
    from clickvec.evaluation.neural import Neural
    from clickvec.evaluation.test_set import TestSet
    from clickvec.model.encoder import Encoder
    from clickvec.training.loop import run_training

    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING)
    torch.set_num_threads(options.threads)
    recipe = config.recipe(options.recipe, settings=settings)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        data = prepared(tuple(options.clicks), options.shown, recipe.max_words, recipe.whole_words)
        dev = read_judged(options.dev)
        try:
            keep_best = TestSet.of_judged(dev) if recipe.keep == "best" else None
            model = run_training(data, recipe, Path(place) / "model", dev=keep_best, device=options.device)
        except ClickvecError as error:
            return {"settings": settings, "failed": str(error)}
        seconds = time.monotonic() - started
        result = evaluate([Neural(Encoder(model), "dev")], dev)
        found = dict(zip(result.measures, np.round(result.means[0], 2).tolist(), strict=True))
        if options.also:
            second = evaluate([Neural(Encoder(model), "also")], read_judged(options.also))
            found |= {
                f"also {name}": round(float(mean), 2)
                for name, mean in zip(second.measures, second.means[0], strict=True)
            }
        kept = model.training["kept_epoch"]
        pace = round(model.training["kept"]["pairs_per_second"])
        return {"settings": settings, **found, "epoch": kept, "pairs_per_second": pace, "seconds": round(seconds, 1)}


def worker(options: argparse.Namespace, queue: Any, results: Any) -> None:  # noqa: ANN401
    deadline = options.started + 60 * options.minutes
    while time.time() < deadline:
        settings = queue.get()
        if settings is None:
            break
        try:
            results.put(one_trial(options, settings))
        except Exception as error:  # one failed trial must not end the sweep
            results.put({"settings": settings, "failed": repr(error)})
    results.put(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=Path, nargs="+", required=True)
    parser.add_argument("--shown", type=Path)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--also", type=Path, help="a second judged set")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--towers", default="lstm")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--space", choices=sorted(SPACES), default="wide")
    parser.add_argument("--trials", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no trial after this")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.started = time.time()
    trials = random_trials(options.space, options.random, options.towers.split(","), options.seed)
    if options.trials:
        trials += [line.split() for line in options.trials.read_text().splitlines() if line.strip()]
    context = multiprocessing.get_context("spawn")
    queue, results = context.Queue(), context.Queue()
    for trial in [*trials, *[None] * options.workers]:
        queue.put(trial)
    for _ in range(options.workers):
        context.Process(target=worker, args=(options, queue, results), daemon=True).start()
    rows, running = [], options.workers
    while running:
        row = results.get()
        if row is None:
            running -= 1
            continue
        rows.append(row)
        print(json.dumps(row), flush=True)
    best = max((row for row in rows if "NDCG@10" in row), key=lambda row: float(row["NDCG@10"]), default=None)
    print(f"{len(rows)} of {len(trials)} trials, {time.time() - options.started:.0f} s; best: {best}", file=sys.stderr)


if __name__ == "__main__":
    main()
