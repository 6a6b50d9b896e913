"""The verb `prepare`: read and clean a click log, and write a data folder."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, MaxBad, NoHeader, Out, Overwrite, Shown, input_option, input_path
from clickvec.cli.streams import print_message
from clickvec.errors import ClickvecError
from clickvec.storage.outputs import check_output

if TYPE_CHECKING:
    from clickvec.data import Columns
    from clickvec.data.cleaning import CleaningReport
    from clickvec.data.preparation import Preparation

_LARGE = 500_000_000  # bytes of a log that is prepared on disk
_PACKED = (".gz", ".zst", ".parquet")
_RATIO = 5  # of the size of a text to that of a compressed file


def prepare(
    logs: Annotated[
        list[Path],
        typer.Argument(
            parser=input_path,
            help="Click logs: files, patterns or folders; TSV, CSV, JSON lines, Parquet; .gz and .zst too; - is stdin.",
        ),
    ],
    out: Out,
    append: Annotated[bool, typer.Option("--append", help="Add the logs to the data folder at --out.")] = False,
    memory: inputs.Memory = None,
    catalogue: Annotated[
        Path | None,
        input_option("A file of ids and titles, for logs that hold document ids. With --teacher, all titles to teach."),
    ] = None,
    queries: inputs.LogQueries = None,
    teacher: inputs.Teacher = None,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens", help="Write the tokens of --teacher and its weights; train computes the vectors where it runs."
        ),
    ] = False,
    shown: Shown = None,
    hold_out: inputs.HoldOut = False,
    k_anonymous: inputs.KAnonymous = None,
    merge_minutes: inputs.MergeMinutes = 30,
    max_per_hour: inputs.MaxPerHour = 0,
    max_per_client: inputs.MaxPerClient = 0,
    drop_queries: inputs.DropQueries = None,
    drop_clients: inputs.DropClients = None,
    max_query_words: inputs.MaxQueryWords = 0,
    min_clicks: inputs.MinClicks = 0,
    keep_secrets: inputs.KeepSecrets = False,
    max_words: Annotated[
        int | None, typer.Option(min=1, help="The words from this one on form one last token. Default: 10.")
    ] = None,
    max_trigrams: inputs.MaxTrigrams = None,
    trigrams_only: inputs.TrigramsOnly = False,
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Clean a click log, prepare it for training and write a data folder.

    Train on it many times with clickvec train FOLDER. clickvec.train("FOLDER", "MODEL") in Python needs only numpy
    and torch.

    With --teacher, the folder also holds the titles of --catalogue, and the vectors of all texts are computed and kept
    in OUT.teacher. Without, --catalogue adds no titles.
    """
    from clickvec import config
    from clickvec.data import data_folder, dataset
    from clickvec.data.held_out import fewest_queries
    from clickvec.data.parsing.lines import BadLines
    from clickvec.data.preparation import Preparation
    from clickvec.data.titles import stream_titles
    from clickvec.teacher.model_teacher import is_model_folder
    from clickvec.teacher.opening import check_source, folder_of
    from clickvec.teacher.token_source import check_target

    if append and (overwrite or hold_out or max_words or max_trigrams or trigrams_only):
        raise typer.BadParameter("--append keeps the folder and its settings; leave out the other option")
    if tokens and not teacher:
        raise typer.BadParameter("--tokens writes those of a teacher; give the model with --teacher")
    if teacher:
        check_source(teacher)
        if is_model_folder(Path(teacher)):
            raise typer.BadParameter(f"{teacher} is a clickvec model, whose vectors are not kept; give it to train")
    reads = (*logs, catalogue, queries, shown, drop_queries, drop_clients)
    check_output(out, reads)
    words, trigrams = max_words or 10, max_trigrams or 50_000
    config.recipe(max_words=words, max_trigrams=trigrams)  # raises an error if one is out of bounds
    if append and not inputs.is_data_folder(out):
        raise ClickvecError(f"{out} holds no data folder to add to; leave out --append to make one")
    data_folder.check_target(out, overwrite or append)
    if tokens:
        check_target(folder_of(out))
    columns = inputs.read_columns(column_names, no_header, reads, delimiter, encoding)
    rules = {
        "k_anonymous": k_anonymous, "merge_minutes": merge_minutes, "max_per_hour": max_per_hour,
        "max_per_client": max_per_client, "max_query_words": max_query_words, "min_clicks": min_clicks,
        "keep_secrets": keep_secrets,
    }  # fmt: skip
    cleaning = inputs.read_cleaning(drop_queries, drop_clients, **rules)
    judged = inputs.read_judged_set(shown, max_bad, columns) if shown else None
    bad_titles = BadLines()
    titles = stream_titles(catalogue, bad_titles, max_bad, columns, ids="unused") if catalogue and teacher else ()
    settings = Preparation(
        words, trigrams, cleaning, judged, hold_out, append, memory or memory_for(logs, out if append else None),
        (entry.title for entry in titles), not trigrams_only,
    )  # fmt: skip
    report = write_folder(logs, out, settings, columns, catalogue, queries, max_bad)
    inputs.report_bad_lines(bad_titles)
    if teacher:
        _write_teacher(out, teacher, tokens)
    if hold_out and not (out / "test.tsv").exists():
        print_message(f"No clicks are held out: the log has fewer than {fewest_queries():,} different queries")
    facts = dataset.describe(data_folder.load(out))
    inputs.print_outcome(f"{out}: {inputs.format_value(facts)}", {**facts, **report.as_json()}, as_json)


