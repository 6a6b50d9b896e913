"""Repair texts that a program has damaged: HTML entities (&amp;) and UTF-8 that was read as Latin-1 (Ã© for é)."""

import html
import re

_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}\d?|#\d{2,7}|#[xX][0-9A-Fa-f]{2,6});")
_BYTES = {bytes([byte]).decode("cp1252", "replace"): byte for byte in range(128, 256)} | {
    chr(byte): byte for byte in range(128, 256)
}
_NEXT = "[" + re.escape("".join(text for text, byte in _BYTES.items() if byte < 0xC0 and text != "\ufffd")) + "]"
# First bytes of Latin, Greek, Cyrillic, Hebrew and Arabic letters, of signs, and of letters of Asia. Other pairs are
# ordinary text, such as an accented capital before a quotation mark.
_MOJIBAKE = re.compile(f"[ÂÃÄÅÎÏÐÑ×ØÙ]{_NEXT}|[âãäåæçèéï]{_NEXT}{{2}}|à[¤-¿]{_NEXT}|ð{_NEXT}{{3}}")
_ROUNDS = 3  # a text may be damaged several times


def has_entities(text: str) -> bool:
    """Tell whether a text has HTML entities."""
    return "&" in text and any(html.unescape(entity) != entity for entity in _ENTITY.findall(text))


def has_mojibake(text: str) -> bool:
    """Tell whether a text has letters in UTF-8 that were read as Latin-1 or Windows-1252."""
    return not text.isascii() and _decoded(text) != text


def repair(text: str) -> str:
    """Return a text without HTML entities and mojibake."""
    for _ in range(_ROUNDS):
        before = text
        if "&" in text:
            text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
        if not text.isascii():
            text = _decoded(text)
        if text == before:
            break
    return text


def _decoded(text: str) -> str:
    return _MOJIBAKE.sub(_decode, text)


def _decode(match: re.Match[str]) -> str:
    try:
        return bytes(_BYTES[letter] for letter in match[0]).decode()
    except UnicodeDecodeError:
        return match[0]
