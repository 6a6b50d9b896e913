"""What a word gave to the score: each method against games by hand, and brute force."""

import hashlib
import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny

from clickvec.config import POOLINGS, RECURRENT
from clickvec.errors import ClickvecError
from clickvec.explanation.contributions import (
    EXACT_WORDS,
    METHODS,
    ORDERS,
    Score,
    leave_one_out,
    shapley,
    without_each,
)
from clickvec.explanation.side import Side
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_tokens

QUERY, TITLE = TEXTS[0], TEXTS[1]
READ = {name: fields for name, fields in TOWERS.items() if fields["kind"] in RECURRENT}
CASES = [(name, method) for name in TOWERS for method in METHODS if method != "changes" or name in READ]
SIDES = ("query", "title")
LETTERS = "abcdefghijklmn"
Game = Callable[[str], float]  # what a text is worth

all_towers = pytest.mark.parametrize("name", TOWERS)


@cache
def encoder_of(name: str, pooling: str = "last") -> Encoder:
    fields: dict[str, Any] = {"pooling": pooling} if pooling != "last" else {}
    return Encoder(tiny(**TOWERS[name], **fields))


def score_of(game: Game) -> Score:
    """The game as a score, which may be asked for no text twice."""

    def score(texts: list[str]) -> np.ndarray:
        assert len(set(texts)) == len(texts)
        return np.array([game(text) for text in texts])

    return score


def by_chance(seed: int) -> Game:
    """A game without any structure: a number in [-1, 1) for each text."""
    return lambda text: int(hashlib.sha256(f"{seed} {text}".encode()).hexdigest()[:8], 16) / 2**31 - 1


def over_all_orders(words: list[str], game: Game) -> np.ndarray:
    """The definition: the mean over all n! orders."""
    found = np.zeros(len(words))
    for order in itertools.permutations(range(len(words))):
        inside: set[int] = set()
        for place in order:
            before = game(" ".join(words[k] for k in sorted(inside)))
            inside.add(place)
            found[place] += game(" ".join(words[k] for k in sorted(inside))) - before
    return found / math.factorial(len(words))


def other_of(encoder: Encoder, side: str, text: str) -> np.ndarray:
    """The vector of the text on the other side."""
    vector = encoder.encode_document(text) if side == "query" else encoder.encode_query(text)
    return vector.astype(np.float64)


def score_of_text(encoder: Encoder, side: str, text: str, other: np.ndarray) -> float:
    vector = encoder.encode_query(text) if side == "query" else encoder.encode_document(text)
    return float(vector.astype(np.float64) @ other)


