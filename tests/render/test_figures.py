"""Figures show the data that they are given, and no text is cut."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

from clickvec.errors import ClickvecError
from clickvec.explanation import Explanation, Reading, explain
from clickvec.explanation.keywords import keywords_of, most_active
from clickvec.lab.compare.result_page import cost_curve
from clickvec.model.encoder import Encoder
from clickvec.render.figures import style
from clickvec.render.figures.gates import draw_gates
from clickvec.render.terminal.screen import width

matplotlib = pytest.importorskip("matplotlib")

QUERY = "hotels in shanghai"
TITLE = "shanghai hotels accommodation hotel in shanghai discount and reservation"
Drawn = list[Any]


def size_of(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The figures themselves, laid out, in place of files."""
    figures: Drawn = []

    def keep(figure: Any, path: Path) -> None:  # noqa: ANN401
        figure.draw_without_rendering()
        figures.append(figure)

    monkeypatch.setattr(style, "save", keep)
    return figures


def explained(**tower: Any) -> tuple[Explanation, Reading, Reading]:  # noqa: ANN401
    found = explain(Encoder(tiny(**tower)), QUERY, TITLE)
    query, title = found.query_side.reading, found.title_side.reading
    assert query
    assert title
    return found, query, title


def maps(figure: Any) -> list[Any]:  # noqa: ANN401
    """The axes with a heat map; those of a colour bar have no image of their own."""
    return [axes for axes in figure.axes if axes.images]


def values(axes: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401
    return np.asarray(axes.images[0].get_array())


def words_of(axes: Any) -> list[str]:  # noqa: ANN401
    return [label.get_text() for label in axes.get_xticklabels()]


def clipped(figure: Any) -> list[str]:  # noqa: ANN401
    """Texts that are not wholly on the figure."""
    page = figure.bbox.padded(1)
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.figure]
    return [text for text, box in boxes if not (page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1))]


# --- the paper's maps of a query and a title ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tower", "kinds"),
    [
        ({"kind": "rnn"}, ["output"]),
        ({"kind": "lstm"}, ["input_gate", "cell", "output_gate", "output"]),
        ({"kind": "bilstm"}, ["input_gate", "cell", "output_gate", "output"]),
        ({"kind": "lstm", "forget_gate": True}, ["input_gate", "forget_gate", "cell", "output_gate", "output"]),
    ],
    ids=["rnn", "lstm", "bilstm", "forget gate"],
)
def test_each_map_shows_its_cells_down_and_its_words_across(
    tower: dict[str, Any], kinds: list[str], drawn: Drawn, tmp_path: Path
) -> None:
    found, query, title = explained(**tower)
    draw_gates(found, tmp_path / "gates.png")
    drawn_maps = maps(drawn[0])
    columns = [(reading, way) for way in range(len(query.directions)) for reading in (query, title)]
    assert len(drawn_maps) == len(columns) * (len(kinds) + 1)
    for place, (reading, way) in enumerate(columns):
        column = drawn_maps[place * (len(kinds) + 1) : (place + 1) * (len(kinds) + 1)]
        for axes, kind in zip(column, kinds, strict=False):
            np.testing.assert_array_equal(values(axes), reading.directions[way].values[kind].T)
        assert words_of(column[0]) == words_of(column[-1]) == list(reading.words)
        best = most_active(reading.directions[way].embedding, 10)
        np.testing.assert_array_equal(values(column[-1]), reading.directions[way].values["output"].T[best])
    assert clipped(drawn[0]) == []


def test_a_word_is_as_wide_in_the_query_as_in_the_title_and_nothing_is_drawn_after_the_last(
    drawn: Drawn, tmp_path: Path
) -> None:
    found, _, _ = explained()
    draw_gates(found, tmp_path / "gates.png")
    for row in range(5):
        ours, theirs = maps(drawn[0])[row], maps(drawn[0])[5 + row]
        assert ours.get_xlim() == theirs.get_xlim() == (-0.5, 8.5)
        assert (ours.images[0].get_extent()[1], theirs.images[0].get_extent()[1]) == (2.5, 8.5)
        assert ours.bbox.width == pytest.approx(theirs.bbox.width)
        assert (ours.bbox.y0, ours.bbox.y1) == pytest.approx((theirs.bbox.y0, theirs.bbox.y1))


def test_colours_are_adjusted_to_each_kind_of_map(drawn: Drawn, tmp_path: Path) -> None:
    found, query, title = explained(forget_gate=True)
    draw_gates(found, tmp_path / "gates.png")
    adjusted = [axes.images[0].get_clim() for axes in maps(drawn[0])]
    assert adjusted[:6] == adjusted[6:]  # one range for the query's map and the title's
    assert adjusted[5] == adjusted[4]  # the most active cells are shown by their output
    gates, cells = (
        np.concatenate([reading.directions[0].values[kind].ravel() for reading in (query, title)])
        for kind in ("input_gate", "cell")
    )
    assert adjusted[0] == pytest.approx(np.quantile(gates, (0.02, 0.98)))  # but for a few, as open as they come
    assert adjusted[2] == pytest.approx((-np.abs(cells).max(), np.abs(cells).max()))
    assert len(drawn[0].axes) - len(maps(drawn[0])) == 2 + 5  # headings, and colour bars


