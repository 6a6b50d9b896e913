"""Fine-tune a transformer on clicks, so that it is a better teacher: then it knows what people click, too.

The loss is that of the small model (equation 5), with in-batch negatives and with hard negatives, mined before each
epoch. Memory does not grow with the minibatch: the gradient with respect to the vectors is taken first, without the
transformer; then groups of texts are encoded again, one at a time, and pass their part of the gradient on.
"""

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clickvec import config
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.storage.arrays import read_arrays, read_metadata, write_arrays
from clickvec.teacher.bert import Bert
from clickvec.text.ragged import Ragged
from clickvec.training.mining import mine_by
from clickvec.training.negatives import Candidates, Ids, Sampler
from clickvec.training.update import losses

WARM_UP = 0.1  # share of the updates in which the learning rate rises
CLIP_NORM = 1.0
REPORT_SECONDS = 0.2  # between two reads of the loss: each makes a GPU wait


class Tuning(NamedTuple):
    """Settings of fine-tuning."""

    epochs: int
    batch_size: int = 1024
    learning_rate: float = 1e-4  # rises to this, then falls to 0
    gamma: float = 20.0
    hard_negatives: int = 2
    seed: int = 1


class Minibatch(NamedTuple):
    """The candidates of a minibatch, and the tokens of its queries and titles."""

    candidates: Candidates
    queries: Ragged
    titles: Ragged


