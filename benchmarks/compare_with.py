"""Compare another commit with the present tree, on this machine: weights, vectors, hits and their quality.

    python benchmarks/compare_with.py COMMIT [--data ../shared/data] [--logs built-in,msrd,dbpedia] [--out out/compare]

Each tree runs its own code, in a process of its own: it trains on the same logs with the same settings, indexes the
same catalogue, and searches 500 queries in each mode. Stored results would not do: the last bits of a float differ
between CPUs. Then this program prints, for each log, which weights and vectors are equal, for how many queries the hits
are (ids in order, and scores to 1e-6), and the quality of both trees on the judged test set. The results of the other
commit are kept in `--out`, and not computed again.

The built-in log is simulated by the other commit. Without `--data`, or where a log is missing there, only the built-in
one is compared. `msrd` takes all of its pairs; `dbpedia` takes the first pair of every seven redirects, so that it
trains in minutes.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODES = ("words", "vectors", "hybrid")
MEASURES = ("MRR@10", "Recall@100", "NDCG@10")
RECIPES = {  # name -> options of train; a few epochs show a difference as well as many
    "lstm": [],
    "lstm, paper": ["--recipe", "paper"],
    "rnn": ["--tower", "rnn"],
    "bilstm": ["--tower", "bilstm"],
    "dssm": ["--tower", "dssm"],
}
QUERIES, HITS, EVERY = 500, 100, 7

# Runs in each tree. It uses nothing but what both trees promise: an index opens by its path and answers `search`.
CHILD = """
import json, sys, hashlib
from clickvec import Encoder, Index
index, model, queries, out, k = sys.argv[1:]
texts = json.load(open(queries))
with Index.open(index) as opened:
    found = {
        mode: [[[str(hit.id), hit.title, float(hit.score)] for hit in opened.search(text, k=int(k), mode=mode)]
               for text in texts]
        for mode in ("words", "vectors", "hybrid")
    }
vectors = Encoder.load(model).encode_query(texts)
json.dump({"hits": found, "vectors": hashlib.sha256(vectors.tobytes()).hexdigest()}, open(out, "w"))
"""


class Log(NamedTuple):
    """The files of a log, the same ones for both trees."""

    name: str
    clicks: Path
    catalogue: Path
    judged: Path


class Tree(NamedTuple):
    """A checkout, and the folder of its results."""

    code: Path
    out: Path

    def run(self, *arguments: str | Path) -> None:
        """Run Python with the code of this tree. End this program if it fails."""
        environment = {**os.environ, "PYTHONPATH": str(self.code), "OMP_NUM_THREADS": "2"}
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], env=environment, cwd=self.out, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{self.code}: {' '.join(map(str, arguments[:6]))} failed:\n{done.stderr}")

    def keeps(self, result: Path) -> bool:
        """Return whether a result is there that this tree would compute again: that of a commit does not change."""
        return self.code != ROOT and result.exists()

    def clickvec(self, *arguments: str | Path) -> None:
        """Run a verb."""
        self.run("-m", "clickvec", *arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--logs", default="built-in,msrd,dbpedia")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "compare")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    data, code = arguments.data.resolve(), checkout(arguments.commit, out)
    before, now = Tree(code, out / f"results-{code.name}"), Tree(ROOT, out / "results-now")
    for tree in (before, now):
        tree.out.mkdir(parents=True, exist_ok=True)
    names = arguments.logs.split(",")
    logs = [log for log in logs_of(data, before, out) if log.name in names and log.clicks.exists()]
    print("weights of the built-in log")
    for name, options in RECIPES.items():
        hashes = [weights(tree, logs[0], name, options) for tree in (before, now)]
        print(f"  {name:12} {'equal' if hashes[0] == hashes[1] else 'DIFFERENT'}")
    for log in logs:
        judged = read_judged(log.judged)
        print(f"\n{log.name}: {len(judged):,} judged queries")
        compare(log, before, now, judged)


def checkout(commit: str, out: Path) -> Path:
    """Check the commit out beside the results, and compile its C code."""
    name = subprocess.run(["git", "rev-parse", commit], cwd=ROOT, capture_output=True, text=True, check=True)
    code = out / f"tree-{name.stdout.strip()[:12]}"
    if not code.exists():
        subprocess.run(["git", "worktree", "add", "--detach", code, commit], cwd=ROOT, check=True, capture_output=True)
        subprocess.run([sys.executable, "clickvec/native/build.py"], cwd=code, check=True, capture_output=True)
    return code


def logs_of(data: Path, before: Tree, out: Path) -> list[Log]:
    """Return the built-in log, and the public ones that are there."""
    site = out / "site"
    if not site.exists():
        before.clickvec("lab", "simulate", site, "--impressions", "200000")
    logs = [Log("built-in", site / "clicks.tsv.gz", site / "titles.tsv.gz", site / "test.tsv.gz")]
    msrd, dbpedia = data / "msrd", data / "dbpedia"
    logs.append(Log("msrd", msrd / "clicks.tsv.gz", msrd / "titles.tsv.gz", msrd / "test.tsv.gz"))
    if dbpedia.exists():
        clicks, titles = out / "dbpedia.tsv", out / "dbpedia-titles.tsv"
        if not clicks.exists():
            rows = [*islice(lines(dbpedia / "clicks_redirects.tsv.gz"), 0, None, EVERY)]
            rows += lines(dbpedia / "clicks_questions.tsv.gz")
            write(clicks, "query\ttitle\tclicks", rows)
            every = {row.split("\t")[1] for row in rows}
            every |= {row.split("\t")[3] for row in lines(dbpedia / "test.tsv.gz")}
            write(titles, "doc_id\ttitle", (f"d{number}\t{title}" for number, title in enumerate(sorted(every))))
        logs.append(Log("dbpedia", clicks, titles, dbpedia / "test.tsv.gz"))
    return logs


def lines(path: Path) -> Iterable[str]:
    """Return the lines behind the header."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[1:-1]


