"""How much does a teacher teach? Train variants of the recipe, and measure each by judges and by held-out clicks.

    clickvec prepare CLICKS --catalogue TITLES --teacher MODEL --hold-out --out DATA
    python benchmarks/teacher.py DATA --teacher DATA.teacher --dev JUDGED --out DIR \
        default "taught: teacher" "taught, 192 cells: teacher cells=192"

A variant is a name, a colon, and what changes over the recipe `default`: `teacher`, and settings. Each is trained with
--seeds seeds. The table has NDCG@1, @3 and @10 on the judged set, means over the seeds, and NDCG@10, MRR@10 and
Recall@100 on the clicks that DATA holds out for dev, over all its titles; p is of the difference in NDCG@10 from the
first variant (randomisation test over queries, after averaging seeds). The time of training is that of the fastest
seed; the teacher's vectors are there before the second seed. --test measures test in place of dev; --dev is then the
judged test set. A cell that is in DIR already is not trained again, so several processes can share the work: --part
1/4, --part 2/4 and so on.

To learn from two teachers, first train a larger model, and then name its folder too:

    python benchmarks/teacher.py DATA --teacher DATA.teacher --dev JUDGED --out DIR --seeds 1 "large: cells=224"
    python benchmarks/teacher.py DATA --teacher DATA.teacher --teacher "DIR/large 1/model" --dev JUDGED --out DIR \
        default "two teachers: teacher"

With `teacher_epochs=4` in a variant, the transformer is fine-tuned on the clicks before it teaches. DATA.teacher must
hold tokens then (prepare --tokens), and all variants of the call learn from the fine-tuned transformer.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from clickvec import config
from clickvec.data import read_judged
from clickvec.data.data_folder import load_with_texts
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.significance import randomisation_test
from clickvec.model.encoder import Encoder
from clickvec.model.folder import save_model
from clickvec.model.shrink import shrink_model
from clickvec.training.loop import run_training
from clickvec.training.measuring import folder_parts
from clickvec.training.process_settings import tuned_for_training
from clickvec.training.trainer import read_teacher

JUDGED, CLICKS = ("NDCG@1", "NDCG@3", "NDCG@10"), ("NDCG@10", "MRR@10", "Recall@100")
Settings = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--teacher", required=True, action="append", help="repeat it to add a clickvec model")
    parser.add_argument("--dev", type=Path, required=True, help="judged set to measure")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth cell, from the Kth on")
    parser.add_argument(
        "--test", action="store_true", help="measure the held-out clicks of test; give the judged test set with --dev"
    )
    options = parser.parse_args()
    variants = dict(map(read_variant, options.variants))
    cells = [(name, seed) for seed in range(1, options.seeds + 1) for name in variants]
    part, parts = map(int, options.part.split("/"))
    run = Trainer(options)
    with tuned_for_training():  # as `clickvec train` does
        for name, seed in cells[part - 1 :: parts]:
            run.cell(name, seed, variants[name])
    print_table(run, list(variants), options.seeds)


def read_variant(text: str) -> tuple[str, Settings]:
    """Return the name of a variant and its settings."""
    name, _, changes = text.partition(":")
    return name.strip(), {key: value or True for key, _, value in (change.partition("=") for change in changes.split())}


class Trainer:
    """Trains and measures cells: variants and seeds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.judged = read_judged(options.dev)
        parts = folder_parts(options.data)
        if parts is None:
            raise SystemExit(f"{options.data} holds no clicks out; make it by prepare --hold-out")
        self.clicks = parts[options.test]
        self.data, self._texts = load_with_texts(options.data)
        self.teacher: Any = None
        self._reported = 0.0

    def file(self, name: str, seed: int) -> Path:
        """Return where the values of a cell are."""
        return self.options.out / f"{name} {seed}" / ("test.npz" if self.options.test else "dev.npz")

    def cell(self, name: str, seed: int, settings: Settings) -> None:
        """Train and measure, unless that is done."""
        file, model = self.file(name, seed), self.options.out / f"{name} {seed}" / "model"
        if file.exists():
            return
        if not model.exists():
            self._train(model, seed, settings)
        ranker = Neural(Encoder.load(model), "model")
        judged, clicks = evaluate([ranker], self.judged), measure([ranker], self.clicks)
        values = {f"judged {one}": judged.per_query("model", one) for one in JUDGED}
        np.savez(file, **values, **{f"clicks {one}": clicks.per_query("model", one) for one in CLICKS})
        print(name, seed, {key: round(float(value.mean()), 2) for key, value in np.load(file).items()}, flush=True)

    def _report(self, label: str, done: int, total: int | None, note: str = "") -> None:
        if time.monotonic() - self._reported > 20:
            self._reported = time.monotonic()
            print(label, done, "of", total, note, flush=True)

    def _train(self, model: Path, seed: int, settings: Settings) -> None:
        has_teacher, started = "teacher" in settings, time.monotonic()
        others = {key: value for key, value in settings.items() if key != "teacher"}
        chosen = config.recipe("default", has_teacher=has_teacher, seed=seed, keep="last", **others)
        if has_teacher and self.teacher is None:
            self.teacher = read_teacher(
                self.data, self._texts, self.options.teacher, chosen, self.options.data, self._report
            )
        model.parent.mkdir(parents=True, exist_ok=True)
        made = run_training(
            self.data, chosen, model, device=self.options.device, teacher=self.teacher if has_teacher else None,
            overwrite=(model.parent / "model.run").exists(),
        )  # fmt: skip
        save_model(shrink_model(made, "int8"), model.parent / "int8")
        (model.parent / "seconds.json").write_text(json.dumps(time.monotonic() - started))


def print_table(run: Trainer, variants: list[str], seeds: int) -> None:
    """Print what is there of the table."""
    kinds = (("judged", JUDGED), ("clicks", CLICKS))
    head = [f"{kind} {' / '.join(names)} | p" for kind, names in kinds]
    print(f"\n| variant | seeds | {' | '.join(head)} | training, s | MB, int8 |\n|{'---|' * 8}")
    first: dict[str, np.ndarray] = {}
    for name in variants:
        files = [file for seed in range(1, seeds + 1) if (file := run.file(name, seed)).exists()]
        if not files:
            continue
        values = {key: np.mean([np.load(file)[key] for file in files], axis=0) for key in np.load(files[0]).files}
        first = first or values
        cells = []
        for kind, names in kinds:
            key = f"{kind} NDCG@10"
            cells.append(" / ".join(f"{values[f'{kind} {one}'].mean():.2f}" for one in names))
            cells.append("" if first is values else f"{randomisation_test(values[key], first[key]):.4f}")
        seconds = min(json.loads((file.parent / "seconds.json").read_text()) for file in files)
        print(f"| {name} | {len(files)} | {' | '.join(cells)} | {seconds:.0f} | {megabytes(files)} |")


def megabytes(files: list[Path]) -> str:
    """Return the size of a shrunk model, if one is still there."""
    sizes = [sum(part.stat().st_size for part in (file.parent / "int8").glob("*")) / 1e6 for file in files]
    return f"{max(sizes):.1f}" if max(sizes) else ""


if __name__ == "__main__":
    main()
