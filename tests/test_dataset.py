"""Preparing a click log: the arrays equal those of a plain version with dicts, whatever the texts are."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickvec import counting, dataset, numbering
from clickvec.dataset import Dataset
from clickvec.keytable import KeyTable, mix
from clickvec.numbering import WordTable, number_rows, number_texts
from clickvec.readers import BadLines, ClickLog, Judged, JudgedQuery
from clickvec.text import Ragged, Vocabulary, canonical, ragged, split_steps, split_words

LONG = "abcdefgh"
WORDS = [
    "a", "A", "b", "#", "a#", "##", "a\0", "a\0\0", "\0", "\0\0\0", "\x01", "\x7f", "bath", "Bath", "１０", "上海",
    "ＨＯＴＥＬ", "naïve", "nai\u0308ve", "\u0308", "\u0301\u0308", "\u00a8", "İ", "ΑΣ", "ΑΣα", "Σ", "ﬁ", "½", "K",
    "\ud83d", "\ude00", "\ud83d\ude00", "😀", "\U0010ffff", "\ufeff", "\u200b", "٣", "ไทย", LONG[:7], LONG, LONG + "i",
    LONG.upper() + "j", LONG * 2, LONG * 2 + "x", LONG * 2 + "y", LONG * 3 + "é", LONG * 3 + "è", LONG * 32,
    LONG * 32 + "x", LONG * 32 + "y",
]  # fmt: skip
SPACES = [
    " ", "  ", "\t", "\n", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u00a0", "\u1680", "\u2003",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "",
]  # fmt: skip
PIECES = st.lists(st.sampled_from(WORDS) | st.sampled_from(SPACES), max_size=16).map("".join)
PHRASES = st.lists(st.sampled_from(WORDS[:20]), max_size=16).map(" ".join)  # some of them come again
TEXTS = st.one_of(PHRASES, PIECES, st.text(st.characters(), max_size=8), st.sampled_from(["", " ", "a", "a b"]))
PAIRS = st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from([0.5, 1.0, 3.0])), max_size=12)


def log_of(pairs: Sequence[tuple[str, str, float]]) -> ClickLog:
    return ClickLog([q for q, _, _ in pairs], [t for _, t, _ in pairs], np.array([c for _, _, c in pairs], np.float64))


def plainly_prepared(log: ClickLog, max_words: int, max_trigrams: int, shown: Judged | None) -> Dataset:
    queries, titles, clicks = dict[str, int](), dict[str, int](), dict[tuple[int, int], float]()
    for query, title, count in zip(log.queries, log.titles, log.clicks.tolist(), strict=True):
        key = queries.setdefault(canonical(query), len(queries)), titles.setdefault(canonical(title), len(titles))
        clicks[key] = clicks.get(key, 0.0) + count
    clicked_titles, pairs = len(titles), sorted(clicks)
    passed = plainly_passed_over(shown, queries, titles) - set(clicks) if shown else set()
    steps = dict[str, int]()
    rows = [[[steps.setdefault(step, len(steps)) for step in split_steps(text, max_words)] for text in texts]
            for texts in (queries, titles)]  # fmt: skip
    names = list(queries), list(titles)
    vocabulary = Vocabulary.count((names[side][pair[side]] for pair in pairs for side in (0, 1)), max_trigrams)
    return Dataset(
        vocabulary.trigrams, max_words, ragged(map(vocabulary.ids, steps)), ragged(rows[0]), ragged(rows[1]),
        clicked_titles, np.array([q for q, _ in pairs], np.int32), np.array([t for _, t in pairs], np.int32),
        np.array([clicks[pair] for pair in pairs], np.float32),
        ragged([t for q, t in pairs if q == row] for row in range(len(queries))),
        ragged([t for q, t in sorted(passed) if q == row] for row in range(len(queries))),
    )  # fmt: skip


def plainly_passed_over(shown: Judged, queries: dict[str, int], titles: dict[str, int]) -> set[tuple[int, int]]:
    best: dict[tuple[int, str], int] = {}
    for judged in shown:
        for title, grade in zip(judged.titles, judged.grades.tolist(), strict=True):
            if canonical(judged.query) in queries:
                key = queries[canonical(judged.query)], canonical(title)
                best[key] = max(best.get(key, 0), grade)
    return {(q, titles.setdefault(title, len(titles))) for (q, title), grade in best.items() if grade == 0}


def assert_same(found: Dataset, expected: Dataset) -> None:
    for name, one, other in zip(Dataset._fields, found, expected, strict=True):
        for mine, theirs in zip(*((x if isinstance(x, Ragged) else [x]) for x in (one, other)), strict=True):
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@contextmanager
def small_blocks(size: int) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "_BLOCK", size)
        patch.setattr(numbering, "_SLICE", size)
        yield patch


@settings(max_examples=300)
@given(PAIRS, st.integers(1, 12), st.sampled_from([1, 5, 1000]), st.integers(1, 5))
@example([("a b c d", "b c d", 1.0), ("b c d", "x b c d", 1.0), ("b", "", 2.0)], 2, 1000, 1)
@example([], 10, 50, 1)
def test_prepared_as_plainly(
    pairs: list[tuple[str, str, float]], max_words: int, max_trigrams: int, block: int
) -> None:
    with small_blocks(block) as patch:
        patch.setattr(counting, "_FEW", 50 * block)
        found = dataset.prepare(log_of(pairs), max_words, max_trigrams)
    assert_same(found, plainly_prepared(log_of(pairs), max_words, max_trigrams, None))


def test_a_log_of_thousands_of_letters() -> None:
    pairs = [("".join(map(chr, range(at, at + 40))), f"{chr(at)} b", 1.0) for at in range(0x4E00, 0x5E00, 10)]
    assert_same(dataset.prepare(log_of(pairs), 10, 5000), plainly_prepared(log_of(pairs), 10, 5000, None))


FEW = st.sampled_from(["a", "A ", "b", "a b", "b  a", "c d e", "x", ""])


@settings(max_examples=300)
@given(
    st.lists(st.tuples(FEW, FEW, st.just(1.0)), max_size=8),
    st.lists(st.tuples(FEW | TEXTS, st.lists(st.tuples(FEW | TEXTS, st.integers(0, 2)), max_size=6)), max_size=5),
    st.integers(1, 4),
)
def test_what_was_shown_is_prepared_as_plainly(
    pairs: list[tuple[str, str, float]], judged: list[tuple[str, list[tuple[str, int]]]], max_words: int
) -> None:
    shown = Judged(
        tuple(
            JudgedQuery(
                str(k), query, ("",) * len(rows), tuple(t for t, _ in rows), np.array([g for _, g in rows], int)
            )
            for k, (query, rows) in enumerate(judged)
        ),
        BadLines(),
    )
    found = dataset.prepare(log_of(pairs), max_words, 1000, shown)
    assert_same(found, plainly_prepared(log_of(pairs), max_words, 1000, shown))


@given(st.lists(TEXTS, max_size=20), st.integers(1, 7))
def test_words_and_texts_are_numbered_as_they_come(texts: list[str], block: int) -> None:
    words = WordTable()
    with small_blocks(block):
        numbers, distinct = number_texts(texts, words)
    spelled = words.text().split("\n")[:-1]
    known, expected = dict[str, int](), dict[str, int]()
    assert numbers.tolist() == [known.setdefault(canonical(text), len(known)) for text in texts]
    for text in texts:
        for word in split_words(text):
            expected.setdefault(word, len(expected))
    assert spelled == list(expected)
    rows = np.split(distinct.values, distinct.offsets[1:-1]) if len(known) else []
    assert [" ".join(spelled[word] for word in row) for row in rows] == list(known)


@given(st.lists(st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 40), max_size=60), max_size=5))
def test_the_table_of_keys_is_a_dict(calls: list[list[int]]) -> None:
    table, plain = KeyTable(), dict[int, int]()
    for keys in calls:
        before = len(plain)
        expected = [plain.setdefault(key, len(plain)) for key in keys]
        numbers, new = table.number(np.array(keys, np.uint64))
        assert numbers.tolist() == expected
        assert [keys[place] for place in new] == list(plain)[before:]
        assert len(table) == len(plain)


def test_a_table_grows_and_keys_that_want_one_place_all_find_one() -> None:
    keys = np.arange(1, 20_001, dtype=np.uint64)  # their first bits, which choose the place, are the same
    table = KeyTable()
    for _ in range(2):
        assert np.array_equal(table.number(keys[:300])[0], np.arange(300))
    last = np.concatenate((~keys[:300], mix(keys), keys[:300]))
    assert np.array_equal(table.number(last)[0], [*range(300, 20_600), *range(300)])


@pytest.mark.parametrize("keys", ["_word_keys", "_row_keys"])
@pytest.mark.parametrize("bits", [0, 2])
def test_two_of_one_key_are_told_apart(keys: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    good, seeds = getattr(numbering, keys), list[int]()

    def weak(*given: object) -> np.ndarray:
        seed = cast(int, given[-1])
        seeds.append(seed)
        return good(*given) if seed > 1 else good(*given) % np.uint64(2**bits) + np.uint64(1)

    monkeypatch.setattr(numbering, keys, weak)
    pairs = [(f"query {k} {LONG}{k}", f"one two {LONG * 2}{k % 7} {LONG * 40}{k % 7}", 1.0) for k in range(40)]
    assert_same(dataset.prepare(log_of(pairs), 3, 1000), plainly_prepared(log_of(pairs), 3, 1000, None))
    assert {0, 1, 2} == set(seeds)


@pytest.mark.parametrize("length", [8, 9, 16, 17, 256, 257, 300])
def test_words_of_one_key_are_refused(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "_word_keys", lambda found, *_: np.full(len(found.starts), 7, np.uint64))
    word = LONG * (length // 8) + LONG[: length % 8]
    assert WordTable().read([word, word]).values.tolist() == [0, 0]
    others = [
        word + "x",
        *(word[:at] + "Z" + word[at + 1 :] for at in range(length if length > 8 else 0)),
    ]  # shorter ones cannot have one key
    for other in others:
        with pytest.raises(numbering.CollisionError):
            WordTable().read([word, other])


def test_short_words_have_keys_of_their_own() -> None:
    words = [word for size in (1, 2, 3) for word in map("".join, itertools.product("ab\0\x01\x7f", repeat=size))]
    words += [LONG[:size] for size in range(4, 8)] + [LONG[:size] + "\0" for size in range(4, 7)]
    found = numbering._find_words(numbering._as_bytes([" ".join(words)]))
    limbs = numbering._limbs(found)
    keys = numbering._word_keys(found, limbs, 0)
    assert len(found.starts) == len(words) == len(set(keys.tolist()))
    assert (keys == numbering._word_keys(found, limbs, 1)).all()


def test_rows_of_one_key_are_refused_and_equal_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "_row_keys", lambda rows, seed: np.ones(len(rows.lengths), np.uint64))
    assert number_rows(ragged([[1, 2], [1, 2]]), 0).numbers.tolist() == [0, 0]
    for other in ([1], [1, 3], [1, 2, 3], []):
        with pytest.raises(numbering.CollisionError):
            number_rows(ragged([[1, 2], other]), 0)
