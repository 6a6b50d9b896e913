"""What every engine does alike: embedded, PostgreSQL and Milvus."""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_servers import Engines

import clickvec
from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search import retrieval
from clickvec.search.documents.document import Document
from clickvec.search.fusion import Fusion
from clickvec.search.index import Index
from clickvec.search.parts import MODES

WORDS = (
    *("hotel", "hotels", "shanghai", "cheap", "flights", "new", "york", "city", "guide", "paint", "bathtub", "fix"),
    *("tub", "iphone", "7", "ab-1234", "café", "naïve", "上海", "酒店", "the", "of"),
)
FUSIONS = {
    "mixture": Fusion.default(),
    "ranks": Fusion.ranks(60),
    "clicks": Fusion.from_json(
        {
            "method": "clicks",
            "weights": {
                "constant": -3.0, "cosine": 4.0, "words": 1.0, "codes": 0.5, "numbers": 0.2, "rarest match": 0.3,
                "unknown words": -0.2, "rarest word": 0.1, "query length": -0.1, "bend": -0.3, "bend from": -1.0,
            },
        }
    ),
}  # fmt: skip
NASTY = (
    "'; DROP TABLE documents; --", '" or 1 == 1', "%(p0)s", "%s", "$1", "\\'", "{}", "a\nb\tc", "🙂", "null", "seq > 0",
    "\u202e", "x" * 5_000, "' | 'a", "ß", "İ",
)  # fmt: skip


def catalogue(count: int, seed: int = 0) -> list[Document]:
    rng = random.Random(seed)
    return [
        Document(
            number if number % 2 else f"d{number}",
            " ".join(rng.choices(WORDS, k=rng.randint(1, 7))),
            {
                "price": rng.randrange(20),
                "tags": rng.sample(["a", "b", "c"], rng.randint(0, 2)),
                "in": {"x": number % 3 == 0},
            },
        )
        for number in range(count)
    ]


def shown(hits: list[Any]) -> list[tuple[Any, ...]]:
    return [(hit.id, hit.title, round(hit.score, 4)) for hit in hits]


@pytest.fixture
def documents() -> list[Document]:
    return catalogue(120)


@pytest.fixture
def both(engines: Engines, encoder: Encoder, documents: list[Document]) -> tuple[Index, Index]:
    """The same documents in memory and in an engine."""
    return Index.build(encoder, documents), engines.make(encoder, documents)


@pytest.mark.parametrize("mode", MODES)
def test_pages_are_cuts_of_one_order(both: tuple[Index, Index], mode: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "DEPTH", 10)
        for query in ("cheap hotels shanghai", "new york city"):
            expected, every = (shown(index.search(query, 200, mode=mode)) for index in both)
            assert every == expected
            pages = [shown(both[1].search(query, 40, mode=mode, offset=offset)) for offset in (0, 40, 80)]
            assert list(chain.from_iterable(pages)) == every
            least = every[len(every) // 2][2]
            found = shown(both[1].search(query, 200, mode=mode, min_score=least + 1e-4))
            assert found == [one for one in every if one[2] > least + 1e-4]


def test_searches_find_what_the_index_in_memory_finds(both: tuple[Index, Index]) -> None:
    memory, index = both
    queries = [
        "cheap hotels shanghai",
        "iphone 7",
        "ab1234",
        "ab 1234 hotel",
        "AB.1234",
        "iphone-7",
        "cafe",
        "上海酒店",
        "hotle",
        "fix",
        "",
        "zzzz",
        "the of",
    ]
    for name, fusion in FUSIONS.items():
        memory.use_fusion(fusion)
        index.use_fusion(fusion)
        assert index.fusion == fusion
        for mode in ("hybrid", "words", "vectors"):
            for query in queries:
                assert shown(index.search(query, k=10, mode=mode)) == shown(memory.search(query, k=10, mode=mode)), (
                    name, mode, query,
                )  # fmt: skip
    assert shown(index.search("cheap hotels", k=5, offset=3)) == shown(memory.search("cheap hotels", k=8))[3:]
    least = memory.search("cheap hotels", k=5)[-1].score - 1e-6
    assert len(index.search("cheap hotels", k=99, min_score=least)) == len(
        memory.search("cheap hotels", k=99, min_score=least)
    )
    several = index.search(["hotel", "flights"], k=2)
    assert [len(hits) for hits in several] == [2, 2]
    vector = index.encoder.encode_query("cheap flights")
    assert shown(index.search(vector, k=5)) == shown(memory.search(vector, k=5))
    for query in ("hotle", "ab-1235", "xy99z", "zzzz", "ab1234x hotel"):
        assert index.corrections(query) == memory.corrections(query), query


def test_documents_are_replaced_deleted_and_looked_up_by_id(engines: Engines, encoder: Encoder) -> None:
    index = engines.make(encoder, [Document("a", "cheap hotels"), Document(7, "new york"), Document("c", "paint")])
    index.add(ids=["a", 8], titles=["city guide", "bathtub"], payloads=[{"n": 1}, None])
    assert [document.id for document in index] == [7, "c", "a", 8]
    assert index.get("a") == Document("a", "city guide", {"n": 1})
    assert index.get("7") == index.get(7) == Document(7, "new york")
    assert index.find("NEW  york") == Document(7, "new york")
    assert index.find("city tour") is None
    assert not any(
        hit.title == "cheap hotels" for mode in ("words", "vectors") for hit in index.search("hotels", mode=mode)
    )
    assert "a" in {hit.id for hit in index.search("city guide", mode="vectors")}
    assert index.delete(["a", "nope", 8]) == 2
    assert (len(index), index.get("a"), index.delete(["a"])) == (2, None, 0)
    assert {hit.id for hit in index.search("city guide bathtub", k=9)} <= {7, "c"}
    with pytest.raises(ClickvecError, match="more than one title"):
        index.add(ids=[7, "7"], titles=["x", "y"])
    assert len(index) == 2


def test_an_update_changes_the_given_fields_alone(engines: Engines, encoder: Encoder) -> None:
    index = engines.make(encoder, [Document("a", "cheap hotels", {"n": 1, "city": "x"}), Document(7, "new york")])
    with pytest.raises(ClickvecError, match="no document with the id 'nope'"):
        index.update([{"id": "a", "n": 2}, {"id": "nope", "n": 2}])
    with pytest.raises(ClickvecError, match="more than one title"):
        index.update([{"id": 7, "n": 2}, {"id": "7", "n": 3}])
    assert index.get("a") == Document("a", "cheap hotels", {"n": 1, "city": "x"})
    assert index.update([{"id": "a", "n": 2}, {"id": "7", "title": "city guide", "m": 3}]) == 2
    assert index.get("a") == Document("a", "cheap hotels", {"n": 2, "city": "x"})
    assert index.get(7) == Document(7, "city guide", {"m": 3})
    assert index.update([{"id": "a", "city": None}]) == 1
    assert [(hit.id, hit.payload) for hit in index.search("hotels", where={"n": 2})] == [("a", {"n": 2})]
    assert [hit.id for hit in index.search("york", mode="words")] == []
    assert len(index) == 2
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda at: index.update([{"id": "a", f"f{at}": at}]), range(12))) == 12
    assert index.get("a") == Document("a", "cheap hotels", {"n": 2} | {f"f{at}": at for at in range(12)})


