"""What the endpoints answer, over real HTTP."""

import base64
import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from serving import Running, running
from tiny import TEXTS

from clickvec.explanation import explain
from clickvec.search.index import Index
from clickvec.search.parts import MODES
from clickvec.serve.about_folder import write_queries
from clickvec.serve.schemas import Mode


@pytest.fixture(scope="module")
def index(read_index: Path) -> Index:
    return Index.open(read_index)


def test_one_query_gives_hits_as_the_index_does(reading: Running, index: Index) -> None:
    answer = reading.post("/search", {"query": "hotels in shanghai", "k": 3})
    assert answer.status_code == 200
    hits, expected = answer.json()["hits"], index.search("hotels in shanghai", k=3)
    assert [hit["id"] for hit in hits] == [hit.id for hit in expected]
    assert [hit["title"] for hit in hits] == [hit.title for hit in expected]
    assert [hit["payload"] for hit in hits] == [hit.payload for hit in expected]
    assert [hit["score"] for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-6)


def test_many_queries_give_a_result_each_in_their_order(reading: Running, index: Index) -> None:
    queries = ["new york", "上海 酒店", "zzz", "hotels in shanghai"]
    results = reading.post("/search", {"queries": queries, "k": 2}).json()["results"]
    expected = [[hit.id for hit in hits] for hits in index.search(queries, k=2)]
    assert [[hit["id"] for hit in result["hits"]] for result in results] == expected


def test_no_queries_give_no_results(reading: Running) -> None:
    assert reading.post("/search", {"queries": []}).json() == {"results": []}


def test_rerank_orders_titles_by_their_cosine(reading: Running, index: Index) -> None:
    documents = [TEXTS[4], {"id": 7, "title": TEXTS[0]}, {"id": "x", "title": TEXTS[5]}]
    results = reading.post("/rerank", {"query": "new york", "documents": documents}).json()["results"]
    cosines = index.encoder.encode_document([TEXTS[4], TEXTS[0], TEXTS[5]]) @ index.encoder.encode_query("new york")
    assert [result["index"] for result in results] == np.argsort(-cosines).tolist()
    assert {result["index"]: result.get("id") for result in results} == {0: None, 1: 7, 2: "x"}
    best = reading.post("/rerank", {"query": "new york", "documents": documents, "k": 1}).json()["results"]
    assert best == results[:1]


def test_rerank_blends_scores_that_all_documents_have(reading: Running) -> None:
    documents = [{"title": title, "score": score} for title, score in zip(TEXTS, range(len(TEXTS)), strict=True)]
    by_engine = reading.post("/rerank", {"query": "new york", "documents": documents, "weight": 1}).json()["results"]
    assert [result["index"] for result in by_engine] == list(reversed(range(len(TEXTS))))
    refused = reading.post("/rerank", {"query": "new york", "documents": [*documents, "no score"]})
    assert refused.status_code == 422
    assert "8 of 9" in refused.json()["error"]["message"]


def test_explain_is_that_of_the_library(reading: Running, index: Index) -> None:
    answer = reading.post("/explain", {"query": "hotels in shanghai", "title": TEXTS[4]}).json()
    assert answer["title"] == TEXTS[4]
    expected = explain(index, "hotels in shanghai", TEXTS[4])
    assert answer == json.loads(json.dumps(expected.as_json()))


def test_explain_by_id_and_of_the_top_hit(reading: Running) -> None:
    assert reading.post("/explain", {"query": "new york", "id": "t5"}).json()["title"] == TEXTS[5]
    top = reading.post("/search", {"query": "new york", "k": 1}).json()["hits"][0]
    assert reading.post("/explain", {"query": "new york"}).json()["title"] == top["title"]
    missing = reading.post("/explain", {"query": "new york", "id": "nope"})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_topics_are_computed_once(reading: Running) -> None:
    first = reading.client.get("/topics").json()
    assert first["titles"] == len(TEXTS)
    assert reading.client.get("/topics").json() == first


