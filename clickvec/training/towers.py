"""The towers of `forward.py` once more, in torch, for gradients. Read that file first: names and equations are there.

A tower holds its weights under the names of the model folder, except that the input matrices, the large ones, are one
tensor `input`, side by side, so that the trigrams of a word are looked up once for all the gates.

On the CPU an LSTM-RNN runs through `recurrence.py`, the same in fewer operations, or, where it was compiled, through
`compiled.py`; `_lstm` here is the one to read.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.config import Tower
from clickvec.model import forward
from clickvec.model.packing import pack
from clickvec.text.ragged import Ragged
from clickvec.training.cpu import compiled
from clickvec.training.cpu.compiled import CompiledBag, CompiledRecurrence
from clickvec.training.recurrence import Bag, Recurrence, Shape


class Batch(NamedTuple):
    """A batch of texts on a device, packed as `text.Packed`; each distinct token is looked up and projected once."""

    trigrams: Tensor  # the trigram ids of the distinct tokens, one after the other
    starts: Tensor  # where each distinct token begins in `trigrams`, and the end
    sizes: tuple[int, ...]  # texts with a token t
    tokens: Tensor  # time-major places among the distinct tokens, longest text first
    backwards: Tensor  # the same, each text read from its last token to its first
    order: Tensor  # which text is in each place, the longest first


def make_batch(texts: Ragged, token_trigrams: Ragged, device: torch.device | str = "cpu") -> Batch:
    """Lay out texts of token ids, given the trigrams of every token id."""
    kernel = compiled.kernel()
    if kernel and torch.device(device).type == "cpu":
        found, numbers = kernel.distinct(texts.values)
        order, sizes, tokens, backwards = kernel.pack(numbers, texts.offsets)
        return Batch(*kernel.take(token_trigrams, found), sizes, tokens, backwards, order)
    distinct, places = np.unique(texts.values, return_inverse=True)
    trigrams = token_trigrams.take(distinct)
    local = Ragged(places.astype(np.int32), texts.offsets)
    there, back = pack(local), pack(local, backwards=True)

    def send(values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(device)

    return Batch(
        send(trigrams.values), send(trigrams.offsets), there.sizes,
        send(there.tokens), send(back.tokens), send(there.order),
    )  # fmt: skip


def drop_tokens(texts: Ragged, chance: float, rng: np.random.Generator) -> Ragged:
    """The texts without the tokens that chance leaves out; each text that has tokens keeps one at least."""
    drawn, lengths = rng.random(len(texts.values)), texts.lengths
    filled = lengths > 0
    luckiest = np.zeros(len(lengths))
    luckiest[filled] = np.maximum.reduceat(drawn, texts.offsets[:-1][filled])
    kept = drawn >= np.minimum(chance, np.repeat(luckiest, lengths))
    ends = np.concatenate(([0], np.cumsum(kept)))
    return Ragged(texts.values[kept], ends[texts.offsets])


class TorchTower:
    """The weights of one tower as leaf tensors, and the function they compute."""

    def __init__(self, tower: Tower, trigrams: int) -> None:
        self.tower = tower
        self.shapes = forward.shapes(tower, trigrams)
        self.input_names = [name for name in self.shapes if name.endswith(".input")]
        self.weights: dict[str, Tensor] = {}
        self.by_hand = True  # the gradient by `compiled.py` or `recurrence.py`, where they can; a test turns it off

    @classmethod
    def from_arrays(
        cls, tower: Tower, arrays: forward.Weights, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> "TorchTower":
        """A tower with the weights of a model folder."""
        made = cls(tower, next(len(array) for name, array in arrays.items() if name.endswith(".input")))
        flat = [np.asarray(arrays[name]).reshape(len(arrays[name]), -1) for name in made.input_names]
        weights = {"input": np.concatenate(flat, axis=1)}
        weights |= {name: np.asarray(arrays[name]) for name in made.shapes if name not in made.input_names}
        made.weights = {
            name: torch.tensor(array, dtype=dtype, device=device, requires_grad=True) for name, array in weights.items()
        }
        return made

    def to_arrays(self) -> dict[str, forward.Array]:
        """The weights under the names and shapes of the model folder."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.weights.items()}
        whole = arrays.pop("input")
        widths = [int(np.prod(self.shapes[name][1:])) for name in self.input_names]
        parts = np.split(whole, np.cumsum(widths)[:-1], axis=1)
        split = {name: part.reshape(self.shapes[name]) for name, part in zip(self.input_names, parts, strict=True)}
        return {name: np.ascontiguousarray(split[name] if name in split else arrays[name]) for name in self.shapes}

    def parameters(self) -> list[Tensor]:
        """The leaf tensors."""
        return list(self.weights.values())

    def __call__(self, batch: Batch, bptt_steps: int = 0, matrix: Tensor | None = None) -> Tensor:
        """The vectors of a batch, (texts, dimensions), before scaling to unit length.

        `matrix` stands in for the input weights: some rows of them, where the batch numbers its trigrams by these.
        """
        W_l = self._look_up(batch, self.weights["input"] if matrix is None else matrix)
        kernel = compiled.kernel() if self.by_hand and not bptt_steps else None
        if kernel and self._is_usual and self.tower.cells % kernel.lanes == 0 and kernel.takes(W_l) and batch.sizes:
            return self._by_kernel(W_l, batch, kernel)
        kind, w = self.tower.kind, self.weights
        if kind == "bilstm":
            there, back = W_l.chunk(2, dim=1)
            packed = torch.cat([
                self._run_lstm(forward.direction(w, "forward"), there, batch.tokens, batch.sizes, bptt_steps),
                self._run_lstm(forward.direction(w, "backward"), back, batch.backwards, batch.sizes, bptt_steps),
            ], dim=1)  # fmt: skip
        elif kind == "lstm":
            packed = self._run_lstm(w, W_l, batch.tokens, batch.sizes, bptt_steps)
        else:
            # functional.embedding is W_l[batch.tokens] with a faster gradient, and the same at every run.
            W_l = functional.embedding(batch.tokens, W_l)
            if kind == "rnn":
                packed = self._rnn(W_l, batch.sizes, bptt_steps)
            elif kind == "dssm":
                packed = self._dssm(W_l, batch.sizes)
            else:
                packed = self._clsm(W_l, batch.sizes)
        empty = len(batch.order) - len(packed)
        return functional.pad(packed, (0, 0, 0, empty)).index_select(0, torch.argsort(batch.order))

    def _look_up(self, batch: Batch, matrix: Tensor) -> Tensor:
        """W l(t) of the distinct tokens."""
        if not self.by_hand or matrix.device.type != "cpu":
            return functional.embedding_bag(batch.trigrams, matrix, batch.starts, mode="sum", include_last_offset=True)
        kernel = compiled.kernel()
        found: Tensor
        if kernel and kernel.takes(matrix):
            found = CompiledBag.apply(matrix, batch.trigrams, batch.starts, kernel)  # type: ignore[no-untyped-call]
        else:
            found = Bag.apply(matrix, batch.trigrams, batch.starts)  # type: ignore[no-untyped-call]
        return found

    def _run_lstm(
        self, w: dict[str, Tensor], table: Tensor, tokens: Tensor, sizes: tuple[int, ...], bptt_steps: int
    ) -> Tensor:
        """Equation 2 for texts whose tokens are rows of a table of W l(t)."""
        if not self.by_hand or table.device.type != "cpu":
            return self._lstm(w, functional.embedding(tokens, table), sizes, bptt_steps)
        recurrent, bias = self._side_by_side(w)
        peepholes = (w.get(f"{gate}.peephole") for gate in ("input_gate", "forget_gate", "output_gate"))
        shape = Shape(sizes, self.tower.pooling, bptt_steps)
        found: Tensor = Recurrence.apply(table, tokens, bias, recurrent, shape, *peepholes)  # type: ignore[no-untyped-call]
        return found

    @property
    def _is_usual(self) -> bool:
        """Whether it is one that the kernel knows."""
        return self.tower.kind in ("lstm", "bilstm") and self.tower.pooling == "last" and not self.tower.peepholes

    def _by_kernel(self, W_l: Tensor, batch: Batch, kernel: compiled.Kernel) -> Tensor:
        """Equation 2, compiled."""

        def run(w: dict[str, Tensor], table: Tensor, tokens: Tensor) -> Tensor:
            recurrent, bias = self._side_by_side(w)
            given = (table, tokens, bias, recurrent, batch.sizes, batch.order, kernel)
            found: Tensor = CompiledRecurrence.apply(*given)  # type: ignore[no-untyped-call]
            return found

        if self.tower.kind == "lstm":
            return run(self.weights, W_l, batch.tokens)
        there, back = W_l.chunk(2, dim=1)
        both = (
            run(forward.direction(self.weights, "forward"), there, batch.tokens),
            run(forward.direction(self.weights, "backward"), back, batch.backwards),
        )
        return torch.cat(both, dim=1)

    def _side_by_side(self, w: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The recurrent weights of all gates, and their biases."""
        names = forward.gates(self.tower)
        return torch.cat([w[f"{gate}.recurrent"] for gate in names]), torch.cat([w[f"{gate}.bias"] for gate in names])

    def _rnn(self, W_l: Tensor, sizes: tuple[int, ...], bptt_steps: int) -> Tensor:
        """Equation 1."""
        W_rec, W_l = self.weights["hidden.recurrent"].T, W_l + self.weights["hidden.bias"]
        y, ended = _zeros(sizes, self.tower.hidden, W_l), []
        pooled = y
        for t, x in enumerate(torch.split(W_l, list(sizes))):
            y = torch.tanh(torch.addmm(x, y[: sizes[t]], W_rec))
            pooled = self._pool(pooled, y, t)
            ended.append(pooled[_next(sizes, t) :])
            y, pooled = (_cut(state, sizes, t, bptt_steps) for state in (y, pooled))
        return _longest_first(ended, y)

    def _lstm(self, w: dict[str, Tensor], W_l: Tensor, sizes: tuple[int, ...], bptt_steps: int) -> Tensor:
        """Equation 2."""
        names = forward.gates(self.tower)
        W_rec = torch.cat([w[f"{gate}.recurrent"] for gate in names]).T
        W_l = W_l + torch.cat([w[f"{gate}.bias"] for gate in names])
        y, ended = _zeros(sizes, self.tower.cells, W_l), []
        c = pooled = y
        for t, x in enumerate(torch.split(W_l, list(sizes))):
            y, c = y[: sizes[t]], c[: sizes[t]]
            a = dict(zip(names, torch.addmm(x, y, W_rec).chunk(len(names), dim=1), strict=True))
            i = torch.sigmoid(_peep(w, "input_gate", a["input_gate"], c))
            kept = torch.sigmoid(_peep(w, "forget_gate", a["forget_gate"], c)) * c if self.tower.forget_gate else c
            c = torch.addcmul(kept, i, torch.tanh(a["cell_input"]))
            o = torch.sigmoid(_peep(w, "output_gate", a["output_gate"], c))
            y = o * torch.tanh(c)
            pooled = self._pool(pooled, y, t)
            ended.append(pooled[_next(sizes, t) :])
            y, c, pooled = (_cut(state, sizes, t, bptt_steps) for state in (y, c, pooled))
        return _longest_first(ended, y)

    def _pool(self, pooled: Tensor, y: Tensor, t: int) -> Tensor:
        """What embeds the texts if they end at token t."""
        if t == 0 or self.tower.pooling == "last":
            return y
        pooled = pooled[: len(y)]
        return torch.lerp(pooled, y, 1 / (t + 1)) if self.tower.pooling == "mean" else torch.maximum(pooled, y)

    def _dssm(self, W_l: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """The bag of trigrams; a feed-forward net has no time to cut, so `bptt_steps` means nothing here."""
        bag, ended = _zeros(sizes, self.tower.hidden, W_l), []
        for t, x in enumerate(torch.split(W_l, list(sizes))):
            bag = bag[: sizes[t]] + x
            ended.append(bag[_next(sizes, t) :])
        return self._second_layer(torch.tanh(_longest_first(ended, bag) + self.weights["layer1.bias"]))

    def _clsm(self, W_l: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Convolution over windows of words, the greatest over time, and a layer on top."""
        window, hidden = self.tower.window, self.tower.hidden
        parts = [x.reshape(-1, window, hidden) for x in torch.split(W_l, list(sizes))]
        pooled, ended = _zeros(sizes, hidden, W_l) - 1, []  # tanh is above -1
        for t, n in enumerate(sizes):
            h = self.weights["convolution.bias"].expand(n, hidden)
            for k in range(window):
                seen = t + k - window // 2
                if 0 <= seen < len(sizes):
                    m = min(n, sizes[seen])
                    h = h + functional.pad(parts[seen][:m, k], (0, 0, 0, n - m))
            pooled = torch.maximum(pooled[:n], torch.tanh(h))
            ended.append(pooled[_next(sizes, t) :])
        return self._second_layer(_longest_first(ended, pooled))

    def _second_layer(self, h: Tensor) -> Tensor:
        return torch.tanh(torch.addmm(self.weights["layer2.bias"], h, self.weights["layer2.weight"].T))


def _zeros(sizes: tuple[int, ...], width: int, like: Tensor) -> Tensor:
    return like.new_zeros(sizes[0] if sizes else 0, width)


def _next(sizes: tuple[int, ...], t: int) -> int:
    """How many texts go on after token t; the others end there."""
    return sizes[t + 1] if t + 1 < len(sizes) else 0


def _cut(state: Tensor, sizes: tuple[int, ...], t: int, bptt_steps: int) -> Tensor:
    """Let no gradient pass to token t from texts that go on for `bptt_steps` tokens or more after it."""
    if not bptt_steps or t + bptt_steps >= len(sizes):
        return state
    beyond = sizes[t + bptt_steps]
    return torch.cat([state[:beyond].detach(), state[beyond:]])


def _longest_first(ended: list[Tensor], like: Tensor) -> Tensor:
    """The texts that ended at the last token, then those of the token before, and so on."""
    return torch.cat(ended[::-1]) if ended else like


def _peep(w: dict[str, Tensor], gate: str, a: Tensor, c: Tensor) -> Tensor:
    return torch.addmm(a, c, w[f"{gate}.peephole"].T) if f"{gate}.peephole" in w else a
