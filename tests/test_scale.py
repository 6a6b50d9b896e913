"""The cost model of docs/scale.md: its arithmetic, and that the page shows what docs/scale.json says."""

import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    import scale_model
    import scale_tables
    from scale_model import Law, fit
finally:
    sys.path.pop(0)

FOUND = json.loads(scale_model.STORE.read_text(encoding="utf-8"))
LAWS = scale_model.constants(FOUND)
TEXT = scale_model.PAGE.read_text(encoding="utf-8")
SPEED = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
constants = st.floats(1e-3, 1e3)


@given(st.sampled_from(("line", "root", "power")), constants, st.floats(0.1, 2), st.integers(2, 5))
def test_points_on_a_law_give_back_its_constants(kind: str, a: float, b: float, count: int) -> None:
    law = Law(kind, a, b)
    sizes = [1000.0 * 4**n for n in range(count)]
    assert fit(kind, sizes, [law(size) for size in sizes])[1:] == pytest.approx((a, b), rel=1e-4)


def test_a_level_is_the_mean() -> None:
    assert fit("level", [1, 10], [500, 540]) == Law("level", 520, 0)


def test_a_power_of_a_given_exponent_is_the_mean_of_its_points() -> None:
    law = fit("power", [16, 256], [10, 90], exponent=0.5)  # 2.5 and 5.625 times the root
    assert law == Law("power", pytest.approx(math.sqrt(2.5 * 5.625)), 0.5)


def test_a_law_through_three_points_weighs_relative_errors() -> None:
    # The same absolute error matters a thousand times less at a value that is a thousand times larger.
    off_at_the_end = fit("line", [1, 10, 1000], [2, 20, 2010])
    assert off_at_the_end(1) == pytest.approx(2, rel=0.01)
    assert off_at_the_end(1000) == pytest.approx(2010, rel=0.01)


@pytest.mark.parametrize(("sizes", "values"), [([1.0], [1.0]), ([2.0, 2.0], [1.0, 1.0]), ([1.0, 2.0], [0.0, 1.0])])
def test_points_that_determine_no_law_are_refused(sizes: list[float], values: list[float]) -> None:
    with pytest.raises(ValueError, match="two sizes"):
        fit("line", sizes, values)


def test_the_largest_size_is_predicted_from_the_smaller_ones_alone() -> None:
    curves = scale_model.CURVES.values()
    rows = {curve.quantity: [1.0] * 3 for curve in curves} | {curve.over: [1.0, 2.0, 4.0] for curve in curves}
    parts = {curve.part: dict(rows) for curve in curves}
    parts["encode"]["cpu_s"] = [3.0, 5.0, 10.0]  # 1 + 2 x, which is 9 at 4
    (check,) = (one for one in scale_model.validate({"parts": parts}) if one.name == "encode cpu_s")
    assert (check.predicted, check.measured) == (pytest.approx(9), 10)
    assert check.error == pytest.approx(-0.1)


@pytest.mark.parametrize(
    "name", ["encode cpu_s", "build approximate peak_mb", "search approximate codes", "search approximate hybrid_ms"]
)
def test_the_size_at_a_cost_is_the_inverse_of_the_cost(name: str) -> None:
    assert scale_model.cost(LAWS, name, scale_model.size_at(LAWS, name, 1000)) == pytest.approx(1000)


def test_mining_is_bounded_for_each_query_as_the_code_bounds_it() -> None:
    # 100 queries among 5,000 titles: all of them, and the centres that a search by clusters would have.
    assert scale_model.mine_scores(100, 5_000) == 100 * (5_000 + 71)
    # 10^9 queries search one cluster of 2^19 titles, which have 724 clusters of 724 titles.
    assert scale_model.mine_scores(10**9, 10**9) == 10**9 * (724 + 724)


def test_times_sizes_and_numbers_are_readable() -> None:
    times = [scale_tables.duration(seconds) for seconds in (0.25, 80, 100, 7200, 10 * 86_400, 9e9)]
    assert times == ["0.25 s", "80 s", "1.7 min", "2.0 h", "10 days", "290 years"]
    assert [scale_tables.size(mb) for mb in (12, 1200, 3.5e6, 2e9)] == ["12 MB", "1.2 GB", "3.5 TB", "2.0 PB"]
    assert [scale_tables.figure(number) for number in (0, 0.0123, 4.56, 99.7, 123_456, 2**31, 9.99e8)] == [
        "0", "0.012", "4.6", "100", "120,000", "2.1 × 10⁹", "1 × 10⁹",
    ]  # fmt: skip
    assert scale_tables.power_of_ten(1e10) == "10¹⁰"


