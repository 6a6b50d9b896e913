"""The whole story on the built-in log: each step is the command that is printed before it."""

import json
import shlex
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from clickvec.cli.streams import print_summary
from clickvec.errors import ClickvecError, missing_extra
from clickvec.explanation import read
from clickvec.render import figures
from clickvec.search.index import Index
from clickvec.storage.files import replacing_file
from clickvec.storage.outputs import check_output

IMPRESSIONS = 600_000
MARKER = ".clickvec-demo"  # tells the folder of an earlier demo, which may be replaced
SEARCHES = ("hotels in shanghai", "ear infecton medicine", "bath tub wont turn off")


def run(verb: Callable[[list[str]], None], out: Path) -> None:
    """Simulate, train, evaluate beside BM25, index, search, look inside, each by its verb; then draw two pictures."""
    _check(out)
    begun = time.monotonic()
    site, model, index, report = (shlex.quote(str(out / name)) for name in ("site", "model", "index", "report"))
    for command in (
        f"simulate {site} --impressions {IMPRESSIONS} --overwrite",
        f"train {site}/clicks.tsv.gz --dev {site}/dev.tsv.gz --out {model} --overwrite",
        f"evaluate {model} bm25 --judged {site}/test.tsv.gz",
        f"index {model} {site}/titles.tsv.gz --out {index} --overwrite",
        *(f'search {index} -k 3 "{query}"' for query in SEARCHES),
        f'explain {index} "{SEARCHES[0]}"',
        f"report {model} --judged {site}/test.tsv.gz --out {report} --overwrite",
    ):
        print_summary(f"\n$ clickvec {command}")
        verb(shlex.split(command))
    opened = Index.open(out / "index")
    lines = opened.encoder.model.metrics.splitlines()
    figures.training_curve([json.loads(line) for line in lines], out / "training.png")
    _draw_first_hit(opened, SEARCHES[0], out / "gates.png")
    print_summary(f"\nPictures: {out / 'training.png'}, {out / 'gates.png'}. Done in {time.monotonic() - begun:.0f} s.")


def _draw_first_hit(index: Index, query: str, path: Path) -> None:
    """What the model did with a query, and with the title that it found for it."""
    hits = index.search(query, k=1)
    title = read(index.encoder, "title", hits[0].title) if hits else None
    figures.explanation(read(index.encoder, "query", query), title, path)


def _check(out: Path) -> None:
    """What is needed is installed, and the demo replaces nothing but an earlier demo."""
    for module in ("torch", "bm25s", "matplotlib"):
        if find_spec(module) is None:
            raise missing_extra(module, "all")
    check_output(out)
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise ClickvecError(f"{out} has other things in it than an earlier demo; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    with replacing_file(out / MARKER):
        pass
