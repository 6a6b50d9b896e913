"""How a program of ours ends: one sentence on stderr and an exit status, for every error that has one.

Exit 0: done; 1: bad data, a bad model, or what the system refuses; 128 and the signal's number: stopped by a signal.
An error that is not known here is a bug of ours, and keeps its traceback.
"""

import os
import re
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from clickvec.cli import streams
from clickvec.cli.streams import OutputError, ReaderClosedError
from clickvec.errors import ClickvecError, Interrupted

_ALLOCATOR = re.compile("DefaultCPUAllocator: (can't allocate|not enough) memory|CUDA error: out of memory")
_GPU = re.compile(r"CUDA (driver )?error|CUBLAS_STATUS|CUDNN_STATUS|cuDNN error|Triton Error \[CUDA\]")

_caught: list[int] = []  # the signals that stopped this program


def run(work: Callable[[], int], *, has_settings: Callable[[], bool]) -> int:
    """Do the work of a program; if it fails, say why. Return the exit status.

    `has_settings` tells whether its user can change the settings of a model with --set.
    """
    try:
        return work()
    except ReaderClosedError:
        return 0
    except (Exception, KeyboardInterrupt) as error:
        sentence = describe(error, has_settings())
        if sentence is None:
            raise
        streams.print_message(f"clickvec: {sentence}")
        return _status(error)
    finally:
        streams.close_streams()


def describe(error: BaseException, has_settings: bool) -> str | None:
    """The sentence for an error, or None if there is none."""
    if isinstance(error, ClickvecError | OutputError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return f"stopped by {signal.Signals(_caught[0]).name}" if _caught else "stopped"
    if _is_out_of_memory(error):
        if has_settings:
            return "there is not enough memory; smaller batch_size, cells, hidden or output (--set) need less"
        return "there is not enough memory; close other programs, or split the input into smaller files"
    if isinstance(error, RuntimeError) and _GPU.search(str(error)):
        return f"the GPU failed: {str(error).splitlines()[0]}; run the command again, or use --device cpu"
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return reason if error.filename is None else f"{_name(error.filename)}: {reason}"
    return None


def stop_on_signals() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does, so that temporary files are removed."""
    for number in _signals():
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _stop)


def _signals() -> list[int]:
    names = ("SIGTERM", "SIGHUP")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has no SIGHUP


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _caught.append(number)
    for one in _signals():
        signal.signal(one, signal.SIG_IGN)  # a second one must not stop what cleans up after the first
    raise KeyboardInterrupt


def _status(error: BaseException) -> int:
    if isinstance(error, Interrupted) and error.signal:
        return 128 + error.signal
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return 128 + (_caught[0] if _caught else signal.SIGINT)
    return 1


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory could not be allocated. The class of torch is known by its name, so as not to import torch."""
    torch = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    by_message = isinstance(error, RuntimeError) and _ALLOCATOR.search(str(error)) is not None
    return isinstance(error, MemoryError) or torch or by_message


def _name(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, str | bytes) else str(filename)
