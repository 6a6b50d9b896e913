"""The paper's figures of a query and a title: what each cell did at each word.

Each text, and each direction of reading, is a column of heat maps with its words on top. Each row is one activation,
with its colour scale on the right. The last row shows the most active cells, as the paper's figures of keywords do.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.explanation.explainer import Explanation
from clickvec.explanation.keywords import most_active
from clickvec.explanation.reading import Floats
from clickvec.render.figures.style import INK, Range, colour_bar, drawing, heat_map, shorten, words_on_axis
from clickvec.render.labels import ACTIVATIONS
from clickvec.render.terminal.screen import clip, width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, LETTERS = 0.18, 10  # of the heading: inches for a line, letters in an inch
OUTLIERS = 0.02  # share of the values of a gate, at each end, that do not widen the colour scale


class Column(NamedTuple):
    """One text, read in one direction."""

    heading: str
    words: tuple[str, ...]
    maps: dict[str, Floats]  # by name, (cells, words)
    active: NDArray[np.int64]  # the most active cells, the most active first
    detected: tuple[tuple[int, ...], ...]  # for each word, those of them that detect it
    keywords: tuple[bool | None, ...]


def draw_gates(explanation: Explanation, path: Path) -> None:
    """Write heat maps of gates, cells and outputs of a query and a title side by side.

    Raise ClickvecError if a text has no words, or if the tower does not read word by word.
    """
    pair = explanation.pair
    columns = _columns(explanation)
    names = [name for name in ACTIVATIONS if any(_tells(name, column) for column in columns)]
    ranges = {name: _range(columns, name) for name in names}
    words = max(len(column.words) for column in columns)
    across, down, widths, heights = _layout(columns, words, len(names))
    heading = (f"query  {pair.query}", f"title  {pair.title}", f"score  {pair.score:.3f}")
    with drawing(path, across, down + LINE * len(heading)) as figure:
        lines = [clip(line, int(across * LETTERS)) for line in heading]
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=9)
        grid = figure.add_gridspec(2 + len(names), len(columns) + 1, width_ratios=widths, height_ratios=heights)
        for place, column in enumerate(columns):
            top = figure.add_subplot(grid[0, place])  # on its own axes, so that all headings have the same height
            top.axis("off")
            top.text(0, 0.5, column.heading, transform=top.transAxes, fontsize=10, fontweight="bold", va="center")
            for row, name in enumerate(names, start=1):
                axes = figure.add_subplot(grid[row, place])
                rising = name.endswith("_gate")
                image = heat_map(axes, column.maps[name], ranges[name], columns=words, rising=rising)
                _cells_on_axis(
                    axes, _numbers(len(column.maps[name])), "\n".join(ACTIVATIONS[name]) if place == 0 else ""
                )
                if row == 1:
                    words_on_axis(axes, column.words, top=True, marked=column.keywords)
                if place == 0:
                    colour_bar(figure, image, figure.add_subplot(grid[row, -1]))
            axes = figure.add_subplot(grid[-1, place])
            _active_cells(axes, column, words, ranges["output"])
            axes.set_ylabel(f"{len(column.active)} most\nactive cells" if place == 0 else "", fontsize=10)
        figure.align_ylabels([axes for axes in figure.axes if axes.get_ylabel()])
        figure.supxlabel("dot: the cell detects the word        bold: keyword", fontsize=8.5)


def _columns(explanation: Explanation) -> list[Column]:
    columns = []
    for name, side in (("query", explanation.query_side), ("title", explanation.title_side)):
        reading, voted = side.reading, side.keywords
        if reading is None or voted is None:
            raise ClickvecError(
                f"the figure shows gates and outputs at each word, but this model is a {explanation.tower} and has "
                "none; use a model with the tower rnn, lstm or bilstm"
            )
        if not reading.words:
            raise ClickvecError(f"there is nothing to draw: the {name} has no words")
        for direction in reading.directions:
            maps = {key: direction.values[key].T for key in ACTIVATIONS if key in direction.values}
            heading = f"{name}, {direction.name}" if len(reading.directions) > 1 else name
            active = most_active(direction.embedding, voted.active)
            columns.append(Column(heading, reading.words, maps, active, voted.cells[direction.name], voted.verdicts))
    return columns[::2] + columns[1::2] if len(columns) > 2 else columns  # both texts in one direction, then the other


def _layout(columns: Sequence[Column], words: int, maps: int) -> tuple[float, float, list[float], list[float]]:
    """Return width and height of the figure, and those of its columns and rows, in inches, with room for the words."""
    cells, active = len(columns[0].maps["output"]), len(columns[0].active)
    map_width = max(0.25 * words, 2.4 if len(columns) < 4 else 1.8)
    map_height = min(max(0.95, 0.03 * cells), 1.5 if maps > 1 else 3.2)
    active_height = max(0.95, 0.16 * active)
    slanted = 0.3 + 0.055 * max(width(shorten(word)) for column in columns for word in column.words)
    across = 1.6 + len(columns) * (map_width + 0.4)
    down = 0.8 + 2 * slanted + maps * (map_height + 0.08) + active_height
    return across, down, [map_width] * len(columns) + [0.13], [0.2] + [map_height] * maps + [active_height]


def _tells(name: str, column: Column) -> bool:
    """Return whether there is something to draw. Without a forget gate, its values are all 1."""
    return name in column.maps and (name != "forget_gate" or bool((column.maps[name] != 1).any()))


def _range(columns: Sequence[Column], name: str) -> Range:
    """Return the colour scale of an activation: symmetric for states, the range of the values for gates."""
    values = np.concatenate([column.maps[name].ravel() for column in columns])
    if not name.endswith("_gate"):
        reach = float(np.abs(values).max()) or 0.5
        return -reach, reach
    least, most = np.quantile(values, (OUTLIERS, 1 - OUTLIERS)).tolist()
    return (least, most) if least < most else (least - 0.5, most + 0.5)


def _active_cells(axes: "Axes", column: Column, words: int, colours: Range) -> None:
    """Draw the outputs of the most active cells, with a dot where a cell detects a word."""
    heat_map(axes, column.maps["output"][column.active], colours, columns=words)
    cells = column.active.tolist()
    _cells_on_axis(axes, dict(enumerate(cells)))
    dots = [(word, cells.index(cell)) for word, found in enumerate(column.detected) for cell in found]
    across, down = zip(*dots, strict=True) if dots else ((), ())
    axes.scatter(across, down, s=11, color=INK, edgecolor="white", linewidth=0.6)
    words_on_axis(axes, column.words, marked=column.keywords)


def _cells_on_axis(axes: "Axes", numbers: Mapping[int, int], name: str = "") -> None:
    """Label rows with cell numbers; the first label says that they are cells."""
    labels = [f"cell {number}" if place == 0 else f"{number}" for place, number in enumerate(numbers.values())]
    axes.set_yticks(list(numbers), labels=labels, fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel(name, fontsize=10)


def _numbers(cells: int) -> dict[int, int]:
    """Return a few round cell numbers, by row."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, cells) if cells <= 6 * step)
    return {cell: cell for cell in range(0, cells, step)}
