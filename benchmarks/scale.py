"""Measure what each part of clickvec costs at three sizes, predict the third from the two smaller, and draw the curves.

    python benchmarks/scale.py --data ../shared/data/dbpedia [--parts train "search exact"] [--larger 4] [--folder DIR]
    python benchmarks/scale.py --page

The first command measures and writes docs/scale.json; with --parts, it keeps the other parts of that file. It exits
with status 1 if a prediction is off by more than 20%. The second one measures nothing. Both write the figure and the
tables of docs/scale.md. Without --data, pairs and titles are artificial. The log that is prepared is simulated in
either case, because it needs clients and times.

Only CPU time, memory and disk are measured, never wall-clock time, so the machine may be busy. Each measurement is a
process of its own with one thread (benchmarks/scale_parts.py). The two smaller sizes are measured three times, what
takes milliseconds four times at all sizes, and the minimum counts. Takes about 6 minutes of CPU time.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from scale_model import CURVES, PAGE, STORE, TOLERANCE, Measurements, constants, cost, fill, points, validate
from scale_tables import parts_of_page, power_of_ten

HERE = Path(__file__).parent
FIGURE = PAGE.parent / "images" / "scale.png"
LOG, PAIRS = (100_000, 400_000, 1_600_000), (16_000, 64_000, 256_000)
# Four times as many titles have twice as many lists, so rounding to a power of 2 does not bend the curve.
TITLES, FEWER = (62_500, 250_000, 1_000_000), (15_625, 62_500, 250_000)
SIZES = {
    "prepare in memory": ("lines", LOG), "prepare on disk": ("lines", LOG), "train": ("pairs", PAIRS),
    "encode": ("titles", TITLES), "build exact": ("titles", FEWER), "build approximate": ("titles", TITLES),
    "search exact": ("titles", FEWER), "nearest approximate": ("titles", TITLES),
    "search approximate": ("titles", TITLES), "serve": ("titles", TITLES),
}  # fmt: skip
# A part needs what these wrote: the model of training, or an index.
NEEDS = {
    "encode": ["train"], "build exact": ["train"], "build approximate": ["train"], "search exact": ["build exact"],
    "nearest approximate": ["build approximate"], "search approximate": ["build approximate"],
    "serve": ["build approximate"],
}  # fmt: skip
REPEATS = (3, 3, 1)
# What takes milliseconds is disturbed most, and the largest size is repeated too.
SHORT = dict.fromkeys(("search exact", "nearest approximate", "search approximate", "serve"), (4, 4, 4))


def child(part: str, size: str, folder: Path, data: Path | None) -> dict[str, float]:
    """Run one part in its own process, and return what it prints."""
    command = [sys.executable, str(HERE / "scale_parts.py"), part, size, str(folder)]
    command += ["--data", str(data)] if data else []
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    if done.returncode:
        sys.exit(f"{part} at {size} failed:\n{done.stderr[-2000:]}")
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    return row


def measure(part: str, sizes: list[int], folder: Path) -> dict[str, list[float]]:
    """Return each quantity of a part at each size: the minimum of some rounds, in which the sizes take turns."""
    repeats = SHORT.get(part, REPEATS)
    runs: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    for turn in range(max(repeats)):
        for size, rounds in zip(sizes, repeats, strict=True):
            if turn < rounds:
                runs[size].append(child(part, str(size), folder, None))
    rows = [{name: min(run[name] for run in every) for name in every[0]} for every in runs.values()]
    for size, row in zip(sizes, rows, strict=True):
        print(f"{part:20} {size:10,}  " + "  ".join(f"{name} {value:,.3f}" for name, value in row.items()), flush=True)
    return {"size": [float(size) for size in sizes], **{name: [row[name] for row in rows] for name in rows[0]}}


def machine() -> dict[str, object]:
    """Return what the measurements depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"cpu": model, "cores": os.cpu_count(), "memory_gb": round(memory), "commit": commit.strip()}


def with_needs(parts: list[str]) -> list[str]:
    """Return the parts and those whose output they read, in the order of SIZES."""
    wanted = set(parts)
    while more := {need for part in wanted for need in NEEDS.get(part, [])} - wanted:
        wanted |= more
    return [part for part in SIZES if part in wanted]


def run(parts: list[str], data: Path | None, larger: int, folder: Path) -> None:
    """Measure parts and put them into the file of measurements."""
    found: Measurements = json.loads(STORE.read_text()) if STORE.exists() else {"parts": {}}
    sizes = {part: [size * larger for size in SIZES[part][1]] for part in parts}
    inputs: dict[str, list[int]] = {}
    for part in parts:
        inputs.setdefault(SIZES[part][0], []).extend(sizes[part])
    ready = folder / "inputs.json"
    known: dict[str, list[int]] = json.loads(ready.read_text()) if ready.exists() else {}
    if any(size not in known.get(kind, []) for kind, every in inputs.items() for size in every):
        wanted = json.dumps({kind: sorted(set(every)) for kind, every in inputs.items()})
        child("inputs", wanted, folder, data)
        ready.write_text(wanted)
    found |= {"machine": machine(), "texts": data.name if data else "artificial"}
    for part in parts:
        found["parts"][part] = measure(part, sizes[part], folder)
        STORE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def draw(found: Measurements, path: Path) -> None:
    """Draw each part over its size: the measurements, the prediction from the two smaller, and the fit beyond."""
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
        from matplotlib.ticker import NullFormatter

        for axes, (title, names) in zip(figure.subplots(1, 3), panels.items(), strict=True):
            for name, colour in zip(names, LINES, strict=False):
                sizes, values = found["parts"][CURVES[name].part]["size"], points(found, name)[1]
                beyond = np.geomspace(sizes[0], 100 * sizes[-1], 50)
                axes.plot(beyond, [cost(laws, name, size) for size in beyond], "-", color=colour, linewidth=0.9)
                axes.plot(sizes, values, "o", color=colour, markersize=4, label=CURVES[name].short)
            axes.set(xscale="log", yscale="log", xlabel=title)
            axes.xaxis.set_major_formatter(lambda size, _: power_of_ten(size))
            axes.yaxis.set_major_formatter("{x:g}")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_formatter(NullFormatter())
            axes.grid(axis="y")
            axes.legend(loc="upper left", fontsize=7.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder dbpedia; without it, texts are artificial")
    parser.add_argument("--parts", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--larger", type=int, default=1, help="multiply all sizes")
    parser.add_argument("--folder", type=Path, help="keep logs, model and indexes here, for the next run")
    parser.add_argument("--page", action="store_true", help="only write the figure and the tables again")
    options = parser.parse_args()
    if not options.page:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            parts = options.parts if options.folder else with_needs(options.parts)
            run(parts, options.data, options.larger, folder)
    found: Measurements = json.loads(STORE.read_text())
    checks = validate(found)
    for check in checks:
        print(check)
    draw(found, FIGURE)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), parts_of_page(found, constants(found))), encoding="utf-8")
    wrong = [check.name for check in checks if abs(check.error) > TOLERANCE]
    if wrong:
        sys.exit(f"Predictions off by more than {TOLERANCE:.0%}: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
