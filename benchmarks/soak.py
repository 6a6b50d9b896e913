"""Break a live index in every way we know, and count what is lost or wrong. It must be nothing.

    python benchmarks/soak.py [--kills 200] [--writer-kills 50] [--flips 40] [--seed 0] [--only kills,writers,disk]

kills     A process adds, replaces and deletes documents until kill -9 at a random moment, again and again. Segments are
          small, so that many kills hit a compaction. After each kill, the index must open and hold exactly what was
          acknowledged, or that and the change that was under way. Meanwhile a reader searches all the time: each hit
          must be a version of a document that was written, and no document may go back to an older version.
writers   Three processes write at the same time. Again and again, one of them is killed in the middle of a change.
disk      A writer fills a small file system (a tmpfs if we may mount one, otherwise a limit of the file size).
bytes     One byte of each file of an index is changed. Opening and searching must give the same results as before or
          name the damaged file. Opening to repair it must build damaged files again that can be derived.
The last line is JSON.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads cannot be forked safely

from tiny import TEXTS, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index
from clickvec.search.live import live_index
from clickvec.search.vectors.approximate import LEAST_TITLES

IDS = 400  # documents that the changes are about
SMALL_SEGMENT = 50  # changes before a compaction
SMALL_BULK = 20  # more documents at once build a new segment, and one change of 20 has as many
INCOMPLETE = "the last commit is incomplete"  # a warning that kill -9 in the middle of a commit may lead to
Change = list[Any]  # ["add", [[id, version], ...]] or ["delete", [id, ...]]
Versions = dict[int, int]


def document(doc_id: int, version: int) -> Document:
    title = f"{TEXTS[doc_id % len(TEXTS)]} item{doc_id} version{version}"
    return Document(doc_id, title, {"version": version, "time": time.time()})


def add(index: Index, pairs: Iterable[Iterable[int]]) -> None:
    documents = [document(*pair) for pair in pairs]
    ids, titles, payloads = zip(*documents, strict=True)
    index.add(ids=ids, titles=titles, payloads=payloads)


def apply(change: Change, versions: Versions) -> Versions:
    kind, values = change
    changed = dict(versions)
    for value in values:
        if kind == "add":
            changed[value[0]] = value[1]
        else:
            changed.pop(value, None)
    return changed


def what_is_there(index: Index) -> Versions:
    """Return the version of each document. Raise if a title is not that of its version."""
    versions = {}
    for stored in index:
        versions[int(stored.id)] = stored.payload["version"]
        expected = document(int(stored.id), stored.payload["version"])
        assert (stored.id, stored.title) == (expected.id, expected.title), stored
    assert len(index) == len(versions), (len(index), len(versions))
    return versions


# --- the processes that are killed -----------------------------------------------------------------------------------


def write(path: Path, seed: int, version: int, first_id: int) -> None:
    """Change documents until this process is killed. Print each change before and after."""
    live_index.MOST_ADDED, live_index.BULK = SMALL_SEGMENT, SMALL_BULK
    chance = random.Random(seed)
    index = Index.open(path)
    for number in range(version, version + 1_000_000):
        count = SMALL_BULK + 1 if chance.random() < 0.05 else chance.randint(1, 5)
        ids = chance.sample(range(first_id + 1, first_id + IDS), count)
        change: Change = ["delete", ids]
        if chance.random() < 0.7:
            change = ["add", [[doc_id, number] for doc_id in (first_id, *ids)]]
        print(json.dumps(change), flush=True)
        if change[0] == "add":
            add(index, change[1])
        else:
            index.delete(ids)
        print("done", flush=True)


def read(path: Path, seed: int) -> None:
    """Search until this process is asked to end. Then print what was wrong."""
    chance, index, wrong = random.Random(seed), Index.open(path), list[str]()
    newest: Versions = {}
    delays, searches = [0.0], 0
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    print("ready", flush=True)
    while not ended.is_set():
        mode = chance.choice(["hybrid", "words", "vectors"])
        query = chance.choice([f"item{chance.randrange(IDS)}", chance.choice(TEXTS)])
        for hit in index.search(query, mode=mode):
            version = hit.payload["version"]
            if hit.id == 0:
                continue  # see below
            if hit.title != document(int(hit.id), version).title:
                wrong.append(f"{hit} is not what was written")
            if version < newest.get(int(hit.id), 0):
                wrong.append(f"{hit} after version {newest[int(hit.id)]}")
            newest[int(hit.id)] = max(version, newest.get(int(hit.id), 0))
        searches += 1
        for hit in index.search("item0", k=1, mode="words"):  # each addition has a new version of it
            if hit.id == 0 and hit.payload["version"] > newest.get(0, 0):
                newest[0] = hit.payload["version"]
                delays.append(time.time() - hit.payload["time"])
    delays.sort()
    told = {"searches": searches, "wrong": wrong, "median": delays[len(delays) // 2], "slowest": delays[-1]}
    print(json.dumps(told), flush=True)


@contextlib.contextmanager
def process(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, __file__, "--role", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def printed_changes(output: str) -> tuple[list[Change], Change | None]:
    """Return the changes that were acknowledged, and the one that was under way."""
    lines = output.splitlines()
    if lines and not output.endswith("\n"):
        lines.pop()  # cut by the kill
    changes = [json.loads(line) for line in lines if line != "done"]
    is_under_way = bool(lines) and lines[-1] != "done"
    return (changes[:-1], changes[-1]) if is_under_way else (changes, None)


# --- kills -----------------------------------------------------------------------------------------------------------


def soak_kills(at: Path, options: argparse.Namespace) -> dict[str, Any]:
    chance, path = random.Random(options.seed), at / "kills"
    Index.create(path, Encoder.load(at / "model")).close()
    versions: Versions = {}
    wrong, acknowledged, under_way_kept, ignored, compactions = list[str](), 0, 0, 0, set[str]()
    version, opened = 1, list[float]()
    with process("read", path, options.seed) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n", reader.stderr and reader.stderr.read()
        for kill in range(options.kills):
            with process("write", path, chance.getrandbits(32), version, 0) as writer:
                assert writer.stdout is not None
                head = writer.stdout.readline()
                moment = chance.uniform(0, options.moment)
                threading.Timer(moment, writer.kill).start()
                output = head + writer.stdout.read()
                told = writer.stderr.read().splitlines() if writer.stderr else []
            ignored += sum(INCOMPLETE in line for line in told)
            wrong += [f"kill {kill}: {line}" for line in told[-1:] if INCOMPLETE not in line]
            changes, pending = printed_changes(output)
            for change in changes:
                versions = apply(change, versions)
            acknowledged += len(changes)
            version += len(changes) + 1
            started = time.monotonic()
            try:
                with Index.open(path) as index:
                    opened.append(time.monotonic() - started)
                    present = what_is_there(index)
                    wrong += [f"kill {kill}: {what}" for what in wrong_hits(index, present, chance)]
                    compactions.add(index._live.view().settings.segment)
            except (ClickvecError, AssertionError) as error:
                wrong.append(f"kill {kill}: {error!r}")
                continue
            if pending is not None and present == apply(pending, versions) != versions:
                under_way_kept += 1
            elif present != versions:
                wrong.append(f"kill {kill} after {moment:.2f} s: {difference(present, versions)}")
            versions = present
        reader.terminate()
        read_result = json.loads(reader.stdout.read())
    with Index.open(path) as index:
        index._live.store.check()
    folders = len([entry for entry in (path / "segments").iterdir() if not entry.name.startswith(".")])
    return {
        "kills": options.kills, "acknowledged changes": acknowledged, "lost or wrong": len(wrong),
        "unacknowledged but kept": under_way_kept, "incomplete commits ignored": ignored,
        "segments seen": len(compactions), "segment folders left": folders,
        "slowest open after a kill, s": round(max(opened), 2), "searches meanwhile": read_result["searches"],
        "found by the reader after, s (median, slowest)": [round(read_result[key], 2) for key in ("median", "slowest")],
        "wrong hits": len(read_result["wrong"]), "examples": (wrong + read_result["wrong"])[:5],
    }  # fmt: skip


def wrong_hits(index: Index, versions: Versions, chance: random.Random) -> Iterator[str]:
    """Search for some documents by a word that only they have, and for some that are not there."""
    for doc_id in chance.sample(range(IDS), 10):
        hits = index.search(f"item{doc_id}", k=1, mode="words", where=None)
        found = {int(hit.id): hit.payload["version"] for hit in hits if f"item{doc_id} " in hit.title}
        expected = {doc_id: versions[doc_id]} if doc_id in versions else {}
        if found != expected:
            yield f"a search for document {doc_id} found {found} instead of {expected}"
        for hit in index.search(document(doc_id, 1).title):
            if versions.get(int(hit.id)) != hit.payload["version"]:
                yield f"a search found {hit}, which is not there"


def difference(present: Versions, expected: Versions) -> str:
    keys = [key for key in present.keys() | expected.keys() if present.get(key) != expected.get(key)]
    return "; ".join(f"{key}: {present.get(key)} instead of {expected.get(key)}" for key in sorted(keys)[:5])


# --- several writers -------------------------------------------------------------------------------------------------


def soak_writers(at: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Let three processes write to documents of their own. Kill one in the middle of a change, and start it again."""
    chance, path = random.Random(options.seed), at / "writers"
    Index.create(path, Encoder.load(at / "model")).close()
    outputs: list[list[str]] = [[], [], []]
    running: dict[int, subprocess.Popen[str]] = {}
    ended = threading.Event()
    errors: list[str] = []

    def keep_writing(number: int) -> None:
        version = 1
        while not ended.is_set():
            with process("write", path, options.seed + version, version, number * IDS) as writer:
                running[number] = writer
                assert writer.stdout is not None
                assert writer.stderr is not None
                outputs[number].append("")
                for line in writer.stdout:
                    outputs[number][-1] += line
                errors.extend(line for line in writer.stderr.read().splitlines()[-1:] if INCOMPLETE not in line)
            version += len(outputs[number][-1].splitlines()) + 1

    threads = [threading.Thread(target=keep_writing, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(options.writer_kills):
        characters = sum(len(output) for parts in outputs for output in parts)
        characters += chance.randint(1, int(10_000 * options.moment))
        is_killed, deadline = False, time.monotonic() + 120
        while not is_killed and time.monotonic() < deadline:
            time.sleep(0.01)
            if sum(len(output) for parts in outputs for output in parts) > characters:
                for number in chance.sample(list(running), len(running)):
                    if not is_killed and outputs[number][-1:] and outputs[number][-1].endswith("]\n"):
                        is_killed = running[number].poll() is None
                        running[number].kill()
        if not is_killed:
            errors.append("nobody wrote for two minutes")
            break
    ended.set()
    while any(thread.is_alive() for thread in threads):
        for writer in list(running.values()):
            writer.kill()
        time.sleep(0.1)
    wrong, acknowledged = list(errors), 0
    with Index.open(path) as index:
        present = what_is_there(index)
        index._live.store.check()
    for number, parts in enumerate(outputs):
        own = {key: value for key, value in present.items() if key // IDS == number}
        possible: list[Versions] = [{}]
        for output in parts:
            changes, pending = printed_changes(output)
            acknowledged += len(changes)
            for change in changes:
                possible = [apply(change, versions) for versions in possible]
            if pending is not None:
                possible += [apply(pending, versions) for versions in possible]
            possible = [dict(pairs) for pairs in {tuple(sorted(versions.items())) for versions in possible}]
        if own not in possible:
            wrong.append(f"writer {number}: {difference(own, possible[0])}")
    return {
        "processes": 3, "kills of a writer": options.writer_kills, "acknowledged changes": acknowledged,
        "lost or wrong": len(wrong), "examples": wrong[:5],
    }  # fmt: skip


# --- disk full -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(at: Path, megabytes: float) -> Iterator[tuple[Path, str]]:
    folder = at / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes:.0f}m", "tmpfs", str(folder)]
    is_mounted = (
        megabytes >= 1
        and shutil.which("mount") is not None
        and subprocess.run(mount, capture_output=True).returncode == 0
    )
    try:
        yield folder, f"tmpfs of {megabytes:.0f} MB" if is_mounted else "limit of the file size"
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def soak_disk(at: Path, options: argparse.Namespace) -> dict[str, Any]:
    wrong: list[str] = []
    with small_disk(at, options.megabytes) as (folder, how):
        path, filler = folder / "index", folder / "filler"
        with Index.create(path, Encoder.load(at / "model")) as index:
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            if "tmpfs" in how:
                filler.write_bytes(b"x" * int(options.megabytes * 500_000))
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(options.megabytes * 1e6), limits[1]))
            versions: Versions = {}
            refused: Counter[str] = Counter()
            for number in range(1, 20_000):
                try:
                    add(index, [[number % 10_000, number]])
                    versions[number % 10_000] = acknowledged = number
                except ClickvecError as error:
                    refused[str(error).replace(str(folder), "DISK")] += 1
                    if sum(refused.values()) >= 20:
                        break
                except Exception as error:
                    wrong.append(f"{error!r}")
                    break
            if what_is_there(index) != versions:
                wrong.append(f"while full: {difference(what_is_there(index), versions)}")
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        try:
            with Index.open(path) as index:
                while_full = "opens"
                if what_is_there(index) != versions:
                    wrong.append(f"while full: {difference(what_is_there(index), versions)}")
        except ClickvecError as error:
            while_full = str(error).replace(str(folder), "DISK")
        if "tmpfs" in how:
            filler.unlink()
        with Index.open(path) as index:
            add(index, [[5, 30_000]])
            versions[5] = 30_000
        with Index.open(path) as index:
            index._live.store.check()
            if what_is_there(index) != versions:
                wrong.append(f"afterwards: {difference(what_is_there(index), versions)}")
    return {
        "disk": how, "acknowledged changes": acknowledged, "refused": sum(refused.values()),
        "lost or wrong": len(wrong), "told": sorted(refused), "opening while full": while_full, "examples": wrong[:5],
    }  # fmt: skip


