"""The words of titles and queries: plain words, extra words, codes, scripts without blanks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.search.lexical.word_tokens import LONGEST, extra_words, indexed, is_code, plain_words, word_hash


def extra(title: str) -> list[str]:
    return extra_words(title, plain_words(title))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Ladies' (2) CARS", "the ladies 2 cars"),
        ("Amélie Søren Straße", "amelie soren strasse"),
        ("हिन्दी-गीत, ＡＢＣ", "हिन्दी गीत abc"),
        ("йод ёж", "йод ёж"),
        ("上海", "上海"),
        ("上海外滩", "上海 海外 外滩"),
        ("iPhone手机壳 x", "iphone 手机 机壳 x"),
        ("猫", "猫"),
        ("ภาษา", "ภา าษ ษา"),
        ("\x00a\x01b\n", "a b"),
        ("", ""),
        ("!?", ""),
    ],
)
def test_plain_words(text: str, expected: str) -> None:
    assert plain_words(text) == expected.split()


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("AB-1234", "ab1234"),
        ("ab 1234", "ab1234"),
        ("AB1234/x", "ab1234x ab 1234"),
        ("Spider-Man", "spiderman"),
        ("Schindler's List", ""),  # schindlers is found as schindler
        ("U.S.A.", "usa"),
        ("disk 500 GB", "disk500 500gb"),
        ("iPhone 7", "iphone7"),
        ("上海", "上 海"),
        ("plain words", ""),
    ],
)
def test_extra_words(title: str, expected: str) -> None:
    assert extra(title) == expected.split()


@pytest.mark.parametrize("title", ["AB-1234", "ab 1234", "AB1234/x", "ab1234", "Ab_1234."])
@pytest.mark.parametrize("query", ["AB-1234", "ab 1234", "AB1234", "ab.1234"])
def test_codes_find_each_other(title: str, query: str) -> None:
    assert set(plain_words(query)) <= {*plain_words(title), *extra(title)}


@given(st.text())
def test_any_text_has_words_that_can_be_indexed(text: str) -> None:
    words = plain_words(text)
    for word in (*map(indexed, words), *extra_words(text, words)):
        assert 0 < len(word) <= LONGEST
        assert not word.isspace()
        assert 0 <= word_hash(word) < 2**64


def test_the_hash_is_stable() -> None:
    assert word_hash("pizza") == 0x999D7D39F09C05C6


def test_codes_have_digits() -> None:
    assert is_code("ab1234")
    assert not is_code("pizza")
