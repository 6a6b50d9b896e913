"""What a run is measured on: a judged set, or two parts of the clicks that are held out of training."""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.data import ClickLog, data_folder
from clickvec.data.dataset import Dataset, Texts
from clickvec.data.held_out import fewest_queries, hold_out
from clickvec.evaluation.measure import measure
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.result import p_text
from clickvec.evaluation.test_set import MOST_DEV, Catalogue, TestSet
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.text.tokens import canonical

log = logging.getLogger(__name__)


def hold_out_clicks(
    clicks: ClickLog, prepare: Callable[[ClickLog], tuple[Dataset, Texts]], titles: Iterable[str] = ()
) -> tuple[tuple[Dataset, Texts], TestSet | None, TestSet | None]:
    """Hold two parts of the clicks out of training, and prepare the rest. Return the data, dev and test.

    The catalogue is `titles`, those of the data and those of both parts: the same as for a data folder that holds these
    parts out. If the log has too few queries, log a warning and return all of it for training.
    """
    held = hold_out(clicks)
    if held is None:
        log.warning(
            "No clicks are held out: the log has fewer than %d different queries. The last epoch is kept.",
            fewest_queries(),
        )
        return prepare(clicks), None, None
    by = "the latest ones" if clicks.times is not None else "by a hash of their words"
    prepared = prepare(held.train)
    return prepared, *_test_sets(held.dev, held.test, prepared[1].titles[:], titles, by)


def folder_parts(path: Path, titles: Iterable[str] = ()) -> tuple[TestSet, TestSet] | None:
    """Return what a data folder holds out, dev and test, over its titles and more; None if it holds nothing out."""
    held = data_folder.load_held_out(path)
    if held is None:
        log.warning(
            "%s holds no clicks out, so the last epoch is kept; make it by prepare --hold-out, or add --dev", path
        )
        return None
    dev, test, own_titles = held
    return _test_sets(dev, test, own_titles, titles, "as prepare did")


def warn_of_held_out(path: Path) -> None:
    """Say so if a data folder holds clicks out that are neither trained on nor measured on."""
    if (held := data_folder.load_held_out(path)) is not None:
        log.warning(
            "%s holds out %s clicked pairs, which are not trained on; to train on all, prepare it without --hold-out",
            path, f"{len(held[0]) + len(held[1]):,}",
        )  # fmt: skip


def _test_sets(
    dev: ClickLog, test: ClickLog, own: Iterable[str], titles: Iterable[str], by: str
) -> tuple[TestSet, TestSet]:
    """Return dev and test over one catalogue, and say how large they are.

    Titles that match equally well are ranked in their order, so it is that of an index: the catalogue, then `own` ones.
    A data folder has lines in another order and spelling than its log, so own titles and queries are sorted here.
    """
    catalogue = Catalogue(titles)
    catalogue.add(sorted({canonical(title) for part in (own, dev.titles, test.titles) for title in part}))
    both = TestSet.of_clicks(_sorted(dev), catalogue), TestSet.of_clicks(_sorted(test), catalogue)
    log.info(
        "Held out %s queries to choose the epoch and %s to measure, %s. Each search is over %s titles.",
        *(f"{len(part.queries):,}" for part in both), by, f"{len(catalogue.titles):,}",
    )  # fmt: skip
    return both


def _sorted(log: ClickLog) -> ClickLog:
    """Return the distinct pairs of a log, by their words."""
    pairs = sorted(set(zip(map(canonical, log.queries), map(canonical, log.titles), strict=True)))
    return ClickLog([query for query, _ in pairs], [title for _, title in pairs], np.ones(len(pairs)))


def dev_scores(model: Model, dev: TestSet) -> dict[str, float]:
    """Measure a model on dev, of many searches on a random sample. NDCG@10 is always among the measures."""
    result = measure([Neural(Encoder(model), "dev")], dev if dev.catalogue is None else dev.sample(MOST_DEV))
    return dict(zip(result.measures, result.means[0].tolist(), strict=True))


def figures_table(figures: dict[str, Any]) -> list[list[str]]:
    """Return the figures of the model card as a table: a header, then a row for each system."""
    first, *_ = figures["systems"]
    rows = []
    for system in figures["systems"]:
        cells = (f"{system[name]:.1f} [{low:.1f}, {high:.1f}]" for name, (low, high) in system["intervals"].items())
        rows.append([system["system"], *cells, *([p_text(system["p"])] if "p" in system else [])])
    clicks = "cross-validated clicks" if "folds" in figures else "held-out clicks"
    return [[clicks, *first["intervals"], *(["p"] if "p" in first else [])], *rows]


def describe_epoch(row: dict[str, Any], epochs: int) -> str:
    """Return the metrics of an epoch as one line."""
    text = f"epoch {row['epoch']}/{epochs}: loss {row['loss']:.4f}, {row['pairs_per_second']:,.0f} pairs/s"
    if "dev" in row:
        text += ", dev " + " ".join(f"{name} {value:.2f}" for name, value in row["dev"].items())
    if row["masked"]:
        text += f". Masked {row['masked']:,} false negatives (known clicks)."
    return text
