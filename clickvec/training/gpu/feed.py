"""Minibatches drawn ahead of time, by threads, in page-locked memory from which the device copies asynchronously.

All random numbers are drawn here by NumPy, as on the CPU: a run has the same minibatches on every device.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.text.ragged import Ragged
from clickvec.training.negatives import Ids, Sampler
from clickvec.training.optimizers import learning_rate_at, momentum
from clickvec.training.update import Seed, drop_tokens

AHEAD = 8  # minibatches
THREADS = min(4, os.cpu_count() or 1)


class About(NamedTuple):
    """What the loop needs to know about a minibatch."""

    pairs: int
    weight: float
    masked: int
    negatives: float  # of a pair, on average; with in-batch negatives before known clicks are masked


class Layout:
    """Where the numbers of a minibatch are in one array of int32; some of them are float32."""

    def __init__(self, data: Dataset, recipe: Recipe, taught: int) -> None:
        self.pairs = min(recipe.batch_size, len(data.pair_query))
        drawn = recipe.hard_negatives + (recipe.shown_negatives if len(data.shown.values) else 0)
        drawn += 0 if recipe.batch_negatives else recipe.negatives
        self.taught = taught
        self.titles = min(self.pairs * (1 + drawn) + taught, len(data.titles.offsets) - 1)
        self.negatives = 0 if recipe.batch_negatives else drawn
        self.words = recipe.max_words
        tokens = (self.pairs + self.titles) * self.words if recipe.word_dropout else 0
        sizes = {
            "pairs": 1, "titles": 1, "momentum": 1, "learning_rate": 1,
            "query": self.pairs, "query_begin": self.pairs, "query_length": self.pairs,
            "title": self.titles, "title_begin": self.titles, "title_length": self.titles,
            "positive": self.pairs, "weight": self.pairs, "taught": self.taught,
            "negative": self.pairs * self.negatives, "counts": self.pairs * self.negatives, "tokens": tokens,
        }  # fmt: skip
        ends = np.cumsum(list(sizes.values())).tolist()
        self.slices = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        self.size = int(ends[-1])

    def views(self, whole: Tensor) -> dict[str, Tensor]:
        """Return the parts by name."""
        parts = {name: whole[where] for name, where in self.slices.items()}
        return parts | {name: parts[name].view(torch.float32) for name in ("momentum", "learning_rate", "weight")}


class Feed:
    """Draws minibatches into a ring buffer of arrays."""

    def __init__(
        self, data: Dataset, recipe: Recipe, sampler: Sampler, weights: NDArray[np.float32], updates: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        self._data, self._recipe, self._sampler, self._weights, self._updates = data, recipe, sampler, weights, updates
        self.layout, self._on_gpu = Layout(data, recipe, sampler.taught), device.type == "cuda"
        self._to = torch.zeros(self.layout.size, dtype=torch.int32, device=device)
        self.parts = self.layout.views(self._to)  # of the minibatch whose turn it is
        ring = [torch.zeros(self.layout.size, dtype=torch.int32, pin_memory=self._on_gpu) for _ in range(AHEAD)]
        self._ring = [
            (whole, {name: part.numpy() for name, part in self.layout.views(whole).items()}) for whole in ring
        ]
        self._copied: list[torch.cuda.Event | None] = [None] * AHEAD

    def clear(self) -> None:
        """Make the minibatch one without pairs."""
        self._to.zero_()

    def send(self, order: Ids, seed: Seed, first: int) -> Iterator[About]:
        """Copy the minibatches of an epoch to the device, from number `first` on, in stream order."""
        waiting: deque[tuple[int, Future[About]]] = deque()
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                for batch in range(first, seed.batches):
                    if len(waiting) == AHEAD:
                        yield self._copy(*waiting.popleft())
                    slot = batch % AHEAD
                    waiting.append((slot, pool.submit(self._draw, slot, order, seed, batch)))
                while waiting:
                    yield self._copy(*waiting.popleft())
            finally:
                pool.shutdown(cancel_futures=True)

    def _copy(self, slot: int, drawn: "Future[About]") -> About:
        about = drawn.result()
        self._to.copy_(self._ring[slot][0], non_blocking=True)
        if self._on_gpu:
            event = self._copied[slot] = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        return about

    def _draw(self, slot: int, order: Ids, seed: Seed, batch: int) -> About:
        """Draw a minibatch, longest texts first."""
        copied = self._copied[slot]
        if copied is not None:
            copied.synchronize()  # wait until the device has copied the old content
        to, data, recipe, size = self._ring[slot][1], self._data, self._recipe, self._recipe.batch_size
        pairs, rng = np.asarray(order[batch * size : (batch + 1) * size]), np.random.default_rng(seed.draw(batch))
        found = self._sampler.draw(pairs, rng, mask=False)
        to["pairs"][0], to["titles"][0] = len(pairs), len(found.titles)
        to["momentum"][0] = momentum(recipe, seed.update(batch), self._updates)
        to["learning_rate"][0] = learning_rate_at(recipe, seed.update(batch), self._updates)
        queries = data.pair_query[pairs]
        rows, used = self._put(to, "query", data.queries, queries, rng, 0)
        titles, _ = self._put(to, "title", data.titles, found.titles, rng, used)
        place = np.empty_like(titles)
        place[titles] = np.arange(len(titles))
        weights = self._weights[pairs[rows]]
        _fill(to["positive"], place[found.positive[rows]])
        _fill(to["weight"], weights)
        _fill(to["taught"], place[found.taught])
        if found.negative is None:
            return About(len(pairs), float(weights.sum()), 0, float(len(found.titles) - 1))
        _fill(to["negative"], place[found.negative[rows]].ravel())
        _fill(to["counts"], found.counts[rows].ravel())
        return About(len(pairs), float(weights.sum()), found.masked, float(found.counts.sum(1).mean()))

    def _put(
        self, to: dict[str, NDArray[np.int32]], side: str, texts: Ragged, ids: NDArray[np.integer],
        rng: np.random.Generator, used: int,
    ) -> tuple[Ids, int]:  # fmt: skip
        """Write the texts of one side and return their order. With word dropout, their tokens are written too."""
        if self._recipe.word_dropout:
            kept = drop_tokens(texts.take(ids), self._recipe.word_dropout, rng)
            to["tokens"][used : used + len(kept.values)] = kept.values
            begin, length = kept.offsets[:-1] + used, kept.lengths
            used += len(kept.values)
        else:
            begin = texts.offsets[ids]
            length = texts.offsets[np.asarray(ids) + 1] - begin
        order = np.argsort(-length.astype(np.int16), kind="stable")
        _fill(to[side], ids[order])
        _fill(to[f"{side}_begin"], begin[order])
        _fill(to[f"{side}_length"], length[order])
        return order, used


def _fill(to: NDArray[np.int32], values: NDArray[np.generic]) -> None:
    to[: len(values)] = values
    to[len(values) :] = 0
