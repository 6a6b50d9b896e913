"""The verb cluster: prepare a log and encode a catalogue on a Ray cluster."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, MaxBad, ModelPath, Out, Overwrite, input_path
from clickvec.cli.verbs import Verb, Verbs
from clickvec.render.labels import counted
from clickvec.storage.outputs import check_output

Address = Annotated[
    str,
    typer.Option(help="The Ray cluster: HOST:6379, auto (that of this machine) or local (start one)."),
]

app = typer.Typer(cls=Verbs, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def about() -> None:
    """Prepare a log and encode a catalogue on a Ray cluster. All nodes must see the same files."""


@app.command(cls=Verb)
def prepare(
    logs: Annotated[
        list[Path],
        typer.Argument(parser=input_path, help="Click logs: files, patterns or folders; one task reads each file."),
    ],
    out: Out,
    address: Address = "auto",
    hold_out: inputs.HoldOut = False,
    k_anonymous: inputs.KAnonymous = None,
    merge_minutes: inputs.MergeMinutes = 30,
    max_query_words: inputs.MaxQueryWords = 0,
    min_clicks: inputs.MinClicks = 0,
    keep_secrets: inputs.KeepSecrets = False,
    max_words: Annotated[int, typer.Option(min=1, help="The words from this one on form one last token.")] = 10,
    max_trigrams: inputs.MaxTrigrams = None,
    trigrams_only: inputs.TrigramsOnly = False,
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Clean a click log on a cluster and write the same data folder as `clickvec prepare`.

    The cluster reads and cleans. This machine numbers the texts of the pairs that are left, counts their trigrams and
    writes the folder, on disk, by DuckDB.
    """
    from clickvec import config
    from clickvec.cluster.preparing import prepare_on_cluster
    from clickvec.data import data_folder, dataset
    from clickvec.data.cleaning import Cleaning
    from clickvec.data.preparation import Preparation

    check_output(out, logs)
    trigrams = max_trigrams or 50_000
    config.recipe(max_words=max_words, max_trigrams=trigrams)  # raises an error if one is out of bounds
    data_folder.check_target(out, overwrite)
    columns = inputs.read_columns(column_names, False, logs, delimiter, encoding)
    rules = Cleaning(
        keep_secrets=keep_secrets, merge_minutes=merge_minutes, max_query_words=max_query_words,
        k_anonymous=k_anonymous, min_clicks=min_clicks,
    )  # fmt: skip
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    settings = Preparation(
        max_words, trigrams, rules, hold_out=hold_out, memory=memory, whole_words=not trigrams_only
    )  # fmt: skip
    with connected_quietly(address) as ray:
        report = prepare_on_cluster(
            ray, logs, out, settings, columns, max_bad=max_bad, tell=inputs.report_bad_lines, progress=Bar()
        )
    inputs.report_cleaning(report)
    facts = dataset.describe(data_folder.load(out))
    inputs.print_outcome(f"{out}: {inputs.format_value(facts)}", {**facts, **report.as_json()}, as_json)


@app.command(cls=Verb)
def encode(
    model: ModelPath,
    catalogue: Annotated[
        list[Path],
        typer.Argument(
            metavar="CATALOGUE...", help="Files of titles with ids, best Parquet: a task reads some row groups."
        ),
    ],
    out: Out,
    address: Address = "auto",
    vectors: Annotated[str, typer.Option(help="Number format of the vectors: float32 or int8.")] = "float32",
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Encode a catalogue on a cluster and write a folder of Parquet files: id, title and vector.

    A run that was stopped is resumed by the same command. vectors.json counts the rows of all files.
    """
    from clickvec.cluster.encoding import encode_on_cluster
    from clickvec.model.shrink import check_vector_type

    check_vector_type(vectors)
    check_output(out, [model, *catalogue])
    columns = inputs.read_columns(column_names, False, catalogue, delimiter, encoding)
    with connected_quietly(address) as ray:
        manifest = encode_on_cluster(
            ray, model, catalogue, out, columns, vectors=vectors, max_bad=max_bad, progress=Bar()
        )
    shards = counted(len(manifest["shards"]), "shard")
    skipped = f"; {manifest['skipped']:,} bad lines were skipped" if manifest["skipped"] else ""
    inputs.print_outcome(f"{out}: {counted(manifest['rows'], 'vector')} in {shards}{skipped}", manifest, as_json)


@contextmanager
def connected_quietly(address: str) -> Iterator[Any]:
    """Connect to a cluster, with standard output sent to standard error: Ray may report a lost node at any time."""
    from clickvec.cluster.session import connected

    with redirect_stdout(sys.stderr), connected(address) as ray:
        yield ray
