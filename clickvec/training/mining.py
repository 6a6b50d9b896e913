"""Hard negatives: for each query, the unclicked titles that the current model scores highest.

They are found once per epoch. A checkpoint holds them: a run that is resumed in the middle of an epoch no longer has
the weights they were found with.

With many titles, a query searches only those near to it: titles are put into clusters by their vectors, and a query
searches the cluster of its own vector and the next ones.
"""

from collections.abc import Callable, Iterator

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
from clickvec.training.workers import ALONE, Workers

Encode = Callable[[Ids], Tensor]

MOST_TITLES = 2**19  # titles to search, a random sample if there are more: their vectors take 200 MB of memory
MOST_EXACT = 10_000  # up to this many titles, every query searches all of them
NEAR = 8  # clusters that a query searches
SCORES = 2 * 10**10  # scores in all: with many queries each searches fewer clusters, or a CPU needs many minutes
K_MEANS = 3  # rounds of k-means, on this many titles for each cluster:
TITLES_PER_CLUSTER = 50
TEXTS_AT_ONCE = 8192
# These queries are searched together, cluster by cluster. Small searches leave a GPU idle, so it gets as many as take a
# gigabyte of its memory: 2.8 million at 96 cells.
QUERIES_AT_ONCE = 2**16
QUERY_BYTES = 2**30
SCORES_AT_ONCE = {"cpu": 2**23, "cuda": 2**27}  # what the cache of a CPU holds; half a gigabyte on a GPU


@torch.no_grad()
def mine(
    data: Dataset, towers: TowerPair, rng: np.random.Generator, device: torch.device, mined: NDArray[np.int32],
    workers: Workers = ALONE,
) -> None:  # fmt: skip
    """Write the best unclicked titles of each query to `mined`, (queries, HARD_POOL), padded with -1.

    The titles are the clicked ones of the log. Each worker encodes a share of them and searches a share of the queries.
    """
    mine_by(
        data, lambda rows: _encode(towers.query, data.queries.take(rows), data.tokens, device),
        lambda rows: _encode(towers.title, data.titles.take(rows), data.tokens, device), rng, mined, workers,
    )  # fmt: skip


