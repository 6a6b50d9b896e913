"""One update: the loss (equations 3 to 5), its gradient at the look-ahead point, and an optimizer step.

With a teacher, `distillation.py` adds its part to the loss.

`Plain` works on every device, for every tower and option. `gpu/graph.py` is faster for the common ones on a GPU, and
`data_parallel.py` shares the work among several processes.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.text.ragged import Ragged
from clickvec.training import optimizers
from clickvec.training.cpu import compiled, rows
from clickvec.training.cpu.compiled import CompiledLosses
from clickvec.training.distillation import teacher_loss
from clickvec.training.negatives import Candidates, Ids, Sampler
from clickvec.training.optimizers import learning_rate_at, momentum, norm_scale
from clickvec.training.towers import Batch, TowerPair, make_batch
from clickvec.training.windows import Window, minibatches

DRAW = 3  # the first word of a seed: no two random streams are the same. loop.py and towers.py have others


class Outcome(NamedTuple):
    """What an update reports. The tensors are valid until the next update."""

    loss: Tensor  # of all its pairs, summed, without what a teacher adds
    weight: float  # of its pairs
    masked: int | Tensor  # false negatives (known clicks) that were left out
    negatives: float | Tensor  # per pair, on average


class Seed(NamedTuple):
    """The seed of the random numbers of an epoch."""

    seed: int
    epoch: int
    batches: int  # minibatches in an epoch

    def draw(self, batch: int) -> list[int]:
        """Return the seed for the draws of a minibatch."""
        return [DRAW, self.seed, self.epoch, batch]

    def update(self, batch: int) -> int:
        """Return the number of an update, counted over all epochs."""
        return self.epoch * self.batches + batch


class Plain:
    """An updater for every option, by autograd and, on a CPU, `compiled.py`."""

    def __init__(
        self, data: Dataset, recipe: Recipe, towers: TowerPair, sampler: Sampler, weights: NDArray[np.float32],
        updates: int, teacher: Teacher | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.towers, self._updates = recipe, towers, updates
        self._device = next(iter(towers.tensors().values())).device
        self._whole = self._window = Window(data, sampler, weights, teacher=teacher)
        self.inputs = {
            side: rows.make(recipe, tower.weights["input"], updates) for side, tower in towers.towers.items()
        }
        lazy = [id(rule.matrix) for rule in self.inputs.values() if isinstance(rule, rows.Lazy)]
        others = [weight for weight in towers.tensors().values() if id(weight) not in lazy]
        self.optimizer = optimizers.make(recipe, others)

    def epoch(self, order: Ids, seed: Seed, first: int) -> Iterator[Outcome]:
        """Run one update after the other."""

        def random_of(batch: int) -> np.random.Generator:
            return np.random.default_rng(seed.draw(batch))

        batches = range(first, seed.batches)
        for batch, pairs, rng, window in minibatches(self._whole, order, self.recipe.batch_size, batches, random_of):
            self._window = window
            yield self.one_update(pairs, rng, seed.update(batch))
        self._window = self._whole

    def _draw(self, pairs: Ids, rng: np.random.Generator) -> tuple[Candidates, Ragged, Ragged]:
        """Return the candidates of a minibatch, its queries and its titles."""
        data, dropout = self._window.data, self.recipe.word_dropout
        candidates = self._window.draw(pairs, rng)
        texts = data.queries.take(data.pair_query[pairs]), self._window.titles(candidates.titles)
        queries, titles = (drop_tokens(part, dropout, rng) for part in texts) if dropout else texts
        return candidates, queries, titles

    def _batches(self, queries: Ragged, titles: Ragged) -> tuple[Batch, Batch, Sequence[Tensor]]:
        """Return the queries and titles to encode as batches, and trigrams of texts that others encode."""
        return self._batch(queries), self._batch(titles), ()

    def _batch(self, texts: Ragged) -> Batch:
        return make_batch(texts, self._window.data.tokens, self._device)

    def _look_ahead(
        self, update: int, queries: Batch, titles: Batch, of_others: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the vectors of queries and titles at the point where the gradient is taken."""
        self.optimizer.look_ahead(momentum(self.recipe, update, self._updates))
        by_tower = [[queries, titles]] if self.recipe.shared_tower else [[queries], [titles]]
        vectors = []
        trigrams = [of_others] if self.recipe.shared_tower else [of_others[:1], of_others[1:]]
        for (side, tower), batches, others in zip(self.towers.towers.items(), by_tower, trigrams, strict=True):
            matrix, local = self.inputs[side].look_ahead(update, batches, others)
            vectors += [tower(batch, matrix) for batch in local]
        return vectors[0], vectors[1]

    def _losses(self, chosen: Candidates, y_q: Tensor, y_d: Tensor) -> Tensor:
        """Return l_r of each pair."""
        counts = torch.from_numpy(np.ascontiguousarray(chosen.counts)).to(self._device)
        gamma, positive = self.recipe.gamma, torch.from_numpy(chosen.positive).to(self._device)[:, None]
        if chosen.negative is None:
            cosines = unit(y_q) @ unit(y_d).T
            return losses(gamma, cosines.gather(1, positive)[:, 0], cosines, counts)
        candidates = torch.cat([positive, torch.from_numpy(chosen.negative).to(self._device)], dim=1)
        kernel = compiled.kernel()
        if kernel and kernel.takes(y_q):
            per_pair: Tensor = CompiledLosses.apply(y_q, y_d, candidates, counts, gamma, kernel)  # type: ignore[no-untyped-call]
            return per_pair
        # functional.embedding is y_d[...] with a gradient that does not depend on the order of threads.
        cosines = torch.einsum("rd,rjd->rj", unit(y_q), functional.embedding(candidates, unit(y_d)))
        return losses(gamma, cosines[:, 0], cosines[:, 1:], counts)

    def _teacher_loss(self, pairs: Ids, chosen: Candidates, vectors: Tensor) -> Tensor:
        """Return what the teacher adds to the loss of a minibatch, given the vectors of its titles and queries."""
        teacher = torch.from_numpy(self._window.teacher_vectors(pairs, chosen.titles)).to(self._device)
        taught = torch.from_numpy(chosen.taught).to(self._device)
        known = (teacher != 0).any(dim=1)
        return teacher_loss(self.recipe, len(pairs), vectors, teacher, taught, known)

    def one_update(self, pairs: Ids, rng: np.random.Generator, update: int) -> Outcome:
        """Take the gradient at the look-ahead point, re-normalise it for each tower, and update the weights."""
        candidates, queries, titles = self._draw(pairs, rng)
        y_q, y_d = self._look_ahead(update, *self._batches(queries, titles))
        for parameter in self.towers.tensors().values():
            parameter.grad = None
        loss = self._backward(pairs, candidates, y_q, y_d)
        for side, tower in self.towers.towers.items():
            others = [w.grad for name, w in tower.weights.items() if name != "input" and w.grad is not None]
            whole = self.inputs[side].gradient()
            scale = norm_scale([*others, *(() if whole is None else (whole,))], self.recipe.clip_norm)
            if scale is not None:
                torch._foreach_mul_(others, scale)
            self.inputs[side].before_update(scale)
        rate = learning_rate_at(self.recipe, update, self._updates)
        self.optimizer.update(rate)
        for matrix in self.inputs.values():
            matrix.update(update, rate)
        negatives = float(candidates.counts.sum(1).mean())
        return Outcome(loss, float(self._window.weights[pairs].sum()), candidates.masked, negatives)

    def _backward(self, pairs: Ids, candidates: Candidates, y_q: Tensor, y_d: Tensor) -> Tensor:
        """Take the gradient of the loss of a minibatch, and return that loss, without what a teacher adds."""
        weights = torch.from_numpy(self._window.weights[pairs]).to(self._device)
        loss = of_clicks = (self._losses(candidates, y_q, y_d) * weights).sum()
        if self._window.teacher is not None:
            loss = of_clicks + self._teacher_loss(pairs, candidates, torch.cat([unit(y_d), unit(y_q)]))
        loss.backward()  # type: ignore[no-untyped-call]
        return of_clicks.detach()

    def settle(self, updates: int) -> None:
        """Bring every row of the input matrices up to date."""
        for matrix in self.inputs.values():
            matrix.settle(updates)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the optimizer and the input matrices."""
        tensors = self.optimizer.tensors()
        for side, matrix in self.inputs.items():
            tensors |= {f"{side}.input.{name}": tensor for name, tensor in matrix.tensors().items()}
        return tensors


def drop_tokens(texts: Ragged, probability: float, rng: np.random.Generator) -> Ragged:
    """Leave out random tokens. Each text that has tokens keeps at least one."""
    drawn, lengths = rng.random(len(texts.values)), texts.lengths
    filled = lengths > 0
    highest = np.zeros(len(lengths))
    highest[filled] = np.maximum.reduceat(drawn, texts.offsets[:-1][filled])
    kept = drawn >= np.minimum(probability, np.repeat(highest, lengths))
    ends = np.concatenate(([0], np.cumsum(kept)))
    return Ragged(texts.values[kept], ends[texts.offsets])


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1, so that their product is the cosine of equation 3. A zero vector stays zero."""
    length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / torch.where(length > 0, length, torch.ones_like(length))


def losses(gamma: float, positive: Tensor, negative: Tensor, counts: Tensor) -> Tensor:
    """Return l_r of equation 5 for each pair: log(1 + Σ_j exp(-γ Δ_j)), stable for any γ.

    `positive` (pairs,) is R(Q, D+); `negative` (pairs, n) is R(Q, D-), of which only those where `counts`
    (pairs, n) is true are taken.
    """
    delta = positive[:, None] - negative
    exponents = torch.where(counts, -gamma * delta, torch.full_like(delta, -torch.inf))
    return torch.logsumexp(torch.cat([torch.zeros_like(delta[:, :1]), exponents], dim=1), dim=1)
