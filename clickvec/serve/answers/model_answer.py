"""What GET /model answers: how the model was trained, how good, large and fast it is, and what its log is like."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from clickvec.explanation.report import read_history
from clickvec.model.about import about_model, computed_by
from clickvec.model.encoder import Encoder
from clickvec.serve.about_folder import Doctor, Figure, Measured, MeasuredRow, read_about
from clickvec.serve.counters import BUCKETS
from clickvec.serve.endpoint import Call
from clickvec.serve.service import Service

_SEARCH = "POST /search"
_PARTS = {"models": "model", "segments": "vectors and words", "documents.sqlite": "titles and payloads"}


class Epoch(Struct):
    """One epoch of training."""

    epoch: int
    loss: float
    seconds: Annotated[float | None, Meta(description="Since the start of training.")]
    dev: Annotated[dict[str, float], Meta(description="Measures on dev, in per cent; empty if there was no dev.")]


class ModelResponse(Struct):
    """All that the service knows about its model. What it does not know is empty or null."""

    facts: Annotated[dict[str, Any], Meta(description="Architecture and size, by name.")]
    history: list[Epoch]
    kept_epoch: int | None
    data: Annotated[dict[str, Any], Meta(description="The training data, by name.")]
    recipe: Annotated[dict[str, Any], Meta(description="The settings of training, by name.")]
    sizes: Annotated[list[Figure], Meta(description="Bytes of the index on disk, and the number of titles.")]
    speed: Annotated[list[Figure], Meta(description="As measured before, and searches of this service.")]
    measured: Measured | None
    doctor: Annotated[Doctor | None, Meta(description="Of the log: only with a key for writing.")]
    problems: Annotated[list[str], Meta(description="Sentences about files that cannot be read.")]


def model(service: Service, call: Call) -> ModelResponse:
    """Return how the model was trained, how good, large and fast it is, and what the doctor found in its log."""
    view = service.index.view()
    encoder, folder = view.encoder, read_about(service.settings.about)
    facts, training = about_model(encoder.model), encoder.model.training
    kept = training.get("kept_epoch")
    measured = folder.measured or _held_out(encoder)
    return ModelResponse(
        facts={name: value for name, value in facts.items() if not isinstance(value, dict)}
        | {"encodes with": computed_by(encoder.model.tower), "fusion": view.fusion.method},
        history=_history(encoder.model.metrics),
        kept_epoch=kept if isinstance(kept, int) else None,
        data=_object(training.get("data")),
        recipe=_object(training.get("recipe")),
        sizes=[Figure("titles", len(view)), *([] if service.settings.address else _sizes(service.settings.index))],
        speed=[*(measured.speed if measured else ()), *_searches(service)],
        measured=measured,
        doctor=folder.doctor if call.may_write else None,
        problems=folder.problems,
    )


def _object(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _history(metrics: str) -> list[Epoch]:
    rows = []
    for row in read_history(metrics):
        dev = {name: float(value) for name, value in _object(row.get("dev")).items() if isinstance(value, int | float)}
        seconds = row.get("seconds")
        if isinstance(row["epoch"], int):
            known = float(seconds) if isinstance(seconds, int | float) else None
            rows.append(Epoch(row["epoch"], float(row["loss"]), known, dev))
    return rows


def _held_out(encoder: Encoder) -> Measured | None:
    """Return what training measured on held-out clicks, if it did."""
    found = encoder.model.training.get("held_out")
    if not found:
        return None
    rows = [
        MeasuredRow(system["system"], name, system[name], *ends)
        for system in found["systems"] for name, ends in system.get("intervals", {}).items()
    ]  # fmt: skip
    source = _object(encoder.model.training.get("data")).get("from", "the click log")
    return Measured(f"clicks of {source} that were held out of training", found["queries"], rows, found.get("titles"))


def _sizes(index: Path) -> list[Figure]:
    """Return the bytes of the parts of an index folder. A file that is removed meanwhile is left out."""
    sizes = dict.fromkeys(_PARTS.values(), 0)
    for path in sorted(index.rglob("*")):
        part = _PARTS.get(path.relative_to(index).parts[0])
        try:
            size = path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
        if part:
            sizes[part] += size
    return [Figure(name, size, "bytes") for name, size in sizes.items() if size]


def _searches(service: Service) -> list[Figure]:
    """Return how long searches took since the service started."""
    count = service.counters.requests(_SEARCH)
    if not count:
        return []
    figures, within = [Figure("searches since the start", count)], service.counters.within(_SEARCH, 0.95)
    if within is not None:
        return [*figures, Figure("95% of searches answered within", 1000 * within, "ms")]
    return [*figures, Figure("more than 5% of searches took longer than", 1000 * BUCKETS[-1], "ms")]
