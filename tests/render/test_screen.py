"""Text for a terminal: widths, cuts, bars, tables that fit, topics and neighbours with nothing in them that steers."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import pytest
from command import ok
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TEXTS, tiny_model

from clickvec.explanation.neighbours import Nearest, NearTitle, NearWord
from clickvec.explanation.topics import Topic, Topics, TopicWord
from clickvec.model.encoder import Encoder
from clickvec.render.labels import cell_name, counted, plain, signed
from clickvec.render.terminal.model_text import show_nearest, show_topics
from clickvec.render.terminal.screen import BAR, Bar, Screen, clip, joined, pad, this_screen, width
from clickvec.search.index import Index
from clickvec.text.printable import COLOURS, clean

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


def test_bars_show_sign_and_share_of_the_largest() -> None:
    assert [str(Bar(value, 2.0)) for value in (2.0, -1.0, 0.01, 0.0)] == ["+" * BAR, "-" * (BAR // 2), "", ""]
    assert str(Bar(0.0, 0.0)) == ""


def test_words_follow_their_label_in_lines_that_fit() -> None:
    words, values = ["上海", "of", "a", "hotel"], [1.0, 0.0, -0.9, 0.4]
    assert Screen(80).words("q  ", words, values, 1.0) == ["q  上海 of a hotel"]
    assert Screen(12).words("q  ", words, values, 1.0) == ["q  上海 of a", "   hotel"]
    assert Screen(12).words("q  ", [], [], 0.0) == ["q"]


def test_rich_colours_words_and_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")  # whether there are colours was decided before
    screen = Screen(40, colour=True)
    assert screen.words("q  ", ["上海", "of", "a", "hotel"], [1.0, 0.0, -0.9, 0.4], 1.0) == [
        "q  \x1b[7;32m上海\x1b[0m of \x1b[7;31ma\x1b[0m \x1b[1;32mhotel\x1b[0m"
    ]
    head, _, *rows = screen.table("<><", ("word", "gives", ""), [("a", "+1", Bar(1, 1)), ("b", "-1", Bar(-1, 1))])
    assert "\x1b[1mword" in head
    assert [row.count("\x1b[32m" if at == 0 else "\x1b[31m") for at, row in enumerate(rows)] == [1, 1]


@pytest.mark.parametrize("text", [NASTY, "[bold]x[/bold]", "[link=http://a.b]x[/link]", ":smile:", "上海" * 300])
def test_neither_markup_nor_escapes_of_data_reach_the_terminal(text: str) -> None:
    screen = Screen(60, colour=True)
    table = screen.table("<>", (text, "count"), [(text, "1"), ("b", "22")])
    for line in (*table, *screen.words("query  ", [text, text], [1.0, -1.0], 1.0)):
        assert width(line) <= 60
        assert COLOURS.sub("", line).isprintable()
    if "上" not in text:
        assert clean(text).split()[0] in COLOURS.sub("", "".join(table))


def test_with_no_color_text_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clickvec.render.terminal.screen.is_terminal", lambda _: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert this_screen().colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not this_screen().colour
    monkeypatch.undo()
    assert not this_screen().colour  # the tests have no terminal


def test_a_cell_has_one_name() -> None:
    assert cell_name(7, "left to right") == cell_name(7, "") == "7"
    assert cell_name(7, "right to left", "+") == "7+ ←"


def test_numbers_have_a_sign_unless_they_round_to_zero() -> None:
    assert [signed(value) for value in (0.5, -0.5, 0.0001, -0.0001)] == ["+0.500", "-0.500", "0.000", "0.000"]
    assert [plain(value, 2) for value in (0.5, -0.5, -0.001, None)] == ["0.50", "-0.50", "0.00", "–"]


def test_parts_are_separated_and_nouns_have_a_plural() -> None:
    assert joined([["a"], [], ["b", "c"], []]) == "a\n\nb\nc"
    assert [counted(number, "title") for number in (0, 1, 2_910)] == ["0 titles", "1 title", "2,910 titles"]
    assert counted(2, "query", "queries") == "2 queries"


def test_any_column_of_a_table_can_be_cut() -> None:
    lines = Screen(20).table("<<", ("a", "words"), [("1", "one two three four"), ("22", "上海上海上海上海上海")], cut=1)
    assert lines == ["a   words", "-" * 20, "1   one two three...", "22  上海上海上海..."]


# --- topics ------------------------------------------------------------------------------------------------------


def cell(at: int, ways: int = 1, word: str = "word") -> list[Topic]:
    words = tuple(TopicWord(f"{word}{number}", 3, 2.5) for number in range(8))
    way = "left to right" if at % ways == 0 else "right to left"
    return [Topic(at, at // ways, way, sign, 12_345, words, 0.5, 0) for sign in "+-"]


def topics(every: Iterable[Topic], dead: tuple[int, ...] = ()) -> Topics:
    return Topics("query", 9, 99, 5, 1.0, tuple(every), ((NASTY, "word"),), dead)


def test_dead_cells_are_named() -> None:
    found = topics([topic for at in range(6) for topic in cell(at, 2)], (0, 5))
    assert show_topics(found, [], Screen(200)).splitlines()[-1] == "dead cells: 0, 2 ←"
    assert show_topics(topics(cell(0)), [], Screen()).splitlines()[-1] == "dead cells: none"


def test_of_many_cells_the_most_specific_that_detect_enough() -> None:
    every = []
    for at in range(4):
        above, below = cell(at)
        every.append(dataclasses.replace(above, detections=20, specificity=at / 10))
        every.append(dataclasses.replace(below, detections=19 - at, specificity=0.9))
    out = show_topics(topics(every), range(4), Screen(200), most=5).splitlines()
    assert [line.split()[:2] for line in out[2:7]] == [["3", "+"], ["2", "+"], ["1", "+"], ["0", "+"], ["0", "-"]]
    assert "3 more rows with --all" in out[7]
    assert "1 more row with --all" in show_topics(topics(every), range(4), Screen(200), most=7)
    for most in (8, None):
        whole = show_topics(topics(every), range(4), Screen(200), most=most).splitlines()
        assert [line.split()[:2] for line in whole[2:10]] == [[str(at), sign] for at in range(4) for sign in "+-"]
        assert "--all" not in "".join(whole)


def test_groups_name_signed_cells_with_their_directions() -> None:
    found = topics([*cell(0, 2), *cell(1, 2)])
    line = next(line for line in show_topics(found, [0], Screen(200)).splitlines() if line.startswith("group"))
    assert line.startswith("group 0: 0+, 0-, 0+ ←, 0- ←: ␛[31m")


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("word", ["word", NASTY, "上海" * 30])
def test_topics_fit_the_terminal_and_do_not_steer_it(columns: int, word: str) -> None:
    found = topics([topic for at in range(96) for topic in cell(at, 2, word)], tuple(range(0, 96, 3)))
    out = show_topics(found, range(96), Screen(columns))
    assert max(map(width, out.split("\n"))) <= columns
    assert not steers(out)


@pytest.mark.parametrize("columns", [70, 200])
def test_topics_of_queries_that_would_steer(columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    queries = tmp_path / "queries.txt"
    queries.write_text("query\n" + "".join(f"{text} hotels\x1b[2J {text}\n" for text in TEXTS), encoding="utf-8")
    for kind in ("lstm", "bilstm"):
        out = ok("topics", tiny_model(tmp_path / kind, kind), queries)
        assert max(map(width, out.split("\n"))) <= columns
        assert not steers(out)
        assert "hotels␛[2j" in out or columns == 70


# --- neighbours --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_neighbours_fit_and_do_not_steer(columns: int) -> None:
    found = Nearest(
        NASTY * 20, 0, 0.5, (NearWord(NASTY, 0.5, 1), NearWord("b", 0.25, 2)), (NearTitle(NASTY * 9, 0.5),) * 3
    )
    out = show_nearest(found, Screen(columns))
    assert max(map(width, out.split("\n"))) <= columns
    assert not steers(out)
    unknown = show_nearest(Nearest(NASTY * 20, 0, 0.0, (), ()), Screen(columns))
    assert not steers(unknown)


def test_neighbours_among_titles_that_would_steer(tmp_path: Path, model_folder: Path) -> None:
    Index.build(Encoder.load(model_folder), [f"{NASTY} hotels", *TEXTS]).save(tmp_path / "index")
    out = ok("nearest", tmp_path / "index", "hotels", "hotels \x1b[2J")
    assert not steers(out)
    assert "␛[31mred␛[0m" in out
