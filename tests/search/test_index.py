"""The index: exact search with promised order, folders that open by themselves, and refusals in one sentence."""

import copy
import errno
import json
import pickle
import resource
import shutil
import signal
import stat
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.search import exact
from clickvec.search import index as index_module
from clickvec.search.documents import Documents
from clickvec.search.index import Document, Hit, Index
from clickvec.storage import files
from clickvec.storage.snapshot import describe_file

FILES = ("documents.jsonl", "documents.offsets.npy", "index.json", "model", "vectors.npy")
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
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


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
        hits = index.search(query, k=4)
        expected = by_hand(encoder, query, TITLES, 4)
        assert [hit.id for hit in hits] == [number for number, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], atol=1e-6)
        assert [hit.title for hit in hits] == [TITLES[int(hit.id)] for hit in hits]


def test_a_hit_is_plain_values(index: Index) -> None:
    hit = index.search("hotels", k=1)[0]
    assert isinstance(hit, Hit)
    assert hit == (hit.id, hit.title, hit.score, hit.payload)
    assert [type(value) for value in hit] == [str, str, float, type(None)]
    assert hit._fields == ("id", "title", "score", "payload")


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
    hits = index.search("hotels", k=k)
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
                hits = index.search(query, k)
                assert len(hits) == k
                assert [(-hit.score, int(hit.id)) for hit in hits] == sorted((-hit.score, int(hit.id)) for hit in hits)
                score = {}
                for hit in hits:
                    assert score.setdefault(" ".join(hit.title.lower().split()), hit.score) == hit.score
            everything = index.search(query, 700)
            for k in (1, 5, 50, 699):
                assert index.search(query, k) == everything[:k]


