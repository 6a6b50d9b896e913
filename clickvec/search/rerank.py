"""Re-order the results of another search engine: the task of the paper."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from clickvec.data import BadLines, read_result_lists
from clickvec.model.encoder import Encoder
from clickvec.search.documents import distinct_texts


def reranked(encoder: Encoder, stream: BinaryIO, bad: BadLines, max_bad: float) -> Iterator[list[str]]:
    """Yield the lines of each list of `query id title` lines, best first, with the score as a fourth column.

    Equal scores keep the order of the other engine.
    """
    for results in read_result_lists(stream, bad, max_bad):
        titles, rows = distinct_texts(results.titles)
        scores = (encoder.encode_document(titles) @ encoder.encode_query(results.query))[rows]
        yield [
            f"{results.query}\t{results.ids[row]}\t{results.titles[row]}\t{scores[row]:.6f}"
            for row in np.argsort(-scores, kind="stable").tolist()
        ]
