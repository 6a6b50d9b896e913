"""The systems that the trainer trains: the recipe, the model folder, and a run that goes on where it was stopped."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from clickvec import config
from clickvec.about import about_model
from clickvec.compare.fitted import Fitted
from clickvec.compare.material import Material, short_hash
from clickvec.compare.systems import System
from clickvec.config import Recipe
from clickvec.encoder import Encoder
from clickvec.errors import missing_extra
from clickvec.rankers.neural import Neural


class Trainer(NamedTuple):
    """How the trainer is to work: the same for all its systems."""

    recipe: str
    settings: tuple[str, ...] = ()  # key=value, over the recipe and under what makes the system what it is
    device: str = "auto"
    quiet: bool = False

    def recipe_of(self, system: System, seed: int) -> Recipe:
        """The whole recipe of one run."""
        return config.recipe(self.recipe, settings=self.settings, **{**(system.settings or {}), "seed": seed})


def check(trainer: Trainer) -> None:
    """Refuse to begin where torch or the device is not."""
    device_name(trainer)


def device_name(trainer: Trainer) -> str:
    """The device that the trainer uses, as its maker calls it; nothing for a CPU."""
    try:
        from clickvec.train.places import describe_device
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise missing_extra("torch", "train") from None
    return describe_device(trainer.device)


def fit(trainer: Trainer, system: System, material: Material, seed: int, models: Path) -> Fitted:
    """The trained model: the one that is there, the unfinished one trained to its end, or a new one."""
    from clickvec.train.loop import train

    recipe = trainer.recipe_of(system, seed)
    out = models / f"{system.key}-{seed}-{short_hash(asdict(recipe), material.fingerprint)}"
    if not (out / "config.json").exists():
        begun = (out.with_name(out.name + ".run") / "checkpoint.safetensors").exists()
        train(
            material.prepared(recipe), recipe, out, dev=material.dev, device=trainer.device, resume=begun,
            about_data=material.names.get("clicks", ""), quiet=trainer.quiet,
        )  # fmt: skip
    encoder = Encoder.load(out)
    history = _history(out)
    return Fitted(
        Neural(encoder, system.label),
        parameters=int(about_model(encoder.model)["parameters"]),
        seconds=float(history[-1]["seconds"]),
        settings=asdict(recipe),
        history=[float(row["loss"]) for row in history],
    )


def _history(out: Path) -> list[dict[str, float]]:
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
