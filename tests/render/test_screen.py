"""Text for a terminal: widths, cuts, bars, tables that fit, topics and neighbours with nothing in them that steers."""

import dataclasses
from pathlib import Path

import pytest
from command import ok
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TEXTS, tiny_model

from clickvec.explanation.neighbours import Nearest, NearTitle, NearWord
from clickvec.explanation.topics import CellTopics, Group, QueryTable, SignedCell, Topic, Topics, TopicWord
from clickvec.lab.claims.topic_scores import Measure, TopicScore, score_table
from clickvec.model.encoder import Encoder
from clickvec.render.terminal import nearest
from clickvec.render.terminal.screen import Screen, apart, cell_name, clip, counted, level, pad, width
from clickvec.render.terminal.topic_list import query_blocks, topic_map
from clickvec.search.index import Index
from clickvec.text.printable import clean

NASTY = "\x1b[31mred\x1b[0m\x07 \u202eevil 上海"


def steers(out: str) -> bool:
    return not all(line == "" or line.isprintable() for line in out.split("\n"))


# --- the screen --------------------------------------------------------------------------------------------------


def test_widths_and_cuts() -> None:
    assert [width(text) for text in ("", "ab", "上海", "cafe\u0301", "\x1b[1mab\x1b[0m", "🍕")] == [0, 2, 4, 4, 2, 2]
    assert clip("hotels", 6) == "hotels"
    assert clip("hotels!", 6) == "hot..."
    assert clip("上海上海", 6) == "上..."
    assert [clip("hotels", columns) for columns in (0, 1, 2, 3)] == ["", ".", "..", "..."]
    assert pad("上海", 6) + "|" == "上海  |"
    assert pad("ab", 5, ">") == "   ab"
    assert pad("ab", 5, "^") == " ab  "


@settings(max_examples=200)
@given(text=st.text(st.characters(exclude_categories=())), columns=st.integers(0, 30))
def test_what_is_clean_is_printable_and_what_is_cut_fits(text: str, columns: int) -> None:
    shown = clean(text)
    assert all(char.isprintable() or char in "\u200c\u200d" for char in shown)
    assert clean(shown) == shown
    assert width(clip(text, columns)) <= columns


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert clean("a\x1b[31m\x07\x7f\x9b\u202e\udcff") == "a␛[31m␇␡\ufffd\ufffd\ufffd"
    assert clean("a\tb\nc\u2028d\u00a0e") == "a b c d e"


def test_strength_has_four_levels() -> None:
    assert [level(value, 1.0) for value in (0.0, 0.05, 0.1, -0.4, 0.7, -1.0)] == [0, 0, 1, 2, 3, 3]
    assert level(0.0, 0.0) == 0


def test_bars() -> None:
    assert [Screen().bar(value, 2.0, 4) for value in (2.0, -1.0, 0.1, 0.0)] == ["++++", "--  ", "    ", "    "]
    assert Screen(colour=True).bar(-1.0, 2.0, 4) == "\x1b[41m  \x1b[0m  "
    assert Screen().bar(0.0, 0.0, 4) == "    "


def test_words_are_shaded_by_colours_or_by_signs_under_them() -> None:
    words, values = ["上海", "of", "a", "hotel"], [1.0, 0.0, -0.9, 0.4]
    assert Screen(80).shaded("q  ", words, values, 1.0) == ["q  上海 of a   hotel", "   +++     --- ++"]
    assert Screen(12).shaded("q  ", words, values, 1.0) == ["q  上海 of", "   +++", "   a   hotel", "   --- ++"]
    coloured = Screen(80, colour=True).shaded("q  ", words, values, 1.0)
    assert coloured == ["q  \x1b[7;32m上海\x1b[0m of \x1b[7;31ma\x1b[0m \x1b[1;32mhotel\x1b[0m"]


def test_a_table_with_words_across_is_broken_into_blocks() -> None:
    rows = [("left to right", ["-", "0", "7"]), ("right to left", ["6", "1", "-"])]
    words, marked = ["hotels", "in", "shanghai"], [True, False, True]
    assert Screen(80).across("query", words, marked, rows) == [
        "query          hotels*  in  shanghai*",
        "left to right     -     0       7",
        "right to left     6     1       -",
    ]
    assert Screen(30).across("query", words, marked, rows) == [
        "query          hotels*  in",
        "left to right     -     0",
        "right to left     6     1",
        "",
        "query          shanghai*",
        "left to right      7",
        "right to left      -",
    ]
    assert Screen(80).across("query", [], [], []) == []


