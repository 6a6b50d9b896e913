"""The verb up: from a click log to the page of its search engine, in one folder and in stages that are done once."""

import contextlib
import logging
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import erased_bars
from clickvec.cli.inputs import ColumnNames, NoHeader, input_option, input_path
from clickvec.cli.streams import print_summary
from clickvec.errors import ClickvecError, Interrupted, missing_extra

if TYPE_CHECKING:
    from clickvec.cli.up_folder import Told, UpFolder
    from clickvec.cli.up_stages import Plan, Stage
    from clickvec.data import Columns

HOST = "127.0.0.1"
LABEL = 13  # columns of "1/6 doctor"
_ENDINGS = re.compile(r"(\.(tsv|csv|jsonl|ndjson|json|txt|log|parquet|gz|zst))+$", re.IGNORECASE)


def up(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="LOG", parser=input_path, help="Click logs, as for prepare. Default: a built-in one."),
    ] = None,
    catalogue: Annotated[
        Path | None,
        input_option("The titles to search, with optional ids and payload. Default: the titles of the log."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder for everything. Default: out/NAME-OF-LOG.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page. 0 takes any free port.")] = 8080,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Stop before serving.")] = False,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    clicks: Annotated[
        bool, typer.Option("--clicks", help="Let the page log clicks, to OUT/index.clicks.jsonl, for retrain.")
    ] = False,
    queries: inputs.LogQueries = None,
    judged: Annotated[Path | None, input_option("A judged set to measure on as well.")] = None,
    memory: inputs.Memory = None,
    k_anonymous: inputs.KAnonymous = None,
    merge_minutes: inputs.MergeMinutes = 30,
    max_per_hour: inputs.MaxPerHour = 0,
    max_per_client: inputs.MaxPerClient = 0,
    drop_queries: inputs.DropQueries = None,
    drop_clients: inputs.DropClients = None,
    max_query_words: inputs.MaxQueryWords = 0,
    min_clicks: inputs.MinClicks = 0,
    keep_secrets: inputs.KeepSecrets = False,
    recipe: inputs.RecipeName = "default",
    settings: inputs.Settings = None,
    device: inputs.Device = "auto",
    vectors: inputs.VectorType = "float32",
    search: inputs.SearchType = "auto",
    numbers: inputs.Numbers = "auto",
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: inputs.MaxBad = 0.01,
) -> None:
    """Turn a click log into a search engine with a web page: doctor, prepare, train, index, measure, serve.

    Everything is in one folder. Stop it at any time: the same command continues where it was. Stages whose inputs are
    the same are not done again.

    The options are those of the verbs that it runs: doctor, prepare, train, index, evaluate. A changed option does only
    those stages again that depend on it. Only this machine can open the page.
    """
    from clickvec import config
    from clickvec.cli.up_folder import opened
    from clickvec.cli.up_stages import SIMULATE, STAGES, Options, Plan, check_unchanged
    from clickvec.model.shrink import check_vector_type
    from clickvec.search.live.index_folder import check_search

    given = logs or []
    for name, file in (("--catalogue", catalogue), ("--queries", queries), ("--judged", judged)):
        if file and not given:
            raise typer.BadParameter(f"{name} is for a log of yours; the built-in log has its own")
    others = (catalogue, queries, judged)
    columns = inputs.read_columns(
        column_names, no_header, (*given, *others, drop_queries, drop_clients), delimiter, encoding
    )
    config.recipe(recipe, settings=settings or [])  # raises an error before the first stage
    check_vector_type(vectors)
    check_search(search)
    cleaning = inputs.read_cleaning(
        drop_queries, drop_clients, k_anonymous=k_anonymous, merge_minutes=merge_minutes, max_per_hour=max_per_hour,
        max_per_client=max_per_client, max_query_words=max_query_words, min_clicks=min_clicks,
        keep_secrets=keep_secrets,
    )  # fmt: skip
    options = Options(
        queries, judged, max_bad, cleaning, memory, recipe, tuple(settings or ()), device, vectors, search, numbers
    )
    _check_files(given, others, queries, columns, max_bad)
    if given:
        _check_numbers(numbers, catalogue, columns)
    folder_path = out or _default_folder(given)
    stages = STAGES if given else (SIMULATE, *STAGES)
    with opened(folder_path, (*given, *others, drop_queries, drop_clients)) as folder:
        plan, total = Plan(folder, given, catalogue, columns, options), len(stages) + (not no_serve)
        folder.use_for(given, is_chosen=out is not None)
        _check_environment(folder, None if no_serve else port)
        check_unchanged(stages, plan)
        heading = f"{inputs.file_names(given) or 'The built-in log'} -> {folder_path}\n"
        with _plain_words():
            for number, stage in enumerate(stages, 1):
                _do(stage, plan, f"{number}/{total}", heading if number == 1 else "")
        _end(folder)
        if not no_serve:
            _serve(folder, port, opens, clicks, f"{total}/{total}")


def _do(stage: "Stage", plan: "Plan", number: str, heading: str) -> None:
    """Do a stage unless it is done, and print what it tells, after a heading: nothing if the stage fails."""
    from clickvec.cli.up_folder import Record
    from clickvec.cli.up_stages import is_changed, is_done, with_formats

    folder, before = plan.folder, plan.folder.record(stage.name)
    if before and is_done(stage, plan):
        later = ", and changed since by other commands" if is_changed(stage, folder) else ""
        _tell(number, stage.name, before.told, f"done before{later}", heading)
        return
    now, why = dict(with_formats(dict(stage.inputs(plan)))), ""
    if before and all(path.exists() for path in stage.results(folder)):
        changed = [name for name in now if before.inputs.get(name) != now[name]] or ["what it reads"]
        why = f"again, because {' and '.join(changed)} changed; "
    folder.begin(stage.name)
    begun = time.monotonic()
    try:
        told = stage.run(plan)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(f"stopped in the stage {stage.name}; the same command continues") from None
    seconds = time.monotonic() - begun
    folder.finish(stage.name, Record(now, told, seconds, stage.identity(folder)))
    _tell(number, stage.name, told, f"{why}{seconds:.0f} s", heading)


