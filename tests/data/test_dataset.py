"""Preparing a click log: the arrays equal those of a plain version with dicts, whatever the texts are."""

import itertools
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clickvec.data import BadLines, ClickLog, Judged, JudgedQuery, dataset
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.text import counting, numbering, spellings
from clickvec.text.keytable import KeyTable, mix, repeats
from clickvec.text.numbering import number_rows, number_texts
from clickvec.text.ragged import Ragged, ragged
from clickvec.text.spellings import CollisionError
from clickvec.text.tokens import canonical, split_tokens, split_words
from clickvec.text.trigrams import Vocabulary
from clickvec.text.wordtable import WordTable

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
    tokens = dict[str, int]()
    rows = [[[tokens.setdefault(token, len(tokens)) for token in split_tokens(text, max_words)] for text in texts]
            for texts in (queries, titles)]  # fmt: skip
    names = list(queries), list(titles)
    vocabulary = Vocabulary.count((names[side][pair[side]] for pair in pairs for side in (0, 1)), max_trigrams)
    return Dataset(
        vocabulary.trigrams, max_words, ragged(map(vocabulary.ids, tokens)), ragged(rows[0]), ragged(rows[1]),
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
    dataset.check(found)
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
        patch.setattr(counting, "_BUCKETS", 2 * block)
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


ODD_LETTERS = st.sampled_from(
    [*"aBHI\n \t\x1c\x85\u00a0\u1680\u2028\u2029\u3000", "\u0301", "\u0307", "\u0331", "\u0345", "\u0130", "ı", "Σ",
     "σ", "ς", "ß", "ẞ", "\u1100", "\u1161", "\u11a8", "각", "\u09c7", "\u09be", "\u00a8", "\u00b4", "Ǆ", "ﷺ", "\ud800",
     "\udc00", "'", "\u00ad", "К", "Å", "上", "\U0001d400", "\U00010400"]
)  # fmt: skip


@settings(max_examples=500)
@given(st.lists(st.text(ODD_LETTERS | st.characters(), max_size=8), max_size=8), st.integers(1, 4))
@example(["\u0301e", "a", "\u0301"], 2)  # a mark at the start stays apart from the text before
@example(["ΑΣ", "α Σ", "ΑΣ\n\u0301Α", "ΑΣ\u0301Α"], 1)  # a sigma is final or not by its own word
@example(["\u2028", "0\u20280"], 1)  # no word, and two of them
@example(["\u1100", "\u1161", "\u1100\u1161", "가"], 1)
@example(["Ａ", "a", "É", "e\u0301", "é", "It´s", "it", "\u0301s"], 3)
def test_words_are_normalised_as_texts_are(texts: list[str], block: int) -> None:
    words, rows = WordTable(), list[list[str]]()
    for at in range(0, len(texts), block):
        found = words.read(texts[at : at + block])
        spelled = words.text().split("\n")
        rows += [[spelled[k] for k in row] for row in np.split(found.values, found.offsets[1:-1])]
    assert [" ".join(row) for row in rows] == [canonical(text) for text in texts]
    spelled = words.text().split("\n")
    assert len(words) == len(set(spelled[:-1])) == len(spelled) - 1
    assert "".join(words.text(k, k + 1) for k in range(len(words))) == words.text()


def test_marks_on_capitals_are_as_on_small_letters() -> None:
    # ASCII is in lower case before NFKC here, and after it in `normalise`.
    marks = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    for letters in ("ABCDEFGHIJKLM", "NOPQRSTUVWXYZ"):
        texts = [letter + mark + other for letter in letters for mark in marks for other in ("", "\u0323", "\u0302")]
        words = WordTable()
        found = words.read(texts)
        spelled = words.text().split("\n")
        assert np.array_equal(found.offsets, np.arange(len(texts) + 1))
        assert [spelled[k] for k in found.values.tolist()] == [canonical(text) for text in texts]


def test_texts_that_come_again_are_read_once() -> None:
    texts = [f"Été {k % 50}" for k in range(1000)]
    different, places = numbering._letter_by_letter(texts)
    assert list(different) == texts[:50]
    assert [different[place] for place in places] == texts
    numbers, distinct = number_texts(texts, WordTable())
    assert numbers.tolist() == [k % 50 for k in range(1000)]
    assert len(distinct.lengths) == 50


@given(st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 6), max_size=80))
def test_repeats_have_their_first_place(keys: list[int]) -> None:
    again, first = repeats(np.array(keys, np.uint64))
    assert list(zip(again.tolist(), first.tolist(), strict=True)) == [
        (place, keys.index(key)) for place, key in enumerate(keys) if keys.index(key) < place
    ]


