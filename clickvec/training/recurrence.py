"""Equation 2 and its gradient, written by hand: the LSTM-RNN in few and large operations on the CPU.

`_readable_lstm` in `towers.py` is the version to read, and a test compares the two for every option. There autograd
records a dozen small nodes for each token. Here a token takes one product and a few in-place operations each way.

Arrays that hold all tokens are time-major, as in `packing.py`: token t is rows `begin[t]` to `begin[t] + sizes[t]`.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

Sizes = tuple[int, ...]


class Shape(NamedTuple):
    """The arguments that are not tensors."""

    sizes: Sizes
    pooling: str
    bptt_steps: int


class Bag(torch.autograd.Function):
    """The sum of rows of a matrix for each bag of ids, as `functional.embedding_bag`, with a faster gradient.

    The gradient is a sum over bags too: the bags that use each row, in order, so that the result is always the same.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, ids: Tensor, starts: Tensor) -> Tensor:  # noqa: ANN401
        """Return one row for each bag."""
        ctx.save_for_backward(ids, starts)
        ctx.rows = len(matrix)
        return functional.embedding_bag(ids, matrix, starts, mode="sum", include_last_offset=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        """Return the gradient of the matrix."""
        ids, starts = ctx.saved_tensors
        bag_of = torch.repeat_interleave(torch.arange(len(starts) - 1), torch.diff(starts))
        order = torch.argsort(ids, stable=True)
        uses = torch.bincount(ids, minlength=ctx.rows)
        begin = torch.cumsum(uses, 0) - uses
        return functional.embedding_bag(bag_of[order], gradient.contiguous(), begin, mode="sum"), None, None


class Recurrence(torch.autograd.Function):
    """The vectors of a batch, longest text first, from the table of W l(t) of its distinct tokens.

    The table has a column for each gate and cell, in the order of `forward.gates`; `bias` and `recurrent` alike, and
    `peepholes` are those of the input gate, the forget gate (None when it has no gate) and the output gate.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        table: Tensor, tokens: Tensor, bias: Tensor, recurrent: Tensor, shape: Shape,
        peep_input: Tensor | None, peep_forget: Tensor | None, peep_output: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """Process each token in place: `gates` first holds the sums, then the activations."""
        sizes, cells = shape.sizes, recurrent.shape[1]
        begin = _begins(sizes)
        # tanh(x) = 2 σ(2x) - 1, and torch's σ takes a quarter of the time of its tanh.
        doubled, weights = table + bias, recurrent.T.contiguous()
        doubled[:, :cells] *= 2
        weights[:, :cells] *= 2
        gates = table.new_empty(len(tokens), table.shape[1])
        cell, squashed, output = (table.new_empty(len(tokens), cells) for _ in range(3))
        vectors = table.new_zeros(sizes[0] if sizes else 0, cells)
        pooled = table.new_empty(len(tokens) if shape.pooling == "max" else 0, cells)  # before each token
        has_forget = recurrent.shape[0] == 4 * cells
        for t, n in enumerate(sizes):
            now = begin[t]
            a, c, y = gates.narrow(0, now, n), cell.narrow(0, now, n), output.narrow(0, now, n)
            torch.index_select(doubled, 0, tokens.narrow(0, now, n), out=a)
            y_g, i, f, o = _split(a, cells, has_forget)
            if t:
                before = begin[t - 1]
                c_before = cell.narrow(0, before, n)
                a.addmm_(output.narrow(0, before, n), weights)
                if peep_input is not None:
                    i.addmm_(c_before, peep_input.T)
                if peep_forget is not None and f is not None:
                    f.addmm_(c_before, peep_forget.T)
            (a if peep_output is None else a[:, :-cells]).sigmoid_()
            _from_sigmoid_(y_g)
            if t and f is None:
                torch.addcmul(c_before, i, y_g, out=c)
            else:
                torch.mul(i, y_g, out=c)
            if t and f is not None:
                c.addcmul_(f, c_before)
            if peep_output is not None:
                o.addmm_(c, peep_output.T).sigmoid_()
            tanh_c = torch.mul(c, 2, out=squashed.narrow(0, now, n)).sigmoid_()
            torch.mul(o, _from_sigmoid_(tanh_c), out=y)
            _pool(shape.pooling, vectors[:n], y, t, continuing(sizes, t), pooled[now : now + n])
        ctx.save_for_backward(
            tokens, recurrent, gates, cell, squashed, output, peep_input, peep_forget, peep_output, pooled
        )
        ctx.shape, ctx.distinct = shape, len(table)
        return vectors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Go back through time. `d_sums` is the gradient of the sums, before the activation functions of the gates."""
        tokens, recurrent, gates, cell, squashed, output, peep_input, peep_forget, peep_output, pooled = (
            ctx.saved_tensors
        )
        shape: Shape = ctx.shape
        sizes, cells = shape.sizes, recurrent.shape[1]
        begin, has_forget = _begins(sizes), recurrent.shape[0] == 4 * cells
        d_table, d_recurrent = gates.new_zeros(ctx.distinct, gates.shape[1]), torch.zeros_like(recurrent)
        d_input, d_forget, d_output = (
            None if peep is None else torch.zeros_like(peep) for peep in (peep_input, peep_forget, peep_output)
        )
        d_pooled = gradient.clone()
        d_y, d_c, scratch = (torch.zeros_like(gradient) for _ in range(3))
        d_a = gates.new_empty(len(gradient), gates.shape[1])
        for t in reversed(range(len(sizes))):
            n, now = sizes[t], begin[t]
            a, tanh_c = gates.narrow(0, now, n), squashed.narrow(0, now, n)
            d_sums, dy, dc, product, mine = (whole[:n] for whole in (d_a, d_y, d_c, scratch, d_pooled))
            _cut(shape, t, dy, dc, mine)
            _unpool(shape.pooling, dy, mine, t, continuing(sizes, t), output.narrow(0, now, n), pooled[now : now + n])
            y_g, i, f, o = _split(a, cells, has_forget)
            da_g, da_i, da_f, da_o = _split(d_sums, cells, has_forget)
            _times_sigmoid(torch.mul(dy, tanh_c, out=product), o, da_o)
            _times_tanh(torch.mul(dy, o, out=product), tanh_c, product)
            dc.add_(product)
            if peep_output is not None and d_output is not None:
                dc.addmm_(da_o, peep_output)
                d_output.addmm_(da_o.T, cell.narrow(0, now, n))
            _times_sigmoid(torch.mul(dc, y_g, out=product), i, da_i)
            _times_tanh(torch.mul(dc, i, out=product), y_g, da_g)
            if t == 0 and da_f is not None:
                da_f.zero_()  # nothing is forgotten before the first token
            if t:
                before = begin[t - 1]
                c_before = cell.narrow(0, before, n)
                if f is not None and da_f is not None:
                    _times_sigmoid(torch.mul(dc, c_before, out=product), f, da_f)
                    dc.mul_(f)
                if peep_input is not None and d_input is not None:
                    dc.addmm_(da_i, peep_input)
                    d_input.addmm_(da_i.T, c_before)
                if peep_forget is not None and d_forget is not None and da_f is not None:
                    dc.addmm_(da_f, peep_forget)
                    d_forget.addmm_(da_f.T, c_before)
                d_recurrent.addmm_(d_sums.T, output.narrow(0, before, n))
                torch.mm(d_sums, recurrent, out=dy)
            d_table.index_add_(0, tokens.narrow(0, now, n), d_sums)
        return d_table, None, d_table.sum(dim=0), d_recurrent, None, d_input, d_forget, d_output


def _begins(sizes: Sizes) -> list[int]:
    return list(accumulate(sizes, initial=0))


def _split(a: Tensor, cells: int, has_forget: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Return the columns of the cell input, the input gate, the forget gate (or None) and the output gate."""
    first, second, *others = torch.split(a, cells, dim=1)
    return first, second, others[0] if has_forget else None, others[-1]


def _from_sigmoid_(x: Tensor) -> Tensor:
    """Compute 2 x - 1 in place."""
    return torch.add(x.new_tensor(-1.0), x, alpha=2, out=x)


def _times_sigmoid(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    """Write gradient σ', where `value` is σ."""
    torch.ops.aten.sigmoid_backward.grad_input(gradient, value, grad_input=out)


def _times_tanh(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    """Write gradient tanh', where `value` is tanh."""
    torch.ops.aten.tanh_backward.grad_input(gradient, value, grad_input=out)


def continuing(sizes: Sizes, t: int) -> int:
    """Return how many texts continue after token t; the others end there."""
    return sizes[t + 1] if t + 1 < len(sizes) else 0


def _pool(pooling: str, vectors: Tensor, y: Tensor, t: int, on: int, pooled: Tensor) -> None:
    """Pool y(t) into the vectors. The first `on` texts continue after token t; the vectors of the others are final."""
    if pooling == "last":
        vectors[on:] = y[on:]
    elif t == 0:
        vectors.copy_(y)
    elif pooling == "mean":
        vectors.lerp_(y, 1 / (t + 1))
    else:
        pooled.copy_(vectors)
        torch.maximum(vectors, y, out=vectors)


def _unpool(pooling: str, dy: Tensor, mine: Tensor, t: int, on: int, y: Tensor, pooled: Tensor) -> None:
    """Add the share of y(t) in the gradient of the vectors to `dy`, and leave the rest to the tokens before.

    The first `on` texts continue after token t and have a gradient in `dy` already.
    """
    if pooling == "last":
        dy[on:] = mine[on:]
        return
    dy[on:] = 0
    if pooling == "mean" or t == 0:
        dy.add_(mine, alpha=1 / (t + 1))
        mine.mul_(t / (t + 1))
    else:
        share = (y > pooled).to(y.dtype).add_(y == pooled, alpha=0.5)  # as in autograd: equal values share the gradient
        dy.addcmul_(mine, share)
        mine.mul_(1 - share)


def _cut(shape: Shape, t: int, *gradients: Tensor) -> None:
    """Stop the gradient at token t for texts that continue for `bptt_steps` tokens or more after it."""
    if shape.bptt_steps and t + shape.bptt_steps < len(shape.sizes):
        for gradient in gradients:
            gradient[: shape.sizes[t + shape.bptt_steps]] = 0
