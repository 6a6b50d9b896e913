"""The settings of an index that a stranger has made: a wrong type or range is one sentence, whatever opens it."""

from pathlib import Path
from typing import Any

import pytest
from command import refused
from forged import forge_settings
from tiny import TEXTS

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.fusion import Fusion
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
    "fusion_report": [None], "k1": [0, 1.5], "b": [0],
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


FIGURES = {name: {"MRR@10": 1.0, "Recall@100": 2, "NDCG@10": 3.5} for name in ("words", "vectors", "clicks")}
MEASURED = {"queries": 60, "chosen": "clicks", "figures": FIGURES}
CURVE = [{"from": 0.1, "candidates": 7, "predicted": 0.2, "clicked": 0.3}]


@pytest.mark.parametrize("report", [
    {"queries": 3, "chosen": "words", "figures": {}, "reason": "of few clicks"},
    MEASURED,
    MEASURED | {"reliability": CURVE, "calibration_error": 0.1, "folds": 5},
])  # fmt: skip
def test_the_report_of_a_fusion_is_taken(report: dict[str, object]) -> None:
    assert Settings.of({"fusion_report": report}).fusion_report == report


@pytest.mark.parametrize("report", [
    {}, {"queries": 3, "chosen": "words", "figures": {}},
    MEASURED | {"chosen": None}, MEASURED | {"chosen": "other"}, MEASURED | {"queries": "60"},
    MEASURED | {"queries": 10**400}, MEASURED | {"figures": "x"}, MEASURED | {"figures": FIGURES | {"words": 0.5}},
    MEASURED | {"figures": FIGURES | {"words": {"MRR@10": 1.0}}}, MEASURED | {"more": 1},
    MEASURED | {"reliability": [{"from": 0.1}]}, MEASURED | {"reliability": {}},
    MEASURED | {"reliability": [CURVE[0] | {"predicted": None}]},
])  # fmt: skip
def test_a_report_of_a_fusion_that_cannot_be_printed_is_refused(report: dict[str, object]) -> None:
    with pytest.raises(ClickvecError, match="fusion_report"):
        Settings.of({"fusion_report": report})


@pytest.mark.parametrize("values", [{"k1": -5}, {"b": "x"}, {"report": {"queries": 3}}])
def test_an_index_takes_no_setting_that_it_could_not_open(values: dict[str, Any], path: Path) -> None:
    with Index.open(path) as index:
        with pytest.raises(ClickvecError, match="nothing was changed"):
            index.use_fusion(Fusion.default(), **values)
        with pytest.raises(ClickvecError, match="a fusion has a method"):
            index.use_model(Encoder(index.encoder.model._replace(fusion={"method": "x"})))
    with Index.open(path) as index:
        assert index.fusion == Fusion.default()


@pytest.mark.parametrize(
    "values",
    [
        {"fusion_report": MEASURED | {"figures": {"words": []}}},
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
