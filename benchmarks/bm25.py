"""Search a large catalogue with BM25: ours in NumPy, and bm25s compiled by numba, with the same words, k1 and b.

    python benchmarks/bm25.py --clicks dbpedia/clicks_redirects.tsv.gz --titles 200000 --queries 300

Prints the seconds to index the titles, to change k1 and b, and to find 100 titles for all queries, and checks that
both give the same scores. bm25s needs `pip install numba`, and compiles before it is measured.
"""

import argparse
import logging
import time
from pathlib import Path

import numpy as np

from clickvec.data import read_clicks
from clickvec.evaluation.bm25 import BM25
from clickvec.text.lexical_tokens import tokenise

K = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=Path, required=True)
    parser.add_argument("--titles", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=300)
    options = parser.parse_args()
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # bm25s sets it to DEBUG
    log = read_clicks(options.clicks)
    titles = list(dict.fromkeys(log.titles))[: options.titles]
    queries = list(dict.fromkeys(log.queries))[:: max(1, len(log) // options.queries)][: options.queries]
    queries = [query for query in queries if tokenise(query)]
    ids = [str(row) for row in range(len(titles))]
    at = [time.perf_counter()]
    ours = BM25(titles)
    at.append(time.perf_counter())
    ours = ours.with_settings(0.8, 1.0)
    at.append(time.perf_counter())
    found = ours.search(queries, ids, titles, K, None)
    at.append(time.perf_counter())
    words: dict[str, int] = {}
    corpus = [[words.setdefault(word, len(words)) for word in tokenise(title)] for title in titles]
    other = bm25s.BM25(k1=0.8, b=1.0, method="lucene", backend="numba")
    other.index((corpus, words), show_progress=False)
    other.retrieve([[*tokenise(queries[0])]], k=K, show_progress=False, n_threads=1)
    at.append(time.perf_counter())
    asked = [[words[word] for word in tokenise(query) if word in words] for query in queries]
    known = [row for row, ids_of in enumerate(asked) if ids_of]
    scores = [np.sort(other.get_scores_from_ids(asked[row]))[::-1][:K] for row in known]
    at.append(time.perf_counter())
    other.retrieve([[*tokenise(query)] for query in queries], k=K, show_progress=False, n_threads=1)
    at.append(time.perf_counter())
    for row, best in zip(known, scores, strict=True):
        mine = ours.score(queries[row], [titles[int(number)] for number in found[row]])
        np.testing.assert_array_equal(mine, best[best > 0])
    steps = np.diff(at)
    print(f"{len(titles):,} titles, {len(queries)} queries, the same scores")
    print(f"ours:  index {steps[0]:.1f} s, other k1 and b {steps[1]:.2f} s, search {steps[2]:.2f} s")
    print(f"bm25s: index {steps[3]:.1f} s, other k1 and b the same again, search {steps[5]:.2f} s")


if __name__ == "__main__":
    main()
