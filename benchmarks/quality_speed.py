"""Quality against speed on one core: NDCG@10 on judged sets and titles encoded per second.

    python benchmarks/quality_speed.py --data DIR --models msrd=FOLDER ... dbpedia=FOLDER ... \
        [--splits dev test] [--out out/quality_speed] [--draw docs/images/quality_speed.png]

Compares BM25 (tuned on dev), all-MiniLM-L6-v2, model2vec's static vectors that model2vec itself distilled from MiniLM
(256 dimensions, as they come, and for the 30,000 most frequent words of the log and the judged titles), and trained
models. A model is DATA=FOLDER or DATA:LABEL=FOLDER; folders with the same label are seeds of one system, and its
quality is their mean. Without a label, it is made from the tower and its size. model2vec needs `pip install
model2vec[distill]`; without it these rows are left out.

*Titles/s* counts CPU time on one core from text to vector, for all different titles of dev and test, by an encoder
that has seen no word before. Each round runs every system once, so that ratios to model2vec compare neighbouring runs;
the table has medians. MiniLM encodes a random sample of 512 titles. BM25 has no vectors: its rate is that of building
the word index, and the figure shows its NDCG@10 as a line.

What was measured is kept in --out, so that an interrupted run continues: quality by model fingerprint and judged set,
rates until --rounds or the list of systems changes. The last line is JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from encode import ONE_CORE, rate
from static_vectors import Static, StaticVectors, distilled

from clickvec.data import Judged, read_clicks, read_judged
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import text_table
from clickvec.evaluation.test_set import TestSet
from clickvec.evaluation.tuning import tune_bm25
from clickvec.lab.other_systems.transformer import Transformer
from clickvec.model.about import about_model
from clickvec.model.encoder import Encoder
from clickvec.storage.files import replacing_file

DATA = ("msrd", "dbpedia")
STATIC, MINILM, LEXICAL = "model2vec", "MiniLM", "BM25"
MOST_BY_MINILM = 512
MEASURES = ("NDCG@1", "NDCG@3", "NDCG@10")


class Point(NamedTuple):
    """One system on one data set."""

    data: str
    system: str
    kind: str  # BM25, MiniLM, model2vec or ours
    quality: dict[str, list[float]]  # NDCG@1, @3 and @10 by split
    titles_per_second: float
    times_model2vec: float
    megabytes: float
    seeds: int = 1


class System(NamedTuple):
    """A system before it is measured. Rankers are made when they are needed."""

    name: str
    kind: str
    rankers: dict[str, Callable[[], Ranker]]  # by what identifies their quality in --out
    encode: Callable[[], Callable[[list[str]], object]]  # a function that forgets all words, and encodes
    megabytes: float


class Titles(NamedTuple):
    """The judged sets of a data set, and their different titles."""

    judged: dict[str, Judged]
    titles: list[str]


def read_sets(folder: Path) -> Titles:
    judged = {split: read_judged(folder / f"{split}.tsv.gz") for split in ("dev", "test")}
    titles = dict.fromkeys(title for part in judged.values() for query in part for title in query.titles)
    return Titles(judged, list(titles))


# --- systems -----------------------------------------------------------------------------------------------------


def systems(
    data: str, sets: Titles, models: list[str], folder: Path, out: Path, words: bool
) -> Iterator[System]:  # fmt: skip
    """Yield all systems of a data set; ours last, smallest first."""
    yield System(
        LEXICAL, LEXICAL, {"bm25": partial(tuned_bm25, sets, folder)}, lambda: lambda titles: BM25(titles), 0.0
    )
    minilm = cache(Transformer)
    size = 91.0  # of the folder, with float32 weights
    yield System(MINILM, MINILM, {"minilm": minilm}, lambda: minilm()._encode, size)
    variants = [(STATIC, STATIC, None), (f"{STATIC}, words of the log", f"{STATIC}-{data}", folder)]
    for name, path, log in variants if words else variants[:1]:
        static = distilled(out / path, log, sets.titles)
        if static is not None:
            yield of_static(static, name)
    labelled: dict[str, list[Path]] = {}
    for text in models:
        target, _, path = text.partition("=")
        name, _, label = target.partition(":")
        if name == data:
            labelled.setdefault(label or describe(Encoder.load(path)), []).append(Path(path))
    for label, paths in sorted(labelled.items(), key=lambda item: folder_size(item[1][0])):
        yield ours(label, paths)


def of_static(static: StaticVectors, name: str) -> System:
    return System(name, STATIC, {name: lambda: Static(static, name)}, lambda: static.encode, static.megabytes)


def tuned_bm25(sets: Titles, folder: Path) -> Ranker:
    """Return BM25 with its settings chosen on dev. Its collection is all clicked and judged titles."""
    clicked = read_clicks(sorted(folder.glob("clicks*.tsv.gz"))).titles
    titles = list(dict.fromkeys([*clicked, *sets.titles]))
    return BM25(titles, **tune_bm25(TestSet.of_judged(sets.judged["dev"]), titles)[1])


def ours(label: str, paths: list[Path]) -> System:
    encoder = cache(lambda: Encoder.load(paths[0]))

    def encode() -> Callable[[list[str]], object]:
        encoder()._title._empty_cache()
        return encoder().encode_document

    rankers = {Encoder.load(path).fingerprint: partial(load, path) for path in paths}
    return System(label, "ours", rankers, encode, folder_size(paths[0]))


def load(path: Path) -> Ranker:
    return Neural(Encoder.load(path), path.name)


def describe(encoder: Encoder) -> str:
    """Return a label: tower, size and number format, and whether there was a teacher."""
    tower, facts = encoder.model.tower, about_model(encoder.model)
    names = {"lstm": "LSTM-RNN", "bilstm": "bidirectional", "rnn": "RNN", "dssm": "DSSM", "clsm": "CLSM"}
    size = tower.cells if tower.kind in ("lstm", "bilstm") else tower.dimensions
    precision = "" if facts["input weights are"] == "float32" else f", {facts['input weights are']}"
    taught = ", teacher" if "teacher" in encoder.model.training else ""
    return f"{names[tower.kind]} {size}{taught}{precision}"


def folder_size(path: Path) -> float:
    return sum(file.stat().st_size for file in path.iterdir() if file.is_file()) / 1e6


# --- measuring ---------------------------------------------------------------------------------------------------


def quality(system: System, data: str, sets: Titles, splits: list[str], out: Path) -> dict[str, list[float]]:
    """Return the mean NDCG over the seeds of a system by split, from --out where it is known."""
    found: dict[str, list[float]] = {}
    for split in splits:
        values = []
        for key, make in system.rankers.items():
            stored = out / "quality" / f"{data}-{split}-{blake2b(key.encode(), digest_size=8).hexdigest()}.json"
            if not stored.exists():
                means = evaluate([make()], sets.judged[split]).means[0].tolist()
                write_json(stored, {"system": system.name, "NDCG": means})
            values.append(json.loads(stored.read_text())["NDCG"])
        found[split] = np.mean(values, axis=0).tolist()
    return found


def rates(chosen: list[System], titles: list[str], rounds: int) -> dict[str, list[float]]:
    """Return titles per second of CPU time of every round by system; the first round, a warm-up, is left out."""
    sample = [titles[row] for row in np.random.default_rng(0).permutation(len(titles))[:MOST_BY_MINILM].tolist()]
    found: dict[str, list[float]] = {system.name: [] for system in chosen}
    for number in range(rounds + 1):
        for system in chosen:
            some, encode = sample if system.kind == MINILM else titles, system.encode()
            value = rate(lambda: encode(some), len(some))  # noqa: B023
            if number:
                found[system.name].append(value)
    return found


def measure(data: str, options: argparse.Namespace) -> list[Point]:
    folder, out = options.data / data, options.out
    sets = read_sets(folder)
    chosen = list(systems(data, sets, options.models, folder, out, data in options.words))
    about = [options.rounds, *(key for system in chosen for key in system.rankers)]
    stored = out / f"rates-{data}-{blake2b(json.dumps(about).encode(), digest_size=8).hexdigest()}.json"
    if not stored.exists():
        write_json(stored, rates(chosen, sets.titles, options.rounds))
    by_system = json.loads(stored.read_text())
    base = by_system.get(STATIC)
    points = []
    for system in chosen:
        found = by_system[system.name]
        ratio = statistics.median(map(float.__truediv__, found, base)) if base else float("nan")
        scores = quality(system, data, sets, options.splits, out)
        points.append(
            Point(data, system.name, system.kind, scores, statistics.median(found), ratio, system.megabytes,
                  len(system.rankers))
        )  # fmt: skip
        print(f"{data}, {system.name}: {scores}", file=sys.stderr, flush=True)
    return points


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        file.write(json.dumps(value).encode())


# --- output ------------------------------------------------------------------------------------------------------


def table(points: Iterable[Point], splits: list[str]) -> str:
    rows = [["system", "seeds", *(f"{split}: {', '.join(MEASURES)}" for split in splits), "titles/s", "times model2vec",
             "MB"]]  # fmt: skip
    for point in points:
        scores = [" / ".join(f"{mean:.1f}" for mean in point.quality[split]) for split in splits]
        size = f"{point.megabytes:.1f}" if point.megabytes else ""
        speed = [f"{point.titles_per_second:,.0f}", f"{point.times_model2vec:.3g}"]
        rows.append([point.system, str(point.seeds), *scores, *speed, size])
    return text_table(rows)


def draw(points: list[Point], split: str, path: Path) -> None:
    """Draw NDCG@10 over titles per second, one panel for each data set."""
    from clickvec.render.figures.style import drawing

    names = list(dict.fromkeys(point.data for point in points))
    with drawing(path, 4.6 * len(names), 3.4) as figure:
        for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
            axes.set(xscale="log", xlabel="titles/s on one core", ylabel=f"NDCG@10 on {split}", title=name)
            draw_panel(axes, [point for point in points if point.data == name], split)
            axes.set_xlim(150, 20_000_000)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.grid(axis="y")


def draw_panel(axes: Any, points: list[Point], split: str) -> None:  # noqa: ANN401
    """Draw the systems of one data set. Labels that would overlap are moved down."""
    from clickvec.render.figures.style import GREY, INK, RUST, TEAL

    colours = {LEXICAL: INK, MINILM: GREY, STATIC: TEAL, "ours": RUST}
    values = [point.quality[split][2] for point in points]
    space = (max(values) - min(values)) / 15 or 1.0  # the height of a label
    axes.set_ylim(min(values) - 2 * space, max(values) + 2 * space)
    lowest: dict[int, float] = {}  # by power of ten of the speed: there, labels are in one column
    for point in sorted(points, key=lambda point: -point.quality[split][2]):
        x, y, colour = point.titles_per_second, point.quality[split][2], colours[point.kind]
        if point.kind == LEXICAL:
            axes.axhline(y, color=colour, linestyle=":", linewidth=0.9)
            axes.annotate(LEXICAL, (0.01, y), xycoords=("axes fraction", "data"), va="bottom", fontsize=7.5)
            continue
        axes.plot(x, y, "o", color=colour, markersize=5)
        column, to_the_left = int(np.log10(x / 1.5)), 10_000 < x < 150_000
        height = lowest[column] = min(y, lowest.get(column, np.inf) - space)
        axes.annotate(
            point.system, (x * (0.85 if to_the_left else 1.2), height), va="center",
            ha="right" if to_the_left else "left", fontsize=7.5, color=colour,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of msrd/ and dbpedia/ (CONTRIBUTING.md)")
    parser.add_argument("--models", nargs="*", default=[], help="DATA=FOLDER or DATA:LABEL=FOLDER")
    parser.add_argument("--splits", nargs="+", default=["dev"], choices=["dev", "test"])
    parser.add_argument("--sets", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--words", nargs="*", default=list(DATA), help="data sets with a model2vec for their words")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("out/quality_speed"))
    parser.add_argument("--draw", type=Path, help="write the figure to this PNG; it shows the last of --splits")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_CORE.items()):
        sys.exit(subprocess.run([sys.executable, *sys.argv], env={**os.environ, **ONE_CORE}).returncode)
    wrong = [text for text in options.models if text.partition("=")[0].partition(":")[0] not in DATA]
    if wrong:
        parser.error(f"--models takes DATA=FOLDER with DATA one of {', '.join(DATA)}, not {wrong[0]}")
    every: list[Point] = []
    for data in options.sets:
        points = measure(data, options)
        every += points
        print(f"\n{data}\n{table(points, options.splits)}", flush=True)
    if options.draw:
        draw(every, options.splits[-1], options.draw)
    result: list[dict[str, Any]] = [point._asdict() for point in every]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
