"""Axes with logarithmic scales, as the figures of growth.py, encode_growth.py and scale.py have them."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def power_of_ten(number: float) -> str:
    """Return 10^n with superscripts."""
    return "10" + str(math.floor(math.log10(number) + 1e-9)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def make_logarithmic(axes: "Axes", x_label: str, y_label: str = "") -> None:
    """Set both scales: powers of ten below, plain numbers on the left, no labels in between."""
    from matplotlib.ticker import NullFormatter

    axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
    axes.xaxis.set_major_formatter(lambda size, _: power_of_ten(size))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y")
