"""What a report holds before it is drawn: the ranking, the worst queries, the words of queries."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import TEXTS, tiny

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.metrics import ndcg
from clickvec.evaluation.neural import Neural
from clickvec.explanation import keywords
from clickvec.explanation.ranking import first_inversion, rank
from clickvec.explanation.report import gather, query_words, read_history, read_queries
from clickvec.explanation.side import Side, unimportant
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress, ignore


def judged(*queries: str, grades: tuple[int, ...] = (3, 0, 1, 0, 2, 0, 1, 0)) -> list[JudgedQuery]:
    ids = tuple(f"t{place}" for place in range(len(TEXTS)))
    return [JudgedQuery(f"q{at}", query, ids, TEXTS, np.array(grades)) for at, query in enumerate(queries)]


@pytest.mark.parametrize(
    ("grades", "places"),
    [
        ([0, 1], (0, 1)),
        ([1, 0, 3, 3], (0, 2)),  # of two best ones the nearer
        ([3, 2, 0, 1, 2], (2, 4)),  # the first two are where they belong
        ([2, 2, 1, 0, 1], (3, 4)),
    ],
)
def test_the_first_title_that_stands_where_a_better_one_should(grades: list[int], places: tuple[int, int]) -> None:
    assert first_inversion(np.array(grades)) == places


@given(st.lists(st.integers(0, 4), min_size=2).filter(lambda grades: grades != sorted(grades, reverse=True)))
def test_of_any_ranking_that_is_not_perfect(grades: list[int]) -> None:
    above, below = first_inversion(np.array(grades))
    ideal = sorted(grades, reverse=True)
    assert above < below
    assert grades[:above] == ideal[:above]
    assert grades[above] < grades[below] == ideal[above] == max(grades[above:])
    swapped = list(grades)
    swapped[above], swapped[below] = swapped[below], swapped[above]
    before, after = (np.exp2(order) - 1 for order in (grades, swapped))
    assert ndcg(after, before, len(grades)) > ndcg(before, before, len(grades))


def test_the_worst_queries_come_first_and_are_explained() -> None:
    encoder, queries = Encoder(tiny("bilstm")), judged(*TEXTS)
    found = gather(encoder, queries, name="tiny", worst=3).ranking
    values = evaluate([Neural(encoder, "tiny")], queries).per_query("tiny", "NDCG@10")
    order = np.argsort(values, kind="stable")
    assert [missed.query for missed in found.worst] == [TEXTS[at] for at in order[:3]]
    assert found.imperfect == sum(values < 100 - 1e-9)
    for missed in found.worst:
        scores = np.asarray(Neural(encoder, "tiny").score(missed.query, TEXTS))
        ranks = {title: int(np.sum(scores > scores[at])) + 1 for at, title in enumerate(TEXTS)}
        assert missed.above.rank < missed.below.rank
        assert missed.above.grade < missed.below.grade
        for ranked, explanation in ((missed.above, missed.why.first), (missed.below, missed.why.title)):
            assert ranked.rank == ranks[ranked.title]
            assert explanation.title == ranked.title
            assert explanation.score == pytest.approx(scores[TEXTS.index(ranked.title)], abs=1e-6)
        assert sum(share.difference for share in missed.why.words) == pytest.approx(missed.why.gap)


@pytest.mark.parametrize("progress", [None, ignore])
def test_titles_are_encoded_as_often_as_in_evaluate(progress: Progress | None, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, queries = Encoder(tiny("bilstm")), judged(*TEXTS)
    calls: list[int] = []

    def spy(self: Encoder, titles: list[str]) -> np.ndarray:
        calls.append(len(titles))
        return encode_document(self, titles)

    encode_document = Encoder.encode_document
    monkeypatch.setattr(Encoder, "encode_document", spy)
    expected = evaluate([Neural(encoder, "tiny")], queries)
    in_evaluate = len(calls)
    calls.clear()
    found = rank(encoder, queries, "tiny", worst=0, progress=progress)
    assert len(calls) == in_evaluate == 1
    np.testing.assert_array_equal(found.evaluation.values[0], expected.values[0])
    calls.clear()
    monkeypatch.setattr("clickvec.explanation.ranking.why_not", lambda *_: None)  # it encodes other titles
    assert rank(encoder, queries, "tiny", worst=len(queries), progress=progress).worst
    assert len(calls) == 2  # once more for the order of the worst, together


def test_the_comparison_by_hand() -> None:
    found = gather(Encoder(tiny("lstm")), judged(*TEXTS[:4])).ranking
    values = np.array([[[100.0, 95.0, 5.0, 40.0]], [[100.0, 90.0, 15.0, 30.0]]])
    made = dataclasses.replace(
        found, evaluation=dataclasses.replace(found.evaluation, measures=("NDCG@10",), values=values)
    )
    assert made.against_baseline == (2, 1, 1)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "bilstm"])
@pytest.mark.parametrize("cells", [7, 12])
def test_many_queries_at_once_are_read_as_one_by_one(kind: str, cells: int) -> None:
    encoder = Encoder(tiny(kind, cells=cells, hidden=cells, max_words=6))
    queries = [*TEXTS, "hotels", "", "ЖЖЖ", "in in in"]
    for query, found in zip(queries, read_queries(encoder, queries), strict=True):
        alone = keywords(encoder, query)
        assert (found.words, found.keywords) == (alone.words, alone.verdicts)
        assert list(found.unimportant) == unimportant(Side(encoder, "query", query).effects).tolist()


def test_words_are_counted_over_queries() -> None:
    encoder = Encoder(tiny("bilstm"))
    queries = ["hotels in shanghai"] * 4 + ["cheap hotels"]
    read, found = read_queries(encoder, queries), query_words(encoder, queries)
    assert (found.queries, found.places) == (5, 14)
    assert found.keyword_places == sum(verdict is True for query in read for verdict in query.keywords)
    assert found.unimportant_places == sum(sum(query.unimportant) for query in read)
    for use in (*found.keywords, *found.unimportant):
        assert use.times == " ".join(queries).split().count(use.word) >= 3
    assert all(2 * use.counted >= use.times for use in found.keywords)
    assert [query.words for query in found.examples] == [query.words for query in read]


@pytest.mark.parametrize("queries", [[], judged("hotels", grades=(0,) * len(TEXTS))])
def test_nothing_to_measure_is_an_error(queries: list[JudgedQuery]) -> None:
    with pytest.raises(ClickvecError, match="queries has a relevant title"):
        gather(Encoder(tiny("lstm")), queries)


def test_a_model_by_the_name_of_the_baseline() -> None:
    report = gather(Encoder(tiny("lstm")), judged(*TEXTS), name="BM25")
    assert report.ranking.evaluation.systems == ("BM25 (model)", "BM25")


def test_lines_of_the_metrics_that_are_no_epoch_are_left_out() -> None:
    assert read_history("") == ()
    lines = [
        '{"epoch": 1, "loss": 0.5}',
        "{",
        '{"epoch": 2}',
        '{"epoch": 2, "loss": NaN}',
        "[]",
        '{"epoch": 3, "loss": 1}',
    ]
    assert [row["epoch"] for row in read_history("\n".join(lines))] == [1, 3]
