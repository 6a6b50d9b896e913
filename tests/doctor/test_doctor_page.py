"""The page of the doctor: plots show their numbers, text stays text, and it fits a phone."""

from pathlib import Path

import pytest
from browser import look, needs_chromium
from markup import parse

from clickvec.doctor.examination import Examination
from clickvec.doctor.finding import Finding, Plot
from clickvec.render.html.doctor_page import doctor_page, write_page
from clickvec.render.html.plots import _round_up, plot
from clickvec.render.terminal.doctor_text import show_examination
from clickvec.render.terminal.screen import Screen

CURVE = Plot(
    "A curve", "curve", ("1", "10", "a last, long label"), (10.0, 20.0, 40.0), "%", (5.0, 15.0, 30.0),
    (12.0, 25.0, 50.0), ("BM25", 30.0),
)  # fmt: skip
BARS = Plot("Bars", "bars", ("one", "<two>"), (1.0, 1234.0))
EXAMINATION = Examination(
    "logs/<b>.tsv", "all clicked lines (3)", 12.3,
    (
        Finding("lines", "Lines", "3 lines.", "Nothing to do.", {"lines": 3}, plots=(BARS, CURVE)),
        Finding("clicks", "Clicks", "A <script> of \x1b[31mclicks.", "Do this.", {"clicks": 3.0, "pairs": 2},
                ("an <i>example</i> \u202ereversed",), act=True),
    ),
)  # fmt: skip


def test_a_curve_is_where_its_numbers_are() -> None:
    root = parse(plot(CURVE))
    points = [(float(dot.attributes["cx"] or 0), float(dot.attributes["cy"] or 0)) for dot in root.all("circle")]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    bottom, top = 236.0, 24.0  # 0% and 50%
    assert [y for _, y in points] == pytest.approx(
        [bottom - (bottom - top) * value / 50 for value in CURVE.values], abs=0.1
    )
    assert [dot.text for dot in root.all("circle")] == ["1: 10.0%", "10: 20.0%", "a last, long label: 40.0%"]
    assert len(root.all("path", "band")) == len(root.all("line", "level")) == 1
    assert "BM25" in root.text


def test_bars_show_their_numbers() -> None:
    assert parse(plot(BARS)).rows()[1:] == [["one", "1"], ["<two>", "1,234"]]


@pytest.mark.parametrize(("value", "top"), [(41.2, 50), (0.3, 0.4), (100, 100), (1, 1), (730, 800), (0.021, 0.04)])
def test_axes_end_at_a_round_number(value: float, top: float) -> None:
    assert _round_up(value) == pytest.approx(top)


def test_text_is_text_and_what_needs_attention_comes_first(tmp_path: Path) -> None:
    write_page(EXAMINATION, tmp_path / "page.html")
    root = parse((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert root.all("h1")[0].text == "logs/<b>.tsv"
    assert not root.all("script")
    assert root.all("p", "lead")[0].text == "1 finding needs attention: Clicks."
    assert [figure.text for figure in root.all("ul", "figures")[0].all("li")] == ["3lines", "3clicks", "2pairs"]
    assert "an <i>example</i>" in root.text


def test_the_terminal_is_safe_and_short() -> None:
    text = show_examination(EXAMINATION, Screen(60))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(len(line) <= 60 for line in text.splitlines())
    assert "! Clicks" in text
    assert "1 of 2 findings needs attention (marked with !)." in " ".join(text.split())


@needs_chromium
def test_it_fits_a_phone_and_asks_for_nothing(tmp_path: Path) -> None:
    seen = look(doctor_page(EXAMINATION), tmp_path, 360)
    assert seen["scroll"] <= seen["width"]
    assert seen["wide"] == []
    assert seen["asked"] == ["/page.html"]
