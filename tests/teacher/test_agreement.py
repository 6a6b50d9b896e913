"""How far a teacher agrees with clicks: by hand, by brute force, and what follows for its weight."""

import numpy as np
import pytest

from clickvec.data import ClickLog, dataset
from clickvec.teacher import agreement as module
from clickvec.teacher.agreement import agreement
from clickvec.teacher.teacher_vectors import Teacher

AXES = np.eye(3, dtype=np.int8) * 100


def data_of(pairs: list[tuple[str, str]], catalogue: tuple[str, ...] = ()) -> dataset.Dataset:
    queries, titles = (list(part) for part in zip(*pairs, strict=True))
    return dataset.prepare(ClickLog(queries, titles, np.ones(len(pairs))), 10, 1000, catalogue=catalogue)


def teacher_of(queries: np.ndarray, titles: np.ndarray) -> Teacher:
    return Teacher("t", queries.astype(np.int8), titles.astype(np.int8), np.full(queries.shape[1], 0.01, np.float32))


def test_by_hand() -> None:
    data = data_of([("sofa", "red sofa"), ("bath", "blue bath"), ("lamp", "old lamp")])
    assert agreement(data, teacher_of(AXES, AXES)) == 1.0
    assert agreement(data, teacher_of(AXES, AXES[[0, 2, 1]])) == pytest.approx(1 / 3)  # it exchanges two titles
    assert agreement(data, teacher_of(AXES, -AXES)) == 0.0


def test_other_clicked_titles_and_the_catalogue_do_not_compete() -> None:
    data = data_of([("sofa", "red sofa"), ("sofa", "couch")], catalogue=("settee",))
    queries, titles = AXES[:1], np.stack([AXES[0] // 2, AXES[0] // 3, AXES[0]])
    assert agreement(data, teacher_of(queries, titles)) == 1.0


def test_equal_titles_count_as_nearest() -> None:
    data = data_of([("sofa", "red sofa"), ("bath", "blue bath")])
    assert agreement(data, teacher_of(AXES[:2], AXES[[0, 0]])) == 1.0  # of "bath", both have the cosine 0


def test_pairs_that_the_teacher_does_not_know_are_left_out() -> None:
    data = data_of([("sofa", "red sofa"), ("bath", "blue bath"), ("lamp", "old lamp")])
    queries, titles = AXES.copy(), AXES[[0, 2, 1]].copy()
    queries[1] = 0
    assert agreement(data, teacher_of(queries, titles)) == 0.5
    titles[2] = 0
    assert agreement(data, teacher_of(queries, titles)) == 1.0
    assert agreement(data, teacher_of(queries * 0, titles)) is None
    assert agreement(data, teacher_of(queries, titles * 0)) is None


@pytest.mark.parametrize("most", [4096, 7])
def test_it_is_that_of_brute_force(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TITLES", most)
    monkeypatch.setattr(module, "MOST_PAIRS", most)
    rng = np.random.default_rng(1)
    names = [f"title {number:03d}" for number in range(40)]
    log = [(f"query {number % 25}", names[int(rng.integers(40))]) for number in range(60)]
    data = data_of(list(dict.fromkeys(log)))
    counts = [len(texts.offsets) - 1 for texts in (data.queries, data.titles)]
    teacher = teacher_of(*(rng.integers(-9, 10, (count, 4)) for count in counts))
    draw = np.random.default_rng(0)
    sizes = len(data.pair_query), data.clicked_titles
    pairs, others = (np.sort(draw.choice(size, min(size, most), replace=False)) for size in sizes)
    found = []
    for pair in pairs.tolist():
        query, title = int(data.pair_query[pair]), int(data.pair_title[pair])
        clicked = {int(t) for q, t in zip(data.pair_query, data.pair_title, strict=True) if q == query}
        score = teacher.titles.astype(int) @ teacher.queries[query].astype(int)
        found.append(all(score[title] >= score[other] for other in others.tolist() if other not in clicked))
    assert agreement(data, teacher) == pytest.approx(np.mean(found))
