"""Plots in a page: bars as a table, curves as a drawing with the numbers beside it."""

from collections.abc import Sequence

from clickvec.doctor.finding import Plot
from clickvec.render.html.markup import Html, joined, table, tag
from clickvec.render.html.word_chips import bar_cells

SIZE, EDGE = (620, 260), (52, 24)  # of a drawing; room on the left and on the other sides
TICKS = 4


def plot(drawn: Plot) -> Html:
    """Return a plot with its caption."""
    return _bars(drawn) if drawn.kind == "bars" else _curve(drawn)


def _bars(drawn: Plot) -> Html:
    digits = 1 if drawn.unit else 0
    cells = bar_cells(drawn.values, digits, sign=False)
    rows = [[label, cell] for label, cell in zip(drawn.labels, cells, strict=True)]
    return table(drawn.caption, ["group", drawn.unit or "count"], rows, numeric=(1,))


def _curve(drawn: Plot) -> Html:
    """Return the points of a curve at equal distances, with their labels below."""
    highest = max((*drawn.values, *drawn.high, drawn.level[1] if drawn.level else 0.0, 1e-9))
    top = _round_up(highest)
    points = [_place(at, value, len(drawn.values), top) for at, value in enumerate(drawn.values)]
    children = [*_axis(top, drawn.unit), *_labels(drawn.labels)]
    if drawn.low:
        low, high = (
            [_place(at, value, len(values), top) for at, value in enumerate(values)]
            for values in (drawn.low, drawn.high)
        )
        children.append(tag("path", d=f"{_path([*high, *reversed(low)])}z", class_="band"))
    if drawn.level:
        name, value = drawn.level
        y = _place(0, value, 1, top)[1]
        right = SIZE[0] - EDGE[1]
        children.append(tag("line", x1=EDGE[0], x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="level"))
        children.append(tag("text", name, x=right, y=f"{y - 6:.1f}", text_anchor="end"))
    children.append(tag("path", d=_path(points), class_="curve"))
    for (x, y), label, value in zip(points, drawn.labels, drawn.values, strict=True):
        told = tag("title", f"{label}: {value:.1f}{drawn.unit}")
        children.append(tag("circle", told, cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, class_="c0"))
    box = f"0 0 {SIZE[0]} {SIZE[1]}"
    svg = tag("svg", children, viewBox=box, class_="drawing", role="img", aria_label=drawn.caption)
    return joined(tag("figure", svg, tag("figcaption", drawn.caption)))


def _place(at: int, value: float, count: int, top: float) -> tuple[float, float]:
    width, height = SIZE[0] - EDGE[0] - EDGE[1], SIZE[1] - 2 * EDGE[1]
    return EDGE[0] + width * at / max(1, count - 1), EDGE[1] + height * (1 - value / top)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _axis(top: float, unit: str) -> list[Html]:
    children = []
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        y = f"{_place(0, value, 1, top)[1]:.1f}"
        children.append(tag("line", x1=EDGE[0], x2=SIZE[0] - EDGE[1], y1=y, y2=y, class_="grid"))
        children.append(tag("text", f"{value:g}{unit}", x=EDGE[0] - 8, y=y, dy="4", text_anchor="end"))
    return children


def _labels(labels: Sequence[str]) -> list[Html]:
    """Return the labels of the x axis, without those that would overlap the last one shown."""
    children, free = [], -1e9
    for at, label in enumerate(labels):
        x = _place(at, 0, len(labels), 1)[0]
        last = 0 < at == len(labels) - 1  # ends where the curve ends, so that it is not cut off
        if x - (8 if last else 4) * len(label) > free:
            children.append(tag("text", label, x=f"{x:.1f}", y=SIZE[1] - 4, text_anchor="end" if last else "middle"))
            free = x + 4 * len(label) + 6
    return children


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 4, 5, 8 and 10 times a power of ten: a quarter of it has few digits."""
    power = 1.0
    while power < value:
        power *= 10
    while power / 10 >= value:
        power /= 10
    return next(power * step / 10 for step in (1, 2, 4, 5, 8, 10) if power * step / 10 >= value)
