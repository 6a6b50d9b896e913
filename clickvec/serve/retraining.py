"""Learn from the click log of a service: train the model of an index further, and swap it in if it is not worse."""

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickvec.data import BadLines, ClickLog, Columns, read_events
from clickvec.data.cleaning import Cleaning, CleaningReport, clean
from clickvec.data.clicks import collect, describe_files
from clickvec.data.held_out import fewest_queries, hold_out
from clickvec.errors import ClickvecError
from clickvec.progress import Progress
from clickvec.search.index import Index
from clickvec.serve.click_log import mark_used, take
from clickvec.text.tokens import canonical

log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """How the logs besides that of the service are read, and how all logs are cleaned."""

    columns: Columns = Columns()
    catalogue: Path | None = None
    queries: Path | None = None
    max_bad: float = 0.01
    cleaning: Cleaning = Cleaning()


AS_USUAL = Reading()


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
    reading: Reading = AS_USUAL,
    device: str = "auto",
    progress: Progress | None = None,
) -> Retrained:
    """Train the model of an index further on the clicks that its service has logged, and on other logs.

    The new model is swapped in if it was compared with the old one on held-out clicks and is not significantly worse.
    Otherwise the old model and the logs stay, and the next call reads the logs again. A running service goes on
    answering; it has the new model, and the fusion that was fitted for it, in the same moment. With too few clicks to
    fit one, the fusion stays.

    Queries that fewer clients typed than the cleaning demands are dropped, if the logs have clients.
    """
    from clickvec.training.continuing import continue_training

    logs = take(click_log)
    if not logs and not clicks:
        raise ClickvecError(f"there are no new clicks at {click_log}; send clicks to the service first (POST /click)")
    names = [str(name) for name in (*logs, *clicks)]
    least = reading.cleaning.least_clients(sessions=False)
    new_clicks, dropped, is_usual = _read(logs, clicks, reading)
    old_log = old_clicks if old_clicks is None or reading == AS_USUAL else _read_log((), [old_clicks], reading)
    index = Index.open(path)
    try:
        old = index.encoder
        if not len(new_clicks) or (old_clicks is None and hold_out(new_clicks) is None):
            return Retrained(False, old.fingerprint, _too_few(new_clicks, dropped, least), [], names)
        with tempfile.TemporaryDirectory(prefix="clickvec-retrain-") as folder:
            source = names if is_usual else new_clicks  # of files, the model card has the names
            new = continue_training(
                source, _model_folder(index), Path(folder) / "model", old_clicks=old_log,
                catalogue=(document.title for document in index), device=device, progress=progress,
            )  # fmt: skip
            compared = list(new.model.training.get("continued", {}).get("compared", []))
            if new.fingerprint == old.fingerprint:
                reason = "The new model is significantly worse on held-out clicks, so the old one stays."
                return Retrained(False, old.fingerprint, reason, compared, names)
            if not compared:
                return Retrained(False, old.fingerprint, _too_few(new_clicks, dropped, least), compared, names)
            index.refresh()
            if index.encoder.fingerprint != old.fingerprint:
                raise ClickvecError(
                    f"{path} got another model meanwhile, perhaps by another retrain; nothing was changed. Run it again"
                )
            if new.model.fusion in (None, old.model.fusion):
                index.use_model(new, index.fusion, report=index.fusion_report)
                fused = "The fusion of words and vectors stays."
            else:
                index.use_model(new)
                fused = "The fusion of words and vectors was fitted anew, so scores changed: check min_score."
        mark_used(logs)
        return Retrained(True, new.fingerprint, f"The new model is in use. {fused}", compared, names)
    finally:
        index.close()


def _read_log(own: Sequence[Path], given: Sequence[Path], reading: Reading) -> ClickLog:
    """Read logs of the service and others, and clean them by all rules but k-anonymity."""
    columns, catalogue, queries, max_bad, cleaning = reading
    bad = BadLines()
    blocks = chain(
        read_events(own, bad=bad, max_bad=max_bad) if own else (),
        read_events(given, columns, catalogue=catalogue, queries=queries, bad=bad, max_bad=max_bad) if given else (),
    )
    log = collect(blocks, bad)
    bad.check(describe_files([*own, *given]), max_bad, len(log), "pair with a click")
    columns.check_used()
    return clean(log, replace(cleaning, k_anonymous=0))[0]


def _read(own: Sequence[Path], given: Sequence[Path], reading: Reading) -> tuple[ClickLog, int, bool]:
    """Return clean clicks, how many queries too few clients typed, and whether training cleans the files likewise.

    A file without clients, or by default with sessions, cannot tell how many typed a query, so its queries are kept.
    """
    log = _read_log(own, given, reading)
    files = [_read_log([path], (), reading) for path in own] + [_read_log((), [path], reading) for path in given]
    clients: dict[str, set[str]] = {}
    kept: set[str] = set()
    for part in (part for file in files for part in (file, file.shown) if part):
        if part.clients is None or not reading.cleaning.least_clients(part.sessions):
            kept.update(map(canonical, part.queries))
            continue
        for query, client in zip(part.queries, part.clients, strict=True):
            clients.setdefault(canonical(query), set()).update(filter(None, [client.strip()]))
    least = reading.cleaning.least_clients(sessions=False)
    rare = {query for query, typed in clients.items() if len(typed) < least} - kept
    is_usual = reading == AS_USUAL and not (clients and kept)
    if all(canonical(query) in rare for query in log.queries):
        return ClickLog([], [], np.zeros(0)), len(rare), is_usual
    only_rare = Cleaning(keep_secrets=True, merge_minutes=0, k_anonymous=0, drop_queries=frozenset(rare))
    kept_clicks = float(log.clicks.sum())
    log, _ = clean(log, only_rare, is_part=True)
    report = CleaningReport(clicks={"k_anonymous": (kept_clicks, float(log.clicks.sum()))})
    report.warn("k_anonymous", reading.cleaning)
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
