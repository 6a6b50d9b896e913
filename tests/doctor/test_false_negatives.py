"""False negatives to expect, against every pair of pairs of a small log, and against real minibatches."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec import config
from clickvec.data import ClickLog, dataset
from clickvec.data.events import Events
from clickvec.doctor.false_negatives import FalseNegatives, false_negatives
from clickvec.doctor.line_counts import LineCounter

# q1 has the titles a, b; q2 has b; q3 has c.
SMALL = {("q1", "a"): 1, ("q1", "b"): 1, ("q2", "b"): 2, ("q3", "c"): 1}


def expected(pairs: dict[tuple[str, str], int], batch_size: int) -> FalseNegatives:
    counter = LineCounter()
    queries, titles = zip(*pairs, strict=True)
    counter.add(Events(queries, titles, np.array(list(pairs.values()), float)))
    counted = counter.finish()
    return false_negatives(counter.pairs, counted.titles, counted.pairs, batch_size)


def test_by_hand() -> None:
    # Of the 12 ordered pairs of pairs, three have a title that was clicked for the other's query and is not its own:
    # (q1, a) with (q1, b) and with (q2, b), and (q1, b) with (q1, a).
    found = expected(SMALL, 2)
    assert found.probability == pytest.approx(3 / 12)
    # Half of the clicks knows each pair with probability 1/2, and (q2, b) with 3/4: 9/4 pairs in all. Only (q2, b) can
    # bring a title that q1 has in the other half: P(a known) P(b unknown) P(q2, b known) / (9/4)^2.
    assert found.half_unknown == pytest.approx(0.5 * 0.5 * 0.75 / (9 / 4) ** 2)


PAIRS = st.dictionaries(st.tuples(st.sampled_from("qrs"), st.sampled_from("abcd")), st.integers(1, 3), min_size=2)


@given(PAIRS)
def test_the_probability_is_that_of_all_pairs_of_pairs(pairs: dict[tuple[str, str], int]) -> None:
    others = [(one, two) for one, two in product(pairs, pairs) if one != two]
    hits = sum((query, title) in pairs and title != own for (query, own), (_, title) in others)
    assert expected(pairs, 2).probability == pytest.approx(hits / len(others))


def test_one_pair_has_no_negatives() -> None:
    assert expected({("q", "t"): 1}, 8) == FalseNegatives(8, 0.0, 0.0, 0.0)


def test_as_many_as_training_masks() -> None:
    pytest.importorskip("torch")
    from clickvec.training.negatives import Sampler

    rng = np.random.default_rng(0)
    query, title = rng.integers(0, 60, 900), (40 * rng.random(900) ** 2).astype(int)
    pairs = dict.fromkeys((f"q{q}", f"t{t}") for q, t in zip(query.tolist(), title.tolist(), strict=True))
    queries, titles = (list(column) for column in zip(*pairs, strict=True))
    data = dataset.prepare(ClickLog(queries, titles, np.ones(len(queries))), 10, 1000)
    sampler = Sampler(data, config.recipe(batch_size=32, hard_negatives=0))
    masked = [
        sampler.draw(rng.permutation(len(queries))[:32], rng).masked / 32 for _ in range(300)
    ]  # fmt: skip
    found = expected(dict.fromkeys(pairs, 1), 32)
    assert found.masked == pytest.approx(np.mean(masked), rel=0.05)
