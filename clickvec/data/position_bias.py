"""Position bias: estimate from impressions how much more often readers look at the first positions of a list.

The model is the position-based one: a title is clicked if the reader looks at its position and finds it relevant, so

    P(click on title d at position k for query q) = propensity[k] * relevance[q, d].

A pair (q, d) that was shown n[k] times at each position k and clicked C times in all should have got

    C * n[k] * propensity[k] / sum over j of n[j] * propensity[j]

of its clicks at position k: relevance cancels. The propensities are chosen so that, summed over all pairs, the clicks
expected at every position are the clicks counted there (the maximum of the likelihood of the clicks of each pair, given
their number). The equations hold in the mean however rarely a pair was shown. Only pairs that were clicked and shown at
several positions matter, so the order of the results must vary: by tests of rankings, changes of the index, or
personal results. Using that variation is known as intervention harvesting (Agarwal et al. 2019, "Estimating position
bias without intrusive interventions"). docs/log.md compares this estimator with theirs and with EM.
"""

import logging
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.clicks import ClickLog
from clickvec.errors import ClickvecError

MIN_CLICKS = 100  # at a position, on pairs that were shown at several positions; positions with fewer are pooled
MIN_PROPENSITY = 0.05  # limits the weight of a click, and so the variance of the weights
_TOLERANCE, _MAX_ITERATIONS = 1e-6, 2_000
LAST_POSITION = 1_000  # later positions count as this one
MAX_ROWS = 2**20  # of the counts that the estimate uses: the first ones, to limit memory
# Sums are taken over multiples of 1 / UNIT. These are exact, so that the order of the lines has no effect.
UNIT = 2.0**20

Ints = NDArray[np.int64]
Looks = NDArray[np.float32]
log = logging.getLogger(__name__)


class PositionCounts(NamedTuple):
    """How often each pair of a query and a title was shown and clicked at each position. A row is a pair at a position.

    The rows of a pair follow each other, in the order of the positions. Pairs without a click, or with only one
    position, may be left out.
    """

    pair: Ints  # any number that is different for each pair
    position: Ints  # from 1
    shown: Ints
    clicked: Ints


def looks_of_log(clicks: ClickLog, pair: Ints, before: Ints, looks_before: Looks | None, pairs: int) -> Looks | None:
    """Return how often readers are expected to have looked at each pair; None if the log does not tell.

    The log must consist of impressions with positions, and position bias must be identifiable. sql_looks.py does the
    same for a log on disk.
    `pair` has the number of the pair of each line, those that were only shown last, and -1 if nobody clicked it.
    `before` has the numbers of the pairs of the dataset that the log is appended to.
    """
    if clicks.positions is None or not clicks.shown or (clicks.clicks != 1).any():
        return None
    if len(before) and looks_before is None:
        return None
    shown_positions = clicks.shown.positions
    position = np.concatenate(
        [clicks.positions, np.zeros(len(clicks.shown), np.int32) if shown_positions is None else shown_positions]
    )
    position = np.minimum(position, LAST_POSITION)
    clicked, known = np.arange(len(pair)) < len(clicks), pair >= 0
    propensities = try_propensities(count_positions(pair[known], position[known], clicked[known]))
    if propensities is None:
        return None
    units = look_units(propensities, np.bincount(position)).astype(np.float64)
    total = np.bincount(pair[known], units[position[known]], pairs).astype(np.float64, copy=False)
    if looks_before is not None:
        total[before] += units_of_looks(looks_before)
    return looks_of_units(total)


def try_propensities(counts: PositionCounts) -> NDArray[np.float64] | None:
    """Return the propensities, and log the first ones, or why they cannot be estimated."""
    try:
        propensities = estimate_propensities(counts)
    except ClickvecError as error:
        log.warning("Clicks are not corrected for position: %s", error)
        return None
    first = " ".join(f"{propensity:.2f}" for propensity in propensities[:10])
    log.info("Readers look at the positions from 1 on in these proportions: %s", first)
    return propensities


