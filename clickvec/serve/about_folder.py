"""The folder that tells about a model: what was measured, and what the doctor found in its log.

`clickvec up` writes it, and the page of the service shows it (GET /model). Each file may be missing.

| file | what it is |
|---|---|
| measured.json | quality of the model and of its baselines, and speed: `Measured` |
| doctor.json | the findings, as `clickvec doctor --json` prints them: `Doctor` |
| queries.txt | queries of the log, one in a line, for which the page shows the cells that respond to them |
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from clickvec.storage.files import replacing_file
from clickvec.storage.json_files import parse_json

MEASURED, DOCTOR, QUERIES = "measured.json", "doctor.json", "queries.txt"
MAX_BYTES = 4_000_000  # of a file; ours have some thousand
MAX_QUERY = 1_000  # characters

Content = TypeVar("Content")


class MeasuredRow(Struct):
    """The value of one system by one measure, in per cent, and its 95% confidence interval."""

    system: Annotated[str, Meta(description="Such as model, BM25 (tuned), model and BM25.")]
    metric: Annotated[str, Meta(description="Such as NDCG@10.")]
    value: float
    low: float | None = None
    high: float | None = None


class Figure(Struct):
    """A number with its unit, such as the speed of searches."""

    name: str
    value: float
    unit: str = ""


class Measured(Struct):
    """What was measured, and on which data."""

    data: Annotated[str, Meta(description="The data, such as: held-out clicks of clicks.tsv.gz.")]
    queries: Annotated[int, Meta(description="Number of queries measured.")]
    rows: list[MeasuredRow]
    titles: Annotated[int | None, Meta(description="Number of titles that were searched.")] = None
    speed: list[Figure] = []
    note: Annotated[str, Meta(description="A sentence to show with the table.")] = ""


class DoctorPlot(Struct):
    """Numbers to draw: bars with labels, or a curve."""

    caption: str
    kind: Literal["bars", "curve"]
    labels: list[str]
    values: list[float]
    unit: str = ""
    low: list[float] = []
    high: list[float] = []
    level: tuple[str, float] | None = None


class DoctorFinding(Struct):
    """What the doctor says about one side of a log."""

    name: str
    text: str
    advice: str = ""
    act: Annotated[bool, Meta(description="Whether there is something to do before training.")] = False
    heading: str = ""
    cure: Annotated[str, Meta(description="A command for those who have the log.")] = ""
    numbers: dict[str, Any] = {}
    examples: list[str] = []
    plots: list[DoctorPlot] = []


class Doctor(Struct):
    """The findings of the doctor about a click log."""

    source: str
    findings: list[DoctorFinding]
    sample: str = ""
    seconds: float = 0.0


class About(Struct):
    """What a folder tells. `problems` are sentences about files that cannot be read."""

    measured: Measured | None = None
    doctor: Doctor | None = None
    problems: list[str] = []


def default_folder(index: Path) -> Path:
    """Return the folder that tells about the model of an index: `about` beside the index."""
    return index.resolve().with_name("about")


def write_measured(folder: Path, measured: Measured) -> None:
    """Write measured.json atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing_file(folder / MEASURED) as file:
        file.write(msgspec.json.format(msgspec.json.encode(measured), indent=2) + b"\n")


def write_queries(folder: Path, queries: Iterable[str]) -> None:
    """Write queries.txt atomically. Everyone who may search can read them: see data/privacy.py."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(query.split()) for query in queries]
    with replacing_file(folder / QUERIES) as file:
        file.write("".join(f"{line}\n" for line in lines if line).encode("utf-8", "replace"))


def read_queries(folder: Path | None) -> list[str]:
    """Return the queries that a folder has, or none. It never raises."""
    if folder is None:
        return []
    try:
        with (folder / QUERIES).open("rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return list(dict.fromkeys(line.strip()[:MAX_QUERY] for line in text.split("\n") if line.strip()))


def read_about(folder: Path | None) -> About:
    """Return what a folder tells. It never raises: files that are missing or damaged are problems, in a sentence."""
    if folder is None:
        return About()
    if not folder.is_dir():
        return About(problems=[f"There is no folder {folder.name}."])
    problems: list[str] = []
    return About(_read(folder / MEASURED, Measured, problems), _read(folder / DOCTOR, Doctor, problems), problems)


def _read(path: Path, kind: type[Content], problems: list[str]) -> Content | None:
    """Return the content of a file, or None. A file that is damaged is a problem; one that is missing is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return msgspec.convert(parse_json(data, MAX_BYTES), kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}.")
    except ValueError as error:  # also msgspec's ValidationError
        problems.append(f"{path.name} is damaged: {error}.")
    return None
