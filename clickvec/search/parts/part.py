"""What a part of the score is.

A hit's score is a sum of parts: words (BM25), vectors (the cosine of our model), and whatever is added. A part proposes
candidates for a query, scores any title, and explains its value. All candidates get the values of all parts, and the
fusion weighs the features of these values. Only the part itself knows what is behind its features.

docs/add-a-part.md says how to add a part. tests/search/test_parts.py checks what each part promises.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from clickvec.search.title_view import Allowed, Positions, TitleView

Floats = NDArray[np.float64]
Features = dict[str, Floats | float]  # by name: one number per title, or one for the whole query
Vectors = NDArray[np.float32]


class Feature(NamedTuple):
    """A number that the fusion weighs, and what it weighs before any clicks are known."""

    name: str
    label: str  # in tables
    meaning: str
    share: float = 0.0  # its weight in the default mixture, and the start of a fit on clicks; together 1
    least: float | None = 0.0  # no fit weighs it less; None: the same for all titles of a query, so any weight will do
    is_exact: bool = False  # whether it is an exact match, which counts even where another part ranks alone


@dataclass(frozen=True)
class Explained:
    """The value of a part for one title, and the words that add up to it, if the part knows them."""

    name: str  # of the part
    label: str  # of its value
    value: float
    rounding: float = 0.0  # this much of the value comes from the number format of what the index stores
    words: tuple["WordMatch", ...] | None = None  # of the query; None if words do not explain it


@dataclass(frozen=True)
class WordMatch:
    """A word of the query, and what it adds to the value of a part."""

    word: str
    matched: tuple[str, ...]  # the words of the title that it matches; others than itself if no title contains it
    is_known: bool  # whether a title contains it
    similar: tuple[str, ...]  # if none does, the words of the index that are searched instead
    idf: float  # how rare it is
    contribution: float


class Values(ABC):
    """What a part says about some titles, for one query."""

    own: Floats  # the score of each title by this part alone, 0 where it says nothing: BM25, a cosine

    @abstractmethod
    def features(self) -> Features:
        """Return what the fusion weighs. A part without features has no weight."""

    @abstractmethod
    def take(self, rows: NDArray[Any]) -> Self:
        """Return the values of some of the titles."""

    @abstractmethod
    def joined(self, other: Self) -> Self:
        """Return the values of these titles, then those of others."""

    @abstractmethod
    def highest(self, own: float) -> Self:
        """Return values of one title that no title exceeds in any feature whose own score is at most this."""


class Single(Values):
    """Values of a part with one feature, which is its own score."""

    def __init__(self, name: str, own: NDArray[Any]) -> None:
        """Give the name of the feature, and its values."""
        self._name, self.own = name, np.asarray(own, np.float64)

    def features(self) -> Features:
        """Return it by its name."""
        return {self._name: self.own}

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the values of some of the titles."""
        return type(self)(self._name, self.own[rows])

    def joined(self, other: Self) -> Self:
        """Return the values of these titles, then those of others."""
        return type(self)(self._name, np.concatenate((self.own, other.own)))

    def highest(self, own: float) -> Self:
        """Return one title with this value."""
        return type(self)(self._name, np.array([own]))


class Sql(NamedTuple):
    """A part as SQL, so that a database finds and scores the candidates in one statement. The document is `d`."""

    candidates: str | None  # selects the `seq` of the titles that the part proposes
    columns: Mapping[str, str]  # expressions on `d`, by names that no other part uses
    own: str  # an expression on these columns
    features: Mapping[str, str | float]  # expressions on these columns, or one number for all titles
    values: Callable[[NDArray[np.float32]], Values]  # from the columns, (titles, columns)


class SqlView(Protocol):
    """What a view in a database offers to the SQL of parts. Numbers go into `parameters`."""

    @property
    def words(self) -> Any:  # noqa: ANN401
        """The search by words, with `best_sql` and `match_sql`."""

    def nearest_sql(self, query: Vectors, k: int, allowed: Allowed, parameters: Any) -> str:  # noqa: ANN401
        """Return a statement that selects the `seq` of the nearest titles."""

    def cosine_sql(self, query: Vectors, parameters: Any) -> str:  # noqa: ANN401
        """Return an expression for the cosine of the document `d`, 0 if it has no vector."""


class PartQuery(ABC):
    """A part, for one query in one view. It does not change."""

    part: "Part"
    view: TitleView
    is_silent = False  # whether it has nothing to say about any title, so that scores come from a fit without it
    most = math.inf  # no title has a higher own score: so a search with a least score knows when to stop

    @property
    def cost(self) -> int | None:
        """About how many titles are read to propose candidates; None if only a database knows."""
        return 0

    def best(self, count: int) -> tuple[Positions, NDArray[np.float32]]:
        """Return the first titles by this part's own score, best first, ties by position; none if it proposes none.

        A larger count returns the same titles first.
        """
        return np.zeros(0, np.int64), np.zeros(0, np.float32)

    @abstractmethod
    def values(self, positions: Positions) -> Values:
        """Return what the part says about titles of the view."""

    def own(self, positions: Positions) -> NDArray[np.float32]:
        """Return this part's own score of titles of the view."""
        return self.values(positions).own.astype(np.float32)

    @abstractmethod
    def values_of_texts(self, texts: Sequence[str], payload: Any = None) -> Values:  # noqa: ANN401
        """Return what the part would say about titles if they were in the view, all with the same payload."""

    def rank(self, title: int | str) -> int | None:
        """Return the rank of a title among all that the part finds, from 1; None if it does not find it.

        The title is a position, or another text, which is ranked as if it were inserted last.
        """
        return None

    def count_before(self, title: int | str, positions: Positions) -> int:
        """Return how many of these titles precede a title that this part finds."""
        position, values = (
            (title, self.values(np.array([title])))
            if isinstance(title, int)
            else (self.view.size, self.values_of_texts([title]))
        )
        own, score = self.values(positions).own, values.own[0]
        return int(((own != 0) & ((own > score) | ((own == score) & (positions < position)))).sum())

    def explain(self, values: Values, row: int, title: str) -> Explained:
        """Explain the value of one title, from the `values` of this query."""
        return Explained(self.part.name, self.part.label, float(values.own[row]))

    def sql(self, view: SqlView, depth: int, parameters: Any) -> Sql | None:  # noqa: ANN401
        """Return the part as SQL; None if it has none: then the database is asked part by part."""
        return None


class Query(NamedTuple):
    """What is searched: a text, or a vector as `Encoder.encode_query` returns it."""

    text: str | None
    vector: Vectors | None = None


class Part(ABC):
    """A part of the score."""

    name: str  # also the mode of a search by this part alone
    measure: str  # what its own score is called in `Hit.parts`
    label: str  # the same, for people
    features: tuple[Feature, ...]
    proposes: (
        bool  # whether it finds the titles with an own score other than 0; otherwise it only scores those of others
    )
    selects: bool = False  # whether it finds only titles that match the query; a cosine finds all

    @abstractmethod
    def queries(self, view: TitleView, queries: Sequence[Query], allowed: Allowed, count: int) -> Iterator[PartQuery]:
        """Yield the part for each query. About `count` titles of each will be asked for, so work may be shared."""