def test_a_cell_is_described_by_its_words_titles_and_queries(read_index: Path, tmp_path: Path) -> None:
    write_queries(tmp_path / "about", ["hotels in shanghai", "", "new  york\npizza", "\ud800"])
    with running(read_index, tmp_path, about=tmp_path / "about") as service:
        listed = service.client.get("/topics").json()
        assert listed["cells"] == service.service.index.encoder.dimensions
        first = listed["topics"][0]
        cell = service.client.get(f"/topics/{first['dimension']}").json()
        assert (cell["cell"], cell["titles"], cell["queries"]) == (first["cell"], len(TEXTS), 3)
        assert [side["sign"] for side in cell["sides"]] == ["+", "-"]
        side = next(side for side in cell["sides"] if side["sign"] == first["sign"])
        assert side["words"][: len(first["words"])] == first["words"]
        assert side["specificity"] == first["specificity"]
        vectors = service.service.index.encoder.encode_document(TEXTS)[:, first["dimension"]]
        signed = vectors if first["sign"] == "+" else -vectors
        assert {title["text"] for title in side["titles"]} == {TEXTS[at] for at in np.flatnonzero(signed > 0)}
        active = [title["activation"] for title in side["titles"]]
        assert active == sorted(active, reverse=True)
        assert {"hotels in shanghai", "new york pizza"} <= {
            query["text"] for side in cell["sides"] for query in side["queries"]
        }


@pytest.mark.parametrize("dimension", ["9999", "-1", "x", "1.0", "٣", "9" * 30])
def test_a_cell_that_is_not_there_is_404(reading: Running, dimension: str) -> None:
    refused = reading.client.get(f"/topics/{dimension}")
    assert refused.status_code == 404
    assert "dimensions" in refused.json()["error"]["message"]


def test_embeddings_as_floats_and_base64(reading: Running, index: Index) -> None:
    texts = ["new york", "zzz"]
    floats = reading.post("/v1/embeddings", {"input": texts, "model": "clickvec-title"}).json()
    vectors = np.array([item["embedding"] for item in floats["data"]], np.float32)
    np.testing.assert_array_equal(vectors, index.encoder.encode_document(texts))
    coded = reading.post("/v1/embeddings", {"input": "new york", "encoding_format": "base64"}).json()
    decoded = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4")
    np.testing.assert_array_equal(decoded, index.encoder.encode_query("new york"))


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"input": [1, 2, 3]}, 422, "token numbers"),
        ({"input": [[1, 2], [3]]}, 422, "token numbers"),
        ({"input": []}, 422, "empty"),
        ({"input": "a", "model": "gpt"}, 404, "clickvec-query"),
        ({"input": "a", "dimensions": 5}, 422, "dimensions"),
        ({"model": "clickvec-query"}, 422, "input"),
    ],
)
def test_embeddings_refuse_what_they_cannot_do(reading: Running, body: object, status: int, told: str) -> None:
    answer = reading.post("/v1/embeddings", body)
    assert answer.status_code == status
    assert told in answer.json()["error"]["message"]


def test_the_client_of_openai_works(reading: Running, index: Index) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{reading.port}/v1", api_key="none") as client:
        response = client.embeddings.create(model="clickvec-query", input=["new york", "café"])
        vectors = np.array([item.embedding for item in response.data], np.float32)
        np.testing.assert_array_equal(vectors, index.encoder.encode_query(["new york", "café"]))
        assert [model.id for model in client.models.list()] == ["clickvec-query", "clickvec-title"]
        with pytest.raises(openai.NotFoundError, match="clickvec-query"):
            client.embeddings.create(model="text-embedding-3-small", input="a")


def test_health_readiness_and_metrics(reading: Running) -> None:
    assert reading.client.get("/healthz").json() == {"status": "ok"}
    ready = reading.client.get("/readyz").json()
    assert ready["titles"] == len(TEXTS)
    before = _counts(reading.client.get("/metrics").text)
    reading.post("/search", {"query": "a"})
    reading.post("/search", {"query": 1})
    after = _counts(reading.client.get("/metrics").text)
    for status in (200, 422):
        name = f'clickvec_requests_total{{endpoint="POST /search",status="{status}"}}'
        assert after[name] == before.get(name, 0) + 1
    assert after["clickvec_titles"] == len(TEXTS)
    start = 'clickvec_request_seconds_bucket{endpoint="POST /search"'
    buckets = [value for name, value in after.items() if name.startswith(start)]
    assert buckets == sorted(buckets)
    assert buckets[-1] == after['clickvec_request_seconds_count{endpoint="POST /search"}']


def _counts(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_every_answer_has_security_headers_and_is_not_cached(reading: Running) -> None:
    for answer in (reading.client.get("/healthz"), reading.client.get("/nope"), reading.post("/search", {"k": 1})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_a_request_may_name_every_mode_of_search() -> None:
    assert get_args(Mode) == MODES