@pytest.mark.parametrize("block", [1, 3, 100])
def test_titles_without_a_vector_are_never_found(encoder: Encoder, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would score 0, and so stand above all that score less."""
    titles = ["", *TEXTS, "ЖЖЖ", "hotels", " "]
    monkeypatch.setattr(exact, "BLOCK_TITLES", block)
    index, without = Index.build(encoder, titles), Index.build(encoder, [*TEXTS, "hotels"])
    assert index.unreachable == 3
    lowest = []
    for query in TEXTS:
        found, expected = index.search(query, k=100), without.search(query, k=100)
        assert [hit.title for hit in found] == [hit.title for hit in expected]
        assert index.search(query, k=5) == found[:5]
        assert [index.rank(query, int(hit.id)) for hit in found] == list(range(1, len(found) + 1))
        assert [index.rank(query, place) for place in (0, len(titles) - 1)] == [None, None]
        assert index.rank(query, "new york hotels") == without.rank(query, "new york hotels")
        lowest.append(found[-1].score)
    assert min(lowest) < 0
    assert Index.build(encoder, ["", "ЖЖЖ"]).search("hotels") == []


# --- ranking one title -------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(titles=st.lists(st.text(max_size=8) | st.sampled_from(TITLES), max_size=30), block=st.integers(1, 12))
def test_the_rank_of_each_title_is_its_place_among_all_hits(
    encoder: Encoder, titles: list[str], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many titles are equal here, and some have no vector: these are not found, and have no rank."""
    index = Index.build(encoder, titles)
    with monkeypatch.context() as patch:
        patch.setattr(exact, "BLOCK_TITLES", block)
        for query in (*TEXTS, "hotels zzz"):
            hits = index.search(query, k=max(1, len(titles)))
            assert len(hits) == len(titles) - index.unreachable
            assert [index.rank(query, int(hit.id)) for hit in hits] == list(range(1, len(hits) + 1))
            others = set(range(len(titles))) - {int(hit.id) for hit in hits}
            assert {index.rank(query, place) for place in others} <= {None}
        assert {index.rank("", place) for place in range(len(titles))} <= {None}


def test_another_title_is_ranked_as_if_it_were_put_in_last(encoder: Encoder) -> None:
    titles = [TEXTS[i * i % 5] if i % 3 else f"filler {i}" for i in range(200)]
    index = Index.build(encoder, titles)
    hits = index.search(TEXTS[0], k=200)
    for title in (TEXTS[0], TEXTS[4], "filler 3"):
        score = float(encoder.encode_document(title).astype(float) @ encoder.encode_query(TEXTS[0]))
        clear = [hit for hit in hits if abs(hit.score - score) > 1e-6]
        equal = len(hits) - len(clear)
        found = index.rank(TEXTS[0], title)
        assert found is not None
        above = sum(hit.score > score for hit in clear)
        assert found == 1 + above + equal or (equal and 1 + above <= found)
    assert index.rank(TEXTS[0], "zzz") is None
    assert index.rank(TEXTS[0], "") is None
    assert index.rank("zzz", TEXTS[0]) is None
    assert Index.build(encoder, []).rank(TEXTS[0], "hotels") == 1


def test_many_titles_are_ranked_as_search_ranks_them() -> None:
    """More titles than one block, many of them nearly equal: their places are those of the exact scores."""
    encoder = Encoder(tiny(cells=93))
    rng, query = np.random.default_rng(0), encoder.encode_query(TEXTS[0])
    vectors = query + 1e-7 * rng.normal(size=(20_000, 93)).astype(np.float32)
    vectors[::3] = vectors[0]
    index = Index.build(encoder, [str(number) for number in range(len(vectors))])
    index._exact.vectors = vectors
    for place, hit in list(enumerate(index.search(TEXTS[0], k=len(vectors)), 1))[::997]:
        assert index.rank(TEXTS[0], int(hit.id)) == place


def test_a_position_that_is_none(index: Index) -> None:
    assert index.rank("hotels", -1) == index.rank("hotels", len(index) - 1)
    assert index[-1].id == str(len(index) - 1)
    for wrong in (len(index), -len(index) - 1):
        with pytest.raises(IndexError):
            index.rank("hotels", wrong)
        with pytest.raises(IndexError):
            index[wrong]


def test_a_title_is_found_by_its_id_or_else_by_its_words(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = ["hotels", "two", "one", "Two ", "上海 酒店", "ЖЖЖ", "", "zzz qqq", "a"]
    ids = ["one", "b", 'quoted "id"', "\\", "上海", "\ud800", "", "x", "t"]
    payloads = [{"id": "x", "title": "t"}, '{"id": "x", "title": ', *[None] * 7]
    index = Index.build(encoder, titles, ids, payloads)
    index.save(tmp_path / "index")
    monkeypatch.setattr(exact, "BLOCK_TITLES", 2)
    for one in (index, Index.open(tmp_path / "index")):
        assert [one.find(name) for name in ids] == list(range(9))
        assert [one[place].id for place in range(9)] == ids
        assert one.find("hotels") == 0
        assert one.find(" TWO") == 1  # the first of those with these words
        assert one.find("上海  酒店") == 4
        assert one.find("жжж") == 5  # without a vector
        assert one.find("ZZZ qqq") == 7
        assert one.find(" ") == 6
        assert one.find("qqq zzz") is None
        assert one.find("hotels in shanghai") is None
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
    np.testing.assert_array_equal(index._exact.vectors[[0, 1]][[0, 1, 0, 1, 1]], index._exact.vectors)


def test_all_titles_equal(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "BLOCK_TITLES", 16)
    index = Index.build(encoder, ["hotels in shanghai"] * 100)
    hits = index.search("new york", k=7)
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
    whole = index.search(queries, k)
    with monkeypatch.context() as patch:
        patch.setattr(exact, "BLOCK_QUERIES", blocks[0])
        patch.setattr(exact, "BLOCK_TITLES", blocks[1])
        assert index.search(queries, k) == whole
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
    lines = Documents.of([""] * len(vectors), None, None)
    index = Index(encoder, vectors, lines)
    queries = ["hotels in shanghai", "new york", "paint a bathtub"]
    together = encoder.encode_query(queries)
    for k in (1, 10, 390, 1000):
        found = [(query, index.search("hotels in shanghai", k)), *zip(together, index.search(queries, k), strict=True)]
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
    index = Index.build(encoder, iter(TITLES), ids=iter(ids), payloads=iter(PAYLOADS))
    index.save(tmp_path / "index")
    expected = [Document(*parts) for parts in zip(ids, TITLES, PAYLOADS, strict=True)]
    for one in (index, Index.open(tmp_path / "index")):
        assert len(one) == len(TITLES)
        assert list(one) == expected
        for hit in one.search("hotels", k=100):
            assert (hit.id, hit.title, hit.payload) == expected[ids.index(hit.id)]
    lines = (tmp_path / "index" / "documents.jsonl").read_text(encoding="utf-8").split("\n")
    assert json.loads(lines[1]) == {"id": ids[1], "title": TITLES[1], "payload": PAYLOADS[1]}
    assert "上海" in lines[1]  # a person can read it
    assert json.loads(lines[0]) == {"id": ids[0], "title": TITLES[0]}
    assert len(lines) == len(TITLES) + 1


def test_a_payload_is_the_same_before_and_after_saving(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, ["a"], payloads=[{1: (2, 3)}])
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
        ({"titles": ["a", "b", "c"], "ids": [7, "x", "7"]}, "the id 7 and '7' is given to more than one title"),
        ({"titles": ["a", None]}, "the title None is of type NoneType; give a str"),
        ({"titles": "abc"}, "not the single str 'abc'"),
        ({"titles": ["a"], "ids": ["x"], "payloads": [{1, 2}]}, "the payload of the id 'x' is not JSON"),
        ({"titles": ["a"], "payloads": [float("nan")]}, "the payload of the id '0' is not JSON"),
        ({"titles": ["\ud800"], "payloads": [float("nan")]}, "the payload of the id '0' is not JSON"),
    ],
)
def test_building_refuses(encoder: Encoder, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ClickvecError, match=message):
        Index.build(encoder, **arguments)