def test_a_row_of_titles_worked_by_hand() -> None:
    laws = LAWS | {
        "encode cpu_s": Law("line", 0, 1e-5),
        "build approximate cpu_s": Law("line", 0, 6e-5),
        "build approximate peak_mb": Law("line", 100, 0.0001),
        "build approximate disk_mb": Law("line", 0, 0.00025),
        "search exact vectors_ms": Law("line", 0, 1e-5),
        "search approximate codes": Law("power", 1, 0.5),
        "search approximate hybrid_ms": Law("line", 0, 0.001),
        "serve request_ms": Law("line", 0, 0.002),
    }
    # 10^9 titles are ten indexes of 10^8: 33 GB to build one, by the run of 10^7; 250 GB in all, and ten times 20 ms
    # for each request. 1,000 requests a second
    # need 200 cores, that is 6.25 machines of 32; at 70% of their capacity, 9.
    row = scale_tables.titles_row(laws, FOUND, 1e9)
    assert row[:6] == ["10⁹", "2.8 h", "10", "1.7 h", "33 GB", "250 GB"]
    assert row[6:] == ["10,000", "10", "200", "9", "extrapolated"]


def test_the_page_shows_what_was_measured() -> None:
    parts = scale_tables.parts_of_page(FOUND, LAWS)
    assert scale_model.fill(TEXT, parts) == TEXT, "run python benchmarks/scale.py --page"
    assert all(f"{name}: drawn" in TEXT for name in parts)


def test_what_is_not_drawn_stays() -> None:
    text = "before\n<!-- one: drawn by benchmarks/scale.py -->\nold\n<!-- end of one -->\nafter"
    assert scale_model.fill(text, {"one": "new"}) == text.replace("old", "new")


def test_the_stored_predictions_are_those_of_the_laws() -> None:
    stored = FOUND.get("predicted")
    if stored is None:  # the page says that several runs made these measurements
        assert "a whole run is to be made" in TEXT
    else:
        assert stored == pytest.approx({name: scale_model.predict(FOUND, name)[2] for name in scale_model.CURVES})


def test_the_page_says_whether_one_run_measured_all() -> None:
    whole = FOUND | {"predicted": {}, "machine": FOUND["machine"] | {"minutes": 11.6, "load": 0.24}}
    assert "One run of 12 minutes" in scale_tables.about_the_run(whole)
    del whole["predicted"]
    assert "several runs" in scale_tables.about_the_run(whole)


def test_predictions_use_nothing_that_was_measured_at_the_largest_size() -> None:
    smaller = {
        part: {name: values if name in ("size", "mine_scores") else values[:2] for name, values in rows.items()}
        for part, rows in FOUND["parts"].items()
    }
    for name in scale_model.CURVES:
        assert scale_model.predict({"parts": smaller}, name) == scale_model.predict(FOUND, name)


def test_a_cost_that_does_not_rise_has_no_limit() -> None:
    laws = LAWS | {"encode cpu_s": Law("line", 3, -1e-9)}
    assert scale_tables.figure(scale_model.size_at(laws, "encode cpu_s", 1000)) == "∞"


def test_every_prediction_is_within_the_tolerance() -> None:
    assert [check.name for check in scale_model.validate(FOUND) if abs(check.error) > scale_model.TOLERANCE] == []


def test_figures_that_other_pages_report_are_there() -> None:
    assert f"{scale_tables.EIGHT_CORES:,} pairs/s" in SPEED
    on_a_gpu = [line for line in SPEED.split("on cuda, 2 threads")[1].splitlines() if line.startswith("default ")]
    for (pairs, seconds), line in zip(scale_tables.H200_EPOCH, on_a_gpu[1:4], strict=True):
        assert line.split()[1] == f"{pairs:,.0f}"
        assert float(line.split()[5]) == seconds
    for shown in ("742.0", "498.63", "3.288", "2.487", "142.88"):
        assert shown in SPEED
