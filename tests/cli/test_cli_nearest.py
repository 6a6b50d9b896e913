"""clickvec nearest: from a model with titles, from an index, for words and phrases, and what it refuses."""

import dataclasses
import json
from pathlib import Path

import pytest
from command import ok, refused, run, wrong_usage
from tiny import TEXTS, tiny_model

from clickvec import Encoder, Index
from clickvec.explanation.neighbours import Neighbours
from clickvec.render.terminal.model_text import show_nearest
from clickvec.render.terminal.screen import Screen


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide the terminal is in which the tests run."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def titles(tmp_path: Path) -> Path:
    path = tmp_path / "titles.tsv"
    path.write_text(
        "doc_id\ttitle\n" + "".join(f"{place}\t{title}\n" for place, title in enumerate(TEXTS)), encoding="utf-8"
    )
    return path


@pytest.fixture
def index(model_folder: Path, tmp_path: Path) -> Path:
    Index.build(Encoder.load(model_folder), TEXTS).save(tmp_path / "index")
    return tmp_path / "index"


def test_a_model_with_titles_and_an_index_say_the_same(model_folder: Path, titles: Path, index: Path) -> None:
    from_index = ok("nearest", index, "hotel", "new york")
    assert ok("nearest", model_folder, "hotel", "new york", "--titles", titles) == from_index
    expected = [Neighbours(Encoder.load(model_folder), TEXTS).nearest(word) for word in ("hotel", "new york")]
    assert from_index == "\n\n".join(show_nearest(found, Screen(80)) for found in expected) + "\n"
    assert max(map(len, from_index.splitlines())) <= 80


def test_other_titles_than_those_of_the_index(index: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("title\ncheap hotels\ncheap hotels\nhotels\n")
    found = json.loads(ok("nearest", index, "hotel", "--titles", other, "--json"))
    assert sorted(near["title"] for near in found["titles"]) == ["cheap hotels", "hotels"]


def test_json_is_a_line_for_each_word(index: Path) -> None:
    lines = [json.loads(line) for line in ok("nearest", index, "hotl", "ЖЖЖ", "上海", "-k", "3", "--json").splitlines()]
    assert [(line["word"], line["count"]) for line in lines] == [("hotl", 0), ("жжж", 0), ("上海", 1)]
    assert lines[0]["known"] == 0.5  # #ho and hot, but neither otl nor tl#
    assert [len(line["words"]) for line in lines] == [3, 0, 3]
    assert lines[1]["known"] == 0
    assert list(lines[0]["words"][0]) == ["word", "cosine", "count"]
    assert list(lines[0]["titles"][0]) == ["title", "cosine"]


def test_options_reach_the_search(tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "model", "bilstm"))
    Index.build(encoder, TEXTS).save(tmp_path / "index")
    for options, given in (
        (["-k", "2"], {"k": 2}),
        (["--least", "2"], {"least": 2}),
        (["--unlike"], {"unlike": True}),
    ):
        found = json.loads(ok("nearest", tmp_path / "index", "paint", *options, "--json"))
        expected = Neighbours(encoder, TEXTS).nearest("paint", **given)
        assert found == json.loads(json.dumps(dataclasses.asdict(expected)))


def test_an_unknown_word_is_an_answer_and_no_error(index: Path) -> None:
    out = ok("nearest", index, "ЖЖЖ")
    assert out.startswith("жжж: not in the titles\n")
    assert "none of its letter trigrams" in out


def test_an_empty_index_has_nothing_near(model_folder: Path, tmp_path: Path) -> None:
    Index.build(Encoder.load(model_folder), []).save(tmp_path / "empty")
    assert json.loads(ok("nearest", tmp_path / "empty", "hotel", "--json"))["words"] == []
    assert ok("nearest", tmp_path / "empty", "hotel").startswith("hotel: not in the titles, 100% of its")


def test_a_model_alone_has_no_titles(model_folder: Path) -> None:
    assert "--catalogue" in wrong_usage("nearest", model_folder, "hotel")


def test_what_is_refused(model_folder: Path, index: Path, titles: Path, tmp_path: Path) -> None:
    assert "has no words; give a word or a phrase" in refused("nearest", index, "", " ")
    assert str(tmp_path / "none") in refused("nearest", tmp_path / "none", "hotel", "--titles", titles)
    assert str(tmp_path / "none") in refused("nearest", index, "hotel", "--titles", tmp_path / "none")
    wrong_usage("nearest", index)
    wrong_usage("nearest", index, "hotel", "-k", "0")
    wrong_usage("nearest", index, "hotel", "--least", "0")


def test_bad_lines_are_told_and_do_not_mix_with_the_result(model_folder: Path, titles: Path) -> None:
    with titles.open("a") as file:
        file.write("7\tan id that is there already\n")
    done = run("nearest", model_folder, "hotel", "--titles", titles, "--max-bad", "0.5", "--json")
    assert done.status == 0
    assert "1 of 9 lines" in done.err
    assert len(done.out.splitlines()) == 1
