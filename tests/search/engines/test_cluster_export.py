"""What an export for OpenSearch and Elasticsearch holds. No cluster is needed."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import check_tells, ok, refused

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

DOCUMENTS = [
    Document("a", "cheap hotels", {"price": 3, "tags": ["x"]}),
    Document(7, 'new\nyork "guide" 🙂', None),
    Document("z", "ω", ["no object"]),
]


@pytest.mark.parametrize("cluster", ["opensearch", "elasticsearch"])
def test_the_files_hold_all_documents(cluster: str, encoder: Encoder, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", encoder, DOCUMENTS).close()
    out = tmp_path / "out"
    ok("export", tmp_path / "index", "--for", cluster, "--out", out, "--name", "shop")
    lines = [json.loads(line) for line in (out / "bulk-00000.ndjson").read_text(encoding="utf-8").splitlines()]
    assert [line["index"] for line in lines[::2]] == [{"_index": "shop", "_id": str(one.id)} for one in DOCUMENTS]
    sources = lines[1::2]
    assert [(one["id"], one["title"]) for one in sources] == [(one.id, one.title) for one in DOCUMENTS]
    assert [one.get("payload") for one in sources] == [DOCUMENTS[0].payload, None, None]
    np.testing.assert_allclose(sources[0]["vector"], encoder.encode_document("cheap hotels"), atol=1e-6)
    assert "vector" not in sources[2]  # no known trigram
    mapping = json.loads((out / "mapping.json").read_text())["mappings"]["properties"]
    assert set(mapping) == {"id", "title", "payload", "vector"}
    assert encoder.dimensions in mapping["vector"].values()
    query = (out / "query.json").read_text()
    assert "{{query}}" in query
    assert "{{vector}}" in query
    assert (out / "pipeline.json").exists() == (cluster == "opensearch")
    if cluster == "opensearch":
        (processor,) = json.loads((out / "pipeline.json").read_text())["phase_results_processors"]
        weights = processor["normalization-processor"]["combination"]["parameters"]["weights"]
        assert sum(weights) == pytest.approx(1)
    check_tells(refused("export", tmp_path / "index", "--for", cluster, "--out", out), out, "already there")


@pytest.mark.parametrize("cluster", ["opensearch", "elasticsearch"])
def test_payload_fields_have_the_types_of_their_values(cluster: str, encoder: Encoder, tmp_path: Path) -> None:
    payloads = [
        {"price": 3, "in_stock": True, "brand": {"name": "acme", "since": 1990}, "added": "2026-11-19", "mixed": 1},
        {"price": 2.5, "added": "2026-11-19T08:30:00Z", "day": "2026-02-30", "mixed": "x", "tags": ["a", "b"]},
        {"either": "text", "flag": True}, {"either": {"inside": 1}, "flag": "yes"},
    ]  # fmt: skip
    documents = [Document(number, "cheap hotels", payload) for number, payload in enumerate(payloads)]
    Index.create(tmp_path / "index", encoder, documents).close()
    ok("export", tmp_path / "index", "--for", cluster, "--out", tmp_path / "out")
    mapping = json.loads((tmp_path / "out" / "mapping.json").read_text())
    keyword = {"type": "keyword", "ignore_above": 8191}
    assert mapping["mappings"]["properties"]["payload"]["properties"] == {
        "price": {"type": "double"},
        "in_stock": {"type": "boolean"},
        "brand": {"properties": {"name": keyword, "since": {"type": "double"}}},
        "added": {"type": "date"},
        "day": keyword,
        "mixed": keyword,
        "tags": keyword,
        "either": {"type": "flat_object" if cluster == "opensearch" else "flattened"},
        "flag": keyword,
    }


def test_an_unknown_cluster_is_told(encoder: Encoder, tmp_path: Path) -> None:
    Index.create(tmp_path / "index", encoder, DOCUMENTS).close()
    told = refused("export", tmp_path / "index", "--for", "solr", "--out", tmp_path / "out")
    check_tells(told, "solr", "opensearch", "elasticsearch")
    assert not (tmp_path / "out").exists()
