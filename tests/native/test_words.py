"""The table of tokens in C and the one in Python: the same ids for the same texts, whatever is in them."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import TEXTS, tiny

from clickvec.model import encoder as encoder_module
from clickvec.model import fast
from clickvec.model.encoder import Encoder
from clickvec.native import words
from clickvec.native.words import CompiledTokenTable
from clickvec.text.token_table import TokenTable

is_compiled = pytest.mark.skipif(words.functions() is None, reason="words.c is not compiled, or is turned off")

WHITE = "".join(chr(code) for code in range(0x110000) if chr(code).isspace())
ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates too
NEAR = st.text(st.sampled_from(WHITE + "aAbBzZ09#-\0\x7f\x80éÉßİſﬁ①ＡΣςσ日本\ud800\udc00\U0001f600"))
ASCII = st.text(st.sampled_from("abAB \t\n\0\x1c#"))


def in_c(max_words: int = 10) -> CompiledTokenTable:
    table = words.token_table(max_words)
    assert isinstance(table, CompiledTokenTable)
    return table


def same(python: TokenTable, c: CompiledTokenTable, texts: list[str]) -> None:
    """Both read the texts, and are the same after it."""
    expected, found = python.read(texts), c.read(texts)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    assert (found.values.dtype, found.offsets.dtype) == (np.int32, np.int64)
    assert len(c) == len(python)
    assert c[:] == python[:]


ODD_LETTERS = st.sampled_from(
    [*"aBHI\n \t\x1c\x85\u00a0\u1680\u2028\u2029\u3000", "\u0301", "\u0307", "\u0331", "\u0345", "\u0130", "ı", "Σ",
     "σ", "ς", "ß", "ẞ", "\u1100", "\u1161", "\u11a8", "각", "\u09c7", "\u09be", "\u00a8", "\u00b4", "Ǆ", "ﷺ", "\ud800",
     "\udc00", "'", "\u00ad", "К", "Å", "上", "\U0001d400", "\U00010400"]
)  # fmt: skip


@is_compiled
@settings(max_examples=500)
@given(st.lists(st.text(ODD_LETTERS | st.characters(), max_size=8), max_size=8))
@example(["\u0301e", "a", "\u0301"])  # a mark at the start stays apart from the text before
@example(["ΑΣ", "α Σ", "ΑΣ\n\u0301Α", "ΑΣ\u0301Α"])  # a sigma is final or not by its own word
@example(["\u2028", "0\u20280"])  # no word, and two of them
@example(["\u1100", "\u1161", "\u1100\u1161", "가"])
@example(["Ａ", "a", "É", "e\u0301", "é", "It´s", "it", "\u0301s"])
def test_texts_are_normalised_together_as_one_by_one(texts: list[str]) -> None:
    same(TokenTable(0), in_c(0), texts)
    same(TokenTable(3), in_c(3), texts)


@is_compiled
@given(st.lists(st.lists(ANY | NEAR | ASCII, max_size=6), max_size=4), st.integers(1, 5))
def test_distinct_texts_and_their_tokens(batches: list[list[str]], max_words: int) -> None:
    python, c = (TokenTable(0), TokenTable(max_words)), (in_c(0), in_c(max_words))
    for texts in batches:
        known = len(c[0])
        same(python[0], c[0], texts)
        expected, found = python[1].read_table(python[0], known), c[1].read_table(c[0], known)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.offsets, expected.offsets)
    assert c[1][:] == python[1][:]


@is_compiled
@given(st.lists(st.lists(ANY | NEAR | ASCII, max_size=6), max_size=4), st.integers(1, 5))
def test_any_texts_have_the_ids_that_python_gives(batches: list[list[str]], max_words: int) -> None:
    python, c = TokenTable(max_words), in_c(max_words)
    for texts in batches:
        same(python, c, texts)
        for text in texts:
            assert c.read_one(text) == python.read_one(text)
            assert c.read_one(f"{text} {text}x") == python.read_one(f"{text} {text}x")  # some that are new to it
            same(python, c, [text])
    for first in range(len(python) + 2):
        assert c[first:] == python[first:]


@is_compiled
@pytest.mark.parametrize("space", WHITE)
def test_every_white_space_parts_words(space: str) -> None:
    same(TokenTable(3), in_c(3), [f"{space}One{space}two{space}{space}three{space}FOUR{space}", "one two", space, ""])
    assert in_c().read_one(f"one{space}two") == [0, 1]


@is_compiled
def test_by_hand() -> None:
    table = in_c(3)
    found = table.read(["Hotels in\tShanghai", "", "in new  YORK\x1fcity", "line\nfeed", "new york  CITY"])
    assert found.values.tolist() == [0, 1, 2, 1, 3, 4, 5, 6, 3, 7, 8]
    assert found.offsets.tolist() == [0, 3, 3, 6, 8, 11]
    assert table[:] == ["hotels", "in", "shanghai", "new", "york city", "line", "feed", "york", "city"]
    assert table.read_one("york city york  city") == [7, 8, 4]
    assert table.read([]).offsets.tolist() == [0]


@is_compiled
def test_many_words_and_long_ones() -> None:
    python, c = TokenTable(10), in_c(10)
    some = [f"w{number * 7919 % 70_001} {number}" for number in range(60_000)]
    same(python, c, some)
    same(python, c, [*some[::-1], "x" * 1_000_000, "word " * 100_000, "X" * 999_999, "é" * 100_000, "Word\n" * 100_000])


@is_compiled
@pytest.mark.parametrize("max_words", [words._IDS_OF_ONE, words._IDS_OF_ONE + 1, 10**12])
def test_room_for_one_text_does_not_grow_with_the_most_words_that_it_may_have(max_words: int) -> None:
    python, c = TokenTable(max_words), in_c(max_words)
    for count in (1, words._IDS_OF_ONE - 1, words._IDS_OF_ONE, words._IDS_OF_ONE + 1, 5000):
        for text in ("a " * count, " ".join(f"w{number}" for number in range(count)), "é " * count):
            assert c.read_one(text) == python.read_one(text)
            assert c.read_one(text.strip()) == python.read_one(text.strip())
    assert c[:] == python[:]


@is_compiled
def test_words_of_the_same_hash_are_told_apart() -> None:
    found = words.functions()
    assert found is not None
    python, c = TokenTable(10), CompiledTokenTable(10, found._replace(new=lambda _: found.new(0)))
    assert c.read_one("\0") == [0]  # of the seed 0, this hash is 0 for any number of these
    same(python, c, ["\0", "\0\0", "\0\0\0 a \0\0", "a\0 a \0a"])


# --- memory --------------------------------------------------------------------------------------------------------


@is_compiled
def test_a_table_is_freed_once() -> None:
    found = words.functions()
    assert found is not None
    freed: list[int] = []
    table = CompiledTokenTable(10, found._replace(free=freed.append))
    handle = table._handle
    table.read(TEXTS)
    del table
    assert freed == [handle]
    found.free(handle)


@is_compiled
def test_without_memory_it_says_so_and_an_encoder_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = words.functions()
    assert found is not None
    with pytest.raises(MemoryError):
        CompiledTokenTable(10, found._replace(new=lambda _: None))
    expected, results = Encoder(tiny("lstm")).encode_query(TEXTS), [-1]

    def read(*call: object) -> int:
        return results.pop() if found.read(*call) and results else found.read(*call)

    monkeypatch.setattr(words, "functions", lambda: found._replace(read=read))
    encoder = Encoder(tiny("lstm"))
    with pytest.raises(MemoryError):
        encoder.encode_query(TEXTS)
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), expected)


# --- in an encoder -------------------------------------------------------------------------------------------------


@pytest.fixture(params=[pytest.param("C", marks=is_compiled), "Python"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], object]:
    """What encoders keep their tokens in."""
    made: Callable[[int], object] = TokenTable if request.param == "Python" else words.token_table
    monkeypatch.setattr(encoder_module, "token_table", made)
    return made


def test_vectors_are_the_same_to_the_last_bit(table: Callable[[int], object], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "", "Zürich  Hotels", "a\nb", "word " * 25, "hotels in shanghai"]
    encoder = Encoder(tiny("bilstm"))
    found = encoder.encode_document(texts)
    one = [encoder.encode_document(text) for text in texts]
    assert type(encoder._title._tokens) is type(table(10))
    monkeypatch.setattr(encoder_module, "token_table", TokenTable)
    other = Encoder(tiny("bilstm"))
    np.testing.assert_array_equal(other.encode_document(texts), found)
    np.testing.assert_array_equal([other.encode_document(text) for text in texts], one)


@pytest.mark.usefixtures("table")
def test_threads_may_share_an_encoder_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [[f"{TEXTS[k % 8]} {k} é{n}" for k in range(n, n + 20)] for n in range(40)]
    large = Encoder(tiny("lstm"))
    expected = [large.encode_query(batch) for batch in batches]
    monkeypatch.setattr(encoder_module, "CACHE_BYTES", 4 * 3 * 7 * 40)
    small = Encoder(tiny("lstm"))

    def encode(number: int) -> np.ndarray:
        batch = batches[number]
        return small.encode_query(batch) if number % 3 else np.stack([small.encode_query(text) for text in batch])

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(encode, range(len(batches))))
    finally:
        sys.setswitchinterval(before)
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=0, atol=1e-6)
    assert len(small._query._tokens) < 100 < len(large._query._tokens)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("where", ["read", "write_rows", "rows"])
def test_ctrl_c_leaves_no_token_without_its_row(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Encoder(tiny("lstm")).encode_query(TEXTS)
    encoder = Encoder(tiny("lstm"))
    encoder.encode_query(TEXTS[:3])
    tokens = type(encoder._query._tokens)
    holder: type = {"read": tokens, "write_rows": fast.FastTower, "rows": encoder_module.Vocabulary}[where]
    as_it_was = getattr(holder, where)

    def interrupt(*call: object) -> None:
        as_it_was(*call)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(holder, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            encoder.encode_query(TEXTS)
    assert len(encoder._query._tokens) == len(encoder._query._known) == 0
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), expected)
