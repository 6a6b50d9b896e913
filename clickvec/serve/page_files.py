"""The web page at /: its files are read once when the service starts, so that no request names a file."""

import gzip
import hashlib
from importlib.resources import files
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from clickvec.serve.refusal import RefusalError

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
# With require-trusted-types-for, a browser refuses text as HTML or script even where a script tries to set it.
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types"
)
_METHODS = b"GET, HEAD"
FILE = "/page/{name}"
PAGE_NAMES = ("GET /", f"GET {FILE}")  # in the counters and the access log


class PageFile(NamedTuple):
    """A file of the page, as it is sent."""

    content: bytes
    compressed: bytes  # by gzip
    content_type: bytes
    etag: bytes


def read_page() -> dict[str, PageFile]:
    """Return the files of the page by the path of their URL."""
    found = {}
    for file in files("clickvec.serve").joinpath("page").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            content = file.read_bytes()
            etag = b'W/"%s"' % hashlib.sha256(content).hexdigest()[:32].encode()  # weak: the same for both encodings
            path = "/" if file.name == "index.html" else FILE.replace("{name}", file.name)
            found[path] = PageFile(content, gzip.compress(content, mtime=0), _TYPES[suffix], etag)
    return found


class Page:
    """The files of the page as an ASGI application. They hold no data of the index, so they need no key."""

    def __init__(self) -> None:
        self._files = read_page()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send one file, or only that it has not changed. Raise RefusalError for other paths and methods."""
        path = scope["path"]
        file = self._files.get(path)
        if file is None:
            raise RefusalError(404, "The page has no such file.")
        scope["clickvec.endpoint"] = PAGE_NAMES[path != "/"]
        if scope["method"] not in ("GET", "HEAD"):
            message = f"{path} does not support {scope['method']}; use {_METHODS.decode()}."
            raise RefusalError(405, message, ((b"allow", _METHODS),))
        headers = dict(scope["headers"])
        head = [
            (b"etag", file.etag),
            (b"cache-control", b"no-cache"),  # keep it, and ask each time whether it has changed
            (b"vary", b"accept-encoding"),
            (b"content-security-policy", _POLICY),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]
        status, content = 200, file.content
        if _names(headers.get(b"if-none-match", b""), file.etag):
            status, content = 304, b""
        else:
            if _takes_gzip(headers.get(b"accept-encoding", b"")):
                content = file.compressed
                head.append((b"content-encoding", b"gzip"))
            head += [(b"content-type", file.content_type), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": content})


def _names(condition: bytes, etag: bytes) -> bool:
    """Tell whether an If-None-Match header names this version."""
    tags = [tag.strip().removeprefix(b"W/") for tag in condition.split(b",")]
    return etag.removeprefix(b"W/") in tags or tags == [b"*"]


def _takes_gzip(accepted: bytes) -> bool:
    """Tell whether an Accept-Encoding header names gzip, and does not refuse it."""
    names = {
        name.strip().lower(): weight.strip()
        for name, _, weight in (part.partition(b";") for part in accepted.split(b","))
    }
    return b"gzip" in names and names[b"gzip"].replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
