"""The command line: one verb a stage, in the order of the flow. Results to stdout, the rest to stderr.

Exit 0: done; 1: bad data or a bad model, in one sentence; 2: wrong usage; 128 and the number of a signal that stopped
it, so 130 for Ctrl-C. Every verb imports what it needs when it runs, so that `--help` answers at once.
"""

from pathlib import Path
from typing import Annotated

import typer

import clickvec
from clickvec.cli import ending, explain, inside, streams, train, use
from clickvec.cli.inputs import Out
from clickvec.cli.verbs import Verb, Verbs
from clickvec.model import threads

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        streams.print_result(f"clickvec {clickvec.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Turn a search click log into a small semantic search engine that you can look inside."""
    streams.show_log()
    threads.check_environment()


@app.command(cls=Verb)
def demo(out: Out = Path("out/demo")) -> None:
    """The whole story on the built-in log: simulate, train, evaluate, index, search, explain, report."""
    from clickvec.cli.demo import run

    def verb(arguments: list[str]) -> None:
        try:
            status = app(arguments, standalone_mode=False)
        except streams.OutputError as lost:  # what it writes is what counts
            streams.print_message(f"{lost}; the demo goes on without it")
        else:
            if status:
                raise typer.Exit(status)

    run(verb, out)


for verb in (
    train.simulate, train.prepare, train.train, train.evaluate, train.compare,
    use.shrink, use.encode, use.index, use.search, use.rerank,
    explain.explain, inside.topics, inside.nearest, inside.report, use.info,
):  # fmt: skip
    app.command(cls=Verb)(verb)


def main() -> None:
    """Run the command line."""
    streams.open_streams()
    ending.stop_on_signals()
    app()
