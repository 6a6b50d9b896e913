"""The fusion: one score for each candidate of a query, as a weighted sum of the features of all parts.

There are three methods:

    ranks     reciprocal rank fusion: the sum of 1 / (constant + rank) of the rankings by each part
    mixture   the default: a weighted sum of features, at most 1
    clicks    the probability of a click: a logistic model of the features, fitted on clicks and calibrated

Every method is additive. `terms_of` names the terms; `clicks` applies the logistic function to their sum. Scores of
`mixture` and `clicks` depend on the query and the title alone, so they can be compared between queries. Ranks depend on
the other candidates, so they are no feature of these.

If a part is silent about a query, as the vectors are if the model knows no trigram of it, its terms are missing, and
every probability would sink. So a fitted fusion has weights of its own for each subset of the parts that propose.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model.folder import Model
from clickvec.search.parts import FEATURES, PARTS, PROPOSING
from clickvec.search.parts.part import Feature, Features, Floats, PartQuery, Values
from clickvec.search.title_view import Positions
from clickvec.storage.json_files import json_hash

Weights = Mapping[str, float]

# What can be weighed, and what must be.
_NAMES: dict[str, tuple[str, ...]] = {
    "ranks": ("constant",),
    "mixture": tuple(FEATURES),
    "clicks": ("constant", *FEATURES, "bend", "bend from"),
}
_NEEDED = {"ranks": ("constant",), "mixture": (), "clicks": ("constant",)}
_TIE = 0.001  # the weight of the other parts among titles that one part finds equally good
_TINY = 1e-30
_LARGEST = 1e6  # of a weight; what is larger was not fitted


@dataclass(frozen=True)
class Candidates:
    """What all parts say about some titles, for one query."""

    values: dict[str, Values]  # by the names of the parts
    silent: frozenset[str] = frozenset()  # the parts that have nothing to say about any title

    def __len__(self) -> int:
        """Return the number of titles."""
        return len(next(iter(self.values.values())).own)

    def features(self) -> Features:
        """Return the features of all parts."""
        return {name: feature for values in self.values.values() for name, feature in values.features().items()}

    def take(self, rows: NDArray[Any]) -> "Candidates":
        """Return some of the titles."""
        return replace(self, values={name: values.take(rows) for name, values in self.values.items()})

    def joined(self, other: "Candidates") -> "Candidates":
        """Return these titles, then others."""
        return replace(self, values={name: values.joined(other.values[name]) for name, values in self.values.items()})


def candidates_at(parts: Sequence[PartQuery], positions: Positions) -> Candidates:
    """Return what the parts say about titles of the view."""
    silent = frozenset([one.part.name for one in parts if one.is_silent])
    return Candidates({one.part.name: one.values(positions) for one in parts}, silent)


def candidates_of_texts(parts: Sequence[PartQuery], texts: Sequence[str], payload: Any = None) -> Candidates:  # noqa: ANN401
    """Return what the parts would say about titles if they were in the view, all with the same payload."""
    silent = frozenset([one.part.name for one in parts if one.is_silent])
    return Candidates({one.part.name: one.values_of_texts(texts, payload) for one in parts}, silent)


def silent_sets() -> list[frozenset[str]]:
    """Return each set of parts that may be silent while another one proposes."""
    names = [part.name for part in PROPOSING]
    return [frozenset(chosen) for size in range(1, len(names)) for chosen in combinations(names, size)]


def key_of(silent: Collection[str]) -> str:
    """Return the name under which a fusion stores its weights without these parts."""
    return "+".join(sorted(silent))


@dataclass(frozen=True)
class Fusion:
    """How the features of a hit make its score."""

    method: str
    weights: Weights  # one number for each feature; a feature without a number is not weighed
    without: Mapping[str, Weights] = field(default_factory=dict)  # the same if parts are silent, by `key_of` them

    @property
    def is_probability(self) -> bool:
        """Whether a score is the probability of a click."""
        return self.method == "clicks"

    def weights_without(self, silent: Collection[str]) -> Weights:
        """Return the weights for queries about which these parts are silent."""
        return self.without.get(key_of(silent), self.weights) if silent else self.weights

    def scores(self, candidates: Candidates, head: Candidates | None = None) -> NDArray[np.float32]:
        """Return the score of each candidate. With `head`, their ranks are those that each has among these."""
        total = sum(self._terms(candidates, head).values()) + np.zeros(len(candidates))
        return np.asarray(logistic(total) if self.method == "clicks" else total, np.float32)

    def most(self, candidates: Candidates, own: Mapping[str, float]) -> float:
        """Return a score that no other title exceeds whose scores by each part alone are at most these."""
        weights = self.weights_without(candidates.silent)
        if any(weights.get(name, 0.0) < 0 for name, feature in FEATURES.items() if feature.least is not None):
            return math.inf
        if math.inf in own.values():
            return math.inf
        # By ranks, a score below 0 is worth more than 0, which says that a part does not find the title.
        least = -_TINY if self.method == "ranks" else 0.0
        title = {name: values.highest(own[name] or least) for name, values in candidates.values.items()}
        score = self.scores(replace(candidates, values=title), candidates)[0]
        return float(np.nextafter(score, np.float32(np.inf)))

    def terms_of(self, candidates: Candidates, row: int) -> dict[str, float]:
        """Return the terms that add up to the score of one candidate; of `clicks`, to its log odds."""
        return {
            name: float(values[row]) if isinstance(values, np.ndarray) else float(values)
            for name, values in self._terms(candidates).items()
        }

    def _terms(self, candidates: Candidates, head: Candidates | None = None) -> Features:
        weights = self.weights_without(candidates.silent)
        if self.method == "ranks":
            constant, among = weights["constant"], (head or candidates).values
            scale, values = (constant + 1) / len(PROPOSING), candidates.values
            return {
                part.name: scale * _reciprocal_ranks(values[part.name].own, among[part.name].own, constant)
                for part in PARTS
                if part.proposes
            }
        terms: Features = {"constant": weights["constant"]} if "constant" in weights else {}
        terms |= {name: weights[name] * feature for name, feature in candidates.features().items() if name in weights}
        # Above some value, log odds rise with another slope, 1 + bend. This corrects probabilities and keeps the order.
        if bend := weights.get("bend", 0.0):
            total = sum(terms.values()) + np.zeros(len(candidates))
            terms["calibration"] = bend * np.maximum(total - weights.get("bend from", 0.0), 0)
        return terms

    @property
    def hash(self) -> str:
        """Identify the fusion, as the fingerprint identifies a model: two indexes with both alike rank alike."""
        return json_hash(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as `from_json` takes them."""
        plain = {"method": self.method, "weights": dict(self.weights)}
        return plain | ({"without": {name: dict(of) for name, of in self.without.items()}} if self.without else {})

    @classmethod
    def from_json(cls, value: object) -> "Fusion":
        """Return the fusion that `as_json` has described. Raise ClickvecError if the value is anything else."""
        if not isinstance(value, Mapping) or str(value.get("method")) not in _NAMES:
            raise ClickvecError(f"a fusion has a method ({', '.join(_NAMES)}) and weights; this is {str(value)[:200]}")
        method, without = str(value["method"]), value.get("without", {})
        keys = list(map(key_of, silent_sets()))
        if not isinstance(without, Mapping) or not set(without) <= set(keys):
            raise ClickvecError(f"a fusion has other weights without {' or '.join(keys)}; this is {str(without)[:200]}")
        return cls(
            method,
            _checked_weights(method, value.get("weights")),
            {str(name): _checked_weights(method, weights) for name, weights in without.items()},
        )

    @classmethod
    def default(cls) -> "Fusion":
        """Return the fusion of an index without clicks or judgements: a mixture of features, each with its share.

        docs/search.md shows what it gives on several logs. Its scores are at most 1.
        """
        return cls("mixture", {name: feature.share for name, feature in FEATURES.items() if feature.share})

    @classmethod
    def alone(cls, name: str) -> "Fusion":
        """Return the fusion that ranks by one part. If it only finds what matches, others decide between equals."""
        tie = next(_TIE if part.selects else 0.0 for part in PARTS if part.name == name)
        others = [feature for part, feature in _main_features().items() if part != name and tie]
        weights = {_main_features()[name].name: 1 - tie, **{one.name: tie / len(others) for one in others}}
        return cls("mixture", weights)

    @classmethod
    def mixture(cls, name: str, share: float) -> "Fusion":
        """Return the default mixture with another share of one part, 0 to 1, of what all parts that propose weigh."""
        main = _main_features()
        total = sum(one.share for one in main.values())
        others = total - main[name].share
        weights = {one.name: total * (1 - share) * one.share / others for one in main.values()}
        weights[main[name].name] = total * share
        return cls("mixture", {**cls.default().weights, **{of: round(weight, 9) for of, weight in weights.items()}})

    @classmethod
    def ranks(cls, constant: float) -> "Fusion":
        """Return reciprocal rank fusion, scaled so that the first title of all rankings scores 1."""
        return cls.from_json({"method": "ranks", "weights": {"constant": constant}})


