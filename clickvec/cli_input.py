"""What the verbs of the command line share: reading what the user names, telling what was skipped, guarding files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.errors import ClickvecError
from clickvec.screen.screen import counted
from clickvec.streams import tell as tell  # the verbs take it from here

if TYPE_CHECKING:
    from clickvec.config import Recipe
    from clickvec.dataset import Dataset
    from clickvec.evaluate import Evaluation, Search
    from clickvec.rankers import Ranker
    from clickvec.readers import BadLines, ClickLog, Judged, Titles


Out = Annotated[Path, typer.Option(help="The folder or file to write.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MaxBad = Annotated[float, typer.Option(help="The share of bad lines to tolerate.", min=0.0, max=1.0)]
ModelPath = Annotated[Path, typer.Argument(help="A model folder.")]
TitlesPath = Annotated[Path, typer.Argument(help="Titles: doc_id and title, or a title a line; TSV, CSV, JSON lines.")]


def report(bad: "BadLines") -> None:
    """Say how many lines were skipped, and why the first of them."""
    if bad.count:
        tell(f"{bad.count:,} of {counted(bad.total, 'line')} skipped:")
        for example in bad.examples:
            tell(f"  {example}")
        if bad.count > len(bad.examples):
            tell(f"  and {bad.count - len(bad.examples):,} more")


def plain(value: object) -> str:
    """A fact for people: numbers with commas, four digits of a fraction, dictionaries without their brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {plain(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def import_training() -> Any:  # noqa: ANN401
    """The training loop, or one sentence where torch is not installed."""
    try:
        from clickvec.train import loop
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from clickvec.errors import missing_extra

        raise missing_extra("torch", "train") from None
    return loop


# --- places ------------------------------------------------------------------------------------------------------


def check_new_file(out: Path, overwrite: bool, inputs: Sequence[Path | None]) -> None:
    """Refuse to write a file over something that is read, or over anything when not told to."""
    check_not_read(out, inputs)
    if out.exists() and not overwrite:
        raise ClickvecError(f"{out} is there already; choose another file, or replace it with --overwrite")


def check_run_file(run: Path, inputs: Sequence[Path | None]) -> None:
    """Refuse to write a TREC run over something that is read, or over a file that is no run."""
    check_not_read(run, inputs)
    if run.exists():
        with run.open("rb") as file:
            fields = file.readline(100_000).split()
        if fields and (len(fields) != 6 or fields[1].upper() != b"Q0"):
            raise ClickvecError(f"{run} is there already, and is no TREC run; choose another file for --run")


def check_not_read(out: Path, inputs: Sequence[Path | None]) -> None:
    """Refuse to replace one of the files that are read, or what is no file."""
    from clickvec.files import check_replaceable_file

    check_replaceable_file(out)
    for path in inputs:
        if path and out.exists() and path.exists() and out.samefile(path):
            raise ClickvecError(f"{out} is read here, and would be replaced by the result; choose another file")


def model_in(folder: Path) -> Path:
    """The model folder of an index folder; any other folder is one itself."""
    return folder / "model" if (folder / "index.json").exists() else folder


# --- reading -----------------------------------------------------------------------------------------------------


def names_of(paths: Iterable[Path]) -> str:
    """File names for people; a byte that is no text, which a name may hold, becomes a question mark."""
    return ", ".join(path.name for path in paths).encode(errors="replace").decode()


def read_log(logs: list[Path], max_bad: float) -> "ClickLog":
    """The pairs of click logs."""
    from clickvec.readers import read_clicks

    log = read_clicks(logs, max_bad)
    report(log.bad)
    return log


def read_data(logs: list[Path], shown: Path | None, max_words: int, max_trigrams: int, max_bad: float) -> "Dataset":
    """The arrays of click logs."""
    from clickvec import dataset

    return dataset.prepare(
        read_log(logs, max_bad), max_words, max_trigrams, read_judged_set(shown, max_bad) if shown else None
    )


def load_or_read(logs: list[Path], shown: Path | None, recipe: "Recipe", max_bad: float) -> "Dataset":
    """The arrays of a data folder, or of click logs."""
    from clickvec import dataset

    prepared = [path for path in logs if (path / "data.json").exists()]
    if not prepared:
        return read_data(logs, shown, recipe.max_words, recipe.max_trigrams, max_bad)
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


def read_judged_set(path: Path, max_bad: float, queries: Path | None = None, titles: Path | None = None) -> "Judged":
    """A judged set in one file, or TREC qrels with their queries and titles."""
    from clickvec.readers import read_judged, read_qrels

    if (queries is None) != (titles is None):
        raise typer.BadParameter("TREC qrels need both --queries and --titles")
    judged = read_qrels(path, queries, titles, max_bad) if queries and titles else read_judged(path, max_bad)
    report(judged.bad)
    return judged


def read_catalogue(path: Path, max_bad: float) -> "Titles":
    """Titles with their ids."""
    from clickvec.readers import read_titles

    titles = read_titles(path, max_bad)
    report(titles.bad)
    return titles


# --- systems -----------------------------------------------------------------------------------------------------


def make_ranker(name: str, judged: "Judged", catalogue: "Titles | None") -> "Ranker":
    """The system that a name stands for: bm25, or a model folder."""
    from clickvec.encoder import Encoder
    from clickvec.rankers.neural import Neural

    if name.lower() == "bm25" and not Path(name).exists():
        from clickvec.rankers.lexical import BM25

        known = [title.title for title in catalogue or ()]
        return BM25([*known, *(title for query in judged for title in query.titles)])
    return Neural(Encoder.load(name), name)


def measure_catalogue(rankers: "list[Ranker]", judged: "Judged", titles: "Titles") -> "Evaluation":
    """Recall@100 and MRR@10 of each system over all the titles of a catalogue."""
    from functools import reduce

    from clickvec.evaluate import Evaluation, evaluate_catalogue

    ids = {title.id for title in titles}
    found = [evaluate_catalogue(_search(ranker, titles), judged, ids, name=ranker.name) for ranker in rankers]
    return reduce(Evaluation.above, found)


def _search(ranker: "Ranker", titles: "Titles") -> "Search":
    """A search over the titles: a model's by its index; of another system, all titles whose score is not 0."""
    from clickvec.encoder import Encoder
    from clickvec.index import Index
    from clickvec.metrics import rank_order
    from clickvec.rankers.neural import Neural

    ids, texts = [title.id for title in titles], [title.title for title in titles]
    if isinstance(ranker, Neural) and isinstance(ranker.encoder, Encoder):
        index = Index.build(ranker.encoder, texts, ids, progress=True)
        return lambda queries, k: [[hit.id for hit in hits] for hits in index.search(queries, k=k)]

    def look_up(queries: list[str], k: int) -> list[list[str]]:
        found = []
        for query in queries:
            scores = ranker.score(query, texts)
            found.append([ids[place] for place in rank_order(scores, ids)[:k].tolist() if scores[place]])
        return found

    return look_up
