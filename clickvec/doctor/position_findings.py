"""Findings about position bias: how much of a title's clicks come from where it was shown."""

import numpy as np

from clickvec.doctor.finding import NOTHING, Finding, Plot, percent
from clickvec.doctor.line_counts import Counted

SHOWN_POSITIONS = 20  # in the plot


def positions_finding(counted: Counted) -> Finding:
    """Report the clicks by position, as rates if the log has the titles that were shown and skipped."""
    if counted.clicks_by_position is None or counted.shown_by_position is None:
        return Finding(
            "position_bias", "Position bias", "The log does not say where titles were shown.",
            "Add a column position, and the titles that were shown and skipped (clicked = 0), so that clicks can be "
            "weighted against position bias.", {"positions": None},
        )  # fmt: skip
    clicked, shown = counted.clicks_by_position[1:], counted.shown_by_position[1:]
    last = int(np.flatnonzero(shown)[-1]) + 1 if shown.any() else 0
    clicked, shown = clicked[:last], shown[:last]
    unknown = int(counted.shown_by_position[0])
    numbers = {"clicked": clicked.tolist(), "shown": shown.tolist(), "unknown": unknown}
    if not last:
        return Finding("position_bias", "Position bias", "All positions are blank.", NOTHING, numbers)
    top = percent(float(clicked[0]), float(clicked.sum()))
    labels = tuple(str(at + 1) for at in range(min(last, SHOWN_POSITIONS)))
    if counted.shown:
        rates = 100 * clicked / np.maximum(shown, 1)
        text = f"{top} of the clicks are at position 1. It is clicked in {rates[0]:.1f}% of the views"
        text += f", position {last} in {rates[-1]:.1f}%." if last > 1 else "."
        plot = Plot("Clicks by position, per view", "bars", labels, tuple(rates[:SHOWN_POSITIONS].tolist()), "%")
    else:
        text = f"{top} of the clicks are at position 1. The log lacks titles that were shown and skipped, so this says "
        text += "little about how readers look at positions."
        shares = 100 * clicked / max(1, int(clicked.sum()))
        plot = Plot("Share of the clicks by position", "bars", labels, tuple(shares[:SHOWN_POSITIONS].tolist()), "%")
    return Finding("position_bias", "Position bias", text, NOTHING, numbers, plots=(plot,))
