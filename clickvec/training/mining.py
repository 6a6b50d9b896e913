"""Hard negatives: for each query, the unclicked titles that the current model scores highest.

They are found once per epoch. A checkpoint holds them: a run that is resumed in the middle of an epoch no longer has
the weights they were found with.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import HARD_POOL
from clickvec.data.dataset import Dataset
from clickvec.text.ragged import Ragged
from clickvec.training.negatives import Ids, positions
from clickvec.training.towers import TorchTower, TowerPair, make_batch
from clickvec.training.update import unit

POOL_TITLES = 10_000  # titles to search, a random sample if there are more: 50,000 were no better (docs/log.md)
POOL_SCORES = 2 * 10**10  # scores in all: with many queries fewer titles are searched, or a CPU needs many minutes
TEXTS_AT_ONCE = 8192
SCORES_AT_ONCE = {"cpu": 2**23, "cuda": 2**27}  # what the cache of a CPU holds; half a gigabyte on a GPU


@torch.no_grad()
def mine(
    data: Dataset, towers: TowerPair, rng: np.random.Generator, device: torch.device, mined: NDArray[np.int32]
) -> None:
    """Write the best unclicked titles of each query to `mined`, (queries, HARD_POOL), padded with -1.

    The titles are the clicked ones of the log, or a random sample as large as POOL_TITLES and POOL_SCORES allow.
    """
    pool_size = min(POOL_TITLES, max(HARD_POOL, POOL_SCORES // max(1, len(mined))))
    pool = _draw_pool(data.clicked_titles, pool_size, rng)
    titles = _encode(towers.title, data.titles.take(pool), data.tokens, device).T.contiguous()
    ids = torch.from_numpy(pool).to(device)
    at_once = max(1, min(TEXTS_AT_ONCE, SCORES_AT_ONCE[device.type] // len(pool)))
    scores = torch.empty((at_once, len(pool)), device=device)  # reused: allocating it costs more than using it
    for first in range(0, len(mined), TEXTS_AT_ONCE):
        rows = np.arange(first, min(first + TEXTS_AT_ONCE, len(mined)))
        queries = _encode(towers.query, data.queries.take(rows), data.tokens, device)
        best = torch.full((len(rows), HARD_POOL), -1, dtype=torch.int32, device=device)
        for few in range(0, len(rows), at_once):
            chosen = slice(few, few + at_once)
            block = torch.mm(queries[chosen], titles, out=scores[: len(queries[chosen])])
            _hide(block, data.clicked.take(rows[chosen]), pool)
            values, columns = block.topk(min(HARD_POOL, len(ids)), dim=1)
            best[chosen, : columns.shape[1]] = torch.where(values > -torch.inf, ids[columns], -1).to(torch.int32)
        mined[first : first + len(rows)] = best.cpu().numpy()


def _draw_pool(titles: int, size: int, rng: np.random.Generator) -> Ids:
    if titles <= size:
        return np.arange(titles)
    return np.sort(rng.choice(titles, size, replace=False))


def _encode(tower: TorchTower, texts: Ragged, tokens: Ragged, device: torch.device) -> Tensor:
    """Return the unit vectors of texts, computed some thousand at a time."""
    count = len(texts.lengths)
    blocks = (np.arange(first, min(first + TEXTS_AT_ONCE, count)) for first in range(0, count, TEXTS_AT_ONCE))
    return torch.cat([unit(tower(make_batch(texts.take(rows), tokens, device))) for rows in blocks])


def _hide(scores: Tensor, clicked: Ragged, pool: Ids) -> None:
    """Set the scores of known clicks to minus infinity."""
    rows, columns = np.repeat(np.arange(len(clicked.lengths)), clicked.lengths), positions(clicked.values, pool)
    known = (torch.from_numpy(where[columns >= 0]).to(scores.device) for where in (rows, columns))
    scores.index_put_(tuple(known), scores.new_full((), -torch.inf))
