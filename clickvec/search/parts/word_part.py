"""Words: BM25 of the query's words in the title. Rare words count more, codes and numbers are features of their own."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clickvec.search.lexical.query_terms import Term
from clickvec.search.lexical.word_tokens import title_words
from clickvec.search.parts.part import (
    Explained,
    Feature,
    Features,
    Floats,
    Part,
    PartQuery,
    Query,
    Sql,
    SqlView,
    Values,
    WordMatch,
)
from clickvec.search.title_view import DEPTH, Allowed, Positions, TitleView

# The weights of matched codes and numbers in the default mixture: a part number must not lose to a similar title.
# Chosen with benchmarks/codes.py; a year or a size decides less. In log odds, codes weigh at least 5, because most logs
# have too few codes to know how much they matter.
CODES, NUMBERS, LEAST_CODES = 0.25, 0.12, 5.0
RARE = 10.0  # idf is divided by this, so that all features are about as large as a cosine
_LEAST = 1e-30  # instead of 0, so that nothing is divided by 0

Scores = NDArray[np.float32]


class QueryFacts(NamedTuple):
    """What is known about the words of a query. Make it with `facts_of`."""

    bounds: Floats  # (terms,): more than this, a word of the query cannot add to BM25
    rarity: Floats  # (terms,): idf
    code_shares: Floats  # (terms,): what each code of the query says about its titles
    numbers: Floats  # (terms,): what each short number says
    scale: float  # makes the highest possible BM25 of the query 1
    same_for_all: dict[str, float]  # the features that are the same for all titles


def facts_of(terms: Sequence[Term]) -> QueryFacts:
    """Return what is known about the words of a query.

    Codes together say 1 if no other word is rarer. So it does not matter how many words surround an article number, and
    the frequent code of `4k tv` says little.
    """
    rarity = np.array([term.idf for term in terms], np.float64)
    bounds = rarity * np.array([max(1.0, *term.weights) if term.weights else 1.0 for term in terms], np.float64)
    is_known, is_code, is_number = np.array([term[-3:] for term in terms], np.bool_).reshape(-1, 3).T
    total, of_codes = float(bounds.sum()), bounds * is_code
    scale, rarest = 1 / total if total else 0.0, float(rarity.max(initial=0))
    return QueryFacts(
        bounds,
        rarity,
        of_codes / max(float(of_codes.sum()), float(bounds.max(initial=0)), _LEAST),
        bounds * is_number * scale,
        scale,
        {
            "unknown words": float(bounds[~is_known].sum()) * scale,
            "rarest word": rarest / RARE,
            "query length": math.log(max(1, len(bounds))),
        },
    )


class Matches(Values):
    """What each word of a query adds to the BM25 of some titles."""

    def __init__(self, facts: QueryFacts, matches: NDArray[Any]) -> None:
        """Give what is known about the query, and the matches, (titles, terms): 0 if a title does not have the word."""
        self.facts = facts
        self.matches: Floats = np.asarray(matches, np.float64).reshape(len(matches), len(facts.bounds))
        self.own: Floats = self.matches.sum(axis=1)  # BM25

    def features(self) -> Features:
        """Return BM25, codes, numbers, the rarest match, and what is the same for all titles."""
        facts, has = self.facts, self.matches > 0
        return {
            "words": self.own * facts.scale,
            "codes": has @ facts.code_shares if facts.code_shares.any() else 0.0,
            "numbers": has @ facts.numbers if facts.numbers.any() else 0.0,
            "rarest match": (has * facts.rarity).max(axis=1, initial=0) / RARE,
            **facts.same_for_all,
        }

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the values of some of the titles."""
        return type(self)(self.facts, self.matches[rows])

    def joined(self, other: Self) -> Self:
        """Return the values of these titles, then those of others."""
        return type(self)(self.facts, np.concatenate((self.matches, other.matches)))

    def highest(self, own: float) -> Self:
        """Return one title with this BM25 that has every word of the query."""
        return type(self)(self.facts, self.facts.bounds[None] * min(1.0, own * self.facts.scale))


class WordPart(Part):
    """The part of the words."""

    name = "words"
    measure = "bm25"
    label = "BM25"
    features: tuple[Feature, ...] = (
        Feature(
            "words", "BM25", "BM25, as a share of the highest that the words of the query allow", 0.189
        ),
        Feature(
            "codes", "matching codes",
            "the codes of the query that the title has, as a share of the idf of its codes", CODES, LEAST_CODES, True,
        ),
        Feature(
            "numbers", "matching numbers",
            "the short numbers that the title has, as a share of the idf of the query", NUMBERS, is_exact=True,
        ),
        Feature(
            "rarest match", "rarest matching word", "the idf of the rarest word that the title has, divided by 10"
        ),
        Feature(
            "unknown words", "words in no title",
            "the words of the query that no title has, as a share of the idf of the query", least=None,
        ),
        Feature(
            "rarest word", "rarest query word", "the idf of the rarest word of the query, divided by 10", least=None
        ),
        Feature(
            "query length", "number of query words",
            "the logarithm of the number of different words of the query", least=None,
        ),
    )  # fmt: skip
    proposes = True
    selects = True

    def queries(self, view: TitleView, queries: Sequence[Query], allowed: Allowed, count: int) -> Iterator["WordQuery"]:
        """Split each query into words. A query without a text has none."""
        return (WordQuery(view, query.text, allowed) for query in queries)


