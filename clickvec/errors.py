"""The one exception that a user is meant to read: bad input, a bad file, a missing extra.

Its message is one sentence or two: what is wrong, where, and the cure. The command line prints it and exits with 1.
"""


class ClickvecError(Exception):
    """Something the user can mend; the message says what, where and how."""


class Interrupted(ClickvecError):  # noqa: N818 - not an error: the user asked for it
    """The user stopped a run, with a signal if its number is given; its state is saved."""

    def __init__(self, message: str, signal: int = 0) -> None:
        super().__init__(message)
        self.signal = signal


def missing_extra(module: str, extra: str) -> ClickvecError:
    """The error for an optional dependency that is not installed."""
    return ClickvecError(f"{module} is not installed; it comes with: pip install 'clickvec[{extra}]'")
