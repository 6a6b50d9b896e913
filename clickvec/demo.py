"""The whole story on the built-in log, each step printed as the command that does it alone."""

import time
from importlib.util import find_spec
from pathlib import Path

import typer

from clickvec import config, dataset, files, plots, simulate
from clickvec.encoder import Encoder
from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluate import evaluate
from clickvec.index import Index
from clickvec.rankers.lexical import BM25
from clickvec.rankers.neural import Neural
from clickvec.readers import read_clicks, read_judged, read_titles
from clickvec.terminal import table

BUILT_IN = "the built-in log"
IMPRESSIONS = 600_000
SEARCHES = ("hotels in shanghai", "ear infecton medicine", "bath tub wont turn off")


def run(out: Path, impressions: int = IMPRESSIONS) -> None:
    """Simulate, train, evaluate beside BM25, index, search, and draw two pictures into `out`."""
    site, model_path, index_path = out / "site", out / "model", out / "index"
    _check(model_path, index_path / "model")
    from clickvec.train.loop import train

    begun = time.monotonic()
    _step(f"clickvec simulate {site} --impressions {impressions}")
    summary = simulate.write(site, impressions)
    typer.echo(
        f"{summary.impressions:,} impressions, {summary.clicks:,} clicks, {summary.queries:,} queries, "
        f"{summary.titles:,} titles; {summary.no_common_word:.0%} of clicked titles share no word with their query"
    )
    _step(f"clickvec train {site}/clicks.tsv.gz --dev {site}/dev.tsv.gz --out {model_path}")
    recipe = config.recipe("default")
    data = dataset.prepare(read_clicks(site / "clicks.tsv.gz"), recipe.max_words, recipe.max_trigrams)
    train(data, recipe, model_path, dev=read_judged(site / "dev.tsv.gz"), overwrite=True, about_data=BUILT_IN)
    encoder = Encoder.load(model_path)

    _step(f"clickvec evaluate {model_path} bm25 --judged {site}/test.tsv.gz")
    judged, titles = read_judged(site / "test.tsv.gz"), read_titles(site / "titles.tsv.gz")
    catalogue = [title.title for title in titles]
    result = evaluate([Neural(encoder, "clickvec LSTM-RNN"), BM25(catalogue)], judged)
    typer.echo(table(result.as_table()))

    _step(f"clickvec index {model_path} {site}/titles.tsv.gz --out {index_path}")
    index = Index.build(encoder, catalogue, ids=[title.id for title in titles])
    index.save(index_path, overwrite=True)
    typer.echo(f"{len(index):,} titles")
    for query in SEARCHES:
        _step(f'clickvec search {index_path} "{query}"')
        for hit in index.search(query, k=3):
            typer.echo(f"{hit.score:.3f}  {hit.title}")

    plots.training_curve(_metrics(model_path), out / "training.png")
    plots.gates(encoder.trace_query(SEARCHES[0]), out / "gates.png")
    typer.echo(f"\nPictures: {out / 'training.png'}, {out / 'gates.png'}. Done in {time.monotonic() - begun:.0f} s.")


def _check(*models: Path) -> None:
    """What is needed is installed, and the demo replaces no model and no index but its own."""
    for module in ("torch", "bm25s", "matplotlib"):
        if find_spec(module) is None:
            raise missing_extra(module, "all")
    for model in models:
        if (model / "config.json").exists():
            about = files.read_json(model / "config.json", "model folder").get("training")
            data = about.get("data") if isinstance(about, dict) else None
            if not isinstance(data, dict) or data.get("from") != BUILT_IN:
                raise ClickvecError(f"{model} holds a model that the demo did not make; choose another --out")


def _metrics(model: Path) -> list[dict[str, object]]:
    import json

    return [json.loads(line) for line in (model / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def _step(command: str) -> None:
    typer.echo(f"\n$ {command}")
