"""A finding: what the doctor says about one side of a log, in words and in numbers, and what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


class Plot(NamedTuple):
    """Numbers to draw: bars with labels, or a curve over x. A curve may have a band from `low` to `high`."""

    caption: str
    kind: Literal["bars", "curve"]
    labels: tuple[str, ...]  # of the bars, or of the points on the x axis
    values: tuple[float, ...]
    unit: str = ""  # of the values: "%" or nothing
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    level: tuple[str, float] | None = None  # a line to compare with, and its name


@dataclass(frozen=True)
class Finding:
    """One finding. `act` says whether there is something to do before training.

    Files and answers show `examples`, so they hold only what data/privacy.py lets show. `lines` are lines of the log,
    for the terminal of those who have it. `cure` is a command that can be pasted.
    """

    name: str
    heading: str
    text: str
    advice: str
    numbers: Mapping[str, Any]
    examples: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = field(default=())
    act: bool = False
    cure: str = ""
    lines: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {
            "name": self.name, "heading": self.heading, "act": self.act, "text": self.text, "advice": self.advice,
            "cure": self.cure, "numbers": dict(self.numbers), "examples": list(self.examples),
            "plots": [plot._asdict() for plot in self.plots],
        }  # fmt: skip


NOTHING = "Nothing to do."


def count_of(number: float, thing: str, things: str = "") -> str:
    """Return a number with its noun: 1 line, 2,910 lines."""
    return f"{number:,.0f} {thing if number == 1 else things or f'{thing}s'}"


def percent(part: float, whole: float = 1.0) -> str:
    """Return a share in per cent, with one digit if it is small; a share that is not zero is never shown as 0%."""
    share = part / whole if whole else 0.0
    if 0 < share < 0.001:
        return "under 0.1%"
    if 0.999 < share < 1:
        return "over 99.9%"
    return f"{share:.1%}" if 0 < share < 0.0995 or 0.9 < share < 1 else f"{share:.0%}"


def listed(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
