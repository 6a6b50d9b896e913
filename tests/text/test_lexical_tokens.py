"""What word matching compares: words, singular forms, letter trigrams."""

from typing import get_args

import pytest

from clickvec.text.lexical_tokens import TokenKind, singular, tokenise

KINDS: tuple[TokenKind, ...] = get_args(TokenKind)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("words", "the ladies 2 cars"),
        ("words-stop", "ladies 2 cars"),
        ("stems", "the lady 2 car"),
        ("stems-stop", "lady 2 car"),
        ("trigrams", "#th the he# #la lad adi die ies es# #2# #ca car ars rs#"),
        ("words+trigrams", "#the# #ladies# #cars# #th the he# #la lad adi die ies es# #2# #ca car ars rs#"),
    ],
)
def test_tokens(tokens: TokenKind, expected: str) -> None:
    assert " ".join(tokenise("The Ladies' (2) CARS", tokens)) == expected


@pytest.mark.parametrize("tokens", KINDS)
@pytest.mark.parametrize("text", ["", " ", "!?", "_"])
def test_a_text_without_words_has_no_tokens(tokens: TokenKind, text: str) -> None:
    assert tokenise(text, tokens) == []


def test_a_text_of_stop_words_keeps_them() -> None:
    assert tokenise("It", "words-stop") == ["it"]
    assert tokenise("It movie", "words-stop") == ["movie"]


def test_words_of_any_script_stay_whole() -> None:
    assert tokenise("हिन्दी-गीत, ＡＢＣ ภาษาไทย 上海!") == ["हिन्दी", "गीत", "abc", "ภาษาไทย", "上海"]
    assert tokenise("上海", "trigrams") == ["#上海", "上海#"]


@pytest.mark.parametrize(
    ("plural", "expected"),
    [
        ("cars", "car"),
        ("ladies", "lady"),
        ("horses", "horse"),
        ("shoes", "shoes"),
        ("knees", "knees"),
        ("bus", "bus"),
        ("glass", "glass"),
        ("is", "is"),
        ("ies", "ies"),
        ("movie", "movie"),
        ("", ""),
    ],
)
def test_singular(plural: str, expected: str) -> None:
    assert singular(plural) == expected
