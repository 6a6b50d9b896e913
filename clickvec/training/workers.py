"""The workers of a run: the processes that torchrun starts, on one machine or several, and what they exchange.

Each knows its number and how many there are. A run without torchrun has one worker, `ALONE`, for which every exchange
does nothing. On CPUs the workers exchange tensors by gloo, on GPUs by nccl.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from clickvec.errors import ClickvecError

# A process that ends is noticed at once. This is for a machine that no longer answers: longer than it takes the first
# worker to measure the model after an epoch, while the others wait.
TIMEOUT = timedelta(minutes=30)
AT_ONCE = 2**18  # rows of an array that are sent at a time
Value = TypeVar("Value")


class Workers:
    """One worker's view of all of them."""

    def __init__(self, rank: int = 0, count: int = 1, on_machine: tuple[int, int] = (0, 1)) -> None:
        self.rank, self.count = rank, count
        self.local_rank, self.local_count = on_machine  # among the workers of this machine
        self.is_first = rank == 0  # it writes all files

    def share(self, rows: int, rank: int | None = None) -> slice:
        """Return the rows that are this worker's, or another one's, of this many."""
        rank = self.rank if rank is None else rank
        return slice(rows * rank // self.count, rows * (rank + 1) // self.count)

    def sum(self, *tensors: Tensor) -> None:
        """Replace tensors by their sums over all workers."""
        if self.count > 1:
            with _exchanging():
                waiting = [distributed.all_reduce(tensor, async_op=True) for tensor in tensors]
                for work in filter(None, waiting):
                    work.wait()

    def gather(self, own: Tensor, rows: int) -> Tensor:
        """Return the rows of all workers, given the share of this one."""
        if self.count == 1:
            return own
        most = -(-rows // self.count)  # all workers send as many rows: gloo needs that
        parts = own.new_empty(self.count * most, *own.shape[1:])
        sent = own.new_zeros(most, *own.shape[1:])
        sent[: len(own)] = own
        with _exchanging():
            distributed.all_gather(list(torch.split(parts, most)), sent)
        shares = (self.share(rows, rank) for rank in range(self.count))
        pairs = zip(torch.split(parts, most), shares, strict=True)
        return torch.cat([part[: share.stop - share.start] for part, share in pairs])

    def copy_from_first(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace tensors by those of the first worker."""
        if self.count > 1:
            with _exchanging():
                for tensor in tensors.values():
                    distributed.broadcast(tensor.detach(), 0)

    def fill(self, array: NDArray[np.generic]) -> None:
        """Copy the rows of an array that other workers have computed, each its share."""
        for rank in range(self.count):
            self._send(array, self.share(len(array), rank), rank)

    def fill_from_first(self, array: NDArray[np.generic]) -> None:
        """Replace an array by that of the first worker."""
        self._send(array, slice(0, len(array)), 0)

    def _send(self, array: NDArray[np.generic], rows: slice, rank: int) -> None:
        """Copy rows from one worker to all others, some thousand at a time to save memory."""
        for first in range(rows.start, rows.stop if self.count > 1 else 0, AT_ONCE):
            with _exchanging():
                distributed.broadcast(torch.from_numpy(array[first : min(first + AT_ONCE, rows.stop)]), rank)

    def tell(self, value: Value) -> Value:
        """Return the value of the first worker."""
        if self.count == 1:
            return value
        values: list[Any] = [value]
        with _exchanging():
            distributed.broadcast_object_list(values, 0)
        told: Value = values[0]
        return told

    @contextmanager
    def after_first(self) -> Iterator[None]:
        """Let the first worker do what follows, and then all others."""
        if not self.is_first:
            self.tell(None)
        yield
        if self.is_first:
            self.tell(None)

    def check_alike(self, facts: Mapping[str, object]) -> None:
        """Raise a ClickvecError if another worker has other facts."""
        every: list[Any] = [dict(facts)] * self.count
        if self.count > 1:
            with _exchanging():
                distributed.all_gather_object(every, dict(facts))
        for rank, other in enumerate(every):
            for name, value in every[0].items():
                if other[name] != value:
                    raise ClickvecError(
                        f"worker {rank} was started with another {name} than worker 0; give every worker the same "
                        "data folder and the same settings"
                    )


ALONE = Workers()
_joined = [ALONE]


def current() -> Workers:
    """Return the workers of this process."""
    return _joined[-1]


@contextmanager
def joined() -> Iterator[Workers]:
    """Join the workers that torchrun has started; without torchrun, there is one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    numbers = {name: int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    has_nccl = torch.cuda.is_available() and distributed.is_nccl_available()
    with _exchanging():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if has_nccl else "gloo", timeout=TIMEOUT)
    rank, count, *on_machine = numbers.values()
    _joined.append(Workers(rank, count, (on_machine[0], on_machine[1])))
    try:
        yield current()
        distributed.destroy_process_group()
    finally:
        _joined.pop()


def is_first_to_tell() -> bool:
    """Return whether no other worker has told yet why the run stops. torchrun remembers that, whichever worker died."""
    if not distributed.is_initialized():
        return True
    try:
        store = distributed.distributed_c10d._get_default_store()
        return bool(store.add("clickvec told", 1) == 1)
    except RuntimeError:  # torchrun has ended too: better told twice than never
        return True


@contextmanager
def _exchanging() -> Iterator[None]:
    """Explain an exchange that fails: as a rule, another worker has died."""
    try:
        yield
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise ClickvecError(
            f"Training stopped: another worker no longer answers ({reason}). Run the same command again to resume"
        ) from error
