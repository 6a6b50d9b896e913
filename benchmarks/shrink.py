"""Measure what smaller number formats save and lose, for weights and for the vectors of titles.

    python benchmarks/shrink.py MODEL JUDGED [MODEL JUDGED ...] [--catalogue TITLES ...]

For each model and judged set, print a table over the formats of weights and of vectors: the size of the folder in MB;
NDCG; the loss of NDCG@10 against float32; recall@10, the share of the ten nearest titles by float32 that are still
among the ten nearest, over the judged titles or a catalogue; and the time of a search, of opening the model and of
encoding a new word. The last line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.data import Judged, read_judged, read_titles
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.result import text_table
from clickvec.model.encoder import Encoder
from clickvec.model.shrink import VECTOR_TYPES, inverse_lengths, shrink_vectors, write_shrunk
from clickvec.search.index import Index

REPEATS, K, QUERIES = 7, 10, 500
WEIGHT_TYPES = ("float32", "float16", "int8")


class SmallVectors:
    """An encoder whose title vectors are rounded to a smaller number format."""

    def __init__(self, encoder: Encoder, precision: str) -> None:
        self.encoder, self.precision = encoder, precision

    def encode_query(self, query: str, /) -> Any:  # noqa: ANN401
        """Return the vector of a query in float32."""
        return self.encoder.encode_query(query)

    def encode_document(self, titles: list[str], /) -> Any:  # noqa: ANN401
        """Return the vectors of titles as an index would score them."""
        kept = shrink_vectors(self.encoder.encode_document(titles), self.precision)
        return kept.astype(np.float32) * inverse_lengths(kept)[:, None]


def seconds(run: Callable[[], object]) -> float:
    """Return the median time of several runs."""
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def new_words(encoder: Encoder, words: list[str]) -> float:
    """Return the time to encode titles of one new word each."""
    fresh = [Encoder(encoder.model) for _ in range(REPEATS)]
    return seconds(lambda: fresh.pop().encode_document(words))


def measure(model: Path, judged: Judged, titles: list[str], place: Path) -> list[dict[str, Any]]:
    """Return a row for each number format of the weights and of the vectors."""
    folders = {"float32": model} | {name: place / name for name in WEIGHT_TYPES if name != "float32"}
    for name, folder in folders.items():
        if name != "float32":
            write_shrunk(model, folder, name)
    pairs = [(weights, vectors) for weights in WEIGHT_TYPES for vectors in VECTOR_TYPES]
    encoders = {name: Encoder.load(folder) for name, folder in folders.items()}
    scored = evaluate([Neural(SmallVectors(encoders[w], v), f"{w} {v}") for w, v in pairs], judged)
    queries = list(dict.fromkeys(query.query for query in judged))[:QUERIES]
    words = sorted({word for title in titles for word in title.lower().split()})
    nearest: dict[tuple[str, str], list[set[str]]] = {}
    rows = []
    for weights, vectors in pairs:
        index = Index.build(encoders[weights], titles, vectors=vectors)
        nearest[weights, vectors] = [{hit.id for hit in hits} for hits in index.search(queries, K)]
        kept = [
            len(a & b) / max(1, len(a)) for a, b in zip(nearest[pairs[0]], nearest[weights, vectors], strict=True) if a
        ]
        row = {"weights": weights, "vectors": vectors}
        row["model MB"] = sum(file.stat().st_size for file in folders[weights].iterdir()) / 1e6
        row["bytes a title"] = encoders[weights].dimensions * np.dtype(vectors).itemsize + (
            4 if vectors != "float32" else 0
        )
        for measured in scored.measures:
            row[measured] = scored.mean(f"{weights} {vectors}", measured)
        row["lost@10"] = rows[0]["NDCG@10"] - row["NDCG@10"] if rows else 0.0
        row["recall@10"] = 100 * float(np.mean(kept))
        row["search us"] = 1e6 * seconds(lambda index=index: index.search(queries[0], K))
        row["open ms"] = 1e3 * seconds(lambda folder=folders[weights]: Encoder.load(folder))
        row["new word us"] = 1e6 * new_words(encoders[weights], words) / len(words)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="+", metavar="MODEL JUDGED")
    parser.add_argument(
        "--catalogue", type=Path, action="append", default=[], help="one for each model, in their order"
    )
    options = parser.parse_args()
    found = {}
    for number, (model, file) in enumerate(zip(options.pairs[::2], options.pairs[1::2], strict=True)):
        judged = read_judged(file)
        titles = [title for query in judged for title in query.titles]
        if number < len(options.catalogue):
            titles = [entry.title for entry in read_titles(options.catalogue[number])]
        titles = list(dict.fromkeys(titles))
        with tempfile.TemporaryDirectory() as place:
            rows = found[model.name] = measure(model, judged, titles, Path(place))
        print(f"{model.name} on {file.name}: {len(judged):,} queries; nearest among {len(titles):,} titles")
        cells = [[f"{value:.2f}" if isinstance(value, float) else value for value in row.values()] for row in rows]
        print(text_table([list(rows[0]), *cells]) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
