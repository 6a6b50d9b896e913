"""Search an index beside writes, and both beside a bulk addition: another commit against the present tree, in turn.

    python benchmarks/beside_writes.py COMMIT [--titles 200000] [--bulk 50000] [--rounds 3] [--seconds 20]

Each tree builds an index of the same made-up titles. In each round, both run on a fresh copy: one process searches as
fast as it can, another one adds a document 100 times a second (half of them replace others), first alone, then while a
third one adds many documents at once. The table has the median of the rounds; the last line is JSON.
"""

import argparse
import json
import os
import random
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WRITES = 100  # a second
WORDS = 30_000


def titles(count: int, seed: int) -> list[str]:
    """Return titles of made-up words, of which few are frequent."""
    chance = random.Random(seed)
    letters = "abcdefghiklmnoprstuvwz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(WORDS)]
    return [
        " ".join(words[int(WORDS * chance.random() ** 3)] for _ in range(chance.randint(3, 9))) for _ in range(count)
    ]


# --- what a process of one tree does -------------------------------------------------------------------------------


def build(path: Path, count: int) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from tiny import tiny_model

    from clickvec import Encoder, Index
    from clickvec.search.index import Document

    model = tiny_model(path.with_name("model"), cells=128, hidden=128, output=128)
    documents = (Document(f"t{at}", title) for at, title in enumerate(titles(count, 0)))
    Index.create(path, Encoder.load(model), documents).close()


def search(path: Path) -> None:
    """Search until stdin ends. Print how many searches there were and how long they took, at each line of stdin."""
    from clickvec import Index

    index, queries, taken = Index.open(path), [" ".join(title.split()[:3]) for title in titles(2_000, 0)], list[float]()
    started = time.perf_counter()
    print("ready", flush=True)
    for number in range(10**9):
        before = time.perf_counter()
        index.search(queries[number % len(queries)])
        taken.append(time.perf_counter() - before)
        if number % 20 == 0 and (line := waiting_line()):
            rate = len(taken) / (time.perf_counter() - started)
            print(json.dumps({"searches/s": rate, **quantiles(taken)}), flush=True)
            if line == "end\n":
                return
            started, taken = time.perf_counter(), []


def write(path: Path, count: int) -> None:
    """Add a document 100 times a second. Print how long it took, at each line of stdin."""
    from clickvec import Index

    index, new, chance, taken = Index.open(path), titles(5_000, 1), random.Random(1), list[float]()
    index.add(ids=["first"], titles=["first"])
    print("ready", flush=True)
    start = time.perf_counter()
    for number in range(10**9):
        time.sleep(max(0.0, start + number / WRITES - time.perf_counter()))
        before = time.perf_counter()
        doc_id = f"t{chance.randrange(count)}" if number % 2 else f"n{number}"
        index.add(ids=[doc_id], titles=[new[number % len(new)]])
        taken.append(time.perf_counter() - before)
        if line := waiting_line():
            print(json.dumps({"writes": len(taken), **quantiles(taken)}), flush=True)
            if line == "end\n":
                return
            taken, start = [], time.perf_counter() - (number + 1) / WRITES


def bulk(path: Path, count: int) -> None:
    from clickvec import Index

    index, new = Index.open(path), titles(count, 2)
    started = time.perf_counter()
    index.add(ids=[f"b{at}" for at in range(count)], titles=new)
    print(json.dumps({"seconds": time.perf_counter() - started, "titles": len(index)}))


def waiting_line() -> str:
    return sys.stdin.readline() if select.select([sys.stdin], [], [], 0)[0] else ""


def quantiles(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {
        name: 1000 * ordered[int(share * (len(ordered) - 1))]
        for name, share in (("p50 ms", 0.5), ("p95 ms", 0.95), ("slowest ms", 1))
    }


# --- rounds ----------------------------------------------------------------------------------------------------------


def start(code: Path, *arguments: object) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--role", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: "subprocess.Popen[str]", line: str = "") -> dict[str, float]:
    assert process.stdin
    assert process.stdout
    if line:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
    answer = process.stdout.readline()
    return dict(json.loads(answer)) if answer.startswith("{") else {}


def measure(code: Path, source: Path, options: argparse.Namespace) -> dict[str, float]:
    """Run one round of one tree."""
    path = source.with_name("round")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    searching, writing = start(code, "search", path), start(code, "write", path, options.titles)
    found: dict[str, float] = {}
    for process in (writing, searching):
        ask(process)
    for phase in ("", "bulk: "):
        for process in (writing, searching):
            ask(process, "next")
        if phase:
            adding = start(code, "bulk", path, options.bulk)
            found["bulk: seconds"] = ask(adding)["seconds"]
            adding.wait()
        else:
            time.sleep(options.seconds)
        for name, process in (("write", writing), ("search", searching)):
            answer = ask(process, "end" if phase else "next")
            found |= {f"{phase}{name} {key}": value for key, value in answer.items()}
    for process in (writing, searching):
        process.wait()
    return found


def checkout(commit: str, at: Path) -> Path:
    """Check a commit out, and compile its C code."""
    code = at / "tree"
    subprocess.run(["git", "worktree", "add", "--detach", code, commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "clickvec/native/build.py"], cwd=code, check=True, capture_output=True)
    return code


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        role, path, *numbers = sys.argv[2:]
        roles: dict[str, Any] = {"build": build, "search": search, "write": write, "bulk": bulk}
        roles[role](Path(path), *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--titles", type=int, default=200_000)
    parser.add_argument("--bulk", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        trees = {"before": checkout(options.commit, at), "now": ROOT}
        try:
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
            for name, code in trees.items():
                (at / name).mkdir()
                start(code, "build", at / name / "index", options.titles).wait()
            for number in range(options.rounds):
                for name in (*trees,) if number % 2 else (*trees,)[::-1]:
                    rounds[name].append(measure(trees[name], at / name / "index", options))
                    print(f"round {number + 1}, {name}: {json.dumps(rounds[name][-1])}", file=sys.stderr, flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", at / "tree"], cwd=ROOT, check=True)
    medians = {
        name: {key: statistics.median(one[key] for one in every) for key in every[0]} for name, every in rounds.items()
    }
    print(f"{'':28}{'before':>12}{'now':>12}{'ratio':>10}")
    for key, value in medians["before"].items():
        print(f"{key:28}{value:12,.1f}{medians['now'][key]:12,.1f}{medians['now'][key] / value:10.2f}")
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
