"""The index: search with promised order, folders that open by themselves, and refusals in one sentence."""

import copy
import errno
import pickle
import resource
import shutil
import signal
import stat
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.data import Title
from clickvec.errors import ClickvecError
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.search.index import Document, Hit, Index
from clickvec.search.live import live_folder
from clickvec.search.parts import MODES
from clickvec.search.segments import building
from clickvec.search.vectors import exact
from clickvec.storage import files

FILES = ("documents.sqlite", "index.json", "models", "segments")
VECTORS = "vectors"
TITLES = [*TEXTS, "", "hotels in new york", "paint"]
PAYLOADS = [
    None,
    "https://a.example/上海",
    7,
    0.5,
    True,
    [1, ["x"]],
    {"url": "u", "n": {"m": None}},
    "",
    [],
    {},
    "line\n",
]


@pytest.fixture
def index(encoder: Encoder) -> Index:
    return Index.build(encoder, TITLES)


@pytest.fixture
def saved(index: Index, tmp_path: Path) -> Path:
    index.save(tmp_path / "index")
    return tmp_path / "index"


def contents(path: Path) -> dict[str, bytes]:
    found = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("documents.sqlite-"))
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def by_hand(encoder: Encoder, query: str, titles: list[str], k: int) -> list[tuple[str, float]]:
    """(id, score) by definition: the cosine to every title that has a vector, the best first, equal ones as put in."""
    vectors = encoder.encode_document(titles).astype(np.float64)
    scores = (vectors * encoder.encode_query(query)).sum(axis=1).astype(np.float32)
    order = sorted((i for i in range(len(titles)) if vectors[i].any()), key=lambda i: (-scores[i], i))
    return [(str(i), float(scores[i])) for i in order[:k]]


# --- searching ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
@pytest.mark.parametrize("shared_tower", [False, True])
def test_search_is_exact(fields: dict[str, Any], shared_tower: bool) -> None:
    encoder = Encoder(tiny(shared_tower=shared_tower, **fields))
    index = Index.build(encoder, TITLES)
    for query in TEXTS:
        hits = index.search(query, k=4, mode=VECTORS)
        expected = by_hand(encoder, query, TITLES, 4)
        assert [hit.id for hit in hits] == [number for number, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], atol=1e-6)
        assert [hit.title for hit in hits] == [TITLES[int(hit.id)] for hit in hits]


def test_a_hit_is_plain_values(index: Index) -> None:
    hit = index.search("hotels", k=1)[0]
    assert isinstance(hit, Hit)
    assert hit == (hit.id, hit.title, hit.score, hit.parts, hit.payload)
    assert [type(value) for value in hit] == [str, str, float, dict, type(None)]
    assert [type(value) for value in hit.parts.values()] == [float, float]
    assert hit._fields == ("id", "title", "score", "parts", "payload")


def test_one_query_gives_hits_and_many_give_a_list_for_each(index: Index) -> None:
    assert len(index.search("hotels")) == 10
    together = index.search(list(TEXTS), k=3)
    assert [[hit.id for hit in hits] for hits in together] == [
        [hit.id for hit in index.search(text, k=3)] for text in TEXTS
    ]
    assert index.search((text for text in TEXTS), k=3) == together
    assert index.search(["hotels"], k=2) == [index.search("hotels", k=2)]
    assert index.search([]) == []


@pytest.mark.parametrize("k", [len(TITLES), len(TITLES) + 1, 10**9])
def test_a_large_k_gives_all_of_it(index: Index, k: int) -> None:
    hits = index.search("hotels", k=k, mode=VECTORS)
    assert sorted(int(hit.id) for hit in hits) == [at for at, title in enumerate(TITLES) if title]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("k", [0, -1])
def test_k_is_at_least_1(index: Index, k: int) -> None:
    for query in ("hotels", ["hotels"], []):
        with pytest.raises(ClickvecError, match=f"k is {k}"):
            index.search(query, k=k)


def test_a_query_without_words_finds_nothing(index: Index) -> None:
    assert index.search("") == []
    assert index.search("", k=10**6) == []
    assert [len(hits) for hits in index.search([" \t", "hotels", "\u3000"], k=2)] == [0, 2, 0]


