"""Adapt typer: what it prints goes through streams.py, and errors end in ending.py."""

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from clickvec.cli import ending, streams

# Depending on its version, typer uses click or a copy of its own.
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Verb(TyperCommand):
    """One verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        with streams.printing_parser_output():  # --help
            return super().parse_args(ctx, args)


class Verbs(TyperGroup):
    """A group of verbs. A verb that fails ends with one sentence and an exit status."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        with streams.printing_parser_output():  # --help and --version
            return super().parse_args(ctx, args)

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **_: object,
    ) -> int:
        """Run the program and exit. With standalone_mode=False, as in demo, return, and raise errors to the caller.

        This does not call the method of typer, which ends the program itself on Ctrl-C and on some errors.
        """
        arguments, program = list(sys.argv[1:] if args is None else args), prog_name or "clickvec"
        if standalone_mode:
            sys.exit(ending.run(lambda: self._run(arguments, program)))
        return self._run(arguments, program)

    def _run(self, arguments: list[str], program: str) -> int:
        """Run a verb and return its exit status."""
        try:
            with self.make_context(program, arguments) as context:
                self.invoke(context)
        except typer.Exit as done:  # after --help
            return done.exit_code
        except _ClickError as error:
            with streams.printing_parser_output():
                error.show()
            return int(error.exit_code)
        return 0
