"""Keywords: the paper's printed tables, the rule at its edges, and cells that are counted by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny

from clickvec.config import POOLINGS, RECURRENT
from clickvec.errors import ClickvecError
from clickvec.explanation.keywords import ACTIVE, Rule, detections, keywords, keywords_of, most_active, verdicts
from clickvec.explanation.reading import Reading, _direction, read
from clickvec.model.encoder import Encoder, Trace

LEFT, RIGHT = "left to right", "right to left"
READ = {name: fields for name, fields in TOWERS.items() if fields["kind"] in RECURRENT}

# --- the paper's tables ------------------------------------------------------------------------------------------

# Section V-A.2 and supplement IV: the words, those in red with a star; then the counts in each direction.
PRINTED = {
    "hotels in shanghai": (
        ["hotels*", "in", "shanghai*"],
        [None, 0, 7],
        [6, 0, None],
    ),
    "shanghai hotels accommodation ...": (
        ["shanghai*", "hotels*", "accommodation", "hotel*", "in", "shanghai", "discount*", "and", "reservation*"],
        [None, 4, 3, 8, 1, 8, 5, 3, 4],
        [4, 6, 5, 4, 5, 1, 7, 5, None],
    ),
    "how to fix bath tub ...": (
        ["how*", "to", "fix*", "bath*", "tub*", "wont", "turn*", "off"],
        [None, 0, 4, 7, 6, 3, 5, 0],
        [4, 1, 6, 7, 6, 7, 7, None],
    ),
    "how do you paint a bathtub ...": (
        ["how", "do", "you", "paint*", "a", "bathtub*", "and", "what", "paint*", "should you ..."],
        [None, 1, 1, 7, 0, 9, 2, 3, 8, 4],
        [5, 9, 5, 4, 8, 4, 5, 5, 9, None],
    ),
}
# The two words that the paper leaves black against its own rule: "how" with 5 cells in the only direction that can
# speak (the "how" of the query is red with 4), and "should you ..." with 4 (so many make "reservation" red).
EXCEPTIONS = {"how do you paint a bathtub ...": {"how", "should you ..."}}


@pytest.mark.parametrize("text", PRINTED)
def test_the_counts_that_the_paper_prints_give_its_red_words(text: str) -> None:
    words, left_to_right, right_to_left = PRINTED[text]
    found = verdicts({LEFT: left_to_right, RIGHT: right_to_left})
    assert None not in found  # between them the two directions speak of every word
    for word, verdict in zip(words, found, strict=True):
        expected = word.endswith("*") or word in EXCEPTIONS.get(text, ())
        assert verdict is expected, word


def test_the_paper_has_two_exceptions_and_no_more() -> None:
    against = [
        word
        for words, left_to_right, right_to_left in PRINTED.values()
        for word, verdict in zip(words, verdicts({LEFT: left_to_right, RIGHT: right_to_left}), strict=True)
        if verdict != word.endswith("*")
    ]
    assert against == ["how", "should you ..."]


# Supplement II: an RNN and an LSTM-RNN that read from left to right; the words of the tables above.
ONE_WAY = {
    "hotels in shanghai": [None, 2, 9],
    "shanghai hotels accommodation ...": [None, 10, 7, 9, 6, 8, 3, 2, 6],
    "how to fix bath tub ...": [None, 1, 10, 4, 6, 2, 7, 1],
    "how do you paint a bathtub ...": [None, 1, 4, 4, 3, 7, 2, 5, 4, 7],
}


@pytest.mark.parametrize(
    ("text", "lstm", "rnn"),
    [
        ("hotels in shanghai", "shanghai", "shanghai"),
        (
            "shanghai hotels accommodation ...",
            "hotels hotel shanghai discount reservation",
            "hotels accommodation hotel in shanghai reservation",
        ),
        ("how to fix bath tub ...", "fix bath tub turn", "fix bath tub turn"),
        (
            "how do you paint a bathtub ...",
            "paint bathtub paint should you ...",
            "you paint bathtub what paint should you ...",
        ),
    ],
)
def test_the_tables_of_supplement_2(text: str, lstm: str, rnn: str) -> None:
    """One direction: no verdict on the first word, and the RNN's keywords among function words."""
    words, by_lstm, _ = PRINTED[text]
    for counts, expected in ((by_lstm, lstm), (ONE_WAY[text], rnn)):
        found = verdicts({LEFT: counts})
        assert found[0] is None
        red = [word.rstrip("*") for word, verdict in zip(words, found, strict=True) if verdict]
        assert " ".join(red) == expected


