"""Rank by the cosine of the vectors of query and title: the paper's relevance score, equation 3."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from clickvec.data import JudgedQuery
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import QueryTitles, Ranker
from clickvec.evaluation.test_set import Catalogue
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.segments.building import encode_titles
from clickvec.search.vectors.exact import ExactSearch
from clickvec.text.tokens import canonical

Settings = dict[str, Any]  # of BM25: tokens, k1, b


class Neural(Ranker):
    """A trained model as a ranker."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        self.encoder, self.name = encoder, name

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the cosine of the query with each title; 0 if either text is empty."""
        return next(self.score_lists([(query, titles)]))

    def score_lists(self, lists: Sequence[QueryTitles]) -> Iterator[Scores]:
        """Encode all titles at once, then score each query."""
        # Titles of the same words are scored once: in a batch, the last bit of a score depends on the row, and would
        # break a tie.
        texts = [[canonical(title) for title in titles] for _, titles in lists]
        row = {text: number for number, text in enumerate(dict.fromkeys(text for part in texts for text in part))}
        vectors = self.encoder.encode_document(list(row)) if row else np.zeros((0, 0), np.float32)
        for (query, _), part in zip(lists, texts, strict=True):
            if not part:
                yield np.zeros(0, np.float32)
                continue
            distinct = {text: number for number, text in enumerate(dict.fromkeys(part))}
            scores = vectors[[row[text] for text in distinct]] @ self.encoder.encode_query(query)
            yield np.asarray(scores, np.float32)[[distinct[text] for text in part]]

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None
    ) -> list[list[str]]:
        """Encode the catalogue and return the keys of the nearest titles. Equal cosines are in its order."""
        keys = list(catalogue.entries)
        vectors = encode_titles(self.encoder, catalogue.titles, "float32", progress)
        nearest = ExactSearch(vectors).nearest(self.encoder.encode_query([query.query for query in queries]), k)
        return [[keys[position] for position in positions.tolist()] for positions, _ in nearest]


def stored_settings(encoders: Iterable[Encoder]) -> Settings | None:
    """Return the settings of BM25 that a model carries because held-out clicks have chosen them; None if none does."""
    for encoder in encoders:
        figures = encoder.model.training.get("held_out") or {}
        if "bm25" in figures:
            return dict(figures["bm25"])
    return None
