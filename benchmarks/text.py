"""Measure how fast text becomes ids on one core, in nine-word titles/s, compared with the plainest Python.

    python benchmarks/text.py

The baseline splits and lower-cases each title and looks its words up in a dict; it makes no array. The last line is
JSON.
"""

import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from clickvec.lab.simulate import Site
from clickvec.text.token_table import TokenTable
from clickvec.text.trigrams import Vocabulary

TITLES, WORDS, REPEATS = 200_000, 9, 7


def titles() -> list[str]:
    """Return titles of nine words of the built-in log."""
    words = sorted({word for title in Site.build(0).titles.text for word in title.split()})
    rng = np.random.default_rng(0)
    return [" ".join(words[place] for place in row) for row in rng.integers(0, len(words), (TITLES, WORDS)).tolist()]


def rate(run: Callable[[], object]) -> float:
    """Return titles/s, the median of several runs."""
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run()
        found.append(TITLES / (time.perf_counter() - started))
    return statistics.median(found)


def main() -> None:
    texts = titles()
    table, vocabulary = TokenTable(max_words=10), Vocabulary.count(texts[:20_000])
    started = time.perf_counter()
    table.read(texts)
    vocabulary.rows(table)
    cold = TITLES / (time.perf_counter() - started)
    plain = {word: number for number, word in enumerate(table[:])}
    known = rate(lambda: table.read(texts))
    baseline = rate(lambda: [[plain[word] for word in text.lower().split()] for text in texts])
    print(f"{TITLES:,} titles of {WORDS} words, {len(table):,} distinct words, one core")
    print(f"words known            {known:12,.0f} titles/s")
    print(f"words new, trigrams too {cold:11,.0f} titles/s")
    print(f"plain Python    {baseline:12,.0f} titles/s   ratio {known / baseline:.2f}")
    print(json.dumps({"known": known, "cold": cold, "baseline": baseline, "ratio": known / baseline}))


if __name__ == "__main__":
    main()
