"""Mask personal secrets in texts: e-mail addresses, and phone, payment card and US social security numbers.

Each is replaced by a word: `<email>`, `<card>`, `<ssn>`, `<phone>`. Years, prices, dates, bar codes, ISBNs and part
numbers are digits too. The rules keep them where form or context tells them apart:

- card: 13 to 19 digits, in one piece or in groups of 4 (or 4-6-5, 4-6-4), that begin like a card and have a valid Luhn
  check digit. Valid 13-digit bar codes are kept.
- ssn: 123-45-6789 or 123 45 6789, without the numbers that are never issued. Nine digits in one piece only after "ssn".
- phone: in groups, with + or 00 and a country code, with an area code in North American form, in parentheses or after
  0, or in Russian or Chinese form. In one piece, if it has the form of a North American number or begins with 06 or 07,
  or if the text is nothing but 10 or 11 digits. Any 7 to 15 digits after a word such as "tel" or "call".
  Valid ISBNs and bar codes (UPC, EAN, GTIN) are kept, as is any number after a word such as "isbn", "part" or "model",
  and in a URL unless a word such as "tel" is before it there too.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

KINDS = ("email", "card", "ssn", "phone")
Check = Callable[[str, str], bool]  # whether a number is a secret, by the text before it and the number

_LEAST_DIGITS = 7  # of a secret: a text with fewer digits and no @ needs no search
_BETWEEN_DIGITS = 3  # characters between two digits of a number
_CONTEXT = 200  # characters before a number in which a word or the beginning of a URL may say what it is
_OTHER_AT = ("%40", "(at)", "[at]")
# A number must not be part of a longer number or code. Letters of other scripts than Latin may touch it, because not
# all scripts separate words by spaces.
_START, _END = r"(?<![A-Za-z0-9_])(?<!\d[.,:/-])", r"(?![A-Za-z0-9_]|[.,:/-]\d)"
_PHONE_WORD = (
    r"(?:(?<![A-Za-z])(?:tel|phone|telephone|telefon|mobile|cell|call|fax|sms|whatsapp)|тел|телефон|电话|電話|手机)"
)
_CODE_WORD = re.compile(
    r"\b(?:isbn(?:-?1[03])?|ean(?:-?\d\d?)?|upc(?:-?a)?|gtin(?:-?\d\d?)?|jan|bar ?code|sku|asin|mpn|oem|imei|part|model"
    r"|serial|item|article|artikel|order|ref|[ps]/n)"
    r"[.:# -]*(?:(?:no|nr|num|number|code)\b[.:# -]*)?\Z",
    re.IGNORECASE,
)
# What is before a number in a URL, and in a code such as x-030-1234567.
_IN_URL = re.compile(r"(?:\b[a-z][a-z0-9+.-]*://|\bwww\.|\b[\w-]+\.[a-z]{2,}[/?])\S*\Z", re.IGNORECASE)
_IN_CODE = re.compile(r"(?<![^\W_])[a-z]{1,2}[-/#]\Z", re.IGNORECASE)
_BAR_CODE = re.compile(r"\d{12,14}|\d([ -])\d{6}\1\d{6}|\d([ -])\d{5}\2\d{5}\2\d|\d{6}[ -]\d{6}")
_WHOLE_PHONE = re.compile(r"0|1[3-9]|1?[2-9]\d\d[2-9]\d{6}\Z|[78]9")  # how 10 or 11 digits of a phone number begin
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
# Signs and digits of other scripts, as the patterns below spell them. One character replaces one: positions stay valid.
_PLAIN = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-") | {
    code: str(unicodedata.decimal(chr(code))) for code in range(128, 0x1FC00) if unicodedata.category(chr(code)) == "Nd"
}


def mask(texts: Sequence[str], forms: Counter[str] | None = None) -> tuple[list[str], Counter[str]]:
    """Return the texts with their secrets masked, and how many secrets of each kind were masked.

    `forms` counts the forms of the masked numbers, such as <phone> ###-###-####: they name nobody.

    A text without secrets is returned as it is. A text with a secret is returned in Unicode form NFKC, which tokenising
    applies anyway. Masking twice changes nothing.
    """
    masked, found = list(texts), Counter[str]()
    for row in np.flatnonzero(may_have_secret(masked)).tolist():
        text = masked[row] if masked[row].isascii() else unicodedata.normalize("NFKC", masked[row])
        without = _mask_text(text, found, forms)
        if without != text:
            masked[row] = without
    return masked, found


def may_have_secret(texts: list[str]) -> NDArray[np.bool_]:
    """Return which texts have enough digits near each other for a number, or a sign of an e-mail address."""
    block = "\n".join(texts)
    if block.count("\n") >= len(texts):
        block = "\n".join(text.replace("\n", " ") for text in texts)
    bytes_apart = 1 + _BETWEEN_DIGITS
    if not block.isascii():
        bytes_apart = 1 + 4 * _BETWEEN_DIGITS  # a character has up to 4 bytes
        if not unicodedata.is_normalized("NFKC", block):  # far faster than normalising what is normal already
            block = unicodedata.normalize("NFKC", block)
        if re.search(r"[^\x00-\x7f\D]", block):
            block = block.translate(_PLAIN)
    if any(sign in block for sign in "%(["):
        block = re.sub("|".join(map(re.escape, _OTHER_AT)), "@", block, flags=re.IGNORECASE)
    characters = np.frombuffer(block.encode("utf-8", "surrogatepass"), np.uint8)
    digits = np.flatnonzero(characters - np.uint8(ord("0")) < 10)
    signs = [np.flatnonzero(characters == ord("@"))] if "@" in block else []
    if len(digits) >= _LEAST_DIGITS:
        near = np.convolve(np.diff(digits) <= bytes_apart, np.ones(_LEAST_DIGITS - 1, np.int64), "valid")
        signs.append(digits[: len(near)][near == _LEAST_DIGITS - 1])
    suspects = np.zeros(len(texts), bool)
    if signs:
        suspects[np.searchsorted(np.flatnonzero(characters == ord("\n")), np.concatenate(signs))] = True
    return suspects


def _mask_text(text: str, found: Counter[str], forms: Counter[str] | None) -> str:
    """Mask all secrets of a text, and count them."""
    before = ""
    while before != text:  # a masked number may uncover the one beside it
        before = text
        rules = _NUMBERS if _ENOUGH_DIGITS.search(_plain(text)) else ()
        for kind, pattern, is_secret in (_EMAIL, *rules):
            text = _mask_kind(text, kind, pattern, is_secret, found, forms)
    return text


def _plain(text: str) -> str:
    """Return a text of the same length with ASCII digits and dashes."""
    return text if text.isascii() else text.translate(_PLAIN)


def _mask_kind(
    text: str, kind: str, pattern: re.Pattern[str], is_secret: Check, found: Counter[str], forms: Counter[str] | None
) -> str:
    """Mask the matches of a pattern that are secrets. The pattern may put the number into a group of that name."""
    plain = _plain(text)
    parts, done = [], 0
    group = "number" if "number" in pattern.groupindex else 0
    for match in pattern.finditer(plain):
        start, end = match.span(group)
        if is_secret(plain[max(start - _CONTEXT, 0) : start], plain[start:end]):
            parts += [text[done:start], f"<{kind}>"]
            done = end
            found[kind] += 1
            if forms is not None and kind != "email":
                forms[f"<{kind}> {re.sub('[0-9]', '#', plain[start:end])}"] += 1
    return "".join([*parts, text[done:]])


def _digits(number: str) -> str:
    return "".join(filter(str.isdigit, number))


def _always(before: str, number: str) -> bool:
    return True


def _is_card(before: str, number: str) -> bool:
    digits = _digits(number)
    begins = {14: r"3[0689]", 15: r"3[47]"}.get(len(digits), r"[2-6]")
    is_card = re.match(begins, digits) and _luhn(digits) and not (len(number) == 13 and _is_bar_code(digits))
    return bool(is_card) and not _CODE_WORD.search(before)


def _is_phone(before: str, number: str) -> bool:
    return 8 <= len(_digits(number)) <= 15 and not _is_part(before, number)


def _is_national(before: str, number: str) -> bool:
    """Return whether digits after a trunk prefix are a phone number.

    Two groups with a hyphen are often a designation: a phone number has at least 10 digits, and its second group does
    not begin with 0.
    """
    digits, groups = _digits(number), re.split(r"[ ./-]+", number)
    if len(groups) == 2 and "-" in number and (len(digits) < 10 or groups[1].startswith("0")):
        return False
    return 9 <= len(digits) <= 12 and not _is_part(before, number)


def _is_whole_phone(before: str, number: str) -> bool:
    """Return whether digits that look like a phone number are not an ISBN or a bar code."""
    return not (_is_isbn10(number) or _is_part(before, number))


def _is_whole_text(before: str, number: str) -> bool:
    """Return whether 10 or 11 digits, which are all of a text, are not a bar code without its leading zeros."""
    is_short_code = len(number) == 11 and not _WHOLE_PHONE.match(number) and _is_bar_code(number.zfill(12))
    return not is_short_code and _is_whole_phone(before, number)


def _is_called(before: str, number: str) -> bool:
    is_code = _is_bar_code(number) and not number.startswith("00")
    return 7 <= len(_digits(number)) <= 15 and not _YEAR.search(number) and not is_code


def _is_part(before: str, number: str) -> bool:
    """Return whether a number is a bar code, perhaps with the digit before it, or part of a URL or of a code."""
    first = re.search(r"(?<!\d)\d[ -]\Z", before)
    if _is_bar_code(number) or (first and _is_bar_code(first[0] + number)):
        return True
    return bool(_CODE_WORD.search(before) or _IN_CODE.search(before) or _IN_URL.search(before))


def _luhn(digits: str) -> bool:
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(value // 10 + value % 10 for value in doubled)) % 10 == 0


def _is_bar_code(number: str) -> bool:
    """Return whether 12 to 14 digits have the groups and the check digit of a UPC, EAN or GTIN (an ISBN-13 is one)."""
    if not _BAR_CODE.fullmatch(number):
        return False
    digits = _digits(number)
    return (sum(map(int, digits[::-2])) + 3 * sum(map(int, digits[-2::-2]))) % 10 == 0


def _is_isbn10(digits: str) -> bool:
    return len(digits) == 10 and sum((10 - i) * int(digit) for i, digit in enumerate(digits)) % 11 == 0


def _rule(kind: str, pattern: str, is_secret: Check) -> tuple[str, re.Pattern[str], Check]:
    return kind, re.compile(pattern, re.IGNORECASE), is_secret


_ENOUGH_DIGITS = re.compile(rf"(?:\d\W{{0,{_BETWEEN_DIGITS}}}){{{_LEAST_DIGITS}}}")
_EMAIL = _rule(
    "email",
    r"(?<![\w.+'-])[\w.+'-]++(?:@|%40| ?\(at\) ?| ?\[at\] ?)"
    r"(?:(?:[\w-]+\.)+[^\W\d_]{2,}+|(?:gmail|hotmail|yahoo|outlook|icloud|gmx|qq)\b)",
    _always,
)
_NUMBERS = (
    # With and without a last group: it may be the security code
    _rule("card", _START + r"\d{4}([ .-]?)\d{4}\1\d{4}\1\d{1,4}(?:\1\d{1,3})?" + _END, _is_card),
    _rule("card", _START + r"\d{4}([ .-])\d{4}\1\d{4}\1\d{1,4}" + _END, _is_card),
    _rule("card", _START + r"\d{4}([ .-])\d{6}\1\d{4,5}" + _END, _is_card),
    _rule("ssn", _START + r"(?!000|666|9)\d{3}([- ])(?!00)\d\d\1(?!0000)\d{4}" + _END, _always),
    _rule("ssn", r"\bssn\W{0,2}(?P<number>(?!000|666|9)\d{9})" + _END, _always),
    # With a country code
    _rule("phone", r"(?<![\w+])\+[1-9](?:[ .()/-]{0,3}\d){7,14}" + _END, _is_phone),
    _rule("phone", _START + r"00[1-9](?:[ .()/-]{0,3}\d){9,14}" + _END, _is_whole_phone),
    # Russian and Chinese mobile numbers
    _rule("phone", _START + r"[78][ -]?(?:\(9\d\d\)|9\d\d)[ -]?\d{3}[ -]?\d\d[ -]?\d\d" + _END, _is_phone),
    _rule("phone", _START + r"1[3-9]\d([ -])\d{4}\1\d{4}" + _END, _is_phone),
    # North American
    _rule(
        "phone",
        _START + r"(?:1[ .-]?)?(?:\([2-9](?!11)\d\d\)[ -]?|[2-9](?!11)\d\d[ .-])(?:\d{3}[.-]?|[2-9]\d\d ?)\d{4}" + _END,
        _is_phone,
    ),
    # An area code in parentheses, or after a trunk prefix 0
    _rule("phone", _START + r"\(\d{2,5}\)(?:[ /-]{0,3}\d){6,9}" + _END, _is_phone),
    _rule("phone", _START + r"0[1-9]\d{0,3}(?:[ .-]| ?/ ?)\d{2,8}(?:[ .-]\d{2,5}){0,4}" + _END, _is_national),
    # In one piece
    _rule("phone", _START + r"(?:[2-9](?!11)\d\d[2-9]\d{6}|0[67]\d{8,9})" + _END, _is_whole_phone),
    _rule("phone", r"\A\W*(?P<number>\d{10,11})\W*\Z", _is_whole_text),
    _rule(
        "phone",
        _PHONE_WORD
        + r"(?: ?(?:no|nr|number)\b)?(?: ?(?:at|is)\b)?\W{0,3}(?P<number>\(?\d{2,}(?:[ .()/-]{0,2}\d+)*)"
        + _END,
        _is_called,
    ),
)
