"""A system that is ready to score, and what it took."""

from dataclasses import dataclass, field
from typing import Any

from clickvec.evaluation.ranker import Ranker


@dataclass(frozen=True)
class Fitted:
    """A ranker and the facts of its row."""

    ranker: Ranker
    parameters: int | None = None
    seconds: float = 0.0  # of training, with the settings that were kept
    settings: dict[str, Any] = field(default_factory=dict)
    history: list[float] = field(default_factory=list)  # the training loss by epoch
    label: str = ""  # where it is known only now