@settings(max_examples=60)
@given(
    st.lists(st.text("上海酒店", min_size=1, max_size=6), min_size=1, max_size=30),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_trigrams_in_buckets_are_counted_as_all_are(words: list[str], limit: int, bits: int) -> None:
    pairs = [(word, other, 1.0) for word, other in zip(words, reversed(words), strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_FEW", 1)
        patch.setattr(counting, "_BUCKETS", bits)  # so few that frequent trigrams share them with rare ones
        patch.setattr(counting, "_WORDS", 3)
        found = dataset.prepare(log_of(pairs), 10, limit)
    assert_same(found, plainly_prepared(log_of(pairs), 10, limit, None))


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


@pytest.mark.parametrize(("module", "keys"), [(spellings, "_word_keys"), (numbering, "_row_keys")])
@pytest.mark.parametrize("bits", [0, 2])
def test_two_of_one_key_are_told_apart(
    module: ModuleType, keys: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, seeds = getattr(module, keys), list[int]()

    def weak(*given: object) -> np.ndarray:
        seed = cast(int, given[-1])
        seeds.append(seed)
        return good(*given) if seed > 1 else good(*given) % np.uint64(2**bits) + np.uint64(1)

    monkeypatch.setattr(module, keys, weak)
    pairs = [(f"query {k} {LONG}{k}", f"one two {LONG * 2}{k % 7} {LONG * 40}{k % 7}", 1.0) for k in range(40)]
    assert_same(dataset.prepare(log_of(pairs), 3, 1000), plainly_prepared(log_of(pairs), 3, 1000, None))
    assert {0, 1, 2} == set(seeds)


@pytest.mark.parametrize("length", [8, 9, 16, 17, 256, 257, 300])
def test_words_of_one_key_are_refused(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spellings, "_word_keys", lambda found, *_: np.full(len(found.starts), 7, np.uint64))
    word = LONG * (length // 8) + LONG[: length % 8]
    assert WordTable().read([word, word]).values.tolist() == [0, 0]
    others = [
        word + "x",
        *(word[:at] + "Z" + word[at + 1 :] for at in range(length if length > 8 else 0)),
    ]  # shorter ones cannot have one key
    for other in others:
        with pytest.raises(CollisionError):
            WordTable().read([word, other])


def test_short_words_have_keys_of_their_own() -> None:
    words = [word for size in (1, 2, 3) for word in map("".join, itertools.product("ab\0\x01\x7f", repeat=size))]
    words += [LONG[:size] for size in range(4, 8)] + [LONG[:size] + "\0" for size in range(4, 7)]
    found = spellings.find_words(spellings.as_bytes([" ".join(words)]))
    limbs = spellings._limbs(found)
    keys = spellings._word_keys(found, limbs, 0)
    assert len(found.starts) == len(words) == len(set(keys.tolist()))
    assert (keys == spellings._word_keys(found, limbs, 1)).all()


def test_rows_of_one_key_are_refused_and_equal_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "_row_keys", lambda rows, seed: np.ones(len(rows.lengths), np.uint64))
    assert number_rows(ragged([[1, 2], [1, 2]]), 0).numbers.tolist() == [0, 0]
    for other in ([1], [1, 3], [1, 2, 3], []):
        with pytest.raises(CollisionError):
            number_rows(ragged([[1, 2], other]), 0)


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
    with pytest.raises(ClickvecError, match=f"damaged: {name} holds numbers that lead nowhere"):
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
        with pytest.raises(ClickvecError, match=f"damaged: {next(iter(wrong))} holds numbers that lead nowhere"):
            dataset.check(data._replace(**wrong))  # type: ignore[arg-type]
    with pytest.raises(ClickvecError, match="damaged: tokens holds numbers"):
        dataset.check(data._replace(trigrams=data.trigrams[:-1]))
