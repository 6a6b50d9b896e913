"""Write docs/results.md: the paper's table on public data, with both recipes. All its numbers come from here.

    python benchmarks/results.py --data DIR                                   # everything, and the pages
    python benchmarks/results.py --data DIR --parts dbpedia-paper --trained --jobs 16   # with torch alone; no pages

DIR contains msrd/ and dbpedia/ (see CONTRIBUTING.md). Scores are kept in --work/DATA/scores and not computed again,
so the command can be interrupted and restarted, and the folder `scores` can be copied from a machine with a GPU.
"""

import argparse
import gzip
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clickvec.data import read_clicks, read_judged
from clickvec.lab.compare.findings import Comparison
from clickvec.lab.compare.material import Material
from clickvec.lab.compare.run import compare
from clickvec.lab.compare.systems import systems


class Part(NamedTuple):
    """One table of the page."""

    title: str
    data: str  # msrd, dbpedia (the sample) or dbpedia-all
    recipe: str
    shown: bool = False
    keys: tuple[str, ...] = ()  # the rows; none: all of them
    seeds: int = 3


FEW = ("bm25", "dssm", "lstm", "bilstm", "transformer", "hybrid-rrf", "hybrid-mix")
PARTS = {
    "msrd-paper": Part("msrd, recipe `paper`", "msrd", "paper", seeds=2),
    "msrd-default": Part("msrd, recipe `default`", "msrd", "default"),
    "msrd-shown": Part("msrd, recipe `default`, titles shown and not clicked", "msrd", "default", True, FEW),
    "dbpedia-paper": Part("dbpedia, 200,000 pairs, recipe `paper`", "dbpedia", "paper", seeds=2),
    "dbpedia-default": Part("dbpedia, 200,000 pairs, recipe `default`", "dbpedia", "default"),
    "dbpedia-all": Part("dbpedia, all 1.46 million pairs, recipe `default`", "dbpedia-all", "default", keys=FEW),
}
SAMPLE = 200_000  # pairs: the size of the paper's training set


def material(part: Part, data: Path, work: Path, skip_thoughts: Path | None) -> Material:
    """Read the log and the judged sets of a part."""
    folder = data / part.data.removesuffix("-all")
    clicks = [folder / "clicks.tsv.gz"]
    if part.data != "msrd":
        clicks = [folder / f"clicks_{name}.tsv.gz" for name in ("questions", "redirects")]
    if part.data == "dbpedia":
        clicks = [draw_sample(*clicks, work / "dbpedia-200k.tsv.gz")]
    shown = folder / "train_judged.tsv.gz" if part.shown else None
    dev, test = folder / "dev.tsv.gz", folder / "test.tsv.gz"
    named = {"clicks": clicks, "dev": [dev], "test": [test], "shown": [shown], "skip-thoughts": [skip_thoughts]}
    names = {option: [path.name for path in paths if path] for option, paths in named.items()}
    return Material(
        read_clicks(clicks), read_judged(dev), read_judged(test), read_judged(shown) if shown else None,
        skip_thoughts=skip_thoughts, names=names,
    )  # fmt: skip


def draw_sample(questions: Path, redirects: Path, out: Path) -> Path:
    """Write a sample of 200,000 pairs: all questions, and redirects drawn with a fixed seed."""
    if not out.exists():
        asked, aliases = read_clicks(questions), read_clicks(redirects)
        drawn = np.sort(np.random.default_rng(0).choice(len(aliases), SAMPLE - len(asked), replace=False)).tolist()
        lines = [*zip(asked.queries, asked.titles, strict=True)]
        lines += [(aliases.queries[place], aliases.titles[place]) for place in drawn]
        out.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(out, "wt", encoding="utf-8") as file:
            file.write("query\ttitle\n" + "".join(f"{query}\t{title}\n" for query, title in lines))
    return out


def trained_keys(part: Part) -> list[str]:
    known = [system.key for system in systems(part.recipe) if system.settings is not None]
    return [key for key in known if not part.keys or key in part.keys]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--work", type=Path, default=Path("out/results"))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seeds", type=int, default=3, help="at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="auto")
    parser.add_argument("--skip-thoughts", type=Path, help="a folder of trained Skip-Thought files")
    parser.add_argument("--trained", action="store_true", help="only what our trainer trains, and no pages")
    parser.add_argument("--systems", default="", help="only these, by commas, and no pages")
    parser.add_argument("--commit", default="", help="the state of the code, where git is not")
    options = parser.parse_args()
    found: dict[str, tuple[Material, Comparison]] = {}
    for name in options.parts.split(","):
        part = PARTS[name]
        made_from = material(part, options.data, options.work, options.skip_thoughts)
        print(f"{part.title}: {len(made_from.log):,} pairs", file=sys.stderr, flush=True)
        keys = options.systems.split(",") if options.systems else trained_keys(part) if options.trained else part.keys
        comparison = compare(
            made_from, options.work / part.data, recipe=part.recipe, keys=keys, seeds=min(options.seeds, part.seeds),
            device=options.device, jobs=options.jobs, commit=options.commit,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
        found[name] = made_from, comparison
    if not options.trained and not options.systems:
        from results_page import write_pages

        write_pages(found, {name: PARTS[name].title for name in found}, options.out, options.work)


if __name__ == "__main__":
    main()
