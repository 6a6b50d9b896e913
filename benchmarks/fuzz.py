"""Feed damaged files of every format to the command line: each must be accepted, or refused in one sentence.

    python benchmarks/fuzz.py [--files 30000] [--seed 0] [--jobs 2]

Each file is a valid one with one to four mutations: bits are flipped; bytes are cut, doubled, replaced or inserted,
some of them hostile (nested brackets, huge numbers, escapes). If a folder records sizes, samples and hashes of its
files, they are corrected in half of the cases, so that the damage passes this check. A command fails if it ends with
a traceback, runs for more than a minute, takes more than 12 GB or crashes; its case is printed with its seed. The
last line is JSON.

The formats "..., well formed" are damaged otherwise: values of the file get another type, range, shape or size, as in a
file that a stranger has made (hostile_values.py), and all records of its folder are corrected. A case fails also if the
command takes more than 2 GB of memory. `--only "well formed"` runs these alone.
"""

import argparse
import gzip
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

import hostile_values

from clickvec.cli.app import app
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.index import Index
from clickvec.search.segments import segment
from clickvec.search.vectors.approximate import LEAST_TITLES
from clickvec.storage.snapshot import describe_file

SECONDS = 60.0  # after which a command hangs
MEMORY = 12 * 2**30
MOST_RESIDENT = 2 * 2**30  # of a command that reads a well-formed file
SMALL = ["--set=cells=8", "--set=hidden=8", "--set=epochs=2", "--device=cpu"]
HOSTILE = [
    b"null", b"NaN", b"1e999", b"-1", b"0", b"9" * 30, b"1e-46", b"true", b"[]", b"{}", b'""', b"[" * 2000, b"{" * 2000,
    b"\0", b"\xff\xfe", b"\x1b[2J", b"\r\n", b"\t", b"\n", b'"', b"\\ud800", b"../", b"/dev/zero", "上海".encode(),
]  # fmt: skip


class Format(NamedTuple):
    """A kind of file: the path of a valid one, which may hold a *, and a command that reads it."""

    file: str
    command: Callable[[Path], list[str]]
    share: float = 1.0  # of the cases: less where a command takes long
    change: Callable[[Path, random.Random], None] | None = None  # of a file that stays well formed; None: of bytes