# --- saving and opening ------------------------------------------------------------------------------------------


def test_a_folder_opens_by_itself(encoder: Encoder, index: Index, saved: Path, tmp_path: Path) -> None:
    expected = index.search(list(TEXTS))
    model = contents(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    moved = saved.rename(tmp_path / "elsewhere")
    opened = Index.open(str(moved))
    assert opened.search(list(TEXTS)) == expected
    assert opened.encoder.fingerprint == encoder.fingerprint
    assert contents(moved / "model") == model  # byte for byte, card and metrics too
    assert sorted(file.name for file in moved.iterdir()) == sorted(FILES)
    assert Index.open(moved, encoder=encoder).encoder is encoder
    assert Index.open(moved, encoder=encoder).search("hotels") == index.search("hotels")


def test_what_the_folder_says(saved: Path, encoder: Encoder) -> None:
    about = json.loads((saved / "index.json").read_text())
    sizes = {name: describe_file(saved / name) for name in contents(saved) if name != "index.json"}
    assert about == {
        "format": 1, "count": len(TITLES), "dimensions": 7, "fingerprint": encoder.fingerprint, "files": sizes,
    }  # fmt: skip
    vectors = np.load(saved / "vectors.npy")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode_document(TITLES), atol=1e-6)
    offsets = np.load(saved / "documents.offsets.npy")
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    assert offsets[-1] == (saved / "documents.jsonl").stat().st_size


def test_the_vectors_stay_on_disk(saved: Path) -> None:
    opened = Index.open(saved)
    for values in (opened._exact.vectors, opened._documents.lines, opened._documents.offsets):
        assert isinstance(values.base, np.memmap)
        assert not values.flags.writeable


def test_the_same_index_is_the_same_bytes(index: Index, saved: Path, tmp_path: Path) -> None:
    index.save(tmp_path / "again")
    Index.open(saved).save(tmp_path / "of the opened")
    assert contents(saved) == contents(tmp_path / "again") == contents(tmp_path / "of the opened")


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
    other = Index.build(encoder, ["only one"])
    with pytest.raises(ClickvecError, match="already holds an index"):
        other.save(saved)
    assert contents(saved) == before
    opened = Index.open(saved)
    other.save(saved, overwrite=True)
    assert len(Index.open(saved)) == 1
    assert opened.search("hotels") == index.search("hotels")  # what was open stays as it was
    opened.save(saved, overwrite=True)  # its model folder is the one that is replaced
    assert contents(saved) == before


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

    for module, place in ((index_module, "write_array"), (files, "write_json"), (folder, "write_arrays")):
        with monkeypatch.context() as patch:
            patch.setattr(module, place, full)
            with pytest.raises(ClickvecError, match=r"index: No space left on device.*unchanged"):
                index.save(saved, overwrite=True)
        assert contents(saved) == before
        assert sorted(file.name for file in tmp_path.iterdir()) == ["index", "model"]


