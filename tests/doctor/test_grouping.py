"""Sums by key are those of a dict, whether they fit into memory or not; canonical texts are those of `canonical`."""

from collections import defaultdict

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from clickvec.doctor.grouping import Groups, sum_by
from clickvec.doctor.text_hashes import canonical_texts, hash_texts, mix
from clickvec.text.tokens import canonical

ROWS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=30), max_size=8)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    query, title, clicks = np.array(rows, np.int64).reshape(-1, 3).T
    return hash_texts([f"q{at}" for at in query]), hash_texts([f"t{at}" for at in title]), clicks.astype(np.float64)


@given(ROWS, st.sampled_from([1, 4, 16, 1 << 20]))
def test_groups_are_those_of_a_dict(blocks: list[list[tuple[int, int, int]]], rows_in_memory: int) -> None:
    expected: defaultdict[tuple[int, int], float] = defaultdict(float)
    groups = Groups(tags=2, sums=1, rows_in_memory=rows_in_memory)
    for rows in blocks:
        query, title, clicks = columns(rows)
        groups.add(mix(query, title), (query, title), (clicks,))
        for one, two, count in zip(query.tolist(), title.tolist(), clicks.tolist(), strict=True):
            expected[one, two] += count
    for _ in range(2):  # the parts can be read again
        found: dict[tuple[int, int], float] = {}
        queries_of_parts = list[set[int]]()
        for part in groups.parts():
            rows_of_part = zip(*(column.tolist() for column in (*part.tags, *part.sums)), strict=True)
            found |= {(one, two): count for one, two, count in rows_of_part}
            queries_of_parts.append(set(part.tags[0].tolist()))
        assert found == expected
        assert len(set().union(*queries_of_parts)) == sum(map(len, queries_of_parts))  # no query is in two parts
    assert groups.count() == len(expected)
    groups.close()


def test_more_rows_after_the_parts_were_read() -> None:
    groups = Groups(sums=1, rows_in_memory=2)
    for _ in range(3):
        groups.add(np.arange(5, dtype=np.uint64) << np.uint64(61), (), (np.ones(5),))
        assert groups.count() == 5
    assert sorted(value for part in groups.parts() for value in part.sums[0].tolist()) == [3.0] * 5
    groups.close()


def test_sums_by_key() -> None:
    groups, keys, (sums,) = sum_by(np.array([7, 3, 7], np.uint64), np.array([1.0, 2.0, 4.0]))
    assert groups.tolist() == [1, 0, 1]
    assert keys.tolist() == [3, 7]
    assert sums.tolist() == [2.0, 5.0]


TEXTS = st.lists(st.text(st.sampled_from("aB \t\n\r\v\x1f\x85\xa0\u2028ﬁÅΣßI\u0307上"), max_size=6), max_size=6)


@given(TEXTS)
@example(["Hotel  Berlin", " x", "ﬁsh", ""])
@example(["ΑΣ", "x"])
@example([])
def test_canonical_texts_are_those_of_one_text_at_a_time(texts: list[str]) -> None:
    assert canonical_texts(texts) == list(map(canonical, texts))


def test_a_mixed_hash_depends_on_the_order_of_its_columns() -> None:
    one, two = hash_texts(["a", "b"]), hash_texts(["b", "a"])
    assert (mix(one, two) != mix(two, one)).all()
    assert mix(one, two)[0] == mix(two[1:], one[1:])[0]
