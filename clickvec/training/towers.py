"""The towers of `forward.py` in torch, for gradients. Read that file first: it has the names and the equations.

A tower holds its weights under the names of the model folder, except that all input matrices, the large ones, are one
tensor `input`, side by side: the trigrams of a token are looked up once for all gates.

On a CPU, `cpu/compiled.py` runs the LSTM-RNN and the sums of trigrams, if it was compiled. The functions here are the
ones to read, and tests compare the two.

To add a tower, write a function that runs it and add it to `RUN` at the end of this file (see docs/add-a-tower.md).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.config import Recipe, Tower
from clickvec.model import forward
from clickvec.model.folder import Model, sides
from clickvec.model.packing import pack
from clickvec.text.ragged import Ragged
from clickvec.text.trigrams import is_whole_word
from clickvec.training.cpu import compiled
from clickvec.training.cpu.compiled import CompiledBag, CompiledRecurrence

Weights = dict[str, Tensor]
Sizes = tuple[int, ...]
START = 1  # the first word of a seed: no two random streams are the same. loop.py and update.py have others


class Batch(NamedTuple):
    """A batch of texts on a device, packed as in `packing.py`. Each distinct token is looked up and projected once."""

    trigrams: Tensor  # the trigram ids of the distinct tokens, one token after the other
    starts: Tensor  # where each distinct token starts in `trigrams`, and the end
    sizes: Sizes  # the number of texts that have a token t
    tokens: Tensor  # time-major indices among the distinct tokens, longest text first
    backwards: Tensor  # the same, with each text read from its last token to its first
    order: Tensor  # the text in each row, longest first


def make_batch(texts: Ragged, token_trigrams: Ragged, device: torch.device | str = "cpu") -> Batch:
    """Return texts of token ids as a batch, given the trigrams of every token id."""
    kernel = compiled.kernel()
    if kernel and torch.device(device).type == "cpu":
        distinct_ids, numbers = kernel.distinct(texts.values)
        order, sizes, tokens, backwards = kernel.pack(numbers, texts.offsets)
        return Batch(*kernel.take(token_trigrams, distinct_ids), sizes, tokens, backwards, order)
    distinct, indices = np.unique(texts.values, return_inverse=True)
    trigrams = token_trigrams.take(distinct)
    local = Ragged(indices.astype(np.int32), texts.offsets)
    there, back = pack(local), pack(local, backwards=True)

    def send(values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(device)

    return Batch(
        send(trigrams.values), send(trigrams.offsets), there.sizes,
        send(there.tokens), send(back.tokens), send(there.order),
    )  # fmt: skip


class TorchTower:
    """The weights of one tower as leaf tensors, and the function they compute."""

    def __init__(self, tower: Tower, trigrams: int) -> None:
        self.tower = tower
        self.shapes = forward.shapes(tower, trigrams)
        self.input_names = [name for name in self.shapes if name.endswith(".input")]
        self.weights: Weights = {}
        self.use_compiled = True  # if there is compiled code; tests and benchmarks turn it off

    @classmethod
    def from_arrays(
        cls, tower: Tower, arrays: forward.Weights, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> "TorchTower":
        """Return a tower with the weights of a model folder."""
        made = cls(tower, next(len(array) for name, array in arrays.items() if name.endswith(".input")))
        flat = [np.asarray(arrays[name]).reshape(len(arrays[name]), -1) for name in made.input_names]
        weights = {"input": np.concatenate(flat, axis=1)}
        weights |= {name: np.asarray(arrays[name]) for name in made.shapes if name not in made.input_names}
        made.weights = {
            name: torch.tensor(array, dtype=dtype, device=device, requires_grad=True) for name, array in weights.items()
        }
        return made

    def to_arrays(self) -> dict[str, forward.Array]:
        """Return the weights under the names and in the shapes of the model folder."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.weights.items()}
        whole = arrays.pop("input")
        widths = [int(np.prod(self.shapes[name][1:])) for name in self.input_names]
        parts = np.split(whole, np.cumsum(widths)[:-1], axis=1)
        split = {name: part.reshape(self.shapes[name]) for name, part in zip(self.input_names, parts, strict=True)}
        return {name: np.ascontiguousarray(split[name] if name in split else arrays[name]) for name in self.shapes}

    def __call__(self, batch: Batch, matrix: Tensor | None = None) -> Tensor:
        """Return the vectors of a batch, (texts, dimensions), before scaling to unit length.

        `matrix` replaces the input weights. It may hold a few of their rows, if the batch numbers its trigrams by them.
        """
        matrix = self.weights["input"] if matrix is None else matrix
        kernel = compiled.kernel() if self.use_compiled else None
        if kernel and kernel.takes(matrix):
            table: Tensor = CompiledBag.apply(matrix, batch.trigrams, batch.starts, kernel)  # type: ignore[no-untyped-call]
        else:
            table = functional.embedding_bag(batch.trigrams, matrix, batch.starts, mode="sum", include_last_offset=True)
        if kernel and self._has_kernel(kernel) and kernel.takes(table) and batch.sizes:
            return self._compiled(table, batch, kernel)
        packed = RUN[self.tower.kind](self, table, batch)
        empty = len(batch.order) - len(packed)
        return functional.pad(packed, (0, 0, 0, empty)).index_select(0, torch.argsort(batch.order))

    def _has_kernel(self, kernel: compiled.Kernel) -> bool:
        """Return whether the compiled code can run this tower."""
        tower = self.tower
        usual = tower.kind in ("lstm", "bilstm") and tower.pooling == "last" and not tower.peepholes
        return usual and tower.cells % kernel.lanes == 0

    def _compiled(self, table: Tensor, batch: Batch, kernel: compiled.Kernel) -> Tensor:
        """Run equation 2, compiled. The vectors are in the order of the texts."""
        vectors = []
        for w, part, tokens in self.directions(table, batch):
            recurrent, bias = _all_gates(self.tower, w)
            vectors.append(
                CompiledRecurrence.apply(part, tokens, bias, recurrent, batch.sizes, batch.order, kernel)  # type: ignore[no-untyped-call]
            )
        return torch.cat(vectors, dim=1) if len(vectors) > 1 else vectors[0]

    def directions(self, table: Tensor, batch: Batch) -> list[tuple[Weights, Tensor, Tensor]]:
        """Return weights, columns of the table and tokens of each direction in which an LSTM-RNN reads."""
        if self.tower.kind == "lstm":
            return [(self.weights, table, batch.tokens)]
        there, back = table.chunk(2, dim=1)
        return [
            (forward.direction(self.weights, "forward"), there, batch.tokens),
            (forward.direction(self.weights, "backward"), back, batch.backwards),
        ]


