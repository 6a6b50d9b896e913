"""Memory that is freed stays with the process while it trains.

Every update makes and frees arrays of many megabytes. The C library gives such memory back to the system at once, and
the system clears each page anew before it is used again: up to a third of the time of an update.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # the names of glibc's malloc.h, without M_
USUAL = {TRIM_THRESHOLD: 128 * 1024, MMAP_MAX: 65536}
KEPT = {TRIM_THRESHOLD: 2**31 - 1, MMAP_MAX: 0}


@contextmanager
def kept() -> Iterator[None]:
    """Keep freed memory for a while; where the C library is not glibc, nothing changes."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        yield
        return
    for option, value in KEPT.items():
        library.mallopt(option, value)
    try:
        yield
    finally:
        for option, value in USUAL.items():
            library.mallopt(option, value)
        library.malloc_trim(0)
