"""API keys. A file holds the SHA-256 of each key, one in a line; a key itself is shown once and never stored.

A key has 256 random bits, so it cannot be guessed from its hash, and a slow hash such as scrypt would add nothing:
those protect passwords that people choose.
"""

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from clickvec.errors import ClickvecError
from clickvec.storage.files import replacing_file
from clickvec.storage.outputs import check_output_file

PREFIX = "cv_"  # lets scanners of secrets recognise a key
SHORTEST = 24  # characters of a key that the user has chosen
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Keys:
    """The hashes of the keys that give one kind of access. Without any, there is no such key."""

    hashes: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hashes)

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is valid. The time does not depend on how much of it is right."""
        digest = hashlib.sha256(str(key).encode("utf-8", "surrogatepass")).digest()
        matches = [hmac.compare_digest(digest, known) for known in self.hashes]  # no early exit
        return any(matches)

    def __add__(self, other: "Keys") -> "Keys":
        return Keys(self.hashes + other.hashes)


def read_keys(path: Path | None, variable: str, value: str | None) -> Keys:
    """Return the keys whose hashes a file holds, and the key that an environment variable holds."""
    keys = Keys()
    if path is not None:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.partition("#")[0].strip().lower()
            if text and not _HASH.fullmatch(text):
                raise ClickvecError(
                    f"{path}:{number} is not the SHA-256 of a key; add a key with: clickvec serve --new-key {path}"
                )
            keys += Keys((bytes.fromhex(text),) if text else ())
        if not keys:
            raise ClickvecError(f"{path} holds no key; add one with: clickvec serve --new-key {path}")
    if value is not None:  # an empty one is a secret that was not filled in; without an error all would be let in
        if len(value) < SHORTEST:
            raise ClickvecError(
                f"the key in {variable} has {len(value)} characters; give {SHORTEST} or more, or unset it"
            )
        keys += Keys((hashlib.sha256(value.encode()).digest(),))
    return keys


def new_key(path: Path) -> str:
    """Make a key, append its hash to a file that only the user can read, and return the key.

    The file is replaced at once as a whole, so that nobody else can have it open. Raise if it is a link, or has
    no folder.
    """
    if path.is_symlink():
        raise ClickvecError(f"{path} is a link; give the file that it leads to")
    if not path.parent.is_dir():  # it may be a typing error, and the key would be lost
        raise ClickvecError(f"there is no folder {path.parent} for the keys; create it first")
    check_output_file(path)
    content = path.read_bytes() if path.exists() else b""
    content += b"\n" if content and not content.endswith(b"\n") else b""
    key = PREFIX + secrets.token_urlsafe(32)
    with replacing_file(path) as fresh:
        os.fchmod(fresh.fileno(), 0o600)
        fresh.write(content + hashlib.sha256(key.encode()).hexdigest().encode() + b"\n")
    return key