def test_an_empty_index_finds_nothing(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, [])
    index.save(tmp_path / "index")
    for one in (index, Index.open(tmp_path / "index")):
        assert len(one) == 0
        assert list(one) == []
        assert one.search("hotels") == []
        assert one.search(["hotels", "x"]) == [[], []]


def test_equal_titles_score_the_same_and_stand_in_order(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    titles = [TEXTS[i * i % 5] if i % 3 else f"filler {i}" for i in range(700)]
    titles[500] = "  Hotels\tIN shanghai"  # the same words
    titles[501] = "hotels in shanghai"
    for block in (16_384, 64, 7):
        monkeypatch.setattr(exact, "BLOCK_TITLES", block)
        index = Index.build(encoder, titles)
        for query in ("hotels in shanghai", "paint a bathtub", "new york"):
            for k in (1, 5, 50, 699, 700):
                hits = index.search(query, k, mode=VECTORS)
                assert len(hits) == k
                assert [(-hit.score, int(hit.id)) for hit in hits] == sorted((-hit.score, int(hit.id)) for hit in hits)
                score = {}
                for hit in hits:
                    assert score.setdefault(" ".join(hit.title.lower().split()), hit.score) == hit.score
            everything = index.search(query, 700, mode=VECTORS)
            for k in (1, 5, 50, 699):
                assert index.search(query, k, mode=VECTORS) == everything[:k]


@pytest.mark.parametrize("block", [1, 3, 100])
def test_vectors_never_find_titles_without_one(encoder: Encoder, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would score 0, and so stand above all that score less."""
    titles = ["", *TEXTS, "ЖЖЖ", "hotels", " "]
    monkeypatch.setattr(exact, "BLOCK_TITLES", block)
    index, without = Index.build(encoder, titles), Index.build(encoder, [*TEXTS, "hotels"])
    assert index.unreachable == 3
    lowest = []
    for query in TEXTS:
        found, expected = (one.search(query, k=100, mode=VECTORS) for one in (index, without))
        assert [hit.title for hit in found] == [hit.title for hit in expected]
        assert index.search(query, k=5, mode=VECTORS) == found[:5]
        assert [rank_of(index, query, hit.id) for hit in found] == list(range(1, len(found) + 1))
        assert [rank_of(index, query, place) for place in (0, len(titles) - 1)] == [None, None]
        assert index.rank(query, "new york hotels", VECTORS) == without.rank(query, "new york hotels", VECTORS)
        lowest.append(found[-1].score)
    assert min(lowest) < 0
    assert Index.build(encoder, ["", "ЖЖЖ"]).search("hotels") == []


def test_words_find_titles_without_a_vector(encoder: Encoder) -> None:
    index = Index.build(encoder, ["hotels", "ЖЖЖ", "жжж щщщ", ""])
    for mode in ("hybrid", "words"):
        hits = index.search("Жжж", mode=mode)
        assert [hit.title for hit in hits] == ["ЖЖЖ", "жжж щщщ"]
        assert [hit.parts["cosine"] for hit in hits] == [0, 0]
        assert hits[0].score > hits[1].score > 0
        assert [rank_of(index, "Жжж", place, mode) for place in range(4)] == [None, 1, 2, None]
    assert index.search("Жжж", mode=VECTORS) == []
    assert {hit.title for hit in index.search("hotels жжж")} == {"hotels", "ЖЖЖ", "жжж щщщ"}


# --- ranking one title -------------------------------------------------------------------------------------------


def rank_of(index: Index, query: str, doc_id: str | int, mode: str = VECTORS) -> int | None:
    document = index.get(doc_id)
    assert document is not None
    return index.rank(query, document, mode)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    titles=st.lists(st.text(max_size=8) | st.sampled_from(TITLES), max_size=30),
    block=st.integers(1, 12),
    mode=st.sampled_from(MODES),
)
@example(titles=["shanghai hotels accommodation hotel in shanghai discount and reservation"], block=1, mode="words")
def test_the_rank_of_each_title_is_its_place_among_all_hits(
    encoder: Encoder, titles: list[str], block: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many titles are equal here, and some have no vector."""
    index = Index.build(encoder, titles)
    with monkeypatch.context() as patch:
        patch.setattr(exact, "BLOCK_TITLES", block)
        for query in (*TEXTS, "hotels zzz"):
            hits = index.search(query, k=max(1, len(titles)), mode=mode)
            if mode == VECTORS:
                assert len(hits) == len(titles) - index.unreachable
            assert [rank_of(index, query, hit.id, mode) for hit in hits] == list(range(1, len(hits) + 1))
            others = {str(number) for number in range(len(titles))} - {hit.id for hit in hits}
            assert {rank_of(index, query, other, mode) for other in others} <= {None}
        assert {rank_of(index, "", place, mode) for place in range(len(titles))} <= {None}


def test_another_title_is_ranked_as_if_it_were_put_in_last(encoder: Encoder) -> None:
    titles = [TEXTS[i * i % 5] if i % 3 else f"filler {i}" for i in range(200)]
    index = Index.build(encoder, titles)
    hits = index.search(TEXTS[0], k=200, mode=VECTORS)
    for title in (TEXTS[0], TEXTS[4], "filler 3"):
        score = float(encoder.encode_document(title).astype(float) @ encoder.encode_query(TEXTS[0]))
        clear = [hit for hit in hits if abs(hit.score - score) > 1e-6]
        equal = len(hits) - len(clear)
        found = index.rank(TEXTS[0], title, VECTORS)
        assert found is not None
        above = sum(hit.score > score for hit in clear)
        assert found == 1 + above + equal or (equal and 1 + above <= found)
    assert index.rank(TEXTS[0], "zzz", VECTORS) is None
    assert index.rank(TEXTS[0], "", VECTORS) is None
    assert index.rank("zzz", TEXTS[0], VECTORS) is None
    assert Index.build(encoder, []).rank(TEXTS[0], "hotels", VECTORS) == 1
    for mode in MODES:
        for title in ("hotels in paris", "zzz hotels", "new york"):
            expected = rank_of(Index.build(encoder, [*titles, title]), TEXTS[0], len(titles), mode)
            if mode == VECTORS:  # in a larger index, words have other weights
                assert index.rank(TEXTS[0], title, mode) == expected
            assert (index.rank(TEXTS[0], title, mode) is None) == (expected is None)


def test_many_titles_are_ranked_as_search_ranks_them() -> None:
    """More titles than one block, many of them nearly equal: their places are those of the exact scores."""
    encoder = Encoder(tiny(cells=93))
    rng, query = np.random.default_rng(0), encoder.encode_query(TEXTS[0])
    vectors = query + 1e-7 * rng.normal(size=(20_000, 93)).astype(np.float32)
    vectors[::3] = vectors[0]
    index = Index.build(encoder, [str(number) for number in range(len(vectors))])
    index._live.view().segment.exact.vectors = vectors
    for place, hit in list(enumerate(index.search(TEXTS[0], k=len(vectors), mode=VECTORS), 1))[::997]:
        assert rank_of(index, TEXTS[0], hit.id) == place


def test_a_document_that_is_not_in_the_index_has_no_rank(index: Index) -> None:
    with pytest.raises(ClickvecError, match="no title with the id 'gone'"):
        index.rank("hotels", Document("gone", "hotels"))


def test_a_title_is_found_by_its_id_or_else_by_its_words(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = ["hotels", "two", "one", "Two ", "上海 酒店", "ЖЖЖ", "", "zzz qqq", "a"]
    ids = ["one", "b", 'quoted "id"', "\\", "上海", "\ud800", "0", "x", "t"]
    payloads = [{"id": "x", "title": "t"}, '{"id": "x", "title": ', *[None] * 7]
    index = Index.build(encoder, titles=titles, ids=ids, payloads=payloads)
    index.save(tmp_path / "index")
    monkeypatch.setattr(exact, "BLOCK_TITLES", 2)
    every = list(map(Document, ids, titles, payloads))
    for each in (index, Index.open(tmp_path / "index")):
        assert [each.find(name) for name in ids] == [each.get(name) for name in ids] == every
        assert each.get("hotels") is None
        for text, place in (("hotels", 0), (" TWO", 1), ("上海  酒店", 4), ("жжж", 5), ("ZZZ qqq", 7), (" ", 6)):
            assert each.find(text) == every[place]  # the first of those with these words
        assert each.find("qqq zzz") is None
        assert each.find("hotels in shanghai") is None
    assert Index.build(encoder, []).find("x") is None


def test_titles_of_the_same_words_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    encode = Encoder.encode_document

    def spy(self: Encoder, titles: list[str], **options: bool) -> np.ndarray:
        asked.extend(titles)
        return encode(self, titles, **options)

    monkeypatch.setattr(Encoder, "encode_document", spy)
    index = Index.build(Encoder(tiny()), ["New York", "b", "new  york", "b", "Ｂ"])
    assert asked == ["new york", "b"]
    assert [document.title for document in index] == ["New York", "b", "new  york", "b", "Ｂ"]
    vectors = index._live.view().segment.exact.vectors
    np.testing.assert_array_equal(vectors[[0, 1]][[0, 1, 0, 1, 1]], vectors)


def test_all_titles_equal(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "BLOCK_TITLES", 16)
    index = Index.build(encoder, ["hotels in shanghai"] * 100)
    hits = index.search("new york", k=7, mode=VECTORS)
    assert [hit.id for hit in hits] == list("0123456")
    assert len({hit.score for hit in hits}) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    titles=st.lists(st.text(max_size=8) | st.sampled_from(TITLES), max_size=30),
    k=st.integers(1, 40),
    blocks=st.tuples(st.integers(1, 5), st.integers(1, 12)),
)
def test_blocks_change_nothing(
    encoder: Encoder, titles: list[str], k: int, blocks: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.build(encoder, titles)
    queries = [*TEXTS, "", "hotels zzz"]
    whole = index.search(queries, k, mode=VECTORS)
    with monkeypatch.context() as patch:
        patch.setattr(exact, "BLOCK_QUERIES", blocks[0])
        patch.setattr(exact, "BLOCK_TITLES", blocks[1])
        assert index.search(queries, k, mode=VECTORS) == whole
    for query, hits in zip(queries, whole, strict=True):
        expected = by_hand(encoder, query, titles, k) if query else []
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], atol=1e-6)


def test_search_equals_brute_force_on_many_vectors() -> None:
    """More titles than one block; rising scores, so that every block brings better ones; 400 equal titles."""
    encoder = Encoder(tiny(cells=93))
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40_000, 93))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    query = encoder.encode_query("hotels in shanghai")
    vectors = vectors[np.argsort(vectors @ query)]
    vectors[::100] = vectors[39_999]
    index = Index.build(encoder, [""] * len(vectors))
    index._live.view().segment.exact.vectors = vectors
    queries = ["hotels in shanghai", "new york", "paint a bathtub"]
    together = encoder.encode_query(queries)
    for k in (1, 10, 390, 1000):
        one, many = (index.search(each, k, mode=VECTORS) for each in (queries[0], queries))
        found: list[Any] = [(query, one), *zip(together, many, strict=True)]
        for vector, hits in found:
            exact = (vectors.astype(np.float64) * vector).sum(axis=1).astype(np.float32)
            best = np.argsort(-exact, kind="stable")[:k]
            assert [int(hit.id) for hit in hits] == best.tolist()
            assert [hit.score for hit in hits] == exact[best].tolist()


