"""Search titles by words: our postings in C and in NumPy, tantivy and bm25s, with the same words, k1 and b.

    python benchmarks/words.py --clicks dbpedia/clicks_redirects.tsv.gz --queries dbpedia/test.tsv.gz

Prints the seconds to index the titles, the size on disk, and the milliseconds to find 100 titles, in CPU time of one
core. The baselines need `pip install bm25s numba tantivy`. Titles with extra words (codes, hyphens) are left out, so
that all index the same words. If there are too few titles, pairs of them are joined. Checks that all scores agree with
those of bm25s.
"""

import argparse
import gzip
import logging
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from clickvec.data.clicks import read_clicks
from clickvec.native import postings
from clickvec.search.lexical.word_search import Words
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.search.lexical.word_tokens import extra_words, indexed, plain_words

K, K1, B = 100, 1.2, 0.75
SLOW = 50  # queries for what takes long


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=Path, required=True, help="click log with the titles")
    parser.add_argument("--queries", type=Path, nargs="+", required=True, help="files with a column `query`")
    parser.add_argument("--titles", type=int, default=1_000_000)
    parser.add_argument("--alone", action="store_true", help="measure only our own")
    options = parser.parse_args()
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # bm25s sets it to DEBUG
    titles = read_titles(options.clicks, options.titles)
    segment, seconds = timed(lambda: WordSegment.build(titles))
    length = segment.total_length / len(segment)
    print(f"{len(titles):,} titles of {length:.1f} words; k1 = {K1}, b = {B}; {K} hits")
    sizes = {name: array.nbytes / 1e6 for name, array in segment.arrays().items()}
    print(f"clickvec  index {seconds:5.1f} s  {sum(sizes.values()):4.0f} MB;", end="")
    print(f" {sizes['positions'] + sizes['codes']:.0f} MB for {len(segment.positions):,} postings,", end="")
    print(f" the rest for {len(segment.hashes):,} words and their misspellings; opens in {opening(segment):.0f} ms")
    baselines = [] if options.alone else [Bm25s(titles), Tantivy(titles)]
    for path in options.queries:
        measure(segment, path, baselines)


def measure(segment: WordSegment, path: Path, baselines: Sequence[Any]) -> None:
    """Print the times of the queries of a file."""
    words, queries = Words([segment], K1, B), read_queries(path, 1000)
    length = np.mean([len(plain_words(query)) for query in queries])
    print(f"\n{path.name}: {len(queries):,} queries of {length:.1f} words" + "   ms: p50    p95    p99")
    report("clickvec, compiled", queries, lambda query: words.best(words.terms(query), K))
    with patch.object(postings, "functions", return_value=None):
        words = Words([segment], K1, B)  # it has no postings at hand
        report("clickvec, NumPy", queries, lambda query: words.best(words.terms(query), K))
    for baseline in baselines:
        baseline.measure(queries)
    terms = {query: words.terms(query) for query in queries}
    hits = {query: words.best(terms[query], K)[0] for query in queries}
    allowed = np.random.default_rng(0).random(len(words)) < 0.01
    report("  terms", queries, words.terms)
    report("  terms, a typo in each query", with_typos(queries), words.terms)
    report("  best", queries, lambda query: words.best(terms[query], K))
    report("  best, 1% allowed", queries, lambda query: words.best(terms[query], K, allowed))
    report("  matches of 100 hits", queries, lambda query: words.matches(terms[query], hits[query]))
    if baselines:
        check_scores(words, queries[:SLOW], baselines[0])


def read_titles(path: Path, count: int) -> list[str]:
    """Return distinct titles without extra words; pairs of them if there are fewer than `count`."""
    distinct = [
        title for title in dict.fromkeys(read_clicks(path).titles) if not extra_words(title, plain_words(title))
    ]
    random.Random(0).shuffle(distinct)
    titles = dict.fromkeys(distinct[:count])
    step = 1
    while len(titles) < count:
        for first, second in zip(distinct, distinct[step:], strict=False):
            if len(titles) == count:
                break
            titles[f"{first} {second}"] = None
        step += 1
    return list(titles)


