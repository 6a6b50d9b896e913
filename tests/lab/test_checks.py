"""The checks over whole judged sets: what they count, by hand on small models."""

import numpy as np
import pytest
from tiny import TEXTS, tiny

from clickvec.data import JudgedQuery
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.explanation import Rule, keywords
from clickvec.explanation.side import Side
from clickvec.lab.claims.checks import SHARES, attenuation_check, deletion_check, keyword_check
from clickvec.model.encoder import Encoder

ENGLISH = TEXTS[:6]


def judged_set() -> list[JudgedQuery]:
    """Every text as a query, with all of them as titles: its own is the best, the next one fair."""
    grades = np.eye(6, dtype=np.int64) * 2 + np.eye(6, k=1, dtype=np.int64)
    ids = tuple(f"t{place}" for place in range(6))
    return [JudgedQuery(f"q{at}", text, ids, ENGLISH, grades[at]) for at, text in enumerate(ENGLISH)]


def ndcg(encoder: Encoder, query: JudgedQuery, text: str) -> float:
    return evaluate([Neural(encoder, "model")], [query._replace(query=text)]).mean("model", "NDCG@10")


@pytest.fixture
def bilstm() -> Encoder:
    return Encoder(tiny("bilstm", shared_tower=True))


# --- keywords ----------------------------------------------------------------------------------------------------


def test_keywords_are_left_out_and_as_many_others(bilstm: Encoder) -> None:
    check = keyword_check(bilstm, judged_set(), threshold=5, draws=2)
    found = {query.query_id: keywords(bilstm, query.query, rule=Rule(threshold=5)) for query in judged_set()}
    left_out = 0
    for query in judged_set():
        verdicts = found[query.query_id].verdicts
        both = min(verdicts.count(True), verdicts.count(False))
        assert (query.query_id in check.query_ids) == (both > 0)
        left_out += both
    assert check.words_left_out == left_out > 0
    judged = [verdict for one in found.values() for verdict in one.verdicts if verdict is not None]
    assert check.share == pytest.approx(np.mean(judged))
    by_id = {query.query_id: query for query in judged_set()}
    for at, query_id in enumerate(check.query_ids):
        query = by_id[query_id]
        assert check.whole[at] == pytest.approx(ndcg(bilstm, query, query.query))
        verdicts = found[query_id].verdicts
        if verdicts.count(True) <= verdicts.count(False):  # then all keywords go, whatever is drawn
            rest = [word for word, verdict in zip(found[query_id].words, verdicts, strict=True) if not verdict]
            assert check.without_keywords[at] == pytest.approx(ndcg(bilstm, query, " ".join(rest)))
    assert check.fall == pytest.approx(check.without_others - check.without_keywords)
    assert check.without_first == {}


def test_as_many_keywords_as_there_are_others_and_baselines_by_their_own_order(
    monkeypatch: pytest.MonkeyPatch, bilstm: Encoder
) -> None:
    """Three keywords and one other word: one of the three goes, drawn anew each time; the rarest; the longest."""
    from clickvec.explanation.keywords import Keywords
    from clickvec.lab.claims import checks

    counts = {"left to right": (None, 5, 9, 0), "right to left": (4, 9, 9, None)}
    given = Keywords(("cheap", "new", "york", "city"), 10, counts, {}, (True, True, True, False))
    monkeypatch.setattr(checks, "keywords_of", lambda *_, **__: given)
    query = judged_set()[5]._replace(query="cheap new york city")
    often = {"cheap": 3, "new": 2, "york": 5, "city": 9}
    baselines = {"rarest": lambda word: -often[word], "longest": len}
    check = keyword_check(bilstm, [query], baselines=baselines, draws=300)
    each = [ndcg(bilstm, query, text) for text in ("new york city", "cheap york city", "cheap new city")]
    assert check.words_left_out == 1
    assert check.without_keywords == pytest.approx([np.mean(each)], abs=3)
    assert check.without_others == pytest.approx([ndcg(bilstm, query, "cheap new york")])
    assert check.without_first["rarest"] == pytest.approx([each[1]])
    assert check.without_first["longest"] == pytest.approx([each[0]])
    assert check.share == 0.75


def test_nothing_to_leave_out_is_no_error(bilstm: Encoder) -> None:
    one_word = judged_set()[0]._replace(query="hotels")
    check = keyword_check(bilstm, [one_word])
    assert (check.query_ids, check.words_left_out, check.share) == ((), 0, 0.0)
    assert check.fall.size == 0


def test_the_same_seed_draws_the_same_words(bilstm: Encoder) -> None:
    one, same = (keyword_check(bilstm, judged_set(), threshold=5, draws=1, seed=3) for _ in range(2))
    assert one.without_others.tolist() == same.without_others.tolist()
    assert one.without_keywords.tolist() == same.without_keywords.tolist()


