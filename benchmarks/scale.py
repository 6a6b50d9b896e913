"""Measure what each part of clickvec costs at two sizes, predict a third, measure it, and write docs/scale.md.

    python benchmarks/scale.py --data ../shared/data/dbpedia    # about 10 minutes on two idle cores
    python benchmarks/scale.py --quick                          # small sizes, once: does it work? about 2 minutes
    python benchmarks/scale.py --page                           # write figure and tables of docs/scale.json again

One run measures everything: first the two smaller sizes of all parts. Then it prints and stores what the laws of
scale_model.py predict for the largest size, and only then measures that. It writes docs/scale.json, the figure and the
tables of docs/scale.md, and exits with status 1 if a prediction is off by more than 20%. With --quick, it writes all
this to a folder of its own. Without --data, pairs and titles are artificial. The log that is prepared is simulated in
either case, because it needs clients and times.

Only CPU time, memory and disk are measured, never wall-clock time, because other programs disturb it. Each measurement
is a process of its own with one thread (benchmarks/scale_parts.py). All are made three times, what takes milliseconds
four times, in rounds in which the sizes take turns, and the minimum counts.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from log_axes import make_logarithmic
from scale_model import (
    CURVES,
    PAGE,
    SMALLER,
    STORE,
    TOLERANCE,
    Measurements,
    constants,
    cost,
    fill,
    mine_scores,
    points,
    predict,
    validate,
)
from scale_tables import about_the_run, parts_of_page

HERE = Path(__file__).parent
LOG, PAIRS = (100_000, 400_000, 1_600_000), (16_000, 64_000, 256_000)
# Four times as many titles have twice as many lists, so rounding to a power of 2 does not bend the curve. Search is
# approximate above 100,000 titles.
TITLES, FEWER = (125_000, 500_000, 2_000_000), (15_625, 62_500, 250_000)
# In this order: a part may read the model of training, or an index.
SIZES = {
    "prepare in memory": ("lines", LOG), "prepare on disk": ("lines", LOG), "train": ("pairs", PAIRS),
    "encode": ("titles", TITLES), "build exact": ("titles", FEWER), "build approximate": ("titles", TITLES),
    "search exact": ("titles", FEWER), "nearest approximate": ("titles", TITLES),
    "search approximate": ("titles", TITLES), "serve": ("titles", TITLES),
}  # fmt: skip
ROUNDS, SHORT_ROUNDS = 3, 4
SHORT = ("search exact", "nearest approximate", "search approximate", "serve")  # milliseconds, disturbed most
QUICK = 16  # sizes are divided by this
DURATION = {False: "about 10 minutes on two idle cores", True: "about 2 minutes on two idle cores"}


def child(part: str, size: str, folder: Path, data: Path | None = None) -> dict[str, float]:
    """Run one part in its own process, and return what it prints."""
    command = [sys.executable, str(HERE / "scale_parts.py"), part, size, str(folder)]
    command += ["--data", str(data)] if data else []
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    if done.returncode:
        sys.exit(f"{part} at {size} failed:\n{done.stderr[-2000:]}")
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    return row


def measure(part: str, sizes: list[int], rounds: int, folder: Path) -> list[dict[str, float]]:
    """Return each quantity of a part at each size: the minimum of some rounds, in which the sizes take turns."""
    runs: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    for _ in range(rounds):
        for size in sizes:
            runs[size].append(child(part, str(size), folder))
    rows = [{name: min(run[name] for run in every) for name in every[0]} for every in runs.values()]
    for size, row in zip(sizes, rows, strict=True):
        print(f"{part:20} {size:10,}  " + "  ".join(f"{name} {value:,.3f}" for name, value in row.items()), flush=True)
    return rows


def machine() -> dict[str, object]:
    """Return what the measurements depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, cwd=HERE, capture_output=True, text=True).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    about = {"cpu": model, "cores": os.cpu_count(), "memory_gb": round(memory), "commit": commit}
    return about | {"load": os.getloadavg()[0]}


def count_cosines(folder: Path, pairs: list[int]) -> list[int]:
    """Return the cosines that a mining of each log computes, which its queries and titles determine."""
    from clickvec.data import data_folder

    logs = (data_folder.load(folder / f"pairs-{count}") for count in pairs)
    return [mine_scores(len(data.queries.offsets) - 1, data.clicked_titles) for data in logs]


