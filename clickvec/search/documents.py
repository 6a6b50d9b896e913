"""The documents of an index: id, title and payload of each, as lines of JSON, of which only the hits are read."""

import json
import re
from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.storage.json_files import parse_json
from clickvec.storage.snapshot import Snapshot

Positions = NDArray[np.int64]
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Document(NamedTuple):
    """What an index keeps of a title, beside its vector."""

    id: str
    title: str
    payload: Any = None


class Documents:
    """Documents as lines of JSON, in memory or on disk, and the places where the lines begin."""

    def __init__(self, lines: NDArray[np.uint8], offsets: Positions) -> None:
        self.lines, self.offsets = lines, offsets

    @classmethod
    def of(cls, titles: list[str], ids: Iterable[str] | None, payloads: Iterable[Any] | None) -> "Documents":
        """The documents of these titles, checked."""
        ids = [str(number) for number in range(len(titles))] if ids is None else list(ids)
        payloads = [None] * len(titles) if payloads is None else list(payloads)
        for what, values in (("ids", ids), ("payloads", payloads)):
            if len(values) != len(titles):
                raise ClickvecError(f"there are {len(titles)} titles and {len(values)} {what}; give one for each title")
        for what, texts in (("title", titles), ("id", ids)):
            other = next((text for text in texts if not isinstance(text, str)), "")
            if not isinstance(other, str):
                raise ClickvecError(f"the {what} {other!r} is of type {type(other).__name__}; give a str")
        if len(set(ids)) < len(ids):
            again = next(two for one, two in pairwise(sorted(ids)) if one == two)
            raise ClickvecError(f"the id {again!r} is given to more than one title; every id must be different")
        lines, offsets = bytearray(), array("q", [0])
        for document in map(Document, ids, titles, payloads):
            lines += _line(document)
            offsets.append(len(lines))
        return cls(np.frombuffer(lines, np.uint8), np.array(offsets, np.int64))

    @classmethod
    def open(cls, opened: Snapshot, count: int) -> "Documents":
        """The documents of an open index folder."""
        offsets = opened.array("documents.offsets.npy", "int64", (count + 1,))
        lines = opened.mapped("documents.jsonl")
        if offsets[0] != 0 or offsets[-1] != len(lines):
            raise ClickvecError(
                f"{opened.path}/documents.jsonl and documents.offsets.npy disagree; build the index again"
            )
        return cls(np.asarray(lines), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def find(self, given: str) -> int | None:
        """The position of an id, by the beginning of its line: reading all lines as JSON would take far longer."""
        written = {begin for begin in (_begin(_to_json(given)), _begin(json.dumps(given))) if begin}
        for match in re.finditer(b"|".join(map(re.escape, written)), self.lines.data):
            position = int(np.searchsorted(self.offsets, match.start()))
            if self.offsets[position] == match.start():  # and not within a payload
                return position
        return None

    def __getitem__(self, position: int) -> Document:
        try:
            value = parse_json(self.lines[self.offsets[position] : self.offsets[position + 1]].tobytes())
            if not (isinstance(value["id"], str) and isinstance(value["title"], str)):
                raise TypeError
            return Document(value["id"], value["title"], value.get("payload"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ClickvecError(f"documents.jsonl is damaged at line {position + 1}; build the index again") from None


def _begin(value: str) -> bytes:
    """How the line of a document begins whose id is this JSON."""
    try:
        return f'{{"id": {value}, "title": '.encode()
    except UnicodeEncodeError:  # written as `_line` writes it then
        return b""


def _line(document: Document) -> bytes:
    value = document._asdict()
    if document.payload is None:
        del value["payload"]
    try:
        try:
            return _to_json(value).encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say and UTF-8 cannot
            return json.dumps(value).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ClickvecError(f"the payload of the id {document.id!r} is not JSON: {error}") from None
