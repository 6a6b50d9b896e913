"""Fuse words and vectors: one score for each candidate of a query, as a sum of named terms.

Candidates are the titles that either the words (BM25) or the vectors (cosine) find. There are three methods:

    ranks     reciprocal rank fusion: the sum of 1 / (constant + rank) of the two rankings
    mixture   the default: a weighted sum of cosine, share of the highest possible BM25, matched codes, matched numbers
    clicks    the probability of a click: a logistic model of cosine, BM25 and facts about query and title, calibrated

Every method is additive. `terms_of` names the terms; `clicks` applies the logistic function to their sum. Scores of
`mixture` and `clicks` depend on the query and the title alone, so they can be compared between queries.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model.folder import Model
from clickvec.storage.json_files import json_hash

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# The weights of matched codes and numbers in a mixture: a part number must not lose to a similar title. Chosen with
# benchmarks/codes.py; a year or a size decides less.
CODES, NUMBERS = 0.25, 0.12
RARE = 10.0  # idf is divided by this, so that all facts are about as large as a cosine


class QueryTerm(Protocol):
    """What a fusion needs to know about a word of a query: `Term` of the word search."""

    @property
    def weights(self) -> Sequence[float]:
        """The weights of the words that it stands for."""

    @property
    def idf(self) -> float:
        """How rare it is."""

    @property
    def is_known(self) -> bool:
        """Whether a title contains it."""

    @property
    def is_code(self) -> bool:
        """Whether it is a code that a title contains, such as an article number."""

    @property
    def is_number(self) -> bool:
        """Whether it is a short number, such as a year or a size."""


class Candidates(NamedTuple):
    """What a fusion knows about the candidates of one query. Make it with `candidates_of`."""

    cosine: Floats  # (titles,): 0 if the query or the title has no vector
    matches: Floats  # (titles, terms): what each word of the query adds to BM25; 0 if the title does not have it
    bounds: Floats  # (terms,): more than this, a word of the query cannot add to BM25
    rarity: Floats  # (terms,): idf
    is_known: Bools  # (terms,)
    is_code: Bools  # (terms,)
    is_number: Bools  # (terms,)

    @property
    def code_shares(self) -> Floats:
        """What each code of the query says about its titles, (terms,): together 1 if no other word is rarer.

        So it does not matter how many words surround an article number, and the frequent code of `4k tv` says little.
        """
        of_codes = self.bounds * self.is_code
        return of_codes / max(float(of_codes.sum()), float(self.bounds.max(initial=0)), _LEAST)

    @property
    def bm25(self) -> Floats:
        """The BM25 score of each title."""
        scores: Floats = self.matches.sum(axis=1)
        return scores


def candidates_of(terms: Sequence[QueryTerm], matches: NDArray[Any], cosine: NDArray[Any]) -> Candidates:
    """Return candidates by the words of a query, what these add to the BM25 of each title, and the cosines."""
    rarity = np.array([term.idf for term in terms], np.float64)
    return Candidates(
        np.asarray(cosine, np.float64),
        np.asarray(matches, np.float64).reshape(len(cosine), len(terms)),
        rarity * np.array([max(1.0, *term.weights) if term.weights else 1.0 for term in terms], np.float64),
        rarity,
        np.array([term.is_known for term in terms], np.bool_),
        np.array([term.is_code for term in terms], np.bool_),
        np.array([term.is_number for term in terms], np.bool_),
    )


def facts_of(candidates: Candidates) -> dict[str, Floats | float]:
    """Return the facts that the method `clicks` weighs: one number per title, or one for the whole query."""
    bounds, rarity = candidates.bounds, candidates.rarity
    has, total = candidates.matches > 0, float(bounds.sum())
    scale = 1 / total if total else 0.0
    return {
        "cosine": candidates.cosine,
        "words": candidates.bm25 * scale,
        "codes": has @ candidates.code_shares,
        "numbers": has @ (bounds * candidates.is_number) * scale,
        "rarest match": (has * rarity).max(axis=1, initial=0) / RARE,
        "unknown words": float(bounds[~candidates.is_known].sum()) * scale,
        "rarest word": float(rarity.max(initial=0)) / RARE,
        "query length": math.log(max(1, len(bounds))),
    }


# What the facts are, for people. All but the last three differ between the titles of a query.
CLICK_FACTS = {
    "cosine": "the cosine of the vectors of query and title",
    "words": "BM25, as a share of the highest that the words of the query allow",
    "codes": "the codes of the query that the title has, as a share of the idf of its codes",
    "numbers": "the short numbers that the title has, as a share of the idf of the query",
    "rarest match": "the idf of the rarest word that the title has, divided by 10",
    "unknown words": "the words of the query that no title has, as a share of the idf of the query",
    "rarest word": "the idf of the rarest word of the query, divided by 10",
    "query length": "the logarithm of the number of different words of the query",
}
_NAMES = {
    "ranks": ("constant",),
    "mixture": ("cosine", "words", "codes", "numbers"),
    "clicks": ("constant", *CLICK_FACTS),
}
# The log odds change with another slope above some value: by 1 + bend. This corrects probabilities and keeps the order.
BEND = ("bend", "bend from")
_LEAST = 1e-30  # instead of 0, so that nothing is divided by 0
_TIE = 0.001  # the weight of the cosine among titles whose words match equally well
_LARGEST = 1e6  # of a weight; what is larger was not fitted


@dataclass(frozen=True)
class Fusion:
    """How the parts of a hit make its score. `weights` are one number for each fact of the method."""

    method: str
    weights: Mapping[str, float]

    @property
    def is_probability(self) -> bool:
        """Whether a score is the probability of a click."""
        return self.method == "clicks"

    def scores(self, candidates: Candidates, head: Candidates | None = None) -> NDArray[np.float32]:
        """Return the score of each candidate. With `head`, their ranks are those that each has among these."""
        if self.method == "ranks":
            sums = sum(self._terms(candidates, head).values())
        elif self.method == "mixture":
            total = float(candidates.bounds.sum())
            words, numbers = (self.weights[name] / total if total else 0.0 for name in ("words", "numbers"))
            sums = self.weights["cosine"] * candidates.cosine + words * candidates.bm25
            if candidates.is_code.any():
                sums += self.weights["codes"] * ((candidates.matches > 0) @ candidates.code_shares)
            if candidates.is_number.any():
                sums += numbers * ((candidates.matches > 0) @ (candidates.bounds * candidates.is_number))
        else:
            sums = logistic(sum(self._terms(candidates).values()) + np.zeros(len(candidates.cosine)))
        return np.asarray(sums, np.float32)

    def most(self, candidates: Candidates, cosine: float, bm25: float) -> float:
        """Return a score that no other title exceeds which has at most this cosine and BM25."""
        facts = ("cosine", "words", "codes", "numbers", "rarest match")
        if min(self.weights.get(fact, 0.0) for fact in facts) < 0:
            return math.inf
        total = float(candidates.bounds.sum())
        matches = candidates.bounds[None] * (min(1.0, bm25 / total) if total else 0.0)  # every word matches
        title = candidates._replace(cosine=np.array([cosine]), matches=matches)
        return float(np.nextafter(self.scores(title, candidates)[0], np.float32(np.inf)))

    def terms_of(self, candidates: Candidates, row: int) -> dict[str, float]:
        """Return the terms that add up to the score of one candidate; of `clicks`, to its log odds."""
        return {
            name: float(values[row]) if isinstance(values, np.ndarray) else float(values)
            for name, values in self._terms(candidates).items()
        }

    def _terms(self, candidates: Candidates, head: Candidates | None = None) -> dict[str, Floats | float]:
        if self.method == "ranks":
            constant, among = self.weights["constant"], head or candidates
            parts = {
                "cosine": (candidates.cosine, among.cosine),
                "words": (candidates.bm25, among.bm25),
            }
            return {name: (constant + 1) / 2 * _reciprocal_ranks(*part, constant) for name, part in parts.items()}
        facts = facts_of(candidates)
        if self.method == "mixture":
            return {name: self.weights[name] * facts[name] for name in _NAMES["mixture"]}
        terms: dict[str, Floats | float] = {"constant": self.weights["constant"]}
        terms |= {name: self.weights[name] * facts[name] for name in CLICK_FACTS}
        bend = self.weights.get("bend", 0.0)
        if bend:
            terms["calibration"] = bend * np.maximum(sum(terms.values()) - self.weights.get("bend from", 0.0), 0)
        return terms

    @property
    def hash(self) -> str:
        """Identify the fusion, as the fingerprint identifies a model: two indexes with both alike rank alike."""
        return json_hash(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as `from_json` takes them."""
        return {"method": self.method, "weights": dict(self.weights)}

    @classmethod
    def from_json(cls, value: object) -> "Fusion":
        """Return the fusion that `as_json` has described. Raise ClickvecError if the value is anything else."""
        if not isinstance(value, Mapping) or str(value.get("method")) not in _NAMES:
            raise ClickvecError(f"a fusion has a method ({', '.join(_NAMES)}) and weights; this is {str(value)[:200]}")
        method, weights = str(value["method"]), value.get("weights")
        names = _NAMES[method]
        if isinstance(weights, Mapping) and "codes" in weights:  # numbers counted as codes once
            weights = {"numbers": weights["codes"], **weights}
        optional = BEND if method == "clicks" else ()
        if not isinstance(weights, Mapping) or set(weights).difference(optional) != set(names):
            raise ClickvecError(
                f"the fusion {method!r} needs the weights {', '.join(names)}; it has {str(weights)[:200]}"
            )
        for name, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) <= _LARGEST:
                raise ClickvecError(f"the weight {name!r} of the fusion {method!r} is {weight!r}; it must be a number")
        if method == "ranks" and weights["constant"] < 0:
            raise ClickvecError(f"the constant of the fusion 'ranks' is {weights['constant']}; it must not be negative")
        if weights.get("bend", 0.0) <= -1:
            raise ClickvecError(f"the weight 'bend' of the fusion 'clicks' is {weights['bend']}; it must be above -1")
        return cls(method, {name: float(weights[name]) for name in (*names, *optional) if name in weights})

    @classmethod
    def default(cls) -> "Fusion":
        """Return the fusion of an index without clicks or judgements: a mixture with 0.7 of the cosine.

        docs/search.md shows what it gives on several logs. Its scores are at most 1.
        """
        return cls.mixture(0.7)

    @classmethod
    def words(cls) -> "Fusion":
        """Return the fusion that ranks by words. The cosine only orders titles whose words match equally well."""
        return cls.from_json({"method": "mixture", "weights": {"cosine": _TIE, "words": 1 - _TIE, "codes": 0.0}})

    @classmethod
    def vectors(cls) -> "Fusion":
        """Return the fusion that ranks by the cosine alone."""
        return cls.from_json({"method": "mixture", "weights": {"cosine": 1.0, "words": 0.0, "codes": 0.0}})

    @classmethod
    def ranks(cls, constant: float) -> "Fusion":
        """Return reciprocal rank fusion, scaled so that the first title of both rankings scores 1."""
        return cls.from_json({"method": "ranks", "weights": {"constant": constant}})

    @classmethod
    def mixture(cls, cosine: float) -> "Fusion":
        """Return a mixture with this share of the cosine, 0 to 1, of what matched codes and numbers leave."""
        rest = 1 - CODES - NUMBERS
        weights = {"cosine": round(rest * cosine, 9), "words": round(rest * (1 - cosine), 9)}
        return cls.from_json({"method": "mixture", "weights": {**weights, "codes": CODES, "numbers": NUMBERS}})


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
