"""What the endpoints of one worker share: the index, the click log, the limits, and the threads that search."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from clickvec.search.index import Index
from clickvec.serve.click_log import ClickLog
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings, keeps_queries
from clickvec.serve.query_counts import QueryCounts, SharedCounts
from clickvec.serve.remembered import Remembered

_WRITING_THREADS = 8
_STUDYING_THREADS = 2
STUDIES = 16  # requests about all titles that run or wait
_FOLLOW_SECONDS = 0.05  # less than a search waits before it looks for changes itself


class Service:
    """One worker's view of the service."""

    def __init__(
        self, index: Index, settings: Settings, counters: Counters, worker: int = 0, queries: SharedCounts | None = None
    ) -> None:
        self.index, self.settings, self.limits = index, settings, settings.limits
        self.counters, self.worker = counters, worker
        self.click_log = ClickLog(settings.click_log)
        self.queries = QueryCounts(queries or SharedCounts(), worker) if keeps_queries(settings) else None
        self.searching = ThreadPoolExecutor(settings.threads, "search")
        # Changes have threads of their own: they wait for the disk, and all that wait are committed together.
        self.writing = ThreadPoolExecutor(_WRITING_THREADS, "write")
        self.operating = ThreadPoolExecutor(1, "operate")  # for metrics and readiness, which never wait for requests
        # Answers about all titles take seconds; they have threads of their own, so that searches never wait for them.
        self.studying = ThreadPoolExecutor(_STUDYING_THREADS, "study")
        self.studies = threading.BoundedSemaphore(STUDIES)
        self.remembered = Remembered()
        self.body_bytes = 0  # of all bodies that are being read
        self.is_stopping = False
        self._running, self._lock = 0, threading.Lock()
        self._closed = threading.Event()
        self._following = threading.Thread(target=self._follow, name="follow", daemon=True)
        self._following.start()

    def _follow(self) -> None:
        """Let the index follow the changes of other processes. Otherwise a request would wait for many of them."""
        while not self._closed.wait(_FOLLOW_SECONDS):
            with contextlib.suppress(Exception):  # the next request tells
                self.index.view()

    @property
    def is_writable(self) -> bool:
        """Whether this service may change the index."""
        return not self.settings.read_only

    def enter(self) -> bool:
        """Count a request that starts to work. Return False if there are too many."""
        with self._lock:
            if self._running >= self.limits.concurrent:
                return False
            self._running += 1
            return True

    def leave(self) -> None:
        """Count a request whose work has ended, even if its client has got a timeout before."""
        with self._lock:
            self._running -= 1

    def close(self) -> None:
        """Stop the threads and close the index."""
        self._closed.set()
        self._following.join()
        self.searching.shutdown(wait=True, cancel_futures=True)
        self.writing.shutdown(wait=True)
        self.operating.shutdown(wait=True)
        self.studying.shutdown(wait=True, cancel_futures=True)
        if self.queries is not None:
            self.queries.close()
        self.index.close()
