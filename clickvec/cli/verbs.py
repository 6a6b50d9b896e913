"""Adapt typer: what it prints goes through streams.py, errors end in ending.py, and old option names still work."""

import io
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from clickvec.cli import ending, streams

_OLD_OPTIONS = {"--titles": "--catalogue"}  # for verbs that no longer have an option of the old name
# Depending on its version, typer uses click or a copy of its own.
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class _CarriedError(Exception):
    """Carries an error past click, which would end the program itself on some errors."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Verb(TyperCommand):
    """One verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        options = {option for parameter in self.params for option in parameter.opts}
        with streams.printing_parser_output():  # --help
            return super().parse_args(ctx, [_new_option(arg, options) for arg in args])


def _new_option(arg: str, options: set[str]) -> str:
    name, equals, value = arg.partition("=")
    new = _OLD_OPTIONS.get(name)
    return f"{new}{equals}{value}" if new in options and name not in options else arg


class VerbGroup(TyperGroup):
    """A group of verbs."""

    _called = ""  # the verb or group that was called

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        with streams.printing_parser_output():  # --help and --version
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        try:
            return super().invoke(ctx)
        finally:
            self._called = ctx.invoked_subcommand or ""

    def has_settings(self) -> bool:
        """Return whether the verb that was called has the option --set."""
        verb = self.commands.get(self._called)
        if isinstance(verb, VerbGroup):
            return verb.has_settings()
        return verb is not None and any("--set" in parameter.opts for parameter in verb.params)


class Verbs(VerbGroup):
    """All verbs. A verb that fails ends with one sentence and an exit status."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        try:
            return super().invoke(ctx)
        except (OSError, EOFError, KeyboardInterrupt) as error:
            raise _CarriedError(error) from error

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401
        """Run the program and exit. With standalone_mode=False, as in demo, raise errors to the caller instead."""
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **extra | {"standalone_mode": False})
        sys.exit(ending.run(lambda: self._status(*args, **extra), has_settings=self.has_settings))

    def _status(self, *args: Any, **extra: Any) -> int:  # noqa: ANN401
        try:
            return super().main(*args, **extra | {"standalone_mode": False}) or 0
        except _ClickError as error:
            message = io.StringIO()
            error.show(message)
            streams.print_message_lines(message.getvalue().removesuffix("\n"))
            return int(error.exit_code)
        except _CarriedError as carried:
            raise carried.error from None
