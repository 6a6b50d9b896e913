"""Colours, fonts, labels and heat maps of the figures, and how they are written."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clickvec.errors import missing_extra
from clickvec.model.forward import Array
from clickvec.render.terminal.screen import width
from clickvec.storage.files import replacing_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Range = tuple[float, float]

RUST, TEAL, GREEN, PALE, GREY, INK = "#b5482a", "#216869", "#49a078", "#9cc5a1", "#8b9194", "#22292b"
LINES = (RUST, TEAL, GREEN, PALE)
_DIVERGING = ("#571a08", RUST, "#e6a78d", "#f8f8f5", "#7fb5ac", TEAL, "#0b2f33")  # rust, white in the middle, teal
_RISING = ("#ffffff", "#d5e8e0", "#86bfae", "#3b8a82", "#0f4449")  # from white to dark teal
DOTS_PER_INCH = 150
LONGEST_WORD = 14  # "accommodation" has 13

# DejaVu Sans comes with matplotlib. These fonts, if installed, add the scripts that it lacks.
_MORE_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans",
    "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS",
)  # fmt: skip
_STYLE: Any = {
    "text.parse_math": False,  # "$5" is a price, not a formula
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.edgecolor": GREY, "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False,
    "grid.color": "#d8dcdd", "grid.linewidth": 0.7, "legend.frameon": False, "figure.facecolor": "white",
}  # fmt: skip


@contextmanager
def drawing(path: Path, across: float, down: float) -> Iterator["Figure"]:
    """Yield a figure of this size in inches. On success, write it to `path` as PNG."""
    try:
        from matplotlib import font_manager, rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise missing_extra("matplotlib", "plot") from None
    installed = set(font_manager.get_font_names())
    fonts = ["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed)]
    with rc_context(_STYLE | {"font.family": fonts}), warnings.catch_warnings():
        # A character without a font is drawn as a box, so the warning is not needed.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing|Matplotlib currently does not support", UserWarning)
        figure = Figure(figsize=(across, down), dpi=DOTS_PER_INCH, layout="constrained")
        yield figure
        save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    """Write a PNG. The same figure gives the same bytes, as no date and no version is stored."""
    with replacing_file(path) as file:
        figure.savefig(file, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})


def shorten(text: str, longest: int = LONGEST_WORD) -> str:
    """Return a text shortened to this many columns, if possible after a whole word."""
    if width(text) <= longest:
        return text
    end = next(end for end in range(len(text), -1, -1) if width(text[:end]) < longest)
    return f"{(text[:end].rpartition(' ')[0] or text[:end]).rstrip()}…"


def words_on_axis(axes: "Axes", words: Sequence[str], *, top: bool = False, marked: Sequence[bool | None] = ()) -> None:
    """Write words at 0, 1, 2, ... on the horizontal axis, slanted so that they fit; marked words are bold and rust."""
    if top:
        axes.xaxis.tick_top()
    labels = [shorten(word) for word in words]
    side = "left" if top else "right"
    axes.set_xticks(range(len(words)), labels=labels, rotation=50, ha=side, rotation_mode="anchor")
    axes.tick_params(axis="x", length=0, pad=3)
    for label, mark in zip(axes.get_xticklabels(), marked, strict=False):
        if mark:
            label.set(color=RUST, fontweight="bold")


def heat_map(
    axes: "Axes", values: Array, colours: Range, *, columns: int | None = None, rising: bool = False
) -> "AxesImage":
    """Draw values as colours over this range, the first row on top. Columns beyond those of the values stay blank.

    With `rising`, the colours go from white to teal, otherwise from rust over white to teal.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    rows, filled = values.shape
    colour_map = LinearSegmentedColormap.from_list("", _RISING if rising else _DIVERGING)
    image = axes.imshow(
        values, aspect="auto", interpolation="nearest", cmap=colour_map, vmin=colours[0], vmax=colours[1]
    )
    axes.set(xlim=(-0.5, (columns or filled) - 0.5), xticks=[])
    axes.spines[:].set_visible(False)
    axes.vlines(np.arange(1, filled) - 0.5, -0.5, rows - 0.5, color="white", linewidth=0.8)
    axes.add_patch(Rectangle((-0.5, -0.5), filled, rows, fill=False, edgecolor=GREY, linewidth=0.8, clip_on=False))
    return image


def colour_bar(figure: "Figure", image: "AxesImage", axes: "Axes", label: str = "") -> None:
    """Draw the scale of a heat map on its own axes."""
    from matplotlib.ticker import MaxNLocator

    figure.colorbar(image, cax=axes, ticks=MaxNLocator(5), label=label)
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines["outline"].set_linewidth(0.5)
