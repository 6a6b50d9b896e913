"""What every part of the score promises. A new part is in `PARTS`, and so it is checked here without a change."""

import numpy as np
import pytest
from tiny import TEXTS, tiny

from clickvec.model.encoder import Encoder
from clickvec.search.index import Index
from clickvec.search.parts import FEATURES, MODES, PARTS
from clickvec.search.parts.part import Part, PartQuery, Query
from clickvec.search.retrieval import ranking_of
from clickvec.search.view_protocol import SearchView

UNREADABLE = "ЖЖЖ лев AB-1234"  # has no letter trigram that the model knows
TITLES = [*TEXTS, UNREADABLE, "hotels in shanghai hotels", *TEXTS[:3]]
QUERIES = [TEXTS[0], "cheap hotels", "ab1234 hotels", "лев", "", "-"]
PRECISION = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module", params=["float32", "int8"])
def view(request: pytest.FixtureRequest) -> SearchView:
    payloads = [{"price": 2.5 * number, "added": 2_000 + number} for number in range(len(TITLES))]
    index = Index.build(Encoder(tiny("lstm")), titles=TITLES, payloads=payloads, vectors=request.param)
    index.delete(["3"])
    index.add([{"id": "new", "title": "new hotels in shanghai", "price": 7, "added": 2_030}])
    return index.view()


@pytest.fixture(params=PARTS, ids=lambda part: str(part.name))
def part(request: pytest.FixtureRequest) -> Part:
    of_param: Part = request.param
    return of_param


def query_of(part: Part, view: SearchView, query: str) -> PartQuery:
    (of_query,) = part.queries(view, [Query(query)], view.allowed(None), 0)
    return of_query


def living(view: SearchView) -> np.ndarray:  # type: ignore[type-arg]
    return view.sample(len(view))


def test_names_are_used_once() -> None:
    assert len({part.name for part in PARTS}) == len({part.measure for part in PARTS}) == len(PARTS)
    assert len(FEATURES) == sum(len(part.features) for part in PARTS)
    assert sum(feature.share for feature in FEATURES.values()) == pytest.approx(1)
    assert MODES == ("hybrid", "words", "vectors")


@pytest.mark.parametrize("query", QUERIES)
def test_the_best_titles_are_in_order_and_have_the_scores_that_any_title_gets(
    part: Part, view: SearchView, query: str
) -> None:
    of_query = query_of(part, view, query)
    positions, scores = of_query.best(view.size)
    assert set(positions.tolist()) <= set(living(view).tolist())
    assert (np.lexsort((positions, -scores)) == np.arange(len(positions))).all()
    np.testing.assert_allclose(of_query.values(positions).own, scores, **PRECISION)
    for count in (1, 3):
        first = query_of(part, view, query).best(count)
        np.testing.assert_array_equal(first[0][:count], positions[:count])
    everything = living(view)
    own = of_query.values(everything).own
    found = everything[own != 0] if part.proposes else everything[:0]
    assert set(positions.tolist()) == set(found.tolist())
    assert (own <= of_query.most).all()


@pytest.mark.parametrize("query", QUERIES)
def test_a_text_scores_as_the_same_title_with_the_same_payload_in_the_index(
    part: Part, view: SearchView, query: str
) -> None:
    of_query, positions = query_of(part, view, query), living(view)
    rounding = 1e-2 if view.precision == "int8" else 1e-6
    for own, seq in zip(of_query.values(positions).own, view.seqs_at(positions), strict=True):
        document = view.documents.get([seq])[seq]
        (score,) = of_query.values_of_texts([document.title], document.payload).own
        assert score == pytest.approx(own, abs=rounding)


@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_of_queries_gives_what_each_of_them_gives(part: Part, view: SearchView, query: str) -> None:
    batch = list(part.queries(view, [Query(query), Query(QUERIES[0]), Query("")], view.allowed(None), 5))
    assert len(batch) == 3
    expected = query_of(part, view, query).best(5)
    np.testing.assert_array_equal(batch[0].best(5)[0], expected[0])
    np.testing.assert_allclose(batch[0].best(5)[1], expected[1], **PRECISION)


@pytest.mark.parametrize("query", QUERIES)
def test_features_are_declared_and_finite_and_titles_can_be_taken_and_joined(
    part: Part, view: SearchView, query: str
) -> None:
    values = query_of(part, view, query).values(living(view))
    features = values.features()
    assert features.keys() == {feature.name for feature in part.features}
    half = len(view) // 2
    first, rest = values.take(np.arange(half)), values.take(np.arange(half, len(view)))
    for name, feature in features.items():
        assert np.isfinite(feature).all()
        assert np.shape(feature) in ((), (len(view),))
        if np.shape(feature):
            np.testing.assert_array_equal(first.joined(rest).features()[name], feature)
        if FEATURES[name].least is None:
            assert np.shape(feature) == ()
    np.testing.assert_array_equal(first.joined(rest).own, values.own)


@pytest.mark.parametrize("query", QUERIES)
def test_no_title_exceeds_the_highest_features_that_its_own_score_allows(
    part: Part, view: SearchView, query: str
) -> None:
    values = query_of(part, view, query).values(living(view))
    for own in (0.0, float(np.median(values.own)), float(values.own.max())):
        below, highest = np.flatnonzero(values.own <= own), values.highest(own).features()
        for name, feature in values.take(below).features().items():
            assert np.all(np.asarray(feature) <= np.asarray(highest[name]) + 1e-9), name


@pytest.mark.parametrize("query", QUERIES)
def test_an_explanation_adds_up_to_the_score_of_the_part(part: Part, view: SearchView, query: str) -> None:
    of_query, positions = query_of(part, view, query), living(view)
    values = of_query.values(positions)
    for row, seq in enumerate(view.seqs_at(positions)):
        told = of_query.explain(values, row, view.documents.get([seq])[seq].title)
        assert (told.name, told.label) == (part.name, part.label)
        assert told.value == pytest.approx(float(values.own[row]))
        if told.words is not None:
            assert sum(word.contribution for word in told.words) == pytest.approx(told.value)


@pytest.mark.parametrize("query", QUERIES)
def test_a_silent_part_says_nothing_and_costs_nothing(part: Part, view: SearchView, query: str) -> None:
    of_query = query_of(part, view, query)
    cost = of_query.cost
    assert cost is not None
    assert 0 <= cost <= 3 * len(view)
    if of_query.is_silent:
        assert not of_query.values(living(view)).own.any()
        assert (len(of_query.best(5)[0]), cost) == (0, 0)


@pytest.mark.parametrize("query", QUERIES)
def test_the_rank_of_a_title_is_its_place_among_the_best(part: Part, view: SearchView, query: str) -> None:
    of_query = query_of(part, view, query)
    found = of_query.best(view.size)[0].tolist()
    for position in living(view).tolist():
        expected = found.index(position) + 1 if position in found else None
        assert of_query.rank(position) == expected
        if expected is not None:
            before = np.array(found[: expected - 1][::2], np.int64)
            assert of_query.count_before(position, np.append(before, found[expected:])) == len(before)


def test_a_query_that_the_model_cannot_read_is_scored_without_the_vectors(view: SearchView) -> None:
    ranking = ranking_of(view, "лев")
    assert ranking.head.candidates.silent == {"vectors"}
    assert not ranking_of(view, "cheap hotels").head.candidates.silent