def test_threads_may_share_an_index(index: Index) -> None:
    queries = [f"{TEXTS[i % 8]} {i % 20}" for i in range(200)]
    expected = [[hit.id for hit in index.search(query, k=3)] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: [hit.id for hit in index.search(query, k=3)], queries))
    assert found == expected


# --- building ----------------------------------------------------------------------------------------------------


def test_ids_and_payloads_come_back(encoder: Encoder, tmp_path: Path) -> None:
    ids = [f"id {i} ü" for i in range(len(TITLES))]
    index = Index.build(encoder, titles=iter(TITLES), ids=iter(ids), payloads=iter(PAYLOADS))
    index.save(tmp_path / "index")
    expected = [Document(*parts) for parts in zip(ids, TITLES, PAYLOADS, strict=True)]
    for one in (index, Index.open(tmp_path / "index")):
        assert len(one) == len(TITLES)
        assert list(one) == expected
        for hit in one.search("hotels", k=100):
            assert (hit.id, hit.title, hit.payload) == expected[ids.index(hit.id)]


def test_a_payload_is_the_same_before_and_after_saving(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, titles=["a"], payloads=[{1: (2, 3)}])
    index.save(tmp_path / "index")
    assert index.search("a")[0].payload == Index.open(tmp_path / "index").search("a")[0].payload == {"1": [2, 3]}