def look_units(propensities: NDArray[np.float64], shown_at: Ints) -> Ints:
    """Return the looks at an impression at each position, from 0 (unknown) on, in whole units.

    `shown_at` counts the impressions at each position, from 0 on. An unknown position gets the mean.
    """
    last = len(propensities) - 1
    units = np.rint(propensities[np.minimum(np.arange(len(shown_at) - 1), last)] * UNIT).astype(np.int64)
    known = shown_at[1:].astype(np.int64)
    return np.concatenate([[int((known * units).sum()) // max(int(known.sum()), 1)], units])


def looks_of_units(units: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return looks for whole units, rounded so that they have whole units again."""
    return (units / UNIT).astype(np.float32)


def units_of_looks(looks: Looks) -> NDArray[np.float64]:
    """Return the whole units of looks."""
    return looks.astype(np.float64) * UNIT


def count_positions(pair: Ints, position: NDArray[np.integer], clicked: NDArray[np.bool_]) -> PositionCounts:
    """Count impressions, given as columns. Impressions at an unknown position (0) are left out."""
    known = np.flatnonzero(position > 0)
    if not len(known):
        return PositionCounts(*(np.zeros(0, np.int64) for _ in PositionCounts._fields))
    width = LAST_POSITION + 1
    place = np.minimum(position[known], LAST_POSITION)
    keys, inverse = np.unique(pair[known].astype(np.int64) * width + place, return_inverse=True)
    shown = np.bincount(inverse, minlength=len(keys))
    clicks = np.bincount(inverse[clicked[known].astype(bool)], minlength=len(keys))
    return PositionCounts(keys // width, keys % width, shown, clicks)


def estimate_propensities(counts: PositionCounts) -> NDArray[np.float64]:
    """Return the propensity of each position from 1 on, as a share of the largest, but at least MIN_PROPENSITY.

    Neighbouring positions with few clicks share one. Raise ClickvecError if the order of the results varies too little.
    """
    counts = _moved(counts)
    group = _group_positions(counts)
    groups = int(group.max(initial=-1)) + 1
    if groups < 2 or not _are_connected(counts, group, groups):
        raise ClickvecError(
            f"the log cannot tell position bias from relevance: {counts.clicked.sum():,} clicks are on titles shown at "
            f"several positions for the same query, and at least {MIN_CLICKS} at each of two positions are needed; the "
            "order of the results must vary"
        )
    propensity = _solve(counts, group[counts.position - 1], groups)
    clipped: NDArray[np.float64] = np.maximum(propensity / propensity.max(), MIN_PROPENSITY)
    return clipped[group]


def _moved(counts: PositionCounts) -> PositionCounts:
    """Return the rows of the pairs that were clicked and shown at several positions; pairs are numbered from 0."""
    starts = np.flatnonzero(np.diff(counts.pair, prepend=-1))
    if not len(starts):
        return counts
    rows = np.diff(starts, append=len(counts.pair))
    wanted = (rows > 1) & (np.add.reduceat(counts.clicked, starts) > 0)
    kept = np.repeat(wanted, rows)
    numbers = np.repeat(np.arange(np.count_nonzero(wanted)), rows[wanted])
    columns = [numbers, *(column[kept] for column in counts[1:])]
    if len(numbers) > MAX_ROWS:
        end = np.searchsorted(numbers, numbers[MAX_ROWS])  # only whole pairs
        columns = [column[:end] for column in columns]
    return PositionCounts(*columns)


def _group_positions(counts: PositionCounts) -> Ints:
    """Return the group of each position from 1 on. A group is one position or several neighbours with few clicks."""
    clicks = np.bincount(counts.position, counts.clicked)[1:]
    group, total, number = np.zeros(len(clicks), np.int64), 0.0, 0
    for i, clicked in enumerate(clicks.tolist()):
        group[i] = number
        total += clicked
        if total >= MIN_CLICKS:
            total, number = 0.0, number + 1
    return np.minimum(group, max(number - 1, 0))  # the last positions may have too few clicks for a group


def _are_connected(counts: PositionCounts, group: Ints, groups: int) -> bool:
    """Return whether the pairs link all groups of positions, so that all can be compared."""
    row_group = group[counts.position - 1]
    same = np.diff(counts.pair) == 0
    links = np.unique(row_group[:-1][same] * groups + row_group[1:][same])
    reached = {0}
    for _ in range(groups):
        for one, other in zip((links // groups).tolist(), (links % groups).tolist(), strict=True):
            if one in reached or other in reached:
                reached |= {one, other}
    return len(reached) == groups


def _solve(counts: PositionCounts, group: Ints, groups: int) -> NDArray[np.float64]:
    """Return the propensities, by fixed-point iteration."""
    pairs = int(counts.pair[-1]) + 1
    of_pair = np.bincount(counts.pair, counts.clicked, pairs)
    of_group = np.bincount(group, counts.clicked, groups)
    propensity = np.ones(groups)
    for _ in range(_MAX_ITERATIONS):
        relevance = of_pair / np.bincount(counts.pair, counts.shown * propensity[group], pairs)
        units = np.rint(counts.shown * relevance[counts.pair] * UNIT)
        before, propensity = propensity, of_group / (np.bincount(group, units, groups) / UNIT)
        propensity /= propensity[0]
        if np.abs(propensity - before).max() < _TOLERANCE:
            break
    return propensity
