"""Rank by the hybrid search of an index."""

from collections.abc import Sequence

from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import Ranker
from clickvec.progress import Progress, ignore
from clickvec.search.index import Index
from clickvec.text.tokens import canonical

_AT_ONCE = 64  # queries between two reports of progress


class Hybrid(Ranker):
    """Hybrid search of an index, or its fused scores of any titles, as a ranker."""

    def __init__(self, index: Index, name: str = "hybrid", by_words: bool = False) -> None:
        """Rank with an index, whose ids are those of the catalogue that is searched.

        With `by_words`, the ids of the catalogue are others, and its titles are those with the same words.
        """
        self.index, self.name, self.by_words = index, name, by_words

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the fused score of each title."""
        return self.index.scores(query, titles)

    def search(
        self, queries: Sequence[str], ids: Sequence[str], titles: Sequence[str], k: int, progress: Progress | None
    ) -> list[list[str]]:
        """Search the index. Raise ClickvecError if its ids are not those of the catalogue."""
        report, results = progress or ignore, list[list[str]]()
        if self.by_words:
            id_of = {canonical(title): doc_id for doc_id, title in zip(ids, titles, strict=True)}
        elif {str(document.id) for document in self.index} != set(ids):
            raise ClickvecError(
                f"{self.name} has {len(self.index):,} titles and the catalogue has {len(ids):,}, or their ids differ; "
                "leave the catalogue out to search the titles of the index"
            )
        for start in range(0, len(queries), _AT_ONCE):
            report(f"searching with {self.name}", start, len(queries))
            found = self.index.search(list(queries[start : start + _AT_ONCE]), k=k)
            if self.by_words:  # several titles of the index may have the same words
                keys = ([canonical(hit.title) for hit in hits] for hits in found)
                results += [[id_of[key] for key in dict.fromkeys(row) if key in id_of] for row in keys]
            else:
                results += [[str(hit.id) for hit in hits] for hits in found]
        report(f"searching with {self.name}", len(queries), len(queries))
        return results