# --- bytes -----------------------------------------------------------------------------------------------------------


def results_of(index: Index) -> object:
    texts = [*TEXTS[:4], "item7", "itm8 versoin1", "上海"]
    hits = [
        [(hit.id, hit.title, round(hit.score, 5), hit.payload["version"]) for hit in index.search(text, 5, mode=mode)]
        for text in texts
        for mode in ("hybrid", "words", "vectors")
    ]
    filtered = [hit.id for hit in index.search("item3", where={"version": {"gte": 2}})]
    found = [index.get(doc_id) for doc_id in (1, "7", 399, "none")]
    return hits, filtered, [one and one[:2] for one in found], [stored[:2] for stored in index], len(index)


def outcome(path: Path, repair: bool, expected: object) -> str:
    """Open an index in a forked process, which damaged files may crash. Return what happened."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        try:
            with Index.open(path, repair=repair) as index:
                told = "same" if results_of(index) == expected else "wrong"
        except ClickvecError as error:
            told = "refused" if str(path) in str(error) else f"refused without a name: {error}"
        except BaseException as error:
            told = f"traceback: {error!r}"
        os.write(sending, told.encode()[:4000])
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as file:
        told = file.read().decode()
    status = os.waitpid(child, 0)[1]
    return told or f"crash: status {status}"


def soak_bytes(at: Path, options: argparse.Namespace) -> dict[str, Any]:
    chance, path, copy = random.Random(options.seed), at / "bytes", at / "damaged"
    encoder = Encoder.load(at / "model")
    titles = options.titles
    search = "exact" if titles < LEAST_TITLES else "approximate"
    first = (document(doc_id, 1) for doc_id in range(titles))
    with Index.create(path, encoder, first, vectors="int8", search=search) as index:
        add(index, [[doc_id, 2] for doc_id in range(40)])
        index.delete(range(100, 120))
        index.compact()
        add(index, [[doc_id, 1] for doc_id in range(titles, titles + 40)])
        expected = results_of(index)
    if not os.fork():  # leave a write-ahead log of several commits, the last of which changes nothing
        index = Index.open(path)
        for _ in range(4):
            add(index, [[titles + 39, 1]])
        os._exit(0)
    os.wait()
    counts: dict[str, Counter[str]] = {}
    examples: list[str] = []
    names = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and file.stat().st_size)
    for name in names:
        shown = "/".join("*" if len(part) > 10 and "." not in part else part for part in name.split("/"))
        count = counts[shown] = Counter()
        for _ in range(options.flips):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
            with (copy / name).open("r+b") as file:
                position = chance.randrange((copy / name).stat().st_size)
                file.seek(position)
                byte = file.read(1)[0] ^ (1 << chance.randrange(8))
                file.seek(position)
                file.write(bytes([byte]))
            for verb, repair in (("read", False), ("repair", True)):
                told = outcome(copy, repair, expected)
                count[f"{verb}: {told.split(':')[0]}"] += 1
                if told not in ("same", "refused"):
                    examples.append(f"{name} at {position}, {verb}: {told[:200]}")
    total = sum(counts.values(), Counter())
    return {
        "files": len(names), "bytes changed": len(names) * options.flips, "wrong": len(examples), "total": dict(total),
        "by file": {name: dict(count) for name, count in counts.items()}, "examples": examples[:5],
    }  # fmt: skip


# --- all -------------------------------------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "kills": soak_kills, "writers": soak_writers, "disk": soak_disk, "bytes": soak_bytes,
}  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        role, path, *numbers = sys.argv[2:]
        write(Path(path), *map(int, numbers)) if role == "write" else read(Path(path), *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--flips", type=int, default=40, help="changed bytes per file")
    parser.add_argument("--writer-kills", type=int, default=50, help="kills while several processes write")
    parser.add_argument("--moment", type=float, default=2.0, help="latest moment of a kill, in seconds of writing")
    parser.add_argument("--megabytes", type=float, default=16, help="size of the small disk")
    parser.add_argument("--titles", type=int, default=LEAST_TITLES + 100, help="in the index whose bytes are changed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(SECTIONS))
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # an orphan may still write
        at = Path(folder)
        tiny_model(at / "model")
        for name in options.only.split(","):
            started = time.monotonic()
            results[name] = SECTIONS[name](at, options)
            results[name]["seconds"] = round(time.monotonic() - started)
            print(f"{name}:", flush=True)
            for key, value in results[name].items():
                if value != []:
                    print(f"  {key}: {value}", flush=True)
    print(json.dumps(results, ensure_ascii=False))
    if any(
        result[key] for result in results.values() for key in ("lost or wrong", "wrong", "wrong hits") if key in result
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
