"""Parse the clicks, times and positions of a log."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

MIN_CLICKS = 1e-6  # with fewer clicks, log2(1 + clicks) would be 0 in float32
MAX_CLICKS = 1e12  # sums over a log stay finite in float32
MAX_POSITION = 10**9
NO_TIME = np.iinfo(np.int64).min  # what parse_times returns for a field that is not a time

_MAX_SECONDS = 10**11  # year 5138; a larger number counts milliseconds, then microseconds, then nanoseconds
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_STAMP = re.compile(r"(19[7-9]|20[0-9])[0-9]{9}([0-9]{2})?")  # such as 20240131235959, with or without seconds
_DAYS = range(1900_01_01, 2100_01_01)  # these numbers are dates, such as 20240131, and not seconds

ALLOWED_CLICKS = f"neither 0 nor a number from {MIN_CLICKS:g} to {MAX_CLICKS:g}"
ALLOWED_TIMES = "neither ISO 8601, nor YYYY-MM-DD HH:MM:SS, nor seconds (or ms, µs, ns) since 1970"
ALLOWED_POSITIONS = f"not a whole number from 1 to {MAX_POSITION:,}"


def parse_clicks(texts: Sequence[str], separator: str = "\t") -> list[float]:
    """Return the clicks in each field, or -1 if it is not a number in range.

    Where semicolons separate the columns, 1.000 may be a thousand, so it is no number.
    """
    value_of = {text: _clicks(text) for text in set(texts)}
    if separator == ";":
        value_of |= {text: -1.0 for text in value_of if is_ambiguous(text)}
    return [value_of[text] for text in texts]


def is_ambiguous(number: str) -> bool:
    """Return whether a point may be a decimal point or between thousands, as in 1.500."""
    return _THOUSANDS.fullmatch(number) is not None


def _clicks(text: str) -> float:
    try:
        clicks = float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower(), -1.0)
    in_range = clicks == 0 or MIN_CLICKS <= clicks <= MAX_CLICKS
    return clicks if in_range and text.isascii() and "_" not in text else -1.0  # float() also parses 1_0 and ١


def parse_times(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the seconds since 1970 in each field, or NO_TIME if it is not a time. A time without a zone is UTC.

    Fields that all have the same usual format are parsed together, which is much faster.
    """
    widths = set(map(len, texts))
    together = "".join(texts)
    if together.isascii():
        if widths == {19} or widths == {20}:
            parsed = _iso_times(texts, together, widths.pop())
            if parsed is not None:
                return parsed
        elif widths <= {9, 10, 13} and together.isdigit():
            numbers = np.array(list(map(int, texts)), np.int64)
            return np.where(numbers < _MAX_SECONDS, numbers, numbers // 1000)
        elif widths == {16} and together.isdigit():  # microseconds, as in exports of analytics
            return np.array(list(map(int, texts)), np.int64) // 1_000_000
    seconds_of = {text: _time(text) for text in set(texts)}
    return np.array([seconds_of[text] for text in texts], np.int64)


_DIGITS_AT = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]


def _iso_times(texts: Sequence[str], together: str, width: int) -> NDArray[np.int64] | None:
    """Parse `2024-01-31 23:59:59`, with a T or a space, with or without a Z. Return None if a text has another form."""
    codes = np.frombuffer(together.encode(), np.uint8).reshape(-1, width)
    marks = codes[:, [4, 7, 13, 16]] == np.frombuffer(b"--::", np.uint8)
    digits = codes[:, _DIGITS_AT]
    between = codes[:, 10]
    if not (
        marks.all()
        and ((digits >= ord("0")) & (digits <= ord("9"))).all()
        and ((between == ord(" ")) | (between == ord("T"))).all()
        and (width == 19 or (codes[:, 19] == ord("Z")).all())
    ):
        return None
    try:
        return np.array([text[:19] for text in texts] if width == 20 else texts, "datetime64[s]").astype(np.int64)
    except ValueError:  # a 30th of February
        return None


def _time(text: str) -> int:
    text = text.strip()
    if not text.isascii() or "_" in text:
        return NO_TIME
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if text.isdigit() and (int(text) in _DAYS or _STAMP.fullmatch(text)):
            written = _iso_time(f"{text[:8]}T{text[8:]}".rstrip("T"))
            number = number if written == NO_TIME and len(text) > 8 else written
        if not 0 <= number < 1000**3 * _MAX_SECONDS:
            return NO_TIME
        while number >= _MAX_SECONDS:
            number /= 1000
        return int(number)
    return _iso_time(text)


def _iso_time(text: str) -> int:
    try:
        time = datetime.fromisoformat(text.removesuffix(" UTC"))
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() // 1)
    except (ValueError, OverflowError):
        return NO_TIME


def parse_positions(texts: Sequence[str]) -> NDArray[np.int32]:
    """Return the position in each field, 0 if it is blank, or -1 if it is not a position."""
    value_of = {text: _position(text) for text in set(texts)}
    return np.array([value_of[text] for text in texts], np.int32)


def _position(text: str) -> int:
    digits = text.strip().removesuffix(".0")  # what pandas writes if some positions are unknown
    if not digits:
        return 0
    if not (digits.isascii() and digits.isdigit() and len(digits) < 11):
        return -1
    return int(digits) if 1 <= int(digits) <= MAX_POSITION else -1
