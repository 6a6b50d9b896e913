"""Doc2vec against gensim itself, in two processes, and on texts that it never saw."""

import functools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from clickvec.errors import ClickvecError
from clickvec.lab.other_systems.doc2vec import Doc2Vec, stable_hash

gensim_doc2vec: Any = pytest.importorskip("gensim.models.doc2vec", reason="gensim is not installed")

TEXTS = ["Hotels in Shanghai", "shanghai  hotels", "pizza dough", "how to make pizza dough at home", "", "上海 酒店"]
DISTINCT = ["hotels in shanghai", "shanghai hotels", "pizza dough", "how to make pizza dough at home", "上海 酒店"]


@pytest.fixture(scope="module")
def ranker() -> Doc2Vec:
    return Doc2Vec([*TEXTS, "PIZZA dough"])  # the same words again: not a text of its own


@pytest.fixture(scope="module")
def direct() -> Any:  # noqa: ANN401
    """The model that gensim gives for the paper's settings, written out."""
    documents = [gensim_doc2vec.TaggedDocument(text.split(), [place]) for place, text in enumerate(DISTINCT)]
    return gensim_doc2vec.Doc2Vec(
        documents, dm=1, min_count=1, window=5, vector_size=100, sample=1e-4, negative=5, epochs=30, workers=1, seed=1
    )


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_trained_vectors_are_those_of_gensim(ranker: Doc2Vec, direct: Any) -> None:  # noqa: ANN401
    for place, text in enumerate(DISTINCT):
        np.testing.assert_array_equal(ranker.vector(text), direct.dv[place])


def test_scores_are_cosines_of_trained_vectors(ranker: Doc2Vec, direct: Any) -> None:  # noqa: ANN401
    scores = ranker.score("Pizza  Dough", TEXTS[:4])
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([cosine(direct.dv[2], direct.dv[i]) for i in range(4)], abs=1e-6)
    assert scores[2] == pytest.approx(1)


def test_inference_is_that_of_gensim(ranker: Doc2Vec, direct: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    start = functools.partial(gensim_doc2vec.pseudorandom_weak_vector, hashfxn=stable_hash)
    monkeypatch.setattr(gensim_doc2vec, "pseudorandom_weak_vector", start)
    direct.random = np.random.RandomState(1)
    np.testing.assert_allclose(
        ranker.vector("make Pizza in space"), direct.infer_vector(["make", "pizza", "in"]), rtol=1e-6
    )


def test_inference_does_not_depend_on_what_came_before(ranker: Doc2Vec) -> None:
    trained = ranker.vector("pizza dough").copy()
    first = ranker.vector("pizza in shanghai")
    ranker.vector("dough at hotels")
    np.testing.assert_array_equal(ranker.vector("pizza in shanghai"), first)
    np.testing.assert_array_equal(ranker.vector("pizza dough"), trained)
    assert np.linalg.norm(first) > 0


def test_empty_and_unknown_texts_score_zero(ranker: Doc2Vec) -> None:
    assert ranker.score("pizza dough", ["", " \t", "космос", "未知"]).tolist() == [0, 0, 0, 0]
    assert ranker.score("", TEXTS).tolist() == [0] * len(TEXTS)
    assert ranker.score("pizza", []).shape == (0,)


def test_other_scripts_are_words_like_any(ranker: Doc2Vec) -> None:
    assert ranker.score("上海 酒店", ["上海 酒店"]).tolist() == pytest.approx([1])
    assert np.isfinite(ranker.score("酒店", TEXTS)).all()


def test_titles_of_the_same_words_tie(ranker: Doc2Vec) -> None:
    scores = ranker.score(
        "hotels", ["Pizza dough", "shanghai hotels", "pizza  DOUGH", "pizza in space", "PIZZA in space"]
    )
    assert scores[0] == scores[2]
    assert scores[3] == scores[4]


def test_the_seed_counts(ranker: Doc2Vec) -> None:
    assert not np.array_equal(Doc2Vec(TEXTS, seed=2).vector("pizza dough"), ranker.vector("pizza dough"))


def test_most_similar_words(ranker: Doc2Vec, direct: Any) -> None:  # noqa: ANN401
    words = ranker.most_similar("Pizza", count=3)
    assert [word for word, _ in words] == [word for word, _ in direct.wv.most_similar("pizza", topn=3)]
    assert words[0][1] >= words[1][1] >= words[2][1]
    with pytest.raises(ClickvecError, match="'Космос'"):
        ranker.most_similar("Космос")


def test_parameters_are_three_tables(ranker: Doc2Vec) -> None:
    words = {word for text in DISTINCT for word in text.split()}
    assert ranker.parameters == 100 * (len(DISTINCT) + 2 * len(words))


def test_more_epochs_change_the_vectors(ranker: Doc2Vec) -> None:
    assert not np.array_equal(Doc2Vec(TEXTS, epochs=60).vector("pizza dough"), ranker.vector("pizza dough"))


def test_no_words_is_an_error() -> None:
    with pytest.raises(ClickvecError, match="click log"):
        Doc2Vec(["", "  "])


def test_without_gensim_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models.doc2vec", None)
    with pytest.raises(ClickvecError, match=r"gensim is not installed.*clickvec\[baselines\]"):
        Doc2Vec(["a"])


def test_the_same_in_every_process() -> None:
    program = (
        "from clickvec.lab.other_systems.doc2vec import Doc2Vec\n"
        f"r = Doc2Vec({TEXTS!r})\n"
        "print(r.vector('pizza dough').tobytes().hex(), r.vector('pizza at home').tobytes().hex())"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    (first, first_errors), (second, second_errors) = (run.communicate(timeout=60) for run in runs)
    assert [run.returncode for run in runs] == [0, 0], first_errors + second_errors
    assert (first_errors, second_errors) == ("", "")
    assert first == second
    assert len(first) > 1600  # two vectors of 100 floats