def test_dots_are_where_a_cell_detects_a_word_and_keywords_stand_out(drawn: Drawn, tmp_path: Path) -> None:
    found, query, title = explained(kind="bilstm", cells=12)
    draw_gates(found, tmp_path / "gates.png")
    for axes, (reading, way) in zip(
        maps(drawn[0])[4::5], [(query, 0), (title, 0), (query, 1), (title, 1)], strict=True
    ):
        voted = keywords_of(reading)
        cells = [int(label.get_text().removeprefix("cell ")) for label in axes.get_yticklabels()]
        assert cells == most_active(reading.directions[way].embedding, 10).tolist()
        dots = {(int(word), cells[int(row)]) for word, row in axes.collections[-1].get_offsets()}
        detected = voted.cells[reading.directions[way].name]
        assert dots == {(word, cell) for word, some in enumerate(detected) for cell in some}
        bold = [label.get_fontweight() == "bold" for label in axes.get_xticklabels()]
        assert bold == [bool(verdict) for verdict in voted.verdicts]


@pytest.mark.parametrize(("query", "title", "which"), [("", TITLE, "query"), (QUERY, " ", "title")])
def test_where_there_is_nothing_to_draw_it_says_so(query: str, title: str, which: str, tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=f"the {which} has no words"):
        draw_gates(explain(Encoder(tiny()), query, title), tmp_path / "gates.png")
    assert not list(tmp_path.iterdir())


def test_words_of_any_script_prices_and_long_ones(drawn: Drawn, tmp_path: Path) -> None:
    encoder = Encoder(tiny(max_words=5))
    query, title = "上海酒店上海酒店上海酒店 السلام $a_$ naïve", f"{'w' * 60} สวัสดี नमस्ते 😀 how many words are there"
    draw_gates(explain(encoder, query, title), tmp_path / "gates.png")
    assert words_of(maps(drawn[0])[0]) == ["上海酒店上海…", "السلام", "$a_$", "naïve"]
    assert words_of(maps(drawn[0])[5])[0] == f"{'w' * 13}…"
    assert words_of(maps(drawn[0])[5])[-1] == "how many…"
    assert clipped(drawn[0]) == []


@given(st.text(max_size=40), st.integers(2, 20))
def test_what_is_shortened_fits_and_what_fits_stays(text: str, longest: int) -> None:
    short = style.shorten(text, longest)
    assert width(short) <= longest
    assert (short == text) == (width(text) <= longest)
    assert short == text or text.startswith(short.removesuffix("…"))


# --- the file ----------------------------------------------------------------------------------------------------


def test_the_same_figure_gives_the_same_file_and_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    found, _, _ = explained(cells=96)
    settings, filters = dict(matplotlib.rcParams), list(warnings.filters)
    for name in ("one", "two"):
        draw_gates(found, tmp_path / "new" / f"{name}.png")
    assert dict(matplotlib.rcParams) == settings
    assert list(warnings.filters) == filters
    one, two = ((tmp_path / "new" / f"{name}.png").read_bytes() for name in ("one", "two"))
    assert one == two
    assert not any(chunk in one for chunk in (b"tEXt", b"iTXt", b"tIME"))
    assert min(size_of(tmp_path / "new" / "one.png")) > 1000


def test_what_was_there_stays_when_a_figure_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ClickvecError, match=r"folder\.png"):
        cost_curve({"LSTM-RNN": [2.0, 1.0]}, tmp_path / "folder.png")
    (tmp_path / "old.png").write_bytes(b"old")
    with pytest.raises(ClickvecError, match="nothing to draw"):
        cost_curve({}, tmp_path / "old.png")
    assert (tmp_path / "old.png").read_bytes() == b"old"


# --- the training cost


def test_a_cost_curve_of_systems_with_different_epochs(tmp_path: Path) -> None:
    cost_curve({"LSTM-RNN": [2.0, 0.5, 0.1], "RNN": [2.5, 1.5], "none": []}, tmp_path / "new" / "cost.png")
    width, height = size_of(tmp_path / "new" / "cost.png")
    assert width > height
    with pytest.raises(ClickvecError, match="nothing to draw"):
        cost_curve({"LSTM-RNN": []}, tmp_path / "none.png")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_costs_are_on_a_logarithmic_axis(drawn: Drawn, tmp_path: Path) -> None:
    cost_curve({"LSTM-RNN": [2.0, 0.5], "RNN": [2.5, 1.5]}, tmp_path / "cost.png")
    (axes,) = drawn[0].axes
    assert axes.get_yscale() == "log"
    assert {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in axes.lines} == {
        "LSTM-RNN": (1, 2, 2.0, 0.5), "RNN": (1, 2, 2.5, 1.5)
    }  # fmt: skip
