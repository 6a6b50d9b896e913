"""Measure what blending the engine's own score brings to `clickvec rerank`: NDCG on a judged set, for each weight.

    python benchmarks/rerank.py MODEL DEV

The engine is BM25 over the judged titles, with Lucene's defaults (k1 = 1.2, b = 0.75). The last line is JSON.
"""

import json
import sys

import numpy as np

from clickvec.data import read_judged
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.metrics import ndcg, with_relevant
from clickvec.evaluation.neural import Neural
from clickvec.model.encoder import Encoder
from clickvec.search.rerank import blend

WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
CUTOFFS = (1, 3, 10)


def main(model: str, judged: str) -> None:
    queries = with_relevant(read_judged(judged))
    lists = [(query.query, query.titles) for query in queries]
    cosines = list(Neural(Encoder.load(model), "model").score_lists(lists))
    bm25 = BM25(title for query in queries for title in query.titles)
    engine = [bm25.score(query, titles) for query, titles in lists]
    print(f"{len(queries):,} queries\nweight  " + "  ".join(f"NDCG@{k}" for k in CUTOFFS))
    means = {}
    for weight in WEIGHTS:
        rows = []
        for query, cosine, score in zip(queries, cosines, engine, strict=True):
            order = np.argsort(-blend(cosine, score, weight), kind="stable")
            gains = np.exp2(query.grades) - 1
            rows.append([ndcg(gains[order], gains, k) for k in CUTOFFS])
        means[weight] = [100 * float(mean) for mean in np.mean(rows, axis=0)]
        print(f"{weight:6.2f}  " + "  ".join(f"{mean:6.2f}" for mean in means[weight]))
    print(json.dumps(means))


if __name__ == "__main__":
    main(*sys.argv[1:])
