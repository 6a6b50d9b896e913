"""Two models on the same text, as supplement II of the paper sets RNN against LSTM-RNN.

For each word, how many of the most active cells of each model detect it (see `keywords.py`), and both models'
scores of the pair.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickvec.config import RECURRENT
from clickvec.explanation.keywords import RULE, Keywords, Rule, keywords
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder


@dataclass(frozen=True)
class Contender:
    """What one model makes of the texts."""

    name: str
    tower: str  # in words
    score: float | None  # of the pair; None without a title
    query: Keywords | None  # None where the model does not read word by word
    title: Keywords | None  # ... and without a title


@dataclass(frozen=True)
class Versus:
    """Several models on the same query and title. A model has its own words where it reads fewer of them as words."""

    query: str
    title: str | None
    models: tuple[Contender, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return dataclasses.asdict(self)


def versus(encoders: Mapping[str, Encoder], query: str, title: str | None = None, *, rule: Rule = RULE) -> Versus:
    """Set models side by side, by their names."""
    models = (_contender(name, encoder, query, title, rule) for name, encoder in encoders.items())
    return Versus(query, title, tuple(models))


def _contender(name: str, encoder: Encoder, query: str, title: str | None, rule: Rule) -> Contender:
    tower = encoder.model.tower
    reads = tower.kind in RECURRENT
    score = None
    if title is not None:
        score = float(encoder.encode_query(query).astype(float) @ encoder.encode_document(title).astype(float))
    return Contender(
        name,
        describe_tower(tower),
        score,
        keywords(encoder, query, "query", **rule._asdict()) if reads else None,
        keywords(encoder, title, "title", **rule._asdict()) if reads and title is not None else None,
    )


def names_apart(folders: Sequence[Path]) -> list[str]:
    """The names of folders, with as many of the folders above them as it takes to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    names = [tuple(part[-1:]) for part in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        names = [
            part[-depth:] if names.count(name) > 1 else name for part, name in zip(parts, names, strict=True)
        ]  # fmt: skip
    return [str(Path(*name)) for name in names]
