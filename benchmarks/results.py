"""Train on public data with both recipes, three seeds each, and write docs/results.md: all its numbers come from here.

    python benchmarks/results.py --data DIR --out docs/results.md

DIR holds msrd/{clicks,titles,train_judged,dev,test}.tsv.gz (see CONTRIBUTING.md). Each run has one core, and --jobs of
them go on at once. Runs that are complete are kept in --work, under the hash of their recipe and data, and not trained
again, so the command can be stopped and started. The last line is JSON.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from clickvec import config
from clickvec.encoder import Encoder
from clickvec.evaluate import evaluate
from clickvec.rankers import Ranker
from clickvec.rankers.lexical import BM25
from clickvec.rankers.neural import Neural
from clickvec.readers import Judged, read_judged, read_titles

SEEDS = (1, 2, 3)
# A name, and what follows `clickvec train clicks.tsv.gz --dev dev.tsv.gz`. {shown} is the judged training set.
SYSTEMS = {
    "paper, LSTM-RNN 96": "--recipe paper --tower lstm",
    "paper, DSSM 288/96": "--recipe paper --tower dssm",
    "paper, CLSM 288/96, window 3": "--recipe paper --tower clsm",
    "paper, RNN 288": "--recipe paper --tower rnn",
    "paper, bidirectional LSTM-RNN 96": "--recipe paper --tower bilstm",
    "default, LSTM-RNN 96": "--recipe default",
    "default, LSTM-RNN 96, titles shown and not clicked": "--recipe default --shown {shown}",
    "default, DSSM 288/96": "--recipe default --tower dssm",
    "default, bidirectional LSTM-RNN 96": "--recipe default --tower bilstm",
}


def train(data: Path, work: Path, options: str, seed: int) -> dict[str, Any]:
    """One run in a process of its own, on one core, with its time and peak memory; a finished one is not run again."""
    arguments = [*options.format(shown=data / "train_judged.tsv.gz").split(), "--set", f"seed={seed}"]
    name = run_name(data, arguments)
    out, note = work / name, work / f"{name}.json"
    if not note.exists():
        command = [sys.executable, "-m", "clickvec.cli", "train", data / "clicks.tsv.gz", "--dev", data / "dev.tsv.gz"]
        command += [*arguments, "--out", out, "--overwrite"]
        begun = time.monotonic()
        running = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        _, status, usage = os.wait4(running.pid, 0)
        if status:
            raise RuntimeError(f"training failed: {command}")
        note.write_text(json.dumps({"seconds": time.monotonic() - begun, "peak_mb": usage.ru_maxrss / 1024}))
        print(f"{' '.join(map(str, arguments))}: {note.read_text()}", file=sys.stderr, flush=True)
    return {"model": out, **json.loads(note.read_text())}


def run_name(data: Path, arguments: list[str]) -> str:
    """Changes with the recipe, as it is in config.py now, and with the data."""
    value = dict(zip(arguments[::2], arguments[1::2], strict=True))
    recipe = config.recipe(value["--recipe"], tower=value.get("--tower"), settings=[value["--set"]])
    about = [dataclasses.asdict(recipe), bool(value.get("--shown")), (data / "clicks.tsv.gz").stat().st_size]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def means(rankers: list[Ranker], judged: Judged) -> np.ndarray[Any, Any]:
    """NDCG@1/3/10 of each ranker."""
    return evaluate(rankers, judged).means


def measure(data: Path, work: Path, jobs: int) -> tuple[list[dict[str, Any]], dict[str, Judged]]:
    with ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(train, data, work, options, seed) for options in SYSTEMS.values() for seed in SEEDS]
        done = iter([run.result() for run in runs])
    sets = {name: read_judged(data / f"{name}.tsv.gz") for name in ("dev", "test")}
    rows: list[dict[str, Any]] = []
    for name, options in SYSTEMS.items():
        runs = [next(done) for _ in SEEDS]
        rankers: list[Ranker] = [Neural(Encoder.load(run["model"]), str(seed)) for seed, run in enumerate(runs)]
        row: dict[str, Any] = {"system": name, "options": options.format(shown="train_judged.tsv.gz")}
        row |= {split: means(rankers, judged) for split, judged in sets.items()}
        row |= {"seconds": [run["seconds"] for run in runs], "peak_mb": max(run["peak_mb"] for run in runs)}
        rows.append(row)
        print(f"{name}: dev {figures(row['dev'])}", file=sys.stderr)
    titles = [title.title for title in read_titles(data / "titles.tsv.gz")]
    lexical = BM25([*titles, *(title for judged in sets.values() for query in judged for title in query.titles)])
    rows.append(
        {"system": "BM25 (k1 1.2, b 0.75, not tuned)", **{split: means([lexical], sets[split]) for split in sets}}
    )
    return rows, sets


def figures(values: np.ndarray[Any, Any]) -> str:
    return " / ".join(f"{mean:.1f}" for mean in values.mean(axis=0))


def spread(values: np.ndarray[Any, Any]) -> str:
    return f"± {values[:, 2].std(ddof=1):.1f}" if len(values) > 1 else ""


HEAD = """# Results on msrd

