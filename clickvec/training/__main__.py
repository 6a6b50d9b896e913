"""Train by several workers: `torchrun --nproc-per-node=2 -m clickvec.training DATA --out MODEL` (docs/distributed.md).

The options are those of `clickvec train`. Without torchrun, it is the same program. Of several workers, the first one
prints. If the run fails, one of them says why, and all of them end.
"""

import os
import signal
import sys

from clickvec.cli import streams
from clickvec.cli.app import app
from clickvec.cli.verbs import describe, exit_status, stop_on_signals
from clickvec.training.process_settings import tuned_for_training


def main() -> None:
    """Run the command line."""
    streams.open_streams()
    stop_on_signals()
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        app(["train", *sys.argv[1:]])
    with tuned_for_training():
        status = _run(sys.argv[1:])
    streams.close_streams()
    os._exit(status)  # threads that still wait for a worker that died do not delay the end


def _run(arguments: list[str]) -> int:
    """Run one of several workers and return its exit status."""
    from clickvec.training import workers  # imports torch, after its settings are made

    shown = sys.stdout, sys.stderr
    try:
        with workers.joined() as joined, open(os.devnull, "w", encoding="utf-8") as nowhere:
            if not joined.is_first:
                sys.stdout = sys.stderr = nowhere
            return int(app(["train", *arguments], standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # torchrun's must not interrupt what follows
            signal.signal(number, signal.SIG_IGN)
        sys.stdout, sys.stderr = shown
        sentence = describe(error)
        if sentence is None:
            raise
        if workers.is_first_to_tell():
            streams.print_message(f"clickvec: {sentence}")
        return exit_status(error)
    finally:
        sys.stdout, sys.stderr = shown


if __name__ == "__main__":
    main()
