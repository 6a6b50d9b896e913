"""Progress of long work. Whoever starts the work gives a function, and the work calls it as it goes on."""

from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

Batch = TypeVar("Batch", bound=Sized)


class Progress(Protocol):
    """What a caller gives to be told how far some work is."""

    def __call__(self, label: str, done: int, total: int | None, note: str = "") -> None:
        """Report that `done` of `total` items are done. `total` is None if it is not known."""


def ignore(label: str, done: int, total: int | None, note: str = "") -> None:
    """Report nothing."""


def track(batches: Iterable[Batch], label: str, total: int | None, progress: Progress | None) -> Iterator[Batch]:
    """Pass batches through and report how many items have gone by."""
    report, done = progress or ignore, 0
    for batch in batches:
        yield batch
        done += len(batch)
        report(label, done, total)
