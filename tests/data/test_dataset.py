"""Preparing a click log: the arrays equal those of a plain version with dicts, whatever the texts are."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickvec.data import BadLines, ClickLog, Judged, JudgedQuery, dataset
from clickvec.data import pairs as pairs_module
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.native import words
from clickvec.text import trigrams
from clickvec.text.ragged import Ragged, ragged
from clickvec.text.tokens import canonical, split_tokens
from clickvec.text.trigrams import Vocabulary

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


def plainly_prepared(
    log: ClickLog, max_words: int, max_trigrams: int, shown: Judged | None, catalogue: Sequence[str] = (),
    whole_words: bool = False,
) -> Dataset:  # fmt: skip
    queries, titles, clicks = dict[str, int](), dict[str, int](), dict[tuple[int, int], float]()
    for query, title, count in zip(log.queries, log.titles, log.clicks.tolist(), strict=True):
        key = queries.setdefault(canonical(query), len(queries)), titles.setdefault(canonical(title), len(titles))
        clicks[key] = clicks.get(key, 0.0) + count
    clicked_titles, pairs = len(titles), sorted(clicks)
    passed = plainly_passed_over(shown, queries, titles) - set(clicks) if shown else set()
    tokens, others = dict[str, int](), len(titles)
    for title in catalogue:
        titles.setdefault(canonical(title), len(titles))
    rows = [[[tokens.setdefault(token, len(tokens)) for token in split_tokens(text, max_words)] for text in texts]
            for texts in (queries, titles)]  # fmt: skip
    names = list(queries), list(titles)
    counts = Counter(
        trigram for pair in pairs for side in (0, 1) for trigram in trigrams.trigrams(names[side][pair[side]])
    )
    counts.update(trigram for title in names[1][others:] for trigram in trigrams.trigrams(title))
    if whole_words:
        texts = [names[side][pair[side]] for pair in pairs for side in (0, 1)] + names[1][others:]
        words = Counter(token for text in texts for token in split_tokens(text, max_words) if " " not in token)
        counts.update({f"#{word}#": n for word, n in words.items() if n >= trigrams.LEAST_TIMES and len(word) > 1})
    vocabulary = Vocabulary(sorted(counts, key=lambda trigram: (-counts[trigram], trigram))[:max_trigrams])
    return Dataset(
        vocabulary.trigrams, max_words, ragged(map(vocabulary.ids, tokens)), ragged(rows[0]), ragged(rows[1]),
        clicked_titles, np.array([q for q, _ in pairs], np.int32), np.array([t for _, t in pairs], np.int32),
        np.array([clicks[pair] for pair in pairs], np.float32),
        ragged([t for q, t in pairs if q == row] for row in range(len(queries))),
        ragged([t for q, t in sorted(passed) if q == row] for row in range(len(queries))),
        catalogue_titles=len(titles) - others, whole_words=whole_words,
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
    dataset.check(found)
    for name, one, other in zip(Dataset._fields, found, expected, strict=True):
        for mine, theirs in zip(*((x if isinstance(x, Ragged) else [x]) for x in (one, other)), strict=True):
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "_TEXTS_AT_ONCE", size)
        patch.setattr(pairs_module, "_TEXTS_AT_ONCE", size)
        patch.setattr(trigrams, "_TOKENS_AT_ONCE", size)
        patch.setattr(trigrams, "_PENDING", size)
        yield


@contextmanager
def without_c() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "functions", lambda: None)
        yield


@settings(max_examples=300)
@given(PAIRS, st.integers(1, 12), st.sampled_from([1, 5, 1000]), st.integers(1, 5))
@example([("a b c d", "b c d", 1.0), ("b c d", "x b c d", 1.0), ("b", "", 2.0)], 2, 1000, 1)
@example([], 10, 50, 1)
def test_prepared_as_plainly(
    pairs: list[tuple[str, str, float]], max_words: int, max_trigrams: int, block: int
) -> None:
    expected = plainly_prepared(log_of(pairs), max_words, max_trigrams, None)
    with small_blocks(block):
        assert_same(dataset.prepare(log_of(pairs), max_words, max_trigrams), expected)
        with without_c():
            assert_same(dataset.prepare(log_of(pairs), max_words, max_trigrams), expected)


@given(PAIRS, st.integers(1, 12), st.sampled_from([5, 1000]), st.integers(1, 5), st.lists(TEXTS, max_size=4))
def test_whole_words_as_plainly(
    pairs: list[tuple[str, str, float]], max_words: int, max_trigrams: int, block: int, catalogue: list[str]
) -> None:
    with small_blocks(block), pytest.MonkeyPatch.context() as patch:
        patch.setattr(trigrams, "LEAST_TIMES", 2)
        expected = plainly_prepared(log_of(pairs), max_words, max_trigrams, None, catalogue, whole_words=True)
        found = dataset.prepare(log_of(pairs), max_words, max_trigrams, catalogue=catalogue, whole_words=True)
        assert_same(found, expected)


def test_a_log_of_thousands_of_letters() -> None:
    pairs = [("".join(map(chr, range(at, at + 40))), f"{chr(at)} b", 1.0) for at in range(0x4E00, 0x5E00, 10)]
    assert_same(dataset.prepare(log_of(pairs), 10, 5000), plainly_prepared(log_of(pairs), 10, 5000, None))


FEW = st.sampled_from(["a", "A ", "b", "a b", "b  a", "c d e", "x", ""])


@settings(max_examples=300)
@given(
    st.lists(st.tuples(FEW, FEW, st.just(1.0)), max_size=8),
    st.lists(st.tuples(FEW | TEXTS, st.lists(st.tuples(FEW | TEXTS, st.integers(0, 2)), max_size=6)), max_size=5),
    st.integers(1, 4),
    st.lists(FEW | TEXTS, max_size=6),
)
def test_what_was_shown_and_the_catalogue_are_prepared_as_plainly(
    pairs: list[tuple[str, str, float]],
    judged: list[tuple[str, list[tuple[str, int]]]],
    max_words: int,
    catalogue: list[str],
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
    expected = plainly_prepared(log_of(pairs), max_words, 1000, shown, catalogue)
    assert_same(dataset.prepare(log_of(pairs), max_words, 1000, shown, catalogue), expected)
    with without_c():
        assert_same(dataset.prepare(log_of(pairs), max_words, 1000, shown, iter(catalogue)), expected)


def test_a_catalogue_title_counts_once_for_the_trigrams() -> None:
    log = log_of([("ab", "ab", 9.0)])
    found = dataset.prepare(log, 10, 4, catalogue=["xy", "xy xy", "AB", "xy"])
    assert found.catalogue_titles == 2  # "AB" is clicked
    assert set(found.trigrams) == {"#ab", "ab#", "#xy", "xy#"}
    assert len(found.titles.offsets) - 1 == 3
    assert dataset.describe(found)["catalogue"] == 2
    assert "catalogue" not in dataset.describe(dataset.prepare(log, 10, 4))
    with pytest.raises(ClickvecError, match="clicked has values out of range"):
        dataset.check(found._replace(catalogue_titles=3))


@settings(max_examples=60)
@given(
    st.lists(st.text("上海酒店", min_size=1, max_size=6), min_size=1, max_size=30),
    st.integers(1, 12),
)
def test_the_most_frequent_trigrams_are_kept(words: list[str], limit: int) -> None:
    pairs = [(word, other, 1.0) for word, other in zip(words, reversed(words), strict=True)]
    with small_blocks(3):
        found = dataset.prepare(log_of(pairs), 10, limit)
    assert_same(found, plainly_prepared(log_of(pairs), 10, limit, None))


# --- damaged data ------------------------------------------------------------------------------------------------


def changed(rows: Ragged, values: int = 0, offsets: int = 0) -> Ragged:
    """Rows with another last value, or another offset in the middle."""
    changed = Ragged(rows.values.copy(), rows.offsets.copy())
    changed.values[-1] += values
    changed.offsets[len(rows.offsets) // 2] += offsets
    return changed


@pytest.mark.parametrize("name", ["tokens", "queries", "titles", "clicked"])
@pytest.mark.parametrize(
    "change", [{"values": 1000}, {"values": -1000}, {"offsets": 1000}, {"offsets": -1000}], ids=str
)
def test_numbers_that_lead_outside_are_refused(name: str, change: dict[str, int]) -> None:
    data = dataset.prepare(log_of([("a b", "b c", 1.0), ("c", "d e", 2.0), ("e f", "b c", 1.0)]), 10, 50)
    dataset.check(data)
    with pytest.raises(ClickvecError, match=f"damaged: {name} .* prepare"):
        dataset.check(data._replace(**{name: changed(getattr(data, name), **change)}))


def test_columns_that_do_not_fit_are_refused() -> None:
    data = dataset.prepare(log_of([("a b", "b c", 1.0), ("c", "d e", 2.0)]), 10, 50)
    for wrong in (
        {"tokens": Ragged(data.tokens.values[:-1], data.tokens.offsets)},
        {"shown": Ragged(data.shown.values, data.shown.offsets[:-1])},
        {"pair_query": data.pair_query + 2},
        {"pair_title": data.pair_title[:-1]},
        {"clicked_titles": 3},
    ):
        with pytest.raises(ClickvecError, match=f"damaged: {next(iter(wrong))} .* prepare"):
            dataset.check(data._replace(**wrong))  # type: ignore[arg-type]
    with pytest.raises(ClickvecError, match="damaged: tokens"):
        dataset.check(data._replace(trigrams=data.trigrams[:-1]))
