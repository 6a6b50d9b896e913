"""Figures show what they were given, whole and legible; tables and progress look as they should."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

from clickvec.cli.bar import Bar
from clickvec.errors import ClickvecError
from clickvec.explanation import Reading, explain_pair, read
from clickvec.explanation.keywords import Rule, keywords_of, most_active
from clickvec.model.encoder import Encoder
from clickvec.render import figures
from clickvec.render.figures import style
from clickvec.render.figures.maps import _by_group
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


def readings(**tower: Any) -> tuple[Reading, Reading]:  # noqa: ANN401
    encoder = Encoder(tiny(**tower))
    return read(encoder, "query", QUERY), read(encoder, "title", TITLE)


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
    query, title = readings(**tower)
    figures.explanation(query, title, tmp_path / "gates.png")
    found = maps(drawn[0])
    columns = [(reading, way) for way in range(len(query.ways)) for reading in (query, title)]
    assert len(found) == len(columns) * (len(kinds) + 1)
    for place, (reading, way) in enumerate(columns):
        column = found[place * (len(kinds) + 1) : (place + 1) * (len(kinds) + 1)]
        for axes, kind in zip(column, kinds, strict=False):
            np.testing.assert_array_equal(values(axes), reading.ways[way].values[kind].T)
        assert words_of(column[0]) == words_of(column[-1]) == list(reading.words)
        best = most_active(reading.embeddings[way], 10)
        np.testing.assert_array_equal(values(column[-1]), reading.ways[way].values["output"].T[best])
    assert clipped(drawn[0]) == []


def test_a_word_is_as_wide_in_the_query_as_in_the_title_and_nothing_is_drawn_after_the_last(
    drawn: Drawn, tmp_path: Path
) -> None:
    query, title = readings()
    figures.explanation(query, title, tmp_path / "gates.png")
    for row in range(5):
        ours, theirs = maps(drawn[0])[row], maps(drawn[0])[5 + row]
        assert ours.get_xlim() == theirs.get_xlim() == (-0.5, 8.5)
        assert (ours.images[0].get_extent()[1], theirs.images[0].get_extent()[1]) == (2.5, 8.5)
        assert ours.bbox.width == pytest.approx(theirs.bbox.width)
        assert (ours.bbox.y0, ours.bbox.y1) == pytest.approx((theirs.bbox.y0, theirs.bbox.y1))


def test_colours_are_adjusted_to_each_kind_of_map_or_the_same_for_all(drawn: Drawn, tmp_path: Path) -> None:
    query, title = readings(forget_gate=True)
    for same_range in (False, True):
        figures.explanation(query, title, tmp_path / "gates.png", same_range=same_range)
    adjusted, same = ([axes.images[0].get_clim() for axes in maps(figure)] for figure in drawn)
    assert adjusted[:6] == adjusted[6:]  # one range for the query's map and the title's
    assert adjusted[5] == adjusted[4]  # the most active cells are shown by their output
    gates, cells = (
        np.concatenate([reading.ways[0].values[kind].ravel() for reading in (query, title)])
        for kind in ("input_gate", "cell")
    )
    assert adjusted[0] == pytest.approx(np.quantile(gates, (0.02, 0.98)))  # but for a few, as open as they come
    assert adjusted[2] == pytest.approx((-np.abs(cells).max(), np.abs(cells).max()))
    assert len(set(same)) == 1
    assert same[0][0] == -same[0][1]
    assert [len(figure.axes) - len(maps(figure)) for figure in drawn] == [2 + 5, 2 + 1]  # headings, and colour bars


def test_dots_are_where_a_cell_detects_a_word_and_keywords_stand_out(drawn: Drawn, tmp_path: Path) -> None:
    query, title = readings(kind="bilstm", cells=12)
    figures.explanation(query, title, tmp_path / "gates.png")
    for axes, (reading, way) in zip(
        maps(drawn[0])[4::5], [(query, 0), (title, 0), (query, 1), (title, 1)], strict=True
    ):
        found = keywords_of(reading)
        cells = [int(label.get_text().removeprefix("cell ")) for label in axes.get_yticklabels()]
        assert cells == most_active(reading.embeddings[way], 10).tolist()
        dots = {(int(word), cells[int(row)]) for word, row in axes.collections[-1].get_offsets()}
        detected = found.cells[reading.ways[way].name]
        assert dots == {(word, cell) for word, some in enumerate(detected) for cell in some}
        bold = [label.get_fontweight() == "bold" for label in axes.get_xticklabels()]
        assert bold == [bool(verdict) for verdict in found.verdicts]


def test_the_rule_for_keywords_is_that_of_the_figure(drawn: Drawn, tmp_path: Path) -> None:
    rule = Rule(active=4, threshold=0.5, share=0.25)
    query, title = readings(kind="lstm")
    figures.explanation(query, title, tmp_path / "gates.png", rule=rule)
    found = keywords_of(title, **rule._asdict())
    last = [axes for axes in maps(drawn[0]) if len(values(axes)) == 4][-1]
    assert len(last.collections[-1].get_offsets()) == sum(map(len, found.cells["left to right"]))
    bold = [label.get_fontweight() == "bold" for label in last.get_xticklabels()]
    assert bold == [bool(said) for said in found.verdicts]


def test_a_query_alone(drawn: Drawn, tmp_path: Path) -> None:
    figures.explanation(readings()[0], None, tmp_path / "gates.png")
    assert len(maps(drawn[0])) == 5
    assert maps(drawn[0])[0].get_xlim() == (-0.5, 2.5)


@pytest.mark.parametrize(("query", "title", "which"), [("", TITLE, "query"), (QUERY, " ", "title")])
def test_where_there_is_nothing_to_draw_it_says_so(query: str, title: str, which: str, tmp_path: Path) -> None:
    encoder = Encoder(tiny())
    with pytest.raises(ClickvecError, match=f"nothing to draw: the {which} has no words"):
        figures.explanation(read(encoder, "query", query), read(encoder, "title", title), tmp_path / "gates.png")
    assert not list(tmp_path.iterdir())


def test_words_of_any_script_prices_and_long_ones(drawn: Drawn, tmp_path: Path) -> None:
    encoder = Encoder(tiny(max_words=5))
    query, title = "上海酒店上海酒店上海酒店 السلام $a_$ naïve", f"{'w' * 60} สวัสดี नमस्ते 😀 how many words are there"
    figures.explanation(read(encoder, "query", query), read(encoder, "title", title), tmp_path / "gates.png")
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


# --- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lstm", "dssm"])
def test_bars_are_the_contributions_and_the_map_is_that_of_the_links(kind: str, drawn: Drawn, tmp_path: Path) -> None:
    explanation = explain_pair(Encoder(tiny(kind)), QUERY, TITLE)
    figures.contributions(explanation, tmp_path / "words.png")
    query, title, *links = drawn[0].axes
    for axes, words in ((query, explanation.query_words), (title, explanation.title_words)):
        assert [bar.get_width() for bar in axes.patches] == [word.contribution for word in words]
        assert [label.get_text() for label in axes.get_yticklabels()] == [word.word for word in words]
    assert query.get_xlim() == title.get_xlim()
    assert len(links) == (kind == "lstm")
    if links:
        np.testing.assert_array_equal(values(links[0]), explanation.links)
    assert f"score {explanation.score:.3f}" in drawn[0].get_suptitle()
    assert clipped(drawn[0]) == []


def test_contributions_of_an_empty_title_and_of_nothing(drawn: Drawn, tmp_path: Path) -> None:
    encoder = Encoder(tiny())
    figures.contributions(explain_pair(encoder, QUERY, ""), tmp_path / "words.png")
    assert [len(axes.patches) for axes in drawn[0].axes] == [3, 0]
    with pytest.raises(ClickvecError, match="neither the query nor the title has a word"):
        figures.contributions(explain_pair(encoder, "", ""), tmp_path / "words.png")


def test_deletion_curves_are_in_per_cent_and_random_is_dashed(drawn: Drawn, tmp_path: Path) -> None:
    curves = {"shapley": [1.0, 0.5, -0.1], "random": [1.0, 0.8, 0.6], "none": []}
    figures.deletion_curves(curves, tmp_path / "deletion.png")
    (axes,) = drawn[0].axes
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"shapley", "random"}
    np.testing.assert_allclose(lines["shapley"].get_ydata(), [100, 50, -10])
    assert [line.get_linestyle() for line in lines.values()] == ["-", "--"]
    assert axes.get_ylim()[0] <= -10
    with pytest.raises(ClickvecError, match="nothing to draw"):
        figures.deletion_curves({"none": []}, tmp_path / "none.png")


def test_function_words_beside_content_words(drawn: Drawn, tmp_path: Path) -> None:
    measures = {"gate": {"LSTM": (0.4, 0.6), "other": (0.5, 0.5)}, "effect": {"LSTM": (0.01, 0.2)}}
    figures.function_word_bars(measures, tmp_path / "function.png")
    gate, effect = drawn[0].axes
    assert [bar.get_width() for bar in gate.patches] == [0.4, 0.5, 0.6, 0.5]
    assert [bar.get_width() for bar in effect.patches] == [0.01, 0, 0.2, 0]
    assert [text.get_text() for text in effect.texts] == ["0.010", "", "0.200", ""]  # what was not measured is not 0
    assert clipped(drawn[0]) == []
    with pytest.raises(ClickvecError, match="nothing to draw"):
        figures.function_word_bars({"gate": {}}, tmp_path / "none.png")


# --- maps --------------------------------------------------------------------------------------------------------


def test_a_topic_map_is_its_table(drawn: Drawn, tmp_path: Path) -> None:
    table = np.arange(6).reshape(3, 2) / 5
    figures.topic_map(["cell 3: pizza", "cell 0", "cell 9"], ["food", "home repair"], table, tmp_path / "topics.png",
                    title="What the cells answer to", values="share")  # fmt: skip
    axes = maps(drawn[0])[0]
    np.testing.assert_array_equal(values(axes), table)
    assert axes.images[0].get_clim() == (0, 1)
    assert words_of(axes) == ["food", "home repair"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cell 3: pizza", "cell 0", "cell 9"]
    assert clipped(drawn[0]) == []


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 30), (96, 16)])
def test_a_topic_map_of_any_size(rows: int, columns: int, drawn: Drawn, tmp_path: Path) -> None:
    names = [f"cell {row}: {'word, ' * 20}" for row in range(rows)], [f"topic {column}" for column in range(columns)]
    figures.topic_map(*names, np.zeros((rows, columns)), tmp_path / "topics.png", title="t", values="share of it")
    assert clipped(drawn[0]) == []


def test_a_topic_map_that_does_not_fit_its_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="nothing to draw"):
        figures.topic_map([], ["food"], np.zeros((0, 1)), tmp_path / "topics.png")
    with pytest.raises(ClickvecError, match=r"\(2, 1\) does not fit 1 rows and 1 columns"):
        figures.topic_map(["cell 0"], ["food"], [[1], [2]], tmp_path / "topics.png")


def test_names_on_a_map_of_titles_do_not_overlap(drawn: Drawn, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points, groups = rng.normal(size=(300, 2)), [f"group {number}" for number in rng.integers(0, 20, 300)]
    texts = [f"title number {place} with a few more words" for place in range(300)]
    figures.title_map(points, texts, groups, tmp_path / "titles.png", title="titles")
    (axes,) = drawn[0].axes
    named = [text for text in axes.texts if text.get_text().startswith("title")]
    assert len(named) >= 10
    assert all(text.get_text() == f"title number {text.get_text().split()[2]} with a few…" for text in named)
    boxes = [text.get_window_extent() for text in axes.texts]
    for place, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[place + 1 :])
        assert axes.bbox.contains(box.x0, box.y0)
        assert axes.bbox.contains(box.x1, box.y1)
    every = np.concatenate([dots.get_offsets() for dots in axes.collections[:-1]])
    assert sorted(map(tuple, every)) == sorted(map(tuple, points))  # each once, in the colour of some group
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "4 other groups"
    assert clipped(drawn[0]) == []


def test_groups_in_the_order_of_their_names_and_small_ones_together() -> None:
    assert _by_group(["b", "a", "b"]) == {"a": [1], "b": [0, 2]}
    many = [f"{place:02}" for place in range(18)] + ["17"]
    found = _by_group(many)
    assert len(found) == len(style.GROUPS) + 1
    assert found["17"] == [17, 18]
    assert found["2 other groups"] == [15, 16]


def test_a_map_of_one_group_or_of_one_place(drawn: Drawn, tmp_path: Path) -> None:
    figures.title_map([[0, 0], [1, 2]], ["one", "two"], ["all", "all"], tmp_path / "titles.png")
    assert drawn[0].axes[0].get_legend() is None
    assert {text.get_text() for text in drawn[0].axes[0].texts} == {"one", "two"}
    figures.title_map(np.zeros((50, 2)), ["same"] * 50, ["all"] * 50, tmp_path / "titles.png")
    assert [text.get_text() for text in drawn[1].axes[0].texts] == ["same"]


def test_a_group_is_named_on_the_map_unless_its_name_would_hide_it(drawn: Drawn, tmp_path: Path) -> None:
    wide = np.stack(np.meshgrid(np.arange(10.0), np.arange(10.0)), axis=2).reshape(-1, 2)
    points = np.concatenate((wide, np.full((5, 2), 20.0)))
    figures.title_map(points, ["t"] * 105, ["wide"] * 100 + ["narrow"] * 5, tmp_path / "titles.png", labels=0)
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["wide"]
    assert [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()] == ["narrow", "wide"]


def test_titles_without_a_point_each_are_refused(tmp_path: Path) -> None:
    for points, groups in (([[0, 0]], ["a", "b"]), ([[0, 0], [1, 1]], ["a"]), ([0, 1], ["a", "b"])):
        with pytest.raises(ClickvecError, match="2 titles need as many groups and a point each"):
            figures.title_map(points, ["one", "two"], groups, tmp_path / "titles.png")
    with pytest.raises(ClickvecError, match="nothing to draw"):
        figures.title_map(np.zeros((0, 2)), [], [], tmp_path / "titles.png")


# --- the file ----------------------------------------------------------------------------------------------------


def test_the_same_figure_gives_the_same_small_file_and_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    query, title = readings(cells=96)
    settings, filters = dict(matplotlib.rcParams), list(warnings.filters)
    for name in ("one", "two"):
        figures.explanation(query, title, tmp_path / "new" / f"{name}.png")
    assert dict(matplotlib.rcParams) == settings
    assert list(warnings.filters) == filters
    one, two = ((tmp_path / "new" / f"{name}.png").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) < 200_000
    assert not any(chunk in one for chunk in (b"tEXt", b"iTXt", b"tIME"))
    assert min(size_of(tmp_path / "new" / "one.png")) > 1000


def test_what_was_there_stays_when_a_figure_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ClickvecError, match="is a folder; name a file to write"):
        figures.cost_curve({"LSTM-RNN": [2.0, 1.0]}, tmp_path / "folder.png")
    (tmp_path / "old.png").write_bytes(b"old")
    with pytest.raises(ClickvecError, match="nothing to draw"):
        figures.cost_curve({}, tmp_path / "old.png")
    assert (tmp_path / "old.png").read_bytes() == b"old"


def test_frequent_colours_stay_as_they_are_and_rare_ones_nearly() -> None:
    rng = np.random.default_rng(0)
    few = rng.integers(0, 256, (256, 3), np.uint8)[rng.integers(0, 256, (40, 50))]
    pixels, palette = style._few_colours(few)
    np.testing.assert_array_equal(palette[pixels], few)
    greys = np.repeat(rng.permutation(256)[:150].astype(np.uint8)[:, None, None], 50, axis=1).repeat(3, axis=2)
    ramp = np.stack([np.arange(150), np.zeros(150), np.full(150, 255)], axis=1).astype(np.uint8)[:, None]
    pixels, palette = style._few_colours(np.concatenate((greys, ramp), axis=1))
    np.testing.assert_array_equal(palette[pixels][:, :50], greys)
    assert np.abs(palette[pixels][:, 50:].astype(int) - ramp).max() <= 2
    assert len(palette) == 256


# --- training ----------------------------------------------------------------------------------------------------


def test_a_training_curve_with_and_without_dev(tmp_path: Path) -> None:
    rows = [{"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)]
    figures.training_curve(rows, tmp_path / "loss.png")
    figures.training_curve([row | {"dev": {"NDCG@10": 50.0}} for row in rows], tmp_path / "both.png")
    assert size_of(tmp_path / "loss.png") == size_of(tmp_path / "both.png")
    assert (tmp_path / "loss.png").read_bytes() != (tmp_path / "both.png").read_bytes()


@pytest.mark.parametrize("losses", [[0.4, 0.399, 0.398], [5.0], [3.0, 1.0, 0.0], [0.0]])
def test_no_marker_of_a_training_curve_is_cut(losses: list[float], drawn: Drawn, tmp_path: Path) -> None:
    rows = [{"epoch": at, "loss": loss, "dev": {"NDCG@10": 50.0 + at}} for at, loss in enumerate(losses, 1)]
    figures.training_curve(rows, tmp_path / "training.png")
    (figure,) = drawn
    for axes in figure.axes:
        for line in axes.lines:
            half = line.get_markersize() * figure.dpi / 72 / 2
            for x, y in axes.transData.transform(line.get_xydata()):
                box = axes.bbox if line.get_clip_on() else figure.bbox
                assert box.x0 <= x - half < x + half <= box.x1
                assert box.y0 <= y - half < y + half <= box.y1
                assert y + half <= axes.bbox.y1  # below the legend


def test_progress_counts_from_where_it_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(np.arange(0.0, 100.0, 10.0))
    monkeypatch.setattr("clickvec.cli.bar.time.monotonic", lambda: float(next(clock)))
    bar = Bar()
    bar("epoch 2/3", 400, 1000)
    bar("epoch 2/3", 500, 1000, "loss 0.5")
    assert capsys.readouterr().err == "epoch 2/3 50% of 1,000, 0:50 left, 10/s, loss 0.5\n"


def test_a_cost_curve_of_systems_with_different_epochs(tmp_path: Path) -> None:
    figures.cost_curve({"LSTM-RNN": [2.0, 0.5, 0.1], "RNN": [2.5, 1.5], "none": []}, tmp_path / "new" / "cost.png")
    width, height = size_of(tmp_path / "new" / "cost.png")
    assert width > height
    with pytest.raises(ClickvecError, match="nothing to draw"):
        figures.cost_curve({"LSTM-RNN": []}, tmp_path / "none.png")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_costs_are_on_a_logarithmic_axis(drawn: Drawn, tmp_path: Path) -> None:
    figures.cost_curve({"LSTM-RNN": [2.0, 0.5], "RNN": [2.5, 1.5]}, tmp_path / "cost.png")
    (axes,) = drawn[0].axes
    assert axes.get_yscale() == "log"
    assert {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in axes.lines} == {
        "LSTM-RNN": (1, 2, 2.0, 0.5), "RNN": (1, 2, 2.5, 1.5)
    }  # fmt: skip
