"""The settings of an index that a stranger has made: a wrong type or range is one sentence, whatever opens it."""

from pathlib import Path

import pytest
from command import refused
from forged import forge_settings
from tiny import TEXTS

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.index import Document, Index
from clickvec.search.live.view import Settings

ODD = [
    None,
    "x",
    "",
    True,
    -1,
    0,
    1.5,
    2.0**70,
    10**30,
    "S1000000000",
    "../..",
    "²²²-x",
    "x" * 600,
    [],
    {},
    {"a": 1},
    [1],
]
VALID = {  # of ODD
    "model": ["", "x", "S1000000000"], "segment": ["", "x", "S1000000000"],
    "segment_crc32": [0], "vectors": [], "search": [], "fusion": [None],
    "fusion_report": [None, {}, {"a": 1}], "k1": [0, 1.5], "b": [0],
}  # fmt: skip


@pytest.fixture
def path(encoder: Encoder, tmp_path: Path) -> Path:
    Index.create(tmp_path / "index", encoder, map(Document, range(len(TEXTS)), TEXTS)).close()
    return tmp_path / "index"


@pytest.mark.parametrize("name", Settings._fields)
def test_a_setting_of_a_wrong_type_or_range_is_refused(name: str) -> None:
    for value in ODD:
        if any(value == valid and type(value) is type(valid) for valid in VALID[name]):
            assert getattr(Settings.of({name: value}), name) == value
        else:
            with pytest.raises(ClickvecError, match=name):
                Settings.of({name: value})


@pytest.mark.parametrize(
    "values",
    [
        {"k1": "x"},
        {"b": 2},
        {"vectors": "S1000000000"},
        {"fusion": {"method": "ranks", "weights": {"constant": "x"}}},
        {"fusion": {"method": "mixture", "weights": []}},
        {"segment": "²²²-x"},
        {"model": "../../other"},
        {"segment_crc32": "1"},
    ],
)
@pytest.mark.parametrize("verb", ["search", "info", "add"])
def test_every_verb_refuses_them_in_one_sentence(
    verb: str, values: dict[str, object], path: Path, tmp_path: Path
) -> None:
    forge_settings(path, **values)
    (tmp_path / "more.csv").write_text("id,title\n77,hotel\n")
    command = {
        "search": ("search", path, "hotels"),
        "info": ("info", path),
        "add": ("index", "add", path, tmp_path / "more.csv"),
    }[verb]
    assert next(iter(values)) in refused(*command)


@pytest.mark.parametrize("number", ["true", "null", '"4"', "-1", "0", "[]", "99"])
def test_an_index_of_an_unknown_format_is_refused(number: str, path: Path) -> None:
    (path / "index.json").write_text(f'{{"format": {number}}}')
    with pytest.raises(ClickvecError, match="format"):
        Index.open(path)


def test_a_path_that_sqlite_cannot_open_is_told(encoder: Encoder, path: Path, tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["x" * 100] * 6)
    deep.mkdir(parents=True)
    path.rename(deep / "index")
    for use in (lambda: Index.open(deep / "index"), lambda: Index.create(deep / "new", encoder, ())):
        with pytest.raises(ClickvecError, match=r"bytes.*shorter"):
            use()
