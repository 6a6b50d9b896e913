"""Why a title is not first: against a model worked by hand, all edits tried one by one, and what must always hold."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny

from clickvec.config import Tower
from clickvec.errors import ClickvecError
from clickvec.explanation import METHODS, Pair, explain
from clickvec.explanation.why_not import EDITS, WORDS, WhyNot
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_words

QUERY, FIRST = TEXTS[0], TEXTS[1]
TITLE = "cheap paint in new york what guide"
LONG = " ".join(f"word{number} hotels" for number in range(100))
POOLED = {
    f"{kind}-{pooling}": {"kind": kind, "pooling": pooling} for kind in ("rnn", "bilstm") for pooling in ("mean", "max")
}
ENCODERS = {name: Encoder(tiny(**fields)) for name, fields in (TOWERS | POOLED).items()}

every_tower = pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS.keys())


def explain_pair(encoder: Encoder, query: str, title: str, **more: object) -> Pair:
    return explain(encoder, query, title, **more).pair


def why_not_of(encoder: Encoder, query: str, title: str, first: str, **more: object) -> WhyNot:
    found = explain(encoder, query, title, first, **more).why_not
    assert found
    return found


def score(encoder: Encoder, query: str, title: str) -> float:
    return float(encoder.encode_query(query).astype(float) @ encoder.encode_document(title).astype(float))


def by_hand() -> Encoder:
    """A bag of the words a, b and c: each has a direction of its own, so that a cosine is a matter of counting."""
    weights = {
        "shared.layer1.input": np.eye(3, dtype=np.float32), "shared.layer1.bias": np.zeros(3, np.float32),
        "shared.layer2.weight": np.eye(3, dtype=np.float32), "shared.layer2.bias": np.zeros(3, np.float32),
    }  # fmt: skip
    return Encoder(folder.Model(Tower("dssm", hidden=3, output=3), True, 10, ("#a#", "#b#", "#c#"), weights, {}))


# --- by hand -----------------------------------------------------------------------------------------------------


def test_an_example_worked_by_hand() -> None:
    """Query a; the title b c scores 0, the first a b 1/√2. A title with a and another word is no better than that."""
    found = why_not_of(by_hand(), "a", "b c", "a b")
    half, third = 1 / math.sqrt(2), 1 / math.sqrt(3)
    assert found.gap == pytest.approx(half, abs=1e-6)
    assert [(share.word, share.title) for share in found.words] == [("a", 0.0)]
    assert found.words[0].difference == pytest.approx(half, abs=1e-6)
    assert [part.word for part in found.missing] == ["a"]  # the first title's b takes score away
    assert found.burdens == ()
    tried = [(edit.kind, edit.out, edit.put, edit.title) for edit in found.edits]
    assert tried == [
        ("replace", "b", "a", "a c"), ("add", None, "a", "b c a"), ("leave out", "b", None, "c"),
        ("leave out", "c", None, "b"),
    ]  # fmt: skip
    assert [edit.score for edit in found.edits] == pytest.approx([half, third, 0, 0], abs=1e-6)
    assert [edit.title for edit in found.path] == ["a c", "a"]  # one that equals the first does not pass it
    assert [edit.score for edit in found.path] == pytest.approx([half, 1], abs=1e-6)
    assert [edit.change for edit in found.path] == pytest.approx([half, 1 - half], abs=1e-6)
    assert found.reached


def test_words_that_cost_score_by_hand() -> None:
    """Query a: the title a b c has 1/√3, and each of b and c takes a share of the rest; a itself gives most."""
    found = why_not_of(by_hand(), "a", "a b c", "a")
    assert [part.word for part in found.burdens] == ["b", "c"]
    given = [word.contribution for word in found.title.title_words]
    assert sum(given) == pytest.approx(1 / math.sqrt(3), abs=1e-6)
    assert [part.contribution for part in found.burdens] == pytest.approx(given[1:], abs=1e-9)
    assert found.missing == ()
    assert [edit.title for edit in found.path] == ["a c", "a"]
    assert not found.reached  # the same words score the same, and there is nothing better than 1


# --- what it says is true ----------------------------------------------------------------------------------------


@every_tower
def test_the_differences_add_up_to_the_gap(encoder: Encoder) -> None:
    found = why_not_of(encoder, QUERY, TITLE, FIRST)
    assert found.title == explain_pair(encoder, QUERY, TITLE)
    assert found.first == explain_pair(encoder, QUERY, FIRST)
    assert found.gap == found.first.score - found.title.score
    assert sum(share.difference for share in found.words) == pytest.approx(found.gap, abs=1e-6)


@every_tower
def test_every_edit_is_there_once_and_scores_what_it_says(encoder: Encoder) -> None:
    found = why_not_of(encoder, QUERY, TITLE, FIRST)
    words = TITLE.split()
    fresh = [word for word in dict.fromkeys([*QUERY.split(), *FIRST.split()]) if word not in words]
    worst = int(np.argmin([word.contribution for word in found.title.title_words]))
    expected = {" ".join(words[:at] + words[at + 1 :]) for at in range(len(words))}
    expected |= {f"{TITLE} {word}" for word in fresh}
    expected |= {" ".join([*words[:worst], word, *words[worst + 1 :]]) for word in fresh}
    assert sorted(edit.title for edit in found.edits) == sorted(expected)
    assert [edit.score for edit in found.edits] == sorted((edit.score for edit in found.edits), reverse=True)
    for edit in found.edits:
        assert edit.score == pytest.approx(score(encoder, QUERY, edit.title), abs=1e-6)
        assert edit.change == pytest.approx(edit.score - found.title.score, abs=1e-9)


@every_tower
def test_the_path_takes_the_best_edit_each_time(encoder: Encoder) -> None:
    found = why_not_of(encoder, QUERY, *sorted((TITLE, FIRST), key=lambda title: score(encoder, QUERY, title)))
    assert found.gap > 0
    assert found.path[0] == found.edits[0]
    last = found.title.score
    for at, edit in enumerate(found.path):
        assert edit.score > last
        assert edit.change == pytest.approx(edit.score - last, abs=1e-9)
        assert edit.score == pytest.approx(score(encoder, QUERY, edit.title), abs=1e-6)
        assert edit.score <= found.first.score + 1e-6 or at == len(found.path) - 1
        last = edit.score
    assert found.reached == (last > found.first.score + 1e-6)
    assert len(found.path) <= EDITS


def test_each_round_is_one_batch_of_few_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(tiny("lstm"))
    explain_pair(encoder, QUERY, TITLE)
    batches: list[int] = []
    encode = Encoder.encode_document

    def counting(self: Encoder, titles: Any, **options: Any) -> Any:  # noqa: ANN401
        batches.append(len(titles))
        return encode(self, titles, **options)

    monkeypatch.setattr(Encoder, "encode_document", counting)
    one, other = (explain_pair(encoder, QUERY, title) for title in (TITLE, FIRST))
    explaining, batches[:] = len(batches), []
    worse, better = (TITLE, FIRST) if one.score < other.score else (FIRST, TITLE)
    found = why_not_of(encoder, QUERY, worse, better)
    rounds = batches[explaining:]
    assert len(rounds) == len(found.path)  # the single edits are the first round
    assert max(rounds) <= 2 * WORDS + 10 + EDITS


def test_the_query_is_read_once_for_both_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, asked = Encoder(tiny("lstm")), list[str]()
    encode = Encoder.encode_query

    def counting(self: Encoder, queries: Any, **options: Any) -> Any:  # noqa: ANN401
        asked.extend(queries)
        return encode(self, queries, **options)

    monkeypatch.setattr(Encoder, "encode_query", counting)
    why_not_of(encoder, QUERY, TITLE, FIRST)
    assert len(asked) == len(set(asked)) == 2 ** len(QUERY.split())


def test_the_words_tried_are_few_however_long_the_first_title_is() -> None:
    encoder = ENCODERS["lstm"]
    found = why_not_of(encoder, QUERY, TITLE, LONG)
    put = {edit.put for edit in found.edits if edit.put}
    assert len(put) == WORDS
    assert set(QUERY.split()) - set(TITLE.split()) <= put
    assert all(" " not in word for word in put)


# --- nothing to explain ------------------------------------------------------------------------------------------


@every_tower
def test_a_title_that_is_not_behind_has_no_path(encoder: Encoder) -> None:
    for title, first in ((FIRST, FIRST), (FIRST.upper(), f"  {FIRST} ")):
        found = why_not_of(encoder, QUERY, title, first)
        assert (found.gap, found.path, found.reached) == (0.0, (), True)
        assert found.missing == ()
        assert {share.difference for share in found.words} == {0.0}
    worse, better = sorted((TITLE, FIRST), key=lambda title: score(encoder, QUERY, title))
    ahead = why_not_of(encoder, QUERY, better, worse)
    assert ahead.gap < 0
    assert (ahead.path, ahead.reached) == ((), True)
    assert ahead.edits


@every_tower
@pytest.mark.parametrize("query", [QUERY, "", "лев", "a\u0000b"])
@pytest.mark.parametrize(("title", "first"), [("", FIRST), (FIRST, ""), ("", ""), ("東京 都", FIRST), (LONG, FIRST)])
def test_texts_of_every_kind(encoder: Encoder, query: str, title: str, first: str) -> None:
    found = why_not_of(encoder, query, title, first)
    check(found, encoder)
    if not encoder.encode_query(query).any():
        assert (found.gap, found.path, found.reached) == (0.0, (), True)


def test_the_last_token_of_a_long_title_is_one_word_of_it() -> None:
    found = why_not_of(ENCODERS["lstm"], QUERY, LONG, "in")
    last = found.title.title_words[-1].word
    assert len(last.split()) == 191
    without = next(edit for edit in found.edits if edit.out == last and edit.kind == "leave out")
    assert without.title == " ".join(LONG.split()[:9])


def check(found: WhyNot, encoder: Encoder) -> None:
    """What holds for any texts."""
    numbers = [found.gap, *(edit.score for edit in (*found.edits, *found.path))]
    assert np.isfinite(numbers).all()
    assert sum(share.difference for share in found.words) == pytest.approx(found.gap, abs=1e-5)
    assert all(-1.001 <= edit.score <= 1.001 for edit in found.edits)
    assert found.reached or found.gap > 0
    assert found.gap > 0 or not found.path
    assert len({edit.title for edit in found.edits}) == len(found.edits)
    has = set(split_words(found.title.title))
    assert all(part.contribution > 0 and not set(part.word.split()) <= has for part in found.missing)
    assert all(part.contribution < 0 for part in found.burdens)
    assert all(edit.put not in has for edit in found.edits)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["gap"] == found.gap
    if found.path:
        assert found.path[-1].score == pytest.approx(score(encoder, found.title.query, found.path[-1].title), abs=1e-5)


texts = st.lists(
    st.sampled_from([*" ".join(TEXTS).split(), "ёж", "\x1b[31m", "Hotels", "x"]), max_size=13
).map(" ".join)  # fmt: skip


@settings(max_examples=60)
@given(name=st.sampled_from(sorted(ENCODERS)), query=texts, title=texts, first=texts)
def test_any_texts(name: str, query: str, title: str, first: str) -> None:
    check(why_not_of(ENCODERS[name], query, title, first), ENCODERS[name])


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str) -> None:
    found = why_not_of(ENCODERS["bilstm"], QUERY, TITLE, FIRST, method=method)
    assert found.title.method == found.first.method == method
    given = [word.contribution for word in found.first.query_words]
    assert [share.first for share in found.words] == given


def test_a_method_that_is_none_or_that_the_tower_has_not() -> None:
    with pytest.raises(ClickvecError, match=r"'guess'.*shapley"):
        why_not_of(ENCODERS["lstm"], QUERY, TITLE, FIRST, method="guess")
    with pytest.raises(ClickvecError, match=r"DSSM.*--tower rnn or lstm"):
        why_not_of(ENCODERS["dssm"], QUERY, TITLE, FIRST, method="changes")


# --- models side by side -----------------------------------------------------------------------------------------
