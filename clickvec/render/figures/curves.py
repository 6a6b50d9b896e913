"""Curves of loss, NDCG and cost over epochs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clickvec.errors import ClickvecError
from clickvec.render.figures.style import GREEN, LINES, PALE, RUST, TEAL, drawing


def training_curve(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the training loss and the dev NDCG by epoch, from the rows of metrics.jsonl."""
    with drawing(path, 6.4, 3.8) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        epochs, losses = [row["epoch"] for row in history], [row["loss"] for row in history]
        # The axis starts at 0, where the default margin would cut a marker.
        axes.plot(epochs, losses, color=RUST, marker="o", label="training loss", clip_on=False)
        axes.set(xlabel="epoch", ylabel="training loss", ylim=(0, 1.05 * max(losses, default=0) or 1))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if all("dev" in row for row in history):
            ndcg = axes.twinx()
            ndcg.spines.right.set_visible(True)
            for measure, colour in zip(history[0]["dev"], (PALE, GREEN, TEAL), strict=False):
                values = [row["dev"][measure] for row in history]
                ndcg.plot(epochs, values, color=colour, marker="s", label=f"dev {measure}")
            ndcg.set_ylabel("NDCG, per cent")
        figure.legend(loc="outside upper center", ncols=4)


def cost_curve(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw the training cost of each system by epoch on a logarithmic axis, as in the paper."""
    drawn = {name: costs for name, costs in curves.items() if len(costs)}
    if not drawn:
        raise ClickvecError("there is nothing to draw: no system has a training cost by epoch")
    with drawing(path, 6.4, 3.8) as figure:
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        axes = figure.add_subplot()
        for place, (name, costs) in enumerate(drawn.items()):
            axes.plot(range(1, len(costs) + 1), costs, color=LINES[place % len(LINES)], marker="o", label=name)
        axes.set(xlabel="epoch", ylabel="training cost", yscale="log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")  # 0.5, not 5 x 10^-1
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y", which="both")
        figure.legend(loc="outside upper center", ncols=4)
