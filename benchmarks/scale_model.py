"""The cost model: laws through measured points, what they predict, and the drawn parts of docs/scale.md.

A law is a level (a), a line (a + b x: a start, and the same for each item), a root (a + b √x) or a power (a x^b, of
which b may be given). Which one holds follows from what the code does.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
STORE = PAGE.with_suffix(".json")
TOLERANCE = 0.2

# machine, texts, parts: name -> quantity -> one value for each size, and predicted: curve -> value at the largest size
Measurements = dict[str, Any]
SMALLER = 2  # sizes that the third is predicted from


class Law(NamedTuple):
    """How a cost grows with size."""

    kind: str  # level, line, root or power
    a: float
    b: float  # 0 for a level

    def __call__(self, size: float) -> float:
        """Return the cost at a size."""
        if self.kind == "power":
            return self.a * size**self.b
        return self.a + self.b * (math.sqrt(size) if self.kind == "root" else size)

    def inverse(self, value: float) -> float:
        """Return the size at which the cost has a value; infinity if it does not rise."""
        if self.b <= 0:
            return math.inf
        if self.kind == "power":
            return float((value / self.a) ** (1 / self.b))
        size = (value - self.a) / self.b
        return size**2 if self.kind == "root" else size

    def __str__(self) -> str:
        more = {"level": "", "line": f" + {self.b:.3g} x", "root": f" + {self.b:.3g} √x", "power": f" x^{self.b:.2f}"}
        return f"{self.a:.3g}{more[self.kind]}"


def fit(kind: str, sizes: Sequence[float], values: Sequence[float], exponent: float = 0) -> Law:
    """Return the law with the least squares of relative errors. Two points lie on it, unless its exponent is given."""
    if len(set(sizes)) < 2 or len(sizes) != len(values) or min(*sizes, *values) <= 0:
        raise ValueError(f"a law needs two sizes and a positive value for each, not {sizes} and {values}")
    if kind == "level":
        return Law(kind, sum(values) / len(values), 0)
    if kind == "power" and exponent:
        logs = [math.log(value / size**exponent) for size, value in zip(sizes, values, strict=True)]
        return Law(kind, math.exp(sum(logs) / len(logs)), exponent)
    if kind == "power":
        a, b = _line([math.log(size) for size in sizes], [math.log(value) for value in values], [1.0] * len(sizes))
        return Law(kind, math.exp(a), b)
    x = [math.sqrt(size) for size in sizes] if kind == "root" else sizes
    return Law(kind, *_line(x, values, [1 / value**2 for value in values]))


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
    over: str = "size"  # or another quantity that the code determines
    beside: str = ""  # the line of this curve holds, with another start
    exponent: float = 0  # of a power, if it is known


_ALL = (
    Curve("prepare in memory", "cpu_s", "line", "prepare in memory", "CPU s, lines"),
    Curve("prepare in memory", "peak_mb", "line", "memory of preparing in memory", "MB, lines"),
    Curve("prepare on disk", "cpu_s", "line", "prepare on disk", "CPU s, lines"),
    Curve("prepare on disk", "disk_mb", "power", "data folder of a log", "MB, lines"),
    Curve("prepare on disk", "pairs", "power", "distinct pairs", "pairs, lines"),
    Curve("train", "cpu_s", "line", "train one epoch", "CPU s, pairs"),
    Curve("train", "mine_cpu_s", "line", "mine once", "CPU s, cosines", "mine_scores"),
    Curve("train", "own_mb", "level", "memory of training", "MB, pairs"),
    Curve("train", "disk_mb", "line", "data folder of pairs", "MB, pairs"),
    Curve("encode", "cpu_s", "line", "encode", "CPU s, titles"),
    Curve("encode", "peak_mb", "level", "memory of encoding", "MB, titles"),
    Curve("build exact", "cpu_s", "line", "build, exact", "CPU s, titles"),
    Curve("build exact", "disk_mb", "line", "index, exact", "MB, titles"),
    Curve("build approximate", "cpu_s", "line", "build, approximate", "CPU s, titles"),
    Curve("build approximate", "peak_mb", "root", "memory of building", "MB, titles"),
    Curve("build approximate", "disk_mb", "line", "index, approximate", "MB, titles"),
    Curve("search exact", "vectors_ms", "line", "search, exact", "CPU ms, titles"),
    Curve(
        "search approximate", "codes", "power", "vectors read by approximate search", "vectors, titles", exponent=0.75
    ),
    Curve("nearest approximate", "nearest_ms", "line", "vectors alone, approximate", "CPU ms, vectors read", "codes"),
    Curve("search approximate", "hybrid_ms", "line", "search, hybrid", "CPU ms, vectors read", "codes"),
    Curve(
        "serve", "request_ms", "line", "service, hybrid", "CPU ms, vectors read", "codes",
        beside="search approximate hybrid_ms",
    ),
)  # fmt: skip
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
    return rows[CURVES[name].over], rows[CURVES[name].quantity]


def law_of(found: Measurements, name: str, count: int) -> Law:
    """Return the law of a curve through its smallest sizes, so many of them."""
    curve, (sizes, values) = CURVES[name], points(found, name)
    if not curve.beside:
        return fit(curve.kind, sizes[:count], values[:count], curve.exponent)
    slope = law_of(found, curve.beside, count).b
    starts = [value - slope * size for size, value in zip(sizes[:count], values[:count], strict=True)]
    return Law("line", sum(starts) / count, slope)


def predict(found: Measurements, name: str) -> tuple[Law, float, float]:
    """Return the law of a curve through the smaller sizes, the largest size in its unit, and what the law says there.

    Nothing that was measured at the largest size is used.
    """
    law = law_of(found, name, SMALLER)
    if CURVES[name].over == "codes":
        size = predict(found, "search approximate codes")[2]
        return law, size, law(size)
    size = points(found, name)[0][SMALLER]  # known before: lines, pairs, titles, or the cosines of a mining
    return law, size, law(size)


def validate(found: Measurements) -> list[Check]:
    """Compare the largest size of each curve with the prediction from the smaller ones."""
    return [Check(name, *predict(found, name), points(found, name)[1][SMALLER]) for name in CURVES]


def constants(found: Measurements) -> dict[str, Law]:
    """Return the law of each curve through all of its points, as the tables use it."""
    return {name: law_of(found, name, len(points(found, name)[0])) for name in CURVES}


def cost(laws: Mapping[str, Law], name: str, size: float) -> float:
    """Return what a curve says about a log or a catalogue of this size."""
    over = CURVES[name].over
    if over == "codes":
        size = laws["search approximate codes"](size)
    elif over == "mine_scores":  # every pair has its own query and title
        size = mine_scores(round(size), round(size))
    return laws[name](size)


def size_at(laws: Mapping[str, Law], name: str, value: float) -> float:
    """Return the size of a log or a catalogue at which a curve reaches a value; infinity if it does not rise."""
    size = laws[name].inverse(value)
    over_codes = CURVES[name].over == "codes" and math.isfinite(size)
    return size_at(laws, "search approximate codes", size) if over_codes else size


def mine_scores(queries: int, titles: int) -> int:
    """Return how many cosines one mining computes: of each query with the centres of clusters, and with near titles."""
    from clickvec.training.mining import MOST_TITLES, titles_searched

    return queries * (titles_searched(titles, queries) + round(min(titles, MOST_TITLES) ** 0.5))


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
