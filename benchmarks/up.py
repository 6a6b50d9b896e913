"""Time `clickvec up`, stage by stage, and kill it at random moments.

    python benchmarks/up.py [--data DIR] [--logs built-in,msrd,100k] [--kills 10] [--seed 0]

DIR holds the public data of CONTRIBUTING.md; 100k is a random sample of 100,000 clicks of dbpedia. Each log is timed in
a new folder until the page answers, and then once more with nothing left to do. On a busy machine, the CPU time with
OMP_NUM_THREADS=1 is an upper bound of the time on a quiet one. Then `up` runs again in another folder
and is killed (kill -9) after random times, until it ends by itself. The model must then be the same, byte for byte.
"""

import argparse
import gzip
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

CLICKVEC = [sys.executable, "-m", "clickvec"]
SAMPLE = 100_000
STAGES = ("simulate", "doctor", "prepare", "train", "index", "measure")


def sample(data: Path, out: Path) -> Path:
    """Write a random sample of the clicks of dbpedia."""
    lines: list[str] = []
    for name in ("clicks_redirects", "clicks_questions"):
        with gzip.open(data / f"dbpedia/{name}.tsv.gz", "rt", encoding="utf-8") as file:
            header, *rows = file
            lines += rows
    with gzip.open(out, "wt", encoding="utf-8") as file:
        file.writelines([header, *random.Random(0).sample(lines, SAMPLE)])
    return out


def until_ready(command: list[str]) -> float:
    """Run `up` until its page answers, stop it, and return the seconds."""
    begun = time.monotonic()
    with subprocess.Popen(
        [*command, "--port", "0"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as up:
        assert up.stderr
        seen = []
        for line in up.stderr:
            seen.append(line)
            if "Serving" in line:
                address = next(word for word in line.replace(";", " ").split() if word.startswith("http"))
                urllib.request.urlopen(f"{address}/readyz", timeout=30).close()
                seconds = time.monotonic() - begun
                up.send_signal(signal.SIGINT)
                break
        else:
            sys.exit("".join(seen))
        up.stderr.read()
    return seconds


def cpu_seconds() -> float:
    """Return the CPU time of all programs that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stage_seconds(folder: Path) -> dict[str, float]:
    stages = json.loads((folder / "up.json").read_text())["stages"]
    return {name: stages[name]["seconds"] for name in STAGES if name in stages}


def run_killed(command: list[str], seconds: float, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Run `up`, kill it after random times, and let the last run end. Return the kills and the stages they hit."""
    command = [*command, "--no-serve"]
    folder, hit = Path(command[command.index("--out") + 1]), []
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as up:
            try:
                up.communicate(timeout=rng.uniform(0.1, seconds / 2))
                break  # it ended before
            except subprocess.TimeoutExpired:
                up.kill()
        done = stage_seconds(folder) if (folder / "up.json").exists() else {}
        hit.append(next((name for name in STAGES[1:] if name not in done), "end"))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return len(hit), hit


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--logs", default="built-in,msrd,100k")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, results = random.Random(options.seed), {}
    at = Path(tempfile.mkdtemp())
    try:
        for name in options.logs.split(","):
            logs = {"built-in": [], "msrd": [f"{options.data}/msrd/clicks.tsv.gz"]}
            log = logs[name] if name in logs else [str(sample(options.data, at / "100k.tsv.gz"))]
            command = [*CLICKVEC, "up", *log, "--out"]
            load = os.getloadavg()[0]
            cpu = cpu_seconds()
            total = until_ready([*command, str(at / name)])
            cpu = cpu_seconds() - cpu
            again = until_ready([*command, str(at / name)])
            row = {
                **stage_seconds(at / name),
                "until the page answers": total,
                "CPU time": cpu,
                "again": again,
                "load before": load,
            }
            row = {key: round(value, 1) for key, value in row.items()}
            print(f"{name}: " + ", ".join(f"{key} {value:.1f}" for key, value in row.items()), flush=True)
            results[name] = row
            if options.kills:
                count, hit = run_killed([*command, str(at / "killed")], total, options.kills, rng)
                weights = [at / folder / "model/weights.safetensors" for folder in (name, "killed")]
                same = weights[0].read_bytes() == weights[1].read_bytes()
                print(f"{name}: killed {count} times, in {', '.join(hit)}; the same model: {same}", flush=True)
                results[name] |= {"kills": count, "same model": same}
                shutil.rmtree(at / "killed")
    finally:
        shutil.rmtree(at, ignore_errors=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