def formats() -> dict[str, Format]:
    def search(at: Path) -> list[str]:
        return ["search", f"{at}/index", "hotels in shanghai", "--json"]

    def search_large(at: Path) -> list[str]:
        return ["search", f"{at}/large", "hotels in shanghai", "--json"]

    def filter_it(at: Path) -> list[str]:
        return ["search", f"{at}/index", "hotels in shanghai", "--json", "--where", '{"url": {"exists": true}}']

    def about(at: Path) -> list[str]:
        return ["info", f"{at}/index"]

    def add(at: Path) -> list[str]:
        return ["index", "add", f"{at}/index", f"{at}/titles.tsv"]

    def info(at: Path) -> list[str]:
        return ["explain", f"{at}/model", "hotels in shanghai", "cheap hotels", "--json"]

    def train(at: Path) -> list[str]:
        return ["train", f"{at}/data", f"--out={at}/new", "--json", *SMALL]

    def resume(at: Path) -> list[str]:
        return ["train", f"{at}/data", f"--out={at}/started", "--resume", "--json", *SMALL]

    def prepare(name: str) -> Callable[[Path], list[str]]:
        return lambda at: ["prepare", f"{at}/{name}", f"--out={at}/new", "--json", "--max-bad=0.5"]

    def build(name: str) -> Callable[[Path], list[str]]:
        return lambda at: ["index", f"{at}/model", f"{at}/{name}", f"--out={at}/new", "--max-bad=0.5"]

    def evaluate(at: Path) -> list[str]:
        return ["evaluate", f"{at}/model", "--judged", f"{at}/judged.tsv", "--json", "--max-bad=0.5"]

    def qrels(at: Path) -> list[str]:
        options = ["--judged", f"{at}/qrels.txt", "--queries", f"{at}/queries.tsv", "--catalogue", f"{at}/titles.tsv"]
        return ["evaluate", f"{at}/model", *options, "--json", "--max-bad=0.5"]

    def recipe(at: Path) -> list[str]:
        return ["train", f"{at}/data", f"--out={at}/new", "--recipe-file", f"{at}/recipe.toml", *SMALL]

    def shrink(at: Path) -> list[str]:
        return ["shrink", f"{at}/model", f"--out={at}/new"]

    def report(at: Path) -> list[str]:
        return ["report", f"{at}/model", "--judged", f"{at}/judged.tsv", f"--out={at}/new", "--worst=0"]

    return {
        "click log, TSV": Format("clicks.tsv", prepare("clicks.tsv")),
        "click log, CSV": Format("clicks.csv", prepare("clicks.csv")),
        "click log, JSON lines": Format("clicks.jsonl", prepare("clicks.jsonl")),
        "click log, gzip": Format("packed.tsv.gz", prepare("packed.tsv.gz")),
        "judged set": Format("judged.tsv", evaluate),
        "TREC qrels": Format("qrels.txt", qrels),
        "queries of qrels": Format("queries.tsv", qrels),
        "catalogue, TSV": Format("titles.tsv", build("titles.tsv")),
        "catalogue, CSV": Format("titles.csv", build("titles.csv")),
        "catalogue, JSON lines": Format("titles.jsonl", build("titles.jsonl")),
        "model config.json": Format("model/config.json", info),
        "model weights.safetensors": Format("model/weights.safetensors", info),
        "model trigrams.txt": Format("model/trigrams.txt", info),
        "model README.md": Format("model/README.md", shrink),
        "model metrics.jsonl": Format("model/metrics.jsonl", report, 0.1),
        "index.json": Format("index/index.json", search),
        "index documents.sqlite": Format("index/documents.sqlite", search),
        "index segment.json": Format("index/segments/*/segment.json", search),
        "index seqs.npy": Format("index/segments/*/seqs.npy", search),
        "index vectors.npy": Format("index/segments/*/vectors.npy", search),
        "index words.safetensors": Format("index/segments/*/words.safetensors", search),
        "index fields.safetensors": Format("index/segments/*/fields.safetensors", search),
        "data.json": Format("data/data.json", train, 0.2),
        "data.safetensors": Format("data/data.safetensors", train, 0.2),
        "data trigrams.txt": Format("data/trigrams.txt", train, 0.2),
        "recipe.toml": Format("recipe.toml", recipe, 0.2),
        "checkpoint.safetensors": Format("started.run/checkpoint.safetensors", resume, 0.2),
    } | {
        f"{name}, well formed": kind
        for name, kind in {
            "settings, search": Format("index/documents.sqlite", search, 1, hostile_values.settings),
            "settings, info": Format("index/documents.sqlite", about, 1, hostile_values.settings),
            "settings, add": Format("index/documents.sqlite", add, 1, hostile_values.settings),
            "document": Format("index/documents.sqlite", search, 1, hostile_values.rows),
            "document, add": Format("index/documents.sqlite", add, 1, hostile_values.rows),
            "index.json": Format("index/index.json", search, 0.3, hostile_values.json_file),
            "segment.json": Format("index/segments/*/segment.json", search, 1, hostile_values.json_file),
            "seqs.npy": Format("index/segments/*/seqs.npy", search, 1, hostile_values.npy_file),
            "vectors.npy": Format("index/segments/*/vectors.npy", search, 1, hostile_values.npy_file),
            "words": Format("index/segments/*/words.safetensors", search, 1, hostile_values.arrays_file),
            "fields": Format("index/segments/*/fields.safetensors", filter_it, 1, hostile_values.arrays_file),
            "faiss": Format("large/segments/*/approximate.safetensors", search_large, 1, hostile_values.arrays_file),
            "model config": Format("model/config.json", info, 1, hostile_values.json_file),
            "model weights": Format("model/weights.safetensors", info, 1, hostile_values.arrays_file),
        }.items()
    }


