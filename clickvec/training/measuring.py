"""What a run is measured on: a judged set, or two parts of the clicks that are held out of training."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.data import ClickLog, Judged, data_folder
from clickvec.data.held_out import fewest_queries, hold_out
from clickvec.errors import ClickvecError
from clickvec.evaluation.fitting import use_best_fusion
from clickvec.evaluation.held_out_clicks import MOST_DEV, Catalogue, Collection, collection, measure
from clickvec.evaluation.index_measures import Hybrid
from clickvec.evaluation.judged_lists import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.result import p_text
from clickvec.evaluation.tuning import tune_bm25
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.progress import Progress
from clickvec.search.index import Index

log = logging.getLogger(__name__)

Dev = Judged | Collection  # what chooses the epoch: judged lists, or searches of the whole catalogue


class Parts(NamedTuple):
    """The clicks to train on, and what the model is measured on after each epoch (dev) and at the end (test)."""

    train: ClickLog
    dev: Dev | None = None
    test: Collection | None = None


def hold_out_clicks(clicks: ClickLog, titles: Iterable[str] = ()) -> Parts:
    """Hold two parts of the clicks out of training. The catalogue is the titles of the log, and more `titles`.

    If the log has too few queries, log a warning and return all of it for training.
    """
    held = hold_out(clicks)
    if held is None:
        log.warning(
            "No clicks are held out: the log has fewer than %d different queries. The last epoch is kept, and nothing "
            "is measured. To measure, give a judged set with --dev.", fewest_queries()
        )  # fmt: skip
        return Parts(clicks)
    by = "the latest ones" if clicks.times is not None else "by a hash of their words"
    return Parts(held.train, *_collections(held.dev, held.test, Catalogue(clicks.titles), titles, by))


def folder_parts(path: Path, titles: Iterable[str] = ()) -> tuple[Collection, Collection] | None:
    """Return what a data folder holds out, dev and test, over its titles and more; None if it holds nothing out."""
    held = data_folder.load_held_out(path)
    if held is None:
        log.warning("%s holds no clicks out, so nothing is measured; make it by prepare --hold-out, or add --dev", path)
        return None
    dev, test, own_titles = held
    return _collections(dev, test, Catalogue(own_titles), titles, "as prepare did")


def _collections(
    dev: ClickLog, test: ClickLog, catalogue: Catalogue, titles: Iterable[str], by: str
) -> tuple[Collection, Collection]:
    """Return dev and test over one catalogue, and say how large they are."""
    catalogue.add(titles)
    both = collection(dev, catalogue), collection(test, catalogue)
    log.info(
        "Held out %s queries to choose the epoch and %s to measure, %s. Each search is over %s titles.",
        *(f"{len(part.queries):,}" for part in both), by, f"{len(catalogue.titles):,}",
    )  # fmt: skip
    return both


def dev_scores(model: Model, dev: Dev) -> dict[str, float]:
    """Measure a model on dev. NDCG@10 is always among the measures."""
    ranker = Neural(Encoder(model), "dev")
    result = measure([ranker], dev.sample(MOST_DEV)) if isinstance(dev, Collection) else evaluate([ranker], dev)
    return dict(zip(result.measures, result.means[0].tolist(), strict=True))


def held_out_figures(model: Model, dev: Collection, test: Collection, progress: Progress) -> dict[str, Any]:
    """Measure a model on test, alone and in hybrid search, beside BM25. Return plain values for the model card.

    BM25 is tuned on dev, and the fusion of hybrid search is fitted on dev. An index of the model uses this fusion.
    """
    bm25, settings = tune_bm25(dev, progress)
    bm25.name = "BM25 (tuned)"
    encoder, titles = Encoder(model), test.catalogue.titles
    index = Index.build(encoder, titles)
    fusion = _fit(index, dev, progress)
    result = measure([Neural(encoder, "model", index), Hybrid(index), bm25], test, progress)
    return {
        "queries": len(test.queries), "titles": len(titles), "bm25": settings,
        "systems": result.as_json(intervals=True)["systems"], **fusion,
    }  # fmt: skip


def _fit(index: Index, dev: Collection, progress: Progress) -> dict[str, Any]:
    """Fit the fusion of an index on dev, if it has enough queries."""
    try:
        fitted = use_best_fusion(index, dev, progress)
    except ClickvecError as error:
        log.info("The default fusion is kept: %s.", error)
        return {}
    return {"fusion": fitted.fusion.as_json(), "fusion_report": fitted.report}


def figures_table(figures: dict[str, Any]) -> list[list[str]]:
    """Return the figures of the model card as a table: a header, then a row for each system."""
    first, *_ = figures["systems"]
    rows = []
    for system in figures["systems"]:
        cells = (f"{system[name]:.1f} [{low:.1f}, {high:.1f}]" for name, (low, high) in system["intervals"].items())
        rows.append([system["system"], *cells, *([p_text(system["p"])] if "p" in system else [])])
    return [["held-out clicks", *first["intervals"], *(["p"] if "p" in first else [])], *rows]


def describe_epoch(row: dict[str, Any], epochs: int) -> str:
    """Return the metrics of an epoch as one line."""
    text = f"epoch {row['epoch']}/{epochs}: loss {row['loss']:.4f}, {row['pairs_per_second']:,.0f} pairs/s"
    if "dev" in row:
        text += ", dev " + " ".join(f"{name} {value:.2f}" for name, value in row["dev"].items())
    if row["masked"]:
        text += f". Masked {row['masked']:,} false negatives (known clicks)."
    return text