def test_odd_titles_come_back(encoder: Encoder, tmp_path: Path) -> None:
    titles = ["a\nb", "\u2028", "\x00", "\ud800 half a pair", '"quoted\\"', "😀"]
    Index.build(encoder, titles).save(tmp_path / "index")
    assert [document.title for document in Index.open(tmp_path / "index")] == titles


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"titles": ["a", "b", "c"], "ids": ["x", "y", "x"]}, "the id 'x' is given to more than one title"),
        ({"titles": ["a", "b"], "ids": ["x"]}, "2 titles and 1 ids"),
        ({"titles": ["a"], "payloads": [1, 2]}, "1 titles and 2 payloads"),
        ({"titles": ["a", "b"], "ids": ["1", 2.0]}, "the id 2.0 is of type float"),
        ({"titles": ["a", "b"], "ids": ["1", True]}, "the id True is of type bool"),
        ({"titles": ["a", "b", "c"], "ids": [7, "x", "7"]}, "the id '7' is given to more than one title"),
        ({"titles": ["a", None]}, "the title None of the id '1' is of type NoneType; give a str"),
        ({"titles": "abc"}, "not the single str 'abc'"),
        ({"titles": ["a"], "ids": ["x"], "payloads": [{1, 2}]}, "the payload of the id 'x' is not JSON"),
        ({"titles": ["a"], "payloads": [float("nan")]}, "the payload of the id '0' is not JSON"),
        ({"titles": ["\ud800"], "payloads": [float("nan")]}, "the payload of the id '0' is not JSON"),
    ],
)
def test_building_refuses(encoder: Encoder, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ClickvecError, match=message):
        Index.build(encoder, **arguments)