# --- the vote ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "active", "share", "expected"),
    [
        (4, 10, 0.4, True),
        (3, 10, 0.4, False),
        (3, 7, 0.4, True),  # 2.8 of 7
        (2, 7, 0.4, False),
        (3, 10, 0.3, True),
        (7, 10, 0.7, True),
        (6, 10, 0.7, False),
        (1, 1, 1.0, True),
        (0, 1, 0.4, False),
        (10, 10, 1.0, True),
        (9, 10, 1.0, False),
    ],
)
def test_the_share_of_the_cells(count: int, active: int, share: float, expected: bool) -> None:
    assert verdicts({LEFT: [None, count]}, active, share) == (None, expected)


def test_no_share_is_missed_by_rounding() -> None:
    for active in range(1, 33):
        for count in range(1, active + 1):
            for share in (count / active, count * (1 / active)):
                assert verdicts({LEFT: [count]}, active, min(share, 1.0)) == (True,)
                assert verdicts({LEFT: [count - 1]}, active, min(share, 1.0)) == (False,)


def test_both_directions_must_agree_where_both_can_speak() -> None:
    assert verdicts({LEFT: [None, 4, 4, 3, 4], RIGHT: [4, 4, 3, 4, None]}) == (True, True, False, False, True)


def test_where_no_direction_can_speak_there_is_no_verdict() -> None:
    assert verdicts({LEFT: [None]}) == (None,)
    assert verdicts({LEFT: [None], RIGHT: [None]}) == (None,)
    assert verdicts({}) == ()


@given(
    counts=st.lists(st.tuples(st.none() | st.integers(0, 10), st.none() | st.integers(0, 10)), max_size=8),
    share=st.floats(0.05, 1.0),
)
def test_more_cells_never_make_a_word_less_of_a_keyword(
    counts: list[tuple[int | None, int | None]], share: float
) -> None:
    def at(more: int) -> dict[str, list[int | None]]:
        return {
            LEFT: [None if one is None else min(one + more, 10) for one, _ in counts],
            RIGHT: [None if two is None else min(two + more, 10) for _, two in counts],
        }

    for before, after in zip(verdicts(at(0), 10, share), verdicts(at(1), 10, share), strict=True):
        assert (before is None) == (after is None)
        assert not before or after


# --- cells -------------------------------------------------------------------------------------------------------


def reading_of(left: Any, right: Any = None, words: tuple[str, ...] | None = None, pooling: str = "last") -> Reading:  # noqa: ANN401
    """A text that was read with these outputs, (words, cells), in the order of the text."""
    values = {"forward.output": np.array(left, np.float64)}
    if right is not None:
        values["backward.output"] = np.array(right, np.float64)[::-1]
    last = np.concatenate([outputs[-1] for outputs in values.values()])
    trace = Trace(words or tuple("abcdefghij"[: len(left)]), values, last / np.linalg.norm(last))
    ways = ((LEFT, "forward."), (RIGHT, "backward."))[: len(values)]
    return Reading(trace.tokens, tuple(_direction(trace, *way, pooling) for way in ways), trace.vector)


def test_one_direction_by_hand() -> None:
    """Four cells end at 1, -0.5, 0.25 and 0; an equal share of four words is a quarter of that,
    and at two shares they need changes of 0.5, 0.25 and 0.125 to detect a word.
    """
    outputs = [
        # cell: 0      1      2     3
        [0.125, 0.0, 0.25, 0.5],  # read first: nothing is counted
        [0.625, -0.25, 0.375, 1.0],  # changes: 0.5, -0.25, 0.125, 0.5
        [0.5, -0.375, 0.0, 1.0],  # -0.125, -0.125, -0.375, 0
        [1.0, -0.5, 0.25, 0.0],  # 0.5, -0.125, 0.25, -1
    ]
    found = keywords_of(reading_of(outputs), rule=Rule(active=3, threshold=2, share=0.6))
    assert found.words == ("a", "b", "c", "d")
    assert found.active == 3
    assert found.cells == {LEFT: ((), (0, 1, 2), (2,), (0, 2))}
    assert found.counts == {LEFT: (None, 3, 1, 2)}
    assert found.verdicts == (None, True, False, True)
    assert [word for word, verdict in zip(found.words, found.verdicts, strict=True) if verdict] == ["b", "d"]
    # Cell 3 votes when all may, and detects nothing: it ends at zero.
    everyone = keywords_of(reading_of(outputs), rule=Rule(active=10, threshold=2, share=0.6))
    assert everyone.active == 4
    assert everyone.cells == found.cells
    assert everyone.verdicts == (None, True, False, False)  # 2 of 4 are less than 0.6
    # The two most active cells alone.
    two = keywords_of(reading_of(outputs), rule=Rule(active=2, threshold=2, share=1.0))
    assert two.cells == {LEFT: ((), (0, 1), (), (0,))}
    assert two.verdicts == (None, True, False, False)