def test_another_model_can_find_the_keywords(bilstm: Encoder) -> None:
    other = Encoder(tiny("bilstm", shared_tower=True, seed=5))
    by_other = keyword_check(bilstm, judged_set(), judge=other, threshold=5)
    assert by_other.share == keyword_check(other, judged_set(), threshold=5).share
    assert by_other.share != keyword_check(bilstm, judged_set(), threshold=5).share


# --- attenuation -------------------------------------------------------------------------------------------------


def test_function_words_against_the_others_by_hand() -> None:
    """Two texts: in shanghai; how to, and bath, tub, turn, off as short words. A text without function words is out."""
    encoder = Encoder(tiny("lstm"))
    one, two = "hotels in shanghai", "how to fix bath tub wont turn off"
    check = attenuation_check(encoder, [one, two, one, "new york city guide"], "title", frozenset(("in", "how", "to")))
    first, second = (Side(encoder, "title", text) for text in (one, two))
    assert check.texts == 2
    assert check.function.words == 3
    assert check.short.words == 6
    assert check.content.words == 8  # the short ones too
    gates = [side.reading.mean("input_gate") for side in (first, second)]
    assert check.function.gate == pytest.approx(np.mean([gates[0][1], *gates[1][:2]]))
    assert check.content.effect == pytest.approx(np.mean([first.effects[0], first.effects[2], *second.effects[2:]]))
    pairs = [
        [first.effects[1] < first.effects[place] for place in (0, 2)],
        [second.effects[one] < second.effects[other] for one in (0, 1) for other in range(2, 8)],
    ]
    assert check.less_effect == pytest.approx(np.mean([np.mean(pair) for pair in pairs]))
    assert check.less_effect_than_short == pytest.approx(np.mean(pairs[1]))
    counts = [keywords(encoder, text, "title").counts["left to right"] for text in (one, two)]
    assert check.function.cells == pytest.approx(np.mean([counts[0][1], counts[1][1]]))  # "how" is read first


def test_an_rnn_has_no_gates_and_no_texts_no_numbers() -> None:
    encoder = Encoder(tiny("rnn"))
    check = attenuation_check(encoder, ENGLISH, "query", frozenset(("in",)))
    assert (check.function.gate, check.function.taken_in, check.less_gate) == (None, None, None)
    assert check.less_effect is not None
    nothing = attenuation_check(encoder, ["hotels"])
    assert (nothing.texts, nothing.function.words, nothing.less_effect) == (0, 0, None)


def test_the_last_token_of_a_long_text_is_no_word() -> None:
    encoder = Encoder(tiny("lstm", max_words=3))
    check = attenuation_check(encoder, ["hotels in shanghai hotel in shanghai"], "title", frozenset(("in",)))
    assert (check.function.words, check.content.words) == (1, 1)  # hotels, in, and a token of four words


# --- contributions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["query", "title"])
def test_words_are_left_out_in_the_order_of_their_contributions(side: str) -> None:
    encoder, query, title = Encoder(tiny("lstm", shared_tower=True)), "cheap flights to new york", "new york city guide"
    text, other = (query, title) if side == "query" else (title, query)
    check = deletion_check(encoder, [(query, title), ("hotels", "hotels")], side, methods=("changes",), draws=1)
    assert (check.pairs, check.words) == (1, len(text.split()))  # a text of one word has nothing to leave out
    vector = encoder.encode_query(other).astype(np.float64)
    order = np.argsort(-Side(encoder, side, text).contributions(vector, "changes"), kind="stable").tolist()
    scores = []
    for count in range(len(order) + 1):
        kept = [word for place, word in enumerate(text.split()) if place not in order[:count]]
        scores.append(float(encoder.encode_query(" ".join(kept)) @ vector))
    assert check.falls["changes"] == pytest.approx([np.mean([scores[0] - score for score in scores[1:-1]])], abs=1e-6)
    expected = np.interp(SHARES, np.linspace(0, 1, len(scores)), scores)
    assert check.curves["changes"] == pytest.approx(expected, abs=1e-6)
    assert check.curves["changes"][-1] == 0  # nothing is left
    assert set(check.falls) == {"changes", "random"}


@pytest.mark.parametrize("kind", ["lstm", "bilstm", "rnn", "dssm", "clsm"])
def test_contributions_beat_chance_on_any_tower(kind: str) -> None:
    """Even in a model with random weights: faithfulness is about the model, not about meaning."""
    encoder = Encoder(tiny(kind, shared_tower=True))
    pairs = [(one, other) for one in ENGLISH for other in ENGLISH if one != other]
    check = deletion_check(encoder, pairs, methods=("shapley",))
    assert check.falls["shapley"].mean() > check.falls["random"].mean() > check.falls_last["shapley"].mean()


def test_no_pairs_no_curves() -> None:
    check = deletion_check(Encoder(tiny("lstm")), [])
    assert check.pairs == 0
    assert check.curves["shapley"] == ()