def test_documents_are_given_in_any_form(encoder: Encoder) -> None:
    expected = [Document("17", "shower valve", {"price": 30}), Document(18, "pizza dough", None)]
    forms: list[Any] = [
        expected,
        iter(expected),
        [{"id": "17", "title": "shower valve", "price": 30}, {"id": 18, "title": "pizza dough"}],
        [
            {"product_id": "17", "name": "shower valve", "price": 30},
            {"product_id": np.int64(18), "name": "pizza dough"},
        ],
        [Title("17", "shower valve", {"price": 30}), {"sku": 18, "title": "pizza dough"}],
    ]
    for form in forms:
        assert list(Index.build(encoder, form)) == expected
    index = Index.build(encoder, ids=["17", 18], titles=["shower valve", "pizza dough"], payloads=[{"price": 30}, None])
    assert list(index) == expected
    assert index.add([{"sku": "17", "title": "hotels"}]) == 1
    assert list(index) == [expected[1], Document("17", "hotels")]


def test_documents_without_ids_are_numbered_in_a_new_index_alone(encoder: Encoder) -> None:
    index = Index.build(encoder, [{"title": "a", "price": 3}, {"title": "b"}])
    assert list(index) == [Document("0", "a", {"price": 3}), Document("1", "b")]
    for documents in (["a"], [{"title": "a"}]):
        with pytest.raises(ClickvecError, match=r"documents\[0\] has no id"):
            index.add(documents)
    with pytest.raises(ClickvecError, match="there are no ids"):
        index.add(titles=["a"])
    assert len(index) == 2


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("abc", "not the single str"),
        ({"id": 1, "title": "a"}, "not the single dict"),
        (Document(1, "a"), "not the single Document"),
        ([("a", "17", 3)], r"documents\[0\] has 3 values; a tuple is \(doc_id, title\)"),
        ([{"id": 1, "title": "a"}, {"title": "b"}], r"documents\[1\] has no id"),
        ([{"title": "b"}, {"id": 1, "title": "a"}], r"documents\[1\] has an id, but those before have none"),
        ([{"id": 1, "price": 2}], r"documents\[0\] has no title; its keys are id, price"),
        ([{"id": 1, "title": None}], "the title None of the id 1"),
        ([{"sku": 1, "product_id": 2, "title": "a"}], "may be sku or product_id"),
        ([{"id": 1, "title": "a", "payload": {"price": 3}}], "fields in payload; write them beside the title"),
        ([{"vendor_no": "x1", "title": "a"}, {"vendor_no": "x2", "title": "b"}], "vendor_no may be it"),
        ([{1: "x"}], "a key that is no str"),
    ],
)
def test_documents_that_are_refused(encoder: Encoder, documents: list[Any], message: str) -> None:
    with pytest.raises(ClickvecError, match=message):
        Index.build(encoder, documents)