def _main_features() -> dict[str, Feature]:
    """Return the feature by which each part that proposes ranks, by the names of the parts."""
    return {part.name: part.features[0] for part in PARTS if part.proposes}


def _checked_weights(method: str, weights: object) -> dict[str, float]:
    """Return the weights of a method as floats. Raise ClickvecError if one is missing, unknown or not a number."""
    names, needed = _NAMES[method], _NEEDED[method]
    if not isinstance(weights, Mapping) or not weights or not set(needed) <= set(weights) <= set(names):
        raise ClickvecError(f"the fusion {method!r} weighs {', '.join(names)}; this one has {str(weights)[:200]}")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) <= _LARGEST:
            raise ClickvecError(f"the weight {name!r} of the fusion {method!r} is {weight!r}; it must be a number")
    if method == "ranks" and weights["constant"] < 0:
        raise ClickvecError(f"the constant of the fusion 'ranks' is {weights['constant']}; it must not be negative")
    if weights.get("bend", 0.0) <= -1:
        raise ClickvecError(f"the weight 'bend' of the fusion 'clicks' is {weights['bend']}; it must be above -1")
    return {name: float(weights[name]) for name in names if name in weights}


def fusion_settings(model: Model) -> dict[str, Any]:
    """Return the settings of an index that ranks as training has chosen for its model, or by default.

    Raise if the model, which may be a stranger's, has a fusion that no index can use.
    """
    if model.fusion is not None:
        Fusion.from_json(model.fusion)
    return {"fusion": model.fusion, "fusion_report": model.fusion_report}


def logistic(log_odds: Floats) -> Floats:
    """Return the probability 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds)), np.float64)


def _reciprocal_ranks(scores: Floats, among: Floats, constant: float) -> Floats:
    """Return 1 / (constant + rank), and 0 for a score of 0. Equal scores share the best of their ranks."""
    ranks = 1 + len(among) - np.searchsorted(np.sort(among), scores, side="right")
    return np.where(scores == 0, 0, 1 / (constant + ranks))
