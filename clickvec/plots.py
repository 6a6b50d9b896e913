"""Figures. Everything shown here was computed elsewhere; matplotlib is imported when a figure is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clickvec.encoder import Trace
from clickvec.errors import ClickvecError, missing_extra
from clickvec.forward import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What to draw, its title, and the value that says nothing: 0, or a gate that is half open.
GATE_MAPS = {
    "input_gate": ("input gate i(t)", 0.5), "cell": ("cell state c(t)", 0.0),
    "output_gate": ("output gate o(t)", 0.5), "output": ("output y(t)", 0.0),
}  # fmt: skip


def training_curve(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Loss and dev NDCG against epochs, from the rows of metrics.jsonl."""
    figure = _figure(6.4, 3.8)
    axes = figure.add_subplot()
    epochs = [row["epoch"] for row in history]
    axes.plot(epochs, [row["loss"] for row in history], color="#b5482a", marker="o", label="training loss")
    axes.set(xlabel="epoch", ylabel="training loss", xticks=epochs, ylim=(0, None))
    if all("dev" in row for row in history):
        ndcg = axes.twinx()
        for measure, colour in zip(history[0]["dev"], ("#9cc5a1", "#49a078", "#216869"), strict=False):
            values = [row["dev"][measure] for row in history]
            ndcg.plot(epochs, values, color=colour, marker="s", label=f"dev {measure}")
        ndcg.set_ylabel("NDCG, per cent")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    _save(figure, path)


def gates(trace: Trace, path: Path) -> None:
    """The paper's heat maps of one text: cells down, words across, one colour range for each map.

    A bidirectional model has a row of maps for each direction, both with the words in the order of the text.
    """
    ways = ("forward.", "backward.") if "forward.output" in trace.values else ("",)
    names = [name for name in GATE_MAPS if f"{ways[0]}{name}" in trace.values]
    if not trace.steps or len(trace.values[f"{ways[0]}output"]) != len(trace.steps):
        raise ClickvecError("there is nothing to draw: the text has no words, or the model does not read word by word")
    width = 2.0 + 1.6 * len(names) + 0.35 * len(trace.steps) * len(names)
    figure = _figure(width, 0.6 + 4.2 * len(ways))
    for row, way in enumerate(ways):
        for column, name in enumerate(names):
            axes = figure.add_subplot(len(ways), len(names), row * len(names) + column + 1)
            values = trace.values[f"{way}{name}"].T
            title, centre = GATE_MAPS[name]
            in_order = values[:, ::-1] if way == "backward." else values
            _heat_map(figure, axes, in_order, f"{way.rstrip('.')} {title}".strip(), centre, trace.steps)
    figure.suptitle(" ".join(trace.steps))
    _save(figure, path)


def _heat_map(figure: "Figure", axes: "Axes", values: Array, title: str, centre: float, words: Sequence[str]) -> None:
    limit = float(np.abs(values - centre).max()) or 1.0
    image = axes.imshow(
        values, aspect="auto", interpolation="nearest", cmap="RdBu_r", vmin=centre - limit, vmax=centre + limit
    )
    axes.set(title=title, ylabel="cell")
    axes.set_xticks(range(len(words)), labels=list(words), rotation=45, ha="right")
    figure.colorbar(image, ax=axes, fraction=0.08)


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise missing_extra("matplotlib", "plot") from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: "Figure", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def cost_curve(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """The paper's figure of training: the cost of each system by epoch, on a logarithmic axis."""
    drawn = {name: costs for name, costs in curves.items() if len(costs)}
    if not drawn:
        raise ClickvecError("there is nothing to draw: no system has a training cost by epoch")
    figure = _figure(6.4, 3.8)
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axes = figure.add_subplot()
    colours = ("#b5482a", "#216869", "#49a078", "#9cc5a1")
    for place, (name, costs) in enumerate(drawn.items()):
        axes.plot(range(1, len(costs) + 1), costs, color=colours[place % len(colours)], marker="o", label=name)
    axes.set(xlabel="epoch", ylabel="training cost", yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # there is no epoch 2.5
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")  # 0.5, and not 5 x 10^-1
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", which="both", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    _save(figure, path)