def make_good(at: Path) -> None:
    """Write a valid file of each format."""
    pairs = [(f"{word} hotel {i % 7}", f"{word} hotels guide {i % 5}") for i in range(40) for word in ("paris", "oslo")]
    rows = [(*pair, str(1 + i % 4)) for i, pair in enumerate(pairs)]
    table = [("query", "title", "clicks"), *rows]
    (at / "clicks.tsv").write_text("".join("\t".join(row) + "\n" for row in table))
    (at / "clicks.csv").write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in table))
    objects = [dict(zip(table[0], (query, title, int(count)), strict=True)) for query, title, count in rows]
    (at / "clicks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    (at / "packed.tsv.gz").write_bytes(gzip.compress((at / "clicks.tsv").read_bytes()))
    titles = sorted({title for _, title in pairs})
    (at / "titles.tsv").write_text("doc_id\ttitle\turl\n" + "".join(f"d{i}\t{t}\t/{i}\n" for i, t in enumerate(titles)))
    (at / "titles.csv").write_text("doc_id,title\n" + "".join(f'd{i},"{t}"\n' for i, t in enumerate(titles)))
    entries = [
        {"doc_id": f"d{i}", "title": t, "price": i / 3, "tags": ["a", {"b": None}]} for i, t in enumerate(titles)
    ]
    (at / "titles.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    queries = sorted({query for query, _ in pairs})
    (at / "queries.tsv").write_text("query_id\tquery\n" + "".join(f"q{i}\t{q}\n" for i, q in enumerate(queries)))
    judged = [(i, query, j, title, (i + j) % 3) for i, query in enumerate(queries) for j, title in enumerate(titles)]
    lines = "".join(f"q{i}\t{query}\td{j}\t{title}\t{grade}\n" for i, query, j, title, grade in judged)
    (at / "judged.tsv").write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n" + lines)
    (at / "qrels.txt").write_text("".join(f"q{i} 0 d{j} {grade}\n" for i, _, j, _, grade in judged))
    (at / "recipe.toml").write_text('tower = "lstm"\nepochs = 1\ngamma = 10.0\nshared_tower = true\n')
    run(["prepare", f"{at}/clicks.tsv", f"--out={at}/data"])
    run(["train", f"{at}/data", f"--out={at}/model", "--dev", f"{at}/judged.tsv", *SMALL])
    make_indexes(at)
    begin_run(at)


def make_indexes(at: Path) -> None:
    """Write the indexes: one of the catalogue, and one that is large enough to be searched approximately."""
    run(["index", f"{at}/model", f"{at}/titles.tsv", f"--out={at}/index"])
    encoder = Encoder.load(at / "model")
    titles = (Document(number, f"paris hotels guide {number} oslo") for number in range(LEAST_TITLES))
    Index.create(at / "large", encoder, titles, search="approximate").close()


def begin_run(at: Path) -> None:
    """Start a training and interrupt it."""
    from clickvec.training.loop import Run

    finish = Run.finish
    Run.finish = lambda self, out: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    run(["train", f"{at}/data", f"--out={at}/started", *SMALL])
    Run.finish = finish  # type: ignore[method-assign]


def run(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    if done.exit_code and "started" not in str(arguments):
        sys.exit(f"{arguments}: {done.output} {done.exception!r}")


# --- damage ------------------------------------------------------------------------------------------------------


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return the data with one to four mutations."""
    for _ in range(rng.randint(1, 4)):
        first = rng.randrange(len(data) + 1)
        last = min(len(data), first + int(2 ** rng.uniform(0, math.log2(len(data) + 2))))
        kind = rng.randrange(7)
        if kind == 0 and data:
            place = rng.randrange(len(data))
            data = data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        elif kind == 1:
            data = data[:first] + data[last:]
        elif kind == 2:
            data = data[:last] + data[first:]
        elif kind == 3:
            data = data[:first]
        elif kind == 4:
            data = data[:first] + rng.choice(HOSTILE) + data[first:]
        elif kind == 5:
            data = data[:first] + rng.choice(HOSTILE) + data[last:]
        else:
            data = data[:first] + rng.randbytes(min(last - first, 64)) + data[last:]
    return data


def put_right(at: Path, file: str) -> None:
    """Correct the sizes and hashes that a folder records for a damaged file."""
    try:
        if file.startswith("model/"):
            config = json.loads((at / "model/config.json").read_text())
            config["files"] = {name: folder._bytes_and_hash(at / "model" / name) for name in config["files"]}
            config["samples"] = {name: describe_file(at / "model" / name) for name in config["files"]}
            config["fingerprint"] = folder._fingerprint(config)
            (at / "model/config.json").write_text(json.dumps(config))
        elif "/segments/" in file:
            index = at / file.partition("/")[0]
            record = next(index.glob("segments/*/segment.json"))
            if not file.endswith("segment.json"):
                about = json.loads(record.read_text())
                about["files"] = {name: segment.describe(record.parent / name) for name in about["files"]}
                record.write_text(json.dumps(about))
            with DocumentStore.open(index / "documents.sqlite", writing=True) as store:
                store.set_state(segment_crc32=zlib.crc32(record.read_bytes()))
        elif file.startswith("data/"):
            record = at / "data/data.json"
            about = json.loads(record.read_text())
            about["files"] = {name: describe_file(record.parent / name) for name in about["files"]}
            record.write_text(json.dumps(about))
    except Exception:  # the record itself is what was damaged
        return


def one_case(good: Path, at: Path, name: str, seed: str) -> str:
    """Damage a file, run its command, and return how it ended."""
    rng, chosen = random.Random(seed), formats()[name]
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(good, at)
    path = next(at.glob(chosen.file))
    if chosen.change is None:
        path.write_bytes(mutate(path.read_bytes(), rng))
    else:
        chosen.change(path, rng)
    if chosen.change is not None or rng.random() < 0.5:
        put_right(at, chosen.file)
    reset_peak()
    done = CliRunner().invoke(app, chosen.command(at))
    if chosen.change is not None and (size := peak_bytes()) > MOST_RESIDENT:
        return f"memory: {size / 2**30:.1f} GB"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"traceback: {done.exception!r:.300}"
    if done.exit_code == 0:
        return "NaN" if "NaN" in done.stdout else "accepted"
    said = [line for line in done.stderr.splitlines() if line.startswith("clickvec: ")]
    one_sentence = len(said) == 1 and "Traceback" not in done.stderr
    return "refused" if one_sentence else f"no message: {done.stderr!r:.300}"


def reset_peak() -> None:
    """Let the peak of this process's memory begin anew."""
    if Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the peak of this process's memory since it was reset; 0 if the system does not tell."""
    status = Path("/proc/self/status")
    return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 if status.exists() else 0


def check_good(good: Path, at: Path) -> None:
    """Check that each command succeeds on undamaged files."""
    for name, chosen in formats().items():
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(good, at)
        done = CliRunner().invoke(app, chosen.command(at))
        if done.exit_code:
            sys.exit(f"{name}, not damaged: {done.stderr} {done.exception!r}")


def work(good: Path, at: Path, pipe: Connection) -> None:
    """Run the cases that arrive through a pipe."""
    os.environ["OMP_NUM_THREADS"] = "1"
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while case := pipe.recv():
        pipe.send(one_case(good, at, *case))


class Worker:
    """A process that runs cases. It is replaced if a case hangs or crashes."""

    def __init__(self, good: Path, at: Path) -> None:
        self.good, self.at = good, at
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.pipe, there = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(self.good, self.at, there), daemon=True)
        self.process.start()
        there.close()
        self.case, self.started = ("", ""), 0.0

    def give(self, case: tuple[str, str]) -> None:
        """Send a case to the process."""
        self.case, self.started = case, time.monotonic()
        self.pipe.send(case)

    def outcome(self) -> str | None:
        """Return how the case ended, or None if it is still running."""
        try:
            if self.pipe.poll(0.001):
                return str(self.pipe.recv())
        except EOFError:
            self.process.join()
            found = f"crash: exit {self.process.exitcode}"
            self.start()
            return found
        if time.monotonic() - self.started > SECONDS:
            self.process.kill()
            self.start()
            return "hang"
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="formats whose name holds this")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    multiprocessing.set_start_method("forkserver")
    kinds = {name: kind for name, kind in formats().items() if options.only in name}
    whole = sum(kind.share for kind in kinds.values())
    cases = [
        (name, f"{options.seed}-{name}-{number}")
        for name, kind in kinds.items()
        for number in range(math.ceil(options.files * kind.share / whole))
    ]
    counts: dict[str, Counter[str]] = {name: Counter() for name in kinds}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
        good = Path(place) / "good"
        good.mkdir()
        make_good(good)
        check_good(good, Path(place) / "work0")
        workers = [Worker(good, Path(place) / f"work{number}") for number in range(options.jobs)]
        waiting = iter(cases)
        busy = [worker for worker in workers if (case := next(waiting, None)) and worker.give(case) is None]
        while busy:
            for worker in list(busy):
                case, outcome = worker.case, worker.outcome()
                if outcome is None:
                    continue
                counts[case[0]][outcome.split(":")[0]] += 1
                if outcome not in ("accepted", "refused"):
                    print(f"{case[1]}: {outcome}", flush=True)
                if following := next(waiting, None):
                    worker.give(following)
                else:
                    busy.remove(worker)
    kinds_of_end = ["accepted", "refused", "traceback", "hang", "crash", "NaN", "no message", "memory"]
    print(f"{'format':34}{'files':>8}" + "".join(f"{kind:>12}" for kind in kinds_of_end))
    for name, count in counts.items():
        print(f"{name:34}{count.total():8,}" + "".join(f"{count[kind]:12,}" for kind in kinds_of_end))
    total = sum(counts.values(), Counter[str]())
    print(json.dumps({"files": total.total(), **{kind: total[kind] for kind in kinds_of_end}}))
    sys.exit(total["accepted"] + total["refused"] < total.total())


if __name__ == "__main__":
    main()
