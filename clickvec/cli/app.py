"""The command line: one verb for each stage, in the order of use. Results go to stdout, everything else to stderr.

Exit 0: success. 1: bad data or a bad model, explained in one sentence. 2: wrong usage. 128 plus the number of a signal
that stopped the program, so 130 for Ctrl-C. Each verb imports what it needs when it runs, so that `--help` is fast.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import clickvec
from clickvec.cli import (
    cluster_verbs,
    doctor_verb,
    evaluate_verb,
    explain,
    export_verb,
    index_verbs,
    inside,
    lab_verbs,
    prepare,
    search_verb,
    serve_verb,
    streams,
    train,
    up,
    use,
)
from clickvec.cli.inputs import Out
from clickvec.cli.verbs import Verb, Verbs, stop_on_signals

# The others follow as they are defined.
ORDER = ("up", "demo", "doctor", "prepare", "train", "evaluate", "index", "search")


class InOrder(Verbs):
    """All verbs, in the order of use."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, D102
        return [*ORDER, *(name for name in super().list_commands(ctx) if name not in ORDER)]


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip


def _print_version(requested: bool) -> None:
    if requested:
        streams.print_result(f"clickvec {clickvec.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train a small semantic search model from a click log, search with it, and explain every result."""
    streams.show_log()


@app.command(cls=Verb)
def demo(out: Out = Path("out/demo")) -> None:
    """Try the main verbs on a simulated click log.

    The demo simulates a log, trains, evaluates, indexes, searches, explains a hit and writes a report.
    """
    from clickvec.cli.demo import run

    def run_verb(arguments: list[str]) -> None:
        try:
            app(arguments, standalone_mode=False)
        except streams.OutputError as error:  # the demo's result is the files
            streams.print_message(f"{error}; the demo continues")

    run(run_verb, out)


for verb in (
    up.up, doctor_verb.doctor, prepare.prepare, train.train, evaluate_verb.evaluate,
    search_verb.search, use.rerank, use.encode, use.shrink,
    explain.explain, inside.nearest, inside.topics, inside.report, use.info, serve_verb.serve, serve_verb.retrain,
    export_verb.export,
):  # fmt: skip
    app.command(cls=Verb)(verb)

app.add_typer(index_verbs.app, name="index")
app.add_typer(cluster_verbs.app, name="cluster")
lab = typer.Typer(cls=Verbs, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(lab, name="lab", help="Reproduce the paper's table of results.")
for lab_verb in (lab_verbs.simulate, lab_verbs.compare):
    lab.command(cls=Verb)(lab_verb)
    app.command(cls=Verb, hidden=True)(lab_verb)  # the old names: `clickvec simulate`, `clickvec compare`


def main() -> None:
    """Run the command line."""
    streams.open_streams()
    sys.excepthook = streams.print_traceback
    stop_on_signals()
    app()