def test_ids_and_titles_cannot_be_exchanged_by_position(encoder: Encoder) -> None:
    index = Index.build(encoder, ["a"])
    for wrong in (lambda: Index.build(encoder, ["a"], ["1"]), lambda: index.add(["1"], ["a"])):  # type: ignore[misc]
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ClickvecError, match="not both"):
        Index.build(encoder, ["a"], ids=["1"])


# --- saving and opening ------------------------------------------------------------------------------------------


def test_a_folder_opens_by_itself(encoder: Encoder, index: Index, saved: Path, tmp_path: Path) -> None:
    expected = index.search(list(TEXTS))
    model = contents(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    moved = saved.rename(tmp_path / "elsewhere")
    opened = Index.open(str(moved))
    assert opened.search(list(TEXTS)) == expected
    assert opened.encoder.fingerprint == encoder.fingerprint
    assert contents(moved / "models" / encoder.fingerprint) == model  # byte for byte, card and metrics too
    opened.close()
    names = sorted(file.name for file in moved.iterdir() if not file.name.startswith("documents.sqlite-"))
    assert names == sorted(FILES)
    with Index.open(moved, encoder=encoder) as given:
        assert given.encoder is encoder
        assert given.search("hotels") == index.search("hotels")


def test_the_vectors_stay_on_disk(saved: Path) -> None:
    segment = Index.open(saved)._live.view().segment
    for values in (segment.exact.vectors, segment.seqs, segment.words.positions):
        assert not values.flags.owndata
        assert not values.flags.writeable


def test_the_same_index_is_the_same_bytes(index: Index, saved: Path, tmp_path: Path) -> None:
    index.save(tmp_path / "again")
    Index.open(saved).save(tmp_path / "of the opened")
    segments = [contents(next((path / "segments").iterdir())) for path in (saved, tmp_path / "again")]
    segments.append(contents(next((tmp_path / "of the opened" / "segments").iterdir())))
    assert segments[0] == segments[1] == segments[2]


def test_others_may_read_the_files(saved: Path) -> None:
    modes = {stat.S_IMODE(file.stat().st_mode) for file in saved.rglob("*") if file.is_file()}
    assert all(mode & 0o444 == 0o444 for mode in modes)


def test_a_model_that_was_never_saved(tmp_path: Path) -> None:
    encoder = Encoder(tiny())
    assert encoder.fingerprint == ""
    index = Index.build(encoder, TITLES)
    index.save(tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    assert opened.search("hotels") == index.search("hotels")
    assert opened.encoder.fingerprint == Encoder.load(tiny_model(tmp_path / "model")).fingerprint
    with pytest.raises(ClickvecError, match="one that was never saved"):
        Index.open(tmp_path / "index", encoder=encoder)


def test_a_model_folder_that_changed_after_it_was_loaded(encoder: Encoder, index: Index, tmp_path: Path) -> None:
    expected = index.search("hotels")
    tiny_model(tmp_path / "model", seed=5)
    index.save(tmp_path / "index")
    assert Index.open(tmp_path / "index").search("hotels") == expected
    assert Index.open(tmp_path / "index").encoder.fingerprint == encoder.fingerprint


def test_an_existing_index_is_replaced_only_when_told(index: Index, saved: Path, encoder: Encoder) -> None:
    before = contents(saved)
    other = Index.build(encoder, ["one hotel"])
    with pytest.raises(ClickvecError, match="already holds an index"):
        other.save(saved)
    assert contents(saved) == before
    opened = Index.open(saved)
    other.save(saved, overwrite=True)
    assert len(Index.open(saved)) == 1
    time.sleep(1.5 * live_folder.POLL_SECONDS)
    assert [hit.title for hit in opened.search("hotels")] == ["one hotel"]  # as a change of any other kind
    index.save(saved, overwrite=True)
    assert len(Index.open(saved)) == len(TITLES)


def test_what_is_not_ours_is_left_alone(index: Index, saved: Path, tmp_path: Path, model_folder: Path) -> None:
    before = contents(model_folder)
    with pytest.raises(ClickvecError, match="a folder with other files in it"):
        index.save(model_folder, overwrite=True)
    assert contents(model_folder) == before
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(ClickvecError, match=r"holds notes\.txt"):
        index.save(saved, overwrite=True)
    assert (saved / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ClickvecError, match="is a file"):
        index.save(tmp_path / "file", overwrite=True)


def test_a_full_disk_leaves_the_old_index(
    index: Index, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(saved)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for module, place in ((building, "write_array"), (files, "write_json"), (folder, "write_arrays")):
        with monkeypatch.context() as patch:
            patch.setattr(module, place, full)
            with pytest.raises(ClickvecError, match=r"index: No space left on device.*unchanged"):
                index.save(saved, overwrite=True)
        assert contents(saved) == before
        assert sorted(file.name for file in tmp_path.iterdir()) == ["index", "model"]


def test_a_write_that_really_fails_says_why(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, [f"title {i}" for i in range(5000)])
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, limits[1]))  # enough for the model, not for the documents
    try:
        with pytest.raises(ClickvecError, match=r"cannot write .*index"):
            index.save(tmp_path / "index")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_another_model_is_refused(saved: Path, encoder: Encoder, tmp_path: Path) -> None:
    other = Encoder.load(tiny_model(tmp_path / "other", seed=1))
    with pytest.raises(ClickvecError, match=r"another model.*the given encoder"):
        Index.open(saved, encoder=other)
    own = saved / "models" / encoder.fingerprint
    shutil.rmtree(own)
    with pytest.raises(ClickvecError, match=f"{encoder.fingerprint} is missing"):
        Index.open(saved)
    shutil.copytree(tmp_path / "other", own)
    with pytest.raises(ClickvecError, match=r"another model.*the model in it"):
        Index.open(saved)


def test_opening_refuses_what_is_not_a_folder(tmp_path: Path, model_folder: Path) -> None:
    with pytest.raises(ClickvecError, match="there is no index folder at"):
        Index.open(tmp_path / "nowhere")
    with pytest.raises(ClickvecError, match="is a model folder; expected: index folder"):
        Index.open(model_folder)
    with pytest.raises(ClickvecError, match="is a file; expected: index folder"):
        Index.open(model_folder / "config.json")


# --- integer ids -------------------------------------------------------------------------------------------------


def test_integer_ids_stay_integers(encoder: Encoder, tmp_path: Path) -> None:
    ids = [3, -1, 10**12, "x", np.int64(7), *range(100, 106)]
    index = Index.build(encoder, titles=TITLES, ids=ids, payloads=[{"id": 5, "title": "a"}] * len(TITLES))
    index.save(tmp_path / "index")
    for each in (index, Index.open(tmp_path / "index")):
        found = [document.id for document in each]
        assert found == ids
        assert {type(value) for value in found} == {int, str}
        assert {hit.id for hit in each.search("hotels", k=100)} <= set(ids)
        for document in each:
            assert each.find(document.id) == each.find(str(document.id)) == document
        assert each.find(5) is None
        assert each.find("03") is None


def test_an_integer_finds_a_text_id(index: Index) -> None:
    assert index.find(3) == index.find("3") == Document("3", TITLES[3])
    assert index.find(10**6) is None


# --- search by vector --------------------------------------------------------------------------------------------


def test_search_by_vector_is_search_by_text(encoder: Encoder, index: Index) -> None:
    def cosines(hits: list[Hit]) -> list[tuple[str | int, float]]:
        return [(hit.id, hit.score) for hit in hits]

    for query in TEXTS:
        by_vector: Any = index.search(encoder.encode_query(query), k=4)
        assert cosines(by_vector) == cosines(index.search(query, k=4, mode=VECTORS))
    together: Any = index.search(encoder.encode_query(list(TEXTS)), k=4)
    assert list(map(cosines, together)) == list(map(cosines, index.search(list(TEXTS), k=4, mode=VECTORS)))
    assert index.search(np.zeros(encoder.dimensions)) == []
    assert index.search(np.zeros((0, encoder.dimensions))) == []
    assert index.search(np.array(["hotels"]), k=3) == [index.search("hotels", k=3)]  # an array of texts
    with pytest.raises(ClickvecError, match="a vector cannot be searched by words"):
        index.search(np.zeros(encoder.dimensions), mode="words")


def test_a_vector_of_any_length_and_type_gives_cosines(encoder: Encoder, index: Index) -> None:
    vector = encoder.encode_query("hotels")
    expected = index.search("hotels", k=5, mode=VECTORS)
    for factor, dtype in ((1e-6, np.float64), (1000, np.float32), (1, np.float16), (100, np.int8)):
        hits: Any = index.search((factor * vector).astype(dtype), k=5)
        np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in expected], atol=0.03)
        assert hits[0].id == expected[0].id


