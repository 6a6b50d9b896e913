"""Commands that cure what the doctor finds: with the user's own files and options, to be pasted as they are."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path


class Cures:
    """Commands for a log.

    `arguments` are its files, and `read_with` the options with which they were read, without --columns: these are
    `columns`. `texts` are the columns of query and title in the files, if they have names.
    """

    def __init__(
        self,
        arguments: Sequence[str] = ("LOG",),
        columns: Mapping[str, str] | None = None,
        texts: tuple[str, str] | None = None,
        read_with: Mapping[str, str] | None = None,
    ) -> None:
        self._arguments, self._columns, self._texts = tuple(arguments), columns or {}, texts
        self._read_with = read_with or {}

    def __call__(self, verb: str, *options: str, out: str = "", columns: Mapping[str, str] | None = None) -> str:
        """Return the command of a verb. It writes to `out`, or to a similar name if there is something already."""
        named = [f"{name}={column}" for name, column in (self._columns if columns is None else columns).items()]
        parts = [f'"{part}"' if "," in part else part for part in named]
        names = ["--columns", ",".join(parts)] if parts else []
        to = ["--out", free_name(out)] if out else []
        same = [part for option, value in self._read_with.items() if option not in options for part in (option, value)]
        return shlex.join(["clickvec", verb, *self._arguments, *same, *names, *options, *to])

    def exchange(self) -> str:
        """Return the command that examines the log with query and title exchanged; nothing if they have no names."""
        if self._texts is None:
            return ""
        query, title = self._texts
        return self("doctor", columns={**self._columns, "query": title, "title": query})

    def prepare(self, *options: str) -> str:
        """Return the command that prepares the log with some options."""
        return self("prepare", *options, out="data")

    def train(self, *options: str) -> str:
        """Return the command that trains on the log with some options."""
        return self("train", *options, out="model")

    def repair(self) -> str:
        """Return the command that writes a repaired copy of the log."""
        return self("doctor", "--repair", free_name("repaired.jsonl"))


def free_name(name: str) -> str:
    """Return a name that no file here has: data, data-2, data-3."""
    path, number = Path(name), 1
    while path.exists():
        number += 1
        path = Path(name).with_stem(f"{Path(name).stem}-{number}")
    return str(path)
