"""Findings about training: false negatives to expect, and the time that it will take here."""

from typing import TYPE_CHECKING

from clickvec.doctor.cures import Cures
from clickvec.doctor.false_negatives import FalseNegatives
from clickvec.doctor.finding import NOTHING, Finding, count_of, percent
from clickvec.doctor.line_counts import Counted

if TYPE_CHECKING:  # it imports torch
    from clickvec.doctor.training_cost import Cost

MANY_UNKNOWN = 0.005  # of the negatives, with half of the clicks


def false_negatives_finding(found: FalseNegatives, cures: Cures) -> Finding:
    """Report how many negatives of a minibatch users did click."""
    text = (
        f"A title of the minibatch was clicked for the query in {percent(found.probability)} of the cases. "
        f"Training masks these: {found.masked:.2g} for each pair in minibatches of {found.batch_size:,}. "
        f"If it knew only half of the clicks, {percent(found.half_unknown)} of the negatives would be clicks "
        "of the other half."
    )
    act = found.half_unknown > MANY_UNKNOWN
    advice = NOTHING
    if act:
        advice = "More days of clicks reveal more of them. Mined negatives suffer most: compare with training without."
    numbers = {
        "probability": found.probability, "masked_per_pair": found.masked,
        "unmasked_at_half": found.half_unknown, "batch_size": found.batch_size,
    }  # fmt: skip
    cure = cures.train("--set", "hard_negatives=0") if act else ""
    return Finding("false_negatives", "False negatives", text, advice, numbers, act=act, cure=cure)


def no_cost_finding() -> Finding:
    """Report that the time of training was not measured."""
    text = "Not measured, because torch is not installed."
    return Finding("cost", "Training", text, "Install it: pip install 'clickvec[train]'.", {"seconds": None})


def cost_finding(cost: "Cost", counted: Counted, read_seconds: float, cures: Cures) -> Finding:
    """Report how long training will take."""
    text = (
        f"Training takes {duration(cost.seconds)} on {cost.device} for {count_of(cost.epochs, 'epoch')} of "
        f"{count_of(counted.pairs, 'pair')}, plus {duration(read_seconds)} to read the log: "
        f"{cost.pairs_per_second:,.0f} pairs/s in {count_of(cost.minibatches, 'minibatch', 'minibatches')}."
    )
    long = cost.seconds > 3600
    advice, cure = "Train with:", cures.train()
    if long:
        advice, cure = "Train on a GPU (--device cuda), or with fewer epochs:", cures.train("--set", "epochs=2")
    numbers = {
        "seconds": cost.seconds, "update_seconds": cost.update_seconds, "mining_seconds": cost.mining_seconds,
        "read_seconds": read_seconds, "pairs_per_second": cost.pairs_per_second, "epochs": cost.epochs,
        "device": cost.device, "minibatches": cost.minibatches,
    }  # fmt: skip
    return Finding("cost", "Training", text, advice, numbers, cure=cure)


def duration(seconds: float) -> str:
    """Return a time in words: about 4 s, about 12 min, about 3.5 hours."""
    if seconds < 1:
        return "under a second"
    if seconds < 100:
        return f"about {seconds:.0f} s"
    if seconds < 100 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} hours"
