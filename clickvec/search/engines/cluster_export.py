"""Write the titles and vectors of an index for OpenSearch or Elasticsearch: a mapping, bulk files, a hybrid query.

The files follow the documentation of the two; they were not tried on a server.
"""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Document
from clickvec.search.fusion import Fusion
from clickvec.search.view_protocol import SearchView
from clickvec.storage import files

CLUSTERS = ("opensearch", "elasticsearch")
MARKER = "mapping.json"
_BLOCK = 5_000  # documents in a bulk file; both take requests of at most about 100 MB
_DEPTH = 100  # candidates by words and by vectors
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def export(
    view: SearchView, cluster: str, out: Path, name: str = "clickvec", progress: Progress | None = None
) -> list[str]:
    """Write a folder for a cluster, atomically, and return the names of the files."""
    if cluster not in CLUSTERS:
        raise ClickvecError(f"--for is {cluster!r}; choose {' or '.join(CLUSTERS)}")
    if out.exists():
        raise ClickvecError(f"{out} is already there; choose another --out")
    report, done, total = progress or ignore, 0, len(view)
    with files.replacing(out, MARKER) as fresh:
        files.write_json(fresh / MARKER, mapping(cluster, view.encoder.dimensions))
        files.write_json(fresh / "query.json", hybrid_query(cluster))
        if cluster == "opensearch":
            files.write_json(fresh / "pipeline.json", pipeline(view.fusion))
        remaining = iter(view.documents)
        report("exporting", 0, total)
        for number in itertools.count():
            block = list(itertools.islice(remaining, _BLOCK))
            if not block:
                break
            (fresh / f"bulk-{number:05d}.ndjson").write_bytes(_bulk(view, block, name))
            done += len(block)
            report("exporting", done, total)
    return sorted(file.name for file in out.iterdir())


def mapping(cluster: str, dimensions: int) -> dict[str, Any]:
    """Return the mapping: title as text, vector for the cosine, payload as keywords that filters can use."""
    vector: dict[str, Any]
    settings: dict[str, Any]
    if cluster == "opensearch":
        method = {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"}
        vector = {"type": "knn_vector", "dimension": dimensions, "method": method}
        payload, settings = {"type": "flat_object"}, {"index": {"knn": True}}
    else:
        vector = {"type": "dense_vector", "dims": dimensions, "index": True, "similarity": "cosine"}
        payload, settings = {"type": "flattened"}, {"index": {}}
    properties = {"id": {"type": "keyword"}, "title": {"type": "text"}, "payload": payload, "vector": vector}
    return {"settings": settings, "mappings": {"dynamic": False, "properties": properties}}


def hybrid_query(cluster: str) -> dict[str, Any]:
    """Return a search by words and vectors, with {{query}} and {{vector}} to fill in.

    The vector is that of the query tower, as `clickvec encode` or POST /v1/embeddings returns it.
    """
    words: Any = {"match": {"title": {"query": "{{query}}"}}}
    near: Any
    if cluster == "opensearch":
        near = {"knn": {"vector": {"vector": "{{vector}}", "k": _DEPTH}}}
        return {"size": 10, "_source": ["id", "title", "payload"], "query": {"hybrid": {"queries": [words, near]}}}
    near = {"knn": {"field": "vector", "query_vector": "{{vector}}", "k": _DEPTH, "num_candidates": 4 * _DEPTH}}
    retrievers = [{"standard": {"query": words}}, near]
    fused = {"rrf": {"retrievers": retrievers, "rank_window_size": _DEPTH}}
    return {"size": 10, "_source": ["id", "title", "payload"], "retriever": fused}


def pipeline(fusion: Fusion) -> dict[str, Any]:
    """Return the search pipeline of OpenSearch that mixes both scores, with the weights of the index if it mixes."""
    weights = fusion.weights if fusion.method == "mixture" else Fusion.default().weights
    total = weights["words"] + weights["cosine"] or 1.0
    share = round(weights["words"] / total, 6)
    combination = {"technique": "arithmetic_mean", "parameters": {"weights": [share, round(1 - share, 6)]}}
    processor = {"normalization": {"technique": "min_max"}, "combination": combination}
    return {"phase_results_processors": [{"normalization-processor": processor}]}


def _bulk(view: SearchView, documents: Iterable[Document], name: str) -> bytes:
    """Return the lines of one bulk request. A title without a vector has none: the cosine needs a length."""
    documents = list(documents)
    vectors = view.encoder.encode_document([document.title for document in documents])
    lines = []
    for document, vector in zip(documents, vectors, strict=True):
        source: dict[str, Any] = {"id": document.id, "title": document.title}
        if isinstance(document.payload, dict):
            source["payload"] = document.payload
        if vector.any():
            source["vector"] = np.round(vector.astype(np.float64), 7).tolist()
        lines += [_to_json({"index": {"_index": name, "_id": str(document.id)}}), _to_json(source)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