WORDS = WordPart()


class WordQuery(PartQuery):
    """The words of one query."""

    part: Part = WORDS

    def __init__(self, view: TitleView, query: str | None, allowed: Allowed) -> None:
        """Look the words up."""
        self.view, self.allowed = view, allowed
        self.terms: tuple[Term, ...] = () if query is None else view.words.terms(query)
        self.is_silent = not self.terms

    @cached_property
    def facts(self) -> QueryFacts:
        """What is known about the words. A search by words alone does not need it."""
        return facts_of(self.terms)

    @property
    def cost(self) -> int:
        """The number of titles with a word of the query; those with two count twice."""
        return self.view.words.postings(self.terms)

    def best(self, count: int) -> tuple[Positions, Scores]:
        """Return the titles with a word of the query, by BM25."""
        return self.view.words.best(self.terms, count, self.allowed)

    def own(self, positions: Positions) -> Scores:
        """Return the BM25 of titles of the view."""
        scores: Scores = self.view.words.matches(self.terms, positions).sum(axis=1)
        return scores

    def values(self, positions: Positions) -> Matches:
        """Return what each word adds to titles of the view."""
        return Matches(self.facts, self.view.words.matches(self.terms, positions))

    def values_of_texts(self, texts: Sequence[str], payload: Any = None) -> Matches:  # noqa: ANN401
        """Return what each word would add to titles if they were in the view."""
        return Matches(self.facts, self.view.words.matches_of_texts(self.terms, texts)[0])

    def rank(self, title: int | str) -> int | None:
        """Return the rank among all titles with a word of the query."""
        if isinstance(title, int):
            position, values = title, self.values(np.array([title]))
        else:
            position, values = self.view.size, self.values_of_texts([title])
        bm25 = np.float32(values.own[0])
        if not bm25:
            return None
        depth = DEPTH
        while True:  # search deeper, until the title is among those found, or would be
            found, scores = self.view.words.best(self.terms, depth, self.allowed)
            # The last bit of a score depends on the order of the terms: a title is not compared with itself.
            place = np.flatnonzero(found == position)
            if len(place):
                return 1 + int(place[0])
            if len(found) < depth or (isinstance(title, str) and bm25 > scores[-1]):
                return 1 + int(((scores > bm25) | ((scores == bm25) & (found < position))).sum())
            depth *= 10

    def count_before(self, title: int | str, positions: Positions) -> int:
        """Return how many of these titles precede a title."""
        found, scores = self.best(self.view.size)
        place = np.flatnonzero(found == title) if isinstance(title, int) else found[:0]
        if len(place):
            before = found[: int(place[0])]
        else:
            values = self.values(np.array([title])) if isinstance(title, int) else self.values_of_texts([str(title)])
            before = found[scores >= np.float32(values.own[0])]
        return int(np.isin(positions, before).sum())

    def explain(self, values: Values, row: int, title: str) -> Explained:
        """Split BM25 into the words of the query."""
        assert isinstance(values, Matches)
        present, matches = title_words(title)[0], values.matches[row].tolist()
        words = tuple(
            WordMatch(
                term.word,
                tuple(word for word in term.words if word in present),
                term.is_known,
                () if term.is_known else term.words,
                term.idf,
                match,
            )
            for term, match in zip(self.terms, matches, strict=True)
        )
        return Explained(WORDS.name, WORDS.label, float(sum(matches)), words=words)

    def sql(self, view: SqlView, depth: int, parameters: Any) -> Sql:  # noqa: ANN401
        """Return BM25 as SQL: a column for each word of the query."""
        facts = self.facts
        names = [f"m{at}" for at in range(len(self.terms))]
        own = f"({' + '.join(names)})" if names else "0::float8"

        def has(numbers: Floats, together: str) -> str:
            matched = [
                f"CASE WHEN m{at} > 0 THEN {number!r}::float8 ELSE 0 END"
                for at, number in enumerate(numbers.tolist())
                if number
            ]
            return together.join(matched) or "0::float8"

        return Sql(
            candidates=view.words.best_sql(self.terms, depth, self.allowed, parameters),
            columns={
                name: view.words.match_sql(term, parameters) for name, term in zip(names, self.terms, strict=True)
            },
            own=own,
            features={
                "words": f"{facts.scale!r}::float8 * {own}",
                "codes": f"({has(facts.code_shares, ' + ')})",
                "numbers": f"({has(facts.numbers, ' + ')})",
                "rarest match": f"greatest({has(facts.rarity / RARE, ', ')})",
                **facts.same_for_all,
            },
            values=lambda columns: Matches(self.facts, columns),
        )
