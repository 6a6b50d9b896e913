"""One minibatch after the other: the gradient at the look-ahead point, re-normalised for each tower, and a step.

`Plain` does it on every device, for every tower and option; `gpu/update.py` does the common ones faster, on a GPU.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.text.ragged import Ragged
from clickvec.training import optimizers
from clickvec.training.cpu import compiled, rows
from clickvec.training.cpu.compiled import CompiledLosses
from clickvec.training.negatives import Candidates, Ids, Sampler
from clickvec.training.nesterov import norm_scale
from clickvec.training.objective import losses, unit
from clickvec.training.pair import TowerPair
from clickvec.training.towers import Batch, drop_tokens, make_batch

DRAW = 3  # the first word of a seed; loop.py and pair.py have others, so that no two streams are the same


class Outcome(NamedTuple):
    """What an update says of itself; tensors are true until the next update."""

    loss: Tensor  # of all its pairs, summed
    weight: float  # of its pairs
    masked: int | Tensor  # known clicks that were not taken as negatives
    negatives: float | Tensor  # of a pair, on average


class Seed(NamedTuple):
    """Where the random numbers of an epoch come from."""

    seed: int
    epoch: int
    batches: int  # of an epoch

    def draw(self, batch: int) -> list[int]:
        """For the draws of a minibatch."""
        return [DRAW, self.seed, self.epoch, batch]

    def update(self, batch: int) -> int:
        """The number of an update, over all epochs."""
        return self.epoch * self.batches + batch


class Update(Protocol):
    """What the training loop knows of the way to update."""

    def epoch(self, order: Ids, seed: Seed, first: int) -> Iterator[Outcome]:
        """The updates of an epoch over pairs in this order, from minibatch `first` on."""

    def settle(self, updates: int) -> None:
        """Bring every weight to where it is after so many updates."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must keep besides the weights."""


class Plain:
    """Every option, by autograd and, on a CPU, `recurrence.py` and `compiled.py`."""

    def __init__(
        self, data: Dataset, recipe: Recipe, towers: TowerPair, sampler: Sampler, weights: NDArray[np.float32],
        updates: int,
    ) -> None:  # fmt: skip
        self.data, self.recipe, self.towers, self.sampler = data, recipe, towers, sampler
        self._weights, self._device = weights, next(iter(towers.tensors().values())).device
        parameters = [tensor for tower in towers.towers.values() for tensor in tower.parameters()]
        self.inputs = {
            side: rows.make(recipe, tower.weights["input"], updates) for side, tower in towers.towers.items()
        }
        lazy = [id(one.matrix) for one in self.inputs.values() if isinstance(one, rows.Lazy)]
        self.optimizer = optimizers.make(recipe, [one for one in parameters if id(one) not in lazy], updates)
        self.average = optimizers.Average(parameters, recipe.weight_average) if recipe.weight_average else None

    def epoch(self, order: Ids, seed: Seed, first: int) -> Iterator[Outcome]:
        """One update after the other."""
        size = self.recipe.batch_size
        for batch in range(first, seed.batches):
            rng = np.random.default_rng(seed.draw(batch))
            yield self.one_update(np.asarray(order[batch * size : (batch + 1) * size]), rng, seed.update(batch))

    def _draw(self, pairs: Ids, rng: np.random.Generator) -> tuple[Candidates, Batch, Batch]:
        """The titles of a minibatch, and its queries and titles as batches."""
        found = self.sampler.draw(pairs, rng)
        queries = self._batch(self.data.queries.take(self.data.pair_query[pairs]), rng)
        return found, queries, self._batch(self.data.titles.take(found.titles), rng)

    def _batch(self, texts: Ragged, rng: np.random.Generator) -> Batch:
        if self.recipe.word_dropout:
            texts = drop_tokens(texts, self.recipe.word_dropout, rng)
        return make_batch(texts, self.data.tokens, self._device)

    def _look_ahead(self, update: int, queries: Batch, titles: Batch) -> tuple[Tensor, Tensor]:
        """The vectors of queries and titles at the point where the gradient is to be taken."""
        self.optimizer.look_ahead(update)
        batches, bptt_steps = (queries, titles), self.recipe.bptt_steps
        if self.recipe.shared_tower:
            ((matrix, local),) = (one.look_ahead(update, batches) for one in self.inputs.values())
            y_q, y_d = (self.towers.query(batch, bptt_steps, matrix) for batch in local)
            return y_q, y_d
        vectors = []
        for (side, tower), batch in zip(self.towers.towers.items(), batches, strict=True):
            matrix, (local_batch,) = self.inputs[side].look_ahead(update, [batch])
            vectors.append(tower(local_batch, bptt_steps, matrix))
        return vectors[0], vectors[1]

    def _losses(self, found: Candidates, y_q: Tensor, y_d: Tensor) -> Tensor:
        """l_r of each pair."""
        counts = torch.from_numpy(np.ascontiguousarray(found.counts)).to(self._device)
        gamma, positive = self.recipe.gamma, torch.from_numpy(found.positive).to(self._device)[:, None]
        if found.negative is None:
            cosines = unit(y_q) @ unit(y_d).T
            return losses(gamma, cosines.gather(1, positive)[:, 0], cosines, counts)
        candidates = torch.cat([positive, torch.from_numpy(found.negative).to(self._device)], dim=1)
        kernel = compiled.kernel()
        if kernel and kernel.takes(y_q):
            per_pair: Tensor = CompiledLosses.apply(y_q, y_d, candidates, counts, gamma, kernel)  # type: ignore[no-untyped-call]
            return per_pair
        # functional.embedding is y_d[...] with a gradient that does not depend on the order of threads.
        cosines = torch.einsum("rd,rjd->rj", unit(y_q), functional.embedding(candidates, unit(y_d)))
        return losses(gamma, cosines[:, 0], cosines[:, 1:], counts)

    def one_update(self, pairs: Ids, rng: np.random.Generator, update: int) -> Outcome:
        """Gradient at the look-ahead point, re-normalised for each tower, and one step."""
        found, queries, titles = self._draw(pairs, rng)
        per_pair = self._losses(found, *self._look_ahead(update, queries, titles))
        weights = self._weights[pairs]
        loss = (per_pair * torch.from_numpy(weights).to(self._device)).sum()
        for tower in self.towers.towers.values():
            for parameter in tower.parameters():
                parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        for side, tower in self.towers.towers.items():
            others = [w.grad for name, w in tower.weights.items() if name != "input" and w.grad is not None]
            whole = self.inputs[side].gradient()
            scale = norm_scale([*others, *(() if whole is None else (whole,))], self.recipe.clip_norm)
            if scale is not None:
                self.inputs[side].scale(scale)
                torch._foreach_mul_(others, scale)
            self.inputs[side].before_update()
        self.optimizer.update(update)
        for one in self.inputs.values():
            one.update(update)
        if self.average:
            self.average.update(update)
        return Outcome(loss.detach(), float(weights.sum()), found.masked, float(found.counts.sum(1).mean()))

    def settle(self, updates: int) -> None:
        """Bring every row to where it is."""
        for one in self.inputs.values():
            one.settle(updates)

    def tensors(self) -> dict[str, Tensor]:
        """Those of the optimizer, the rows and the average."""
        tensors = self.optimizer.tensors()
        for side, one in self.inputs.items():
            tensors |= {f"{side}.input.{name}": tensor for name, tensor in one.tensors().items()}
        if self.average:
            tensors |= self.average.tensors()
        return tensors
