"""Write what results/teacher.md is measured on: the catalogues of msrd and dbpedia, and samples of logs.

    python benchmarks/teacher_data.py --data DIR --out OUT [--built-in SITE/clicks.tsv.gz]

A catalogue holds all clicked and judged titles: OUT/msrd-titles.tsv and OUT/dbpedia-titles.tsv. OUT/dbpedia-200k.tsv.gz
is the sample of results.py: all questions, and random redirects. OUT/built-in-sample.tsv has 11,500 random lines of the
built-in log, which `clickvec lab simulate SITE --impressions 600000` makes.
"""

import argparse
import gzip
import random
from collections.abc import Iterator
from pathlib import Path

from results import draw_sample

from clickvec.data import read_clicks, read_judged

CLICKS = {"msrd": ["clicks"], "dbpedia": ["clicks_questions", "clicks_redirects"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--built-in", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, logs in CLICKS.items():
        folder = options.data / name
        titles = dict.fromkeys(all_titles(folder, logs))
        (options.out / f"{name}-titles.tsv").write_text(
            "title\n" + "".join(f"{title}\n" for title in titles), encoding="utf-8"
        )
        print(f"{name}: {len(titles):,} titles")
    logs = [options.data / "dbpedia" / f"{log}.tsv.gz" for log in CLICKS["dbpedia"]]
    draw_sample(logs[0], logs[1], options.out / "dbpedia-200k.tsv.gz")
    if options.built_in:
        head, *rows = gzip.decompress(options.built_in.read_bytes()).decode().splitlines()
        random.Random(1).shuffle(rows)
        lines = [head, *rows[:11_500]]
        (options.out / "built-in-sample.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def all_titles(folder: Path, logs: list[str]) -> Iterator[str]:
    """Yield the titles that are clicked or judged."""
    for log in logs:
        yield from read_clicks(folder / f"{log}.tsv.gz").titles
    for part in ("dev", "test"):
        for query in read_judged(folder / f"{part}.tsv.gz"):
            yield from query.titles


if __name__ == "__main__":
    main()
