"""Settings of the whole process that make training faster. Only programs apply them, never the library.

torch's threads wait for each other many times in each update, and they wait by spinning. If other work needs the core,
spinning starves the very thread that they wait for, and training can take fifty times as long. So they spin for
microseconds and then sleep, which is as fast on an idle machine. libgomp reads this setting when torch is imported.

Each update allocates and frees arrays of many megabytes. By default the C library returns such memory to the system at
once, and the system clears every page before it is used again: up to a third of the time of an update.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # the names of glibc's malloc.h, without M_
DEFAULTS = {TRIM_THRESHOLD: 128 * 1024, MMAP_MAX: 65536, ARENA_MAX: 0}
# One arena for all threads: memory that a thread frees to an arena of its own goes back to the system.
KEEP_MEMORY = {TRIM_THRESHOLD: 2**31 - 1, MMAP_MAX: 0, ARENA_MAX: 1}


@contextmanager
def tuned_for_training() -> Iterator[None]:
    """Apply the settings, before torch is imported. On exit, reset those of malloc, which only glibc has."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        yield
        return
    for option, value in KEEP_MEMORY.items():
        library.mallopt(option, value)
    try:
        yield
    finally:
        for option, value in DEFAULTS.items():
            library.mallopt(option, value)
        library.malloc_trim(0)
