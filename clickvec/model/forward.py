"""The paper's towers, forward, in NumPy: open this file first.

It gives a text its vector, and every gate, cell and output on the way when asked for a trace. `train/towers.py` is its
twin in torch, for gradients; a test binds the two for every tower and option. There is no learning here, no file and
no word: input is token ids and the projections W l(t) of their trigrams.

| paper             | here                 | shape               | meaning                                             |
|-------------------|----------------------|---------------------|-----------------------------------------------------|
| x(t), l(t)        | a token              |                     | word t, and its letter trigram counts W_h x(t)      |
| W, W_1..W_4       | `*.input`            | (trigrams, units)   | input weights, transposed: one row for each trigram |
|                   | `*.input.scale`      | (trigrams,)         | what a row is to be multiplied by, where it is int8 |
| W_rec, W_rec1..4  | `*.recurrent`        | (units, units)      | recurrent weights                                   |
| W_p1..W_p3        | `*.peephole`         | (cells, cells)      | peephole connections                                |
| b, b_1..b_4       | `*.bias`             | (units,)            | biases                                              |
| y_g(t)            | `cell_input` (4)     | (texts, cells)      | the input before gating                             |
| i(t)              | `input_gate` (3)     | (texts, cells)      | input gate                                          |
| f(t)              | `forget_gate` (2)    | (texts, cells)      | forget gate; 1 when it is switched off              |
| o(t)              | `output_gate` (1)    | (texts, cells)      | output gate                                         |
| c(t), y(t)        | `cell`, `output`     | (texts, cells)      | cell state, and output; y at the last word embeds   |

What embeds a text is the paper's y at the last word, or, as `pooling` says, the mean or the max of y over all words.
A batch is laid out as `text.Packed`: longest text first, so that `y[:n]` drops the texts that have ended.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.config import Tower
from clickvec.model.packing import Packed, pack
from clickvec.text.ragged import Ragged

Array = NDArray[np.floating[Any]]
Weights = Mapping[str, Array]
Record = dict[str, list[Array]]
Value = TypeVar("Value")
CHUNK = 2048  # tokens whose trigrams are summed side by side: few enough for the processor's cache
LONG = 64  # a token of more trigrams than this is summed by itself


def gates(tower: Tower) -> tuple[str, ...]:
    """The gates of an LSTM-RNN in the order they are laid side by side: numbers 4, 3, 2 and 1 of equation 2."""
    return ("cell_input", "input_gate", *(("forget_gate",) if tower.forget_gate else ()), "output_gate")


def shapes(tower: Tower, trigrams: int) -> dict[str, tuple[int, ...]]:
    """The name and shape of every weight of a tower."""
    cells, hidden, output = tower.cells, tower.hidden, tower.output
    if tower.kind == "rnn":
        return {"hidden.input": (trigrams, hidden), "hidden.recurrent": (hidden, hidden), "hidden.bias": (hidden,)}
    if tower.kind == "bilstm":
        one_way = shapes(Tower("lstm", cells, forget_gate=tower.forget_gate, peepholes=tower.peepholes), trigrams)
        return {f"{way}.{name}": shape for way in ("forward", "backward") for name, shape in one_way.items()}
    if tower.kind == "lstm":
        found: dict[str, tuple[int, ...]] = {}
        for gate in gates(tower):
            found |= {f"{gate}.input": (trigrams, cells), f"{gate}.recurrent": (cells, cells)}
            if tower.peepholes and gate != "cell_input":
                found[f"{gate}.peephole"] = (cells, cells)
            found[f"{gate}.bias"] = (cells,)
        return found
    first = "layer1" if tower.kind == "dssm" else "convolution"
    width = (hidden,) if tower.kind == "dssm" else (tower.window, hidden)
    return {
        f"{first}.input": (trigrams, *width), f"{first}.bias": (hidden,),
        "layer2.weight": (output, hidden), "layer2.bias": (output,),
    }  # fmt: skip


def project(weights: Weights, trigram_ids: Ragged) -> Array:
    """W l(t) for each row of trigram ids, (tokens, width): rows of W summed, as l(t) is a short list of counts.

    A tower with several input matrices has their projections side by side, in the order of `shapes`.
    """
    inputs = {name: np.asarray(weight) for name, weight in weights.items() if name.endswith(".input")}
    matrices = {name: weight.reshape(len(weight), -1) for name, weight in inputs.items()}
    ends = np.cumsum([matrix.shape[1] for matrix in matrices.values()]).tolist()
    lengths, offsets = trigram_ids.lengths, trigram_ids.offsets
    found = np.zeros((len(lengths), ends[-1]), np.result_type(next(iter(matrices.values())), np.float32))
    short, long = np.flatnonzero(lengths <= LONG), np.flatnonzero(lengths > LONG)
    side_by_side = list(pack(trigram_ids.take(short)).chunks(CHUNK))
    for (name, matrix), end in zip(matrices.items(), ends, strict=True):
        part, scale = found[:, end - matrix.shape[1] : end], weights.get(f"{name}.scale")
        for row in long:
            part[row] = _rows(matrix, scale, trigram_ids.values[offsets[row] : offsets[row + 1]]).sum(axis=0)
        for rows, columns in side_by_side:
            total = _rows(matrix, scale, columns[0])
            for ids in columns[1:]:
                total[: len(ids)] += _rows(matrix, scale, ids)
            part[short[rows]] = total
    return found


def _rows(matrix: Array, scale: Array | None, ids: NDArray[np.integer]) -> Array:
    """Rows of W in float32 at least: a shrunk model has them in float16, or in int8 with a scale for each trigram."""
    rows = matrix.take(ids, axis=0)  # faster than matrix[ids]
    return rows.astype(np.result_type(rows, np.float32), copy=False) if scale is None else rows * scale[ids, None]


def run(tower: Tower, weights: Weights, table: Array, texts: Ragged, record: Record | None = None) -> Array:
    """The vectors of a batch of texts, (texts, dimensions), before scaling to unit length; no text gives zeros.

    Row s of `table` is W l(t) of the token whose id is s (see `project`). With `record`, a dict, the activations at
    each token are appended to it by name.
    """
    if tower.kind != "bilstm":
        return _in_order(_TOWERS[tower.kind], tower, weights, table, pack(texts), record)
    halves, width = [], table.shape[1] // 2
    for way, columns in (("forward", slice(None, width)), ("backward", slice(width, None))):
        seen: Record | None = None if record is None else {}
        batch = pack(texts, backwards=way == "backward")
        halves.append(_in_order(_lstm, tower, direction(weights, way), table[:, columns], batch, seen))
        if record is not None and seen is not None:
            record |= {f"{way}.{name}": tokens for name, tokens in seen.items()}
    return np.concatenate(halves, axis=1)


def direction(weights: Mapping[str, Value], way: str) -> dict[str, Value]:
    """The weights of one of the two LSTM-RNNs of a bidirectional tower."""
    return {name.removeprefix(f"{way}."): value for name, value in weights.items() if name.startswith(f"{way}.")}


def unit(vectors: Array) -> Array:
    """Vectors scaled to length 1, so that their product is the cosine of equation 3; a zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def sigmoid(x: Array) -> Array:
    """σ(x), by way of tanh: no overflow, and one vectorised call."""
    squashed: Array = 0.5 + 0.5 * np.tanh(0.5 * x)
    return squashed


