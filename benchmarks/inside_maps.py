"""Draw two maps of what a model has learned: the topics of its cells, and titles in two dimensions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickvec.errors import ClickvecError
from clickvec.render.figures.style import (
    GREY,
    INK,
    colour_bar,
    drawing,
    heat_map,
    shorten,
    words_on_axis,
)
from clickvec.render.terminal.screen import width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patheffects import AbstractPathEffect
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox, BboxBase

Points = NDArray[np.float64]  # (points, 2)
Side = tuple[float, float, str, str]

GROUPS = (
    "#216869", "#b5482a", "#e2a72e", "#5d7fbf", "#8b4f86", "#6fb98f", "#d9758f", "#7a6a2f",
    "#3fa7c4", "#a9744f", "#9b8ad0", "#2f3e75", "#c2c04a", "#7d1f3c", "#1f9e89", "#f0926b",
)  # fmt: skip
LONGEST_ROW = 44
LONGEST_TITLE = 32
DOT = 7  # half of the width of a labelled point, in pixels


def topic_map(
    rows: Sequence[str],
    columns: Sequence[str],
    matrix: ArrayLike,
    path: Path,
    *,
    title: str = "",
    values: str = "",
) -> None:
    """Draw a heat map of (rows, columns), such as cells by topics.

    `values` says what the numbers are; they are at least 0.
    """
    table = np.asarray(matrix, np.float64)
    if not table.size:
        raise ClickvecError("there is nothing to draw: the table of topics has no row or no column")
    if table.shape != (len(rows), len(columns)):
        raise ClickvecError(f"a table of {table.shape} does not fit {len(rows)} rows and {len(columns)} columns")
    labels = [shorten(row, LONGEST_ROW) for row in rows]
    across = 1.4 + 0.068 * max(map(width, labels)) + 0.3 * len(columns)
    with drawing(path, across, 1.4 + 0.165 * len(rows)) as figure:
        tall = 0.165 * len(rows)
        grid = figure.add_gridspec(
            2, 2, width_ratios=[0.3 * len(columns), 0.13], height_ratios=[min(tall - 0.1, 2.4), max(0.1, tall - 2.4)]
        )
        axes = figure.add_subplot(grid[:, 0])
        image = heat_map(axes, table, (0, float(table.max()) or 1.0), rising=True)
        axes.set_yticks(range(len(rows)), labels=labels, fontsize=7.5)
        axes.tick_params(axis="y", length=0)
        words_on_axis(axes, columns, top=True)
        colour_bar(figure, image, figure.add_subplot(grid[0, 1]), values)
        if title:
            figure.suptitle(title, fontweight="bold")


def title_map(
    points: ArrayLike,
    texts: Sequence[str],
    groups: Sequence[str],
    path: Path,
    *,
    title: str = "",
    labels: int = 40,
) -> None:
    """Draw titles as points, (titles, 2), in the colour of their group, and label some that are spread over the map."""
    places = np.asarray(points, np.float64)
    if not len(texts):
        raise ClickvecError("there is nothing to draw: there are no titles")
    if places.shape != (len(texts), 2) or len(groups) != len(texts):
        raise ClickvecError(
            f"{len(texts)} titles need as many groups and a point each, not {len(groups)} and {places.shape}"
        )
    with drawing(path, 10, 7.2) as figure:
        axes = figure.add_subplot()
        in_group = {name: places[members] for name, members in _by_group(groups).items()}
        for (name, members), colour in zip(in_group.items(), (*GROUPS, GREY), strict=False):
            axes.scatter(members[:, 0], members[:, 1], s=11, color=colour, alpha=0.7, linewidth=0, label=name)
        axes.set(xticks=[], yticks=[])
        axes.margins(0.03)
        axes.spines[:].set_visible(True)
        if len(in_group) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), markerscale=2, handletextpad=0.2)
        if title:
            axes.set_title(title, fontweight="bold", loc="left")
        figure.draw_without_rendering()  # computes the positions of the axes
        taken = _name_groups(axes, in_group) if len(in_group) > 1 else []
        _name_some(axes, places, [shorten(text, LONGEST_TITLE) for text in texts], labels, taken)


def _by_group(groups: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of the members of each group. If there are more groups than colours, join the small ones."""
    found: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        found.setdefault(group, []).append(place)
    large = sorted(sorted(found), key=lambda group: -len(found[group]))
    kept, rest = large[: len(GROUPS)], large[len(GROUPS) :]
    others = {f"{len(rest)} other groups": [place for group in rest for place in found[group]]} if rest else {}
    return {group: found[group] for group in sorted(kept)} | others


