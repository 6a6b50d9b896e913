"""The exceptions that a user is meant to read: bad input, a bad file, a missing extra.

A message says in one or two sentences what is wrong, where, and how to fix it. The command line prints it and exits
with status 1.
"""


class ClickvecError(Exception):
    """An error that the user can fix. The message says what is wrong, where, and how to fix it."""


class Interrupted(ClickvecError):  # noqa: N818 - not an error: the user asked for it
    """The user stopped a run, which has saved its state."""


def missing_extra(module: str, extra: str) -> ClickvecError:
    """Return the error for an optional dependency that is not installed."""
    return ClickvecError(f"{module} is not installed; it comes with: pip install 'clickvec[{extra}]'")
