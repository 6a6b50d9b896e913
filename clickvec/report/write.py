"""The folder of a report: index.html to read, report.json with the numbers behind it."""

import json
from pathlib import Path

from clickvec import files
from clickvec.errors import ClickvecError
from clickvec.report.contents import FORMAT, Report

PAGE, NUMBERS = "index.html", "report.json"


def check_place(out: Path, overwrite: bool) -> None:
    """Refuse to write where there is anything but an earlier report, and over that when not told to."""
    files.check_replaceable(out, NUMBERS, (PAGE, NUMBERS))
    if not (out / NUMBERS).exists():
        return
    if not _is_ours(out / NUMBERS):
        raise ClickvecError(f"{out / NUMBERS} is no report of clickvec; move it away or choose another --out")
    if not overwrite:
        raise ClickvecError(f"{out} holds a report already; choose another --out, or replace it with --overwrite")


def _is_ours(path: Path) -> bool:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "clickvec_report" in found


def write(report: Report, out: Path) -> None:
    """Write the folder, whole or not at all."""
    from clickvec.page import report_page

    page = report_page(report)
    with files.replacing(out, NUMBERS, (PAGE, NUMBERS)) as fresh:
        (fresh / PAGE).write_text(page, encoding="utf-8")
        files.write_json(fresh / NUMBERS, {"clickvec_report": FORMAT, **report.as_json()})
