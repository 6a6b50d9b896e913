"""The one order of a query: a fused head, then words, then vectors. k, offset and a least score only cut it."""

import random
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import tiny

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search import retrieval
from clickvec.search.fusion import Fusion
from clickvec.search.index import Document, Index
from clickvec.search.parts import MODES

WORDS = (
    "hotel",
    "shanghai",
    "cheap",
    "flights",
    "new",
    "york",
    "paint",
    "bathtub",
    "fix",
    "tub",
    "iphone",
    "7",
    "上海",
)
QUERIES = ("cheap hotel shanghai", "iphone 7", "hotle", "zzzz")
CLICKS: dict[str, float] = {
    "constant": -3.0, "cosine": 4.0, "words": 1.0, "codes": 0.5, "rarest match": 0.3, "unknown words": -0.2,
    "rarest word": 0.1, "query length": -0.1, "bend": -0.3, "bend from": -1.0,
}  # fmt: skip
FUSIONS = {
    "mixture": Fusion.default(),
    "ranks": Fusion.ranks(60),
    "clicks": Fusion.from_json({"method": "clicks", "weights": CLICKS}),
    "negative": Fusion.from_json({"method": "clicks", "weights": CLICKS | {"cosine": -4.0, "words": -1.0}}),
}


def catalogue(count: int) -> list[Document]:
    rng = random.Random(0)
    titles = [" ".join(rng.choices(WORDS, k=rng.randint(0, 6))) for _ in range(count)]
    return [Document(str(number), title, {"odd": number % 2}) for number, title in enumerate(titles)]


@pytest.fixture(params=FUSIONS)
def index(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    index = Index.create(tmp_path / "index", Encoder(tiny()), catalogue(150))
    index.use_fusion(FUSIONS[request.param])
    monkeypatch.setattr(retrieval, "DEPTH", 10)
    return index


def shown(hits: list[Any]) -> list[tuple[Any, ...]]:
    return [(hit.id, hit.score, *hit.parts) for hit in hits]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", [None, {"odd": 1}])
def test_pages_are_cuts_of_one_order(index: Index, mode: str, where: dict[str, int] | None) -> None:
    for query in QUERIES:
        every = shown(index.search(query, 1_000, where, mode))
        assert len({one[0] for one in every}) == len(every)
        for size in (7, 30):
            pages = [shown(index.search(query, size, where, mode, offset)) for offset in range(0, 150, size)]
            assert list(chain.from_iterable(pages)) == every


@pytest.mark.parametrize("mode", MODES)
def test_a_least_score_leaves_out_titles_wherever_they_are(index: Index, mode: str) -> None:
    for query in QUERIES:
        every = shown(index.search(query, 1_000, mode=mode))
        for least in sorted({score for _, score, *_ in every})[::25]:
            kept = [one for one in every if one[1] >= least]
            for k, offset in ((3, 0), (10, 5), (200, 0), (200, 12)):
                found = index.search(query, k, mode=mode, offset=offset, min_score=least)
                assert shown(found) == kept[offset : offset + k]


def test_words_follow_the_head_and_vectors_follow_words(index: Index) -> None:
    for query in QUERIES[:3]:
        by_words, by_vectors = (shown(index.search(query, 1_000, mode=mode)) for mode in ("words", "vectors"))
        head = {one[0] for one in (*by_words[:10], *by_vectors[:10])}
        hits = shown(index.search(query, 1_000))
        assert {one[0] for one in hits[: len(head)]} == head
        scores = [score for _, score, *_ in hits[: len(head)]]
        assert scores == sorted(scores, reverse=True)
        behind = [one[0] for one in by_words if one[0] not in head]
        behind += [one[0] for one in by_vectors if one[0] not in {*head, *behind}]
        assert [one[0] for one in hits[len(head) :]] == behind
        if index.fusion.method != "ranks":
            titles = [hit.title for hit in index.search(query, 1_000)]
            np.testing.assert_allclose([one[1] for one in hits], index.scores(query, titles), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_the_rank_of_a_title_is_its_place(index: Index, mode: str) -> None:
    for query in QUERIES:
        found = [hit.id for hit in index.search(query, 1_000, mode=mode)]
        for document in index:
            place = found.index(document.id) + 1 if document.id in found else None
            assert index.rank(query, document, mode) == place


def test_pages_of_an_approximate_search_are_cuts_of_one_order(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    rng = random.Random(1)
    titles = [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(3_000)]
    documents = [Document(number, title) for number, title in enumerate(titles)]
    index = Index.create(tmp_path / "index", Encoder(tiny(output=16)), documents, search="approximate")
    index.add(Document(number, f"{title} 7") for number, title in enumerate(titles[:50]))
    for mode in ("vectors", "hybrid"):
        for query in ("cheap hotel shanghai", "paint"):
            every = shown(index.search(query, 1_500, mode=mode))
            assert len({one[0] for one in every}) == 1_500
            pages = [shown(index.search(query, 300, mode=mode, offset=offset)) for offset in range(0, 1_500, 300)]
            assert list(chain.from_iterable(pages)) == every
            least = every[700][1]
            assert (
                shown(index.search(query, 20, mode=mode, min_score=least))
                == [one for one in every if one[1] >= least][:20]
            )


def test_candidates_whose_documents_are_missing_are_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(index.view().documents), "get", lambda self, seqs: {})
    with pytest.raises(ClickvecError, match="are missing; build the index again"):
        index.candidates("cheap hotel")
