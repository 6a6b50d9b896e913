"""A whole update on a GPU as one CUDA graph: shapes are fixed, and everything that changes is in one array.

It covers the common settings of `update.Plain` (see `can_be_fused`), with the same losses except for rounding. Tests
run it on the CPU with Triton's interpreter, which is slow.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.training import optimizers
from clickvec.training.gpu import kernels
from clickvec.training.gpu.feed import About, Feed, Job
from clickvec.training.gpu.gpu_tower import Packed, Reader, Texts, TokenTrigrams, Waiting, send
from clickvec.training.negatives import Ids, Sampler
from clickvec.training.objective import losses, unit
from clickvec.training.optimizers import Adam, Nesterov, learning_rate_at, momentum, norm_scale
from clickvec.training.pair import TowerPair
from clickvec.training.update import Outcome, Seed


class Fused:
    """Updates of a pair of towers, one graph launch each."""

    def __init__(
        self, data: Dataset, recipe: Recipe, towers: TowerPair, sampler: Sampler, weights: NDArray[np.float32],
        updates: int,
    ) -> None:  # fmt: skip
        self._data, self._recipe, self._towers, self._updates = data, recipe, towers, updates
        self.device = next(iter(towers.tensors().values())).device
        self._feed = Feed(data, recipe, sampler, weights, self.device)
        self.layout, self._parts = self._feed.layout, self._feed.parts
        self._token_trigrams = TokenTrigrams.of(data.tokens, self.device)
        self._packed = {side: Packed(tower) for side, tower in towers.towers.items()}
        sides = list(self._packed)
        self._readers = [
            (side, Reader(self._packed[side], self._texts(kind), self._token_trigrams))
            for kind, side in (("query", sides[0]), ("title", sides[-1]))
        ]
        self._make_optimizers()
        self.loss = torch.zeros((), device=self.device)
        self.masked = torch.zeros(1, dtype=torch.int32, device=self.device)
        if recipe.batch_negatives:
            self._clicked = [send(part, self.device) for part in (data.clicked.offsets, data.clicked.values)]
            self._column = torch.full((len(data.titles.lengths) + 1,), -1, dtype=torch.int32, device=self.device)
            shape = self.layout.pairs, self.layout.titles
            self._counts = torch.zeros(shape, dtype=torch.bool, device=self.device)
            self._cosines = torch.zeros(shape, device=self.device)
            self._losses = torch.zeros(shape[0], device=self.device)
        self._graph: torch.cuda.CUDAGraph | None = None

    def _texts(self, kind: str) -> Texts:
        """Return the texts of one side. All tokens are on the device; after word dropout they come by minibatch."""
        tokens = self._parts["tokens"]
        if not self._recipe.word_dropout:
            tokens = send((self._data.queries if kind == "query" else self._data.titles).values, self.device)
        return Texts(tokens, self._parts[f"{kind}_begin"], self._parts[f"{kind}_length"], self.layout.words)

    def _make_optimizers(self) -> None:
        """Make the optimizers: Nesterov updates the touched rows of the input matrices, Adam all rows."""
        recipe, towers = self._recipe, self._towers.towers
        inputs = {side: tower.weights["input"] for side, tower in towers.items()}
        self._waiting: dict[str, Waiting] = {}
        if recipe.optimizer == "nesterov":
            momenta = [momentum(recipe, k, self._updates) for k in range(self._updates)]
            self._waiting = {side: Waiting(matrix, momenta) for side, matrix in inputs.items()}
            self._gradients = {side: one.gradient for side, one in self._waiting.items()}
        else:
            self._gradients = {side: torch.zeros_like(matrix) for side, matrix in inputs.items()}
            for side, matrix in inputs.items():
                matrix.grad = self._gradients[side]
        for packed in self._packed.values():
            packed.give_gradients()
        apart = [id(matrix) for matrix in inputs.values()] if self._waiting else []
        parameters = [weight for tower in towers.values() for weight in tower.parameters() if id(weight) not in apart]
        self._optimizer = optimizers.make(recipe, parameters)

    # --- one update ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _update(self) -> None:
        """Run what the graph records: the gradient and the optimizer."""
        self._look_ahead()
        vectors = [reader.read(self._matrix(side)) for side, reader in self._readers]
        gradients = self._go_back_from_loss(*vectors)
        for (side, reader), gradient in zip(self._readers, gradients, strict=True):
            reader.go_back(gradient, self._gradients[side])
        for side, packed in self._packed.items():
            self._step(side, packed)
        if isinstance(self._optimizer, Adam):
            self._optimizer.update_by(self._parts["learning_rate"][0])

    def _matrix(self, side: str) -> Tensor:
        return self._towers.towers[side].weights["input"].detach()

    def _look_ahead(self) -> None:
        """Move to where the gradient is taken, and set gradients to 0."""
        parts = self._parts
        if isinstance(self._optimizer, Nesterov):
            torch._foreach_mul_(self._optimizer.change, parts["momentum"][0])
            torch._foreach_add_([one.detach() for one in self._optimizer.parameters], self._optimizer.change)
            for side, reader in self._readers:
                self._waiting[side].look_ahead(parts["now"], reader.texts, self._token_trigrams)
        else:
            torch._foreach_zero_(list(self._gradients.values()))
        for packed in self._packed.values():
            packed.pack()

    def _step(self, side: str, packed: Packed) -> None:
        """Re-normalise the gradient of a tower; with Nesterov, update its weights."""
        gradients = [self._gradients[side], packed.d_recurrent, packed.d_bias]
        scale = norm_scale(gradients, self._recipe.clip_norm)
        if isinstance(self._optimizer, Nesterov):
            rate = self._parts["learning_rate"]
            rate = rate if scale is None else rate * scale
            self._waiting[side].update(self._parts["now"], rate)
            self._step_small(self._optimizer, packed, rate)
        elif scale is not None:
            torch._foreach_mul_(gradients, scale)

    def _step_small(self, rule: Nesterov, packed: Packed, rate: Tensor) -> None:
        mine = [id(weight) for weight in packed.tower.parameters()]
        both = [(one, change) for one, change in zip(rule.parameters, rule.change, strict=True) if id(one) in mine]
        moved = torch._foreach_mul([one.grad for one, _ in both if one.grad is not None], rate[0])
        torch._foreach_sub_([one.detach() for one, _ in both], moved)
        torch._foreach_sub_([change for _, change in both], moved)

    @torch.enable_grad()
    def _go_back_from_loss(self, y_q: Tensor, y_d: Tensor) -> tuple[Tensor, ...]:
        """Compute equations 3 to 5 and return their gradient with respect to the vectors."""
        leaves = y_q.detach().requires_grad_(), y_d.detach().requires_grad_()
        y_q, y_d = (unit(leaf) for leaf in leaves)
        if self._recipe.batch_negatives:
            return torch.autograd.grad((y_q, y_d), leaves, self._against_all(y_q.detach(), y_d.detach()))
        parts, pairs = self._parts, self.layout.pairs
        y_negative = functional.embedding(parts["negative"].view(pairs, -1).long(), y_d)
        clicked = (y_q * functional.embedding(parts["positive"].long(), y_d)).sum(dim=1)
        negative, counts = torch.einsum("rd,rjd->rj", y_q, y_negative), parts["counts"].view(pairs, -1) > 0
        loss = (losses(self._recipe.gamma, clicked, negative, counts) * parts["weight"]).sum()
        self.loss.copy_(loss.detach())
        return torch.autograd.grad(loss, leaves)

    @torch.no_grad()
    def _against_all(self, y_q: Tensor, y_d: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the loss with in-batch negatives and return its gradient with respect to the unit vectors."""
        parts, titles = self._parts, self.layout.titles
        torch.mm(y_q, y_d.T, out=self._cosines)
        kernels.soft_losses[(self.layout.pairs,)](
            self._cosines, parts["positive"], self._not_clicked(), parts["weight"], self._losses, self._recipe.gamma,
            titles, COLUMNS=1024,
        )  # fmt: skip
        torch.sum(self._losses, 0, out=self.loss)
        return self._cosines @ y_d, self._cosines.T @ y_q

    @torch.no_grad()
    def _not_clicked(self) -> Tensor:
        """Return which titles of the minibatch were not clicked for each query, (pairs, titles)."""
        parts, places = self._parts, torch.arange(self.layout.titles, dtype=torch.int32, device=self.device)
        here = places < parts["titles"]
        ids = torch.where(here, parts["title"], len(self._column) - 1).long()
        self._column.index_copy_(0, ids, places)
        self._column[-1:].fill_(-1)
        self._counts.copy_(here.expand_as(self._counts))
        self.masked.zero_()
        kernels.hide_clicked[(self.layout.pairs,)](
            self._counts, self._column, parts["query"], parts["pairs"], *self._clicked, self.masked, self.layout.titles,
            FEW=32, num_warps=1,
        )  # fmt: skip
        self.masked.sub_(parts["pairs"])  # a pair's own title is not a false negative
        self._column.index_fill_(0, ids, -1)
        return self._counts

    # --- many updates --------------------------------------------------------------------------------------------

    def epoch(self, order: Ids, seed: Seed, first: int) -> Iterator[Outcome]:
        """Run the updates of an epoch from minibatch `first` on."""
        recipe, size = self._recipe, self._recipe.batch_size

        def jobs() -> Iterator[Job]:
            for batch in range(first, seed.batches):
                k = seed.update(batch)
                yield Job(
                    np.asarray(order[batch * size : (batch + 1) * size]), seed.draw(batch), k,
                    momentum(recipe, k, self._updates), learning_rate_at(recipe, k, self._updates),
                )  # fmt: skip

        if self._graph is None and self.device.type == "cuda":
            self._capture()
        for about in self._feed.send(jobs()):
            if self._graph is None:
                self._update()
            else:
                self._graph.replay()
            yield self._outcome(about)

    def _outcome(self, about: About) -> Outcome:
        if not self._recipe.batch_negatives:
            return Outcome(self.loss, about.weight, about.masked, about.negatives)
        masked = self.masked[0]
        return Outcome(self.loss, about.weight, masked, about.negatives - masked / about.pairs)

    def _capture(self) -> None:
        """Record an update without texts, after one that compiles the kernels. Neither changes the weights."""
        changing = [one.detach() for one in (self._towers.tensors() | self.tensors()).values()]
        kept = [one.clone() for one in changing]
        self._feed.clear()
        side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(2):
                self._update()
        torch.cuda.current_stream().wait_stream(side_stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=side_stream):
            self._update()
        torch._foreach_copy_(changing, kept)

    def settle(self, updates: int) -> None:
        """Bring every row to its value after this many updates."""
        for one in self._waiting.values():
            one.settle(updates)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""
        tensors = self._optimizer.tensors()
        for side, one in self._waiting.items():
            tensors |= {f"{side}.input.{name}": tensor for name, tensor in one.tensors().items()}
        return tensors
