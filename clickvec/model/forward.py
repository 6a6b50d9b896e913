"""The towers of the paper, forward, in NumPy. Open this file first.

`run` turns token ids into vectors, and on request records every gate, cell and output on the way. There is no learning
here, no file and no word. `training/towers.py` computes the same in torch, for gradients; a test compares the two for
every tower and option. `fast.py` computes the common towers faster.

| paper             | here                 | shape               | meaning                                             |
|-------------------|----------------------|---------------------|-----------------------------------------------------|
| x(t), l(t)        | a token              |                     | word t, and its letter trigram counts W_h x(t)      |
| W, W_1..W_4       | `*.input`            | (trigrams, units)   | input weights, transposed: one row per trigram      |
|                   | `*.input.scale`      | (trigrams,)         | factor of each row, if the rows are int8            |
| W l(t)            | `W_l`                | (texts, units)      | projected trigrams (see `projection.py`)            |
| W_rec, W_rec1..4  | `*.recurrent`        | (units, units)      | recurrent weights                                   |
| W_p1..W_p3        | `*.peephole`         | (cells, cells)      | peephole connections                                |
| b, b_1..b_4       | `*.bias`             | (units,)            | biases                                              |
| y_g(t)            | `cell_input` (4)     | (texts, cells)      | the input before gating                             |
| i(t)              | `input_gate` (3)     | (texts, cells)      | input gate                                          |
| f(t)              | `forget_gate` (2)    | (texts, cells)      | forget gate; 1 if it is switched off                |
| o(t)              | `output_gate` (1)    | (texts, cells)      | output gate                                         |
| c(t), y(t)        | `cell`, `output`     | (texts, cells)      | cell state and output; the last output embeds a text|

In place of the last output, `pooling` can choose the mean or the maximum of y(t) over all tokens. A batch is packed
longest text first (see `packing.py`), so `y[:n]` drops the texts that have ended.

To add a tower, write a function for its shapes and one that runs it, and add both to `TOWERS` at the end of this file.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from clickvec.config import Tower
from clickvec.model.packing import Array as Array
from clickvec.model.packing import Packed, pack
from clickvec.text.ragged import Ragged

Weights = Mapping[str, Array]
Shapes = dict[str, tuple[int, ...]]
Record = dict[str, list[Array]]
Value = TypeVar("Value")


def shapes(tower: Tower, trigrams: int) -> Shapes:
    """Return the name and shape of every weight of a tower."""
    return TOWERS[tower.kind].shapes(tower, trigrams)


def run(tower: Tower, weights: Weights, table: Array, texts: Ragged, record: Record | None = None) -> Array:
    """Return the vectors of texts, (texts, dimensions), before scaling to unit length. An empty text gives zeros.

    Row s of `table` is W l(t) of the token with id s (see `projection.project`). If `record` is a dict, the activations
    at each token are appended to it by name.
    """
    return TOWERS[tower.kind].run(tower, weights, table, texts, record)


def initial_value(name: str) -> float:
    """Return the value around which a weight starts. A forget gate starts open; otherwise long texts are forgotten."""
    return 1.0 if name.endswith("forget_gate.bias") else 0.0


def unit(vectors: Array) -> Array:
    """Scale vectors to length 1, so that their product is the cosine of equation 3. A zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def sigmoid(x: Array) -> Array:
    """Return σ(x), computed with tanh, which cannot overflow."""
    result: Array = 0.5 + 0.5 * np.tanh(0.5 * x)
    return result


def pool(tower: Tower, embedding: Array, y: Array, t: int) -> None:
    """Add y(t) to the embedding, in place. The embedding is valid after every token, since a text may end there."""
    if t == 0 or tower.pooling == "last":
        embedding[:] = y
    elif tower.pooling == "mean":
        embedding += (y - embedding) / (t + 1)
    else:
        np.maximum(embedding, y, out=embedding)


# --- RNN: equation 1 ---------------------------------------------------------------------------------------------