def test_counts_of_words_follow_the_changes(engines: Engines, encoder: Encoder) -> None:
    index = engines.make(encoder, catalogue(40))
    index.add(ids=[1, "new"], titles=["cheap cheap hotel", "paint the tub"])
    index.delete(["d0", "d2", 3])
    index.compact()
    left = list(index)
    fresh = Index.build(encoder, left)
    for query in ("cheap hotel", "paint the tub", "york"):
        assert shown(index.search(query, k=50, mode="words")) == shown(fresh.search(query, k=50, mode="words"))


def test_an_empty_index(engines: Engines, encoder: Encoder) -> None:
    index = engines.make(encoder, [])
    assert (len(index), list(index), index.search("hotel"), index.get("x")) == (0, [], [], None)
    assert index.add(ids=[], titles=[]) == 0
    index.add(ids=["x"], titles=["hotel"])
    assert [hit.id for hit in index.search("hotel")] == ["x"]


def test_explanations_add_up(both: tuple[Index, Index]) -> None:
    memory, index = both
    for fusion in FUSIONS.values():
        memory.use_fusion(fusion)
        index.use_fusion(fusion)
        for doc_id in (None, 5, "paint the bathtub in shanghai"):
            why = clickvec.explain(index, "cheap hotels shanghai", doc_id)
            same = clickvec.explain(memory, "cheap hotels shanghai", doc_id)
            assert why.fused
            assert same.fused
            assert why.score == pytest.approx(same.score, abs=1e-5)
            total = sum(part.contribution for part in why.fused.terms)
            score = 1 / (1 + np.exp(-total)) if why.fused.is_probability else total
            assert score == pytest.approx(why.score, abs=1e-5)
            of_words = why.fused.part("words")
            assert sum(word.contribution for word in of_words.words or ()) == pytest.approx(of_words.value, abs=1e-4)
            assert why.rank
            assert same.rank
            assert why.rank._replace(depth=None) == same.rank._replace(depth=None)


def test_facets(both: tuple[Index, Index]) -> None:
    memory, index = both
    for query in (None, "cheap hotels"):
        for mode in ("words", "hybrid"):
            wanted = memory.facets(query, ["price", "tags", "in.x", "nope"], where={"price": {"lt": 15}}, mode=mode)
            assert (
                index.facets(query, ["price", "tags", "in.x", "nope"], where={"price": {"lt": 15}}, mode=mode) == wanted
            )


