"""Adapt typer: what it prints goes through streams.py, and a verb that fails ends with one sentence on stderr.

Exit 0: success. 1: bad data, a bad model, or an error of the operating system. 2: wrong usage. 128 plus the number of a
signal that stopped the program. An unknown error is a bug in clickvec and keeps its traceback.
"""

import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from clickvec.cli import streams
from clickvec.cli.streams import OutputError, ReaderClosedError
from clickvec.errors import ClickvecError, Interrupted
from clickvec.storage.outputs import check_path

# Depending on its version, typer uses click or a copy of its own.
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_ALLOCATOR = re.compile("DefaultCPUAllocator: (can't allocate|not enough) memory|CUDA error: out of memory")
_GPU = re.compile(r"CUDA (driver )?error|CUBLAS_STATUS|CUDNN_STATUS|cuDNN error|Triton Error \[CUDA\]")

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows lacks SIGHUP
_caught: list[int] = []  # the signals that stopped this program


class Verb(TyperCommand):
    """One verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        with streams.printing_parser_output():  # --help
            given = list(args)
            try:
                rest: list[str] = super().parse_args(ctx, args)
            except _ClickError as error:
                _add_hint(error, ctx, given)
                raise
        _check_paths(ctx)
        return rest


def _add_hint(error: Any, ctx: Any, args: list[str]) -> None:  # noqa: ANN401
    """Complete the message about an unknown option that is the name of a setting."""
    from clickvec.config import Recipe

    option = getattr(error, "option_name", "")
    name = option.lstrip("-").replace("-", "_")
    has_settings = any("--set" in parameter.opts for parameter in ctx.command.params)
    if not has_settings or name not in {field.name for field in fields(Recipe)}:
        return
    after = next((args[at:] for at, word in enumerate(args) if word.partition("=")[0] == option), [])
    value = next(iter([word.partition("=")[2] for word in after[:1] if "=" in word] or after[1:2]), "VALUE")
    error.message += f". It is a setting: --set {name}={value}"
    error.possibilities = None


def _check_paths(ctx: Any) -> None:  # noqa: ANN401
    """Refuse the address of a database for each argument and option that is a path."""
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name)
        for path in value if isinstance(value, list | tuple) else [value]:
            if isinstance(path, Path):
                try:
                    check_path(path, next(iter(parameter.opts), parameter.name))
                except ClickvecError as error:
                    raise typer.BadParameter(str(error), ctx) from None


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
        if not standalone_mode:
            return self._run(arguments, program)
        try:
            status = self._run(arguments, program)
        except ReaderClosedError:
            status = 0
        except (Exception, KeyboardInterrupt) as error:
            sentence = describe(error)
            if sentence is None:
                raise
            streams.print_message(f"clickvec: {sentence}")
            status = exit_status(error)
        finally:
            streams.close_streams()
        sys.exit(status)

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


class VerbsOrFirst(Verbs):
    """A group of verbs of which the first may be left out: `index MODEL CATALOGUE` is `index build MODEL CATALOGUE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401, D102
        if args and args[0] not in self.commands:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def describe(error: BaseException) -> str | None:
    """Return the sentence that explains an error, or None if the error is unknown."""
    if isinstance(error, ClickvecError | OutputError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return f"stopped by {signal.Signals(_caught[0]).name}" if _caught else "stopped"
    if _is_out_of_memory(error):
        return (
            "out of memory; close other programs, or split the input into smaller files; "
            "in training, lower batch_size, cells, hidden or output with --set"
        )
    if isinstance(error, RuntimeError) and _GPU.search(str(error)):
        return f"the GPU failed: {str(error).splitlines()[0]}; run the command again, or use --device cpu"
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
        return reason if name is None else f"{name}: {reason}"
    return None


def exit_status(error: BaseException) -> int:
    """Return the exit status for an error that `describe` explains."""
    is_stopped = isinstance(error, Interrupted | KeyboardInterrupt)
    return 128 + (_caught[0] if _caught else signal.SIGINT) if is_stopped else 1


def stop_on_signals() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does, so that temporary files are removed."""
    for number in _SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _caught.append(number)
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    raise KeyboardInterrupt


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation failed. Recognise torch's exception by its name, so as not to import torch."""
    from_torch = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    by_message = isinstance(error, RuntimeError) and _ALLOCATOR.search(str(error)) is not None
    return isinstance(error, MemoryError) or from_torch or by_message
