"""The documents of an index: id, title and payload of each, as lines of JSON. Only the lines of hits are parsed."""

import json
import re
from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.storage.arrays import map_file
from clickvec.storage.json_files import parse_json
from clickvec.storage.snapshot import Snapshot
from clickvec.text.tokens import canonical

Positions = NDArray[np.int64]
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Document(NamedTuple):
    """What an index stores of a title, beside its vector."""

    id: str | int
    title: str
    payload: Any = None


class Documents:
    """Documents as lines of JSON, in memory or memory-mapped, and the offsets of the lines."""

    def __init__(self, lines: NDArray[np.uint8], offsets: Positions, has_integer_ids: bool = False) -> None:
        self.lines, self.offsets, self.has_integer_ids = lines, offsets, has_integer_ids

    @classmethod
    def of(
        cls, titles: list[str], ids: Iterable[str | int] | None = None, payloads: Iterable[Any] | None = None
    ) -> "Documents":
        """Make the documents of titles. Raise if the arguments do not fit together or an id occurs twice."""
        ids = [str(number) for number in range(len(titles))] if ids is None else [_plain(value) for value in ids]
        payloads = [None] * len(titles) if payloads is None else list(payloads)
        for name, values in (("ids", ids), ("payloads", payloads)):
            if len(values) != len(titles):
                raise ClickvecError(f"there are {len(titles)} titles and {len(values)} {name}; give one per title")
        wrong = next((title for title in titles if not isinstance(title, str)), "")
        if not isinstance(wrong, str):
            raise ClickvecError(f"the title {wrong!r} is of type {type(wrong).__name__}; give a str")
        _check_distinct(ids)
        lines, offsets = bytearray(), array("q", [0])
        for document in map(Document, ids, titles, payloads):
            lines += _line(document)
            offsets.append(len(lines))
        has_integer_ids = any(isinstance(value, int) for value in ids)
        return cls(np.frombuffer(lines, np.uint8), np.array(offsets, np.int64), has_integer_ids)

    @classmethod
    def open(cls, opened: Snapshot, count: int, has_integer_ids: bool) -> "Documents":
        """Return the documents of an open index folder."""
        offsets = opened.array("documents.offsets.npy", "int64", (count + 1,))
        lines = map_file(opened.file("documents.jsonl"))
        if offsets[0] != 0 or offsets[-1] != len(lines):
            raise ClickvecError(
                f"{opened.path}/documents.jsonl and documents.offsets.npy disagree; build the index again"
            )
        return cls(np.asarray(lines), offsets, has_integer_ids)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def find(self, doc_id: str | int) -> int | None:
        """Return the position of an id, or None. 7 and "7" are the same id.

        This compares the beginnings of the lines, which is far faster than parsing them.
        """
        text = str(doc_id)
        ids = {_to_json(text), json.dumps(text)}  # `_line` may escape it
        if re.fullmatch("0|-?[1-9][0-9]*", text, re.ASCII):
            ids.add(text)
        beginnings = (f'{{"id": {value}, "title": '.encode("utf-8", "surrogatepass") for value in ids)
        for match in re.finditer(b"|".join(map(re.escape, beginnings)), self.lines.data):
            position = int(np.searchsorted(self.offsets, match.start()))
            if self.offsets[position] == match.start():  # and not within a payload
                return position
        return None

    def __getitem__(self, position: int) -> Document:
        try:
            value = parse_json(self.lines[self.offsets[position] : self.offsets[position + 1]].tobytes())
            if type(value["id"]) not in (str, int) or type(value["title"]) is not str:
                raise TypeError
            return Document(value["id"], value["title"], value.get("payload"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ClickvecError(f"documents.jsonl is damaged at line {position + 1}; build the index again") from None


def distinct_texts(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the distinct texts, as normalised words, and for each text the position of its words among them.

    Texts with the same words are encoded once: in a batch, the last bit of a vector depends on its row, so their scores
    would differ.
    """
    position: dict[str, int] = {}
    rows = [position.setdefault(canonical(text), len(position)) for text in texts]
    return list(position), rows


def _plain(doc_id: object) -> str | int:
    """Return an id as str or int. NumPy's integers become int."""
    if isinstance(doc_id, np.integer) or (isinstance(doc_id, int) and not isinstance(doc_id, bool)):
        return int(doc_id)
    if not isinstance(doc_id, str):
        raise ClickvecError(f"the id {doc_id!r} is of type {type(doc_id).__name__}; give a str or an int")
    return doc_id


def _check_distinct(ids: list[str | int]) -> None:
    """Raise if two ids are the same as text. On the command line, 7 and "7" cannot be told apart."""
    texts = [str(doc_id) for doc_id in ids]
    if len(set(texts)) < len(texts):
        again = next(one for one, other in pairwise(sorted(texts)) if one == other)
        given = " and ".join(dict.fromkeys(repr(doc_id) for doc_id in ids if str(doc_id) == again))
        raise ClickvecError(f"the id {given} is given to more than one title; all ids must differ, even as text")


def _line(document: Document) -> bytes:
    value = document._asdict()
    if document.payload is None:
        del value["payload"]
    try:
        try:
            return _to_json(value).encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can express and UTF-8 cannot
            return json.dumps(value).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ClickvecError(f"the payload of the id {document.id!r} is not JSON: {error}") from None