Written by `make results`; nothing here is typed in by hand. The data is the Movie Search Ranking Dataset
(metarank/msrd, CC BY-SA 4.0): real web queries, and as clicks the movies that people picked from a shuffled list. Dev
has {dev:,} queries and test {test:,}; no test query occurs in training. Settings were chosen on dev alone. Each figure
is the mean of 3 seeds of NDCG@1 / @3 / @10 in per cent; ± is the standard deviation of NDCG@10 between the seeds.

| system | dev | | test | | seconds to train | peak memory |
|---|---|---|---|---|---|---|
"""
FOOT = """
By NDCG@10 on dev the order is, under `paper`: {paper}; under `default`: {default}.

Seconds and memory are those of the whole command, reading the log and measuring dev after each epoch included, with one
thread on one core of {cores}, {jobs} commands at a time. The commands, for seed 1:

```
{commands}
clickvec evaluate bm25 --judged test.tsv.gz --catalogue titles.tsv.gz
```
"""


def page(rows: list[dict[str, Any]], sets: dict[str, Judged], jobs: int) -> str:
    lines = []
    for row in rows:
        cost = f"{np.mean(row['seconds']):.0f} | {row['peak_mb']:,.0f} MB" if "seconds" in row else "|"
        quality = " | ".join(f"{figures(row[split])} | {spread(row[split])}" for split in ("dev", "test"))
        lines.append(f"| {row['system']} | {quality} | {cost} |")
    command = "clickvec train clicks.tsv.gz --dev dev.tsv.gz {} --set seed=1 --out MODEL"
    commands = "\n".join(command.format(row["options"]) for row in rows if "options" in row)
    orders = {recipe: order(rows, recipe) for recipe in ("paper", "default")}
    sizes = {split: len(judged) for split, judged in sets.items()}
    return (
        HEAD.format(**sizes)
        + "\n".join(lines)
        + "\n"
        + FOOT.format(commands=commands, cores=os.cpu_count(), jobs=jobs, **orders)
    )


def order(rows: list[dict[str, Any]], recipe: str) -> str:
    best_first = sorted(rows, key=lambda row: -float(row["dev"].mean(axis=0)[2]))
    names = [row["system"] for row in best_first if row["system"].startswith(recipe)]
    return "; ".join(name.removeprefix(f"{recipe}, ") for name in names)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    splits = ("dev", "test")
    return [{"system": row["system"], **{s: row[s].mean(axis=0).round(2).tolist() for s in splits}} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("out/results"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    rows, sets = measure(given.data / "msrd", given.work, given.jobs)
    text = page(rows, sets, given.jobs)
    given.out.write_text(text)
    print(text)
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    main()
