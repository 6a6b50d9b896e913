"""How much memory a process may still use."""

import re
from collections.abc import Iterator
from pathlib import Path


def available_memory() -> int | None:
    """Return the bytes that this process can still use, by the system and its control group. None if not known."""
    found = re.search(r"MemAvailable: *(\d+) kB", _read("/proc/meminfo"))
    if not found:
        return None
    own = re.search(r"RssAnon:\s*(\d+) kB", _read("/proc/self/status"))
    limits = [int(limit) for limit in _control_group_limits() if limit.strip().isdigit()]
    left = min(limits, default=2**63) - 1024 * int(own[1] if own else 0)
    return max(0, min(1024 * int(found[1]), left))


def _control_group_limits() -> Iterator[str]:
    """Yield the limits of the control group and those above it, of cgroups v2 and v1."""
    for line in _read("/proc/self/cgroup").splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0" or controllers == "memory":
            root, file = ("", "memory.max") if number == "0" else ("memory", "memory.limit_in_bytes")
            for folder in (Path(group), *Path(group).parents):
                yield _read(Path("/sys/fs/cgroup", root, *folder.parts[1:], file))


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
