"""Make text safe for a terminal."""

import re
from typing import TextIO

_JOINERS = "\u200c\u200d"  # these shape letters in some scripts, and emoji; other format characters can hide text
COLOURS = re.compile(r"(\x1b\[(?:[01]|(?:[17];)?3[12]|4[12])m)")  # the escape sequences that screen.py writes


def clean(text: str) -> str:
    """Replace what a terminal would obey: show control characters as pictures, and white space as a space."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _JOINERS else _picture(char) for char in text)


def _picture(char: str) -> str:
    code = ord(char)
    if char in "\t\n\r\v\f" or (code > 0x7F and char.isspace()):
        return " "
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def clean_lines(text: str) -> str:
    """Clean each line of a text."""
    return "\n".join(map(clean, text.split("\n")))


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream, which may be closed, is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()
