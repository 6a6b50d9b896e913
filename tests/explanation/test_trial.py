"""Highlighted hits, and titles that are tried out: what adds up, and the rank that the title really gets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny

from clickvec.explanation import explain, explainer, highlight, try_out
from clickvec.model.encoder import Encoder
from clickvec.search.index import Index
from clickvec.text.tokens import split_tokens

ENCODERS = {name: Encoder(tiny(**fields)) for name, fields in TOWERS.items()}
INDEX = Index.build(ENCODERS["lstm"], titles=TEXTS, ids=[f"t{at}" for at in range(len(TEXTS))])
QUERIES = ("hotels in shanghai", "new york hotel", "bathtub", "cafe", "上海", "zzz", "hotles")
EDITED = "Hotels & cheap flights: New York!"


@pytest.mark.parametrize("name", TOWERS)
@pytest.mark.parametrize("query", QUERIES)
def test_the_words_of_a_hit_add_up_to_its_parts(name: str, query: str) -> None:
    index = Index.build(ENCODERS[name], [*TEXTS, EDITED, "one two  three four five six seven eight nine TEN eleven"])
    hits = index.search(query, k=20)
    for hit, words in zip(hits, highlight(index.view(), query, [hit.title for hit in hits]), strict=True):
        assert " ".join(word.text for word in words) == " ".join(hit.title.split())
        assert sum(word.cosine for word in words) == pytest.approx(hit.parts["cosine"], abs=2e-3)  # of stored vectors
        assert sum(word.bm25 for word in words) == pytest.approx(hit.parts["bm25"], abs=1e-4)


@pytest.mark.parametrize("query", QUERIES)
def test_the_words_of_a_title_that_is_kept_have_the_contributions_of_its_explanation(query: str) -> None:
    for _ in range(2):  # computed, then kept
        for at, words in enumerate(highlight(INDEX.view(), query, TEXTS)):
            found = explain(INDEX, query, f"t{at}")
            expected = [word.contribution for word in found.title_words]
            assert [word.cosine for word in words] == pytest.approx(expected, abs=1e-6)


def test_words_are_marked_in_the_spelling_of_the_title() -> None:
    (words,) = highlight(INDEX.view(), "hotel new", [EDITED])
    assert [word.text for word in words if word.bm25] == ["Hotels", "New"]
    (words,) = highlight(INDEX.view(), "hotles", [EDITED])  # no title has it, so it stands for a similar word
    assert [word.text for word in words if word.bm25] == ["Hotels"]


@given(st.text(max_size=40), st.text(max_size=60))
def test_any_text_is_highlighted_and_tried_out(query: str, title: str) -> None:
    (words,) = highlight(INDEX.view(), query, [title])
    trial = try_out(INDEX, query, title)
    assert [word.word for word in trial.title_words] == split_tokens(title, 10)
    assert len(words) == len(trial.title_words)
    assert np.isfinite([trial.cosine, trial.fused.score, *(word.cosine for word in trial.title_words)]).all()


@pytest.mark.parametrize("query", QUERIES)
def test_a_title_of_the_index_has_the_rank_of_its_explanation(query: str) -> None:
    for at, text in enumerate(TEXTS):
        trial, found = try_out(INDEX, query, text, f"t{at}"), explain(INDEX, query, f"t{at}")
        assert trial.rank == found.rank
        assert trial.cosine == pytest.approx(found.pair.score, abs=1e-6)
        assert [word.contribution for word in trial.title_words] == pytest.approx(
            [word.contribution for word in found.title_words], abs=1e-6
        )


@pytest.mark.parametrize("query", QUERIES)
def test_without_an_id_a_title_is_not_ranked_behind_itself(query: str) -> None:
    for at, text in enumerate(TEXTS):
        expected = explain(INDEX, query, f"t{at}").rank
        assert try_out(INDEX, query, text).rank == expected
        assert try_out(INDEX, query, f" {text.upper()} ").rank == expected
    assert try_out(INDEX, query, "t3").rank.id is None  # an id is no title


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("at", range(len(TEXTS)))
def test_an_edited_title_has_the_rank_that_it_gets_when_it_replaces_the_old_one(query: str, at: int) -> None:
    texts = [text for text in TEXTS if text != TEXTS[at]]
    replaced = Index.build(ENCODERS["lstm"], titles=[*texts, EDITED], ids=[*map(str, range(len(texts))), "new"])
    trial, expected = try_out(INDEX, query, EDITED, f"t{at}"), explain(replaced, query, "new")
    assert expected.rank
    assert trial.rank.by["vectors"] == expected.rank.by["vectors"]
    old = explain(INDEX, query, f"t{at}").fused
    if old and not old.part("words").value:  # otherwise the old title tells how rare a word is
        assert trial.rank.rank == expected.rank.rank
    assert trial.rank.id is None


def test_a_large_index_ranks_a_text_among_its_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {query: try_out(INDEX, query, EDITED).rank.rank for query in QUERIES}
    monkeypatch.setattr(explainer, "RANKED_TITLES", 0)
    for query, rank in exact.items():
        found = try_out(INDEX, query, EDITED).rank
        assert found.rank in (rank, None)
        assert (found.depth is None) == (found.rank is not None)


@pytest.mark.parametrize("name", TOWERS)
def test_the_cosine_after_the_last_word_is_the_cosine(name: str) -> None:
    index = Index.build(ENCODERS[name], TEXTS)
    trial = try_out(index, TEXTS[0], TEXTS[1])
    for words in (trial.query_words, trial.title_words):
        assert words[-1].cosine == pytest.approx(trial.cosine, abs=1e-5)
        assert sum(word.contribution for word in words) == pytest.approx(trial.cosine, abs=1e-5)
    assert words[0].cosine == pytest.approx(try_out(index, TEXTS[0], "shanghai").cosine, abs=1e-5)
    assert (trial.title_reading is None) == (name in ("dssm", "clsm"))


def test_empty_texts_have_no_words_and_no_score() -> None:
    trial = try_out(INDEX, "", "")
    assert (trial.cosine, trial.query_words, trial.title_words, trial.rank.rank) == (0, (), (), None)
