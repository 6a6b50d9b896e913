"""What the vectors of a teacher lose when they are made small: fewer dimensions, and int8.

    python benchmarks/teacher_dimensions.py LOG... --teacher MODEL

prints, for each number of dimensions, how well the products of rows agree with the cosines of the teacher's own
vectors, between 1,000 texts and 1,000 others that the reduction was not fitted on: the root of the mean squared
difference, the correlation, and how many of the ten nearest texts are the same. `unit` scales projected vectors to
length 1 again.
"""

import argparse
from pathlib import Path

import numpy as np

from clickvec.data import read_clicks
from clickvec.teacher.opening import open_source
from clickvec.teacher.reduction import Floats, fit, unit
from clickvec.teacher.teaching import SAMPLE
from clickvec.text.tokens import canonical

SIDE = 1_000
DIMENSIONS = (64, 96, 128, 192, 256, 384)


def agreement(found: Floats, cosines: Floats) -> str:
    """Return how well products agree with cosines."""
    error = np.sqrt(np.square(found - cosines).mean())
    nearest = [set(np.argsort(-row)[:10].tolist()) for row in cosines]
    same = np.mean([len(near & set(np.argsort(-row)[:10].tolist())) for near, row in zip(nearest, found, strict=True)])
    return f"{error:.4f} | {np.corrcoef(found.ravel(), cosines.ravel())[0, 1]:.4f} | {10 * same:.0f}%"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--teacher", required=True)
    options = parser.parse_args()
    log = read_clicks(options.logs)
    texts = np.array(sorted({canonical(text) for text in (*log.queries, *log.titles)}), object)
    np.random.default_rng(0).shuffle(texts)
    source, vectors, number = open_source(options.teacher, Path(options.teacher)), list[Floats](), 0
    while sum(map(len, vectors)) < SAMPLE + 2 * SIDE and number < len(texts):
        block = source.vectors(np.arange(number, number + 2_048), texts[number : number + 2_048].tolist())
        vectors.append(unit(block[block.any(1)]))
        number += 2_048
    sample, test = np.split(np.concatenate(vectors)[: SAMPLE + 2 * SIDE], [SAMPLE])
    cosines = test[:SIDE] @ test[SIDE:].T
    print(f"{source.name}, {len(sample):,} texts to fit on, {len(test):,} to measure")
    print(
        "| dimensions | bytes | difference | correlation | ten nearest | unit: difference | correlation | ten nearest |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for width in DIMENSIONS:
        reduction = fit(sample, width)
        rows = reduction.rows(test) * reduction.scales
        scaled = unit(rows)
        cells = [agreement(side[:SIDE] @ side[SIDE:].T, cosines) for side in (rows, scaled)]
        print(f"| {width} | {len(reduction.scales)} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
