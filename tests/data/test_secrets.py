"""Masking of secrets: hand-made examples of what is masked and what survives, and properties."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clickvec.data.secrets import KINDS, mask
from clickvec.text.tokens import normalise


def mask_one(text: str) -> str:
    masked, _ = mask([text])
    return masked[0]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("write to bob.o'neil+x@mail.example.co.uk now", "write to <email> now"),
        ("BOB@EXAMPLE.COM", "<email>"),
        ("mailto:bob@example.com?subject=hi", "mailto:<email>?subject=hi"),
        ("john@gmail", "<email>"),
        ("john%40gmail.com", "<email>"),
        ("john (at) example.org", "<email>"),
        ("иван@почта.рф", "<email>"),
        ("ＢＯＢ＠ｅｘａｍｐｌｅ．ｃｏｍ", "<email>"),
        ("visa 4111111111111111", "visa <card>"),
        ("4111 1111 1111 1111 123", "<card> 123"),
        ("5500-0000-0000-0004", "<card>"),
        ("3782 822463 10005", "<card>"),
        ("卡号4111111111111111", "卡号<card>"),
        ("my ssn 123-45-6789", "my ssn <ssn>"),
        ("123 45 6789", "<ssn>"),
        ("ssn: 123456789", "ssn: <ssn>"),
        ("+1 (555) 123-4567", "<phone>"),
        ("+49 (0)30 1234567", "<phone>"),
        ("0049 30 1234567", "<phone>"),
        ("1-800-555-1234", "<phone>"),
        ("john smith 555-123-4567", "john smith <phone>"),
        ("john smith (555) 123-4567", "john smith <phone>"),
        ("john smith 5552345678", "john smith <phone>"),
        ("555–123–4567", "<phone>"),
        ("020 7946 0958", "<phone>"),
        ("07700 900123", "<phone>"),
        ("06 12 34 56 78", "<phone>"),
        ("0171/1234567", "<phone>"),
        ("(02) 9876 5432", "<phone>"),
        ("8 (916) 123-45-67", "<phone>"),
        ("138 1234 5678", "<phone>"),
        ("电话13812345678", "电话<phone>"),
        ("٠٧٧٠٠ ٩٠٠١٢٣", "<phone>"),
        ("who is 0412345678", "who is 0412345678"),  # may be a part number
        ("0412345678", "<phone>"),
        ("call 555-1234", "call <phone>"),
        ("phone number is 612 345 678", "phone number is <phone>"),
        ("call 0049 30 1234567", "call <phone>"),
        ("030-1234567", "<phone>"),
        ("müller 04131-624312", "müller <phone>"),
        ("0151 12345678", "<phone>"),
        ("13912345678", "<phone>"),
        ("79161234567", "<phone>"),
        ("12125552368", "<phone>"),
        ("https://example.com/contact?tel=5552345678", "https://example.com/contact?tel=<phone>"),
        ("see www.example.com or 555-123-4567", "see www.example.com or <phone>"),
        ("https://example.com/bob@example.com", "https://example.com/<email>"),
        ("https://example.com/4111111111111111", "https://example.com/<card>"),
        ("smith-555-123-4567", "smith-<phone>"),
        ("bob@example.com 555-123-4567 and 123-45-6789", "<email> <phone> and <ssn>"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert mask_one(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hotels in shanghai",
        "@nasa news",
        "jobs @ example.com",
        "iphone 15 pro 256gb 2024",
        "honda civic 2005-2006 2007 2008 2009",
        "calendar 01/02/2024 to 05/06/2024",
        "2024-01-15 10:30:00",
        "rent 1,234,567,890 or 1299.99",
        "40.7127753, -74.0059728",
        "192.168.100.100",
        "pi 3.14159265358979",
        "isbn 0306406152",
        "0306406152",  # a valid ISBN-10
        "9780306406157",  # a valid ISBN-13
        "978-0-306-40615-7",
        "4548736112162",  # a valid EAN
        "036000291452",  # a valid UPC
        "bosch 0986494123",
        "bmw 13717532754",
        "part no 555-123-4567",
        "caterpillar 123-4567",
        "wd40 123-4567-890",
        "sn4111111111111111",
        "4111111111111112",  # the Luhn check digit is wrong
        "000-12-3456",
        "666-12-3456",
        "912-12-3456",
        "123-00-3456",
        "123-45-0000",
        "123-45-67890",
        "phone 2017 2018",
        "fedex 123456789012",
        "4 006381 333931",  # a valid EAN in groups
        "0 36000 29145 2",
        "036000 291452",
        "phone 8806092076433",
        "00614141123452",  # a valid GTIN-14
        "36000291452",  # a valid UPC without its leading zero
        "gtin-14 0061414112345",
        "barcode: 07164136022",
        "https://example.com/p/020-7946-0958",
        "http://www.example.com/item/5552345678?x=555-123-4567",
        "example.com/555-123-4567.html",
        "www.example.com/00491711234567",
        "ab-555-123-4567",
        "gsc 01058-03400",
        "ids 04131-6243",
        "usno-a2.0 0450-03360039",
        "ﬁne print № ５",
    ],
)
def test_other_texts_survive(text: str) -> None:
    assert mask([text, "x"]) == ([text, "x"], Counter())


def test_secrets_are_counted_by_kind_and_other_texts_keep_their_places() -> None:
    texts = ["a@b.com or c@d.org", "hotels", "", "a\nline break 123-45-6789", "４１１１ １１１１ １１１１ １１１１"]
    masked, found = mask(texts)
    assert masked == ["<email> or <email>", "hotels", "", "a\nline break <ssn>", "<card>"]
    assert found == {"email": 2, "ssn": 1, "card": 1}
    assert set(found) <= set(KINDS)
    assert mask([]) == ([], Counter())


PIECES = st.one_of(
    st.sampled_from(
        ["bob@example.com", "555-123-4567", "123-45-6789", "4111 1111 1111 1111", "tel", "-", " ", "+", "isbn", "00"]
    ),
    st.from_regex(r"\A[0-9 ().+-]{1,20}\Z"),
    st.text(max_size=6),
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


@given(st.lists(TEXTS, max_size=5))
@example(["555-123-4567-123-45-6789"])
@example(["a@b.com\u0338"])
def test_masking_twice_changes_nothing_and_a_block_is_masked_as_its_texts(texts: list[str]) -> None:
    masked, found = mask(texts)
    assert mask(masked) == (masked, Counter())
    assert masked == [mask_one(text) for text in texts]
    assert all((new == old) or "<" in new for new, old in zip(masked, texts, strict=True))
    assert bool(found) == (masked != texts)


@given(TEXTS)
def test_the_normalised_text_has_no_secret_left(text: str) -> None:
    """Texts are normalised after masking; that must not bring a secret back."""
    clean = mask_one(text)
    assert mask([unicodedata.normalize("NFKC", clean)])[1] == Counter()
    normalise(clean)


@pytest.mark.parametrize("text", ["1", "1 ", "a@", ".", "(1)", "tel ", "00 ", "a.", "+1-", "123-45-6789-", "1-"])
def test_long_texts_end(text: str) -> None:
    """Quadratic time would take minutes here."""
    mask([text * 20_000, "x@" + text * 20_000, text * 20_000 + "@x"])
