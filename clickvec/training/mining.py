"""Hard negatives: for each query, the titles that the model of the moment takes for its best answers, and are not.

The lists are made once an epoch, and a checkpoint keeps them: a run that goes on in the middle of an epoch no longer
has the weights that they were made with.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import HARD_POOL
from clickvec.data.dataset import Dataset
from clickvec.text.ragged import Ragged
from clickvec.training.negatives import Ids, places
from clickvec.training.objective import unit
from clickvec.training.pair import TowerPair
from clickvec.training.towers import TorchTower, make_batch

POOL_TITLES = 10_000  # titles that are searched; of more, as many at random: 50,000 did no better (docs/log.md)
POOL_SCORES = 2 * 10**10  # scores in all: with many queries fewer titles are searched, or a CPU takes many minutes
SKIPPED = 0  # of the best titles of a query, which may be answers that nobody clicked; on msrd 5 did no better than 0
TEXTS_AT_ONCE = 8192
SCORES_AT_ONCE = {"cpu": 2**23, "cuda": 2**27}  # on a CPU what a cache holds, on a GPU half a gigabyte
GROUP = 64  # neighbouring scores, of which the greatest is looked at first


@torch.no_grad()
def mine(
    data: Dataset, towers: TowerPair, rng: np.random.Generator, device: torch.device, found: NDArray[np.int32]
) -> None:
    """Write to `found`, (queries, HARD_POOL), the best titles of each query that were not clicked for it; -1: none.

    The titles are the clicked ones of the log, or as many of them at random as POOL_TITLES and POOL_SCORES allow.
    """
    wanted = min(POOL_TITLES, max(HARD_POOL, POOL_SCORES // max(1, len(found))))
    pool = _draw_pool(data.clicked_titles, wanted, rng)
    titles = _encode(towers.title, data.titles.take(pool), data.tokens, device).T.contiguous()
    ids = torch.from_numpy(pool).to(device)
    at_once = max(1, min(TEXTS_AT_ONCE, SCORES_AT_ONCE[device.type] // len(pool)))
    scores = torch.empty((at_once, len(pool)), device=device)  # one for all blocks: new memory costs more than its use
    for first in range(0, len(found), TEXTS_AT_ONCE):
        rows = np.arange(first, min(first + TEXTS_AT_ONCE, len(found)))
        queries = _encode(towers.query, data.queries.take(rows), data.tokens, device)
        best = torch.full((len(rows), HARD_POOL), -1, dtype=torch.int32, device=device)
        for few in range(0, len(rows), at_once):
            chosen = slice(few, few + at_once)
            known = _known(data.clicked.take(rows[chosen]), pool, device)
            some = _best(torch.mm(queries[chosen], titles, out=scores[: len(queries[chosen])]), known, ids)
            best[chosen, : some.shape[1]] = some
        found[first : first + len(rows)] = best.cpu().numpy()


def _draw_pool(titles: int, wanted: int, rng: np.random.Generator) -> Ids:
    if titles <= wanted:
        return np.arange(titles)
    return np.sort(rng.choice(titles, wanted, replace=False))


def _encode(tower: TorchTower, texts: Ragged, tokens: Ragged, device: torch.device) -> Tensor:
    """The unit vectors of texts, some thousand at a time."""
    count = len(texts.lengths)
    rows = (np.arange(first, min(first + TEXTS_AT_ONCE, count)) for first in range(0, count, TEXTS_AT_ONCE))
    return torch.cat([unit(tower(make_batch(texts.take(some), tokens, device))) for some in rows])


def _known(clicked: Ragged, pool: Ids, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column of each known click among the scores."""
    rows, columns = np.repeat(np.arange(len(clicked.lengths)), clicked.lengths), places(clicked.values, pool)
    inside = columns >= 0
    return torch.from_numpy(rows[inside]).to(device), torch.from_numpy(columns[inside]).to(device)


def _best(scores: Tensor, known: tuple[Tensor, Tensor], ids: Tensor) -> Tensor:
    """The ids of the titles with the best scores in each row, known clicks left out; -1 where a row has no more."""
    scores.index_put_(known, scores.new_full((), -torch.inf))
    places = _greatest(scores, min(SKIPPED + HARD_POOL, len(ids)))
    best = torch.where(scores.gather(1, places) > -torch.inf, ids[places], -1).to(torch.int32)
    return best[:, SKIPPED:]


def _greatest(scores: Tensor, k: int) -> Tensor:
    """The columns of the k greatest scores of each row: those of `scores.topk(k, dim=1)`, in their order, but faster.

    The k + 1 greatest scores of a row lie in the k + 1 groups with the greatest maxima, or among the last few columns,
    which fill no group. Where two of them are equal, the order is for topk of the whole row to decide, as it ever was.
    """
    count, groups = scores.shape[1], scores.shape[1] // GROUP
    if groups <= k + 1 or scores.is_cuda:  # the rest was measured on CPUs only
        return scores.topk(k, dim=1).indices
    whole = groups * GROUP
    maxima = scores[:, :whole].view(len(scores), groups, GROUP).amax(dim=2)
    firsts = maxima.topk(k + 1, dim=1, sorted=False).indices * GROUP
    inside = (firsts[:, :, None] + torch.arange(GROUP)).flatten(1)
    columns = torch.cat([inside, torch.arange(whole, count).expand(len(scores), -1)], dim=1)
    values, order = scores.gather(1, columns).topk(k + 1, dim=1)
    places = columns.gather(1, order[:, :k])
    tied = (values[:, 1:] == values[:, :-1]).any(dim=1)
    places[tied] = scores[tied].topk(k, dim=1).indices
    return places
