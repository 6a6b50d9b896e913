"""How the command line runs its verbs: what click prints goes through streams.py, errors end in ending.py."""

import io
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from clickvec.cli import ending, streams

# Of typer's own copy of click or of click itself, as typer's version has it.
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class _Carried(Exception):  # noqa: N818 - it is not raised beyond this file
    """Carries an error past click, which ends the program itself at some errors of the system."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Verb(TyperCommand):
    """One verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        with streams.printing_parser_output():  # --help
            return super().parse_args(ctx, args)


class Verbs(TyperGroup):
    """All verbs. A verb that cannot go on ends with one sentence and the exit status."""

    _verb = ""  # the one that was called

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        with streams.printing_parser_output():  # --help and --version
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        try:
            return super().invoke(ctx)
        except (OSError, EOFError, KeyboardInterrupt) as error:
            raise _Carried(error) from error
        finally:
            self._verb = ctx.invoked_subcommand or ""

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401
        """Run the program and exit; if it is not to stand alone, as in demo, errors go to the caller."""
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **extra | {"standalone_mode": False})
        sys.exit(ending.run(lambda: self._status(*args, **extra), has_settings=self._has_settings))

    def _status(self, *args: Any, **extra: Any) -> int:  # noqa: ANN401
        try:
            return super().main(*args, **extra | {"standalone_mode": False}) or 0
        except _ClickError as error:
            said = io.StringIO()
            error.show(said)
            streams.print_message_lines(said.getvalue().removesuffix("\n"))
            return int(error.exit_code)
        except _Carried as carried:
            raise carried.error from None

    def _has_settings(self) -> bool:
        verb = self.commands.get(self._verb)
        return verb is not None and any("--set" in parameter.opts for parameter in verb.params)