def _rnn_shapes(tower: Tower, trigrams: int) -> Shapes:
    hidden = tower.hidden
    return {"hidden.input": (trigrams, hidden), "hidden.recurrent": (hidden, hidden), "hidden.bias": (hidden,)}


def _rnn(tower: Tower, w: Weights, table: Array, texts: Ragged, record: Record | None) -> Array:
    batch, W_rec, b = pack(texts), w["hidden.recurrent"], w["hidden.bias"]
    embedding = _zeros(batch, tower.hidden, b)
    y = embedding.copy()
    for t, W_l in enumerate(batch.over_time(table)):
        n = len(W_l)
        y = np.tanh(W_l + y[:n] @ W_rec.T + b)
        pool(tower, embedding[:n], y, t)
        _keep(record, output=y)
    return batch.in_text_order(embedding)


# --- LSTM-RNN: equation 2 ----------------------------------------------------------------------------------------


def gates(tower: Tower) -> tuple[str, ...]:
    """Return the gates of an LSTM-RNN in the order in which they are side by side: numbers 4, 3, 2, 1 of equation 2."""
    return ("cell_input", "input_gate", *(("forget_gate",) if tower.forget_gate else ()), "output_gate")


def _lstm_shapes(tower: Tower, trigrams: int) -> Shapes:
    cells, result = tower.cells, Shapes()
    for gate in gates(tower):
        result |= {f"{gate}.input": (trigrams, cells), f"{gate}.recurrent": (cells, cells)}
        if tower.peepholes and gate != "cell_input":
            result[f"{gate}.peephole"] = (cells, cells)
        result[f"{gate}.bias"] = (cells,)
    return result


def _lstm(
    tower: Tower, w: Weights, table: Array, texts: Ragged, record: Record | None, backwards: bool = False
) -> Array:
    batch, names = pack(texts, backwards=backwards), gates(tower)
    W_rec = np.concatenate([w[f"{gate}.recurrent"] for gate in names]).T
    b = np.concatenate([w[f"{gate}.bias"] for gate in names])
    embedding = _zeros(batch, tower.cells, b)
    y, c = embedding.copy(), embedding.copy()
    for t, W_l in enumerate(batch.over_time(table)):
        n = len(W_l)
        y, c = y[:n], c[:n]
        all_gates = W_l + y @ W_rec + b  # side by side, from one product
        a = dict(zip(names, np.split(all_gates, len(names), axis=1), strict=True))
        y_g = np.tanh(a["cell_input"])
        i = sigmoid(a["input_gate"] + _peephole(w, "input_gate", c))
        f = sigmoid(a["forget_gate"] + _peephole(w, "forget_gate", c)) if tower.forget_gate else np.ones_like(c)
        c = f * c + i * y_g
        o = sigmoid(a["output_gate"] + _peephole(w, "output_gate", c))
        y = o * np.tanh(c)
        pool(tower, embedding[:n], y, t)
        _keep(record, cell_input=y_g, input_gate=i, forget_gate=f, cell=c, output_gate=o, output=y)
    return batch.in_text_order(embedding)


def _peephole(w: Weights, gate: str, c: Array) -> Array | float:
    return c @ w[f"{gate}.peephole"].T if f"{gate}.peephole" in w else 0.0


# --- bidirectional LSTM-RNN: the vectors of both directions side by side ------------------------------------------


def direction(weights: Mapping[str, Value], name: str) -> dict[str, Value]:
    """Return the weights of one direction, `forward` or `backward`, of a bidirectional tower."""
    return {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}


def _bilstm_shapes(tower: Tower, trigrams: int) -> Shapes:
    one_way = _lstm_shapes(tower, trigrams)
    return {f"{name}.{key}": shape for name in ("forward", "backward") for key, shape in one_way.items()}


def _bilstm(tower: Tower, w: Weights, table: Array, texts: Ragged, record: Record | None) -> Array:
    halves = []
    for name, part in zip(("forward", "backward"), np.split(table, 2, axis=1), strict=True):
        activations = None if record is None else Record()
        halves.append(_lstm(tower, direction(w, name), part, texts, activations, backwards=name == "backward"))
        if record is not None and activations is not None:
            record |= {f"{name}.{key}": values for key, values in activations.items()}
    return np.concatenate(halves, axis=1)


