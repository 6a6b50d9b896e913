"""Heat maps of the gates, cells and outputs of a query and a title."""

from collections.abc import Sequence

import numpy as np

from clickvec.explanation.reading import Floats, Reading
from clickvec.render.html.markup import Html, joined, note, tag
from clickvec.render.html.svg import LEVELS, heat
from clickvec.render.html.word_chips import number
from clickvec.render.labels import ACTIVATIONS


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
