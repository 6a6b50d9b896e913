"""What a service accepts, and how it was asked to run."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from clickvec.serve.keys import Keys


@dataclass(frozen=True)
class Limits:
    """The limits of one worker. Each is an option of `clickvec serve`."""

    body_bytes: int = 8 * 2**20  # of a request; 413 beyond
    payload_bytes: int = 64 * 2**10  # of the payload of a document, as JSON; 422 beyond
    query_characters: int = 1_000  # of a query; 422 beyond
    title_characters: int = 10_000  # of a title that is indexed, re-ranked, explained or embedded; 422 beyond
    hits: int = 1_000  # offset + k; 422 beyond
    queries: int = 100  # in one request; 422 beyond
    documents: int = 10_000  # in one request: to add, re-rank or embed; 422 beyond
    concurrent: int = 64  # requests that run or wait; 429 beyond
    seconds: float = 10.0  # for a request, waiting included; 504 beyond
    read_seconds: float = 10.0  # for the headers of a request, and for its body; 408 beyond
    idle_seconds: float = 60.0  # that a connection may be idle between requests
    connections: int = 10_000  # open at once; further ones are closed
    header_bytes: int = 32 * 2**10  # request line and headers; 431 beyond


@dataclass(frozen=True)
class Settings:
    """How to run a service."""

    index: Path  # of an address: the name of the table or the collection
    click_log: Path
    address: str = ""  # of an index in a database
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    read_only: str = ""  # the sentence that tells why the service cannot change the index
    threads: int = 2
    read_keys: Keys = Keys()  # noqa: RUF009 - immutable
    write_keys: Keys = Keys()  # noqa: RUF009
    cors: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()  # that the Host header may have besides the loopback names
    log_queries: bool = False
    access_log: Path | None = None  # None: stderr
    log_clicks: bool = False  # whether the page sends clicks
    about: Path | None = None  # the folder that tells about the model; None: there is none
    stop_seconds: float = 30.0  # to finish running requests after the first signal
    limits: Limits = field(default_factory=Limits)


def location(settings: Settings) -> str | Path:
    """Return the address or the folder of the index."""
    return settings.address or settings.index


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def keeps_queries(settings: Settings) -> bool:
    """Tell whether queries are counted: if that was asked for, and only those who may write can read them."""
    has_keys = bool(settings.read_keys or settings.write_keys)
    return settings.log_queries and bool(settings.write_keys or (is_loopback(settings.host) and not has_keys))
