"""Draw bars and lines about words: contributions, the effect of deleting words, attenuation of function words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from inside_maps import GROUPS

from clickvec.errors import ClickvecError
from clickvec.explanation.explained_pair import Pair, Word
from clickvec.render.figures.style import GREY, INK, PALE, RUST, TEAL, drawing, heat_map, shorten, words_on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_WORD = 22


def contributions(explanation: Pair, path: Path) -> None:
    """Draw the contribution of each word, and the links between the words of the query and the title."""
    sides = {"query": explanation.query_words, "title": explanation.title_words}
    if not any(sides.values()):
        raise ClickvecError("there is nothing to draw: neither the query nor the title has a word")
    given = [word.contribution for words in sides.values() for word in words]
    low, high = min(0.0, *given), max(0.0, *given)
    room = 0.34 * (high - low or 1)  # space for the numbers at the ends of the bars
    rows = max(map(len, sides.values()))
    links = explanation.links if explanation.query_words and explanation.title_words else None
    widths = [3.7, 3.7, 1.2 + 0.3 * len(explanation.title_words)] if links else [3.7, 3.7]
    with drawing(path, sum(widths) + 0.6, 1.2 + 0.27 * rows + (0.4 if links else 0)) as figure:
        panels = figure.subplots(1, len(widths), width_ratios=widths, gridspec_kw={"wspace": 0.08})
        for axes, (side, words) in zip(panels, sides.items(), strict=False):
            _bars(axes, words)
            axes.set(xlim=(low - (room if low < 0 else 0), high + room), ylim=(rows - 0.4, -0.6))
            axes.set_title(side, fontweight="bold", loc="left")
        if links:
            _links(panels[-1], explanation)
        figure.suptitle(f"score {explanation.score:.3f}, and what each word gave to it ({explanation.method})")


def _bars(axes: "Axes", words: Sequence[Word]) -> None:
    values = [word.contribution for word in words]
    axes.barh(range(len(words)), values, height=0.72, color=[RUST if value < 0 else TEAL for value in values])
    axes.axvline(0, color=INK, linewidth=0.8)
    for place, value in enumerate(values):
        axes.annotate(
            f"{value:+.3f}".replace("-", "−"), (value, place), (3 if value >= 0 else -3, 0), textcoords="offset points",
            ha="left" if value >= 0 else "right", va="center", fontsize=8,
        )  # fmt: skip
    axes.set_yticks(range(len(words)), labels=[shorten(word.word, LABEL_WORD) for word in words])
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def _links(axes: "Axes", explanation: Pair) -> None:
    """Draw the contribution of each pair of a query word and a title word."""
    links = np.array(explanation.links)
    reach = float(np.abs(links).max()) or 1.0
    heat_map(axes, links, (-reach, reach))
    for (row, column), value in np.ndenumerate(links):
        if abs(value) >= 0.005:
            colour = "white" if abs(value) > 0.6 * reach else INK
            axes.text(
                column, row, f"{100 * value:.0f}".replace("-", "−"), ha="center", va="center", fontsize=7, color=colour
            )
    axes.set_yticks(range(len(links)), labels=[shorten(word.word) for word in explanation.query_words])
    axes.tick_params(axis="y", length=0)
    words_on_axis(axes, [word.word for word in explanation.title_words])
    axes.set_title("score by pairs of words, in hundredths", fontweight="bold", loc="left")


def deletion_curves(
    curves: Mapping[str, Sequence[float]],
    path: Path,
    *,
    random: str = "random",
    across: str = "words deleted",
    up: str = "score left, per cent of the full score",
) -> None:
    """Draw the remaining share of the score when 0, 1, 2, ... words are deleted, one line per method.

    The curve named `random` is drawn as what the others are measured against.
    """
    drawn = {name: 100 * np.asarray(shares, np.float64) for name, shares in curves.items() if len(shares)}
    if not drawn:
        raise ClickvecError("there is nothing to draw: no curve has a point")
    with drawing(path, 6.4, 4.0) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        colours = iter(GROUPS * len(drawn))
        for name, shares in drawn.items():
            look = {"color": GREY, "fmt": "o--"} if name == random else {"color": next(colours), "fmt": "o-"}
            axes.plot(range(len(shares)), shares, look["fmt"], color=look["color"], label=name, markersize=4.5)
        axes.set(xlabel=across, ylabel=up, ylim=(min(0.0, *map(min, drawn.values())), None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=min(5, len(drawn)))


def function_word_bars(measures: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Draw function words and content words: a panel for each measure (gate, effect), two bars for each model.

    The two numbers of a pair are the mean over function words and the mean over content words.
    """
    if not measures or not any(measures.values()):
        raise ClickvecError("there is nothing to draw: no model has been measured")
    models = list(dict.fromkeys(model for pairs in measures.values() for model in pairs))
    with drawing(path, 1.2 + 3.0 * len(measures), 1.1 + 0.62 * len(models)) as figure:
        panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        kinds = (("function words", -0.19, PALE), ("content words", 0.19, TEAL))
        for axes, (measure, pairs) in zip(panels, measures.items(), strict=True):
            for kind, (label, shift, colour) in enumerate(kinds):
                values = [pairs[model][kind] if model in pairs else 0.0 for model in models]
                bars = axes.barh(np.arange(len(models)) + shift, values, height=0.36, color=colour, label=label)
                labels = [f"{value:.3f}" if model in pairs else "" for model, value in zip(models, values, strict=True)]
                axes.bar_label(bars, labels, padding=3, fontsize=8)
            axes.set_title(measure, fontweight="bold", loc="left")
            axes.set_yticks(range(len(models)), labels=models)
            axes.tick_params(axis="y", length=0)
            axes.set_xticks([])
            axes.margins(x=0.16)
            axes.spines[:].set_visible(False)
            axes.axvline(0, color=INK, linewidth=0.8)
        panels[0].invert_yaxis()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