# --- Shapley values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 5, EXACT_WORDS, EXACT_WORDS + 1, 10, 14, 70])
def test_where_words_just_add_up_each_gets_its_own(n: int) -> None:
    weights = {f"w{k}": (-1) ** k * 2.0**-k for k in range(n)}
    found = shapley(list(weights), score_of(lambda text: 3 + sum(weights[word] for word in text.split())))
    np.testing.assert_allclose(found, list(weights.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [2, 5, EXACT_WORDS, EXACT_WORDS + 1, 10, 14, 70])
def test_what_two_words_do_together_is_split_evenly(n: int) -> None:
    """An order and its reverse put either of the two last once, so some orders are as good as all."""
    words = [f"w{k}" for k in range(n)]
    found = shapley(words, score_of(lambda text: float({"w0", f"w{n - 1}"} <= set(text.split()))))
    expected = np.zeros(n)
    expected[[0, -1]] = 0.5
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_three_words_by_hand() -> None:
    """The textbook's glove game: a left glove, and two right ones; a pair is worth 1."""
    found = shapley(["left", "right", "other"], score_of(lambda text: float("left" in text and len(text) > 5)))
    np.testing.assert_allclose(found, [4 / 6, 1 / 6, 1 / 6], rtol=0, atol=1e-12)


@given(n=st.integers(0, 5), seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_the_subsets_give_the_mean_over_all_orders(n: int, seed: int) -> None:
    words, game = list(LETTERS[:n]), by_chance(seed)
    np.testing.assert_allclose(shapley(words, score_of(game)), over_all_orders(words, game), rtol=0, atol=1e-12)


@given(n=st.integers(0, 12), seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_the_contributions_add_up_to_the_whole_less_nothing(n: int, seed: int) -> None:
    words, game = list(LETTERS[:n]), by_chance(seed)
    assert shapley(words, score_of(game)).sum() == pytest.approx(game(" ".join(words)) - game(""), abs=1e-12)


@given(n=st.integers(2, EXACT_WORDS), seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=40)
def test_words_that_do_the_same_get_the_same(n: int, seed: int, data: st.DataObject) -> None:
    """A game that counts its words, and does not look at their order: a and b are alike."""
    words = list(LETTERS[:n])
    one, two = data.draw(st.permutations(range(n)))[:2]
    game = by_chance(seed)
    alike = {words[one]: "x", words[two]: "x"}
    found = shapley(words, score_of(lambda text: game(" ".join(sorted(alike.get(w, w) for w in text.split())))))
    assert found[one] == pytest.approx(found[two], abs=1e-12)


@pytest.mark.parametrize("n", [4, EXACT_WORDS, 10])
def test_a_word_that_does_nothing_gets_nothing(n: int) -> None:
    words, game = list(LETTERS[:n]), by_chance(7)
    found = shapley(words, score_of(lambda text: game(text.replace("c", "").replace("  ", " ").strip())))
    assert found[2] == pytest.approx(0, abs=1e-12)
    assert np.abs(found).max() > 0.01


@pytest.mark.parametrize("n", [9, 10, 13])
def test_some_orders_come_near_to_all(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game whose words wear off, as in a cosine: the score of k good words is k / (1 + k)."""
    words = list(LETTERS[:n])

    def game(text: str) -> float:
        weight = sum(1 / (1 + LETTERS.index(word)) for word in text.split())
        return weight / (1 + weight)

    asked = []
    some = shapley(words, lambda texts: asked.extend(texts) or score_of(game)(texts))
    assert len(asked) <= ORDERS * n
    monkeypatch.setattr("clickvec.explanation.contributions.EXACT_WORDS", n)
    exact = shapley(words, score_of(game))
    np.testing.assert_allclose(some, exact, rtol=0, atol=0.015)


def test_the_orders_are_the_same_at_every_run() -> None:
    words = list(LETTERS[:10])
    np.testing.assert_array_equal(shapley(words, score_of(by_chance(1))), shapley(words, score_of(by_chance(1))))


def test_every_word_is_added_at_every_place_equally_often() -> None:
    """In a game that pays for the place alone, all words get the same, though only some orders are tried."""
    found = shapley(list(LETTERS[:10]), score_of(lambda text: math.sqrt(len(text.split()))))
    np.testing.assert_allclose(found, math.sqrt(10) / 10, rtol=0, atol=1e-12)


# --- leave one out -----------------------------------------------------------------------------------------------


def test_leave_one_out_by_hand() -> None:
    worth = {"a b c": 0.75, "b c": 0.5, "a c": 1.0, "a b": 0.75}
    assert leave_one_out(["a", "b", "c"], score_of(worth.__getitem__)).tolist() == [0.25, -0.25, 0.0]
    assert leave_one_out([], score_of(worth.__getitem__)).shape == (0,)
    assert without_each(["a", "b", "c"]) == ["b c", "a c", "a b"]
    assert without_each(["a"]) == [""]
    assert without_each([]) == []


# --- the changes of the output, and what all methods share -------------------------------------------------------


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", READ)
def test_changes_add_up_to_the_score(name: str, pooling: str) -> None:
    encoder = encoder_of(name, pooling)
    for side, text in itertools.product(SIDES, TEXTS):
        other = other_of(encoder, side, QUERY)
        found = Side(encoder, side, text).contributions(other, "changes")
        assert found.sum() == pytest.approx(score_of_text(encoder, side, text, other), abs=1e-6)


@pytest.mark.parametrize(("name", "method"), CASES)
@pytest.mark.parametrize("side", SIDES)
def test_every_method_on_every_tower(name: str, method: str, side: str) -> None:
    encoder = encoder_of(name)
    other = other_of(encoder, side, QUERY)
    long = " ".join(itertools.islice(itertools.cycle(TITLE.split()), 200))
    for text in ("", "hotels", "zzz", "hotels zzz", "zzz qqq", *TEXTS, long):
        found = Side(encoder, side, text).contributions(other, method)
        tokens = split_tokens(text, 10)
        assert found.shape == (len(tokens),)
        assert found.dtype == np.float64
        assert np.isfinite(found).all()
        score = score_of_text(encoder, side, text, other)
        if method in ("shapley", "changes") or (method == "leave-one-out" and len(tokens) == 1):
            assert found.sum() == pytest.approx(score, abs=1e-6)
        if text in ("zzz", "zzz qqq"):  # no vector, so nothing to give
            np.testing.assert_allclose(found, 0, rtol=0, atol=1e-8)
    np.testing.assert_allclose(Side(encoder, side, TITLE).contributions(0 * other, method), 0, rtol=0, atol=1e-12)


@all_towers
def test_shapley_of_a_model_is_the_mean_over_all_orders(name: str) -> None:
    encoder, text = encoder_of(name), "hotels in new york"
    other = other_of(encoder, "title", QUERY)
    expected = over_all_orders(text.split(), lambda part: score_of_text(encoder, "title", part, other))
    np.testing.assert_allclose(Side(encoder, "title", text).contributions(other), expected, rtol=0, atol=1e-6)


@all_towers
def test_some_orders_of_a_real_title_come_near_to_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, text = encoder_of(name), "shanghai hotels accommodation hotel in york discount and reservation"
    other = other_of(encoder, "title", QUERY)
    some = Side(encoder, "title", text).contributions(other)
    monkeypatch.setattr("clickvec.explanation.contributions.EXACT_WORDS", 9)
    exact = Side(encoder, "title", text).contributions(other)
    assert np.abs(some - exact).mean() < 0.03
    assert np.corrcoef(some, exact)[0, 1] > 0.95


@all_towers
def test_leave_one_out_of_a_model(name: str) -> None:
    encoder, words = encoder_of(name), TITLE.split()
    other = other_of(encoder, "title", QUERY)
    whole = score_of_text(encoder, "title", TITLE, other)
    expected = [
        whole - score_of_text(encoder, "title", " ".join(words[:at] + words[at + 1 :]), other)
        for at in range(len(words))
    ]
    found = Side(encoder, "title", TITLE).contributions(other, "leave-one-out")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_more_words_than_an_integer_has_bits() -> None:
    """With max_words 100 a text of 70 words has 70 tokens; the model of one word decides what each word gives."""
    encoder = Encoder(tiny("lstm", max_words=100))
    text = " ".join(itertools.islice(itertools.cycle(" ".join(TEXTS[:6]).split()), 70))
    other = other_of(encoder, "title", QUERY)
    found = Side(encoder, "title", text).contributions(other)
    assert found.shape == (70,)
    assert found.sum() == pytest.approx(score_of_text(encoder, "title", text, other), abs=1e-6)
    assert np.abs(found).min() > 0


def test_a_model_that_reads_one_token() -> None:
    encoder = Encoder(tiny("lstm", max_words=1))
    other = other_of(encoder, "title", QUERY)
    for method in METHODS[:3]:
        found = Side(encoder, "title", TITLE).contributions(other, method)
        np.testing.assert_allclose(found, [score_of_text(encoder, "title", TITLE, other)], rtol=0, atol=1e-6)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ClickvecError, match=r"'Shapley'.*shapley, changes, leave-one-out"):
        Side(encoder_of("lstm"), "query", QUERY).contributions(np.zeros(7), "Shapley")