class TowerPair:
    """A query tower and a title tower, which are the same if the recipe sets `shared_tower`.

    The rows of whole words start at 0, so that a word starts as the sum of its trigrams, and rare words stay close to
    it. If a model is given to start from, its weights replace the random ones. Its trigrams are the first ones, and the
    rows of all others are 0: in the beginning they count nothing, as in that model.
    """

    def __init__(
        self, recipe: Recipe, trigrams: Sequence[str], device: torch.device, start: Model | None = None
    ) -> None:
        shape = recipe.tower_shape()
        words = [number for number, trigram in enumerate(trigrams) if is_whole_word(trigram)]
        self.towers: dict[str, TorchTower] = {}
        for number, side in enumerate(sides(recipe.shared_tower)):
            # Small random numbers (Algorithm 1), around the initial value of each weight.
            rng = np.random.default_rng([START, recipe.seed, number])
            arrays = {
                name: rng.uniform(-recipe.initial_scale, recipe.initial_scale, shape) + forward.initial_value(name)
                for name, shape in forward.shapes(shape, len(trigrams)).items()
            }
            for name in arrays:
                if name.endswith(".input"):
                    arrays[name][words] = 0
            for name, weight in forward.direction(start.weights, side).items() if start else ():
                arrays[name][: len(weight)], arrays[name][len(weight) :] = weight, 0
            self.towers[side] = TorchTower.from_arrays(recipe.tower_shape(), arrays, torch.float32, device)
        self.query = self.towers[sides(recipe.shared_tower)[0]]
        self.title = self.towers[sides(recipe.shared_tower)[-1]]

    def to_arrays(self) -> dict[str, forward.Array]:
        """Return all weights under the names of the model folder."""
        return {
            f"{side}.{name}": array for side, tower in self.towers.items() for name, array in tower.to_arrays().items()
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the leaf tensors by side and name."""
        return {f"{side}.{name}": t for side, tower in self.towers.items() for name, t in tower.weights.items()}


# --- the towers ---------------------------------------------------------------------------------------------------
# Each takes the table of W l(t), one row for each distinct token, and returns the vectors of the texts that have
# tokens, longest text first.


def _rnn(net: TorchTower, table: Tensor, batch: Batch) -> Tensor:
    """Equation 1."""
    sizes, W_rec = batch.sizes, net.weights["hidden.recurrent"].T
    y, ended = _zeros(sizes, net.tower.hidden, table), []
    pooled = y
    for t, x in enumerate(_over_time(table, batch.tokens, sizes, net.weights["hidden.bias"])):
        y = torch.tanh(torch.addmm(x, y[: sizes[t]], W_rec))
        pooled = _pool(net.tower, pooled, y, t)
        ended.append(pooled[continuing(sizes, t) :])
    return _longest_first(ended, y)


def _lstm(net: TorchTower, table: Tensor, batch: Batch) -> Tensor:
    """Equation 2, in one direction or in two, side by side."""
    vectors = [read_texts(net.tower, w, part, tokens, batch.sizes) for w, part, tokens in net.directions(table, batch)]
    return torch.cat(vectors, dim=1) if len(vectors) > 1 else vectors[0]


def read_texts(tower: Tower, w: Weights, table: Tensor, tokens: Tensor, sizes: Sizes) -> Tensor:
    """Equation 2 in one direction."""
    names = forward.gates(tower)
    recurrent, bias = _all_gates(tower, w)
    y, ended = _zeros(sizes, tower.cells, table), []
    c = pooled = y
    for t, x in enumerate(_over_time(table, tokens, sizes, bias)):
        y, c = y[: sizes[t]], c[: sizes[t]]
        a = dict(zip(names, torch.addmm(x, y, recurrent.T).chunk(len(names), dim=1), strict=True))
        i = torch.sigmoid(_peep(w, "input_gate", a["input_gate"], c))
        kept = torch.sigmoid(_peep(w, "forget_gate", a["forget_gate"], c)) * c if tower.forget_gate else c
        c = torch.addcmul(kept, i, torch.tanh(a["cell_input"]))
        o = torch.sigmoid(_peep(w, "output_gate", a["output_gate"], c))
        y = o * torch.tanh(c)
        pooled = _pool(tower, pooled, y, t)
        ended.append(pooled[continuing(sizes, t) :])
    return _longest_first(ended, y)


def _all_gates(tower: Tower, w: Weights) -> tuple[Tensor, Tensor]:
    """Return the recurrent weights of all gates, and their biases."""
    names = forward.gates(tower)
    return torch.cat([w[f"{gate}.recurrent"] for gate in names]), torch.cat([w[f"{gate}.bias"] for gate in names])


def _peep(w: Weights, gate: str, a: Tensor, c: Tensor) -> Tensor:
    return torch.addmm(a, c, w[f"{gate}.peephole"].T) if f"{gate}.peephole" in w else a


def _dssm(net: TorchTower, table: Tensor, batch: Batch) -> Tensor:
    """Two layers over a bag of trigrams."""
    sizes = batch.sizes
    bag, ended = _zeros(sizes, net.tower.hidden, table), []
    for t, x in enumerate(_over_time(table, batch.tokens, sizes)):
        bag = bag[: sizes[t]] + x
        ended.append(bag[continuing(sizes, t) :])
    return _layer2(net, torch.tanh(_longest_first(ended, bag) + net.weights["layer1.bias"]))


def _clsm(net: TorchTower, table: Tensor, batch: Batch) -> Tensor:
    """A convolution over windows of words, its maximum over time, and a layer on top."""
    sizes, window, hidden = batch.sizes, net.tower.window, net.tower.hidden
    parts = [x.reshape(-1, window, hidden) for x in _over_time(table, batch.tokens, sizes)]
    pooled, ended = _zeros(sizes, hidden, table) - 1, []  # tanh is above -1
    for t, n in enumerate(sizes):
        h = net.weights["convolution.bias"].expand(n, hidden)
        for k in range(window):
            word = t + k - window // 2
            if 0 <= word < len(sizes):
                m = min(n, sizes[word])
                h = h + functional.pad(parts[word][:m, k], (0, 0, 0, n - m))
        pooled = torch.maximum(pooled[:n], torch.tanh(h))
        ended.append(pooled[continuing(sizes, t) :])
    return _layer2(net, _longest_first(ended, pooled))


def _layer2(net: TorchTower, h: Tensor) -> Tensor:
    return torch.tanh(torch.addmm(net.weights["layer2.bias"], h, net.weights["layer2.weight"].T))


# --- what the towers share ---------------------------------------------------------------------------------------


def _over_time(table: Tensor, tokens: Tensor, sizes: Sizes, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return W l(t), with the bias added, for t = 0, 1, ...: one row for each text that has a token t."""
    # functional.embedding is table[tokens] with a gradient that is faster and does not depend on the order of threads.
    W_l = functional.embedding(tokens, table)
    return torch.split(W_l if bias is None else W_l + bias, list(sizes))


def _pool(tower: Tower, pooled: Tensor, y: Tensor, t: int) -> Tensor:
    """Return the vectors of the texts if they end at token t."""
    if t == 0 or tower.pooling == "last":
        return y
    pooled = pooled[: len(y)]
    return torch.lerp(pooled, y, 1 / (t + 1)) if tower.pooling == "mean" else torch.maximum(pooled, y)


def _zeros(sizes: Sizes, width: int, like: Tensor) -> Tensor:
    return like.new_zeros(sizes[0] if sizes else 0, width)


def continuing(sizes: Sizes, t: int) -> int:
    """Return how many texts continue after token t; the others end there."""
    return sizes[t + 1] if t + 1 < len(sizes) else 0


def _longest_first(ended: list[Tensor], like: Tensor) -> Tensor:
    """Return the texts that ended at the last token, then those that ended one token earlier, and so on."""
    return torch.cat(ended[::-1]) if ended else like


RUN: dict[str, Callable[[TorchTower, Tensor, Batch], Tensor]] = {
    "rnn": _rnn,
    "lstm": _lstm,
    "bilstm": _lstm,
    "dssm": _dssm,
    "clsm": _clsm,
}