def _rnn(tower: Tower, w: Weights, table: Array, batch: Packed, record: Record | None) -> Array:
    """Equation 1."""
    W_l, W_rec, b = table[batch.tokens], w["hidden.recurrent"], w["hidden.bias"]
    embedding = _zeros(batch, tower.hidden, b)
    y, start = embedding.copy(), 0
    for t, n in enumerate(batch.sizes):
        y = np.tanh(W_l[start : start + n] + y[:n] @ W_rec.T + b)
        pool(tower, embedding[:n], y, t)
        start += n
        _keep(record, output=y)
    return embedding


def _lstm(tower: Tower, w: Weights, table: Array, batch: Packed, record: Record | None) -> Array:
    """Equation 2; W_i l(t) + W_reci y(t-1) + b_i is one product for all the gates, side by side."""
    names, cells = gates(tower), tower.cells
    W_l = table[batch.tokens]
    W_rec = np.concatenate([w[f"{gate}.recurrent"] for gate in names]).T
    b = np.concatenate([w[f"{gate}.bias"] for gate in names])
    embedding = _zeros(batch, cells, b)
    y, c, start = embedding.copy(), embedding.copy(), 0
    for t, n in enumerate(batch.sizes):
        y, c = y[:n], c[:n]
        a = W_l[start : start + n] + y @ W_rec + b
        at = {gate: a[:, k * cells : (k + 1) * cells] for k, gate in enumerate(names)}
        y_g = np.tanh(at["cell_input"])
        i = sigmoid(at["input_gate"] + _peephole(w, "input_gate", c))
        f = sigmoid(at["forget_gate"] + _peephole(w, "forget_gate", c)) if tower.forget_gate else np.ones_like(c)
        c = f * c + i * y_g
        o = sigmoid(at["output_gate"] + _peephole(w, "output_gate", c))
        y = o * np.tanh(c)
        pool(tower, embedding[:n], y, t)
        start += n
        _keep(record, cell_input=y_g, input_gate=i, forget_gate=f, cell=c, output_gate=o, output=y)
    return embedding


