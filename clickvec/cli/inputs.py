"""The options that several verbs share, and how they read the files that the user names."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.cli.streams import print_json, print_message, print_summary
from clickvec.errors import ClickvecError
from clickvec.render.labels import counted

if TYPE_CHECKING:
    from clickvec.data import BadLines, ClickLog, Columns, Judged, Rows, Title
    from clickvec.data.cleaning import Cleaning, CleaningReport
    from clickvec.data.titles import Ids
    from clickvec.evaluation.test_set import TestSet


def input_path(text: str) -> Path:
    """Read a path from the command line. `-` means standard input; a file of that name is ./-."""
    path = Path(text)
    return path.absolute() if text != "-" and path == Path("-") else path


def _in_up_folder(text: str, *parts: str) -> str:
    """Return the first of these parts that the folder of `clickvec up` has; any other path or address as it is."""
    from clickvec.search.engines.address import is_address

    path = Path(text)
    if is_address(text) or not (path / "up.json").is_file():
        return text
    return str(next((path / part for part in parts if (path / part).is_dir()), text))


def index_location(text: str) -> str:
    """Read an index folder or the address of an index; the folder of up means the index in it."""
    return _in_up_folder(text, "index")


def model_location(text: str) -> Path:
    """Read a model folder; the folder of up means the model in it."""
    return Path(_in_up_folder(text, "model"))


def model_or_index(text: str) -> str:
    """Read a model folder or an index; the folder of up means the index in it or, if there is none, the model."""
    return _in_up_folder(text, "index", "model")


def input_option(text: str, *names: str) -> Any:  # noqa: ANN401
    """Declare an option that takes the path of a file to read."""
    return typer.Option(*names, parser=input_path, help=text)


Out = Annotated[Path, typer.Option(help="Where to write the result.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite the result of an earlier run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MaxBad = Annotated[float, typer.Option(help="Fail if more than this share of the lines is bad.", min=0.0, max=1.0)]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the interrupted run at --out.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
RecipeName = Annotated[str, typer.Option("--recipe", help="default: the best settings so far; paper: the paper's.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="Override a setting: key=value. Repeatable.")]
ModelPath = Annotated[Path, typer.Argument(parser=model_location, help="A folder of a model, or of `clickvec up`.")]
ModelOrIndex = Annotated[
    Path,
    typer.Argument(
        parser=lambda text: Path(model_or_index(text)),
        help="A folder of a model, an index, or `clickvec up`.",
    ),
]
IndexLocation = Annotated[
    str,
    typer.Argument(
        metavar="INDEX",
        parser=index_location,
        help="An index folder, that of up, or the address of an index in a database.",
    ),
]
CataloguePath = Annotated[
    Path,
    typer.Argument(
        metavar="CATALOGUE",
        parser=input_path,
        help="The titles, with columns title and doc_id: TSV, CSV, JSON lines or Parquet; - is stdin.",
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", metavar="NAME=COLUMN,...", help="Map column names: query=search_term,title=name. Repeatable."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What separates columns: , ; | or tab. Default: detected from the first line."),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The encoding of text files, such as cp1252. Default: detected from the first bytes."
    ),
]
LogCatalogue = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        parser=input_path,
        help="For logs that hold document ids: a file of ids and titles. TSV, CSV, JSON lines or Parquet.",
    ),
]
LogQueries = Annotated[
    Path | None,
    typer.Option("--queries", parser=input_path, help="For logs that hold query ids: a file of ids and queries."),
]
Teacher = Annotated[
    str | None,
    typer.Option(
        "--teacher",
        metavar="MODEL",
        help="Learn from a larger model too: of sentence-transformers, vectors (.npy, .parquet) or a .teacher folder.",
    ),
]
Teachers = Annotated[
    list[str] | None,
    typer.Option(
        "--teacher",
        metavar="MODEL",
        help="Learn from a larger model too: of sentence-transformers or clickvec, vectors (.npy, .parquet) or a "
        ".teacher folder. Repeat it to add a clickvec model to another teacher.",
    ),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The files have no header: columns have numbers.")]
Shown = Annotated[Path | None, input_option("A judged set. Its titles of grade 0 become negatives.")]
HoldOut = Annotated[
    bool, typer.Option("--hold-out", help="Hold two parts of the queries out, to measure models: dev and test.")
]
KAnonymous = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Drop queries that fewer clients typed. 0: keep all. Default: 3 if the log names users, and 0 if it names "
        "only sessions.",
    ),
]
MaxPerClient = Annotated[int, typer.Option(min=0, help="Drop clients with more lines in the log. 0: keep all.")]
MergeMinutes = Annotated[
    int, typer.Option(min=0, help="Count a client's repeated clicks on a title once in this time. 0: count all.")
]
MaxPerHour = Annotated[int, typer.Option(min=0, help="Drop clients with more searches in an hour: bots. 0: keep all.")]
DropQueries = Annotated[Path | None, input_option("A file of queries to drop, one in each line.")]
DropClients = Annotated[Path | None, input_option("A file of clients to drop, one in each line.")]
MaxQueryWords = Annotated[int, typer.Option(min=0, help="Drop queries with more words. 0: keep all.")]
MinClicks = Annotated[float, typer.Option(min=0, help="Drop queries with fewer clicks.")]
MaxTrigrams = Annotated[
    int | None, typer.Option(min=1, help="Maximum size of the vocabulary: trigrams and whole words. Default: 50,000.")
]
TrigramsOnly = Annotated[
    bool,
    typer.Option(
        "--trigrams-only", help="Use letter trigrams only, without whole words. The recipe paper requires it."
    ),
]
KeepSecrets = Annotated[
    bool, typer.Option("--keep-secrets", help="Do not mask e-mail addresses, phone, card and SSN numbers.")
]
VectorType = Annotated[str, typer.Option("--vectors", help="Number format of the vectors: float32 or int8.")]
SearchType = Annotated[
    str, typer.Option("--search", help="exact, approximate (faiss), or auto: approximate from 100,000 titles.")
]
Numbers = Annotated[
    str,
    typer.Option(
        "--numbers",
        metavar="COLUMN,...",
        help="Columns of a TSV or CSV file that hold numbers; none; or auto: those that hold nothing else.",
    ),
]
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def _parse_memory(text: str) -> int:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(i?)b?", text.strip().lower())
    if not match:
        raise typer.BadParameter(f"{text!r} is not an amount of memory; write 2GB or 500MB")
    number, unit, binary = match.groups()
    return int(float(number) * (_UNITS[unit] if not binary else 1024 ** list(_UNITS).index(unit)))


Memory = Annotated[
    int | None,
    typer.Option("--memory", parser=_parse_memory, metavar="SIZE", help="Use at most this much memory, such as 2GB."),
]


def report_bad_lines(bad: "BadLines") -> None:
    """Print how files were read, how many lines were skipped, and the reasons for the first ones."""
    for name, encoding in bad.encodings.items():
        print_message(f"{name}: read as {encoding}; --encoding NAME changes this")
    for name, delimiter in bad.delimiters.items():
        sign = "tabs" if delimiter == "\t" else delimiter
        print_message(f"{name}: columns are separated by {sign}; --delimiter SIGN changes this")
    for name, layout in bad.layouts.items():
        print_message(f"{name}: {layout}")
    if bad.count:
        print_message(f"Skipped {bad.count:,} of {counted(bad.total, 'line')}:")
        for example in bad.examples:
            print_message(f"  {example}")
        if bad.count > len(bad.examples):
            print_message(f"  and {bad.count - len(bad.examples):,} more")
    for reason, count in bad.unused.items():
        print_message(f"Left out {count:,} ({reason}); first: {bad.unused_examples[reason]}")
    for other in bad.others:
        report_bad_lines(other)


def report_cleaning(report: "CleaningReport") -> None:
    """Print what cleaning masked and dropped."""
    for line in str(report).splitlines():
        print_message(line)


def format_value(value: object) -> str:
    """Return a value for people: numbers with commas, fractions with four digits, dictionaries without brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {format_value(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_outcome(summary: str, facts: dict[str, Any], as_json: bool) -> None:
    """Print what a verb has written: the facts with --json, otherwise the summary."""
    if as_json:
        print_json(facts)
    else:
        print_summary(summary)


def is_index(folder: Path | str) -> bool:
    """Tell whether a path names an index folder, or is the address of an index in a database."""
    from clickvec.search.engines.address import is_address

    return is_address(folder) or (Path(folder) / "index.json").exists()


def model_folder(folder: Path) -> Path:
    """Return the model folder inside an index folder. Any other folder is returned as it is."""
    from clickvec.search.live.index_folder import model_in

    return model_in(folder) if is_index(folder) else folder


def file_names(paths: Iterable[Path]) -> str:
    """Return the names of files for people, with a question mark for each byte that is not valid text."""
    from clickvec.data.parsing.open_files import STDIN, name_of

    names = (name_of(path) if path == STDIN else path.name for path in paths)
    return ", ".join(names).encode(errors="replace").decode()


def read_cleaning(queries: Path | None, clients: Path | None, **rules: float | None) -> "Cleaning":
    """Return the rules by which a log is cleaned. The files list queries and clients to drop, one in each line."""
    from clickvec.data.cleaning import Cleaning

    return Cleaning.with_lists(_read_list(queries), _read_list(clients), **rules)


def _read_list(path: Path | None) -> list[str]:
    """Return the lines of a file, without blank ones."""
    from clickvec.data.parsing.lines import BadLines, file_lines

    if path is None:
        return []
    bad = BadLines()
    lines = [line for _, block in file_lines(path, bad) for line in block if line.strip()]
    bad.check(str(path), 0, len(lines), "line of text")
    return lines


# --- reading files -----------------------------------------------------------------------------------------------


def read_columns(
    names: list[str] | None,
    no_header: bool,
    paths: Iterable[Path | None],
    delimiter: str | None = None,
    encoding: str | None = None,
) -> "Columns":
    """Parse the options that say how files are read, and refuse to read standard input twice."""
    from clickvec.data import Columns
    from clickvec.data.parsing.open_files import STDIN

    if list(paths).count(STDIN) > 1:
        raise typer.BadParameter("- is standard input, which can be read only once; name the other files")
    try:
        return Columns.parse(names or [], header=not no_header, delimiter=delimiter, encoding=encoding)
    except ClickvecError as error:
        options = "--columns, --delimiter or --encoding" if delimiter or encoding else "--columns"
        raise typer.BadParameter(str(error), param_hint=options) from None


def read_log(
    logs: list[Path],
    max_bad: float,
    columns: "Columns",
    catalogue: Path | None = None,
    queries: Path | None = None,
) -> "ClickLog":
    """Read click logs and report their bad lines."""
    from clickvec.data import read_clicks

    log = read_clicks(logs, max_bad, columns, catalogue, queries)
    report_bad_lines(log.bad)
    return log


def read_clean_log(
    logs: list[Path],
    max_bad: float,
    columns: "Columns",
    catalogue: Path | None = None,
    queries: Path | None = None,
) -> "ClickLog":
    """Read click logs, clean them, and report what was skipped and what was dropped."""
    from clickvec.data.cleaning import Cleaning, clean

    log, report = clean(read_log(logs, max_bad, columns, catalogue, queries), Cleaning())
    report_cleaning(report)
    return log


def read_held_out(
    logs: list[Path], catalogue: Path | None, max_bad: float, columns: "Columns", *, is_shown: bool = False
) -> "TestSet":
    """Read clicks that models are measured on, with all titles that are searched.

    If its queries will be shown to others, the log is cleaned as for training: rare queries of clients are dropped.
    """
    from clickvec.evaluation.test_set import Catalogue, TestSet

    titles = read_catalogue(catalogue, max_bad, columns, "unused") if catalogue else ()
    searched = Catalogue(entry.title for entry in titles)
    read = read_clean_log if is_shown else read_log
    log = read(logs, max_bad, columns, catalogue)
    test = TestSet.of_clicks(log, searched)
    if not catalogue:
        searched.add(log.shown.titles if log.shown else ())
        count = counted(len(searched.titles), "title")
        print_message(f"Only the {count} of --held-out are searched; give all titles with --catalogue")
    say_not_known()
    return test


def say_not_known() -> None:
    """Say that clicks may be those that a model was trained on."""
    print_message("Whether the models were trained on these queries is not known: a model that was scores too high")


def is_data_folder(path: Path) -> bool:
    """Tell whether a path names a data folder, and not a click log."""
    from clickvec.data.parsing.open_files import STDIN

    return path != STDIN and (path / "data.json").exists()


def read_judged_set(
    path: Path, max_bad: float, columns: "Columns", queries: Path | None = None, titles: Path | None = None,
    by_ids: bool = False,
) -> "Judged":  # fmt: skip
    """Read a judged set from one file, or TREC qrels with their queries and titles, and report its bad lines.

    With `by_ids`, qrels need no texts.
    """
    from clickvec.data import read_judged, read_qrels
    from clickvec.data.judged import is_qrels

    if (queries is None) != (titles is None):
        raise typer.BadParameter("TREC qrels need both --queries and --catalogue")
    if queries or (by_ids and is_qrels(path)):
        judged = read_qrels(path, queries, titles, max_bad, columns)
    else:
        judged = read_judged(path, max_bad, columns)
    report_bad_lines(judged.bad)
    return judged


def read_catalogue(path: Path, max_bad: float, columns: "Columns", ids: "Ids" = "wanted") -> "Rows[Title]":
    """Read titles with their ids and report the bad lines."""
    from clickvec.data import read_titles

    titles = read_titles(path, max_bad, columns, ids)
    report_bad_lines(titles.bad)
    return titles


def read_dev(path: Path, catalogue: Path | None, max_bad: float, columns: "Columns") -> "TestSet":
    """Read a judged set; with a catalogue, as searches of all its titles."""
    from clickvec.evaluation.test_set import Catalogue, TestSet

    judged = read_judged_set(path, max_bad, columns)
    if catalogue is None:
        return TestSet.of_judged(judged)
    titles = read_catalogue(catalogue, max_bad, columns, "unused")
    return TestSet.of_judged(judged, Catalogue(title.title for title in titles))
