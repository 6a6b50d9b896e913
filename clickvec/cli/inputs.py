"""What the verbs of the command line share: reading what the user names, telling what was skipped, guarding files."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.cli.bar import Bar
from clickvec.cli.streams import print_message
from clickvec.errors import ClickvecError
from clickvec.render.terminal.screen import counted

if TYPE_CHECKING:
    from clickvec.config import Recipe
    from clickvec.data import BadLines, ClickLog, Columns, Judged, Titles
    from clickvec.data.dataset import Dataset
    from clickvec.evaluation.evaluate import Evaluation
    from clickvec.evaluation.ranker import Ranker


def input_path(text: str) -> Path:
    """Read a path from the command line; `-` is standard input, and a file of that name is ./-."""
    path = Path(text)
    return path.absolute() if text != "-" and path == Path("-") else path


Out = Annotated[Path, typer.Option(help="The folder or file to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MaxBad = Annotated[float, typer.Option(help="The share of bad lines to tolerate.", min=0.0, max=1.0)]
ModelPath = Annotated[Path, typer.Argument(help="A model folder.")]
CataloguePath = Annotated[
    Path,
    typer.Argument(
        parser=input_path, help="Titles: title and, if there is one, doc_id; TSV, CSV, JSON lines; - is stdin."
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAME=COLUMN,...",
        help="What our columns are called in the files: query=search_term,title=name.",
    ),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="The files may have no header: the number of columns tells which is which.")
]
Shown = Annotated[
    Path | None, typer.Option(parser=input_path, help="A judged set; its titles of grade 0 become negatives.")
]


def report_bad_lines(bad: "BadLines") -> None:
    """Say how many lines were skipped, and why the first of them."""
    if bad.count:
        print_message(f"{bad.count:,} of {counted(bad.total, 'line')} skipped:")
        for example in bad.examples:
            print_message(f"  {example}")
        if bad.count > len(bad.examples):
            print_message(f"  and {bad.count - len(bad.examples):,} more")


def format_value(value: object) -> str:
    """A fact for people: numbers with commas, four digits of a fraction, dictionaries without their brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {format_value(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def import_training() -> Any:  # noqa: ANN401
    """The training loop, or one sentence where torch is not installed."""
    try:
        from clickvec.training import loop
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from clickvec.errors import missing_extra

        raise missing_extra("torch", "train") from None
    return loop


# --- places ------------------------------------------------------------------------------------------------------


def model_folder(folder: Path) -> Path:
    """The model folder of an index folder; any other folder is one itself."""
    return folder / "model" if (folder / "index.json").exists() else folder


# --- reading -----------------------------------------------------------------------------------------------------


def file_names(paths: Iterable[Path]) -> str:
    """File names for people; a byte that is no text, which a name may hold, becomes a question mark."""
    from clickvec.data.lines import STDIN, name_of

    names = (name_of(path) if path == STDIN else path.name for path in paths)
    return ", ".join(names).encode(errors="replace").decode()


def read_columns(names: list[str] | None, no_header: bool, inputs: Iterable[Path | None]) -> "Columns":
    """Read --columns and --no-header; refuse to read standard input twice."""
    from clickvec.data import Columns
    from clickvec.data.lines import STDIN

    if list(inputs).count(STDIN) > 1:
        raise typer.BadParameter("- is standard input, which can be read once; give the other files by their names")
    try:
        return Columns.parse(names or [], header=not no_header)
    except ClickvecError as error:
        raise typer.BadParameter(str(error), param_hint="--columns") from None


def read_log(logs: list[Path], max_bad: float, columns: "Columns") -> "ClickLog":
    """The pairs of click logs."""
    from clickvec.data import read_clicks

    log = read_clicks(logs, max_bad, columns)
    report_bad_lines(log.bad)
    return log


def prepare_dataset(
    logs: list[Path], shown: Path | None, max_words: int, max_trigrams: int, max_bad: float, columns: "Columns"
) -> "Dataset":
    """The arrays of click logs."""
    from clickvec.data import dataset

    log = read_log(logs, max_bad, columns)
    judged = read_judged_set(shown, max_bad, columns) if shown else None
    return dataset.prepare(log, max_words, max_trigrams, judged)


def open_dataset(
    logs: list[Path], shown: Path | None, recipe: "Recipe", max_bad: float, columns: "Columns"
) -> "Dataset":
    """The arrays of a data folder, or of click logs."""
    from clickvec.data import dataset
    from clickvec.data.lines import STDIN

    prepared = [path for path in logs if path != STDIN and (path / "data.json").exists()]
    if not prepared:
        return prepare_dataset(logs, shown, recipe.max_words, recipe.max_trigrams, max_bad, columns)
    if len(logs) > 1:
        raise ClickvecError(f"{prepared[0]} is a data folder; give it alone, or prepare all the logs together")
    if shown:
        raise ClickvecError(f"{logs[0]} is a data folder, and what was shown is part of it: give --shown to prepare")
    data = dataset.load(logs[0])
    if data.max_words != recipe.max_words:
        raise ClickvecError(
            f"{logs[0]} was prepared with max_words {data.max_words}, the recipe has {recipe.max_words}: prepare it "
            f"again, or add --set max_words={data.max_words}"
        )
    return data


def read_judged_set(
    path: Path, max_bad: float, columns: "Columns", queries: Path | None = None, titles: Path | None = None
) -> "Judged":
    """A judged set in one file, or TREC qrels with their queries and titles."""
    from clickvec.data import read_judged, read_qrels

    if (queries is None) != (titles is None):
        raise typer.BadParameter("TREC qrels need both --queries and --titles")
    if queries and titles:
        judged = read_qrels(path, queries, titles, max_bad, columns)
    else:
        judged = read_judged(path, max_bad, columns)
    report_bad_lines(judged.bad)
    return judged


def read_catalogue(path: Path, max_bad: float, columns: "Columns") -> "Titles":
    """Titles with their ids."""
    from clickvec.data import read_titles

    titles = read_titles(path, max_bad, columns)
    report_bad_lines(titles.bad)
    return titles


# --- systems -----------------------------------------------------------------------------------------------------


def make_ranker(name: str, judged: "Judged", catalogue: "Titles | None") -> "Ranker":
    """The system that a name stands for: bm25, or a model folder."""
    from clickvec.evaluation.neural import Neural
    from clickvec.model.encoder import Encoder

    if name.lower() == "bm25" and not Path(name).exists():
        from clickvec.evaluation.lexical import BM25

        known = [title.title for title in catalogue or ()]
        return BM25([*known, *(title for query in judged for title in query.titles)])
    return Neural(Encoder.load(name), name, Bar())


def measure_catalogue(rankers: "list[Ranker]", judged: "Judged", titles: "Titles") -> "Evaluation":
    """Recall@100 and MRR@10 of each system over all the titles of a catalogue."""
    from functools import reduce

    from clickvec.evaluation.evaluate import Evaluation, evaluate_catalogue

    ids, texts = [title.id for title in titles], [title.title for title in titles]
    found = [
        evaluate_catalogue(ranker.search_over(ids, texts), judged, set(ids), name=ranker.name) for ranker in rankers
    ]
    return reduce(Evaluation.above, found)
