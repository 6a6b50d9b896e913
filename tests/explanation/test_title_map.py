"""The map of titles: similar titles are close together, and neighbourhoods are named by their words."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from tiny import TEXTS, tiny

from clickvec.errors import ClickvecError
from clickvec.explanation import title_map
from clickvec.explanation.reading import Floats
from clickvec.explanation.title_map import (
    characteristic_words,
    divide,
    halve,
    map_titles,
    map_vectors,
    place,
    principal,
)
from clickvec.model.encoder import Encoder

MANY = [f"{one} {two}" for one in TEXTS for two in TEXTS]


def test_similar_titles_are_close_together() -> None:
    encoder = Encoder(tiny("bilstm"))
    found = map_titles(encoder, MANY)
    assert set(found.titles) <= set(MANY)
    assert found.points.shape == (len(found.titles), 2)
    assert trustworthiness(encoder.encode_document(list(found.titles)), found.points) > 0.9


def test_the_same_titles_give_the_same_map() -> None:
    encoder = Encoder(tiny())
    one, same = (map_titles(encoder, MANY, 20) for _ in range(2))
    assert len(one.titles) == 20
    assert one.titles == same.titles
    np.testing.assert_array_equal(one.points, same.points)
    assert one.as_json() == same.as_json()


def test_titles_without_a_vector_and_duplicates_are_left_out() -> None:
    found = map_titles(Encoder(tiny()), ["", *TEXTS, "ЖЖЖ", "HOTELS in  shanghai"])
    assert sorted(found.titles) == sorted(TEXTS)


@pytest.mark.parametrize("titles", [(), TEXTS[:3], ["hotels", *(f"hotels {'z' * at}" for at in range(9))]])
def test_too_few_different_titles_have_no_map(titles: list[str]) -> None:
    """In a bag of trigrams, words that the model does not know change nothing: those vectors are all the same."""
    found = map_titles(Encoder(tiny("dssm")), titles)
    assert (found.titles, found.neighbourhoods) == ((), ())
    assert found.as_json() == {"neighbourhoods": [], "titles": []}


def test_wrong_use_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickvec.explanation.title_map.find_spec", lambda _: None)
    with pytest.raises(ClickvecError, match=r"pip install 'clickvec\[map\]'"):
        map_titles(Encoder(tiny()), TEXTS)


def test_of_many_titles_a_sample_is_arranged_and_the_others_are_placed_among_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(title_map, "LANDMARKS", 40)
    vectors = Encoder(tiny("bilstm")).encode_document(MANY)
    found = map_vectors(MANY, vectors)
    assert found.method == "t-SNE"
    assert trustworthiness(vectors, found.points) > 0.85


def test_without_scikit_learn_a_map_has_the_principal_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickvec.explanation.title_map.find_spec", lambda _: None)
    vectors = Encoder(tiny("bilstm")).encode_document(MANY)
    found = map_vectors(MANY, vectors)
    assert found.method == "PCA"
    expected = PCA(2).fit_transform(vectors)
    np.testing.assert_allclose(np.abs(found.points), np.abs(expected), atol=1e-4)
    assert sum(group.titles for group in found.neighbourhoods) == len(MANY)


def test_a_title_lies_between_the_landmarks_that_are_like_it() -> None:
    landmarks = np.eye(5)
    points = np.array([[0.0, 0], [10, 0], [0, 10], [-10, 0], [0, -10]])
    on, between = place(np.array([[0, 1.0, 0, 0, 0], [0, 0.7, 0.7, 0, 0]]), landmarks, points)
    np.testing.assert_allclose(on, (10, 0), atol=1e-6)
    np.testing.assert_allclose(between, (5, 5), atol=1e-4)
    assert principal(np.eye(3)).shape == (3, 2)


# --- neighbourhoods ----------------------------------------------------------------------------------------------


def test_islands_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    islands = [rng.normal(centre, 0.1, (size, 2)) for centre, size in (((0, 0), 5), ((9, 0), 20), ((0, 9), 10))]
    assert divide(np.concatenate(islands), 3).tolist() == [2] * 5 + [0] * 20 + [1] * 10


@pytest.mark.parametrize("split", [divide, halve])
@settings(max_examples=20)
@given(count=st.integers(1, 30), parts=st.integers(0, 8), seed=st.integers(0, 99))
def test_every_point_is_in_one_part(
    split: Callable[[Floats, int], NDArray[np.int64]], count: int, parts: int, seed: int
) -> None:
    points = np.random.default_rng(seed).integers(0, 3, (count, 2)).astype(float)  # many of them the same
    part_of = split(points, parts)
    sizes = np.bincount(part_of)
    assert len(part_of) == count
    assert len(sizes) <= max(parts, 1)
    assert sizes.tolist() == sorted(sizes.tolist(), reverse=True)
    assert sizes.all()


def test_the_words_that_mark_a_neighbourhood() -> None:
    total = Counter({"the": 100, "hotel": 12, "rare": 1, "cheap": 30})
    counts = Counter({"the": 10, "hotel": 9, "rare": 1, "cheap": 3})
    assert characteristic_words(counts, total, 0.1)[:2] == ("hotel", "rare")


def test_the_map_names_the_neighbourhoods_of_titles() -> None:
    found = map_titles(Encoder(tiny("bilstm")), TEXTS)
    assert len(found.neighbourhood_of) == len(TEXTS) == sum(group.titles for group in found.neighbourhoods)
    for number, group in enumerate(found.neighbourhoods):
        members = [title for title, of in zip(found.titles, found.neighbourhood_of, strict=True) if of == number]
        assert set(group.examples) <= set(members)
        assert {word for word in group.words if word not in " ".join(members)} == set()
        named = [sum(word in title.split() for word in group.words) for title in group.examples]
        rest = [sum(word in title.split() for word in group.words) for title in set(members) - set(group.examples)]
        assert min(named) >= max(rest, default=0)
