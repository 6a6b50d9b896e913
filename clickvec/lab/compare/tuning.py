"""Choosing on dev: of several settings, the one with the best NDCG@10, the first of those that are equal."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from clickvec.data import Judged
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.ranker import Ranker
from clickvec.lab.compare.fitted import Fitted

Trial = tuple[dict[str, Any], Callable[[], Ranker]]  # settings, and how to make the ranker that has them


def best_on(dev: Judged, trials: Iterable[Trial]) -> Fitted:
    """The best ranker, and how long it took to make that one."""
    best, best_score = None, -1.0
    for settings, make in trials:
        begun = time.perf_counter()
        ranker = make()
        seconds = time.perf_counter() - begun
        score = evaluate([ranker], dev, cutoffs=(10,)).mean(ranker.name, "NDCG@10")
        if score > best_score:
            best, best_score = Fitted(ranker, seconds=seconds, settings=settings), score
    if best is None:
        raise ValueError("there is nothing to choose from")
    return best
