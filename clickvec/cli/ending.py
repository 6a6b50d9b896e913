"""End a program of clickvec with an exit status and, if it failed, one sentence on stderr.

Exit 0: success. 1: bad data, a bad model, or an error of the operating system. 128 plus the number of a signal that
stopped the program. An unknown error is a bug in clickvec and keeps its traceback.
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

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows lacks SIGHUP
_caught: list[int] = []  # the signals that stopped this program


def run(work: Callable[[], int]) -> int:
    """Call `work` and return the exit status. If it fails, print why."""
    try:
        return work()
    except ReaderClosedError:
        return 0
    except (Exception, KeyboardInterrupt) as error:
        sentence = describe(error)
        if sentence is None:
            raise
        streams.print_message(f"clickvec: {sentence}")
        if isinstance(error, Interrupted | KeyboardInterrupt):
            return 128 + (_caught[0] if _caught else signal.SIGINT)
        return 1
    finally:
        streams.close_streams()


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
