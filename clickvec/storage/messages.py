"""JSON messages between processes of the same user, on a Unix socket in a folder.

A message is its length in 8 bytes and a JSON object.
"""

import contextlib
import json
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clickvec.errors import ClickvecError, UnavailableError

MOST_BYTES = 64_000_000  # of a message
_LONGEST_ADDRESS = 100  # bytes; systems allow 103 to 107
_LENGTH = struct.Struct("!Q")

Message = dict[str, Any]


def listen(path: Path) -> socket.socket | None:
    """Listen on a socket that only this user can open. Replace a file that is there. Return None on Windows."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # on Linux, this leaves no moment at which others can connect
            os.fchmod(listener.fileno(), 0o600)
        with _address(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UnavailableError(f"cannot listen on {path}: {error.strerror or error}") from None
    return listener


def connect(path: Path, seconds: float) -> socket.socket:
    """Connect to a socket. Raise FileNotFoundError or ConnectionError if nobody listens."""
    if not hasattr(socket, "AF_UNIX"):
        raise ConnectionError
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        with _address(path) as address:
            connection.connect(address)
    except PermissionError:
        connection.close()
        raise UnavailableError(f"{path} belongs to another user; only that user can change the index") from None
    except BaseException:
        connection.close()
        raise
    return connection


def encode(message: Message) -> bytes:
    """Return the bytes of a message. Raise if it is too long."""
    try:
        data = json.dumps(message, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ClickvecError(f"the change is not JSON: {error}") from None
    if len(data) > MOST_BYTES:
        raise ClickvecError(
            f"the change has {len(data):,} bytes, more than {MOST_BYTES:,} at once; send fewer documents at a time"
        )
    return _LENGTH.pack(len(data)) + data


def receive(connection: socket.socket) -> Message:
    """Wait for a message. Raise EOFError if the connection ends, and ValueError if the message is malformed."""
    (length,) = _LENGTH.unpack(_receive_bytes(connection, _LENGTH.size))
    if length > MOST_BYTES:
        raise ValueError(f"it has {length:,} bytes, more than {MOST_BYTES:,}")
    try:
        message = json.loads(_receive_bytes(connection, length))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("it is not a JSON object")
    return message


def _receive_bytes(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield the path, or one through a temporary link if it is too long for a socket."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
    else:
        with tempfile.TemporaryDirectory() as short:
            os.symlink(path.parent.resolve(), f"{short}/i")
            yield f"{short}/i/{path.name}"
