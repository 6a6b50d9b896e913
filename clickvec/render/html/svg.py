"""Inline SVG: heat map, line chart, scatter plot. Colours are classes of style.css, which adapt to dark mode."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickvec.render.html.markup import Html, joined, tag

Floats = NDArray[np.float64]
LEVELS = 8  # shades above and below the middle
BROAD = 620  # a drawing this wide has larger letters on a phone
COLOURS = 6  # c0 to c5 of style.css


def heat(values: Floats, label: str, centre: float = 0.0, limit: float | None = None) -> Html:
    """Return a heat map that stretches to its box. Values above the centre are green, below it red, up to `limit`.

    All squares of one shade are one path, and neighbours are one stroke of it: a square costs about five bytes.
    """
    rows, columns = values.shape
    limit = limit or float(np.abs(values - centre).max(initial=0.0)) or 1.0
    shades = np.clip(np.rint((values - centre) / limit * LEVELS), -LEVELS, LEVELS).astype(int)
    return tag(
        "svg",
        (_strokes(shades, shade) for shade in range(-LEVELS, LEVELS + 1) if shade and (shades == shade).any()),
        viewBox=f"0 0 {columns} {rows}", preserveAspectRatio="none", class_="heat", role="img", aria_label=label,
    )  # fmt: skip


def _strokes(shades: NDArray[np.int64], shade: int) -> Html:
    """Return a path over all runs of one shade, with relative moves between them."""
    edges = np.diff((shades == shade).astype(np.int8), axis=1, prepend=0, append=0)
    starts, ends = np.argwhere(edges == 1).tolist(), np.argwhere(edges == -1).tolist()
    path, x, y = [], 0, 0
    for (row, first), (_, last) in zip(starts, ends, strict=True):
        path.append(f"m{first - x}{_signed(row - y)}h{last - first}")
        x, y = last, row
    opacity = f"{abs(shade) / LEVELS:g}".removeprefix("0")
    return tag("path", class_="p" if shade > 0 else "m", stroke_opacity=opacity, d="M0 .5" + "".join(path))


def _signed(number: int) -> str:
    """Return a number that follows another one: a minus sign separates them, otherwise a space does."""
    return str(number) if number < 0 else f" {number}"


def line_chart(series: Mapping[str, Sequence[float]], x: Sequence[float], label: str, x_label: str) -> Html:
    """Return a line for each series, with its name at its end."""
    width, height, left, right, top, bottom = 460, 240, 44, 92, 12, 40
    everything = [value for values in series.values() for value in values]
    ticks = nice_ticks(min(everything), max(everything))
    low, high = min(ticks[0], *everything), max(ticks[-1], *everything)

    def across(value: float) -> float:
        return left + (width - left - right) * ((value - x[0]) / (x[-1] - x[0]) if x[-1] > x[0] else 0.5)

    def up(value: float) -> float:
        return height - bottom - (height - top - bottom) * (value - low) / (high - low)

    names = _apart([up(values[-1]) for values in series.values()], 16.0)
    drawn = [_grid_line(left, width - right, up(tick), f"{tick:g}") for tick in ticks]
    for at in _few(x):
        drawn.append(_label(across(at), height - bottom + 18, f"{at:g}", "middle"))
    drawn.append(_label((left + width - right) / 2, height - 4, x_label, "middle"))
    for place, ((name, values), y) in enumerate(zip(series.items(), names, strict=True)):
        points = [(across(at), up(value)) for at, value in zip(x, values, strict=True)]
        drawn.append(tag("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points), class_=f"line c{place}"))
        drawn += [_dot(a, b, 3, f"c{place}") for a, b in points]
        drawn.append(_label(points[-1][0] + 9, y + 4, name, "start", f"t{place}"))
    return _drawing(width, height, label, drawn)


def scatter(
    points: Floats,
    titles: Sequence[str],
    groups: Sequence[int],
    centres: Sequence[tuple[float, float]],
    names: Sequence[str],
    label: str,
) -> Html:
    """Return points with their titles as tooltips. Each group has a colour, a shape, and its name at its centre."""
    width, height, edge = BROAD, 440, 16
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    room = np.array([width, height]) - 2 * edge

    def placed(place: ArrayLike) -> tuple[float, float]:
        x, y = edge + (np.asarray(place) - low) / span * room
        return float(x), float(y)

    marks = [_mark(*placed(point), group, title) for point, title, group in zip(points, titles, groups, strict=True)]
    labels = [
        _label(min(max(placed(centre)[0], 50.0), width - 50.0), placed(centre)[1] + 4, name, "middle", "name")
        for centre, name in zip(centres, names, strict=True)
    ]
    return _drawing(width, height, label, [*marks, *labels])


# Six shapes, so that groups of one colour differ, and all groups in black and white.
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "M-4-4h8v8h-8z", "M0-5.4L5 4H-5z", "M0-5.6L5.6 0L0 5.6L-5.6 0z",
    "M0 5.4L5-4H-5z", "M-1.6-5h3.2v3.4H5v3.2H1.6V5h-3.2V1.6H-5v-3.2h3.4z",
)  # fmt: skip


def _mark(x: float, y: float, group: int, title: str) -> Html:
    shape = _SHAPES[(group + group // COLOURS) % len(_SHAPES)]
    place, colour = f"translate({x:.1f} {y:.1f})", f"c{group % COLOURS}"
    return tag("path", tag("title", title), d=shape, transform=place, class_=colour)


def _drawing(width: int, height: int, label: str, children: Iterable[str]) -> Html:
    kind = "drawing broad" if width == BROAD else "drawing"
    return tag("svg", children, viewBox=f"0 0 {width} {height}", class_=kind, role="img", aria_label=label)


def _grid_line(left: float, right: float, y: float, name: str) -> Html:
    line = tag("line", x1=left, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
    return joined(line, _label(left - 7, y + 4, name, "end"))


def _label(x: float, y: float, text: str, anchor: str, class_: str | None = None) -> Html:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def _dot(x: float, y: float, radius: float, class_: str) -> Html:
    return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:g}", class_=class_)


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return a few round numbers that cover the range."""
    if not high - low > 1e-11 * max(1.0, abs(low), abs(high)):  # too close to be told apart in 12 decimals
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / (most - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _few(x: Sequence[float], most: int = 8) -> Sequence[float]:
    """Return at most this many of the values, evenly spread."""
    return x[:: math.ceil(len(x) / most)]


def _apart(heights: Sequence[float], least: float) -> list[float]:
    """Return heights moved up where needed, so that names do not overlap."""
    found, last = list(heights), math.inf
    for place in sorted(range(len(found)), key=found.__getitem__, reverse=True):
        found[place] = last = min(found[place], last - least)
    return found
