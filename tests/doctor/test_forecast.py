"""Learning curves: exact ones are recovered, and what a forecast says follows from its numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import check_tells, ok, run
from hypothesis import given
from hypothesis import strategies as st

from clickvec.data import ClickLog
from clickvec.doctor.power_law import EXPONENTS, fit_power_laws

pytest.importorskip("torch")
from clickvec.doctor.forecast import _thin, summarise, training_share
from clickvec.doctor.forecast_finding import describe_forecast

SIZES = np.array([1000.0, 2000.0, 4000.0, 8000.0])


@given(st.floats(20, 90), st.floats(1, 15), st.sampled_from(EXPONENTS.tolist()))
def test_a_power_law_without_noise_is_recovered(limit: float, drop: float, exponent: float) -> None:
    scale = drop * 1000**exponent  # the first size is `drop` below the limit
    curves = fit_power_laws(SIZES, (limit - scale * SIZES**-exponent)[None])
    assert curves.limit[0] == pytest.approx(limit, abs=1e-5)
    assert curves.exponent[0] == pytest.approx(exponent)
    assert curves.at(16_000)[0] == pytest.approx(limit - drop * 16**-exponent, abs=1e-5)
    middle = limit - drop / 2
    assert curves.size_for(middle)[0] == pytest.approx(1000 * 2 ** (1 / exponent), rel=1e-4)
    assert curves.size_for(limit + 1)[0] == np.inf


def test_a_falling_curve_becomes_a_constant() -> None:
    curves = fit_power_laws(SIZES, np.array([[40.0, 39.0, 38.0, 37.0]]))
    assert curves.at(1e9)[0] == pytest.approx(38.5)
    assert curves.size_for(38.0)[0] == 0
    assert curves.size_for(39.0)[0] == np.inf


@given(st.lists(st.floats(0, 100), min_size=4, max_size=4))
def test_no_forecast_is_above_100_or_falls(values: list[float]) -> None:
    curves = fit_power_laws(SIZES, np.array([values]))
    assert curves.at(16_000)[0] <= 100 + 1e-9
    assert curves.at(16_000)[0] >= curves.at(8_000)[0] - 1e-9


def forecast(values: list[float], bm25: float, whole: float = 8000.0):  # noqa: ANN201
    """A forecast from the same values on each of 50 queries."""
    return summarise(SIZES, np.repeat(np.array(values)[:, None], 50, axis=1), np.full(50, bm25), whole)


def test_numbers_of_a_forecast() -> None:
    # The gap to 50 halves with each doubling: 16, 8, 4, 2, and 1 with twice the data.
    found = forecast([34, 42, 46, 48], 40)
    assert found.means == (34, 42, 46, 48)
    assert found.ahead == pytest.approx((8, 8, 8))
    assert found.doubled[0] == pytest.approx(49, abs=0.02)
    assert found.gain[0] == pytest.approx(1, abs=0.02)
    assert found.needed == pytest.approx(1600, rel=0.02)  # 50 - 16 * 1000 / 1600 = 40
    half = forecast([34, 42, 46, 48], 40, whole=16_000.0)  # the largest model had half of the log
    assert half.whole[0] == pytest.approx(49, abs=0.02)
    assert half.doubled[0] == pytest.approx(49.5, abs=0.02)


@pytest.mark.parametrize(
    ("values", "bm25", "advice", "act"),
    [
        ([34, 42, 46, 48], 40, "enough data to beat BM25. More clicks would make it better", False),
        ([48, 48, 48, 48], 40, "enough data to beat BM25. More clicks would help little", False),
        ([34, 42, 46, 48], 49, "with about 2 times the clicks", True),
        ([34, 42, 46, 48], 55, "no amount", True),
        ([34, 42, 46, 48], 48, "level", True),
    ],
)
def test_advice(values: list[float], bm25: float, advice: str, act: bool) -> None:
    finding = describe_forecast(forecast(values, bm25), 8000.0)
    check_tells(finding.advice, advice)
    assert finding.act is act
    check_tells(finding.text, f"NDCG@10 {values[-1]:.1f}", f"BM25 {bm25:.1f}", "the whole log")
    json.dumps(finding.as_json(), allow_nan=False)
    assert finding.plots[0].labels == ("1,000", "2,000", "4,000", "8,000", "twice (forecast)")
    assert len(finding.plots[0].low) == 5


def test_a_sample_of_clicks() -> None:
    log = ClickLog(["a", "b", "c"], ["x", "y", "z"], np.array([1000.0, 1.0, 0.2]), times=np.array([1, 2, 3]))
    thinned = _thin(log, 0.5, np.random.default_rng(0))
    assert thinned.clicks[0] == pytest.approx(500, abs=60)
    assert set(thinned.clicks[1:]) <= {1.0}
    assert thinned.times is not None
    assert len(thinned.queries) == len(thinned.titles) == len(thinned.times)
    assert _thin(log, 1.0, np.random.default_rng(0)) is log


def test_a_long_training_gets_a_sample() -> None:
    assert training_share(1000, 5, 1e6, 1.0) == 1.0
    assert training_share(1000, 5, 1e6, 0.2) == 0.2
    # 1.875 log lengths in 600 s at 1,000 pairs/s: 64,000 of a million pairs in five epochs
    assert training_share(1_000_000, 5, 1000, 1.0) == pytest.approx(0.064)


def test_a_forecast_of_a_small_log(site: Path) -> None:
    small = ("--set", "cells=8", "--set", "hidden=8", "--set", "epochs=1", "--set", "batch_size=256")
    done = run("doctor", site / "clicks.tsv.gz", "--forecast", "--json", *small)
    assert done.status == 0, done.err
    finding = json.loads(done.out)["findings"][-1]
    assert finding["name"] == "forecast"
    assert finding["numbers"]["queries"] >= 50
    assert len(finding["numbers"]["means"]) == 4
    check_tells(done.err, "The forecast trains 4 models", "That takes ")


def test_too_few_queries_for_a_forecast(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("query\ttitle\na\tb\nc\td\n", encoding="utf-8")
    check_tells(
        " ".join(ok("doctor", path, "--forecast", "--set", "cells=8").split()), "fewer than 500 different queries"
    )
