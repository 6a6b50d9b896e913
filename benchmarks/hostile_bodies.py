"""Requests that no client should send, for every endpoint: the service must refuse or answer each, and stay alive."""

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from hostile_values import VALUES, change_json

VALID: list[tuple[str, str, Any]] = [
    ("POST", "/search", {"query": "hotels", "k": 3, "offset": 1, "mode": "hybrid", "where": {"n": {"lt": 5}}}),
    ("POST", "/search", {"queries": ["a", "hotels"], "facets": ["n"], "min_score": 0.1}),
    ("POST", "/search", {"query": "hotels", "explain": True, "highlight": True}),
    ("POST", "/search", {"query": "hotels", "where": {"or": [{"n": [1, 2]}, {"not": {"n": {"exists": False}}}]}}),
    ("POST", "/rerank", {"query": "hotels", "documents": [{"id": 1, "title": "a hotel", "score": 1.5}], "weight": 0.5}),
    ("POST", "/explain", {"query": "hotels", "title": "a hotel", "compare_with": "b", "trace": True}),
    ("POST", "/try", {"query": "hotels", "title": "a hotel"}),
    ("POST", "/documents", {"documents": [{"id": "d1", "title": "a hotel", "payload": {"n": 1, "tags": ["a"]}}]}),
    ("POST", "/click", {"query": "hotels", "shown": [{"id": "1", "position": 1}], "clicked": ["1"], "client": "c"}),
    ("POST", "/map/place", {"text": "hotels", "side": "query"}),
    ("POST", "/v1/embeddings", {"input": ["a", "b"], "model": "query", "encoding_format": "float"}),
    ("GET", "/documents/1", None),
    ("DELETE", "/documents/1", None),
    ("GET", "/topics/3", None),
]
JSON = b"application/json"


class Request(NamedTuple):
    """The bytes of a request, and what is wrong with it."""

    data: bytes
    kind: str


def request(seed: str) -> Request:
    """Return a hostile request. The same seed gives the same one."""
    rng = random.Random(seed)
    method, path, value = rng.choice(VALID)
    if value is None or rng.random() < 0.05:
        return Request(_head(rng.choice([method, "PATCH", "HEAD"]), _hostile_path(path, rng), b""), "path")
    kind, make = rng.choice(list(BODIES.items()))
    if kind in _RAW:
        return Request(make(method, path, value, rng), kind)
    body = make(value, rng)
    return Request(_head(method, path, body) + body, kind)


def _head(method: str, path: bytes | str, body: bytes, *headers: bytes, length: bytes | None = None) -> bytes:
    path = path.encode() if isinstance(path, str) else path
    size = b"%d" % len(body) if length is None else length
    lines = [b"%b %b HTTP/1.1" % (method.encode(), path), b"Host: localhost", b"Content-Length: " + size]
    if not any(header.lower().startswith(b"content-type") for header in headers):
        lines.append(b"Content-Type: " + JSON)
    return b"\r\n".join([*lines, *headers, b"Connection: close", b"", b""])


def _hostile_path(path: str, rng: random.Random) -> bytes:
    start = path.rpartition("/")[0].encode() + b"/"
    ends = [
        b"%ff%fe",
        b"%00",
        b"..%2f..%2fetc%2fpasswd",
        b"a" * 8_000,
        b"%e4%b8%8a",
        b"-1",
        b"9" * 400,
        b"%",
        b"%0d%0a",
    ]
    return start + rng.choice(ends)


def _dump(value: Any) -> bytes:  # noqa: ANN401
    return json.dumps(value).encode()


def _types(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    return _dump(change_json(value, rng))


def _one_field(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    return _dump(value | {rng.choice(list(value)): rng.choice(VALUES)})


def _huge(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    huge = rng.choice(["x" * 300_000, "上" * 100_000, ["a"] * 50_000, "a " * 100_000, 10**4_000, "\u0301" * 100_000])
    return _dump(value | {rng.choice(list(value)): huge})


def _deep(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    depth = rng.choice([20, 500, 20_000])
    open_, close = rng.choice([(b'{"not":', b"}"), (b"[", b"]"), (b'{"and":[', b"]}"), (b'{"a":', b"}")])
    name = rng.choice(["where", *value])
    return b'{"query": "a", "%b": ' % name.encode() + open_ * depth + b"1" + close * depth + b"}"


def _not_text(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    data = _dump(value)
    place = rng.randrange(len(data))
    ends = [b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\0", b"\xf4\x90\x80\x80", b"\\ud800", b"\\u0000", b"\x1b[2J"]
    return data[:place] + rng.choice(ends) + data[place:]


def _twice(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    name = rng.choice(list(value))
    values = [_dump(rng.choice([value[name], *VALUES])) for _ in range(3)]
    return b"{" + b", ".join(b'"%b": %b' % (name.encode(), each) for each in values) + b"}"


def _cut(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    data = _dump(value)
    return data[: rng.randrange(len(data))]


def _mixed(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    data = bytearray(_dump(value))
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _filter(value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    where = {"and": [{"n": {"gte": 1, "lt": 3}}, {"or": [{"n": [1, "a"]}, {"not": {"a.b": {"exists": True}}}]}]}
    return _dump({"query": "hotels", "where": change_json(where, rng), "facets": change_json(["n"], rng)})


def _length(method: str, path: str, value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    data = _dump(value)
    lengths = [b"-1", b"1e3", b"+5", b"0x10", b"", b"9" * 20, b"%d" % (len(data) - 3), b"5, 5", b"\xc2\xb2"]
    return _head(method, path, data, length=rng.choice(lengths)) + data


def _chunked(method: str, path: str, value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    data = _dump(value)
    sizes = [b"%x" % len(data), b"-1", b"zz", b"ffffffffffffffff", b"%x" % (len(data) + 5), b"0"]
    head = _head(method, path, data, b"Transfer-Encoding: " + rng.choice([b"chunked", b"gzip, chunked", b"x"]))
    head = head.replace(b"Content-Length", rng.choice([b"X-Length", b"Content-Length"]))
    return head + rng.choice(sizes) + b"\r\n" + data + b"\r\n0\r\n\r\n"


def _header(method: str, path: str, value: Any, rng: random.Random) -> bytes:  # noqa: ANN401
    data = _dump(value)
    headers = [
        b"Content-Type: text/plain", b"Content-Type: application/json; charset=utf-16", b"Content-Encoding: gzip",
        b"Authorization: Bearer \xff", b"Origin: null", b"X-A: " + b"a" * 20_000, b"Host: evil.example",
        b"Expect: 100-continue", b"Upgrade: websocket", b"Cookie: " + b"\x01", b"Content-Length: 7",
    ]  # fmt: skip
    return _head(method, path, data, rng.choice(headers)) + data


_RAW = ("length", "chunked", "header")
BODIES: dict[str, Callable[..., Any]] = {
    "types": _types, "one field": _one_field, "huge": _huge, "deep": _deep, "not text": _not_text, "twice": _twice,
    "cut": _cut, "mixed": _mixed, "filter": _filter, "length": _length, "chunked": _chunked, "header": _header,
}  # fmt: skip
