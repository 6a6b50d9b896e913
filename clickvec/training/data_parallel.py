"""Updates by several workers, with the losses of one: each encodes its share of a minibatch.

All workers draw the same minibatch, since random numbers depend on (seed, epoch, minibatch) alone. Each encodes its
share of the queries and of the titles and gets the vectors of all titles. It takes the losses of its own pairs, against
the titles of all workers. The gradients of the vectors go back to the workers that encoded them, and those of the
weights are summed, because the loss is a sum over pairs. After that, all workers make the same update.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.text.ragged import Ragged
from clickvec.training.cpu import compiled
from clickvec.training.negatives import Candidates, Ids, Sampler
from clickvec.training.towers import Batch, TowerPair
from clickvec.training.update import Plain, unit
from clickvec.training.workers import Workers


class DataParallel(Plain):
    """`Plain` by several workers, with the same compiled code."""

    def __init__(
        self, data: Dataset, recipe: Recipe, towers: TowerPair, sampler: Sampler, weights: NDArray[np.float32],
        updates: int, teacher: Teacher | None = None, *, workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(data, recipe, towers, sampler, weights, updates, teacher)
        self._workers = workers

    def _batches(self, queries: Ragged, titles: Ragged) -> tuple[Batch, Batch, Sequence[Tensor]]:
        """Return this worker's queries and titles as batches, and the trigrams of the whole minibatch.

        All workers move the same rows of the input matrices, whichever worker has their gradient.
        """
        own_queries, own_titles = (self._batch(self._share(texts)) for texts in (queries, titles))
        kernel = compiled.kernel()
        if kernel is None or self._device.type != "cpu":
            return own_queries, own_titles, ()
        tokens = self._window.data.tokens
        every = [kernel.take(tokens, kernel.distinct(texts.values)[0])[0] for texts in (queries, titles)]
        return own_queries, own_titles, every

    def _share(self, texts: Ragged) -> Ragged:
        return texts.part(self._workers.share(len(texts.offsets) - 1))

    def _backward(self, pairs: Ids, drawn: Candidates, y_q: Tensor, y_d: Tensor) -> Tensor:
        """Take the gradient of the whole minibatch, and return its loss."""
        workers, window = self._workers, self._window
        own, own_titles = workers.share(len(pairs)), workers.share(len(drawn.titles))
        all_q = workers.gather(y_q.detach(), len(pairs)).requires_grad_()
        all_d = workers.gather(y_d.detach(), len(drawn.titles)).requires_grad_()
        weights = torch.from_numpy(window.weights[pairs[own]]).to(self._device)
        loss = of_clicks = (self._losses(_own_pairs(drawn, own), all_q[own], all_d) * weights).sum()
        if window.teacher is not None:
            loss = of_clicks + self._teacher_share(pairs, drawn, torch.cat([unit(all_d), unit(all_q)]))
        loss.backward()  # type: ignore[no-untyped-call]
        d_q, d_d = gradients([all_q, all_d])
        workers.sum(d_q, d_d)
        back = [(y * d).sum() for y, d in ((y_q, d_q[own]), (y_d, d_d[own_titles])) if y.requires_grad]
        if back:  # its gradient by y is d; a worker without texts has nothing to go back through
            torch.stack(back).sum().backward()  # type: ignore[no-untyped-call]
        return self._sum_gradients(of_clicks.detach())

    def _teacher_share(self, pairs: Ids, drawn: Candidates, vectors: Tensor) -> Tensor:
        """Return what the teacher adds to the loss for this worker's share of the titles that it teaches."""
        taught = drawn.taught[self._workers.share(len(drawn.taught))]
        if not len(taught):
            return vectors.sum() * 0
        part = self._teacher_loss(pairs, drawn._replace(taught=taught), vectors)
        return part * (len(taught) / len(drawn.taught))

    def _sum_gradients(self, loss: Tensor) -> Tensor:
        """Sum the gradients of all weights over the workers, and return the sum of the losses."""
        matrices = gradients([matrix.point() for matrix in self.inputs.values()])
        input_names = {f"{side}.input" for side in self.inputs}
        small = gradients([weight for name, weight in self.towers.tensors().items() if name not in input_names])
        together = torch.cat([loss.reshape(1), *(gradient.reshape(-1) for gradient in small)])
        self._workers.sum(*matrices, together)
        parts = torch.split(together[1:], [gradient.numel() for gradient in small])
        for gradient, part in zip(small, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        return together[0]


def _own_pairs(drawn: Candidates, own: slice) -> Candidates:
    negative = None if drawn.negative is None else drawn.negative[own]
    return drawn._replace(positive=drawn.positive[own], negative=negative, counts=drawn.counts[own])


def gradients(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of tensors, zeros where there is none: all workers must exchange the same shapes."""
    for tensor in tensors:
        if tensor.grad is None:
            tensor.grad = torch.zeros_like(tensor)
    return [tensor.grad for tensor in tensors if tensor.grad is not None]
