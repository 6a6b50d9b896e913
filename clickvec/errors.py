"""The exceptions that a user is meant to read: bad input, a bad file, a missing extra.

A message says in one or two sentences what is wrong, where, and how to fix it. The command line prints it and exits
with status 1. Programs tell errors apart by their types, never by their words: a message may quote the input.
"""

import errno
import re

# The user name may hold no colon. The password of a database ends at the last @, because people forget to quote it.
_PASSWORD = re.compile(
    r"\b((?:postgres(?:ql)?|milvus):/{1,2}[^\s/:@]*:)(?:\S*|[^@/\n]*)@|\b([a-z][a-z0-9+.-]*:/{1,2}[^\s/:@]*:)[^\s/@]+@",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"([?&]password=)[^\s&]+", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Return a text with *** for each password of an address in it."""
    if "@" not in text and "password=" not in text.lower():
        return text
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1\2***@", text))


class ClickvecError(Exception):
    """An error that the user can fix. The message says what is wrong, where, and how to fix it, without passwords."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_passwords(part) if isinstance(part, str) else part for part in args))


class UnavailableError(ClickvecError):
    """The request may be right, but cannot be carried out now: a file is damaged, a server is silent.

    The service answers 503 and not 422, and tells its log the message, which names files of its machine.
    """


class DiskFullError(UnavailableError):
    """A disk or a quota is full. Nothing was changed."""


class Interrupted(ClickvecError):  # noqa: N818 - not an error: the user asked for it
    """The user stopped a run, which has saved its state."""


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error says that a disk or a quota is full."""
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_full or isinstance(error, DiskFullError)


def check_type(name: str, value: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Raise a ClickvecError if an argument is of another type, which says what is `wanted`."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise ClickvecError(f"{name} is of type {type(value).__name__}: {repr(value)[:60]}; give {wanted}")


def missing_extra(module: str, extra: str) -> ClickvecError:
    """Return the error for an optional dependency that is not installed."""
    return ClickvecError(f"{module} is not installed; it comes with: pip install 'clickvec[{extra}]'")
