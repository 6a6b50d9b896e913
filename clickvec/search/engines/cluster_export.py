"""Write the titles and vectors of an index for OpenSearch or Elasticsearch: a mapping, bulk files, a hybrid query.

The files follow the documentation of the two; they were not tried on a server.
"""

import datetime
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Document
from clickvec.search.fusion import Fusion
from clickvec.search.payload.fields import FieldKinds, payload_values
from clickvec.search.view_protocol import SearchView
from clickvec.storage import files

CLUSTERS = ("opensearch", "elasticsearch")
MARKER = "mapping.json"
_BLOCK = 5_000  # documents in a bulk file; both take requests of at most about 100 MB
_DEPTH = 100  # candidates by words and by vectors
_FIELDS = 1_000  # that both allow by default
_LONGEST = 8_191  # characters of a keyword: Lucene takes 32,766 bytes
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$")
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def export(
    view: SearchView, cluster: str, out: Path, name: str = "clickvec", progress: Progress | None = None
) -> tuple[list[str], int]:
    """Write a folder for a cluster, atomically. Return the names of the files and the number of titles."""
    if cluster not in CLUSTERS:
        raise ClickvecError(f"--for is {cluster!r}; choose {' or '.join(CLUSTERS)}")
    if out.exists():
        raise ClickvecError(f"{out} is already there; choose another --out")
    report, done, total = progress or ignore, 0, len(view)
    with files.replacing(out, MARKER) as fresh:
        fields = field_types(cluster, view.field_kinds(), (document.payload for document in view.documents))
        files.write_json(fresh / MARKER, mapping(cluster, view.encoder.dimensions, fields))
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
    return sorted(file.name for file in out.iterdir()), done


def field_types(cluster: str, kinds: Mapping[str, FieldKinds], payloads: Iterable[Any]) -> dict[str, str]:
    """Return the type of each payload field, so that ranges compare numbers and dates as such.

    A field of several kinds is a keyword. A field that is a value in one document and an object in another has the type
    of the cluster that takes both.
    """
    types = {path: _type_of(kind) for path, kind in kinds.items()}
    texts = {path for path, kind in types.items() if kind == "keyword" and not kinds[path].numbers}
    dates = {path for path in texts if not kinds[path].has_bools}
    for payload in payloads if dates else ():
        if isinstance(payload, dict):
            dates -= {path for path, value in payload_values(payload) if path in dates and not _is_date(value)}
            if not dates:
                break
    types |= dict.fromkeys(dates, "date")
    both = {path for path in types if any(other.startswith(f"{path}.") for other in types)}
    types |= dict.fromkeys(both, "flat_object" if cluster == "opensearch" else "flattened")
    return {path: kind for path, kind in types.items() if not any(path.startswith(f"{one}.") for one in both)}


def _type_of(kinds: FieldKinds) -> str:
    if kinds.is_number:
        return "double"
    return "boolean" if kinds.has_bools and not kinds.texts and not kinds.numbers else "keyword"


def _is_date(value: object) -> bool:
    """Tell whether a text is a date, with or without a time, that both clusters read: 2026-11-19, 2026-11-19T08:30Z."""
    if not isinstance(value, str) or not _DATE.match(value):
        return False
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _nested(types: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties of a mapping from the types of paths."""
    properties: dict[str, Any] = {}
    for path, kind in types.items():
        *parents, name = path.split(".")
        inside = properties
        for parent in parents:
            inside = inside.setdefault(parent, {"properties": {}})["properties"]
        inside[name] = {"type": kind} | ({"ignore_above": _LONGEST} if kind == "keyword" else {})
    return properties


def mapping(cluster: str, dimensions: int, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the mapping: title as text, vector for the cosine, and the payload with the types of its fields."""
    vector: dict[str, Any]
    settings: dict[str, Any]
    if cluster == "opensearch":
        method = {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"}
        vector = {"type": "knn_vector", "dimension": dimensions, "method": method}
        settings = {"index": {"knn": True}}
    else:
        vector = {"type": "dense_vector", "dims": dimensions, "index": True, "similarity": "cosine"}
        settings = {"index": {}}
    if len(fields) > _FIELDS // 2:  # objects count too
        settings["index"]["mapping"] = {"total_fields": {"limit": 2 * len(fields) + _FIELDS}}
    payload = {"properties": _nested(fields)}
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
    words, cosine = weights.get("words", 0.0), weights.get("cosine", 0.0)
    share = round(words / (words + cosine or 1.0), 6)
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
