"""Write a report folder: index.html for people, report.json for programs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from clickvec.errors import ClickvecError
from clickvec.explanation.report import FORMAT, Report
from clickvec.storage import files
from clickvec.storage.json_files import read_json_object
from clickvec.storage.temporary import locked

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


def write(report: Report, out: Path, overwrite: bool = False) -> None:
    """Write the folder atomically."""
    from clickvec.render.html import report_page

    page = report_page(report)
    with _alone(out):
        check_place(out, overwrite)  # again: another run may have written it meanwhile
        with files.replacing(out, NUMBERS, (PAGE, NUMBERS)) as fresh:
            (fresh / PAGE).write_text(page, encoding="utf-8")
            files.write_json(fresh / NUMBERS, {"clickvec_report": FORMAT, **report.as_json()})


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold a lock next to the folder."""
    place = Path(os.path.realpath(out))
    lock = place.with_name(f".{place.name}.lock")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock, str(out)):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise files.cannot_write(out, error) from None