def mine_by(
    data: Dataset, encode_queries: Encode, encode_titles: Encode, rng: np.random.Generator, mined: NDArray[np.int32],
    workers: Workers = ALONE,
) -> None:  # fmt: skip
    """Mine as `mine` does, with the unit vectors that two functions return for rows of the dataset."""
    ids = _draw(data.clicked_titles, MOST_TITLES, rng)
    titles = workers.gather(encode_titles(ids[workers.share(len(ids))]), len(ids))
    clusters = Clusters(titles, len(mined), rng) if len(ids) > MOST_EXACT else None
    share, device = workers.share(len(mined)), titles.device
    at_once = QUERIES_AT_ONCE if device.type == "cpu" else max(QUERIES_AT_ONCE, QUERY_BYTES // (4 * titles.shape[1]))
    for first in range(share.start, share.stop, at_once):
        rows = np.arange(first, min(first + at_once, share.stop))
        queries = encode_queries(rows)
        if clusters is None:
            mined[rows] = _best(queries, titles, ids, data.clicked.take(rows))
            continue
        for some, near in clusters.near(queries):
            few, pool = (torch.from_numpy(chosen).to(device) for chosen in (some, near))
            mined[rows[some]] = _best(queries[few], titles[pool], ids[near], data.clicked.take(rows[some]))
    workers.fill(mined)


class Clusters:
    """Titles by the direction of their vectors, about as many clusters as there are titles in one."""

    def __init__(self, titles: Tensor, queries: int, rng: np.random.Generator) -> None:
        count = round(len(titles) ** 0.5)
        sample = torch.from_numpy(_draw(len(titles), TITLES_PER_CLUSTER * count, rng)).to(titles.device)
        self._centres = _k_means(titles[sample], count)
        of_title = _nearest(titles, self._centres)
        order, sizes = np.argsort(of_title, kind="stable"), np.bincount(of_title, minlength=count)
        members = np.split(order, np.cumsum(sizes)[:-1])
        near = (self._centres @ self._centres.T).topk(_near(count, queries), dim=1).indices.cpu().numpy()
        self._pools: list[Ids] = [np.sort(np.concatenate([members[one] for one in row])) for row in near]

    def near(self, queries: Tensor) -> Iterator[tuple[Ids, Ids]]:
        """Yield some of the queries, and the titles near to all of these, ascending."""
        cluster = _nearest(queries, self._centres)
        order = np.argsort(cluster, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1):
            yield some, self._pools[cluster[some[0]]]


def titles_searched(titles: int, queries: int) -> int:
    """Return the number of titles that each query is compared with, on average."""
    titles = min(titles, MOST_TITLES)
    clusters = round(titles**0.5)
    return titles if titles <= MOST_EXACT else _near(clusters, queries) * titles // clusters


def _near(clusters: int, queries: int) -> int:
    """Return the number of clusters that each query searches."""
    return max(1, min(NEAR, SCORES // max(1, queries * clusters)))


def _k_means(vectors: Tensor, count: int) -> Tensor:
    """Return the centres of clusters, as unit vectors."""
    centres = vectors[:: len(vectors) // count][:count].clone()
    for _ in range(K_MEANS):
        cluster = torch.from_numpy(_nearest(vectors, centres)).to(vectors.device)
        sums = torch.zeros_like(centres).index_add_(0, cluster, vectors)
        centres = torch.where((sums != 0).any(dim=1, keepdim=True), unit(sums), centres)  # an empty cluster stays
    return centres


def _nearest(vectors: Tensor, centres: Tensor) -> Ids:
    """Return the centre that is nearest to each vector."""
    blocks = torch.split(vectors, TEXTS_AT_ONCE)
    nearest: Ids = torch.cat([(block @ centres.T).argmax(dim=1) for block in blocks]).cpu().numpy()
    return nearest


def _best(queries: Tensor, titles: Tensor, ids: Ids, clicked: Ragged) -> NDArray[np.int32]:
    """Return the best unclicked titles of each query, given the vectors of titles and their ids, ascending."""
    best = np.full((len(queries), HARD_POOL), -1, np.int32)
    if not len(ids):
        return best
    titles = titles.T.contiguous()
    at_once = max(1, min(TEXTS_AT_ONCE, SCORES_AT_ONCE[titles.device.type] // len(ids), len(queries)))
    scores = titles.new_empty((at_once, len(ids)))  # reused: allocating it costs more than using it
    for block in range(0, len(queries), TEXTS_AT_ONCE):
        for few in range(block, min(block + TEXTS_AT_ONCE, len(queries)), at_once):
            rows = np.arange(few, min(few + at_once, block + TEXTS_AT_ONCE, len(queries)))
            part = torch.mm(queries[rows[0] : rows[-1] + 1], titles, out=scores[: len(rows)])
            _hide(part, clicked.take(rows), ids)
            values, columns = (found.cpu().numpy() for found in part.topk(min(HARD_POOL, len(ids)), dim=1))
            best[rows, : columns.shape[1]] = np.where(values > -np.inf, ids[columns], -1)
    return best


def _draw(count: int, most: int, rng: np.random.Generator) -> Ids:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))


def _encode(tower: TorchTower, texts: Ragged, tokens: Ragged, device: torch.device) -> Tensor:
    """Return the unit vectors of texts, computed some thousand at a time."""
    count = len(texts.lengths)
    vectors = torch.empty((count, tower.tower.dimensions), device=device)
    for first in range(0, count, TEXTS_AT_ONCE):
        rows = np.arange(first, min(first + TEXTS_AT_ONCE, count))
        vectors[first : first + len(rows)] = unit(tower(make_batch(texts.take(rows), tokens, device)))
    return vectors


def _hide(scores: Tensor, clicked: Ragged, pool: Ids) -> None:
    """Set the scores of known clicks to minus infinity."""
    rows, columns = np.repeat(np.arange(len(clicked.lengths)), clicked.lengths), positions(clicked.values, pool)
    known = (torch.from_numpy(where[columns >= 0]).to(scores.device) for where in (rows, columns))
    scores.index_put_(tuple(known), scores.new_full((), -torch.inf))