def test_two_directions_by_hand() -> None:
    """From right to left c is read first, then b, then a; the changes are from the word behind."""
    left = [[0.5, 0.5], [1.0, 0.5], [1.0, 1.0]]
    right = [[2.0, 0.5], [1.0, 0.5], [0.5, 0.25]]
    found = keywords_of(reading_of(left, right), rule=Rule(active=1, threshold=0.75, share=1.0))
    assert found.cells == {LEFT: ((), (0,), ()), RIGHT: ((0,), (0,), ())}
    assert found.counts == {LEFT: (None, 1, 0), RIGHT: (1, 1, None)}
    assert found.verdicts == (True, True, False)
    assert [word for word, verdict in zip(found.words, found.verdicts, strict=True) if verdict] == ["a", "b"]


def test_each_direction_has_its_own_most_active_cells() -> None:
    left = [[0.0, 0.0, 0.0], [0.125, 0.5, 1.0]]
    right = [[2.0, 4.0, 0.25], [0.0, 0.0, 0.0]]
    found = keywords_of(reading_of(left, right), rule=Rule(active=2, threshold=1))
    assert found.cells == {LEFT: ((), (2, 1)), RIGHT: ((1, 0), ())}


def test_a_change_of_just_the_threshold_is_enough() -> None:
    changes, embedding = np.array([[0.25, -0.25], [0.25 - 1e-12, 0.3]]), np.array([1.0, -1.0])
    assert detections(changes, embedding, 4).tolist() == [[True, True], [False, True]]
    assert detections(changes, embedding, 1, 0.25).tolist() == [[True, True], [False, True]]
    assert not detections(np.array([[0.5], [0.0]]), np.zeros(1), 2).any()


def test_a_longer_text_needs_less_at_each_word() -> None:
    """Of ten words that give the same to a cell, all but the first are detected; so they are of two."""
    for words in (2, 10):
        found = keywords_of(reading_of([[(at + 1) / words * 8] for at in range(words)]), rule=Rule(threshold=1 - 1e-9))
        assert found.counts[LEFT] == (None, *[1] * (words - 1))


def test_the_most_active_cells_are_those_of_the_greatest_magnitude() -> None:
    assert most_active(np.array([0.1, -0.9, 0.5, 0.9, 0.0]), 3).tolist() == [1, 3, 2]
    assert most_active(np.array([0.1, -0.9]), 10).tolist() == [1, 0]


def test_pooled_outputs_are_judged_by_what_embeds() -> None:
    """The outputs 1, 3 and -1 change by 1, 2 and -4. Their mean, 1, has 1, 2/3 and 1/3 of that; their max, 3, no -4."""
    outputs = [[1.0], [3.0], [-1.0]]
    assert keywords_of(reading_of(outputs, pooling="mean"), rule=Rule(threshold=3.99)).cells == {LEFT: ((), (0,), (0,))}
    assert keywords_of(reading_of(outputs, pooling="mean"), rule=Rule(threshold=4.01)).cells == {LEFT: ((), (), ())}
    assert keywords_of(reading_of(outputs, pooling="max"), rule=Rule(threshold=2)).cells == {LEFT: ((), (0,), ())}
    assert keywords_of(reading_of(outputs, pooling="last"), rule=Rule(threshold=6)).cells == {LEFT: ((), (0,), (0,))}


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", READ)
def test_the_words_that_are_read_first_are_never_counted(name: str, pooling: str) -> None:
    encoder = Encoder(tiny(**READ[name], pooling=pooling))
    for text in TEXTS:
        found, last = keywords(encoder, text, "title", rule=Rule(threshold=1e-9)), len(text.split()) - 1
        assert list(found.counts) == ([LEFT, RIGHT] if name.startswith("bilstm") else [LEFT])
        for way, counts in found.counts.items():
            first = 0 if way == LEFT else min(last, 9)
            assert [place for place, count in enumerate(counts) if count is None] == [first]
            assert found.cells[way][first] == ()
        for way, cells in found.cells.items():
            assert [len(row) for row in cells] == [count or 0 for count in found.counts[way]]
            assert all(len(set(row)) == len(row) for row in cells)


