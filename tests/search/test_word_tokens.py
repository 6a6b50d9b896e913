"""The words of titles and queries: plain words, extra words, codes, scripts without blanks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.search.lexical.word_tokens import (
    LONGEST,
    code_beginnings,
    extra_words,
    indexed,
    is_code,
    is_number,
    joined_codes,
    plain_words,
    word_hash,
    words_of_code,
)


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
        ("disk 500 GB", "disk500 disk500gb 500gb"),
        ("iPhone 7", "iphone7"),
        ("ABC 123 D4", "d 4 abc123 abc123d4 123d4"),
        ("iPhone 7 32 GB", "iphone7 32gb"),  # 7 32 is not one number
        ("24 hour s10 plus", "s 10 24hour s10plus"),
        ("EAN 4 006381 333931", "ean4 4006381333931 006381333931"),
        ("Tel. +49 30 123456", "tel49 4930123456 30123456"),
        ("2.0 TDI", "20 0tdi"),
        ("e-mail T-Shirt Wi-Fi", "email tshirt wifi"),
        ("3-in-1", "3in1 3in in1"),
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


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("AB260", ""),
        ("ab-260", "ab260"),
        ("ab 260", "ab260"),
        ("ab.260", "ab260"),
        ("ab - 260", "ab260"),
        ("abc 123 d4", "abc123d4 abc123 123d4"),
        ("Ab-12/c", "ab12c ab12 12c"),
        ("4 006381 333931", "4006381333931 006381333931"),
        ("+49 30-123456", "4930123456 30123456"),
        ("12.05.2019", "12052019"),
        ("drill ab 260 red", "ab260red ab260 260red"),
        ("tape 260 in.", "tape260in tape260 260in"),
        ("3-in-1", "3in1 3in in1"),
        ("covid-19", "covid19"),
        ("дом-25", "дом25"),
        ("上海-25", "上海25"),
        ("toy story 3", ""),
        ("ip man 2", ""),
        ("movies 2012", ""),
        ("since 2002 2004", "20022004"),  # found if a title has this number, or the two years side by side
        ("version 2.0 24/7 1,5", ""),
        ("e-mail t-shirt wi-fi", ""),
        ("1 2", ""),
        ("", ""),
    ],
)
def test_what_could_be_one_code(query: str, expected: str) -> None:
    assert [code for code, _, _ in joined_codes(query)] == expected.split()


@pytest.mark.parametrize("title", ["AB260", "AB-260", "AB 260", "ab.260", "AB/260", "Drill AB260 red", "drill AB-260"])
@pytest.mark.parametrize("query", ["AB260", "ab260", "ab-260", "AB 260", "ab.260", "AB/260", "ab_260", "drill ab 260"])
def test_a_code_is_one_word_on_both_sides(title: str, query: str) -> None:
    assert "ab260" in {*plain_words(title), *extra(title)}
    assert "ab260" in {*plain_words(query), *(code for code, _, _ in joined_codes(query))}


@given(st.text(alphabet="ab1 -.2", max_size=30))
def test_codes_are_neighbours_of_the_query(query: str) -> None:
    words = plain_words(query)
    for code, first, parts in joined_codes(query):
        assert indexed("".join(parts)) == code
        assert tuple(words[first : first + len(parts)]) == parts


def test_what_an_unknown_code_may_stand_for() -> None:
    assert code_beginnings("xk750b") == ["xk750"]
    assert code_beginnings("abc123d4") == ["abc123d", "abc123"]
    assert words_of_code("iphone12") == ["iphone"]
    assert words_of_code("260in") == ["260"]
    assert words_of_code("abc123d4") == words_of_code("5ml") == words_of_code("4711") == []


def test_codes_have_digits() -> None:
    assert is_code("ab1234")
    assert not is_code("pizza")
    assert [word for word in ("3", "2012", "47110", "3d", "pizza") if is_number(word)] == ["3", "2012"]
