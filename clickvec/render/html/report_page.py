"""The page of `clickvec report`, one model measured and looked into, and the folder that holds it."""

from pathlib import Path

from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.explanation.ranking import BASELINE, Ranking
from clickvec.explanation.report import FORMAT, Report
from clickvec.render.html.markup import Html, joined, note, page, table, tag
from clickvec.render.html.model_sections import map_section, near_section, topics_section, words_section
from clickvec.render.html.word_chips import bar_cells
from clickvec.render.html.worst_queries import worst_section
from clickvec.render.labels import counted
from clickvec.storage import files
from clickvec.storage.json_files import read_json_object

PAGE, NUMBERS = "index.html", "report.json"


def check_place(out: Path, overwrite: bool) -> None:
    """Raise ClickvecError if `out` holds anything but an earlier report, or a report without `overwrite`."""
    files.check_replaceable(out, NUMBERS, (PAGE, NUMBERS))
    if not (out / NUMBERS).exists():
        return
    if not _is_ours(out / NUMBERS):
        raise ClickvecError(f"{out / NUMBERS} is not a clickvec report; move it away or choose another --out")
    if not overwrite:
        raise ClickvecError(f"{out} already holds a report; choose another --out, or replace it with --overwrite")


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return "clickvec_report" in read_json_object(file, max_bytes=2**30)
    except (OSError, ValueError):
        return False


def write_report(report: Report, out: Path, overwrite: bool = False) -> None:
    """Write a report folder atomically: index.html for people, report.json for programs."""
    page = report_page(report)
    check_place(out, overwrite)  # again: another run may have written it meanwhile
    with files.replacing(out, NUMBERS, (PAGE, NUMBERS)) as fresh:
        (fresh / PAGE).write_text(page, encoding="utf-8")
        files.write_json(fresh / NUMBERS, {"clickvec_report": FORMAT, **report.as_json()})


def report_page(report: Report) -> str:
    """Return the page."""
    sections = [
        ("ranking", "Ranking", _ranking(report.ranking)),
        ("worst", "Worst queries", worst_section(report.ranking, report.path)),
        ("keywords", "Keywords", words_section(report)),
        ("topics", "Topics of cells", topics_section(report)),
        ("near", "Near words", near_section(report)),
        ("map", "Map of titles", map_section(report)),
        ("training", "Training", _training(report)),
    ]
    return page(f"{report.name} – report", _header(report), sections)


def _header(report: Report) -> Html:
    evaluation = report.ranking.evaluation
    figures = [(f"{mean:.1f}", measure) for measure, mean in zip(evaluation.measures, evaluation.means[0], strict=True)]
    figures.append((f"{evaluation.mean(BASELINE, CHOSEN_BY):.1f}", f"{CHOSEN_BY} of {BASELINE}"))
    queries = len(evaluation.query_ids)
    figures.append((f"{queries:,}", "judged query" if queries == 1 else "judged queries"))
    return joined(
        tag("p", "Report · ", tag("bdi", report.judged), class_="eyebrow"),
        tag("h1", tag("bdi", report.name)),
        tag("p", str(report.about["tower"]), class_="lead"),
        tag("ul", (tag("li", tag("b", value), tag("span", name)) for value, name in figures), class_="figures"),
    )


def _ranking(ranking: Ranking) -> Html:
    evaluation = ranking.evaluation
    head, *rows = evaluation.as_table()
    left_out = f"; {evaluation.left_out:,} more without a relevant title are left out" if evaluation.left_out else ""
    caption = f"{counted(len(evaluation.query_ids), 'judged query', 'judged queries')}, in per cent{left_out}"
    higher, same, lower = ranking.against_baseline
    return joined(
        table(caption, head, rows, numeric=range(1, len(head))),
        tag("p", f"By {CHOSEN_BY}, the model beats {BASELINE} on {counted(higher, 'query', 'queries')}, loses on "
            f"{lower:,} and ties on {same:,}."),
        note(f"{' '.join(evaluation.notes)} {BASELINE}: {ranking.bm25}."),
    )  # fmt: skip


def _training(report: Report) -> Html:
    rows = report.history
    if not rows:
        return note("The model folder has no training history: its metrics.jsonl has no epoch with a loss.")
    measures = list(rows[0]["dev"]) if all(isinstance(row.get("dev"), dict) for row in rows) else []
    columns = [bar_cells([row["loss"] for row in rows], 3, sign=False)]
    columns += [bar_cells([row["dev"].get(name, 0.0) for row in rows], 1, sign=False) for name in measures]
    head = ["epoch", "training loss", *(f"dev {name}" for name in measures)]
    cells = [[f"{row['epoch']}", *bars] for row, *bars in zip(rows, *columns, strict=True)]
    without = None if measures else note("There was no dev set during training.")
    return joined(without, table("By epoch", head, cells))
