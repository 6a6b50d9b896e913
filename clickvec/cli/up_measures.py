"""What `clickvec up` measures: the index that will be served, beside BM25, on held-out clicks; and its speed.

The figures go to `about/measured.json`, which the page of the service shows (serve/about_folder.py).
"""

import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clickvec.cli.bar import Bar
from clickvec.cli.up_folder import Told, UpFolder
from clickvec.errors import ClickvecError
from clickvec.render.labels import counted
from clickvec.storage.files import replacing_file

if TYPE_CHECKING:
    from clickvec.data import ClickLog
    from clickvec.doctor.examination import Examination
    from clickvec.evaluation.bm25 import BM25
    from clickvec.evaluation.index_measures import Source
    from clickvec.evaluation.result import Evaluation
    from clickvec.search.index import Index


MOST_QUERIES = 2_000  # of more, a random sample is measured
TIMED_QUERIES = 200
TIMED_TITLES = 20_000
SHOWN_QUERIES = 5_000  # for which the page shows the cells that respond to them
MODES = ("hybrid", "vectors", "words")
NAMES = {"vectors": "model"}  # what the model alone is called, here and by `train`
BASELINE = "BM25 (tuned)"


def measure(folder: UpFolder, judged: Path | None, source: str, max_bad: float) -> Told:
    """Measure the index, write measured.json and return the figures."""
    from clickvec.data import data_folder, read_judged
    from clickvec.search.index import Index

    held_out = data_folder.load_held_out(folder.data)
    with Index.open(folder.index) as index:
        queries = held_out[1].queries if held_out else [document.title for document in islice(index, TIMED_QUERIES)]
        measured: dict[str, Any] = {
            "data": f"held-out clicks of {source}", "queries": 0, "rows": [], "titles": len(index),
            "speed": _speed(index, folder, queries), "note": "",
        }  # fmt: skip
        told = Told("Nothing, because the log has too few different queries to hold some out.")
        if held_out:
            try:
                told = _quality(index, *held_out[:2], read_judged(judged, max_bad).rows if judged else (), measured)
            except ClickvecError as error:  # the catalogue has no clicked title
                told = Told(f"Nothing: {error}.")
        elif figures := index.encoder.model.training.get("held_out"):
            told = _cross_validated(figures, measured)
            measured["data"] = f"clicks of {source}, cross-validated"
    measured["note"] = told.text
    write_json(folder.about / "measured.json", measured)
    return told


def _quality(
    index: "Index", dev: "ClickLog", test: "ClickLog", judged: Sequence[Any], measured: dict[str, Any]
) -> Told:
    """Measure on held-out clicks and, if there are any, on judged queries. Add the figures to `measured`."""
    from clickvec.evaluation.metrics import CHOSEN_BY

    bm25 = _tuned_bm25(index, dev)
    result = _evaluate(index, test, bm25)
    head, *rows = result.as_table(intervals=True)
    measured["queries"], measured["rows"] = len(result.query_ids), _rows(_systems(result))
    text = f"{counted(len(result.query_ids), 'held-out query', 'held-out queries')} over {counted(len(index), 'title')}"
    text += ", in per cent, with 95% confidence intervals."
    if result.absent:
        text += (
            f" {result.absent:,} of {result.relevant:,} clicked titles are not in the catalogue: nothing finds them."
        )
    if judged:
        graded, name = _evaluate(index, judged, bm25), f"judged {CHOSEN_BY}"
        measured["rows"] += [row | {"metric": name} for row in _rows(_systems(graded)) if row["metric"] == CHOSEN_BY]
        column = [row[graded.measures.index(CHOSEN_BY) + 1] for row in graded.as_table(intervals=True)]
        head, rows = [*head, name], [[*row, cell] for row, cell in zip(rows, column[1:], strict=True)]
        text += f" {counted(len(graded.query_ids), 'judged query', 'judged queries')} with graded titles."
    return Told(f"{text} {_verdict(result)}", [head, *([NAMES.get(name, name), *cells] for name, *cells in rows)])


def _cross_validated(figures: dict[str, Any], measured: dict[str, Any]) -> Told:
    """Return what training measured on parts of a small log. Add the figures to `measured`."""
    from clickvec.training.measuring import figures_table

    measured["queries"] = figures["queries"]
    measured["rows"] = _rows(figures["systems"])
    return Told(
        f"{counted(figures['queries'], 'query', 'queries')} of the log over {counted(figures['titles'], 'title')}, "
        f"each by one of {figures['folds']} models that were not trained on it, in per cent, with 95% confidence "
        "intervals.",
        figures_table(figures),
    )


