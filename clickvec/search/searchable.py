"""What can be asked of an index: its documents, and hits for queries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, check_type
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.fusion import Fusion, candidates_of_texts
from clickvec.search.hits import Hit, is_vectors, read_hits, search_texts_or_vectors
from clickvec.search.payload.facets import Facet
from clickvec.search.payload.filters import Filter, parse_filter
from clickvec.search.retrieval import Proposed, Scores, check_mode, rank_in_view, ranking_of
from clickvec.search.title_view import DEPTH, Positions
from clickvec.search.view_protocol import LiveDocuments, SearchView, StaleViewError
from clickvec.text.tokens import canonical

_ATTEMPTS = 3  # searches, if documents that were found are deleted before they are read

Where = Mapping[str, Any]


class Searchable:
    """The part of `Index` that changes nothing. Iteration yields the documents in insertion order."""

    _live: LiveDocuments

    def view(self) -> SearchView:
        """Return what a search uses now. A view does not change; the next call may return another one."""
        return self._live.view()

    # --- looking up ----------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> Encoder:
        """The model of the index."""
        return self._live.view().encoder

    @property
    def fusion(self) -> Fusion:
        """How words and vectors make a score."""
        return self._live.view().fusion

    @property
    def fusion_report(self) -> dict[str, Any] | None:
        """How the fusion was chosen: the figures of each method, and how well probabilities are calibrated."""
        return self._live.view().fusion_report

    @property
    def recall(self) -> float | None:
        """The recall of the approximate search, measured when it was built; None if the search is exact."""
        return self._live.view().recall

    @property
    def precision(self) -> str:
        """The number format of the vectors: float32 or int8."""
        return self._live.view().precision

    @property
    def unreachable(self) -> int:
        """The number of titles that only words can find, because they have no known trigram and so no vector."""
        return self._live.view().unreachable()

    def __repr__(self) -> str:
        """Show the number of titles, the number format and the encoder, or why the index cannot be read."""
        try:
            return f"Index({len(self):,} titles, {self.precision}, {self.encoder!r})"
        except ClickvecError as error:
            return f"Index({error})"

    def __len__(self) -> int:
        """Return the number of titles."""
        return len(self._live.view())

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in insertion order."""
        return iter(self._live.view().documents)

    def get(self, doc_id: str | int) -> Document | None:
        """Return a document by its id, or None. 7 and "7" are the same id."""
        documents = self._live.view().documents
        seq = documents.find(doc_id)
        return None if seq is None else documents.get([seq]).get(seq)

    def find(self, text: str | int) -> Document | None:
        """Return a document by its id or, if there is no such id, the first one whose title has the same words."""
        document = self.get(text)
        if document is not None or isinstance(text, int):
            return document
        view, words = self._live.view(), canonical(text)
        for position in view.alike(text):
            for document in view.documents.get(view.seqs_at(np.array([position]))).values():
                if canonical(document.title) == words:
                    return document
        return None

    # --- searching -----------------------------------------------------------------------------------------------

    @overload
    def search(  # type: ignore[overload-overlap]  # a str iterates
        self,
        query: str,
        k: int = 10,
        where: Where | None = None,
        mode: str = "hybrid",
        offset: int = 0,
        min_score: float | None = None,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        query: NDArray[np.number[Any]],
        k: int = 10,
        where: Where | None = None,
        mode: str = "hybrid",
        offset: int = 0,
        min_score: float | None = None,
    ) -> list[Hit] | list[list[Hit]]: ...

    @overload
    def search(
        self,
        query: Iterable[str],
        k: int = 10,
        where: Where | None = None,
        mode: str = "hybrid",
        offset: int = 0,
        min_score: float | None = None,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        query: str | Iterable[str] | NDArray[np.number[Any]],
        k: int = 10,
        where: Where | None = None,
        mode: str = "hybrid",
        offset: int = 0,
        min_score: float | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """Return the k best titles for a query, best first, or a list of such lists for several queries.

        `mode` is hybrid (words and vectors), words or vectors. `where` is a filter on the payload (see
        `payload/filters.py`). Skip the best `offset` titles, of those that have a score of at least `min_score`. If
        there are fewer than k titles, all of them are returned; ties are in insertion order. Neither k nor `offset`
        changes the order, so pages do not overlap.

        A query is a text or a vector, as `Encoder.encode_query` returns it: an array of (dimensions,), or of
        (n, dimensions) for n queries. Vectors are scaled to length 1 and search by vectors alone.
        """
        check_type("query", query, Iterable, "a text, a list of texts, or a vector")
        check_type("k", k, Integral, "a whole number")
        check_type("offset", offset, Integral, "a whole number")
        if min_score is not None:
            check_type("min_score", min_score, Real, "a number")
        if k < 1:
            raise ClickvecError(f"k is {k}; it must be at least 1")
        if offset < 0:
            raise ClickvecError(f"offset is {offset}; it must be at least 0")
        check_mode(mode)
        condition = parse_filter(where)
        queries: str | list[str] | NDArray[Any]
        queries = query if isinstance(query, str) or is_vectors(query) else list(query)
        count = k + offset if min_score is None else DEPTH
        is_single = isinstance(queries, str) or (isinstance(queries, np.ndarray) and queries.ndim == 1)
        hits: list[list[Hit]] | None = None
        for attempt in range(_ATTEMPTS):
            view, is_last = self._live.view(), attempt == _ATTEMPTS - 1
            try:
                found = search_texts_or_vectors(view, queries, count, condition, mode)
                kept = [ranking.page(offset, k, min_score) for ranking in found]
                hits = read_hits(view, kept, is_last)
            except StaleViewError:
                if is_last:
                    raise
            if hits is not None:
                break
            self._live.refresh()  # a document was deleted since, or the index was built again
        assert hits is not None
        return hits[0] if is_single else hits

    def facets(
        self,
        query: str | None,
        fields: Iterable[str],
        where: Where | None = None,
        limit: int = 10,
        mode: str = "hybrid",
        min_score: float | None = None,
    ) -> dict[str, Facet]:
        """Count the values of payload fields among the titles that a query finds, or among all without a query.

        By words, these are all titles with a word of the query. By vectors every title is found, so only the best 100
        are counted; hybrid search counts its candidates, which are the best 100 by words and the best 100 by vectors.
        With `min_score`, only titles with this score or a higher one are counted.
        """
        check_mode(mode)
        view = self._live.view()
        condition, positions = parse_filter(where), None
        if query is not None:
            found, scores = self._found(view, query, condition, mode)
            positions = np.sort(found if min_score is None else found[scores >= min_score])
        allowed = view.allowed(condition)
        return {field: view.count_values(field, positions, allowed, limit) for field in fields}

    def _found(self, view: SearchView, query: str, condition: Filter | None, mode: str) -> tuple[Positions, Scores]:
        """Return the titles whose fields are counted, and their scores."""
        ranking = ranking_of(view, query, mode, view.allowed(condition))
        if mode == "hybrid":
            return ranking.head.positions, ranking.head.scores
        return ranking.first(view.size if ranking.part(mode).part.selects else DEPTH)[:2]

    def corrections(self, query: str) -> dict[str, tuple[str, ...]]:
        """Return the words of a query that no title has, each with the similar words that are searched instead.

        A code that no title has is named also if nothing is searched instead. If nothing of a query is known, all its
        words are named: what it finds is found by vectors alone.
        """
        return self._live.view().words.corrections(query)

    def candidates(self, query: str, where: Where | None = None) -> Proposed:
        """Return the candidates of hybrid search, best first: their documents, scores, and what the fusion knows.

        They are the best 100 titles by words and the best 100 by vectors.
        """
        condition = parse_filter(where)
        for _ in range(_ATTEMPTS):
            view = self._live.view()
            proposed = ranking_of(view, query, allowed=view.allowed(condition)).head
            seqs = view.seqs_at(proposed.positions)
            documents = view.documents.get(seqs)
            if len(documents) == len(seqs):
                return proposed._replace(documents=tuple(documents[seq] for seq in seqs))
            self._live.refresh()  # some were deleted since
        raise ClickvecError(f"documents that were found for {query!r:.100} are missing; build the index again")

    def scores(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """Return the fused score of any titles for a query, as if they were in the index."""
        view = self._live.view()
        return view.fusion.scores(candidates_of_texts(ranking_of(view, query).parts, titles))

    def rank(self, query: str, title: Document | str, mode: str = "hybrid") -> int | None:
        """Return the rank of a title among all hits of a query, from 1, or None if the query does not find it.

        The title is a document of the index, or any text, which is ranked as if it were inserted last.
        """
        check_mode(mode)
        view = self._live.view()
        target: int | str
        if isinstance(title, str):
            target = title
        else:
            positions = _positions(view, title.id)
            if not len(positions):  # it may be newer than the view
                self._live.refresh()
                view = self._live.view()
                positions = _positions(view, title.id)
            if not len(positions):
                raise ClickvecError(f"the index has no title with the id {title.id!r}")
            target = int(positions[0])
        return rank_in_view(ranking_of(view, query, mode, view.allowed(None)), target)


def _positions(view: SearchView, doc_id: str | int) -> Positions:
    """Return the position of an id in a view, or none."""
    seq = view.documents.find(doc_id)
    return view.positions_of(np.array([] if seq is None else [seq], np.int64))
