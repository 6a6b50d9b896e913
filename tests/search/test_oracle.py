"""A short version of benchmarks/oracle.py: search agrees with the documented rules on random catalogues."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import oracle


@pytest.mark.parametrize("seed", range(6))
def test_search_filters_and_facets_are_what_the_rules_say(seed: int) -> None:
    ended = oracle.catalogue(f"test-{seed}")
    assert ended
    assert [case for outcome, case in ended if outcome not in ("right", "close")] == []