def _name_groups(axes: "Axes", groups: Mapping[str, Points]) -> "list[Bbox]":
    """Write each group's name over the middle of its points. Return the rectangles of the names.

    Not where another name is, nor over a group so small that its name would hide it.
    """
    taken: list[Bbox] = []
    for (name, points), colour in zip(groups.items(), GROUPS, strict=False):
        middle = float(np.median(points[:, 0])), float(np.median(points[:, 1]))
        label = axes.annotate(
            name, middle, ha="center", va="center", fontsize=11, fontweight="bold", color=colour, in_layout=False,
            path_effects=_halo(3), zorder=4,
        )  # fmt: skip
        room = label.get_window_extent()
        if room.count_overlaps(taken) or _within(room, axes.transData.transform(points)).mean() > 1 / 3:
            label.remove()
        else:
            taken.append(room.padded(4))
    return taken


def _halo(width: float) -> "list[AbstractPathEffect]":
    """Return a white outline, so that text is readable over points."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white")]


# Positions of a label next to its point: the offset in points, and the alignment.
_SIDES: tuple[Side, ...] = (
    (5, 0, "left", "center"), (-5, 0, "right", "center"), (0, 5, "center", "bottom"), (0, -5, "center", "top")
)  # fmt: skip


def _name_some(axes: "Axes", places: Points, texts: Sequence[str], count: int, taken: "list[Bbox]") -> None:
    """Write up to `count` labels next to their points so that none overlaps another label or its point."""
    from matplotlib.transforms import Bbox

    dots = axes.transData.transform(places)
    named: list[int] = []
    for place in _spread(dots, 4 * count):
        dot = Bbox([dots[place] - DOT, dots[place] + DOT])
        if len(named) == count or dot.count_overlaps(taken):
            continue
        label = axes.annotate(
            texts[place], places[place], (0, 0), textcoords="offset points", fontsize=7.5, color=INK, in_layout=False,
            path_effects=_halo(2.2), zorder=3,
        )  # fmt: skip
        room = _best_side(label, axes.bbox, taken, dots)
        if room is None:
            label.remove()
            continue
        taken += [room.padded(4), dot]
        named.append(place)
    axes.scatter(places[named, 0], places[named, 1], s=22, color="none", edgecolor=INK, linewidth=0.9)


def _best_side(label: "Annotation", inside: "BboxBase", taken: "list[Bbox]", dots: Points) -> "Bbox | None":
    """Put a label on the side of its point where it hides the fewest dots. Return None if no side has room."""
    rooms: list[tuple[int, int, Side, Bbox]] = []
    for place, side in enumerate(_SIDES):
        _stand(label, side)
        room = label.get_window_extent()
        within = inside.x0 < room.x0 and room.x1 < inside.x1 and inside.y0 < room.y0 and room.y1 < inside.y1
        if within and not room.count_overlaps(taken):
            rooms.append((int(_within(room, dots).sum()), place, side, room))
    if not rooms:
        return None
    _, _, side, room = min(rooms)
    _stand(label, side)
    return room


def _within(room: "Bbox", dots: Points) -> NDArray[np.bool_]:
    """Return which dots are inside a rectangle."""
    return np.asarray(((dots > room.min) & (dots < room.max)).all(axis=1))


def _stand(label: "Annotation", side: Side) -> None:
    label.set(position=side[:2], horizontalalignment=side[2], verticalalignment=side[3])


def _spread(dots: Points, count: int) -> list[int]:
    """Return up to `count` dots, each the farthest from the previous ones. The first is nearest to the middle."""
    chosen = [int(np.linalg.norm(dots - dots.mean(axis=0), axis=1).argmin())]
    distance = np.linalg.norm(dots - dots[chosen[0]], axis=1)
    while len(chosen) < min(count, len(dots)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(dots - dots[chosen[-1]], axis=1))
    return chosen
