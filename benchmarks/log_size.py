"""How much log does a teacher replace? Train on 1,000, 10,000 and all pairs, with clicks alone and with a teacher.

    python benchmarks/log_size.py msrd --clicks msrd/clicks.tsv.gz --titles msrd/titles.tsv.gz \
        --dev msrd/dev.tsv.gz --test msrd/test.tsv.gz --out out/log_size
    clickvec lab simulate site --impressions 600000
    python benchmarks/log_size.py built-in --clicks site/clicks.tsv.gz --titles site/titles.tsv.gz \
        --dev site/dev.tsv.gz --test site/test.tsv.gz --out out/log_size

Holds queries out of the log, draws pairs at random from the rest (another sample for each seed), and trains with recipe
`default`: *clicks* on the pairs alone, *teacher* with the titles of the catalogue and the vectors of a teacher
(--teacher, by default all-MiniLM-L6-v2), which is asked once for all texts. The catalogue holds all titles of the log,
of --titles and of both judged sets. Small samples get smaller minibatches and more epochs (SIZES), the same for both.
The best epoch is chosen on dev.

Prints NDCG@10 on dev and on the held-out clicks (over the whole catalogue), the gain by the teacher with the p value of
a paired randomisation test, and how many pairs clicks alone would need for the same NDCG@10 (linear between the
logarithms of the sizes). The test set is only read for its titles. Finished runs are kept in --out/NAME. The last line
is JSON.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from held_out_clicks import sampled
from teacher_file import teacher_file

import clickvec
from clickvec.data import ClickLog, Judged, read_clicks, read_judged, read_titles
from clickvec.data.held_out import hold_out
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.result import text_table
from clickvec.evaluation.significance import randomisation_test
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.evaluation.tuning import tune_bm25
from clickvec.lab.other_systems.transformer import Transformer
from clickvec.storage.files import replacing_file

SIZES: dict[int, dict[str, int]] = {  # pairs, and the settings that differ from the recipe
    1_000: {"batch_size": 128, "epochs": 20},
    10_000: {"batch_size": 512, "epochs": 10},
    0: {},  # all of them
}
SYSTEMS = ("clicks", "teacher")
MEASURES = ("dev", "held-out clicks")
NDCG = "NDCG@10"
Cell = dict[str, Any]


class Material(NamedTuple):
    """What all runs have in common."""

    train: ClickLog
    dev: Judged
    test: TestSet  # held-out clicks
    folder: Path


def material(options: argparse.Namespace) -> Material:
    held = hold_out(read_clicks(options.clicks))
    if held is None:
        sys.exit("too few queries to hold out")
    dev = read_judged(options.dev)
    catalogue = Catalogue([*held.train.titles, *held.dev.titles, *held.test.titles])
    for path in options.titles:
        catalogue.add(title.title for title in read_titles(path))
    for judged in (dev, read_judged(options.test)):
        catalogue.add(title for query in judged for title in query.titles)
    return Material(held.train, dev, TestSet.of_clicks(held.test, catalogue), options.out / options.name)


def run_cell(made: Material, system: str, size: int, seed: int, options: argparse.Namespace) -> Cell:
    """Train and measure once, unless it has been done."""
    stored = made.folder / f"{system}-{size or 'all'}-{seed}.json"
    if stored.exists():
        return json.loads(stored.read_text())  # type: ignore[no-any-return]
    settings: dict[str, Any] = {**SIZES[size], "seed": seed, **parsed(options.set)}
    if system == "teacher":
        texts = chain(made.train.queries, made.test.catalogue.titles)
        vectors = teacher_file(made.folder / "teacher.npy", texts, options.teacher)
        settings |= {"teacher": vectors, "catalogue": made.test.catalogue.titles, **parsed(options.teacher_set)}
    pairs = draw(made.train, size, seed)
    with tempfile.TemporaryDirectory() as place:
        encoder = clickvec.train(pairs, Path(place) / "model", dev=made.dev, device="cpu", **settings)
        cell = {"pairs": len(pairs), **values(made, Neural(encoder, system))}
    write_json(stored, cell)
    return cell


def draw(log: ClickLog, size: int, seed: int) -> ClickLog:
    """Return a random sample of the pairs, another one for each seed."""
    if not size or size >= len(log):
        return log
    order = np.random.default_rng(seed).permutation(len(log)).tolist()
    shuffled = ClickLog([log.queries[at] for at in order], [log.titles[at] for at in order], log.clicks[order])
    return sampled(shuffled, size)


def values(made: Material, ranker: Any) -> Cell:  # noqa: ANN401
    """Return NDCG@10 of every query of dev and of the held-out clicks."""
    judged, held = evaluate([ranker], made.dev, cutoffs=(10,)), measure([ranker], made.test)
    return {"dev": judged.values[0, 0].tolist(), "held-out clicks": held.per_query(ranker.name, NDCG).tolist()}


def baselines(made: Material, options: argparse.Namespace) -> dict[str, Cell]:
    """Return what BM25 and the teacher itself reach without any click."""
    found = {}
    for name in ("BM25", "the teacher itself"):
        stored = made.folder / f"{name.replace(' ', '-')}.json"
        if not stored.exists():
            if name == "BM25":
                # The catalogue has one spelling of each title; BM25 scores only what it has indexed.
                judged = (title for query in made.dev for title in query.titles)
                titles = list(dict.fromkeys([*made.test.catalogue.titles, *judged]))
                write_json(stored, values(made, BM25(titles, **tune_bm25(TestSet.of_judged(made.dev), titles)[1])))
            else:
                ranker = Transformer(options.teacher)
                ranker.prepare([*made.test.catalogue.titles, *made.test.queries])
                write_json(stored, values(made, ranker))
        found[name] = json.loads(stored.read_text())
    return found


def show(others: dict[str, Cell], cells: dict[tuple[str, int], list[Cell]]) -> dict[str, Any]:
    """Print the table, and return its numbers."""
    means = {
        key: {name: np.mean([cell[name] for cell in seeds], axis=0) for name in MEASURES}
        for key, seeds in cells.items()
    }
    sizes = [size for system, size in cells if system == "clicks"]
    pairs = {size: cells["clicks", size][0]["pairs"] for size in sizes}
    result: dict[str, Any] = {
        name: {part: float(np.mean(cell[part])) for part in MEASURES} for name, cell in others.items()
    }
    for name in MEASURES:
        rows = [["pairs", "clicks", "teacher", "gain", "p", "worth"]]
        curve = [(pairs[size], float(means["clicks", size][name].mean())) for size in sizes]
        for size in sizes:
            alone, taught = means["clicks", size][name], means["teacher", size][name]
            p, worth = randomisation_test(taught, alone), pairs_worth(curve, float(taught.mean()))
            spreads = [f"{spread(cells[system, size], name):.1f}" for system in SYSTEMS]
            both = [f"{alone.mean():.1f} ± {spreads[0]}", f"{taught.mean():.1f} ± {spreads[1]}"]
            rows.append([f"{pairs[size]:,}", *both, f"{(taught - alone).mean():+.1f}", f"{p:.2g}", worth])
            entry = {"clicks": float(alone.mean()), "teacher": float(taught.mean()), "p": p, "worth": worth}
            result.setdefault(str(pairs[size]), {})[name] = entry
        print(f"NDCG@10, {name}\n{text_table(rows)}")
        print("".join(f"{label}: {np.mean(cell[name]):.1f}\n" for label, cell in others.items()))
    return result


def spread(cells: Iterable[Cell], name: str) -> float:
    found = [np.mean(cell[name]) for cell in cells]
    return float(np.std(found, ddof=1)) if len(found) > 1 else 0.0


def pairs_worth(curve: list[tuple[int, float]], wanted: float) -> str:
    """Return how many pairs clicks alone need for this NDCG@10, by linear interpolation over log pairs."""
    curve = sorted(curve)
    for (low, below), (high, above) in pairwise(curve):
        if below <= wanted < above:
            share = (wanted - below) / (above - below)
            return f"{round(low * (high / low) ** share, -2):,.0f}"
    return f"over {curve[-1][0]:,}" if wanted >= curve[-1][1] else f"under {curve[0][0]:,}"


def parsed(settings: Iterable[str]) -> dict[str, str]:
    return dict(setting.split("=", 1) for setting in settings)


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        file.write(json.dumps(value).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--clicks", type=Path, nargs="+", required=True)
    parser.add_argument("--titles", type=Path, nargs="*", default=[], help="catalogues")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True, help="only its titles are used")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), choices=list(SIZES), help="0: all pairs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--teacher", help="a sentence-transformers folder; default: all-MiniLM-L6-v2")
    parser.add_argument("--set", nargs="*", default=[], help="settings of both, key=value")
    parser.add_argument("--teacher-set", nargs="*", default=[], help="settings of the runs with the teacher, key=value")
    parser.add_argument("--out", type=Path, default=Path("out/log_size"))
    options = parser.parse_args()
    made = material(options)
    print(
        f"{options.name}: {len(made.train):,} pairs to draw from, {len(made.dev):,} dev queries, "
        f"{len(made.test.queries):,} held-out queries, {len(made.test.catalogue.titles):,} titles\n"
    )
    cells: dict[tuple[str, int], list[Cell]] = {}
    for seed in range(1, options.seeds + 1):
        for size in options.sizes:
            for system in options.systems:
                cell = run_cell(made, system, size, seed, options)
                cells.setdefault((system, size), []).append(cell)
                found = ", ".join(f"{name} {np.mean(cell[name]):.2f}" for name in MEASURES)
                print(f"{system}, {size or 'all'}, seed {seed}: {found}", file=sys.stderr, flush=True)
    if set(options.systems) == set(SYSTEMS):
        print(json.dumps(show(baselines(made, options), cells)))


if __name__ == "__main__":
    main()
