"""Send Ctrl-C to a training run during a given update."""

import os
import signal
import time

import numpy as np
import pytest

from clickvec.training import loop
from clickvec.training.update import Plain


def watch_updates(patched: pytest.MonkeyPatch, stop_at: int = -1, again: bool = False) -> list[int]:
    """Return a list that gets the number of each update. Ctrl-C arrives before the update `stop_at` ends; with
    `again`, a second one follows."""
    numbers, stops = list[int](), list[object]()
    run_init, original = loop.Run.__init__, Plain.one_update

    def remember_stop(self: loop.Run, *args: object) -> None:
        run_init(self, *args)  # type: ignore[arg-type]
        stops.append(self.stop)

    def one_update(self: Plain, pairs: np.ndarray, rng: np.random.Generator, update: int) -> object:
        numbers.append(update)
        if update == stop_at:
            os.kill(os.getpid(), signal.SIGINT)
            assert stops[-1].wait(60)  # type: ignore[attr-defined]  # the main thread handles the signal
            if again:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)  # it handles this one too
        return original(self, pairs, rng, update)

    patched.setattr(loop.Run, "__init__", remember_stop)
    patched.setattr(Plain, "one_update", one_update)
    return numbers
