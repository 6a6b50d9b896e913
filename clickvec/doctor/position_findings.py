"""Findings about position bias: how much of a title's clicks come from where it was shown."""

import numpy as np
from numpy.typing import NDArray

from clickvec.data.events import Events
from clickvec.data.position_bias import count_positions, estimate_propensities
from clickvec.doctor.finding import NOTHING, Finding, Plot, count_of, percent
from clickvec.doctor.line_counts import LAST_POSITION, Counted
from clickvec.doctor.text_hashes import canonical_texts, hash_texts, mix
from clickvec.errors import ClickvecError

MOST_LINES = 2**21  # lines that the estimate uses: the first ones, to limit memory
SHOWN_POSITIONS = 20  # in the plot


class PositionSample:
    """The first lines of a log that have positions, as numbers."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self._most, self.lines = most, 0
        self._pairs, self._positions = list[NDArray[np.uint64]](), list[NDArray[np.int32]]()
        self._clicked = list[NDArray[np.bool_]]()

    def add(self, events: Events) -> None:
        """Add a block of lines, as long as there is room."""
        if events.positions is None or self.lines >= self._most:
            return
        rows = slice(0, self._most - self.lines)
        queries, titles = (canonical_texts(texts[rows]) for texts in (events.queries, events.titles))
        self._pairs.append(mix(hash_texts(queries), hash_texts(titles)))
        self._positions.append(np.minimum(events.positions[rows], LAST_POSITION))
        self._clicked.append(events.clicks[rows] > 0)
        self.lines += len(queries)

    def propensities(self) -> NDArray[np.float64]:
        """Return how often readers look at each position, as a share of the largest. Raise if the log cannot tell."""
        _, pairs = np.unique(np.concatenate([np.zeros(0, np.uint64), *self._pairs]), return_inverse=True)
        positions = np.concatenate([np.zeros(0, np.int32), *self._positions])
        clicked = np.concatenate([np.zeros(0, bool), *self._clicked])
        return estimate_propensities(count_positions(pairs.astype(np.int64), positions, clicked))


def positions_finding(counted: Counted, sample: PositionSample) -> Finding:
    """Report the clicks by position and, if the log has titles that were shown and skipped, the position bias."""
    if counted.clicks_by_position is None or counted.shown_by_position is None:
        return Finding(
            "position_bias", "Position bias", "The log does not say where titles were shown.",
            "Add a column position, and the titles that were shown and skipped (clicked = 0), so that clicks can be "
            "weighted against position bias.", {"positions": None},
        )  # fmt: skip
    clicked, shown = counted.clicks_by_position[1:], counted.shown_by_position[1:]
    last = int(np.flatnonzero(shown)[-1]) + 1 if shown.any() else 0
    clicked, shown = clicked[:last], shown[:last]
    numbers = {"clicked": clicked.tolist(), "shown": shown.tolist(), "unknown": int(counted.shown_by_position[0])}
    if not last:
        return Finding("position_bias", "Position bias", "All positions are blank.", NOTHING, numbers)
    top = percent(float(clicked[0]), float(clicked.sum()))
    text = f"Position 1 has {top} of the clicks."
    if not counted.shown:
        text += " The log lacks titles that were shown and skipped, so position bias cannot be estimated."
        advice = "Log every title of a result page, with clicked = 0 if it was skipped."
        bars = _bars("Share of the clicks by position", 100 * clicked / max(1, int(clicked.sum())))
        return Finding("position_bias", "Position bias", text, advice, numbers, plots=(bars,))
    rates = _bars("Clicks by position, per view", 100 * clicked / np.maximum(shown, 1))
    try:
        propensities = sample.propensities()
    except ClickvecError as error:
        text += f" The bias cannot be estimated: {error}."
        numbers["propensities"] = None
        return Finding(
            "position_bias", "Position bias", text, "Vary the order of the results.", numbers, plots=(rates,)
        )
    return _estimated(text, propensities, sample.lines, numbers, rates)


def _estimated(
    text: str, propensities: NDArray[np.float64], lines: int, numbers: dict[str, object], rates: Plot
) -> Finding:
    numbers["propensities"] = propensities.tolist()
    text += (
        f" Readers look {propensities[-1] / propensities[0]:.2g} times as often at position {len(propensities)} as at "
        f"position 1, estimated from the {'first ' if lines >= MOST_LINES else ''}{count_of(lines, 'line')}."
    )
    advice = "Nothing to do: the recipe default weighs a pair by its clicks per look (click_weight=rate)."
    looks = _bars("How often readers look at a position, estimated", 100 * propensities)
    return Finding("position_bias", "Position bias", text, advice, numbers, plots=(rates, looks))


def _bars(caption: str, values: NDArray[np.float64]) -> Plot:
    shown = values[:SHOWN_POSITIONS].tolist()
    return Plot(caption, "bars", tuple(str(at + 1) for at in range(len(shown))), tuple(shown), "%")