def test_a_write_that_really_fails_says_why(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, [f"title {i}" for i in range(2000)])
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))  # enough for the model, not for the vectors
    try:
        with pytest.raises(ClickvecError, match=r"cannot write .*: File too large"):
            index.save(tmp_path / "index")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_another_model_is_refused(saved: Path, tmp_path: Path) -> None:
    other = Encoder.load(tiny_model(tmp_path / "other", seed=1))
    with pytest.raises(ClickvecError, match=r"another model.*the given encoder"):
        Index.open(saved, encoder=other)
    shutil.rmtree(saved / "model")
    shutil.copytree(tmp_path / "other", saved / "model")
    with pytest.raises(ClickvecError):
        Index.open(saved)
    sizes = {name: {"bytes": len(data)} for name, data in contents(saved).items() if name != "index.json"}
    change(saved, files=sizes)
    with pytest.raises(ClickvecError, match=r"another model.*the model in it"):
        Index.open(saved)


def change(path: Path, **values: object) -> None:
    about = json.loads((path / "index.json").read_text())
    (path / "index.json").write_text(json.dumps(about | values))


def bytes_of(name: str, changed: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(changed((path / name).read_bytes())) and None


def signed(name: str, changed: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Other bytes in a file, of which index.json knows."""

    def damage(path: Path) -> None:
        bytes_of(name, changed)(path)
        known = json.loads((path / "index.json").read_text())["files"]
        change(path, files=known | {name: describe_file(path / name)})

    return damage


def save_array(name: str, array: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Another array in the place of one, with its size put right in index.json."""

    def damage(path: Path) -> None:
        np.save(path / name, array(np.load(path / name)))
        files = json.loads((path / "index.json").read_text())["files"]
        change(path, files=files | {name: {"bytes": (path / name).stat().st_size}})

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *((lambda path, name=name: (path / name).unlink(), f"{name} is missing") for name in
          ("vectors.npy", "documents.jsonl", "documents.offsets.npy")),
        (lambda path: (path / "index.json").unlink(), "index.json is missing"),
        (lambda path: (path / "model" / "config.json").unlink(), "model/config.json is missing"),
        (lambda path: shutil.rmtree(path / "model"), ".* is missing"),
        (bytes_of("vectors.npy", lambda data: data[:-1]), "vectors.npy has .* bytes, index.json says"),
        (bytes_of("documents.jsonl", lambda data: data[:-1]), "documents.jsonl has .* bytes, index.json says"),
        (bytes_of("documents.offsets.npy", lambda data: b""), "has 0 bytes, index.json says"),
        (bytes_of("model/weights.safetensors", lambda data: data[:-1]), "weights.safetensors has .* bytes"),
        (bytes_of("index.json", lambda data: data[:50]), "cannot be read"),
        (bytes_of("index.json", lambda data: b"{}"), "names no format"),
        (bytes_of("index.json", lambda data: b'{"format": 1}'), "lacks or misspells 'count'"),
        (bytes_of("vectors.npy", lambda data: b"x" * len(data)), "vectors.npy.*another version.*index.json"),
        (signed("vectors.npy", lambda data: b"x" * len(data)), "vectors.npy holds .xxx"),
        (lambda path: change(path, format=4), "format 4, newer than 3.*update"),
        (lambda path: change(path, count="many"), "lacks or misspells"),
        (lambda path: change(path, files=None), "lacks or misspells"),
        (lambda path: change(path, count=10), r"\(11, 7\).*\(10, 7\)"),
        (lambda path: change(path, dimensions=8), "says 8 dimensions, but its model has 7"),
        (lambda path: change(path, fingerprint="0" * 32), "index of another model"),
        (save_array("vectors.npy", lambda old: old.astype(np.float64)), "vectors.npy holds .*f8.* expected float32"),
        (save_array("vectors.npy", lambda old: old[:, :6]), r"\(11, 6\)"),
        (save_array("documents.offsets.npy", lambda old: old[:-1]), r"\(11,\).*\(12,\)"),
        (save_array("documents.offsets.npy", lambda old: old + 1), "disagree"),
    ],
)  # fmt: skip
def test_opening_refuses_what_is_damaged(saved: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(saved)
    with pytest.raises(ClickvecError, match=message) as error:
        Index.open(saved)
    assert "\n" not in str(error.value)


def test_opening_refuses_what_is_not_a_folder(tmp_path: Path, model_folder: Path) -> None:
    with pytest.raises(ClickvecError, match="there is no index folder at"):
        Index.open(tmp_path / "nowhere")
    with pytest.raises(ClickvecError, match="is a model folder; expected: index folder"):
        Index.open(model_folder)
    with pytest.raises(ClickvecError, match="is a file; expected: index folder"):
        Index.open(model_folder / "config.json")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_found_by_a_search(saved: Path, bad: float) -> None:
    vectors = np.load(saved / "vectors.npy")
    vectors[3, 2] = bad
    np.save(saved / "vectors.npy", vectors)
    signed("vectors.npy", lambda data: data)(saved)
    with pytest.raises(ClickvecError, match="vector of the index holds NaN"):
        Index.open(saved).search("hotels", k=1)


def test_a_damaged_document_is_found_when_it_is_read(saved: Path) -> None:
    signed("documents.jsonl", lambda lines: b"x" + lines[1:])(saved)
    with pytest.raises(ClickvecError, match=r"documents\.jsonl is damaged at line 1"):
        Index.open(saved).search("hotels", k=100)


# --- integer ids -------------------------------------------------------------------------------------------------


def test_integer_ids_stay_integers(encoder: Encoder, tmp_path: Path) -> None:
    ids = [3, -1, 10**12, "x", np.int64(7), *range(100, 106)]
    index = Index.build(encoder, TITLES, ids=ids, payloads=[{"id": 5, "title": "a"}] * len(TITLES))
    index.save(tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    opened.save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "index")
    assert json.loads((tmp_path / "index" / "index.json").read_text())["format"] == 3  # earlier versions refuse it
    for each in (index, opened):
        found = [document.id for document in each]
        assert found == ids
        assert {type(value) for value in found} == {int, str}
        assert {hit.id for hit in each.search("hotels", k=100)} <= set(ids)
        for position, doc_id in enumerate(ids):
            assert each.find(doc_id) == each.find(str(doc_id)) == position  # type: ignore[arg-type]
        assert each.find(5) is None
        assert each.find("03") is None


def test_an_integer_finds_a_text_id(index: Index) -> None:
    assert index.find(3) == index.find("3") == 3
    assert index.find(10**6) is None


# --- search by vector --------------------------------------------------------------------------------------------


def test_search_by_vector_is_search_by_text(encoder: Encoder, index: Index) -> None:
    for query in TEXTS:
        assert index.search(encoder.encode_query(query), k=4) == index.search(query, k=4)
    assert index.search(encoder.encode_query(list(TEXTS)), k=4) == index.search(list(TEXTS), k=4)
    assert index.search(np.zeros(encoder.dimensions)) == []
    assert index.search(np.zeros((0, encoder.dimensions))) == []
    assert index.search(np.array(["hotels"]), k=3) == [index.search("hotels", k=3)]  # an array of texts


def test_a_vector_of_any_length_and_type_gives_cosines(encoder: Encoder, index: Index) -> None:
    vector = encoder.encode_query("hotels")
    expected = index.search("hotels", k=5)
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
def test_a_copy_of_an_index_finds_the_same(encoder: Encoder, tmp_path: Path, vectors: str) -> None:
    Index.build(encoder, TITLES, payloads=PAYLOADS, vectors=vectors).save(tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    expected = search_in_worker(opened)
    shutil.rmtree(tmp_path / "index")
    for copied in (copy.copy(opened), copy.deepcopy(opened), pickle.loads(pickle.dumps(opened))):
        assert search_in_worker(copied) == expected
        assert list(copied) == list(opened)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(search_in_worker, opened).result() == expected


def test_repr_tells_what_it_is(index: Index) -> None:
    for part in ("11 titles", "float32", "LSTM-RNN"):
        assert part in repr(index)
    assert repr(Hit("a", "hotels", 0.123456)) == "Hit(id='a', title='hotels', score=0.1235)"
    assert "payload={'n': 1}" in repr(Hit(7, "hotels", 0.5, {"n": 1}))
