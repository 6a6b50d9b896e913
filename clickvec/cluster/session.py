"""A connection to a Ray cluster, and what its errors mean."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clickvec.errors import ClickvecError, missing_extra

LOCAL = "local"
CONNECT_SECONDS = 10.0
RETRIES = 5  # of a task whose node or process is lost; Ray repeats it on another node


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to the cluster at an address, or start one in this machine for `local`. Yield the module ray."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns about its future default otherwise
    try:
        import ray
        from ray import exceptions
    except ImportError:
        raise missing_extra("ray", "cluster") from None
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _check_answers(address)
            place = {"include_dashboard": False} if address == LOCAL else {"address": address}
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **place)
        yield ray
    except exceptions.RayTaskError as error:
        if isinstance(error.cause, ClickvecError):
            raise ClickvecError(str(error.cause)) from None
        raise
    except exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise ClickvecError(
            f"the Ray cluster lost a task {RETRIES + 1} times ({reason}); see its logs, and run the same command again"
        ) from error
    except (OSError, ValueError) as error:
        if ray.is_initialized():
            raise
        raise ClickvecError(
            f"there is no Ray cluster at {address} ({' '.join(str(error).split())[:100]}); start one with "
            "`ray start --head`, or use --address local for this machine alone"
        ) from None
    finally:
        if is_ours:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise an OSError if nothing answers at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            pass


def finished(ray: Any, tasks: list[Any]) -> Iterator[Any]:  # noqa: ANN401
    """Yield the results of tasks as they finish. The first error ends the others."""
    waiting = list(tasks)
    try:
        while waiting:
            (done,), waiting = ray.wait(waiting, num_returns=1)
            yield ray.get(done)
    finally:
        for task in waiting:
            ray.cancel(task)
