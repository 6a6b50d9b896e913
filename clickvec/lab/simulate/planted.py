"""Queries with planted numbers: personal secrets, and other numbers (decoys) that look like them."""

from __future__ import annotations

import random
from typing import NamedTuple

_NAMES = ("anna", "ben", "carla", "david", "emma", "farid", "grace", "hugo", "ivan", "jane", "kenji", "lucia", "maria")
_FAMILIES = ("smith", "jones", "garcia", "mueller", "rossi", "tanaka", "novak", "khan", "brown", "dubois", "oneil")
_MAILBOXES = ("gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "gmx.de", "mail.example.org", "acme.co.uk")
_BRANDS = ("bosch", "honda", "canon", "dyson", "makita", "siemens", "garmin", "philips", "hitachi")


class Planted(NamedTuple):
    """A number in a query, and its kind: email, card, ssn, phone, or decoy."""

    kind: str
    number: str
    query: str


def plant_secret(query: str, rng: random.Random) -> Planted:
    """Put a secret into a query, as people do who paste the wrong line or search for a person."""
    kind = rng.choice(("email", "card", "ssn", "phone"))
    number = {"email": _email, "card": _card, "ssn": _ssn, "phone": _phone}[kind](rng)
    name = f"{rng.choice(_NAMES)} {rng.choice(_FAMILIES)}"
    return Planted(kind, number, rng.choice((f"{query} {number}", f"{number} {query}", f"{name} {number}", number)))


def plant_decoy(query: str, rng: random.Random) -> Planted:
    """Put a number into a query that is no secret."""
    number = rng.choice(_DECOYS)(rng)
    brand = rng.choice(_BRANDS)
    return Planted("decoy", number, rng.choice((f"{query} {number}", f"{brand} {number}", number)))


def _number(rng: random.Random, digits: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(digits))


def _email(rng: random.Random) -> str:
    name, family = rng.choice(_NAMES), rng.choice(_FAMILIES)
    forms = (f"{name}.{family}", f"{name}{rng.randrange(100)}", f"{name[0]}{family}", f"{name}_{family}+shop")
    address = f"{rng.choice(forms)}@{rng.choice(_MAILBOXES)}"
    return rng.choice((address, address, address, address.upper(), address.replace("@", "%40")))


def _card(rng: random.Random) -> str:
    begin, length = rng.choice((("4", 16), ("4", 16), ("51", 16), ("55", 16), ("37", 15), ("6011", 16), ("36", 14)))
    digits = begin + _number(rng, length - len(begin) - 1)
    doubled = [int(digit) for digit in reversed(digits)]
    total = sum(digit if i % 2 else (2 * digit) // 10 + (2 * digit) % 10 for i, digit in enumerate(doubled))
    digits += str(-total % 10)
    sizes = (4, 4, 4, 4) if length == 16 else (4, 6, length - 10)
    return rng.choice((digits, _grouped(digits, sizes, " "), _grouped(digits, sizes, "-")))


def _ssn(rng: random.Random) -> str:
    area = rng.choice([number for number in range(1, 900) if number != 666])
    sign = rng.choice("-- ")
    return f"{area:03d}{sign}{rng.randrange(1, 100):02d}{sign}{rng.randrange(1, 10_000):04d}"


def _phone(rng: random.Random) -> str:
    area, exchange = (rng.choice("23456789") + rng.choice("023456789") + rng.choice("023456789") for _ in range(2))
    line, more = _number(rng, 4), _number(rng, 6)
    return rng.choice(
        (
            f"({area}) {exchange}-{line}",
            f"{area}-{exchange}-{line}",
            f"{area}.{exchange}.{line}",
            f"{area} {exchange} {line}",
            f"1-{area}-{exchange}-{line}",
            f"{area}{exchange}{line}",
            f"+1 {area} {exchange} {line}",
            f"+44 7{area} {more}",
            f"07{area} {more}",
            f"020 7{exchange} {line}",
            f"+49 30 {more}{exchange[0]}",
            f"0171/{more}{exchange[0]}",
            f"0033 6 {line[:2]} {line[2:]} {more[:2]} {more[2:4]}",
            f"06 {line[:2]} {line[2:]} {more[:2]} {more[2:4]}",
            f"call {exchange}-{line}",
        )
    )


def _grouped(digits: str, sizes: tuple[int, ...], sign: str) -> str:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return sign.join(digits[end - size : end] for size, end in zip(sizes, ends, strict=True))


def _bar_code(begin: str, rng: random.Random) -> str:
    digits = begin + _number(rng, 12 - len(begin))
    total = sum(int(digit) * (3 if i % 2 else 1) for i, digit in enumerate(digits))
    return digits + str(-total % 10)


def _isbn10(rng: random.Random) -> str:
    digits = rng.choice("013") + _number(rng, 8)
    check = -sum((10 - i) * int(digit) for i, digit in enumerate(digits)) % 11
    return digits + ("x" if check == 10 else str(check))


_DECOYS = (
    lambda rng: str(rng.randrange(1950, 2030)),
    lambda rng: f"{rng.randrange(1990, 2010)}-{rng.randrange(2010, 2030)}",
    lambda rng: f"{rng.randrange(1, 13):02d}/{rng.randrange(1, 29):02d}/{rng.randrange(1990, 2030)}",
    lambda rng: f"{rng.randrange(1990, 2030)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
    lambda rng: f"${rng.randrange(10, 5000)}.99",
    lambda rng: f"{rng.randrange(1, 900)},{_number(rng, 3)},{_number(rng, 3)}",
    lambda rng: f"isbn {_isbn10(rng)}",
    _isbn10,
    lambda rng: _bar_code("978", rng),
    lambda rng: _bar_code(rng.choice(("4", "50", "3")), rng),
    lambda rng: f"{rng.choice('bcdkmx')}{rng.choice('bcdkmx')}-{_number(rng, 4)}",
    lambda rng: f"{rng.choice('bcdkmx')}{_number(rng, 8)}",
    lambda rng: f"part number 0{_number(rng, 9)}",
    lambda rng: f"{_number(rng, 3)}-{_number(rng, 4)}",
    lambda rng: f"{_number(rng, 2)}-{_number(rng, 6)}-{_number(rng, 2)}",
    lambda rng: f"{_number(rng, 8)}",
    lambda rng: f"{_number(rng, 12)}",
    lambda rng: f"{_number(rng, 16)}",
    lambda rng: f"{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
    lambda rng: f"{rng.randrange(90)}.{_number(rng, 7)}",
)