def _tuned_bm25(index: "Index", dev: "ClickLog") -> "BM25 | None":
    from clickvec.evaluation.bm25 import BM25
    from clickvec.evaluation.index_measures import MOST_TITLES
    from clickvec.evaluation.test_set import Catalogue, TestSet
    from clickvec.evaluation.tuning import tune_bm25

    if len(index) > MOST_TITLES:
        return None
    titles = [document.title for document in index]
    settings = tune_bm25(TestSet.of_clicks(dev, Catalogue(titles)), progress=Bar())[1]
    return BM25(titles, name=BASELINE, **settings)


def _evaluate(index: "Index", source: "Source", bm25: "BM25 | None") -> "Evaluation":
    """Measure hybrid search, vectors alone and words alone beside tuned BM25, unless the index is very large."""
    from clickvec.evaluation.index_measures import index_rankers, index_test_set
    from clickvec.evaluation.measure import measure

    rankers = [*index_rankers(index, MODES), *([bm25] if bm25 else [])]
    return measure(rankers, index_test_set(index, source).sample(MOST_QUERIES), progress=Bar())


def _rows(systems: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return figures with intervals as about_folder.MeasuredRow."""
    return [
        {
            "system": NAMES.get(one["system"], one["system"]), "metric": metric, "value": one[metric],
            "low": low, "high": high,
        }
        for one in systems for metric, (low, high) in one["intervals"].items()
    ]  # fmt: skip


def _systems(result: "Evaluation") -> list[dict[str, Any]]:
    systems: list[dict[str, Any]] = result.as_json(intervals=True)["systems"]
    return systems


def _verdict(result: "Evaluation") -> str:
    """Return in words how hybrid search compares with the last system, which is the baseline."""
    from clickvec.evaluation.metrics import CHOSEN_BY
    from clickvec.evaluation.significance import bootstrap_interval

    baseline = result.systems[-1]
    differences = result.per_query("hybrid", CHOSEN_BY) - result.per_query(baseline, CHOSEN_BY)
    low, high = bootstrap_interval(differences[None])[0].tolist()
    by = f"{abs(differences.mean()):.1f} {CHOSEN_BY} [{low:.1f}, {high:.1f}]"
    if low <= 0 <= high:
        return f"Hybrid search and {baseline} are not significantly different: {by}."
    return f"Hybrid search is {'better' if low > 0 else 'worse'} than {baseline} by {by}."


def _speed(index: "Index", folder: UpFolder, queries: Sequence[str]) -> list[dict[str, Any]]:
    """Return figures as about_folder.Figure: of one search after another, of encoding, and of the files."""
    seconds = []
    for query in list(dict.fromkeys(queries))[:TIMED_QUERIES]:
        begun = time.perf_counter()
        index.search(query)
        seconds.append(time.perf_counter() - begun)
    titles = [document.title for document in islice(index, TIMED_TITLES)]
    begun = time.perf_counter()
    index.encoder.encode_document(titles)
    rate = len(titles) / (time.perf_counter() - begun)
    return [
        {"name": "search, median", "value": round(1000 * sorted(seconds)[len(seconds) // 2], 2), "unit": "ms"},
        {"name": "encoding", "value": round(rate), "unit": "titles/s"},
        {"name": "model", "value": round(_megabytes(folder.model), 1), "unit": "MB"},
        {"name": "index", "value": round(_megabytes(folder.index), 1), "unit": "MB"},
    ]


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def write_evaluation(about: Path, result: "Evaluation", data: str) -> None:
    """Write the figures of an evaluation as measured.json. Models are called like their folders."""
    rows, names = _rows(_systems(result)), [Path(system).name for system in result.systems]
    if len(set(names)) == len(names):
        rows = [row | {"system": Path(row["system"]).name} for row in rows]
    write_json(about / "measured.json", {"data": data, "queries": len(result.query_ids), "rows": rows})


# --- files -------------------------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        file.write((json.dumps(value, indent=2) + "\n").encode())


def write_doctor(about: Path, found: "Examination") -> None:
    """Write what the doctor found, as a page of its own and for the page of the service."""
    from clickvec.render.html.doctor_page import write_page

    about.mkdir(parents=True, exist_ok=True)
    write_page(found, about / "doctor.html")
    write_json(about / "doctor.json", found.as_json())


def write_titles(path: Path, titles: Sequence[str]) -> None:
    """Write titles as a catalogue, numbered from 0, atomically."""
    with replacing_file(path) as file:
        for number, title in enumerate(titles):
            file.write(json.dumps({"doc_id": str(number), "title": title}).encode() + b"\n")
