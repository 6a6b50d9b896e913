"""The whole story on the built-in log: each step is the command that is printed before it."""

import json
import shlex
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import typer

from clickvec import plots
from clickvec.encoder import Encoder
from clickvec.errors import ClickvecError, missing_extra

IMPRESSIONS = 600_000
MARKER = ".clickvec-demo"  # tells the folder of an earlier demo, which may be replaced
SEARCHES = ("hotels in shanghai", "ear infecton medicine", "bath tub wont turn off")


def run(verb: Callable[[list[str]], None], out: Path) -> None:
    """Simulate, train, evaluate beside BM25, index and search, each by its verb; then draw two pictures into `out`."""
    _check(out)
    begun = time.monotonic()
    site, model, index = (shlex.quote(str(out / name)) for name in ("site", "model", "index"))
    for command in (
        f"simulate {site} --impressions {IMPRESSIONS} --overwrite",
        f"train {site}/clicks.tsv.gz --dev {site}/dev.tsv.gz --out {model} --overwrite",
        f"evaluate {model} bm25 --judged {site}/test.tsv.gz",
        f"index {model} {site}/titles.tsv.gz --out {index} --overwrite",
        *(f'search {index} -k 3 "{query}"' for query in SEARCHES),
    ):
        typer.echo(f"\n$ clickvec {command}")
        verb(shlex.split(command))
    lines = (out / "model" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    plots.training_curve([json.loads(line) for line in lines], out / "training.png")
    plots.gates(Encoder.load(out / "model").trace_query(SEARCHES[0]), out / "gates.png")
    typer.echo(f"\nPictures: {out / 'training.png'}, {out / 'gates.png'}. Done in {time.monotonic() - begun:.0f} s.")


def _check(out: Path) -> None:
    """What is needed is installed, and the demo replaces nothing but an earlier demo."""
    for module in ("torch", "bm25s", "matplotlib"):
        if find_spec(module) is None:
            raise missing_extra(module, "all")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise ClickvecError(f"{out} has other things in it than an earlier demo; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER).touch()
