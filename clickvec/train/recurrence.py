"""Equation 2 and its gradient by hand: what `TorchTower._lstm` computes, in few and large operations on the CPU.

`towers.py` has the readable version, and a test binds the two for every option. There autograd keeps a dozen small
nodes for each step; here a step is one product and a few operations in place, forward and backward.

Arrays that hold all steps are time-major, as in `text.Packed`: step t is rows `begin[t]` to `begin[t] + sizes[t]`.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from clickvec.train import crew

Sizes = tuple[int, ...]
AT_ONCE = 512  # bags, so that their sums are still in the cache when they are copied


class Shape(NamedTuple):
    """What is not a tensor."""

    sizes: Sizes
    pooling: str
    bptt_steps: int


class Bag(torch.autograd.Function):
    """The sum of rows of a matrix for each bag of ids, as `functional.embedding_bag`, with a faster gradient.

    Its gradient is a sum of bags again: of the places where each row was used, in order, so that it is always the same.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, ids: Tensor, starts: Tensor) -> Tensor:  # noqa: ANN401
        """One row for each bag."""
        ctx.save_for_backward(ids, starts)
        ctx.rows = len(matrix)
        return _sum_bags(matrix, ids, starts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        """The gradient of the matrix."""
        ids, starts = ctx.saved_tensors
        lengths = np.diff(starts.numpy(), append=len(ids))
        bag_of, (order, begin) = np.repeat(np.arange(len(starts)), lengths), _uses(ids, ctx.rows)
        return _sum_bags(gradient.contiguous(), torch.from_numpy(bag_of[order.numpy()]), begin), None, None


class Weights(NamedTuple):
    """Biases and recurrent weights of all gates, in the order of `forward.gates`; peepholes are None where absent."""

    bias: Tensor
    recurrent: Tensor
    peep_input: Tensor | None
    peep_forget: Tensor | None
    peep_output: Tensor | None

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self.recurrent.shape[1]

    @property
    def has_forget(self) -> bool:
        """Whether there is a forget gate."""
        return len(self.recurrent) == 4 * self.cells


class Kept(NamedTuple):
    """What the gradient needs of every step."""

    gates: Tensor  # first the sums, then the activations
    cell: Tensor  # c(t); where the gradient does not need it, that of the last step alone
    squashed: Tensor  # tanh c(t)
    output: Tensor  # y(t)
    pooled: Tensor  # for max pooling, what was pooled before the step


class Recurrence(torch.autograd.Function):
    """The embeddings of a batch, longest text first, from the table of W l(t) of its distinct steps.

    The table has a column for each gate and cell, in the order of `forward.gates`; `bias` and `recurrent` alike, and
    `peepholes` are those of the input gate, the forget gate (None when it has no gate) and the output gate.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        table: Tensor, steps: Tensor, bias: Tensor, recurrent: Tensor, shape: Shape,
        peep_input: Tensor | None, peep_forget: Tensor | None, peep_output: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """The vectors."""
        w = Weights(bias, recurrent, peep_input, peep_forget, peep_output)
        rows, texts = len(steps), shape.sizes[0] if shape.sizes else 0
        plain = not w.has_forget and peep_input is None and peep_output is None
        widths = {"gates": len(recurrent), "cell": w.cells, "squashed": w.cells, "output": w.cells, "pooled": w.cells}
        lengths = {"cell": texts if plain else rows, "pooled": rows if shape.pooling == "max" else 0}
        kept = Kept(*(table.new_empty(lengths.get(name, rows), width) for name, width in widths.items()))
        vectors = table.new_zeros(texts, w.cells)
        crew.each(lambda texts: _read(texts, table, steps, w, shape, kept, vectors), _parts(shape.sizes))
        ctx.save_for_backward(steps, *w, *kept)
        ctx.shape, ctx.distinct = shape, len(table)
        return vectors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Back through time; `d_sums` is the gradient of the sums, before the gates squash them."""
        steps, saved = ctx.saved_tensors[0], ctx.saved_tensors[1:]
        w, kept, shape = Weights(*saved[:5]), Kept(*saved[5:]), ctx.shape
        d_sums = torch.empty_like(kept.gates)
        found = crew.each(lambda texts: _read_back(texts, w, shape, kept, gradient, d_sums), _parts(shape.sizes))
        d_recurrent, d_input, d_forget, d_output = (_total(parts) for parts in zip(*found, strict=True))
        d_table = _sum_bags(d_sums, *_uses(steps, ctx.distinct))
        d_bias = _total(crew.each(lambda rows: d_table[slice(*rows)].sum(dim=0), crew.shares(range(len(d_table) + 1))))
        return d_table, None, d_bias, d_recurrent, None, d_input, d_forget, d_output


class Step(NamedTuple):
    """A step of some of the texts."""

    t: int
    now: int  # its first row
    before: int  # that of the step before
    n: int  # how many texts there are
    on: int  # how many of them go on


def _parts(sizes: Sizes) -> list[crew.Part]:
    """Texts for each thread, with as many steps in all."""
    return crew.shares(np.minimum(np.arange(1 + max(sizes, default=0))[:, None], np.array(sizes, np.int64)).sum(axis=1))


def _walk(sizes: Sizes, texts: crew.Part) -> list[Step]:
    """The steps that these texts have."""
    here = [max(0, min(size, texts.high) - texts.low) for size in (*sizes, 0)]
    begin = [before + texts.low for before in accumulate(sizes, initial=0)]
    return [Step(t, begin[t], begin[max(t - 1, 0)], here[t], here[t + 1]) for t in range(len(sizes)) if here[t]]


def _read(
    texts: crew.Part, table: Tensor, steps: Tensor, w: Weights, shape: Shape, kept: Kept, vectors: Tensor
) -> None:
    """Equation 2 for some of the texts, in place."""
    recurrent, cells, every_cell = w.recurrent.T, w.cells, len(kept.cell) == len(steps)
    for t, now, before, n, on in _walk(shape.sizes, texts):
        a, y = kept.gates.narrow(0, now, n), kept.output.narrow(0, now, n)
        c = kept.cell.narrow(0, now if every_cell else texts.low, n)
        c_before = kept.cell.narrow(0, before if every_cell else texts.low, n)
        torch.index_select(table, 0, steps.narrow(0, now, n), out=a)
        a.add_(w.bias)
        y_g, i, f, o = _split(a, cells, w.has_forget)
        if t:
            a.addmm_(kept.output.narrow(0, before, n), recurrent)
            if w.peep_input is not None:
                i.addmm_(c_before, w.peep_input.T)
            if w.peep_forget is not None and f is not None:
                f.addmm_(c_before, w.peep_forget.T)
        y_g.mul_(2)  # tanh(x) = 2 σ(2x) - 1, and torch's σ takes a quarter of the time of its tanh
        (a if w.peep_output is None else a[:, :-cells]).sigmoid_()
        _from_sigmoid_(y_g)
        if t and f is None:
            torch.addcmul(c_before, i, y_g, out=c)
        else:
            torch.mul(i, y_g, out=c)
        if t and f is not None:
            c.addcmul_(f, c_before)
        if w.peep_output is not None:
            o.addmm_(c, w.peep_output.T).sigmoid_()
        tanh_c = torch.mul(c, 2, out=kept.squashed.narrow(0, now, n)).sigmoid_()
        torch.mul(o, _from_sigmoid_(tanh_c), out=y)
        _pool(shape.pooling, vectors.narrow(0, texts.low, n), y, t, on, kept.pooled[now : now + n])


def _read_back(
    texts: crew.Part, w: Weights, shape: Shape, kept: Kept, gradient: Tensor, d_sums: Tensor
) -> tuple[Tensor | None, ...]:
    """Fill `d_sums` for some of the texts; the gradients of the recurrent weights and of the peepholes."""
    d_recurrent = torch.zeros_like(w.recurrent)
    d_input, d_forget, d_output = (None if peep is None else torch.zeros_like(peep) for peep in w[2:])
    d_pooled = gradient[texts.low : texts.high].clone()
    d_y, d_c, scratch = (torch.zeros_like(d_pooled) for _ in range(3))
    for t, now, before, n, on in reversed(_walk(shape.sizes, texts)):
        a, d_a, tanh_c = (whole.narrow(0, now, n) for whole in (kept.gates, d_sums, kept.squashed))
        dy, dc, product, mine = (whole.narrow(0, 0, n) for whole in (d_y, d_c, scratch, d_pooled))
        _cut(shape, t, texts.low, dy, dc, mine)
        _unpool(shape.pooling, dy, mine, t, on, kept.output.narrow(0, now, n), kept.pooled[now : now + n])
        y_g, i, f, o = _split(a, w.cells, w.has_forget)
        da_g, da_i, da_f, da_o = _split(d_a, w.cells, w.has_forget)
        _times_sigmoid(torch.mul(dy, tanh_c, out=product), o, da_o)
        _times_tanh(torch.mul(dy, o, out=product), tanh_c, product)
        dc.add_(product)
        if w.peep_output is not None and d_output is not None:
            dc.addmm_(da_o, w.peep_output)
            d_output.addmm_(da_o.T, kept.cell.narrow(0, now, n))
        _times_sigmoid(torch.mul(dc, y_g, out=product), i, da_i)
        _times_tanh(torch.mul(dc, i, out=product), y_g, da_g)
        if t == 0:
            if da_f is not None:
                da_f.zero_()  # there is nothing to forget before the first word
            break
        if f is not None and da_f is not None:
            _times_sigmoid(torch.mul(dc, kept.cell.narrow(0, before, n), out=product), f, da_f)
            dc.mul_(f)
        if w.peep_input is not None and d_input is not None:
            dc.addmm_(da_i, w.peep_input)
            d_input.addmm_(da_i.T, kept.cell.narrow(0, before, n))
        if w.peep_forget is not None and d_forget is not None and da_f is not None:
            dc.addmm_(da_f, w.peep_forget)
            d_forget.addmm_(da_f.T, kept.cell.narrow(0, before, n))
        d_recurrent.addmm_(d_a.T, kept.output.narrow(0, before, n))
        torch.mm(d_a, w.recurrent, out=dy)
    return d_recurrent, d_input, d_forget, d_output


def _total(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of what the threads have found."""
    first, *others = parts
    for other in others:
        if first is not None and other is not None:
            first += other
    return first


def _uses(places: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Where each of `count` numbers occurs: all places in the order of the numbers, and where those of each begin."""
    numbers = places.numpy()
    if count <= 2**16:
        numbers = numbers.astype(np.uint16)  # these NumPy sorts by their digits
    times = np.bincount(numbers, minlength=count)
    return torch.from_numpy(np.argsort(numbers, kind="stable")), torch.from_numpy(np.cumsum(times) - times)


def _sum_bags(matrix: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
    """The sum of rows for each bag of ids."""
    if crew.size() == 1:
        return functional.embedding_bag(ids, matrix, starts, mode="sum")
    begin = [*starts.tolist(), len(ids)]
    sums = matrix.new_empty(len(starts), matrix.shape[1])

    def fill(bags: crew.Part) -> None:
        for low in range(bags.low, bags.high, AT_ONCE):
            high = min(low + AT_ONCE, bags.high)
            first = begin[low]
            sums[low:high] = functional.embedding_bag(
                ids[first : begin[high]], matrix, starts[low:high] - first, mode="sum"
            )

    crew.each(fill, crew.shares(begin))
    return sums


def _split(a: Tensor, cells: int, has_forget: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """The columns of the cell input, the input gate, the forget gate if there is one, and the output gate."""
    first, second, *others = torch.split(a, cells, dim=1)
    return first, second, others[0] if has_forget else None, others[-1]


def _from_sigmoid_(x: Tensor) -> Tensor:
    """2 x - 1, in place."""
    return torch.add(x.new_tensor(-1.0), x, alpha=2, out=x)


def _times_sigmoid(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    """gradient σ' where `value` is σ."""
    torch.ops.aten.sigmoid_backward.grad_input(gradient, value, grad_input=out)


def _times_tanh(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    """gradient tanh' where `value` is tanh."""
    torch.ops.aten.tanh_backward.grad_input(gradient, value, grad_input=out)


def _pool(pooling: str, vectors: Tensor, y: Tensor, t: int, on: int, pooled: Tensor) -> None:
    """Take y(t) into the vectors; the first `on` texts go on after step t, the others keep what they have then."""
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
    """Give y(t) its share of the gradient of the vectors, and leave the rest to the steps before.

    The first `on` texts go on after step t, and have a gradient in `dy` already.
    """
    if pooling == "last":
        dy[on:] = mine[on:]
        return
    dy[on:] = 0
    if pooling == "mean" or t == 0:
        dy.add_(mine, alpha=1 / (t + 1))
        mine.mul_(t / (t + 1))
    else:
        share = (y > pooled).to(y.dtype).add_(y == pooled, alpha=0.5)  # as autograd: equals share
        dy.addcmul_(mine, share)
        mine.mul_(1 - share)


def _cut(shape: Shape, t: int, first: int, *gradients: Tensor) -> None:
    """Let no gradient pass to step t from texts that go on for `bptt_steps` steps or more after it.

    The gradients are those of the texts from `first` on.
    """
    if shape.bptt_steps and t + shape.bptt_steps < len(shape.sizes):
        for gradient in gradients:
            gradient[: max(0, shape.sizes[t + shape.bptt_steps] - first)] = 0