def test_ids_titles_and_payloads_that_attack(engines: Engines, encoder: Encoder) -> None:
    documents = [Document(text, f"hotel {text}", {text[:200]: text, "n": at}) for at, text in enumerate(NASTY)]
    index = engines.make(encoder, documents)
    assert list(index) == documents
    for at, text in enumerate(NASTY):
        assert index.get(text) == documents[at]
        for mode in ("hybrid", "words", "vectors"):
            index.search(text, mode=mode)
            found = index.search("hotel", k=50, where={f"\\{text[:200]}": text[:256]}, mode=mode)
            assert [hit.id for hit in found] == ([text] if len(text) <= 256 else [])
        index.facets("hotel", [text])
    index.add(ids=NASTY[:3], titles=NASTY[:3], payloads=[None] * 3)
    assert index.delete(NASTY) == len(NASTY)
    assert len(index) == 0


def test_huge_payloads_and_equal_titles(engines: Engines, encoder: Encoder) -> None:
    huge = {"text": "y" * 300_000, "list": list(range(5_000)), "deep": [{"k": value} for value in range(500)]}
    documents = [Document(f"h{at}", "cheap hotels", huge if at == 3 else {"n": at}) for at in range(30)]
    index = engines.make(encoder, documents)
    hits = index.search("cheap hotels", k=30, mode="vectors")
    assert [hit.id for hit in hits] == [f"h{at}" for at in range(30)]  # ties in insertion order
    assert [hit.id for hit in index.search("cheap", where={"list": 4_999}, mode="vectors")] == ["h3"]
    assert [hit.id for hit in index.search("cheap", where={"deep.k": {"gt": 498}})] == ["h3"]
    found = index.get("h3")
    assert found
    assert found.payload == huge


SCALARS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, 2.0**60, 10**25, -(10**25)]),
    st.booleans(),
    st.sampled_from(["a", "b", "é", "1", ""]),
)
PAYLOADS = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a.b"]), inner, max_size=3),
    max_leaves=6,
)
RANGES = st.dictionaries(
    st.sampled_from(["gt", "lt"]), st.integers(-3, 3) | st.just(0.5), min_size=1
) | st.dictionaries(st.sampled_from(["gte", "lte"]), st.sampled_from(["a", "b", "é"]), min_size=1)
CONDITIONS = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=12), RANGES, st.fixed_dictionaries({"ne": SCALARS}),
    st.fixed_dictionaries({"exists": st.booleans()}),
)  # fmt: skip
FIELDS = st.sampled_from(["a", "b", "a.b", "a.a", "b.a.b"])
FILTERS = st.recursive(
    st.dictionaries(FIELDS, CONDITIONS, max_size=2),
    lambda inner: (
        st.fixed_dictionaries({"not": inner})
        | st.fixed_dictionaries({"and": st.lists(inner, max_size=2)})
        | st.fixed_dictionaries({"or": st.lists(inner, max_size=2)})
    ),
    max_leaves=4,
)


def test_filters_allow_the_same_documents(engines: Engines, model_folder: Path) -> None:
    encoder = Encoder.load(model_folder)
    rng = random.Random(1)

    @settings(max_examples=5 if "milvus" in engines.name else 12)
    @given(st.lists(PAYLOADS, min_size=1, max_size=12), st.lists(FILTERS, min_size=1, max_size=12))
    def check(payloads: list[Any], filters: list[dict[str, Any]]) -> None:
        titles = [" ".join(rng.choices(WORDS, k=3)) for _ in payloads]
        ids = list(range(len(payloads)))
        memory = Index.build(encoder, titles=titles, ids=ids, payloads=payloads)
        with Index.create(location, encoder, map(Document, ids, titles, payloads), overwrite=True) as index:
            for where in filters:
                for mode in ("vectors", "hybrid"):
                    wanted = {hit.id for hit in memory.search("cheap hotels", k=99, where=where, mode=mode)}
                    assert {hit.id for hit in index.search("cheap hotels", k=99, where=where, mode=mode)} == wanted, (
                        where
                    )

    location = engines.location()
    check()


def test_an_index_of_another_model_is_refused(engines: Engines, encoder: Encoder, tmp_path: Path) -> None:
    from tiny import tiny_model

    location = engines.location()
    Index.create(location, encoder, [Document("a", "hotel")]).close()
    other = Encoder.load(tiny_model(tmp_path / "other", seed=1))
    with pytest.raises(ClickvecError, match="another model"):
        Index.open(location, other)
    with pytest.raises(ClickvecError, match="overwrite"):
        Index.create(location, other, [])
    with Index.open(location) as index:
        assert [hit.id for hit in index.search("hotel")] == ["a"]
    with Index.create(location, other, [Document("b", "hotel")], overwrite=True) as index:
        assert index.encoder.fingerprint == other.fingerprint
        assert [hit.id for hit in index.search("hotel")] == ["b"]


def test_a_failed_build_leaves_the_old_index(engines: Engines, encoder: Encoder) -> None:
    location = engines.location()
    Index.create(location, encoder, [Document("a", "hotel")]).close()
    with pytest.raises(ClickvecError, match="more than one title"):
        Index.create(location, encoder, [Document("x", "y"), Document("x", "z")], overwrite=True)
    with Index.open(location) as index:
        assert [document.id for document in index] == ["a"]
        index.save(engines.folder / "saved")
    assert list(Index.open(engines.folder / "saved")) == [Document("a", "hotel")]