class Tuner:
    """Fine-tunes a transformer. It saves its state after each epoch."""

    def __init__(
        self, bert: Bert, data: Dataset, queries: Ragged, titles: Ragged, tuning: Tuning, saved: Path,
        progress: Progress = ignore,
    ) -> None:  # fmt: skip
        """Tune `bert`, whose weights change. `queries` and `titles` hold the tokens of the texts of `data`.

        The state is saved in the file `saved`.
        """
        self._bert, self._data, self._queries, self._titles = bert, data, queries, titles
        self._tuning, self._saved, self._progress = tuning, saved, progress
        self._sampler = Sampler(data, config.recipe(hard_negatives=tuning.hard_negatives), saved.parent)
        self._optimizer = torch.optim.AdamW(bert.weights.values(), fused=bert.device == "cuda")
        self._pairs = len(data.pair_query)
        self._batches = math.ceil(self._pairs / tuning.batch_size)

    def run(self, name: str) -> None:
        """Tune to the end. Continue if the saved state is that of a run of the same name."""
        for epoch in range(self._restore(name), self._tuning.epochs):
            self._epoch(epoch)
            self._save(name, epoch + 1)

    def _epoch(self, epoch: int) -> None:
        label = f"teacher, epoch {epoch + 1}/{self._tuning.epochs}"
        self._progress(label, 0, self._pairs)
        rng = np.random.default_rng([self._tuning.seed, epoch])
        if self._tuning.hard_negatives:
            mine_by(self._data, self._encode_queries, self._encode_titles, rng, self._sampler.mined)
        total, reported, done = torch.zeros((), device=self._bert.device), time.monotonic(), 0
        for batch, drawn in enumerate(self._minibatches(rng.permutation(self._pairs), epoch)):
            self._set_learning_rate(epoch * self._batches + batch)
            total, done = total + self._update(drawn), done + len(drawn.queries.lengths)
            if time.monotonic() - reported > REPORT_SECONDS or done == self._pairs:
                if not torch.isfinite(total):
                    raise ClickvecError("the loss of the teacher became NaN or infinite; leave out teacher_epochs")
                self._progress(label, done, self._pairs, f"loss {float(total) / done:.4f}")
                reported = time.monotonic()

    def _minibatches(self, order: Ids, epoch: int) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch. A thread draws the next one."""
        size = self._tuning.batch_size
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self._draw, order[:size], epoch, 0)
            for batch in range(1, self._batches + 1):
                drawn = waiting.result()
                if batch < self._batches:
                    waiting = pool.submit(self._draw, order[batch * size : (batch + 1) * size], epoch, batch)
                yield drawn

    def _draw(self, pairs: Ids, epoch: int, batch: int) -> Minibatch:
        rng = np.random.default_rng([self._tuning.seed, epoch, batch])
        candidates = self._sampler.draw(pairs, rng)
        queries = self._queries.take(self._data.pair_query[pairs])
        return Minibatch(candidates, queries, self._titles.take(candidates.titles))

    def _set_learning_rate(self, update: int) -> None:
        updates = self._batches * self._tuning.epochs
        share = min((update + 1) / (WARM_UP * updates), (updates - update) / updates)
        for group in self._optimizer.param_groups:
            group["lr"] = self._tuning.learning_rate * share

    # --- one update ----------------------------------------------------------------------------------------------

    def _update(self, drawn: Minibatch) -> Tensor:
        """Change the weights by one minibatch, and return its loss, summed over its pairs."""
        bert = self._bert
        groups = [list(bert.groups(texts)) for texts in (drawn.queries, drawn.titles)]
        vectors = []
        for texts, parts in zip((drawn.queries, drawn.titles), groups, strict=True):
            side = torch.zeros(len(texts.lengths), bert.dimensions, device=bert.device)
            with torch.no_grad(), self._mixed_precision():
                for rows, tokens, is_token in parts:
                    side[rows] = bert.vectors(tokens, is_token)
            vectors.append(side.requires_grad_())
        loss = self._loss(drawn.candidates, *vectors)
        self._optimizer.zero_grad(set_to_none=True)
        for gradient, parts in zip(torch.autograd.grad(loss, vectors), groups, strict=True):
            for rows, tokens, is_token in parts:
                with self._mixed_precision():
                    again = bert.vectors(tokens, is_token)
                torch.autograd.backward(again, gradient[rows] / len(drawn.queries.lengths))
        torch.nn.utils.clip_grad_norm_(bert.weights.values(), CLIP_NORM)
        self._optimizer.step()
        return loss.detach()

    def _loss(self, candidates: Candidates, queries: Tensor, titles: Tensor) -> Tensor:
        """Return the sum of equation 5 over the pairs, given unit vectors."""
        cosines = queries @ titles.T
        positive, counts = (
            torch.from_numpy(part).to(cosines.device) for part in (candidates.positive, candidates.counts)
        )
        clicked = cosines.gather(1, positive[:, None])[:, 0]
        return losses(self._tuning.gamma, clicked, cosines, counts).sum()

    def _encode_queries(self, rows: Ids) -> Tensor:
        with self._mixed_precision():
            return self._bert.encode(self._queries.take(rows))

    def _encode_titles(self, rows: Ids) -> Tensor:
        with self._mixed_precision():
            return self._bert.encode(self._titles.take(rows))

    def _mixed_precision(self) -> torch.autocast:
        return torch.autocast(self._bert.device, torch.bfloat16, enabled=self._bert.device == "cuda")

    # --- state ---------------------------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, Tensor]:
        """Return the weights and the moments of the optimizer."""
        states = self._optimizer.state
        tensors = {f"{part} {name}": states[w][part] for name, w in self._bert.weights.items() for part in states[w]}
        return {**self._bert.weights, **tensors}

    def _save(self, name: str, epoch: int) -> None:
        arrays = {key: tensor.detach().cpu().numpy() for key, tensor in self._tensors().items()}
        with files.replacing_path(self._saved) as fresh:
            write_arrays(fresh, arrays, {"name": name, "epoch": str(epoch)})

    def _restore(self, name: str) -> int:
        """Restore the state and return the number of finished epochs: 0 if there is none of that name."""
        try:
            with self._saved.open("rb") as file:
                about, arrays = read_metadata(file, str(self._saved)), read_arrays(file, str(self._saved))
        except (FileNotFoundError, ClickvecError):
            return 0
        for weight in self._bert.weights.values():
            moments = {part: torch.zeros_like(weight) for part in ("exp_avg", "exp_avg_sq")}
            self._optimizer.state[weight] = {"step": torch.zeros((), device=weight.device), **moments}
        tensors = self._tensors()
        shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
        numbers = {str(epoch): epoch for epoch in range(1, self._tuning.epochs + 1)}
        epoch = numbers.get(about.get("epoch", ""), 0) if about.get("name") == name else 0
        if not epoch or shapes != {key: array.shape for key, array in arrays.items()}:
            self._optimizer.state.clear()
            return 0
        with torch.no_grad():
            for key, tensor in tensors.items():
                tensor.copy_(torch.from_numpy(np.array(arrays[key])))
        return epoch