@pytest.mark.parametrize("name", READ)
def test_one_word_and_none(name: str) -> None:
    encoder = Encoder(tiny(**READ[name]))
    alone = keywords(encoder, "hotels")
    assert set(alone.counts.values()) == {(None,)}
    assert alone.verdicts == (None,)
    assert [word for word, verdict in zip(alone.words, alone.verdicts, strict=True) if verdict] == []
    nothing = keywords(encoder, " ")
    assert (nothing.words, nothing.counts, nothing.cells, nothing.verdicts) == ((), {}, {}, ())


@pytest.mark.parametrize("name", READ)
def test_a_text_without_a_known_trigram_has_no_keyword(name: str) -> None:
    """Its outputs change from word to word by the biases alone, and the encoder gives it no vector."""
    found = keywords(Encoder(tiny(**READ[name])), "zzz qqq xxx", rule=Rule(threshold=1e-6))
    assert all(not count for counts in found.counts.values() for count in counts)
    assert not any(found.verdicts)


def test_fewer_than_ten_cells_all_vote() -> None:
    found = keywords(Encoder(tiny("lstm")), TEXTS[1], "title")
    assert found.active == 7 < ACTIVE
    assert found.verdicts == (None, *(count >= 3 for count in found.counts[LEFT][1:]))


def test_sides_have_their_own_towers() -> None:
    encoder = Encoder(tiny("bilstm"))
    assert keywords(encoder, TEXTS[1]) == keywords(encoder, TEXTS[1], "query") != keywords(encoder, TEXTS[1], "title")
    assert keywords(encoder, TEXTS[1], "title") == keywords_of(read(encoder, "title", TEXTS[1]))


@given(
    outputs=st.integers(1, 6).flatmap(
        lambda words: st.lists(
            st.lists(st.integers(-8, 8), min_size=words, max_size=words), min_size=5, max_size=5
        )  # five cells, each with an output at each word
    ),
    order=st.permutations(range(5)),
    active=st.integers(1, 5),
)
def test_renaming_the_cells_renames_them_in_the_result(outputs: list[list[int]], order: list[int], active: int) -> None:
    # A little more for each cell, so that no two end at the same magnitude and there is one order of activity.
    values = np.array(outputs, np.float64).T + np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    one = keywords_of(reading_of(values), rule=Rule(active=active, threshold=0.5))
    other = keywords_of(reading_of(values[:, order]), rule=Rule(active=active, threshold=0.5))
    assert one.counts == other.counts
    assert one.verdicts == other.verdicts
    assert one.cells[LEFT] == tuple(tuple(order[cell] for cell in row) for row in other.cells[LEFT])


@given(scale=st.sampled_from([-4.0, -1.0, 0.25, 2.0]), threshold=st.sampled_from([0.1, 0.3, 1.0]))
def test_the_scale_and_the_sign_of_a_cell_do_not_matter(scale: float, threshold: float) -> None:
    values = np.random.default_rng(0).normal(size=(6, 4))
    assert keywords_of(reading_of(values), rule=Rule(threshold=threshold)) == keywords_of(
        reading_of(scale * values), rule=Rule(threshold=threshold)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"active": 0},
        {"threshold": 0.0},
        {"threshold": -1.0},
        {"threshold": float("nan")},
        {"share": 0.0},
        {"share": 1.1},
        {"share": float("nan")},
    ],
)
def test_settings_that_mean_nothing(wrong: dict[str, Any]) -> None:
    (name, value), *_ = wrong.items()
    with pytest.raises(ClickvecError, match=rf"{name}.*not .*{value}") as error:
        keywords(Encoder(tiny("lstm")), TEXTS[0], rule=Rule(**wrong))
    assert "\n" not in str(error.value)
