"""Measure how fast a click log is converted to arrays, and compare it with plain Python, text by text.

    python benchmarks/prepare.py [--pairs 1000000]

First from a file of distinct pairs to a data folder, with `clickvec prepare` in its own process, including Python's
start, reading and writing. The log is measured plain, gzipped, with accents in every text, and in Chinese without
spaces, where every text is a new word. Then from memory: the built-in log, in which queries and titles repeat;
artificial titles that are all different; and the same with a new word in each.

The baseline reads texts one by one, counts trigrams with `Vocabulary.count` and looks tokens up in a dict. CPU time
on one core, and for files wall clock too; our code and the baseline run in turns, the baseline on the first lines of
a file. The last line is JSON.
"""

import argparse
import gzip
import json
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np
from train import texts

from clickvec.data import BadLines, ClickLog, data_folder, dataset
from clickvec.data.parsing.header import Schema
from clickvec.data.parsing.records import records
from clickvec.data.parsing.source import open_source
from clickvec.lab.simulate import Site, impressions
from clickvec.text.token_table import TokenTable
from clickvec.text.trigrams import Vocabulary

PAIRS, IMPRESSIONS, REPEATS, MILLION = 100_000, 1_000_000, 3, 1_000_000
CHILD = (
    "import resource, sys; from clickvec.cli.app import app; app(sys.argv[1:], standalone_mode=False); "
    "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)"
)


def built_in() -> ClickLog:
    """Return one row for each click of the built-in log."""
    site = Site.build(0)
    blocks = [(block.query[block.clicked], block.title[block.clicked]) for block in impressions(site, IMPRESSIONS)]
    query, title = (np.concatenate(parts).tolist() for parts in zip(*blocks, strict=True))
    queries, titles = [site.queries.text[place] for place in query], [site.titles.text[place] for place in title]
    return ClickLog(queries, titles, np.ones(len(queries)), BadLines())


def by_text(log: ClickLog) -> None:
    """Prepare a log with the baseline."""
    table, vocabulary = TokenTable(10), Vocabulary.count([*log.queries, *log.titles])
    table.read(log.queries)
    table.read(log.titles)
    vocabulary.rows(table)


def seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def from_memory(name: str, log: ClickLog) -> dict[str, float]:
    """Measure rows/s: medians of alternating runs."""
    found = [(seconds(lambda: dataset.prepare(log, 10, 50_000)), seconds(lambda: by_text(log))) for _ in range(REPEATS)]
    ours, baseline = (len(log) / statistics.median(times) for times in zip(*found, strict=True))
    ratio = statistics.median(theirs / mine for mine, theirs in found)
    print(f"{name:18} {len(log):10,} rows   {ours:9,.0f} rows/s   plain Python {baseline:9,.0f}   ratio {ratio:.2f}")
    return {"rows": len(log), "ours": ours, "baseline": baseline, "ratio": ratio}


def accented(text: str) -> str:
    """Return the text with accents, one of them on a capital letter."""
    return text.replace("a", "á").replace("e", "É", 1)


@cache
def in_chinese(word: str) -> str:
    """Return one to three of 3,000 Chinese characters for a word; some are much more frequent than others."""
    digest = blake2b(word.encode(), digest_size=7).digest()
    drawn = [int.from_bytes(digest[at : at + 2]) / 2**16 for at in range(1, 2 + 2 * (digest[0] % 3), 2)]
    return "".join(chr(0x4E00 + int(3000 * share**3)) for share in drawn)


def chinese(text: str) -> str:
    """Return the text in Chinese, without spaces."""
    return "".join(map(in_chinese, text.split()))


LOGS: dict[str, Callable[[str], str]] = {"log.tsv": str, "accented.tsv": accented, "chinese.tsv": chinese}


def write_logs(place: Path, pairs: int) -> None:
    """Write logs of distinct titles, one of them also gzipped. Further millions add words to the first."""
    queries, titles = texts(min(pairs, MILLION))
    for name, spell in LOGS.items():
        with (place / name).open("w") as file:
            file.write("query\ttitle\tclicks\n")
            for at in range(pairs):
                turn, row = divmod(at, MILLION)
                more = f" {turn}" if turn else ""
                file.write(f"{spell(queries[row])}{more}\t{spell(titles[row])}{more}\t{1 + at % 3}\n")
    with (place / "log.tsv").open("rb") as file, gzip.open(place / "log.tsv.gz", "wb", compresslevel=1) as packed:
        shutil.copyfileobj(file, packed, MILLION)


def row_by_row(path: Path) -> None:
    """Read and prepare a file with the baseline."""
    bad, rows = BadLines(), []
    columns = ("query", "title", "clicks")
    for _, (query, title, count) in records(open_source(path, bad), Schema(columns, (columns,))):
        if query.strip() and title.strip() and float(count) > 0:
            rows.append((query, title, float(count)))
    queries, titles, clicks = zip(*rows, strict=True)
    by_text(ClickLog(list(queries), list(titles), np.array(clicks)))


def from_file(path: Path, pairs: int, baseline: float) -> dict[str, float]:
    """Measure `clickvec prepare` in its own process."""
    size = path.with_name(path.name.removesuffix(".gz")).stat().st_size
    call = ["prepare", str(path), "--out", str(path.parent / "data"), "--overwrite"]
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", CHILD, *call], check=True, stdout=subprocess.PIPE, text=True)
    clock = pairs / (time.perf_counter() - started)
    spent, peak = map(float, done.stdout.split()[-2:])
    ours = pairs / spent
    print(
        f"{path.name:18} {pairs:10,} rows   {ours:9,.0f} rows/s   plain Python {baseline:9,.0f}   "
        f"ratio {ours / baseline:.2f}   wall clock {clock:9,.0f}   "
        f"peak {peak / 1e6:,.0f} MB, {peak / size:.1f} times the text's {size / 1e6:,.0f} MB"
    )
    report = {"rows": pairs, "ours": ours, "baseline": baseline, "ratio": ours / baseline, "clock": clock}
    return report | {"peak_mb": peak / 1e6}


def from_files(place: Path, pairs: int) -> dict[str, object]:
    """Measure the logs, and opening a data folder."""
    # In another process, as the peak of a process counts what the one that started it had in memory.
    writer = multiprocessing.get_context("spawn").Process(target=write_logs, args=(place, pairs))
    writer.start()
    writer.join()
    report: dict[str, object] = {}
    for name in LOGS:
        start = place / f"start of {name}"
        with (place / name).open() as lines, start.open("w") as file:
            file.writelines(islice(lines, 1 + PAIRS))
        baseline = min(pairs, PAIRS) / seconds(lambda start=start: row_by_row(start))
        for path in (place / name, place / f"{name}.gz"):
            if path.exists():
                report[path.name] = from_file(path, pairs, baseline)
    started = time.perf_counter()
    data_folder.load(place / "data")
    report["open_ms"] = 1000 * (time.perf_counter() - started)
    print(f"opening the data folder: {report['open_ms']:.0f} ms")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=MILLION, help="lines of the file")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as place:
        report = from_files(Path(place), pairs)
    queries, titles = texts(PAIRS)
    logs = {
        "built-in log": built_in(),
        "all different": ClickLog(queries, titles, np.ones(PAIRS)),
        "a new word in each": ClickLog(queries, [f"{t} q{k:x}z" for k, t in enumerate(titles)], np.ones(PAIRS)),
    }
    report |= {name: from_memory(name, log) for name, log in logs.items()}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
