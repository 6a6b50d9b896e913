"""The baseline of `train.py`: the towers of the paper as one would write them in PyTorch.

EmbeddingBag, packed nn.LSTM, and SGD with Nesterov momentum over all weights, on the same minibatches and negatives
as our trainer. `First` is the version that one would write first. `Tuned` has every optimisation that we know that
does not change the network.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from clickvec.model.packing import pack
from clickvec.text.ragged import Ragged
from clickvec.training.loop import Run
from clickvec.training.negatives import Candidates

Update = Callable[[np.ndarray, np.random.Generator, int], object]


class Tower(nn.Module):
    """Common base of both versions."""

    def send(self, numbers: np.ndarray) -> Tensor:
        """Copy integers to the device of the weights."""
        return torch.from_numpy(numbers.astype(np.int64, copy=False)).to(self.words.weight.device)


class First(Tower):
    """Pad words to the longest text and let torch pack them."""

    def __init__(self, trigrams: int, cells: int, tokens: Ragged) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(trigrams, 3 * cells, mode="sum")  # as many weights as ours
        self.lstm = nn.LSTM(3 * cells, cells, batch_first=True)
        self.tokens = Ragged(
            tokens.values, np.append(tokens.offsets, len(tokens.values))
        )  # one more, without a trigram

    def forward(self, texts: Ragged) -> Tensor:
        """Return unit vectors."""
        padded = np.full((len(texts.lengths), int(texts.lengths.max())), len(self.tokens.lengths) - 1)
        padded[np.arange(padded.shape[1]) < texts.lengths[:, None]] = texts.values
        trigrams = self.tokens.take(padded.ravel())
        ids, starts = (self.send(part) for part in (trigrams.values, trigrams.offsets[:-1]))
        words = self.words(ids, starts).view(*padded.shape, -1)
        packed = pack_padded_sequence(words, torch.from_numpy(texts.lengths), batch_first=True, enforce_sorted=False)
        return nn.functional.normalize(self.lstm(packed)[1][0][0], dim=1)


class Tuned(Tower):
    """Look up each distinct word once and build the packed sequence directly, without padding."""

    def __init__(self, trigrams: int, cells: int, tokens: Ragged) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(trigrams, 3 * cells, mode="sum", include_last_offset=True)
        self.lstm = nn.LSTM(3 * cells, cells)
        self.tokens = tokens

    def forward(self, texts: Ragged) -> Tensor:
        """Return unit vectors."""
        packed = pack(texts)
        distinct, places = np.unique(packed.tokens, return_inverse=True)
        trigrams = self.tokens.take(distinct)
        words = self.words(self.send(trigrams.values), self.send(trigrams.offsets))
        tokens = nn.functional.embedding(self.send(places), words)
        order, back = self.send(packed.order), self.send(np.argsort(packed.order))
        _, (last, _) = self.lstm(PackedSequence(tokens, torch.tensor(packed.sizes), order, back))
        return nn.functional.normalize(last[0], dim=1)


def make(run: Run, tuned: bool, device: str = "cpu") -> Update:
    """Return a function that does one update on the pairs of a minibatch, with the negatives that `run` draws."""
    recipe, data, kind = run.recipe, run.data, Tuned if tuned else First
    query, title = (kind(len(data.trigrams), recipe.cells, data.tokens).to(device) for _ in range(2))
    weights = [*query.parameters(), *title.parameters()]
    rule = torch.optim.SGD(weights, recipe.learning_rate, recipe.momentum, nesterov=True, fused=tuned or None)

    def cosines(found: Candidates, y_q: Tensor, y_d: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cosines of each query with its titles, and the position of the clicked one."""
        positive = title.send(found.positive)
        if found.negative is None:
            left_out = torch.from_numpy(~found.counts).to(device)
            left_out[torch.arange(len(positive), device=device), positive] = False
            return (y_q @ y_d.T).masked_fill(left_out, -torch.inf), positive
        candidates = title.send(np.concatenate([found.positive[:, None], found.negative], axis=1))
        chosen = nn.functional.embedding(candidates, y_d) if tuned else y_d[candidates]
        return torch.einsum("rd,rjd->rj", y_q, chosen), torch.zeros_like(positive)

    def update(pairs: np.ndarray, rng: np.random.Generator, number: int) -> Tensor:
        found = run.sampler.draw(pairs, rng)
        y_q, y_d = query(data.queries.take(data.pair_query[pairs])), title(data.titles.take(found.titles))
        scores, clicked = cosines(found, y_q, y_d)
        loss = nn.functional.cross_entropy(recipe.gamma * scores, clicked)
        rule.zero_grad()
        loss.backward()
        for tower in (query, title):
            nn.utils.clip_grad_norm_(tower.parameters(), recipe.clip_norm)
        rule.step()
        return loss.detach()

    return update
