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
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.training import optimizers
from clickvec.training.distillation import teacher_loss
from clickvec.training.gpu import kernels
from clickvec.training.gpu.feed import About, Feed
from clickvec.training.gpu.gpu_tower import Packed, Reader, Texts, TokenTrigrams, send
from clickvec.training.negatives import Ids, Sampler
from clickvec.training.optimizers import norm_scale
from clickvec.training.towers import TowerPair
from clickvec.training.update import Outcome, Seed, losses, unit


class Fused:
    """Updates of a pair of towers, one graph launch each."""

    def __init__(
        self, data: Dataset, recipe: Recipe, towers: TowerPair, sampler: Sampler, weights: NDArray[np.float32],
        updates: int, teacher: Teacher | None = None,
    ) -> None:  # fmt: skip
        self._data, self._recipe, self._towers = data, recipe, towers
        self.device = next(iter(towers.tensors().values())).device
        self._feed = Feed(data, recipe, sampler, weights, updates, self.device)
        self.layout, self._parts = self._feed.layout, self._feed.parts
        trigrams = TokenTrigrams(send(data.tokens.offsets, self.device), send(data.tokens.values, self.device))
        self._packed = {side: Packed(tower) for side, tower in towers.towers.items()}
        sides = list(self._packed)
        self._readers = [
            (side, Reader(self._packed[side], self._texts(kind), trigrams))
            for kind, side in (("query", sides[0]), ("title", sides[-1]))
        ]
        self._gradients = {side: torch.zeros_like(tower.weights["input"]) for side, tower in towers.towers.items()}
        for side, packed in self._packed.items():
            towers.towers[side].weights["input"].grad = self._gradients[side]
            packed.give_gradients()
        self._optimizer = optimizers.make(recipe, list(towers.tensors().values()))
        self.loss = torch.zeros((), device=self.device)
        self.masked = torch.zeros(1, dtype=torch.int32, device=self.device)
        if recipe.batch_negatives:
            self._clicked = [send(part, self.device) for part in (data.clicked.offsets, data.clicked.values)]
            self._column = torch.full((len(data.titles.lengths) + 1,), -1, dtype=torch.int32, device=self.device)
            shape = self.layout.pairs, self.layout.titles
            self._counts = torch.zeros(shape, dtype=torch.bool, device=self.device)
            self._cosines = torch.zeros(shape, device=self.device)
            self._losses = torch.zeros(shape[0], device=self.device)
        self._teacher = [torch.from_numpy(np.array(part)).to(self.device) for part in teacher[1:4]] if teacher else []
        self._graph: torch.cuda.CUDAGraph | None = None
        if self.device.type == "cuda":
            self._capture()  # an error comes now if Triton cannot compile the kernels

    def _texts(self, kind: str) -> Texts:
        """Return the texts of one side. All tokens are on the device; after word dropout they come by minibatch."""
        tokens = self._parts["tokens"]
        if not self._recipe.word_dropout:
            tokens = send((self._data.queries if kind == "query" else self._data.titles).values, self.device)
        return Texts(tokens, self._parts[f"{kind}_begin"], self._parts[f"{kind}_length"], self.layout.words)

    # --- one update ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _update(self) -> None:
        """Run what the graph records: the gradient and the optimizer."""
        parts, towers = self._parts, self._towers.towers
        self._optimizer.look_ahead(parts["momentum"][0])
        torch._foreach_zero_(list(self._gradients.values()))
        for packed in self._packed.values():
            packed.pack()
        vectors = [reader.read(towers[side].weights["input"].detach()) for side, reader in self._readers]
        gradients = self._go_back_from_loss(*vectors)
        for (side, reader), gradient in zip(self._readers, gradients, strict=True):
            reader.go_back(gradient, self._gradients[side])
        for side, packed in self._packed.items():
            whole = [self._gradients[side], packed.d_recurrent, packed.d_bias]
            scale = norm_scale(whole, self._recipe.clip_norm)
            if scale is not None:
                torch._foreach_mul_(whole, scale)
        self._optimizer.update(parts["learning_rate"][0])

    @torch.enable_grad()
    def _go_back_from_loss(self, y_q: Tensor, y_d: Tensor) -> tuple[Tensor, ...]:
        """Compute equations 3 to 5 and return their gradient with respect to the vectors."""
        leaves = y_q.detach().requires_grad_(), y_d.detach().requires_grad_()
        y_q, y_d = (unit(leaf) for leaf in leaves)
        from_teacher = [self._teacher_loss(torch.cat([y_d, y_q]))] if self._teacher else []
        if self._recipe.batch_negatives:
            gradients = self._against_all(y_q.detach(), y_d.detach())
            return torch.autograd.grad((y_q, y_d, *from_teacher), leaves, (*gradients, *[None] * len(from_teacher)))
        parts, pairs = self._parts, self.layout.pairs
        y_negative = functional.embedding(parts["negative"].view(pairs, -1).long(), y_d)
        clicked = (y_q * functional.embedding(parts["positive"].long(), y_d)).sum(dim=1)
        negative, counts = torch.einsum("rd,rjd->rj", y_q, y_negative), parts["counts"].view(pairs, -1) > 0
        loss = (losses(self._recipe.gamma, clicked, negative, counts) * parts["weight"]).sum()
        self.loss.copy_(loss.detach())
        return torch.autograd.grad([loss, *from_teacher], leaves)

    def _teacher_loss(self, vectors: Tensor) -> Tensor:
        """Return what the teacher adds to the loss, given the vectors of titles and queries."""
        parts, (queries, titles, scales) = self._parts, self._teacher
        teacher = torch.cat([titles[parts["title"].long()], queries[parts["query"].long()]]) * scales
        texts = (("title", "titles"), ("query", "pairs"))
        here = [torch.arange(len(parts[one]), device=self.device) < parts[count] for one, count in texts]
        known = torch.cat(here) & (teacher != 0).any(dim=1)
        return teacher_loss(self._recipe, parts["pairs"][0], vectors, teacher, parts["taught"].long(), known)

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
        for about in self._feed.send(order, seed, first):
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
        """Do nothing: every row is up to date."""

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""
        return self._optimizer.tensors()
