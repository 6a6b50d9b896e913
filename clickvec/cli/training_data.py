"""How `train` reads its files: the data to train on, and what the model is measured on."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.streams import print_message
from clickvec.errors import ClickvecError

if TYPE_CHECKING:
    from clickvec.config import Recipe
    from clickvec.data import ClickLog, Columns
    from clickvec.data.dataset import Dataset, Texts
    from clickvec.evaluation.test_set import TestSet
    from clickvec.teacher.teacher_vectors import Teacher


@dataclass(frozen=True)
class LogFiles:
    """What the user names, and how it is read."""

    logs: list[Path]
    shown: Path | None
    catalogue: Path | None
    queries: Path | None
    max_bad: float
    columns: "Columns"
    teachers: tuple[str, ...]

    def read(self, logs: list[Path] | None = None) -> "ClickLog":
        """Read click logs, by default those to train on, and clean them."""
        return inputs.read_clean_log(logs or self.logs, self.max_bad, self.columns, self.catalogue, self.queries)

    @cached_property
    def titles(self) -> list[str]:
        """The titles of the catalogue; none if there is no catalogue."""
        if self.catalogue is None:
            return []
        return [entry.title for entry in inputs.read_catalogue(self.catalogue, self.max_bad, self.columns, "unused")]

    def prepare(self, log: "ClickLog", recipe: "Recipe", titles: list[str]) -> "tuple[Dataset, Texts]":
        """Return clicks as the arrays that training reads. A teacher teaches the titles of the catalogue too."""
        from clickvec.data import dataset

        judged = inputs.read_judged_set(self.shown, self.max_bad, self.columns) if self.shown else None
        taught = titles if self.teachers else ()
        return dataset.prepare_with_texts(
            log, recipe.max_words, recipe.max_trigrams, judged, catalogue=taught, whole_words=recipe.whole_words
        )  # fmt: skip


def hold_out_and_prepare(
    files: LogFiles, recipe: "Recipe"
) -> "tuple[tuple[Dataset, Texts], TestSet | None, TestSet | None]":
    """Read click logs, hold two parts of the clicks out, and prepare the rest. Return the data, dev and test."""
    from clickvec.training.measuring import hold_out_clicks

    return hold_out_clicks(files.read(), lambda log: files.prepare(log, recipe, files.titles), files.titles)


def split_and_prepare(
    files: LogFiles, old_clicks: Path | None, recipe: "Recipe"
) -> "tuple[tuple[Dataset, Texts], TestSet | None, dict[str, TestSet]]":
    """Read new clicks and old ones, hold out parts of both, and prepare the rest of the new ones.

    Return the data, what chooses the epoch, and what decides whether the new model is kept.
    """
    from clickvec.training.continuing import split_new

    titles, new = files.titles, files.read()
    parts = split_new(new, files.read([old_clicks]) if old_clicks else None, titles)
    return files.prepare(parts.train, recipe, titles), parts.dev, dict(parts.tests)


def open_dataset(files: LogFiles, recipe: "Recipe") -> "tuple[Dataset, Texts | None]":
    """Open a data folder, or read click logs, clean them and convert them to the arrays that training reads."""
    from clickvec.training.trainer import load_checked

    logs = files.logs
    prepared = list(filter(inputs.is_data_folder, logs))
    if not prepared:
        return files.prepare(files.read(), recipe, files.titles if files.teachers else [])
    if len(logs) > 1:
        raise ClickvecError(f"{prepared[0]} is a data folder; give it alone, or prepare all logs together")
    if files.shown:
        raise ClickvecError(f"{logs[0]} is a data folder and holds the shown titles already: give --shown to prepare")
    data, texts = load_checked(logs[0])
    if files.teachers and not data.catalogue_titles:
        print_message(
            f"{logs[0]} holds no other titles than those of the log, so only they are taught; to teach all titles, "
            "give --catalogue and --teacher to prepare"
        )
    return data, texts


def open_teacher(
    files: LogFiles, data: "Dataset", texts: "Texts | None", recipe: "Recipe", out: Path
) -> "Teacher | None":
    """Return the vectors of the teachers, if there are any: kept beside the data folder or, for a log, beside --out."""
    if not files.teachers:
        return None
    from clickvec.training.trainer import read_teacher

    beside = files.logs[0] if inputs.is_data_folder(files.logs[0]) else out
    return read_teacher(data, texts, files.teachers, recipe, beside, Bar())
