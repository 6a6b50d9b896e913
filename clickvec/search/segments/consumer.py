"""Feed a function that consumes values, such as `WordSegment.build`, while the values are produced."""

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
_BLOCKS_AHEAD = 4


class Consumer(Generic[Result]):
    """Run a function of an iterator in a thread of its own, at most a few blocks behind what it is given."""

    def __init__(self, consume: Callable[[Iterator[Any]], Result]) -> None:
        self._waiting: queue.Queue[list[Any] | None] = queue.Queue(_BLOCKS_AHEAD)
        self._pool = ThreadPoolExecutor(1, "clickvec-consumer")
        self._future = self._pool.submit(consume, self._values())

    def put(self, block: list[Any]) -> None:
        """Give the function further values. Raise what it has raised."""
        self._put(block)

    def result(self) -> Result:
        """Say that there are no further values, and return the result."""
        self._put(None)
        return self._future.result()

    def _put(self, block: list[Any] | None) -> None:
        while not self._future.done():
            with suppress(queue.Full):
                self._waiting.put(block, timeout=0.1)
                return
        self._future.result()

    def _values(self) -> Iterator[Any]:
        while (block := self._waiting.get()) is not None:
            yield from block

    def __enter__(self) -> "Consumer[Result]":
        """Return the consumer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread. After an error, it gets no further values."""
        while not self._future.done():
            with suppress(queue.Empty):
                self._waiting.get_nowait()
            with suppress(queue.Full):
                self._waiting.put_nowait(None)
            with suppress(Exception):
                self._future.result(timeout=0.1)
        self._pool.shutdown()
