"""Do cells represent topics? Measured on texts with known topics, compared with chance, an untrained model and PLSA.

An item is a word in a text. Its cluster is the cell that detects it, the cell with its sign, or the topic that PLSA
assigns. Its true topic is that of the text. Two measures say how well clusters match topics:

    purity  the share of items whose topic is the most frequent one of their cluster
    NMI     the mutual information of cluster and topic, divided by the arithmetic mean of their entropies

Both rise with the number of clusters even for random clusters. So each is also computed after the topics have been
shuffled among the texts; `adjusted` is 0 for the level of chance and 1 for a perfect score.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from clickvec.config import DEFAULT
from clickvec.errors import ClickvecError
from clickvec.explanation.reading import Floats
from clickvec.explanation.topics import Detections, Ints, detect
from clickvec.lab.other_systems.plsa import PLSA
from clickvec.model import folder, forward
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_words
from clickvec.text.trigrams import is_whole_word

SHUFFLES = 20
PLSA_SETTINGS: dict[str, Any] = {"tokens": "words-stop", "prior": 1.0, "iterations": 200}  # almost converged


class Assignments(NamedTuple):
    """Items in clusters: the number of the text and of the cluster of each item."""

    text: Ints
    cluster: Ints


@dataclass(frozen=True)
class Measure:
    """A measure and its level of chance."""

    value: float
    chance: float  # the mean over shuffles
    spread: float  # their standard deviation

    @property
    def adjusted(self) -> float:
        """The value adjusted for chance: 0 at the level of chance, 1 if it is perfect."""
        return (self.value - self.chance) / (1 - self.chance) if self.chance < 1 else 0.0


@dataclass(frozen=True)
class TopicScore:
    """How well clusters of words match the topics of their texts."""

    items: int
    texts: int
    clusters: int
    topics: int
    purity: Measure
    nmi: Measure

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return asdict(self) | {
            name: asdict(measure) | {"adjusted": measure.adjusted}
            for name, measure in (("purity", self.purity), ("nmi", self.nmi))
        }


def score(
    assignments: Assignments, labels: Sequence[str | None], *, shuffles: int = SHUFFLES, seed: int = 0
) -> TopicScore:
    """Score clusters against the topic of each text; texts without a topic (None) are ignored."""
    known = np.array([label is not None for label in labels], np.bool_)
    kept = known[assignments.text] if len(labels) else np.zeros(0, np.bool_)
    if not kept.any():
        raise ClickvecError("there is nothing to score: no word has a cluster and a text with a known topic")
    texts, text = np.unique(assignments.text[kept], return_inverse=True)
    clusters, cluster = np.unique(assignments.cluster[kept], return_inverse=True)
    topics, topic = np.unique([str(labels[at]) for at in texts.tolist()], return_inverse=True)
    shape = len(clusters), len(topics)
    purity, nmi = _measures(_contingency(cluster, topic[text], shape))
    rng = np.random.default_rng(seed)
    shuffled = np.array(
        [_measures(_contingency(cluster, rng.permutation(topic)[text], shape)) for _ in range(shuffles)]
    )
    (purity_chance, nmi_chance), (purity_spread, nmi_spread) = shuffled.mean(axis=0), shuffled.std(axis=0)
    return TopicScore(
        len(text), len(texts), len(clusters), len(topics),
        Measure(purity, float(purity_chance), float(purity_spread)), Measure(nmi, float(nmi_chance), float(nmi_spread)),
    )  # fmt: skip


def _contingency(cluster: Ints, topic: Ints, shape: tuple[int, int]) -> Ints:
    """Return (clusters, topics): the number of items."""
    return np.bincount(np.ravel_multi_index((cluster, topic), shape), minlength=shape[0] * shape[1]).reshape(shape)


def _measures(counts: Ints) -> tuple[float, float]:
    """Return purity and NMI."""
    p = counts / counts.sum()
    entropies = _entropy(p.sum(axis=0)), _entropy(p.sum(axis=1))
    information = max(sum(entropies) - _entropy(p.ravel()), 0.0)
    nmi = information / np.mean(entropies) if any(entropies) else 1.0  # there is only one cluster and one topic
    return float(counts.max(axis=1).sum() / counts.sum()), float(nmi)


def _entropy(p: Floats) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


# --- assignments -------------------------------------------------------------------------------------------------


def cells(found: Detections) -> Assignments:
    """Assign each detection to its cell."""
    return Assignments(found.text, found.dimension)


def signed_cells(found: Detections) -> Assignments:
    """Assign each detection to its cell and the sign of the cell."""
    return Assignments(found.text, 2 * found.dimension + found.positive)


def untrained(encoder: Encoder, seed: int = 0) -> Encoder:
    """Return a model of the same shape with random weights, as at the start of its training."""
    model = encoder.model
    recipe = model.training.get("recipe")
    scale = float((recipe if isinstance(recipe, dict) else {}).get("initial_scale", DEFAULT["initial_scale"]))
    rng = np.random.default_rng(seed)
    weights: dict[str, forward.Array] = {}
    words = [number for number, trigram in enumerate(model.trigrams) if is_whole_word(trigram)]
    for side in folder.sides(model.shared_tower):
        for name, shape in forward.shapes(model.tower, len(model.trigrams)).items():
            array = rng.uniform(-scale, scale, shape).astype(np.float32)
            array[words if name.endswith(".input") else []] = 0
            weights[f"{side}.{name}"] = array + np.float32(forward.initial_value(name))
    return Encoder(model._replace(weights=weights, training={}, fingerprint=""))


def words_at_random(found: Detections, clusters: int, seed: int = 0) -> Assignments:
    """Assign each distinct word to a random cluster.

    A word mostly occurs in texts of the same topics, so even these clusters score above chance: distinguishing words is
    not yet distinguishing topics.
    """
    return Assignments(found.text, np.random.default_rng(seed).integers(0, clusters, len(found.words))[found.word])


def plsa_assignments(plsa: PLSA, texts: Sequence[str], found: Detections | None = None) -> Assignments:
    """Assign each word to its most probable PLSA topic, the z that maximises P(z|d) P(w|z).

    Items are all words but the first of each text or, with `found`, the items of a model, so that both are scored on
    the same words. A word that PLSA does not know gets the most probable topic of its text.
    """
    if found is None:
        words = [split_words(text) for text in texts]
        items = [(number, word) for number, text in enumerate(words) for word in text[1:]]
    else:
        items = [(at, found.words[word]) for at, word in zip(found.text.tolist(), found.word.tolist(), strict=True)]
    tiny = np.finfo(np.float32).tiny  # a topic can give a word the probability 0
    in_text = np.log(np.maximum(plsa.topics_of(texts), tiny))
    of_word = {
        word: np.log(np.maximum(plsa.known_words(word), tiny)).sum(axis=0) for word in {word for _, word in items}
    }
    cluster = [int((in_text[at] + of_word[word]).argmax()) for at, word in items]
    return Assignments(np.array([at for at, _ in items], np.int64), np.array(cluster, np.int64))


def score_all(
    encoder: Encoder,
    found: Detections,
    labels: Sequence[str | None],
    *,
    corpus: Sequence[str] | None = None,
    seed: int = 0,
) -> dict[str, TopicScore]:
    """Score the cells and signed cells of a model and an untrained one, random clusters, and PLSA fitted to `corpus`.

    Random clusters and PLSA are scored with as many clusters as cells and as signed cells, PLSA also with as many as
    topics.
    """
    blank = detect(
        untrained(encoder, seed), found.texts, side=found.side, active=found.active, threshold=found.threshold
    )
    assignments = {
        "cells": cells(found),
        "signed cells": signed_cells(found),
        "cells, untrained": cells(blank),
        "signed cells, untrained": signed_cells(blank),
    }
    sizes = len(found.cells), 2 * len(found.cells)
    assignments |= {f"words at random, {size} clusters": words_at_random(found, size, seed) for size in sizes}
    topics = len({label for label in labels if label is not None})
    for size in dict.fromkeys((topics or 1, *sizes)) if corpus else ():
        plsa = PLSA.fit(corpus or (), topics=size, seed=seed, **PLSA_SETTINGS)
        assignments[f"PLSA, {size} topics"] = plsa_assignments(plsa, found.texts, found)
    return {name: score(clusters, labels, seed=seed) for name, clusters in assignments.items()}
