"""Hold queries out of a click log as a second dev set, for data whose own is small: how `default` was tuned on dbpedia.

    python benchmarks/heldout.py --clicks questions.tsv.gz --hold 1200 --clicks redirects.tsv.gz --hold 300 --out DIR

Writes DIR/clicks_0.tsv.gz, DIR/clicks_1.tsv.gz ..., the logs without the queries held out, and DIR/heldout.tsv.gz, a
judged set: for each such query its clicked titles (grade 1) among 40 that BM25 finds and 20 at random (grade 0).
"""

import argparse
import gzip
import random
from pathlib import Path

import bm25s

from clickvec.data import read_clicks

MOST_TITLES = 300_000  # searched; of more, as many at random
FOUND, RANDOM = 40, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=Path, action="append", required=True)
    parser.add_argument("--hold", type=int, action="append", required=True, help="queries held out of each log")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    logs = [read_clicks(path) for path in options.clicks]
    held = {
        query
        for log, count in zip(logs, options.hold, strict=True)
        for query in rng.sample(sorted(set(log.queries)), count)
    }
    titles = sorted({title for log in logs for title in log.titles})
    titles = rng.sample(titles, min(MOST_TITLES, len(titles)))
    options.out.mkdir(parents=True, exist_ok=True)
    clicked: dict[str, list[str]] = {}
    for number, log in enumerate(logs):
        with gzip.open(options.out / f"clicks_{number}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("query\ttitle\tclicks\n")
            for query, title, clicks in zip(log.queries, log.titles, log.clicks.tolist(), strict=True):
                if query in held:
                    clicked.setdefault(query, []).append(title)
                else:
                    file.write(f"{query}\t{title}\t{clicks:g}\n")
    index = bm25s.BM25(k1=0.5, b=0.8)
    index.index(bm25s.tokenize(titles, stopwords=[], show_progress=False), show_progress=False)
    with gzip.open(options.out / "heldout.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("query_id\tquery\tdoc_id\ttitle\tgrade\n")
        for number, (query, good) in enumerate(sorted(clicked.items())):
            words = bm25s.tokenize([query], stopwords=[], show_progress=False)
            found = [titles[place] for place in index.retrieve(words, k=FOUND, show_progress=False)[0][0]]
            listed = list(dict.fromkeys([*good, *found, *rng.sample(titles, RANDOM)]))
            rng.shuffle(listed)
            for place, title in enumerate(listed):
                file.write(f"{number}\t{query}\t{number}-{place}\t{title}\t{int(title in good)}\n")


if __name__ == "__main__":
    main()
