"""The paper's figures of a query and a title: what each cell did at each word.

One grid serves all towers: a column of maps for each text (and direction), under its words; a row for each kind of map,
with its colours at the right; so one looks down from a word to see what it did. The last row has the most active
cells, as the paper's figures of keywords have them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.explanation.keywords import RULE, Rule, keywords_of, most_active
from clickvec.explanation.reading import Floats, Reading
from clickvec.render.figures.style import INK, Range, colour_bar, drawing, heat_map, rising, shorten, words_on_axis
from clickvec.render.terminal.screen import clip, width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What to draw, its name, and its sign in the paper.
MAPS = {
    "input_gate": ("input gate", "i(t)"), "forget_gate": ("forget gate", "f(t)"), "cell": ("cell state", "c(t)"),
    "output_gate": ("output gate", "o(t)"), "output": ("output", "y(t)"),
}  # fmt: skip
LINE, LETTERS = 0.18, 13  # of a heading: the height of a line, and letters that fit, in inches and to the inch
OUTLIERS = 0.02  # of the values of a gate at either end, which must not decide the colours of the others


class Column(NamedTuple):
    """One text, read in one direction."""

    heading: str
    words: tuple[str, ...]
    maps: dict[str, Floats]  # by name, (cells, words)
    active: NDArray[np.int64]  # the most active cells, the most active first
    detected: tuple[tuple[int, ...], ...]  # for each word those of them that detect it
    keywords: tuple[bool | None, ...]


def explanation(
    query: Reading,
    title: Reading | None,
    path: Path,
    *,
    same_range: bool = False,
    rule: Rule = RULE,
    heading: Sequence[str] = (),
) -> None:
    """Heat maps of gates, cells and outputs of a query and a title side by side, cells down and words across.

    Colours are adjusted to each kind of map, or have one range for all (`same_range`), as in the paper's own figures.
    The heading is lines above all, cut where the figure ends.
    """
    texts = {"query": query} if title is None else {"query": query, "title": title}
    for side, reading in texts.items():
        if not reading.words:
            raise ClickvecError(f"there is nothing to draw: the {side} has no words")
    columns = [_column(side, reading, way, rule) for way in range(len(query.ways)) for side, reading in texts.items()]
    names = [name for name in MAPS if any(_tells(name, column) for column in columns)]
    ranges = _ranges(columns, names, same_range)
    layout = _layout(columns, len(names))
    with drawing(path, layout.across, layout.down + LINE * len(heading)) as figure:
        if heading:
            lines = [clip(line, int(layout.across * LETTERS)) for line in heading]
            figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=9)
        grid = figure.add_gridspec(
            2 + len(names), len(columns) + 1, width_ratios=layout.widths, height_ratios=layout.heights
        )
        for place, column in enumerate(columns):
            _heading(figure.add_subplot(grid[0, place]), column.heading)
            for row, name in enumerate(names, start=1):
                axes = figure.add_subplot(grid[row, place])
                shades = rising() if _open_or_shut(name) and not same_range else None
                image = heat_map(axes, column.maps[name], ranges[name], columns=layout.words, colour_map=shades)
                _cells_on_axis(axes, _numbers(len(column.maps[name])), "\n".join(MAPS[name]) if place == 0 else "")
                if row == 1:
                    words_on_axis(axes, column.words, top=True, marked=column.keywords)
                if place == 0 and not same_range:
                    colour_bar(figure, image, figure.add_subplot(grid[row, -1]))
            axes = figure.add_subplot(grid[-1, place])
            _active_cells(axes, column, layout.words, ranges["output"])
            axes.set_ylabel(f"{len(column.active)} most\nactive cells" if place == 0 else "", fontsize=10)
        if same_range:
            colour_bar(figure, image, figure.add_subplot(grid[1:-1, -1]))
        figure.align_ylabels([axes for axes in figure.axes if axes.get_ylabel()])
        figure.supxlabel("dot: the cell detects the word        rust: keyword", fontsize=8.5)


class _Layout(NamedTuple):
    """Sizes in inches."""

    words: int  # columns of each map: those of the longest text
    across: float
    down: float
    widths: list[float]
    heights: list[float]


def _layout(columns: Sequence[Column], maps: int) -> _Layout:
    """Room for the maps, and for the words above and below them."""
    words = max(len(column.words) for column in columns)
    cells, active = len(columns[0].maps["output"]), len(columns[0].active)
    map_width = max(0.25 * words, 2.4 if len(columns) < 4 else 1.8)
    map_height = min(max(0.95, 0.03 * cells), 1.5 if maps > 1 else 3.2)
    active_height = max(0.95, 0.16 * active)
    slanted = 0.3 + 0.055 * max(width(shorten(word)) for column in columns for word in column.words)
    return _Layout(
        words,
        across=1.6 + len(columns) * (map_width + 0.4),
        down=0.8 + 2 * slanted + maps * (map_height + 0.08) + active_height,
        widths=[map_width] * len(columns) + [0.13],
        heights=[0.2] + [map_height] * maps + [active_height],
    )


def _heading(axes: "Axes", text: str) -> None:
    """The name of a column, on axes of its own: so that all are at the same height, above the longest word."""
    axes.axis("off")
    axes.text(0, 0.5, text, transform=axes.transAxes, fontsize=10, fontweight="bold", va="center")


def _column(side: str, reading: Reading, place: int, rule: Rule) -> Column:
    way, found = reading.ways[place], keywords_of(reading, **rule._asdict())
    return Column(
        f"{side}, {way.name}" if len(reading.ways) > 1 else side,
        reading.words,
        {name: way.values[name].T for name in MAPS if name in way.values},
        most_active(reading.embeddings[place], rule.active),
        found.cells[way.name],
        found.verdicts,
    )


def _tells(name: str, column: Column) -> bool:
    """Whether there is such a map; a forget gate that is switched off is 1 everywhere."""
    return name in column.maps and (name != "forget_gate" or bool((column.maps[name] != 1).any()))


def _ranges(columns: Sequence[Column], names: Sequence[str], same_range: bool) -> dict[str, Range]:
    """Where the colours of each map begin and end: of states around zero, of gates from the most shut to the most open.

    A trained gate can do its work near one half as well as near zero: its own range shows it.
    """

    def around_zero(names: Sequence[str]) -> Range:
        reach = max(float(np.abs(column.maps[name]).max()) for column in columns for name in names) or 0.5
        return -reach, reach

    def of_gate(name: str) -> Range:
        values = np.concatenate([column.maps[name].ravel() for column in columns])
        least, most = np.quantile(values, (OUTLIERS, 1 - OUTLIERS)).tolist()
        return (least, most) if least < most else (least - 0.5, most + 0.5)

    if same_range:
        return dict.fromkeys(names, around_zero(names))
    return {name: of_gate(name) if _open_or_shut(name) else around_zero([name]) for name in names}


def _open_or_shut(name: str) -> bool:
    """Whether the map is that of a gate, between 0 and 1, and not of a state with a sign."""
    return name.endswith("_gate")


def _active_cells(axes: "Axes", column: Column, words: int, colours: Range) -> None:
    """The output of the most active cells over the words, with a dot where a cell detects a word."""
    heat_map(axes, column.maps["output"][column.active], colours, columns=words)
    cells = column.active.tolist()
    _cells_on_axis(axes, dict(enumerate(cells)))
    dots = [(word, cells.index(cell)) for word, found in enumerate(column.detected) for cell in found]
    across, down = zip(*dots, strict=True) if dots else ((), ())
    axes.scatter(across, down, s=11, color=INK, edgecolor="white", linewidth=0.6)
    words_on_axis(axes, column.words, marked=column.keywords)


def _cells_on_axis(axes: "Axes", numbers: Mapping[int, int], name: str = "") -> None:
    """Cell numbers by row; the first one says that they are cells."""
    labels = [f"cell {number}" if place == 0 else f"{number}" for place, number in enumerate(numbers.values())]
    axes.set_yticks(list(numbers), labels=labels, fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel(name, fontsize=10)


def _numbers(cells: int) -> dict[int, int]:
    """A few round cell numbers, each in its own row."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, cells) if cells <= 6 * step)
    return {cell: cell for cell in range(0, cells, step)}
