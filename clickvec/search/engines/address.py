"""Addresses of indexes in databases.

    postgresql://user:password@host:port/database?table=NAME
    milvus://user:password@host:port/database?collection=NAME&words=INDEX

Further parameters of a PostgreSQL address, such as sslmode, go to the server. `words` is the address or the folder of
the index that has the documents and the words; it comes last and is taken as it is.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from clickvec.errors import ClickvecError

SCHEMES = ("postgresql", "postgres", "milvus")
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,39}")  # PostgreSQL cuts names after 63 bytes, and ours get an ending
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_EXAMPLES = {
    "postgresql": "postgresql://user:password@localhost:5432/database?table=titles",
    "milvus": "milvus://localhost:19530?collection=titles&words=FOLDER",
}


def is_address(text: object) -> bool:
    """Return whether this is the address of a database, and not the path of a folder."""
    return isinstance(text, str) and _ADDRESS.match(text) is not None


def location(text: str | Path) -> str | Path:
    """Return an address as it is, and anything else as a path."""
    return text if isinstance(text, str) and is_address(text) else Path(text)


@dataclass(frozen=True, repr=False)
class Address:
    """Where an index is in a database."""

    scheme: str  # postgresql or milvus
    name: str  # of the table or the collection
    url: str  # without our own parameters
    shown: str  # without the password
    words: str = ""  # of Milvus: the index that has the words
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Show no password."""
        return f"Address({self.shown})"

    def __getstate__(self) -> dict[str, str]:
        """Pickle no password: the server takes that of PGPASSWORD or ~/.pgpass."""
        return vars(self) | {"url": _without_secret(self.url), "words": _without_secret(self.words), "password": ""}


def parse_address(text: str) -> Address:
    """Return the parts of an address. Raise ClickvecError, without the password, if it is none."""
    scheme = text.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise ClickvecError(f"{scheme}:// is not a known database; known are postgresql:// and milvus://")
    kind = "postgresql" if scheme == "postgres" else scheme
    text, _, words = text.partition("words=") if kind == "milvus" else (text, "", "")
    if any(map(str.isspace, text.partition("?")[0])):
        raise _bad(kind, "it holds a blank, written %20")
    try:
        parts = urlsplit(text.rstrip("&?"))
        port = parts.port
    except ValueError:  # its message may hold a part of the password
        raise _bad(
            kind, "its host or port is wrong, or the password holds / ? # or [, written %2F %3F %23 %5B"
        ) from None
    user, at, host = parts.netloc.rpartition("@")
    parts = parts._replace(netloc=f"{user.replace('@', '%40')}{at}{host}")  # the server would end the password before
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    shown = _shown(parts, kind, port)
    if kind == "milvus":
        return _milvus(parts, options, words, shown)
    name = options.pop("table", "clickvec")
    if not _TABLE.fullmatch(name):
        raise _bad(kind, f"the table {name!r:.60} must have small letters, digits and _, at most 40, no digit first")
    if not parts.path.strip("/"):
        raise _bad(kind, "it names no database")
    url = parts._replace(scheme=kind, query=urlencode(options, quote_via=quote)).geturl()
    return Address(kind, name, url, f"{shown} (table {name})", user=unquote(parts.username or ""))


def _milvus(parts: SplitResult, options: dict[str, str], words: str, shown: str) -> Address:
    name = options.pop("collection", "clickvec")
    if not _COLLECTION.fullmatch(name):
        raise _bad("milvus", f"the collection {name!r:.60} must have letters, digits and _, no digit first")
    if options:
        raise _bad("milvus", f"it has an unknown parameter {next(iter(options))!r:.60}")
    if not parts.hostname:
        raise _bad("milvus", "it names no host")
    if not words:
        raise _bad("milvus", "it names no index for the words, which this version of Milvus cannot search")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = f"http://{host}:{parts.port or 19530}/{parts.path.strip('/')}".rstrip("/")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address("milvus", name, url, f"{shown} (collection {name})", words, user, password)


def _shown(parts: SplitResult, kind: str, port: int | None) -> str:
    """Return an address without password and parameters."""
    user = f"{parts.username}@" if parts.username else ""
    return f"{kind}://{user}{parts.hostname or ''}{f':{port}' if port else ''}{parts.path}"


def _without_secret(url: str) -> str:
    """Return an address that works, without its password."""
    start, at, rest = url.rpartition("@")
    scheme, _, user = start.partition("://")
    url = f"{scheme}://{user.partition(':')[0]}@{rest}" if at else url
    return re.sub(r"([?&])password=[^&]*", r"\1", url)


def _bad(kind: str, reason: str) -> ClickvecError:
    return ClickvecError(f"this is not an address of an index: {reason}; write it like {_EXAMPLES[kind]}")


def without_password(text: str | Path) -> str:
    """Return an address or a path for people."""
    return parse_address(text).shown if isinstance(text, str) and is_address(text) else str(text)


def short_name(text: str | Path) -> str:
    """Return the name of the table or the collection, or that of the folder."""
    return parse_address(text).name if isinstance(text, str) and is_address(text) else Path(text).resolve().name
