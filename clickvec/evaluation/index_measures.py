"""Measure an index over its own catalogue: hybrid search, words alone and vectors alone.

A relevant title is found by its id if most ids of a judged set that the index has mean titles of the same words;
otherwise by its words. Titles with the same words are then one title, and its copies in a result do not count.
"""

from collections.abc import Collection, Iterable, Sequence

from clickvec.data import ClickLog, JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Scores, gains_of
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.test_set import Catalogue, TestSet, by_words, clicked_queries
from clickvec.progress import Progress, ignore
from clickvec.search.index import Index
from clickvec.search.parts import MODES
from clickvec.text.tokens import canonical

MOST_TITLES = 2_000_000  # of a larger index, BM25 as a baseline would take too much memory
_AT_ONCE = 64  # queries between two reports of progress

Source = Iterable[JudgedQuery] | ClickLog | TestSet


class IndexCatalogue(Catalogue):
    """The titles of an index. They are listed when they are needed."""

    def __init__(self, index: Index, has_ids: bool) -> None:
        super().__init__()
        self.index, self.has_ids = index, has_ids
        self._asked, self._present = set[str](), set[str]()

    @property
    def entries(self) -> dict[str, str]:
        """The titles by their keys."""
        if not self._entries:
            for document in self.index:
                self._entries.setdefault(self.key(document.id, document.title), document.title)
        return self._entries

    def present(self, keys: Collection[str]) -> set[str]:
        """Return those of these keys that the index has. The whole index is not kept in memory for that."""
        fresh = set(keys) - self._asked
        if fresh:
            self._asked |= fresh
            if self.has_ids:
                self._present |= {key for key in fresh if self.index.get(key) is not None}
            else:
                self._present |= fresh.intersection(canonical(document.title) for document in self.index)
        return self._present & set(keys)


class IndexRanker(Ranker):
    """An index in one mode."""

    def __init__(self, index: Index, mode: str = "hybrid", name: str = "") -> None:
        self.index, self.mode, self.name = index, mode, name or mode

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the fused score of each title."""
        if self.mode != "hybrid":
            raise ClickvecError(f"an index scores other titles by hybrid search, and not by {self.mode}")
        return self.index.scores(query, titles)

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None
    ) -> list[list[str]]:
        """Search the index. Raise ClickvecError if the catalogue has ids and they are others."""
        report, label, results = progress or ignore, f"searching by {self.name}", list[list[str]]()
        is_own = isinstance(catalogue, IndexCatalogue) and catalogue.index is self.index
        if not is_own and catalogue.has_ids and {str(document.id) for document in self.index} != set(catalogue.entries):
            raise ClickvecError(
                f"{self.name} has {len(self.index):,} titles and the catalogue has {len(catalogue.entries):,}, or "
                "their ids differ; leave the catalogue out to search the titles of the index"
            )
        for start in range(0, len(queries), _AT_ONCE):
            report(label, start, len(queries))
            texts = [query.query for query in queries[start : start + _AT_ONCE]]
            for hits in self.index.search(texts, k=k, mode=self.mode):
                keys = dict.fromkeys(catalogue.key(hit.id, hit.title) for hit in hits)
                results.append([key for key in keys if is_own or key in catalogue.entries])
        report(label, len(queries), len(queries))
        return results


def index_rankers(index: Index, modes: Sequence[str] = MODES) -> list[Ranker]:
    """Return an index in each mode as a ranker."""
    return [IndexRanker(index, mode) for mode in modes]


def index_test_set(index: Index, source: Source) -> TestSet:
    """Return a judged set or held-out clicks as searches of the titles of an index.

    A test set whose catalogue has the titles of the index stays as it is. Raise ClickvecError if no query has a
    relevant title, or if the index has none of them.
    """
    if isinstance(source, TestSet):
        return source
    if isinstance(source, ClickLog):
        queries, has_ids = clicked_queries(source), False
    else:
        queries = list(source)
        has_ids = _has_ids_of(index, queries)
        queries = queries if has_ids else list(map(by_words, queries))
    relevant = tuple(query for query in queries if gains_of(query))
    test = TestSet(relevant, IndexCatalogue(index, has_ids), len(queries) - len(relevant))
    test.check()
    if test.absent == test.relevant:
        raise ClickvecError("the index has none of the relevant titles, neither by id nor by words; use its own log")
    return test


def _has_ids_of(index: Index, judged: Sequence[JudgedQuery]) -> bool:
    """Return whether ids of the judged set mean the same titles in the index, and not others by chance."""
    same = found = 0
    for doc_id, title in {pair for query in judged for pair in zip(query.doc_ids, query.titles, strict=True)}:
        document = index.get(doc_id)
        found += document is not None
        same += document is not None and canonical(document.title) == canonical(title)
    return 2 * same > found