def run(data: Path | None, quick: bool, folder: Path) -> Measurements:
    """Measure the smaller sizes of all parts, predict the largest, and measure it."""
    begun, found = time.monotonic(), {"machine": machine(), "texts": data.name if data else "artificial", "parts": {}}
    sizes = {part: [size // QUICK if quick else size for size in every] for part, (_, every) in SIZES.items()}
    rounds = {part: 1 if quick else SHORT_ROUNDS if part in SHORT else ROUNDS for part in SIZES}
    inputs: dict[str, set[int]] = {kind: set() for kind, _ in SIZES.values()}
    for part, (kind, _) in SIZES.items():
        inputs[kind].update(sizes[part])
    child("inputs", json.dumps({kind: sorted(every) for kind, every in inputs.items()}), folder, data)
    for part in SIZES:
        rows = measure(part, sizes[part][:SMALLER], rounds[part], folder)
        found["parts"][part] = {"size": sizes[part], **{name: [row[name] for row in rows] for name in rows[0]}}
        if part == "train":  # all other parts use the same model
            (folder / f"model-{sizes[part][SMALLER - 1]}").rename(folder / "model")
    found["parts"]["train"]["mine_scores"] = count_cosines(folder, sizes["train"])
    print("\nPredicted for the largest sizes, before they are measured:")
    found["predicted"] = {name: predict(found, name)[2] for name in CURVES}
    for name, value in found["predicted"].items():
        print(f"{name:30} {value:14,.3f}", flush=True)
    print()
    for part in SIZES:
        (row,) = measure(part, sizes[part][SMALLER:], rounds[part], folder)
        for name, value in row.items():
            found["parts"][part][name].append(value)
    found["machine"]["minutes"] = (time.monotonic() - begun) / 60
    return found


def draw(found: Measurements, path: Path) -> None:
    """Draw each part over its size: the measurements, and the prediction from the two smaller."""
    import numpy as np

    from clickvec.render.figures.style import LINES, drawing

    laws = {check.name: check.law for check in validate(found)}
    panels = {
        "CPU seconds over lines or pairs": ["prepare on disk cpu_s", "train cpu_s", "train mine_cpu_s"],
        "CPU seconds over titles": ["encode cpu_s", "build exact cpu_s", "build approximate cpu_s"],
        "CPU ms per query over titles": [
            "search exact vectors_ms", "nearest approximate nearest_ms", "search approximate hybrid_ms",
            "serve request_ms",
        ],
    }  # fmt: skip
    with drawing(path, 9.0, 3.4) as figure:
        for axes, (title, names) in zip(figure.subplots(1, 3), panels.items(), strict=True):
            for name, colour in zip(names, LINES, strict=False):
                sizes, values = found["parts"][CURVES[name].part]["size"], points(found, name)[1]
                beyond = np.geomspace(sizes[0], 100 * sizes[-1], 50)
                axes.plot(beyond, [cost(laws, name, size) for size in beyond], "-", color=colour, linewidth=0.9)
                axes.plot(sizes, values, "o", color=colour, markersize=4, label=CURVES[name].short)
            make_logarithmic(axes, title)
            axes.legend(loc="upper left", fontsize=7.5)


def write_page(found: Measurements, folder: Path) -> None:
    """Write the figure and the page with its tables to a folder: docs, or another one."""
    (folder / "images").mkdir(exist_ok=True)
    draw(found, folder / "images" / "scale.png")
    page = fill(PAGE.read_text(encoding="utf-8"), parts_of_page(found, constants(found)))
    (folder / PAGE.name).write_text(page, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder dbpedia; without it, texts are artificial")
    parser.add_argument("--quick", action="store_true", help=f"divide all sizes by {QUICK}, and leave docs/ alone")
    parser.add_argument("--page", action="store_true", help="only write the figure and the tables again")
    options = parser.parse_args()
    if options.page:
        found: Measurements = json.loads(STORE.read_text())
        out = PAGE.parent
    else:
        print(f"Expected duration: {DURATION[options.quick]}.", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            found = run(options.data, options.quick, Path(folder))
        out = Path(tempfile.mkdtemp(prefix="scale-")) if options.quick else PAGE.parent
        (out / STORE.name).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_page(found, out)
    checks = validate(found)
    for check in checks:
        print(check)
    print(f"Wrote {out / PAGE.name}. {about_the_run(found)}")
    wrong = [check.name for check in checks if abs(check.error) > TOLERANCE]
    if wrong and not options.quick:  # at small sizes, the start of a process is most of its cost
        sys.exit(f"Predictions off by more than {TOLERANCE:.0%}: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