def write_folder(
    logs: list[Path],
    out: Path,
    settings: "Preparation",
    columns: "Columns",
    catalogue: Path | None = None,
    queries: Path | None = None,
    max_bad: float = 0.01,
) -> "CleaningReport":
    """Read click logs, clean them and write a data folder. Print what was skipped and dropped."""
    from clickvec.data.clicks import describe_files
    from clickvec.data.logs import read_events
    from clickvec.data.parsing.lines import BadLines
    from clickvec.data.preparation import write_data_folder

    bad = BadLines()

    def check(clicked: int) -> None:
        bad.check(describe_files(logs), max_bad, clicked, "pair with a click")
        inputs.report_bad_lines(bad)
        columns.check_used()

    events = read_events(logs, columns, catalogue=catalogue, queries=queries, bad=bad, max_bad=max_bad)
    report = write_data_folder(events, out, settings, check, Bar())
    inputs.report_cleaning(report)
    return report


def _write_teacher(out: Path, teacher: str, tokens: bool) -> None:
    """Write the vectors of a teacher for all texts of a data folder or, with `tokens`, what they are computed from."""
    from clickvec.data import data_folder
    from clickvec.teacher.opening import folder_of, open_teacher
    from clickvec.teacher.token_source import write_tokens
    from clickvec.training.process_settings import tuned_for_training

    data, texts = data_folder.load_with_texts(out)
    if tokens:
        write_tokens(data, texts, teacher, folder_of(out), Bar())
    else:
        with tuned_for_training():  # a transformer runs on torch too
            open_teacher(data, texts, teacher, out, Bar())


def memory_for(logs: list[Path], before: Path | None = None) -> int | None:
    """Return the memory for preparing on disk if the logs are large and DuckDB is installed; otherwise None.

    `before` is the data folder that they are added to.
    """
    from clickvec.data.parsing.paths import log_files

    size = sum(_text_size(path) for path in log_files(logs))
    if before and (before / "data.safetensors").exists():
        size += (before / "data.safetensors").stat().st_size
    if size < _LARGE or find_spec("duckdb") is None or find_spec("pyarrow") is None or not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _text_size(path: Path) -> int:
    """Estimate the bytes of text in a file or folder."""
    if path.is_dir():
        return sum(_text_size(entry) for entry in path.rglob("*") if entry.is_file())
    if not path.is_file():
        return 0
    return path.stat().st_size * (_RATIO if path.name.lower().endswith(_PACKED) else 1)
