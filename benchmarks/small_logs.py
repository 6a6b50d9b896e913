"""Does hybrid search do no harm if the log is small? Words, vectors and hybrid search as served, by clicks of the log.

    python benchmarks/small_logs.py --clicks msrd/clicks.tsv.gz --titles msrd/titles.tsv.gz --test msrd/test.tsv.gz
    clickvec lab simulate site --impressions 600000
    python benchmarks/small_logs.py --clicks site/clicks.tsv.gz --titles site/titles.tsv.gz --test site/test.tsv.gz

Draws queries at random until they have so many pairs (other ones in each draw), trains on them with recipe `default`,
indexes the catalogue and searches it for the queries of the test set. Prints NDCG@10 in per cent (the mean of all
draws) of hybrid search, of words and vectors alone and of the default mixture; the least that hybrid search is ahead of
words in a draw; and what training has chosen in each. `--log-alone` trains without the titles of the catalogue, and
`--no-hold-out` on all pairs. The last line is JSON.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import clickvec
from clickvec.data import ClickLog, read_clicks, read_judged, read_titles
from clickvec.evaluation.index_measures import index_rankers, index_test_set
from clickvec.evaluation.measure import measure
from clickvec.evaluation.result import text_table
from clickvec.search.fusion import Fusion
from clickvec.search.index import Index
from clickvec.search.parts import MODES

SIZES = (20, 50, 150, 500, 1_200, 4_000)
NDCG = "NDCG@10"


def draw(log: ClickLog, size: int, seed: int) -> ClickLog:
    """Return so many pairs of random queries, with all pairs of each query but the last."""
    queries = list(dict.fromkeys(log.queries))
    order = np.random.default_rng(seed).permutation(len(queries)).tolist()
    place = {queries[number]: at for at, number in enumerate(order)}
    rows = sorted(range(len(log)), key=lambda row: (place[log.queries[row]], row))[:size]
    return ClickLog([log.queries[row] for row in rows], [log.titles[row] for row in rows], log.clicks[rows])


def run_cell(log: ClickLog, titles: list[str], test: Any, options: argparse.Namespace) -> dict[str, Any]:  # noqa: ANN401
    """Train on a log, and measure an index of the catalogue."""
    more: dict[str, Any] = {"dev": None} if options.no_hold_out else {}
    if not options.log_alone:
        more["catalogue"] = titles
    with tempfile.TemporaryDirectory() as place:
        encoder = clickvec.train(log, Path(place) / "model", device="cpu", **more)
        index = Index.build(encoder, titles)
    queries = index_test_set(index, test).sample(options.queries)
    served = measure(index_rankers(index), queries)
    cell: dict[str, Any] = {mode: served.mean(mode, NDCG) for mode in MODES}
    cell["chosen"] = (index.fusion_report or {}).get("chosen", "default")
    index.use_fusion(Fusion.default())
    cell["default"] = measure(index_rankers(index, ["hybrid"]), queries).mean("hybrid", NDCG)
    return cell | {"queries": len(set(log.queries))}


def row_of(size: int, cells: list[dict[str, Any]]) -> list[str]:
    """Return a row of the table: the means of all draws."""
    means = [f"{np.mean([cell[name] for cell in cells]):.1f}" for name in ("words", "vectors", "default", "hybrid")]
    ahead = min(cell["hybrid"] - cell["words"] for cell in cells)
    chosen = ", ".join(f"{name} {count}" for name, count in Counter(cell["chosen"] for cell in cells).most_common())
    queries = f"{np.mean([cell['queries'] for cell in cells]):,.0f}"
    return [f"{size:,}", queries, *means, f"{ahead:+.1f}", chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=Path, required=True)
    parser.add_argument("--titles", type=Path, required=True, help="the catalogue")
    parser.add_argument("--test", type=Path, required=True, help="a judged set")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="pairs of query and title")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--queries", type=int, default=1_000, help="of the test set, a random sample of that size")
    parser.add_argument("--log-alone", action="store_true", help="train without the titles of the catalogue")
    parser.add_argument("--no-hold-out", action="store_true", help="train on all pairs")
    options = parser.parse_args()
    log, test = read_clicks(options.clicks), read_judged(options.test)
    titles = list(dict.fromkeys(entry.title for entry in read_titles(options.titles, ids="unused")))
    head = ["pairs", "queries", "words", "vectors", "default", "hybrid", "least ahead of words", "chosen"]
    rows, cells = [head], dict[int, list[dict[str, Any]]]()
    for size in options.sizes:
        for seed in range(1, options.draws + 1):
            cells.setdefault(size, []).append(run_cell(draw(log, size, seed), titles, test, options))
            print(f"{size:,} pairs, draw {seed}: {json.dumps(cells[size][-1])}", file=sys.stderr, flush=True)
        rows.append(row_of(size, cells[size]))
    print(f"NDCG@10 over {len(titles):,} titles\n{text_table(rows)}\n{json.dumps(cells)}")


if __name__ == "__main__":
    main()
