"""The doctor finds what the simulator planted: bots, secrets and position bias, and little else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickvec.data import BadLines, Events, read_events
from clickvec.doctor.line_counts import LineCounter
from clickvec.doctor.position_findings import PositionSample, positions_finding
from clickvec.doctor.secret_count import SecretCounter
from clickvec.lab.simulate.messy import write_messy

IMPRESSIONS = 220_000


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    site: Path = tmp_path_factory.mktemp("messy") / "site"
    summary = write_messy(site, IMPRESSIONS, dev_queries=0, test_queries=0)
    counter, positions, secrets = LineCounter(), PositionSample(), SecretCounter()
    for block in read_events(site / "impressions.tsv.gz", bad=BadLines()):
        counter.add(block)
        positions.add(block)
        secrets.add(block)
    counted = counter.finish()
    counter.close()
    return summary, json.loads((site / "truth.json").read_text(encoding="utf-8")), counted, positions, secrets


def test_every_bot_is_found_and_no_busy_person(examined: tuple[Any, ...]) -> None:
    summary, truth, counted, _, _ = examined
    assert truth["busy_clients"]
    assert (counted.clients.bots, counted.clients.bot_lines) == (summary.bots, summary.bot_impressions)


def test_secrets_are_found_with_few_false_alarms(examined: tuple[Any, ...]) -> None:
    _, truth, _, _, secrets = examined
    planted = len(truth["secrets"])
    found = secrets.affected / 10  # ten lines for each page view
    assert planted * 0.97 <= found <= planted * 1.05
    shown = " ".join(secrets.finding().examples)
    assert not any(secret["number"] in shown for secret in truth["secrets"])


def test_position_bias_is_estimated(examined: tuple[Any, ...]) -> None:
    _, truth, counted, positions, _ = examined
    finding = positions_finding(counted, positions)
    assert np.abs(np.array(finding.numbers["propensities"]) - truth["propensities"]).max() < 0.1
    assert "click_weight=rate" in finding.advice


def test_a_log_without_variation_says_so() -> None:
    sample, counter = PositionSample(), LineCounter()
    block = Events(["q"] * 4, list("abcd"), np.array([1.0, 0, 0, 0]), None, None, np.arange(1, 5, dtype=np.int32))
    sample.add(block)
    counter.add(block)
    finding = positions_finding(counter.finish(), sample)
    assert finding.numbers["propensities"] is None
    assert "cannot be estimated" in finding.text
    assert finding.advice == "Vary the order of the results."
