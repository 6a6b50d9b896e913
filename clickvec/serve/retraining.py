"""Learn from the click log of a service: train the model of an index further, and swap it in if it is not worse."""

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.data.held_out import fewest_queries
from clickvec.errors import ClickvecError
from clickvec.progress import Progress
from clickvec.search.index import Index
from clickvec.serve.click_log import mark_used, take

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
    device: str = "auto",
    progress: Progress | None = None,
) -> Retrained:
    """Train the model of an index further on the clicks that its service has logged, and on other logs.

    The new model is swapped in if it was compared with the old one on held-out clicks and is not significantly worse.
    Otherwise the old model and the logs stay, and the next call reads the logs again. A running service goes on
    answering; it has the new model a moment after the swap.
    """
    from clickvec.training.continuing import continue_training

    logs = take(click_log)
    if not logs and not clicks:
        raise ClickvecError(f"there are no new clicks at {click_log}; send clicks to the service first (POST /click)")
    names = [str(name) for name in (*logs, *clicks)]
    index = Index.open(path)
    try:
        old = index.encoder
        with tempfile.TemporaryDirectory(prefix="clickvec-retrain-") as folder:
            new = continue_training(
                [*logs, *clicks], _model_folder(index), Path(folder) / "model", old_clicks=old_clicks, device=device,
                progress=progress,
            )  # fmt: skip
            compared = list(new.model.training.get("continued", {}).get("compared", []))
            if new.fingerprint == old.fingerprint:
                reason = "The new model is significantly worse on held-out clicks, so the old one stays."
                return Retrained(False, old.fingerprint, reason, compared, names)
            if not compared:
                reason = (
                    "There are too few clicks to compare the new model with the old one, so the old one stays. "
                    f"At least {fewest_queries()} different queries are needed."
                )
                return Retrained(False, old.fingerprint, reason, compared, names)
            index.use_model(new)
        mark_used(logs)
        return Retrained(True, new.fingerprint, "The new model is in use.", compared, names)
    finally:
        index.close()


def _model_folder(index: Index) -> Path:
    if index.encoder.path is None:
        raise ClickvecError("the index has no model folder; build it again")
    return index.encoder.path