def test_a_cell_has_one_name() -> None:
    assert cell_name(7, "left to right", False) == "7"
    assert cell_name(7, "right to left", True) == "7 r->l"
    assert cell_name(7, "left to right", True, "+") == "7+ l->r"


def test_parts_are_apart_and_things_are_counted() -> None:
    assert apart([["a"], [], ["b", "c"], []]) == ["a", "", "b", "c"]
    assert apart([[], ["a"]]) == ["a"]
    assert [counted(number, "title") for number in (0, 1, 2_910)] == ["0 titles", "1 title", "2,910 titles"]
    assert counted(2, "query", "queries") == "2 queries"


def test_any_column_of_a_table_can_be_cut() -> None:
    lines = Screen(20).table(
        "<<", ("a", "words"), [("1", "one two three four"), ("22", "上海上海上海上海上海")], cut=1, rule=True
    )
    assert lines == ["a   words", "-" * 20, "1   one two three...", "22  上海上海上海..."]


def test_a_wide_table_comes_in_blocks_each_with_the_first_column() -> None:
    head, rows = ("query", "one", "two", "three"), [("a", "x" * 8, "y" * 8, "z" * 40)]
    assert Screen(30).blocks("<>>>", head, rows) == [
        ["query       one       two", "-" * 25, "a      xxxxxxxx  yyyyyyyy"],
        ["query                    three", "-" * 30, f"a      {'z' * 20}..."],
    ]
    assert Screen(30).blocks("<", ("query",), [("a",)]) == [["query", "-----", "a"]]


# --- topics ------------------------------------------------------------------------------------------------------