def pool(tower: Tower, embedding: Array, y: Array, t: int) -> None:
    """Take y(t) into the embedding, in place; it is whole at every token, since a text may end there."""
    if t == 0 or tower.pooling == "last":
        embedding[:] = y
    elif tower.pooling == "mean":
        embedding += (y - embedding) / (t + 1)
    else:
        np.maximum(embedding, y, out=embedding)


def _peephole(w: Weights, gate: str, c: Array) -> Array | float:
    return c @ w[f"{gate}.peephole"].T if f"{gate}.peephole" in w else 0.0


def _dssm(tower: Tower, w: Weights, table: Array, batch: Packed, record: Record | None) -> Array:
    """Two tanh layers over the bag of trigrams; the order of words is lost in the sum."""
    W_l, start = table[batch.tokens], 0
    bag = _zeros(batch, tower.hidden, W_l)
    for n in batch.sizes:
        bag[:n] += W_l[start : start + n]
        start += n
    return _second_layer(w, np.tanh(bag + w["layer1.bias"]), batch, record)


def _clsm(tower: Tower, w: Weights, table: Array, batch: Packed, record: Record | None) -> Array:
    """A convolution over windows of words, the greatest value over time, and a tanh layer on top.

    The window around word t sees word t + k - window // 2 through part k of the input weights; beyond the ends of the
    text there is nothing to see.
    """
    W_l = table[batch.tokens].reshape(-1, tower.window, tower.hidden)
    ends = np.cumsum((0, *batch.sizes))
    pooled = np.full((len(batch.order), tower.hidden), -np.inf, W_l.dtype)
    for t, n in enumerate(batch.sizes):
        total = np.broadcast_to(w["convolution.bias"], (n, tower.hidden)).copy()
        for k in range(tower.window):
            seen = t + k - tower.window // 2
            if 0 <= seen < len(batch.sizes):
                m = min(n, batch.sizes[seen])
                total[:m] += W_l[ends[seen] : ends[seen] + m, k]
        h = np.tanh(total)
        pooled[:n] = np.maximum(pooled[:n], h)
        _keep(record, convolution=h)
    return _second_layer(w, np.where(np.isinf(pooled), 0, pooled), batch, record)


def _second_layer(w: Weights, h: Array, batch: Packed, record: Record | None) -> Array:
    y = np.tanh(h @ w["layer2.weight"].T + w["layer2.bias"])
    y[batch.sizes[0] if batch.sizes else 0 :] = 0  # a text without words has no vector, whatever the biases say
    _keep(record, hidden=h, output=y)
    return y


_RunTower = Callable[[Tower, Weights, Array, Packed, Record | None], Array]
_TOWERS: dict[str, _RunTower] = {"rnn": _rnn, "lstm": _lstm, "dssm": _dssm, "clsm": _clsm}


def _in_order(
    run_tower: _RunTower, tower: Tower, w: Weights, table: Array, batch: Packed, record: Record | None
) -> Array:
    """Run the tower, and put the vectors back in the order of the texts."""
    packed = run_tower(tower, w, table, batch, record)
    vectors = np.empty_like(packed)
    vectors[batch.order] = packed
    return vectors


def _zeros(batch: Packed, width: int, like: Array) -> Array:
    return np.zeros((len(batch.order), width), like.dtype)


def _keep(record: Record | None, **activations: Array) -> None:
    if record is not None:
        for name, value in activations.items():
            record.setdefault(name, []).append(value)
