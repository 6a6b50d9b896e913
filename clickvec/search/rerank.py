"""Re-orders the results of another search engine: the paper's own task."""

from collections.abc import Iterator
from typing import BinaryIO

from clickvec.data import BadLines, read_result_lists
from clickvec.evaluation.metrics import rank_order
from clickvec.evaluation.neural import Neural
from clickvec.model.encoder import Encoder


def reranked(encoder: Encoder, stream: BinaryIO, bad: BadLines, max_bad: float) -> Iterator[list[str]]:
    """For each list of `query id title` lines, its lines, best first, with the score as a fourth column.

    Equal scores keep the order they came in: the other engine's opinion breaks the tie.
    """
    ranker = Neural(encoder, "rerank")
    for results in read_result_lists(stream, bad, max_bad):
        distinct = list(dict.fromkeys(results.titles))
        scores = dict(zip(distinct, ranker.score(results.query, distinct).tolist(), strict=True))
        # rank_order breaks ties by id, descending: ids that count down keep the order of arrival.
        arrival = [f"{len(results.ids) - place:012}" for place in range(len(results.ids))]
        order = rank_order([scores[title] for title in results.titles], arrival)
        rows = ((results.ids[place], results.titles[place]) for place in order)
        yield [f"{results.query}\t{doc_id}\t{title}\t{scores[title]:.6f}" for doc_id, title in rows]
