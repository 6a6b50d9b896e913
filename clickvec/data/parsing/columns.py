"""The names of columns in a user's files, and the error for a file that lacks columns that a reader needs."""

import csv
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clickvec.data.parsing.encodings import check_encoding
from clickvec.errors import ClickvecError, check_type

NAMES = (
    "query", "title", "clicks", "client", "time", "position", "query_id", "doc_id", "grade", "text", "kind", "topic",
)  # fmt: skip

IGNORED = "-"  # as the name of a column: do not read it

# Parts of the names that people give to these columns, for the example in an error.
_HINTS = {
    "query": ("query", "search", "term", "keyword"),
    "title": ("title", "name", "product", "document", "text", "query"),
    "query_id": ("query_id", "queryid", "qid"),
    "doc_id": ("doc", "sku", "id"),
    "grade": ("grade", "label", "relevance", "rating", "score"),
    "text": ("text", "query", "title", "name"),
    "topic": ("topic", "label", "category", "class"),
}
MAX_WIDTH = 10_000  # columns of a file
TOO_WIDE = f"more than {MAX_WIDTH:,} columns"
_MAX_COLUMNS = 20  # shown in a message
_MAX_LETTERS = 40  # of each


@dataclass(frozen=True)
class Columns:
    """The names of columns in files: `names` maps our names to the file's, as in {"query": "search_term"}.

    A name applies to every file that has such a column; other files are read by our own names. Pass one object to all
    readers of a task, then call `check_used`. With `header=False`, the columns of a file without a header are told by
    their number. The name - means that the column is not read. Without a `delimiter` and an `encoding`, those of a file
    are told by its first lines; a delimiter applies to the files whose first line has it.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    header: bool = True
    delimiter: str | None = None
    encoding: str | None = None
    of_table: bool = False  # whether what is read is a table in memory: messages then name no options
    _used: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _files: dict[str, Sequence[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse names that no reader knows, and names for files without a header."""
        check_type("columns", self.names, Mapping, 'a dict such as {"query": "search_term", "title": "name"}')
        for name, column in self.names.items():
            check_type(f"the name of the column {name}", column, str, "a str")
            if name not in NAMES:
                raise ClickvecError(f"there is no column {name!r} to name; the columns are {', '.join(NAMES)}")
            if not column.strip():
                raise ClickvecError(f"the name for the column {name} is blank; write {name}=COLUMN")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ClickvecError(f"the delimiter is one character, such as ; or tab, not {self.delimiter[:40]!r}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.names and not self.header:
            raise ClickvecError("a file without a header has no names to map; leave out --columns or --no-header")

    @classmethod
    def parse(
        cls, texts: Sequence[str], *, header: bool = True, delimiter: str | None = None, encoding: str | None = None
    ) -> "Columns":
        """Parse `query=search_term,title=name`. As in CSV, quote a part with a comma. `tab` is a delimiter."""
        try:
            parts = [part for row in csv.reader(texts) for part in row or [""]]
        except csv.Error as error:
            raise ClickvecError(f"expected query=search_term,title=name, not {list(texts)!r}: {error}") from None
        names: dict[str, str] = {}
        for part in parts:
            name, equals, column = (piece.strip() for piece in part.partition("="))
            if not (name and equals):
                raise ClickvecError(
                    f"expected query=search_term,title=name, not {part!r}; the columns are {', '.join(NAMES)}"
                )
            if name in names:
                raise ClickvecError(f"the column {name} is named twice; the columns are {', '.join(NAMES)}")
            names[name] = column
        return cls(names, header, {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter), encoding)

    def in_memory(self) -> "Columns":
        """Return the same names for a table in memory."""
        same = replace(self, of_table=True)
        object.__setattr__(same, "_used", self._used)
        object.__setattr__(same, "_files", self._files)
        return same

    def note(self, file: str, present: Iterable[str], used: Iterable[str]) -> None:
        """Remember the columns of a file, and which of our columns it has under the user's names."""
        if self.names:
            self._files.setdefault(file, list(present))
            self._used.update(used)

    def use_delimiter(self) -> None:
        """Remember that a file is separated by the user's delimiter."""
        self._used.add("--delimiter")

    def merge(self, other: "Columns") -> None:
        """Note what another process has read by the same names."""
        self._used.update(other._used)
        self._files.update(other._files)

    def check_used(self, in_python: bool = False) -> None:
        """Raise if a name applied to none of the files read so far: it may be misspelled."""
        for name, column in self.names.items():
            if name not in self._used and column != IGNORED:
                files = "; ".join(f"{file} has {listed(present)}" for file, present in self._files.items())
                option = f"columns={{{name!r}: {column!r}}}" if in_python else f"--columns {name}={column}"
                raise ClickvecError(
                    f"{option} applies to no file that is read here" + (f": {files}" if files else "; leave it out")
                )
        if self.delimiter is not None and "--delimiter" not in self._used:
            raise ClickvecError(f"--delimiter {self.delimiter!r} is in the first line of no file that is read here")


OWN_NAMES = Columns()


def check_width(name: str, columns: int) -> None:
    """Refuse a file with more columns than any table has."""
    if columns > MAX_WIDTH:
        raise ClickvecError(
            f"{name} has {columns:,} columns, more than {MAX_WIDTH:,}; check what separates them, or leave some out"
        )


def listed(names: Sequence[str]) -> str:
    """Return column names for a message, only the first ones if there are many."""
    shown = [name if len(name) <= _MAX_LETTERS else f"{name[:_MAX_LETTERS]}..." for name in names[:_MAX_COLUMNS]]
    more = len(names) - len(shown)
    return (", ".join(name or "''" for name in shown) or "none") + (f" and {more} more" if more else "")


def check_roles(position: str, names: Mapping[str, str], of_table: bool = False) -> None:
    """Raise if one column of a file is to be read as two of ours. `names` are the file's names by ours."""
    role_of: dict[str, str] = {}
    for column, name in names.items():
        if name in role_of:
            option = f"columns={{{column!r}: ...}}" if of_table else f"--columns {column}=COLUMN"
            raise ClickvecError(
                f"{position}: the column {name} cannot be both {role_of[name]} and {column}; name another one with "
                f"{option}"
            )
        role_of[name] = column


def missing_columns(
    position: str, present: Sequence[str], missing: Sequence[str], free: Sequence[str], header: bool,
    of_table: bool = False,
) -> ClickvecError:  # fmt: skip
    """Return the error for a file that lacks columns: those present, those missing, and the option that helps.

    `free` are the columns that may be the missing ones; `header` is whether the first line may not be a header.
    """
    problem = f"{position}: found the columns {listed(present)}; {_are(missing)} missing"
    if len(present) == 1 and present[0].lstrip().startswith("{"):
        return ClickvecError(f"{problem}. If the file holds JSON lines, name it .jsonl")
    likely = _likely(free, missing)
    if of_table:
        rest = [column for column in missing if column not in likely]
        those = "column that holds it" if len(rest) == 1 else "columns that hold them"
        cures = [f"rename {name} to {column}" for column, name in likely.items()]
        cures += [f"rename the {those} to {listed(rest)}"] if rest else []
        cure = ", and ".join(cures)
        return ClickvecError(f"{problem}. {cure[0].upper()}{cure[1:]}")
    example = shlex.quote(",".join(f"{name}={likely.get(name, 'COLUMN')}" for name in missing)) if likely else None
    options = [f"name the columns with --columns {example or ','.join(f'{name}=COLUMN' for name in missing)}"]
    if header:
        options.insert(1 if example else 0, "give --no-header if the file has no header")
    if len(present) == 1:
        options.append("name what separates the columns with --delimiter")
    cure = ", or ".join(options)
    return ClickvecError(f"{problem}. {cure[0].upper()}{cure[1:]}")


def _are(names: Sequence[str]) -> str:
    """Return `query is`, `query and title are`, `query, title and grade are`."""
    *others, last = names
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"


def _likely(free: Sequence[str], missing: Sequence[str]) -> dict[str, str]:
    """Return the columns that look like missing ones, as in {"query": "search_term"}."""
    free = [name for name in free if len(name) <= _MAX_LETTERS and not set(",\"'\n") & set(name)]
    found: dict[str, str] = {}
    for column in missing:
        likely = (name for hint in _HINTS.get(column, ()) for name in free if hint in name.lower())
        name = next(likely, None)
        if name is not None:
            free.remove(name)
            found[column] = name
    return found
