"""The answer to a request that is not carried out."""

from collections.abc import Sequence

CODES = {
    400: "bad_request",
    401: "key_missing",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "body_too_large",
    415: "unsupported_media_type",
    421: "wrong_host",
    422: "invalid_request",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
    504: "timeout",
}


class RefusalError(Exception):
    """A request that gets an error: a status, a sentence, and headers."""

    def __init__(self, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers

    @property
    def code(self) -> str:
        """The name of the error for programs."""
        return CODES[self.status]


def check_count(name: str, values: Sequence[object], limit: int) -> None:
    """Raise if a request has too many of something."""
    if len(values) > limit:
        raise RefusalError(422, f"The request has {len(values):,} {name}; the limit is {limit:,}.")


def check_lengths(name: str, texts: Sequence[str], limit: int) -> None:
    """Raise if a text is too long."""
    if texts and (longest := max(map(len, texts))) > limit:
        raise RefusalError(422, f"The longest {name} has {longest:,} characters; the limit is {limit:,}.")
