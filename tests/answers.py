"""What an index shows to a reader, as plain values. As a program, a process that opens index folders and shows them."""

import json
import sys
from typing import Any

from clickvec.search.index import Index
from clickvec.search.parts import MODES

Answers = dict[str, Any]


def answers(index: Index, queries: list[str], wheres: list[Any], field: str, most: int) -> Answers:
    """Return the documents, the facets of a field, and the first hits of each query, filter and mode."""
    hits = {
        f"{mode} {where} {query!r}": [[hit.id, hit.score, *hit.parts.values()] for hit in found]
        for mode in MODES
        for where in wheres
        for query, found in zip(queries, index.search(queries, most, where, mode), strict=True)
    }
    shown = {
        "documents": [list(document) for document in index],
        "length": len(index),
        "model": index.encoder.fingerprint,
        "fusion": index.fusion.as_json(),
        "facets": [index.facets(query, [field], mode="words")[field]._asdict() for query in (None, *queries)],
        "corrections": [{word: list(others) for word, others in index.corrections(query).items()} for query in queries],
        "hits": hits,
    }
    return dict(json.loads(json.dumps(shown)))


def main() -> None:
    """Answer requests, a line of JSON each: open the index folder and show it."""
    for line in sys.stdin:
        request = json.loads(line)
        with Index.open(request["path"]) as index:
            print(json.dumps(answers(index, *request["questions"])), flush=True)


if __name__ == "__main__":
    main()
