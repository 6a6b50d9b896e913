"""Kill commands with kill -9 at random moments and check what is left.

    python benchmarks/kills.py [--kills 50] [--seed 0] [--verbs train,encode,index,prepare,compare]

After each kill, the old result at --out must be unchanged or the new one complete. Then the command runs again, with
--resume if there is something to resume. It must produce the same bytes as a run that was never killed, and leave no
temporary files. The last line is JSON.
"""

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clickvec import Index

CLICKVEC = [sys.executable, "-m", "clickvec"]


def commands(at: Path) -> dict[str, list[str]]:
    """Return a command for each verb, without --out."""
    site = at / "site"
    judged = [f"--dev={site}/dev.tsv.gz", f"--test={site}/test.tsv.gz"]
    small = ["--set=cells=8", "--set=epochs=3"]
    return {
        "train": ["train", f"{site}/clicks.tsv.gz", *judged[:1], *small],
        "encode": ["encode", f"{at}/model", f"{at}/many.tsv"],
        "index": ["index", f"{at}/model", f"{at}/many.tsv"],
        "prepare": ["prepare", f"{site}/impressions.tsv.gz"],
        "compare": ["compare", f"--clicks={site}/clicks.tsv.gz", *judged, "--systems=bm25,ulm", "--jobs=1"],
    }


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLICKVEC, *map(str, arguments)], capture_output=True, text=True)


def must(*arguments: object) -> None:
    done = run(*arguments)
    if done.returncode:
        sys.exit(f"{arguments}: {done.stderr}")


def set_up(at: Path) -> None:
    """Make a site, a model and a large catalogue."""
    must("simulate", at / "site", "--impressions", 20_000, "--dev-queries", 20, "--test-queries", 20)
    must("train", at / "site/clicks.tsv.gz", "--out", at / "model", "--set=cells=8", "--set=epochs=1")
    with (at / "many.tsv").open("w") as file:
        file.write("doc_id\ttitle\n")
        file.writelines(f"{i}\tguide to hotel {i % 977} in street {i % 7919} of town {i}\n" for i in range(60_000))


def contents(path: Path) -> dict[str, str]:
    """Return the hash of each file, or of what an index holds; for files that depend on the time, only the name."""
    if (path / "documents.sqlite").exists():
        with Index.open(path) as index:
            hits = [index.search(f"hotel {n} in town", mode=mode) for n in range(5) for mode in ("words", "vectors")]
            return {"documents": hashlib.sha256(repr(list(index)).encode()).hexdigest(), "hits": repr(hits)}
    timed = ("metrics.jsonl", "README.md", "config.json", "comparison.json", "table.md", "table.tex", "about.json")
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {
        str(file.relative_to(path.parent)): "" if file.name in timed else hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.name != "lock"
    }


def all_bytes(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path.parent)): file.read_bytes() for file in files if file.name != "lock"}


def kill_once(command: list[str], verb: str, at: Path, moment: float, reference: dict[str, str]) -> list[str]:
    """Start a command, kill it after `moment` seconds, run it again. Return what is wrong."""
    place = at / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    out = place / ("out.npy" if verb == "encode" else "out")
    before: dict[str, bytes] = {}
    overwrite = [] if verb == "compare" else ["--overwrite"]
    if verb != "compare" and random.random() < 0.5:  # something is there already: an older version
        shutil.copytree(at / f"old-{verb}", out) if verb != "encode" else shutil.copy(at / "old-encode", out)
        before = all_bytes(out)
    running = subprocess.Popen(
        [*CLICKVEC, *command, f"--out={out}", *overwrite], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(moment)
    running.kill()
    running.wait()
    wrong = []
    if verb != "compare":
        now = all_bytes(out) if out.exists() else {}
        if now != before and contents(out) != reference:
            wrong.append("neither the old version nor the new one")
    state = place / f"{out.name}.run"
    resumable = verb == "train" and (state / "checkpoint.safetensors").exists()
    again = run(*command, f"--out={out}", "--resume" if resumable else "--overwrite" if overwrite else "--jobs=1")
    if again.returncode:
        wrong.append(f"the next run failed: {again.stderr.splitlines()[-1:]}")
    elif contents(out) != reference:
        wrong.append("the next run gave another result")
    left = [entry.name for entry in place.rglob("*") if entry.name.endswith(".partial") or entry == state]
    if left:
        wrong.append(f"left over: {left}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", default="train,encode,index,prepare,compare")
    options = parser.parse_args()
    random.seed(options.seed)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        set_up(at)
        for verb in options.verbs.split(","):
            command = commands(at)[verb]
            older = [part.replace("epochs=3", "epochs=2").replace("impressions", "clicks") for part in command]
            if verb in ("encode", "index"):
                older = [part.replace("many.tsv", "site/titles.tsv.gz") for part in command]
            must(*older, f"--out={at}/old-{verb}") if verb != "encode" else must(*older, f"--out={at}/old.npy")
            if verb == "encode":
                (at / "old.npy").rename(at / "old-encode")
            reference_out = at / "whole" / ("out.npy" if verb == "encode" else "out")
            reference_out.parent.mkdir()
            started = time.monotonic()
            must(*command, f"--out={reference_out}")
            seconds = time.monotonic() - started
            reference = contents(reference_out)
            shutil.rmtree(at / "whole")
            wrong = []
            for number in range(options.kills):
                moment = random.uniform(0.1, 1.0) * seconds
                wrong += [
                    f"kill {number} after {moment:.2f} s: {what}"
                    for what in kill_once(command, verb, at, moment, reference)
                ]
            found.append(
                {"verb": verb, "kills": options.kills, "seconds of a run": round(seconds, 1), "wrong": len(wrong)}
            )
            print(", ".join(f"{name} {value}" for name, value in found[-1].items()), flush=True)
            for what in wrong:
                print(f"  {what}", flush=True)
    print(json.dumps({"kills": found}))
    sys.exit(any(row["wrong"] for row in found))


if __name__ == "__main__":
    main()
