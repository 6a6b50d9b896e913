"""Figures. Everything shown here was computed elsewhere; matplotlib is imported when a figure is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clickvec.encoder import Trace
from clickvec.errors import missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GATE_MAPS = {
    "input_gate": "input gate i(t)",
    "cell": "cell state c(t)",
    "output_gate": "output gate o(t)",
    "output": "output y(t)",
}


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
    """The paper's heat maps of one text: cells down, words across, one colour range for each map."""
    maps = {name: title for name, title in GATE_MAPS.items() if name in trace.values}
    figure = _figure(2.0 + 1.6 * len(maps) + 0.35 * len(trace.steps) * len(maps), 4.8)
    for place, (name, title) in enumerate(maps.items(), start=1):
        axes = figure.add_subplot(1, len(maps), place)
        _heat_map(figure, axes, np.asarray(trace.values[name]).T, title, trace.steps)
    figure.suptitle(" ".join(trace.steps))
    _save(figure, path)


def _heat_map(figure: "Figure", axes: "Axes", values: np.ndarray[Any, Any], title: str, words: Sequence[str]) -> None:
    """One map, its colours centred on the value that says nothing: 0, or 0.5 for a gate that is half open."""
    centre = 0.0 if values.min() < 0 else 0.5
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
