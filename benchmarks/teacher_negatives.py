"""Can a teacher find better hard negatives than the model, or tell which of the model's are false? Train and compare.

    clickvec prepare msrd/clicks.tsv.gz --catalogue TITLES --teacher all-MiniLM-L6-v2 --hold-out --out DATA
    python benchmarks/teacher_negatives.py DATA --teacher DATA.teacher --dev msrd/dev.tsv.gz

All variants are taught (recipe `default` with a teacher). They differ in the hard negatives of a query: titles that the
model finds near it, as always; titles that the teacher finds near it; or those of the model without the titles that the
teacher finds nearer to the query than every title clicked for it. Prints NDCG@10 on dev and on held-out clicks of dev:
means over the seeds, and the difference from the first row with its 95% confidence interval (bootstrap over queries).
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from self_supervised import describe

from clickvec import config
from clickvec.data import read_judged
from clickvec.data.data_folder import load_with_texts
from clickvec.data.dataset import Dataset
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Neural
from clickvec.model.encoder import Encoder
from clickvec.teacher.opening import open_teacher
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.training import mining
from clickvec.training.loop import run_training
from clickvec.training.measuring import folder_parts
from clickvec.training.process_settings import tuned_for_training

Floats = NDArray[np.float32]
Mined = NDArray[np.int32]
BLOCK = 8_192  # queries


def vectors_of(teacher: Teacher, data: Dataset) -> tuple[Floats, Floats]:
    """Return the teacher's vectors of the queries and of the clicked titles."""
    return teacher.queries * teacher.scales, teacher.titles[: data.clicked_titles] * teacher.scales


def find_by_teacher(data: Dataset, teacher: Teacher, mined: Mined) -> None:
    """Write the unclicked titles that the teacher finds nearest to each query."""
    queries, titles = map(torch.from_numpy, vectors_of(teacher, data))
    mined[:] = mining._best(queries, titles, np.arange(len(titles)), data.clicked)


def filter_by_teacher(data: Dataset, teacher: Teacher, mined: Mined) -> float:
    """Remove the titles that the teacher finds nearer to the query than every clicked one. Return their share."""
    queries, titles = vectors_of(teacher, data)
    removed = total = 0
    for first in range(0, len(mined), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(mined)))
        clicked, own = data.clicked.take(rows), queries[rows]
        of_clicked = np.einsum("ij,ij->i", np.repeat(own, clicked.lengths, axis=0), titles[clicked.values])
        best = np.maximum.reduceat(of_clicked, clicked.offsets[:-1])
        is_false = np.einsum("ij,ikj->ik", own, titles[mined[rows]]) > best[:, None]
        is_false &= mined[rows] >= 0
        removed, total = removed + int(is_false.sum()), total + int((mined[rows] >= 0).sum())
        mined[rows] = np.where(is_false, -1, mined[rows])
    return removed / max(total, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data, texts = load_with_texts(options.data)
    judged, parts = read_judged(options.dev), folder_parts(options.data)
    if parts is None:
        parser.error("DATA holds no clicks out")
    teacher = open_teacher(data, texts, [options.teacher], options.data)
    usual, shares = mining.mine, list[float]()

    def filtered(*arguments: Any, **more: Any) -> None:  # noqa: ANN401
        usual(*arguments, **more)
        shares.append(filter_by_teacher(data, teacher, arguments[4]))

    variants: dict[str, Callable[..., None]] = {
        "found by the model": usual,
        "found by the teacher": lambda *arguments, **_: find_by_teacher(data, teacher, arguments[4]),
        "the model's, filtered by the teacher": filtered,
    }
    alone: list[np.ndarray] = []
    for name, variant in variants.items():
        mining.mine, each = variant, []
        for seed in range(1, options.seeds + 1):
            with tempfile.TemporaryDirectory() as place, tuned_for_training():
                chosen = config.recipe("default", has_teacher=True, seed=seed, keep="last")
                model = run_training(data, chosen, Path(place) / "model", device="cpu", teacher=teacher)
            ranker = Neural(Encoder(model), "model")
            results = evaluate([ranker], judged), measure([ranker], parts[0])
            each.append([result.per_query("model", CHOSEN_BY) for result in results])
        values = [np.mean(column, axis=0) for column in zip(*each, strict=True)]
        alone = alone or values
        cells = [f"{now.mean():5.2f}{describe(now - first)}" for now, first in zip(values, alone, strict=True)]
        print(f"{name:38} dev {cells[0]}, held-out clicks {cells[1]}", flush=True)
    print(f"The teacher removed {np.mean(shares):.0%} of the model's hard negatives.")


if __name__ == "__main__":
    main()
