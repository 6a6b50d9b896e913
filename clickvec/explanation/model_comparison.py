"""Several models on the same query and title, as supplement II of the paper compares RNN and LSTM-RNN."""

from collections.abc import Mapping
from dataclasses import dataclass

from clickvec.config import RECURRENT
from clickvec.explanation.keywords import RULE, Keywords, Rule, keywords
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder


@dataclass(frozen=True)
class ComparedModel:
    """The score and the keywords of one model."""

    name: str
    tower: str  # in words
    score: float | None  # None without a title
    query: Keywords | None  # None if the model does not read word by word
    title: Keywords | None  # the same, and None without a title


@dataclass(frozen=True)
class ModelComparison:
    """Several models on the same texts. A model with a smaller `max_words` splits a long text into fewer words."""

    query: str
    title: str | None
    models: tuple[ComparedModel, ...]


def compare_models(
    encoders: Mapping[str, Encoder], query: str, title: str | None = None, *, rule: Rule = RULE
) -> ModelComparison:
    """Return the score and the keywords of each model, by its name."""
    return ModelComparison(
        query, title, tuple(_compared(name, encoder, query, title, rule) for name, encoder in encoders.items())
    )


def _compared(name: str, encoder: Encoder, query: str, title: str | None, rule: Rule) -> ComparedModel:
    recurrent = encoder.model.tower.kind in RECURRENT
    score = None
    if title is not None:
        score = float(encoder.encode_query(query).astype(float) @ encoder.encode_document(title).astype(float))
    return ComparedModel(
        name,
        describe_tower(encoder.model.tower),
        score,
        keywords(encoder, query, "query", rule) if recurrent else None,
        keywords(encoder, title, "title", rule) if recurrent and title is not None else None,
    )