# --- DSSM and CLSM: no recurrence; two layers over a bag of trigrams, or over windows of words --------------------


def _dssm_shapes(tower: Tower, trigrams: int) -> Shapes:
    return {"layer1.input": (trigrams, tower.hidden), "layer1.bias": (tower.hidden,), **_layer2_shapes(tower)}


def _dssm(tower: Tower, w: Weights, table: Array, texts: Ragged, record: Record | None) -> Array:
    batch = pack(texts)
    bag = _zeros(batch, tower.hidden, table)
    for W_l in batch.over_time(table):  # the order of words is lost in this sum
        bag[: len(W_l)] += W_l
    return _layer2(w, np.tanh(bag + w["layer1.bias"]), batch, record)


def _clsm_shapes(tower: Tower, trigrams: int) -> Shapes:
    return {
        "convolution.input": (trigrams, tower.window, tower.hidden), "convolution.bias": (tower.hidden,),
        **_layer2_shapes(tower),
    }  # fmt: skip


def _clsm(tower: Tower, w: Weights, table: Array, texts: Ragged, record: Record | None) -> Array:
    """Convolve over windows of words, take the maximum over time, and add a tanh layer.

    The window around word t sees word t + k - window // 2 through part k of the input weights. Beyond the ends of the
    text it sees nothing.
    """
    batch = pack(texts)
    W_l = list(batch.over_time(table.reshape(-1, tower.window, tower.hidden)))
    pooled = np.full((len(batch.order), tower.hidden), -np.inf, table.dtype)
    for t, n in enumerate(batch.sizes):
        total = np.broadcast_to(w["convolution.bias"], (n, tower.hidden)).copy()
        for k in range(tower.window):
            word = t + k - tower.window // 2
            if 0 <= word < len(W_l):
                m = min(n, len(W_l[word]))
                total[:m] += W_l[word][:m, k]
        h = np.tanh(total)
        pooled[:n] = np.maximum(pooled[:n], h)
        _keep(record, convolution=h)
    return _layer2(w, np.where(np.isinf(pooled), 0, pooled), batch, record)


def _layer2_shapes(tower: Tower) -> Shapes:
    return {"layer2.weight": (tower.output, tower.hidden), "layer2.bias": (tower.output,)}


def _layer2(w: Weights, h: Array, batch: Packed, record: Record | None) -> Array:
    y = np.tanh(h @ w["layer2.weight"].T + w["layer2.bias"])
    y[batch.sizes[0] if batch.sizes else 0 :] = 0  # a text without words has no vector, whatever the biases are
    _keep(record, hidden=h, output=y)
    return batch.in_text_order(y)


# --- what all towers share ---------------------------------------------------------------------------------------


def _zeros(batch: Packed, width: int, like: Array) -> Array:
    return np.zeros((len(batch.order), width), like.dtype)


def _keep(record: Record | None, **activations: Array) -> None:
    if record is not None:
        for name, value in activations.items():
            record.setdefault(name, []).append(value)


class TowerKind(NamedTuple):
    """One kind of tower: its description, with fields of `Tower` in braces, its weights, and how to run it."""

    description: str
    shapes: Callable[[Tower, int], Shapes]
    run: Callable[[Tower, Weights, Array, Ragged, Record | None], Array]


TOWERS = {
    "rnn": TowerKind("RNN, {hidden} hidden units", _rnn_shapes, _rnn),
    "lstm": TowerKind("LSTM-RNN, {cells} cells", _lstm_shapes, _lstm),
    "bilstm": TowerKind("bidirectional LSTM-RNN, {cells} cells in each direction", _bilstm_shapes, _bilstm),
    "dssm": TowerKind("DSSM, {hidden}/{output}", _dssm_shapes, _dssm),
    "clsm": TowerKind("CLSM, {hidden}/{output}, window {window}", _clsm_shapes, _clsm),
}
