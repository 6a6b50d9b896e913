"""Inline SVG: heat map and scatter plot. Colours are classes of style.css, which adapt to dark mode."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickvec.render.html.markup import Html, tag

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
    return tag("svg", children, viewBox=f"0 0 {width} {height}", class_="drawing", role="img", aria_label=label)


def _label(x: float, y: float, text: str, anchor: str, class_: str | None = None) -> Html:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)
