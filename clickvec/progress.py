"""How long work reports its progress: the caller passes a function, and the work calls it."""

from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

Batch = TypeVar("Batch", bound=Sized)


class Progress(Protocol):
    """A function that is told how far some work is, first with the number of items that are already done."""

    def __call__(self, label: str, done: int, total: int | None, note: str = "") -> None:
        """Report that `done` of `total` items are done. `total` is None if it is not known."""


def ignore(label: str, done: int, total: int | None, note: str = "") -> None:
    """Report nothing."""


def track(batches: Iterable[Batch], label: str, total: int | None, progress: Progress | None) -> Iterator[Batch]:
    """Yield the batches and report how many items they have held so far."""
    report, done = progress or ignore, 0
    report(label, done, total)
    for batch in batches:
        yield batch
        done += len(batch)
        report(label, done, total)
