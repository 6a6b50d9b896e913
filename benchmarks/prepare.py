"""How fast a click log becomes arrays: words, trigrams, ids; against counting and looking up text by text.

    python benchmarks/prepare.py

Two logs: the built-in one, where queries and titles come again, and made-up titles of which no two are the same. The
rival counts trigrams by `Vocabulary.count` and numbers them by `Vocabulary.ids`. The last line is JSON.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from train import texts

from clickvec import dataset
from clickvec.readers import BadLines, ClickLog
from clickvec.simulate import Site, impressions
from clickvec.text import StepTable, Vocabulary

PAIRS, IMPRESSIONS, REPEATS = 100_000, 1_000_000, 3


def built_in() -> ClickLog:
    """A row for each click of the built-in log."""
    site = Site.build(0)
    blocks = [(block.query[block.clicked], block.title[block.clicked]) for block in impressions(site, IMPRESSIONS)]
    query, title = (np.concatenate(parts).tolist() for parts in zip(*blocks, strict=True))
    queries, titles = [site.queries.text[place] for place in query], [site.titles.text[place] for place in title]
    return ClickLog(queries, titles, np.ones(len(queries)), BadLines())


def by_text(log: ClickLog) -> None:
    """The rival."""
    table, vocabulary = StepTable(10), Vocabulary.count([*log.queries, *log.titles])
    table.read(log.queries)
    table.read(log.titles)
    table.trigrams(vocabulary)


def rate(run: Callable[[], object], pairs: int) -> float:
    """Pairs a second, the median of several runs, by the time of the processor."""
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        run()
        found.append(pairs / (time.process_time() - begun))
    return statistics.median(found)


def main() -> None:
    made_up = ClickLog(*texts(PAIRS), np.ones(PAIRS), BadLines())
    report = {}
    for name, log in (("built in", built_in()), ("all different", made_up)):
        rows = len(log.queries)
        ours = rate(lambda log=log: dataset.prepare(log, 10, 50_000), rows)
        rival = rate(lambda log=log: by_text(log), rows)
        print(f"{name:14} {rows:9,} rows   {ours:9,.0f} rows/s   in Python {rival:9,.0f}   ratio {ours / rival:.2f}")
        report[name] = {"rows": rows, "ours": ours, "rival": rival, "ratio": ours / rival}
    data = dataset.prepare(made_up, 10, 50_000)
    with tempfile.TemporaryDirectory() as place:
        dataset.save(data, Path(place) / "data")
        opening = rate(lambda: dataset.load(Path(place) / "data"), 1)
    print(f"opening the data folder of the second: {1000 / opening:.0f} ms")
    print(json.dumps(report | {"open_ms": 1000 / opening}))


if __name__ == "__main__":
    main()
