"""The cost model: laws through measured points, what they predict, and the drawn parts of docs/scale.md.

A law is a line (a + b x: a start, and the same for each item) or a power (a x^b). Which one holds follows from what the
code does, and is fixed here before anything is measured.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
STORE = PAGE.with_suffix(".json")
TOLERANCE = 0.2

Measurements = dict[str, Any]  # machine, texts, and parts: name -> quantity -> one value for each size


class Law(NamedTuple):
    """How a cost grows with size."""

    kind: str  # line or power
    a: float
    b: float

    def __call__(self, size: float) -> float:
        """Return the cost at a size."""
        return self.a + self.b * size if self.kind == "line" else self.a * size**self.b

    def __str__(self) -> str:
        return f"{self.a:.3g} + {self.b:.3g} x" if self.kind == "line" else f"{self.a:.3g} x^{self.b:.2f}"


def fit(kind: str, sizes: Sequence[float], values: Sequence[float]) -> Law:
    """Return the law with the least squares of relative errors. Two points lie on it."""
    if len(set(sizes)) < 2 or len(sizes) != len(values) or min(*sizes, *values) <= 0:
        raise ValueError(f"a law needs two sizes and a positive value for each, not {sizes} and {values}")
    if kind == "power":
        a, b = _line([math.log(size) for size in sizes], [math.log(value) for value in values], [1.0] * len(sizes))
        return Law(kind, math.exp(a), b)
    return Law("line", *_line(sizes, values, [1 / value**2 for value in values]))


def _line(x: Sequence[float], y: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Return a and b of y = a + b x by weighted least squares."""
    total = sum(weights)
    mean_x = sum(w * one for w, one in zip(weights, x, strict=True)) / total
    mean_y = sum(w * one for w, one in zip(weights, y, strict=True)) / total
    products = sum(w * (p - mean_x) * (q - mean_y) for w, p, q in zip(weights, x, y, strict=True))
    b = products / sum(w * (p - mean_x) ** 2 for w, p in zip(weights, x, strict=True))
    return mean_y - b * mean_x, b


class Curve(NamedTuple):
    """One quantity of one part, and its law."""

    part: str
    quantity: str
    kind: str
    short: str  # for figures
    unit: str  # of a value, and of a size

    def fit(self, sizes: Sequence[float], values: Sequence[float]) -> Law:
        """Return the law through points."""
        return fit(self.kind, sizes, values)


_ALL = (
    Curve("prepare in memory", "cpu_s", "line", "prepare in memory", "CPU s, lines"),
    Curve("prepare in memory", "peak_mb", "line", "memory of preparing in memory", "MB, lines"),
    Curve("prepare on disk", "cpu_s", "line", "prepare on disk", "CPU s, lines"),
    Curve("prepare on disk", "disk_mb", "power", "data folder of a log", "MB, lines"),
    Curve("prepare on disk", "pairs", "power", "distinct pairs", "pairs, lines"),
    Curve("train", "cpu_s", "line", "train one epoch", "CPU s, pairs"),
    Curve("train", "mine_cpu_s", "line", "mine once", "CPU s, pairs"),
    Curve("train", "own_mb", "line", "memory of training", "MB, pairs"),
    Curve("train", "disk_mb", "line", "data folder of pairs", "MB, pairs"),
    Curve("encode", "cpu_s", "line", "encode", "CPU s, titles"),
    Curve("encode", "peak_mb", "line", "memory of encoding", "MB, titles"),
    Curve("build exact", "cpu_s", "line", "build, exact", "CPU s, titles"),
    Curve("build exact", "disk_mb", "line", "index, exact", "MB, titles"),
    Curve("build approximate", "cpu_s", "line", "build, approximate", "CPU s, titles"),
    Curve("build approximate", "own_mb", "line", "memory of building", "MB, titles"),
    Curve("build approximate", "disk_mb", "line", "index, approximate", "MB, titles"),
    Curve("search exact", "vectors_ms", "line", "vectors, exact", "CPU ms, titles"),
    Curve("search approximate", "vectors_ms", "power", "vectors, approximate", "CPU ms, titles"),
    Curve("search approximate", "words_ms", "power", "words", "CPU ms, titles"),
    Curve("search approximate", "hybrid_ms", "power", "hybrid", "CPU ms, titles"),
    Curve("serve", "request_ms", "power", "service, hybrid", "CPU ms, titles"),
)
CURVES = {f"{curve.part} {curve.quantity}": curve for curve in _ALL}


class Check(NamedTuple):
    """A prediction of the largest size from the others, and what was measured."""

    name: str
    law: Law
    size: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Return the relative error of the prediction."""
        return self.predicted / self.measured - 1

    def __str__(self) -> str:
        values = f"predicted {self.predicted:10,.3f}  measured {self.measured:10,.3f}  error {self.error:+6.1%}"
        return f"{self.name:30} {self.law!s:24} at {self.size:10,.0f}  {values}"


def points(found: Measurements, name: str) -> tuple[list[float], list[float]]:
    """Return the sizes and values of a curve."""
    rows = found["parts"][CURVES[name].part]
    return rows["size"], rows[CURVES[name].quantity]


def validate(found: Measurements) -> list[Check]:
    """Predict the largest size of each curve from the smaller ones."""
    checks = []
    for name, curve in CURVES.items():
        sizes, values = points(found, name)
        law = curve.fit(sizes[:-1], values[:-1])
        checks.append(Check(name, law, sizes[-1], law(sizes[-1]), values[-1]))
    return checks


def constants(found: Measurements) -> dict[str, Law]:
    """Return the law of each curve through all of its points, as the tables use it."""
    return {name: curve.fit(*points(found, name)) for name, curve in CURVES.items()}


def drawn(text: str, name: str) -> tuple[str, str, str]:
    """Split the page at a drawn part: what is before it, the part, what is after it."""
    begin, end = f"<!-- {name}: drawn by benchmarks/scale.py -->\n", f"\n<!-- end of {name} -->"
    before, rest = text.split(begin)
    part, after = rest.split(end)
    return before + begin, part, end + after


def fill(text: str, parts: Mapping[str, str]) -> str:
    """Return the page with its drawn parts replaced."""
    for name, part in parts.items():
        before, _, after = drawn(text, name)
        text = before + part + after
    return text