def write(path: Path, header: str, rows: Iterable[str]) -> None:
    """Write a table."""
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")


def weights(tree: Tree, log: Log, name: str, options: Sequence[str]) -> str:
    """Train two epochs, and return the hash of the weights."""
    model = tree.out / f"weights-{name.replace(', ', '-')}"
    if not tree.keeps(model / "weights.safetensors"):
        shutil.rmtree(model, ignore_errors=True)
        tree.clickvec("train", log.clicks, "--out", model, "--set", "epochs=2", *options)
    return hashlib.sha256((model / "weights.safetensors").read_bytes()).hexdigest()


def compare(log: Log, before: Tree, now: Tree, judged: dict[str, dict[str, float]]) -> None:
    """Train, index and search in both trees, and print what differs."""
    results, hashes = [], []
    for tree in (before, now):
        model, index, out = (tree.out / f"{log.name}{ending}" for ending in ("-model", "-index", "-hits.json"))
        queries = tree.out / f"{log.name}-queries.json"
        queries.write_text(json.dumps(list(judged)), encoding="utf-8")
        if not tree.keeps(out):
            for path in (model, index):
                shutil.rmtree(path, ignore_errors=True)
            tree.clickvec("train", log.clicks, "--catalogue", log.catalogue, "--out", model)
            tree.clickvec("index", model, log.catalogue, "--out", index)
            tree.run("-c", CHILD, index, model, queries, out, HITS)
        results.append(json.loads(out.read_text()))
        hashes.append(hashlib.sha256((model / "weights.safetensors").read_bytes()).hexdigest())
    print(f"  weights {'equal' if hashes[0] == hashes[1] else 'DIFFERENT'}", end=", ")
    print(f"vectors {'equal' if results[0]['vectors'] == results[1]['vectors'] else 'DIFFERENT'}")
    columns = ("same ids of 10", "and scores", "same ids", "and scores")
    print(f"  {'':9}{''.join(f'{name:>16}' for name in columns)}  {' / '.join(MEASURES)}: before, now")
    for mode in MODES:
        pairs = list(zip(*(result["hits"][mode] for result in results), strict=True))
        tests = [(k, test) for k in (10, HITS) for test in (same_ids, same)]
        counts = [sum(test(one[:k], other[:k]) for one, other in pairs[:QUERIES]) for k, test in tests]
        figures = [quality(result["hits"][mode], judged) for result in results]
        shown = ",  ".join(" / ".join(f"{value:5.2f}" for value in row) for row in figures)
        print(f"  {mode:9}{''.join(f'{count:>16}' for count in counts)}  {shown}")


def same_ids(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two lists have the same ids in the same order."""
    return [hit[0] for hit in one] == [hit[0] for hit in other]


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether they also have the same scores."""
    return same_ids(one, other) and all(
        abs(hit[2] - second[2]) <= 1e-6 * max(1.0, abs(hit[2])) for hit, second in zip(one, other, strict=True)
    )


def read_judged(path: Path) -> dict[str, dict[str, float]]:
    """Return the gain of each title of each query that has a relevant one. Equal texts of titles count once."""
    judged: dict[str, dict[str, float]] = {}
    for row in lines(path):
        _, query, _, title, grade = row.split("\t")
        gains = judged.setdefault(query, {})
        gains[title] = max(gains.get(title, 0.0), 2.0 ** float(grade) - 1)
    return {query: gains for query, gains in judged.items() if any(gains.values())}


def quality(hits: Sequence[Sequence[Any]], judged: dict[str, dict[str, float]]) -> list[float]:
    """Return the means of the measures, in per cent. A title without a grade is not relevant."""
    sums = [0.0] * len(MEASURES)
    for found, gains in zip(hits, judged.values(), strict=True):
        titles = list(dict.fromkeys(hit[1] for hit in found))
        worth = [gains.get(title, 0.0) for title in titles]
        ideal = sorted((gain for gain in gains.values() if gain), reverse=True)
        first = next((rank for rank, gain in enumerate(worth[:10], 1) if gain), 0)
        sums[0] += 1 / first if first else 0.0
        sums[1] += sum(gain > 0 for gain in worth) / len(ideal)
        sums[2] += discounted(worth[:10]) / discounted(ideal[:10])
    return [100 * total / len(judged) for total in sums]


def discounted(gains: Sequence[float]) -> float:
    """Return the discounted sum of gains."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


if __name__ == "__main__":
    main()
