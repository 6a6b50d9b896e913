"""The systems that the trainer trains: their recipes, their model folders, and resuming an interrupted run."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from clickvec import config
from clickvec.config import Recipe
from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.test_set import TestSet
from clickvec.lab.compare.material import Material, short_hash
from clickvec.lab.compare.systems import Fitted, System
from clickvec.model.about import about_model
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model, open_model
from clickvec.progress import Progress
from clickvec.storage.snapshot import open_folder


class Trainer(NamedTuple):
    """The options of the trainer, the same for all its systems."""

    recipe: str
    settings: tuple[str, ...] = ()  # key=value; they override the recipe, and the settings of a system override them
    device: str = "auto"
    progress: Progress | None = None

    def recipe_of(self, system: System, seed: int) -> Recipe:
        """Return the recipe of one run."""
        for key in ("seed", "tower"):
            if any(setting.partition("=")[0].strip() == key for setting in self.settings):
                raise ClickvecError(f"compare sets {key} itself, from --seeds and --systems; leave --set {key} out")
        return config.recipe(self.recipe, settings=self.settings, **{**(system.settings or {}), "seed": seed})

    def check_settings(self, systems: Sequence[System]) -> None:
        """Refuse wrong settings before any work, even if no chosen system uses them."""
        for system in [system for system in systems if system.settings is not None] or systems[:1]:
            self.recipe_of(system, 1)


def settings_for_hash(recipe: Recipe) -> dict[str, object]:
    """Return the settings under the names that they had at first, so that earlier scores and models are still used."""
    first_names = {new: old for old, new in config.RENAMED.items()}
    settings = {first_names.get(name, name): value for name, value in (asdict(recipe) | config.REMOVED).items()}
    return {name: value for name, value in settings.items() if name != "whole_words" or value}


def check(trainer: Trainer) -> None:
    """Check that torch and the device are available."""
    device_name(trainer)


def device_name(trainer: Trainer) -> str:
    """Return the name of the GPU that the trainer uses; an empty string for the CPU."""
    try:
        import torch

        from clickvec.training.device import pick_device
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise missing_extra("torch", "train") from None
    device = pick_device(trainer.device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def fit(trainer: Trainer, system: System, material: Material, seed: int, models: Path) -> Fitted:
    """Return the trained model: load it, resume its interrupted run, or train it."""
    from clickvec.training.loop import run_training

    recipe = trainer.recipe_of(system, seed)
    out = models / f"{system.key}-{seed}-{short_hash(settings_for_hash(recipe), material.training_fingerprint)}"
    if not _is_complete(out):
        begun = _can_resume(out.with_name(out.name + ".run") / "checkpoint.safetensors")
        run_training(
            material.prepared(recipe), recipe, out, dev=TestSet.of_judged(material.dev), device=trainer.device,
            resume=begun, overwrite=not begun, source=", ".join(material.names.get("clicks", ())),
            progress=trainer.progress,
        )  # fmt: skip
    encoder = Encoder.load(out)
    history = _history(encoder.model)
    return Fitted(
        Neural(encoder, system.key),
        parameters=int(about_model(encoder.model)["parameters"]),
        seconds=float(history[-1]["seconds"]),
        settings=asdict(recipe),
        history=[float(row["loss"]) for row in history],
    )


def _is_complete(out: Path) -> bool:
    """Return whether there is a finished model that can be read."""
    try:
        open_model(out)
    except ClickvecError:
        return False
    return True


def _can_resume(checkpoint: Path) -> bool:
    """Return whether there is a checkpoint that can be read."""
    try:
        with open_folder(checkpoint.parent, [checkpoint.name], "checkpoint") as opened:
            opened.arrays(checkpoint.name)
    except ClickvecError:
        return False
    return True


def _history(model: Model) -> list[dict[str, float]]:
    return [json.loads(line) for line in model.metrics.splitlines()]