@pytest.mark.parametrize("shape", [(6,), (8,), (2, 8), (1, 1, 7), (), (0,)])
def test_a_vector_of_another_shape_is_refused(index: Index, shape: tuple[int, ...]) -> None:
    with pytest.raises(ClickvecError, match=r"shape .* \(7,\) or \(n, 7\)") as raised:
        index.search(np.ones(shape))
    assert str(shape) in str(raised.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused(index: Index, bad: float) -> None:
    with pytest.raises(ClickvecError, match="NaN or infinity"):
        index.search(np.array([1, 2, bad, 0, 0, 0, 0]))


# --- pickling, copying, showing ----------------------------------------------------------------------------------


def search_in_worker(index: Index) -> list[list[Hit]]:
    return index.search(list(TEXTS))


@pytest.mark.parametrize("vectors", ["float32", "int8"])
@pytest.mark.parametrize("is_saved", [False, True])
def test_a_copy_of_an_index_finds_the_same(encoder: Encoder, tmp_path: Path, vectors: str, is_saved: bool) -> None:
    index = Index.build(encoder, titles=TITLES, payloads=PAYLOADS, vectors=vectors)
    index.delete(["4"])
    index.add(ids=["new", "3"], titles=["hotels", "paris"])
    index.compact()
    if is_saved:
        index.save(tmp_path / "index")
        index = Index.open(tmp_path / "index")
    expected = search_in_worker(index)
    for copied in (copy.copy(index), copy.deepcopy(index), pickle.loads(pickle.dumps(index))):
        assert search_in_worker(copied) == expected
        assert list(copied) == list(index)
        if not is_saved:
            copied.add(ids=["later"], titles=["hotels"])
            assert len(copied) == len(index) + 1
        copied.close()
    if is_saved:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            assert pool.submit(search_in_worker, index).result() == expected


def test_repr_tells_what_it_is(index: Index) -> None:
    for part in ("11 titles", "float32", "LSTM-RNN"):
        assert part in repr(index)
    hit = Hit("a", "hotels", 0.123456, {"cosine": 0.5, "bm25": 3.25})
    assert repr(hit) == "Hit(id='a', title='hotels', score=0.1235 (cosine 0.5000, bm25 3.2500))"
    assert "payload={'n': 1}" in repr(hit._replace(payload={"n": 1}))
