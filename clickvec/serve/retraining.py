"""Learn from the click log of a service: train the model of an index further, and swap it in if it is not worse."""

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickvec.data import ClickLog, read_clicks
from clickvec.data.cleaning import Cleaning, clean
from clickvec.data.held_out import fewest_queries, hold_out
from clickvec.errors import ClickvecError
from clickvec.progress import Progress
from clickvec.search.index import Index
from clickvec.serve.click_log import mark_used, take
from clickvec.text.tokens import canonical

log = logging.getLogger(__name__)


class Retrained(NamedTuple):
    """What became of a model."""

    swapped: bool
    fingerprint: str  # of the model that the index has now
    reason: str  # one sentence
    compared: list[dict[str, Any]]  # the old and the new model on held-out clicks
    logs: list[str]


def retrain(
    path: Path,
    click_log: Path,
    clicks: Sequence[Path] = (),
    old_clicks: Path | None = None,
    *,
    k_anonymous: int = Cleaning.k_anonymous,
    device: str = "auto",
    progress: Progress | None = None,
) -> Retrained:
    """Train the model of an index further on the clicks that its service has logged, and on other logs.

    The new model is swapped in if it was compared with the old one on held-out clicks and is not significantly worse.
    Otherwise the old model and the logs stay, and the next call reads the logs again. A running service goes on
    answering; it has the new model a moment after the swap. The fusion stays, so scores keep their meaning.

    Queries that fewer than `k_anonymous` clients typed are dropped, if the logs have clients.
    """
    from clickvec.training.continuing import continue_training

    logs = take(click_log)
    if not logs and not clicks:
        raise ClickvecError(f"there are no new clicks at {click_log}; send clicks to the service first (POST /click)")
    names = [str(name) for name in (*logs, *clicks)]
    new_clicks, dropped, is_usual = _read(names, k_anonymous)
    index = Index.open(path)
    try:
        old = index.encoder
        if not len(new_clicks) or (old_clicks is None and hold_out(new_clicks) is None):
            return Retrained(False, old.fingerprint, _too_few(new_clicks, dropped, k_anonymous), [], names)
        with tempfile.TemporaryDirectory(prefix="clickvec-retrain-") as folder:
            source = names if is_usual else new_clicks  # of files, the model card has the names
            new = continue_training(
                source, _model_folder(index), Path(folder) / "model", old_clicks=old_clicks, device=device,
                progress=progress,
            )  # fmt: skip
            compared = list(new.model.training.get("continued", {}).get("compared", []))
            if new.fingerprint == old.fingerprint:
                reason = "The new model is significantly worse on held-out clicks, so the old one stays."
                return Retrained(False, old.fingerprint, reason, compared, names)
            if not compared:
                return Retrained(False, old.fingerprint, _too_few(new_clicks, dropped, k_anonymous), compared, names)
            index.use_model(new, index.fusion, report=index.fusion_report)
        mark_used(logs)
        return Retrained(True, new.fingerprint, "The new model is in use.", compared, names)
    finally:
        index.close()


def _read(names: list[str], k_anonymous: int) -> tuple[ClickLog, int, bool]:
    """Return clean clicks, how many queries too few clients typed, and whether training cleans the files likewise.

    A file without clients cannot tell how many typed a query, so its queries are kept.
    """
    log, _ = clean(read_clicks(names), Cleaning(k_anonymous=0))
    files = [clean(read_clicks([name]), Cleaning(k_anonymous=0))[0] for name in names] if names[1:] else [log]
    clients: dict[str, set[str]] = {}
    kept: set[str] = set()
    for part in (part for file in files for part in (file, file.shown) if part):
        if part.clients is None:
            kept.update(map(canonical, part.queries))
        for query, client in zip(part.queries, part.clients or (), strict=part.clients is not None):
            clients.setdefault(canonical(query), set()).update(filter(None, [client.strip()]))
    rare = {query for query, typed in clients.items() if len(typed) < k_anonymous} - kept
    is_usual = not clients or (k_anonymous == Cleaning.k_anonymous and not kept)
    if all(canonical(query) in rare for query in log.queries):
        return ClickLog([], [], np.zeros(0)), len(rare), is_usual
    log, _ = clean(log, Cleaning(k_anonymous=0, drop_queries=frozenset(rare)))
    shown = None if log.shown is None else replace(log.shown, clients=None)
    return replace(log, clients=None, shown=shown), len(rare), is_usual  # training has its own rule about clients


def _too_few(clicks: ClickLog, dropped: int, k_anonymous: int) -> str:
    """Say why the new model cannot be compared with the old one."""
    reason = (
        f"There are too few clicks to compare a new model with the old one, so the old one stays: "
        f"{len(set(clicks.queries)):,} different queries, and at least {fewest_queries()} are needed."
    )
    if dropped:
        reason += (
            f" Dropped {dropped:,} queries that fewer than {k_anonymous} clients typed; --k-anonymous 0 keeps them."
        )
    return reason


def _model_folder(index: Index) -> Path:
    if index.encoder.path is None:
        raise ClickvecError("the index has no model folder; build it again")
    return index.encoder.path
