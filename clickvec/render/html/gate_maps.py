"""Heat maps of the gates, cells and outputs of a query and a title."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.explanation.reading import Floats, Reading
from clickvec.render.html.markup import Html, joined, note, tag
from clickvec.render.html.word_chips import number
from clickvec.render.labels import ACTIVATIONS

LEVELS = 8  # shades above and below the middle


def gate_maps(query: Reading, title: Reading) -> Html:
    """Return the maps of query and title side by side, a pair with one colour scale for each activation."""
    parts: list[Html] = []
    for at, direction in enumerate(query.directions or title.directions):
        if len(query.directions or title.directions) > 1:
            parts.append(tag("h3", direction.name.capitalize()))
        both = [reading.directions[at].values if reading.directions else {} for reading in (query, title)]
        for key, name in ACTIVATIONS.items():
            values = [activations.get(key) for activations in both]
            drawn = [value for value in values if value is not None]
            if drawn and not (key == "forget_gate" and all((value == 1).all() for value in drawn)):
                centre = 0.5 if key.endswith("_gate") else 0.0  # a gate that is half open says nothing
                parts.append(_pair(" ".join(name), centre, direction.name, (query, title), values))
    return joined(parts)


def _pair(
    name: str, centre: float, direction: str, readings: Sequence[Reading], values: Sequence[Floats | None]
) -> Html:
    limit = max(float(np.abs(value - centre).max(initial=0.0)) for value in values if value is not None)
    colours = heat(np.arange(-LEVELS, LEVELS + 1, dtype=np.float64)[None], "from low to high")
    scale = tag("span", number(centre - limit, 2), colours, number(centre + limit, 2), class_="scale")
    maps = (
        tag("div", note(f"The {side} has no words.")) if value is None
        else _map(reading.words, heat(value, f"{name} of the {side}, {direction}", centre, limit), side)
        for side, reading, value in zip(("query", "title"), readings, values, strict=True)
    )  # fmt: skip
    return tag("div", tag("p", tag("b", name), " ", scale, class_="gate"), tag("div", maps, class_="pair"))


def _map(words: Sequence[str], drawing: Html, side: str) -> Html:
    names = tag("ol", (tag("li", tag("bdi", word), title=word) for word in words))
    return tag("figure", tag("figcaption", side), tag("div", names, drawing), class_="map")


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