def read_queries(path: Path, count: int) -> list[str]:
    """Return a random sample of the distinct queries of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        column = next(lines).rstrip("\n").split("\t").index("query")
        queries = list(dict.fromkeys(line.split("\t")[column] for line in lines))
    return random.Random(0).sample(queries, min(count, len(queries)))


def with_typos(queries: Sequence[str]) -> list[str]:
    """Return queries with two letters swapped in the longest word of each."""
    changed = []
    for query in queries:
        longest = max(query.split(), key=len)
        middle = len(longest) // 2
        typo = longest[: middle - 1] + longest[middle - 1 : middle + 1][::-1] + longest[middle + 1 :]
        changed.append(query.replace(longest, typo))
    return changed


def timed(work: Callable[[], WordSegment]) -> tuple[WordSegment, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def opening(segment: WordSegment) -> float:
    """Return the milliseconds to open a stored segment, memory-mapped, and to search it once."""
    with tempfile.TemporaryDirectory() as folder:
        for name, array in segment.arrays().items():
            np.save(Path(folder, f"{name}.npy"), array)
        start = time.perf_counter()
        arrays = {file.stem: np.load(file, mmap_mode="r") for file in Path(folder).iterdir()}
        words = Words([WordSegment.from_arrays(arrays)])
        words.best(words.terms("new york"), K)
        return 1000 * (time.perf_counter() - start)


def report(name: str, queries: Sequence[str], search: Callable[[str], object]) -> None:
    """Print the percentiles of the CPU time of a query. The first tenth of the queries is not measured."""
    times = []
    for query in queries:
        start = time.thread_time()
        search(query)
        times.append(1000 * (time.thread_time() - start))
    percentiles = np.percentile(times[len(times) // 10 :], (50, 95, 99))
    print(f"{name:34}" + "".join(f"{value:7.2f}" for value in percentiles), flush=True)


class Bm25s:
    """bm25s over the same words, compiled by numba as its authors advise."""

    def __init__(self, titles: Sequence[str]) -> None:
        import bm25s

        start = time.process_time()
        numbers = self._numbers = {}
        corpus = [[numbers.setdefault(indexed(word), len(numbers)) for word in plain_words(title)] for title in titles]
        self._index = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numba")
        self._index.index((corpus, numbers), show_progress=False)
        seconds = time.process_time() - start
        size = sum(array.nbytes for array in self._index.scores.values() if isinstance(array, np.ndarray))
        print(f"bm25s     index {seconds:5.1f} s  {size / 1e6:4.0f} MB")

    def measure(self, queries: Sequence[str]) -> None:
        """Print the times of queries. numba compiles at the first one, which is not measured."""
        report("bm25s, numba", queries, self.search)

    def search(self, query: str) -> np.ndarray:
        """Return the best scores."""
        known = [word for word in map(indexed, plain_words(query)) if word in self._numbers]
        if not known:
            return np.zeros(K, np.float32)
        return self._index.retrieve([known], k=K, show_progress=False, n_threads=1).scores[0]


class Tantivy:
    """tantivy over the same words. It has k1 = 1.2 and b = 0.75 built in."""

    def __init__(self, titles: Sequence[str]) -> None:
        import tantivy

        start = time.process_time()
        schema = tantivy.SchemaBuilder().add_text_field("title", tokenizer_name="whitespace").build()
        self._folder = tempfile.TemporaryDirectory()
        self._index = tantivy.Index(schema, path=self._folder.name)
        writer = self._index.writer(heap_size=500_000_000, num_threads=1)
        for title in titles:
            writer.add_document(tantivy.Document(title=" ".join(map(indexed, plain_words(title)))))
        writer.commit()
        writer.wait_merging_threads()
        seconds = time.process_time() - start
        size = sum(file.stat().st_size for file in Path(self._folder.name).iterdir())
        self._index.reload()
        self._searcher = self._index.searcher()
        print(f"tantivy   index {seconds:5.1f} s  {size / 1e6:4.0f} MB; {self._searcher.num_segments} segments")

    def measure(self, queries: Sequence[str]) -> None:
        """Print the times of queries."""
        report("tantivy", queries, self.search)

    def search(self, query: str) -> object:
        """Return the best titles."""
        words = " ".join(map(indexed, plain_words(query)))
        return self._searcher.search(self._index.parse_query(words, ["title"]), K) if words else None


def check_scores(words: Words, queries: Sequence[str], baseline: Bm25s) -> None:
    """Compare the scores of the best titles with those of bm25s, for the words that titles contain."""
    largest = 0.0
    for query in queries:
        plain = set(plain_words(query))
        terms = [term for term in words.terms(query) if term.is_known and term.word in plain]
        _, mine = words.best(terms, K)
        other = baseline.search(query)
        other = other[other > 0]
        assert len(mine) == len(other), query
        largest = max(largest, float(np.max(np.abs(mine / other - 1), initial=0)))
    print(f"scores of clickvec and bm25s differ by at most {largest:.1e} of their value")


if __name__ == "__main__":
    main()