def _tell(number: str, name: str, told: "Told", how: str, heading: str) -> None:
    """Print a heading and a stage: its number, its name, a paragraph, and its table."""
    from clickvec.render.terminal.screen import Screen, this_screen
    from clickvec.text.printable import clean

    columns = this_screen().columns
    first, *others = Screen(columns - LABEL).wrap(clean(f"{told.text} ({how})"))
    lines = [f"{f'{number} {name}':<{LABEL}}{first}", *(" " * LABEL + line for line in others)]
    if told.table:
        head, *rows = told.table
        lines += [f"    {line}" for line in Screen(1_000).table("<".ljust(len(head), ">"), head, rows)]
    print_summary(heading + "\n".join(lines))


def _end(folder: "UpFolder") -> None:
    """Tell what can be done with the files."""
    path = folder.path
    print_summary(
        f"Everything is in {path}. Each stage is a verb of its own with more options, such as:\n"
        f'  clickvec search {folder.index} "your query"\n'
        f"  clickvec train {folder.data} --out {path / 'other-model'} --set epochs=10\n"
        f"  clickvec serve {folder.index}"
    )


# --- before the first stage --------------------------------------------------------------------------------------


def _default_folder(logs: list[Path]) -> Path:
    """Return out/NAME with the name of the first log."""
    if not logs:
        return Path("out/built-in")
    name = _ENDINGS.sub("", logs[0].resolve().name if logs[0].name in ("", "..") else logs[0].name)
    return Path("out") / (re.sub(r"[^\w.-]+", "-", name).strip("-._") or "log")


def _check_files(
    logs: list[Path], others: tuple[Path | None, ...], queries: Path | None, columns: "Columns", max_bad: float
) -> None:
    """Refuse what cannot be read several times, names of columns that no file has, and ids that are not recognised."""
    from clickvec.cli.up_folder import check_file
    from clickvec.data import BadLines, read_events, stream_titles
    from clickvec.data.parsing.open_files import STDIN
    from clickvec.data.parsing.paths import is_beir, log_files

    catalogue, *_ = others
    if STDIN in (*logs, *others):
        raise ClickvecError("up reads its files several times, and standard input only once; save it to a file first")
    files = log_files(logs)
    for path in (*files, *filter(None, others)):
        if not is_beir(path):
            check_file(path)
    has_options = bool(columns.names) or columns.delimiter is not None
    if has_options:  # each stage reads only some of the files, so all of them are looked at here
        for file in files:
            next(
                iter(read_events([file], columns, catalogue=catalogue, queries=queries, bad=BadLines(), max_bad=1.0)),
                None,
            )
    if catalogue:
        with _plain_words(logging.ERROR):  # the stage index says whether row numbers are the ids
            deque(stream_titles(catalogue, BadLines(), max_bad, columns, distinct=True), maxlen=0)
    if has_options:
        columns.check_used()


def _check_numbers(numbers: str, catalogue: Path | None, columns: "Columns") -> None:
    """Refuse columns of numbers that the catalogue lacks, or that hold something else."""
    from clickvec.cli.index_verbs import chosen_numbers, documents_in
    from clickvec.data import BadLines, stream_titles

    if numbers.strip() in ("auto", "none", ""):
        return
    if catalogue is None:
        raise typer.BadParameter("--numbers names columns of --catalogue, and there is none")
    with _plain_words(logging.ERROR):
        named = chosen_numbers(numbers, catalogue, columns)
        for _ in documents_in(stream_titles(catalogue, BadLines(), 1.0, columns), named, catalogue, columns):
            pass


def _check_environment(folder: "UpFolder", port: int | None) -> None:
    """Refuse before the first stage what the last ones need: torch, the packages of the service, a free port."""
    if find_spec("torch") is None and not (folder.model / "config.json").exists():
        raise missing_extra("torch", "train")
    if port is None:
        return
    from clickvec.cli.serve_verb import check_installed

    check_installed()
    from clickvec.serve.server import listen

    listen(HOST, port).close()


@contextlib.contextmanager
def _plain_words(least: int = logging.WARNING) -> Iterator[None]:
    """Show only warnings of the library and the progress of current work: the stages tell the rest."""
    logger = logging.getLogger("clickvec")
    level = logger.level
    logger.setLevel(least)
    try:
        with erased_bars():
            yield
    finally:
        logger.setLevel(level)


# --- the last stage ----------------------------------------------------------------------------------------------


def _serve(folder: "UpFolder", port: int, opens: bool, clicks: bool, number: str) -> None:
    """Become `clickvec serve`, a fresh program without the memory of training. The folder stays locked."""
    from clickvec.serve.server import listen

    with listen(HOST, port) as listener:  # if it is 0, take a free one now, so that others can be told
        port = listener.getsockname()[1]
    address = f"http://{HOST}:{port}"
    print_summary(f"{f'{number} serve':<{LABEL}}The page is at {address}. Stop it with Ctrl-C.")
    options = ["--port", str(port), "--about", str(folder.about), "--access-log", str(folder.path / "access.jsonl")]
    options += ["--open"] * opens + ["--log-clicks"] * clicks
    folder.serve_at(address)
    program = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    os.execv(sys.executable, [sys.executable, *program, "serve", str(folder.index), *options])
