"""Measure how long it takes to explain a query and a title, compared with scoring them by all-MiniLM-L6-v2. One core.

    python benchmarks/explain.py

Then the same for hits of an index of 100,000 titles, beside the search itself.

The models have 96 cells and random weights, because the values do not affect speed. The last line is JSON.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, for NumPy and for torch; before either is imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np

from clickvec.config import Tower
from clickvec.errors import ClickvecError
from clickvec.explanation import METHODS, explain, explain_hits
from clickvec.lab.other_systems.transformer import Transformer
from clickvec.lab.simulate import Site
from clickvec.model import folder, forward
from clickvec.model.encoder import Encoder
from clickvec.search.index import Index
from clickvec.text.trigrams import Vocabulary

PAIRS = 150
INDEXED = 100_000  # titles
HITS = 10
TRANSFORMER = "all-MiniLM-L6-v2, score"


def model(kind: str, texts: list[str]) -> Encoder:
    """A shared tower of 96 cells over the trigrams of the texts."""
    tower, trigrams, rng = Tower(kind), Vocabulary.count(texts).trigrams, np.random.default_rng(0)
    weights = {
        f"{side}.{name}": rng.uniform(-0.1, 0.1, shape).astype(np.float32)
        for side in folder.sides(shared_tower=True)
        for name, shape in forward.shapes(tower, len(trigrams)).items()
    }
    return Encoder(folder.Model(tower, True, 10, trigrams, weights, {}))


def milliseconds(run: Callable[[str, str], object], pairs: list[tuple[str, str]]) -> list[float]:
    """The time of each pair."""
    run(*pairs[0])
    found = []
    for query, title in pairs:
        started = time.perf_counter()
        run(query, title)
        found.append(1000 * (time.perf_counter() - started))
    return found


def in_index(titles: list[str], queries: list[str]) -> dict[str, list[float]]:
    """The times of a search, and of explaining its hits."""
    many = [f"{titles[number % len(titles)]} {number // len(titles) or ''}".strip() for number in range(INDEXED)]
    index = Index.build(model("lstm", [*titles, *queries]), many)
    index.search(queries[0])
    hits = {query: [hit.id for hit in index.search(query, k=HITS)] for query in queries}
    pairs = [(query, "") for query in queries if hits[query]]
    found = {
        "index, search": milliseconds(lambda query, _: index.search(query), pairs),
        "index, search and explain": milliseconds(
            lambda query, _: explain_hits(index, query, [index.search(query)[0].id]), pairs
        ),
        "index, top hit": milliseconds(lambda query, _: explain(index, query), pairs),
        "index, why not first": milliseconds(lambda query, _: explain(index, query, hits[query][-1]), pairs),
    }
    ten = milliseconds(lambda query, _: explain_hits(index, query, hits[query]), pairs)
    lengths = [len(hits[query]) for query, _ in pairs]
    return found | {"index, each of 10 hits": [time / length for time, length in zip(ten, lengths, strict=True)]}


def main() -> None:
    site = Site.build(0)
    queries, titles = site.queries.text, site.titles.text
    rng = np.random.default_rng(0)
    pairs = [
        (queries[one], titles[other])
        for one, other in zip(
            rng.integers(0, len(queries), PAIRS).tolist(), rng.integers(0, len(titles), PAIRS).tolist(), strict=True
        )
    ]
    longest = " ".join(
        islice((word for title in titles for word in title.split()), 40)
    )  # ten tokens, as all long texts
    long_pairs = [(longest, longest[::-1])] * 30
    texts = [text for pair in (*pairs, *long_pairs) for text in pair]
    found: dict[str, list[float]] = {}
    for kind in ("lstm", "bilstm", "rnn"):
        encoder = model(kind, texts)
        for method in METHODS:
            found[f"{kind}, {method}"] = milliseconds(partial(explain, encoder, method=method), pairs)
        found[f"{kind}, ten words each"] = milliseconds(partial(explain, encoder), long_pairs)
        found[f"{kind}, why not"] = milliseconds(partial(explain, encoder, compare_with=titles[0]), pairs)
    found |= in_index(list(titles), [query for query, _ in pairs])
    try:
        transformer = Transformer()
        found[TRANSFORMER] = milliseconds(lambda query, title: transformer.score(query, [title]), pairs)
    except ClickvecError as error:
        sys.stderr.write(f"skipping the transformer: {error}\n")
    print(f"{len(pairs)} pairs of the built-in log, one core, milliseconds")
    for name, times in found.items():
        print(f"{name:28} p50 {np.quantile(times, 0.5):6.1f}   p95 {np.quantile(times, 0.95):6.1f}")
    medians = {name: float(np.median(times)) for name, times in found.items()}
    added = medians["index, search and explain"] - medians["index, search"]
    print(f"explaining a hit adds {added:.1f} ms to a search among {INDEXED:,} titles")
    if TRANSFORMER in medians:
        ratio = medians["lstm, shapley"] / medians[TRANSFORMER]
        print(f"explaining with the LSTM-RNN takes {ratio:.2f} times as long as scoring with the transformer")
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
