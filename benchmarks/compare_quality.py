"""How good hits are on a judged set, computed for compare_with.py without the code of either tree."""

import math
from collections.abc import Mapping, Sequence

Judged = Mapping[str, Mapping[str, float]]  # the gain of each title of each query


def measures(titles: Sequence[Sequence[str]], judged: Judged) -> dict[str, float]:
    """Return the means of MRR@10, Recall@100 and NDCG@10, in per cent. A title without a grade is not relevant.

    `titles` has the titles found for each query, best first. Equal titles count once.
    """
    sums = dict.fromkeys(("MRR@10", "Recall@100", "NDCG@10"), 0.0)
    for found, gains in zip(titles, judged.values(), strict=True):
        worth = [gains.get(title, 0.0) for title in dict.fromkeys(found)]
        ideal = sorted((gain for gain in gains.values() if gain), reverse=True)
        first = next((rank for rank, gain in enumerate(worth[:10], 1) if gain), 0)
        sums["MRR@10"] += 1 / first if first else 0.0
        sums["Recall@100"] += sum(gain > 0 for gain in worth) / len(ideal)
        sums["NDCG@10"] += discounted(worth[:10]) / discounted(ideal[:10])
    return {name: 100 * total / len(judged) for name, total in sums.items()}


def discounted(gains: Sequence[float]) -> float:
    """Return the discounted sum of gains."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
