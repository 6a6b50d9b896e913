"""How far to trust what a report shows of a model: the checks of `explain/checks.py`, on some of the judged set."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clickvec.config import RECURRENT
from clickvec.data import JudgedQuery
from clickvec.evaluation.metrics import with_relevant
from clickvec.explanation.contributions import METHODS
from clickvec.lab.claims.checks import deletion_check, keyword_check
from clickvec.model.encoder import Encoder

QUERIES = 500  # whose keywords are left out, at most
PAIRS = 200  # whose titles lose word after word, at most


@dataclass(frozen=True)
class WithoutKeywords:
    """NDCG@10 of the queries that have keywords and other words."""

    drawn: int  # looked at
    queries: int  # of those, with keywords and other words
    whole: float
    without_keywords: float
    without_others: float


@dataclass(frozen=True)
class Deletion:
    """The mean fall of the score when words are left out of titles one by one."""

    drawn: int  # looked at
    pairs: int  # of those, with titles of two words or more
    most_first: float  # in the order of their contributions
    random: float


@dataclass(frozen=True)
class Trust:
    """What the checks found; None where there is nothing to check."""

    queries: int  # that there are to draw from: those with a relevant title
    keywords: WithoutKeywords | None
    deletion: Deletion | None


def trust(encoder: Encoder, judged: Sequence[JudgedQuery]) -> Trust:
    """Check the keywords and the contributions of a model on judged queries and their best titles."""
    queries = with_relevant(judged)
    chosen = np.random.default_rng(0).permutation(len(queries)).tolist()
    some = [queries[place] for place in chosen[:QUERIES]]
    pairs = [(query.query, query.titles[int(query.grades.argmax())]) for query in some[:PAIRS]]
    return Trust(len(queries), _without_keywords(encoder, some), _deletion(encoder, pairs))


def _without_keywords(encoder: Encoder, queries: list[JudgedQuery]) -> WithoutKeywords | None:
    if encoder.model.tower.kind not in RECURRENT:
        return None
    check = keyword_check(encoder, queries)
    if not check.query_ids:
        return None
    means = (float(values.mean()) for values in (check.whole, check.without_keywords, check.without_others))
    return WithoutKeywords(len(queries), len(check.query_ids), *means)


def _deletion(encoder: Encoder, pairs: list[tuple[str, str]]) -> Deletion | None:
    check = deletion_check(encoder, pairs, methods=METHODS[:1])
    if not check.pairs:
        return None
    falls = (float(check.falls[order].mean()) for order in (METHODS[0], "random"))
    return Deletion(len(pairs), check.pairs, *falls)