def cell(at: int, dead: str | None, ways: int = 1, word: str = "word") -> CellTopics:
    topic = Topic(12_345, tuple(TopicWord(f"{word}{number}", 3, 2.5) for number in range(8)), 0.5)
    way = "left to right" if at % ways == 0 else "right to left"
    return CellTopics(at, at // ways, way, 3, 0.1, 0.1, dead, topic, {"+": topic, "-": topic})


def topics(cells: list[CellTopics]) -> Topics:
    members = tuple(SignedCell(one.dimension, sign) for one in cells for sign in "+-")
    return Topics("query", 9, 99, 5, 1.0, tuple(cells), (Group(members, (NASTY, "word")),))


def test_dead_cells_are_named_by_what_they_died_of() -> None:
    never, hardly = "never among the 5 most active", "hardly varies"
    found = topics([cell(0, never), cell(1, hardly), cell(2, None), cell(3, never), cell(4, hardly)])
    assert topic_map(found, [], Screen(200)).splitlines()[-1] == f"dead cells: 0, 3 ({never}); 1, 4 ({hardly})"
    assert topic_map(topics([cell(0, None)]), [], Screen()).splitlines()[-1] == "dead cells: none"


def topic(detections: int, specificity: float) -> Topic:
    return Topic(detections, (TopicWord("word", 3, 2.5),), specificity)


def test_of_many_cells_the_most_specific_that_detect_enough() -> None:
    cells = [
        dataclasses.replace(cell(at, None), signs={"+": topic(20, at / 10), "-": topic(19 - at, 0.9)})
        for at in range(4)
    ]
    out = topic_map(topics(cells), range(4), Screen(200), most=5).splitlines()
    assert [line.split()[:2] for line in out[2:7]] == [["3", "+"], ["2", "+"], ["1", "+"], ["0", "+"], ["0", "-"]]
    assert out[7].startswith("the most specific; 3 signed cells are not shown: --all shows every one")
    assert "1 signed cell is not shown" in topic_map(topics(cells), range(4), Screen(200), most=7)
    for most in (8, None):
        whole = topic_map(topics(cells), range(4), Screen(200), most=most).splitlines()
        assert [line.split()[:2] for line in whole[2:10]] == [[str(at), sign] for at in range(4) for sign in "+-"]
        assert "not shown" not in "".join(whole)


def test_rows_of_the_table_without_an_entry_are_counted() -> None:
    found = QueryTable(("one", "two", "three"), ((0, ""), (1, "")), ({0: ("x",)}, {}, {1: ("y",)}))
    assert query_blocks(found, [0, 1], Screen()).splitlines()[2:] == [
        "one    x", "three          y", "", "1 text without an entry not shown",
    ]  # fmt: skip
    assert query_blocks(found, [0], Screen()).splitlines()[2:] == ["one    x", "", "2 texts without an entry not shown"]
    assert query_blocks(found, [], Screen()) == "3 texts without an entry not shown"


def test_groups_name_signed_cells_with_their_directions() -> None:
    found = topics([cell(0, None, 2), cell(1, None, 2)])
    line = next(line for line in topic_map(found, [0], Screen(200)).splitlines() if line.startswith("group"))
    assert line.startswith("group 0: 0+ l->r, 0- l->r, 0+ r->l, 0- r->l: ␛[31m")


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("word", ["word", NASTY, "上海" * 30])
def test_topics_fit_the_terminal_and_do_not_steer_it(columns: int, word: str) -> None:
    found = topics([cell(at, "never among the 5 most active" if at % 3 else None, 2, word) for at in range(96)])
    by_cell = QueryTable(
        (word, f"{word} " * 9),
        tuple((one.cell, one.way) for one in found.cells),
        (dict.fromkeys(range(10), (word, word)), {5: (word,)}),
    )
    for out in (topic_map(found, range(96), Screen(columns)), query_blocks(by_cell, range(96), Screen(columns))):
        assert max(map(width, out.split("\n"))) <= columns
        assert not steers(out)
    assert query_blocks(by_cell, range(96), Screen(columns)).count("cell 4 r->l") == 1


def test_topics_of_queries_that_would_steer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    queries = tmp_path / "queries.txt"
    queries.write_text("query\n" + "".join(f"{text} hotels\x1b[2J {text}\n" for text in TEXTS), encoding="utf-8")
    for kind in ("lstm", "bilstm"):
        out = ok("topics", tiny_model(tmp_path / kind, kind), queries, "--table", "--active", "2")
        assert max(map(width, out.split("\n"))) <= 70
        assert not steers(out)
        assert "hotels␛[2j" in out


def test_scores_stand_beside_each_other_or_below() -> None:
    measure = Measure(0.5, 0.25, 0.125)
    scores = {"words at random, 7 clusters": TopicScore(1_234, 99, 7, 3, measure, measure)}
    head, _, row = score_table(scores, Screen(120)).splitlines()
    assert head.split()[3:] == ["purity", "by", "chance", "adjusted", "NMI", "by", "chance", "adjusted"]
    assert row.split()[5:] == ["1,234", "7", *["50.0", "25.0", "±", "12.5", "33.3"] * 2]
    purity, nmi = score_table(scores, Screen(90)).split("\n\n")
    assert [part.splitlines()[0].split()[3] for part in (purity, nmi)] == ["purity", "NMI"]
    assert max(map(width, [*purity.splitlines(), *nmi.splitlines()])) <= 80


# --- neighbours --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_neighbours_fit_and_do_not_steer(columns: int) -> None:
    found = Nearest(
        NASTY * 20, 0, 0.5, (NearWord(NASTY, 0.5, 1), NearWord("b", 0.25, 2)), (NearTitle(NASTY * 9, 0.5, 1),) * 3
    )
    out = nearest.show(found, Screen(columns))
    assert max(map(width, out.split("\n"))) <= columns
    assert not steers(out)
    places = {width(line[: line.rindex("0.500")]) for line in out.split("\n")[3:5]}
    assert len(places) == 1  # the titles stand below each other
    unknown = nearest.show(Nearest(NASTY * 20, 0, 0.0, (), ()), Screen(columns))
    assert not steers(unknown)


def test_neighbours_among_titles_that_would_steer(tmp_path: Path, model_folder: Path) -> None:
    Index.build(Encoder.load(model_folder), [f"{NASTY} hotels", *TEXTS]).save(tmp_path / "index")
    out = ok("nearest", tmp_path / "index", "hotels", "hotels \x1b[2J")
    assert not steers(out)
    assert "␛[31mred␛[0m" in out
