"""`recurrence.c` and `gather.c`, if they were compiled at installation and the processor can run them.

They handle float32, rows and cells that fill whole registers, and LSTM-RNNs without peepholes and pooling; torch does
the rest. The environment variable CLICKVEC_COMPILED chooses the path: see clickvec/native/loader.py.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from clickvec.native import loader
from clickvec.text.ragged import Ragged

PIECES, PIECE = 32, 32  # the maximum number of pieces that threads share, and the minimum number of texts in one
PARTS = 2**22  # the maximum size of the gradients of the recurrent weights, of which each piece has one
_POINTER, _INT, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float
_NET = (_INT, _INT, _POINTER, _LONG, _POINTER)
_COSINES = (_POINTER, _LONG, _POINTER, _LONG, _INT, _POINTER, _LONG, _POINTER, _POINTER, _POINTER)
_FUNCTIONS: dict[str, dict[str, tuple[type, ...]]] = {
    "recurrence": {
        "read_texts": (*_NET, _POINTER, _LONG, *(_POINTER,) * 7, _LONG, _POINTER, _INT),
        "back_texts": (*_NET, *(_POINTER,) * 6, _LONG, _POINTER, _INT),
    },
    "gather": {
        "sum_bags": (_POINTER, _INT, _POINTER, _POINTER, _LONG, _POINTER, _INT),
        "find_uses": (_POINTER, _LONG, _POINTER, _LONG, _LONG, _POINTER, _POINTER),
        "look_ahead": (_POINTER, _POINTER, _INT, _POINTER, _POINTER, _LONG, _POINTER, _INT),
        "step": (_POINTER, _POINTER, _INT, *(_POINTER,) * 4, _FLOAT, _LONG, _INT),
        "mark_rows": (_POINTER, _LONG, _POINTER),
        "number_rows": (_POINTER, _LONG, _POINTER),
        "find_places": (_POINTER, _LONG, _POINTER, _POINTER),
        "pack_texts": (_POINTER, _POINTER, _LONG, _LONG, *(_POINTER,) * 4),
        "number_values": (_POINTER, _LONG, _POINTER, _INT, _POINTER, _POINTER),
        "find_starts": (_POINTER, _POINTER, _LONG, _POINTER),
        "take_rows": (_POINTER, _POINTER, _POINTER, _LONG, _POINTER, _POINTER),
        "cosines": _COSINES,
        "cosines_back": (*_COSINES, *(_POINTER,) * 4),
    },
}
Argument = Tensor | NDArray[Any] | float | None


class Kernel(NamedTuple):
    """The compiled functions for one kind of processor."""

    processor: str
    lanes: int  # floats in a register
    sums: int  # registers for sums: texts processed together, times gates
    functions: dict[str, Callable[..., int]]

    def takes(self, *matrices: Tensor) -> bool:
        """Return whether the compiled code can use these matrices."""
        return all(
            matrix.dtype == torch.float32 and matrix.device.type == "cpu" and matrix.shape[1] % self.lanes == 0
            for matrix in matrices
        )

    def call(self, name: str, *arguments: Argument) -> int:
        """Call a function with numbers and the addresses of contiguous arrays."""
        return self.functions[name](*map(_as_number, arguments))

    def share(self, name: str, *arguments: Argument) -> None:
        """Call a function that uses as many threads as torch."""
        self.call(name, *arguments, torch.get_num_threads())

    def piece(self, texts: int, gates: int, cells: int) -> int:
        """Return how many texts a thread takes at once: pieces of equal size, in whole groups of texts."""
        most = min(PIECES, max(4, PARTS // (gates * cells**2)))
        pieces, side_by_side = max(1, min(most, texts // PIECE)), self.sums // gates
        return side_by_side * -(-texts // (pieces * side_by_side))

    def sum_bags(self, matrix: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
        """Return the sum of rows of a matrix for each bag: bag b has the ids from `starts[b]` to `starts[b + 1]`."""
        out = matrix.new_empty(len(starts) - 1, matrix.shape[1])
        self.share("sum_bags", matrix, matrix.shape[1], ids, starts, len(out), out)
        return out

    def uses(self, ids: Tensor, kinds: int, bags: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return where each id is used, as bags: the positions in `ids`, or the bags that hold them."""
        starts, found = ids.new_empty(kinds + 1), torch.empty_like(ids)
        self.call("find_uses", ids, len(ids), bags, 0 if bags is None else len(bags) - 1, kinds, starts, found)
        return found, starts

    def look_ahead(self, matrix: Tensor, change: Tensor, rows: Tensor, moved: Tensor) -> Tensor:
        """Return rows of Λ + S ΔΛ, where S is `moved`."""
        near = matrix.new_empty(len(rows), matrix.shape[1])
        self.share("look_ahead", matrix, change, matrix.shape[1], rows, moved, len(rows), near)
        return near

    def step(
        self, matrix: Tensor, change: Tensor, rows: Tensor, decayed: Tensor, near: Tensor, gradient: Tensor, size: float
    ) -> None:
        """Write rows of Λ and ΔΛ after an update; `near` is the row that looks ahead, P is `decayed`."""
        self.share("step", matrix, change, matrix.shape[1], rows, decayed, near, gradient, size, len(rows))

    def touched(self, batches: Sequence[Tensor], rows: int) -> tuple[Tensor, list[Tensor]]:
        """Return the rows that batches of ids use, in order, and the batches with ids numbered among these."""
        marks, found = torch.zeros(rows, dtype=torch.int32), torch.empty(rows, dtype=torch.int64)
        for ids in batches:
            self.call("mark_rows", ids, len(ids), marks)
        used = self.call("number_rows", marks, rows, found)
        places = [torch.empty_like(ids) for ids in batches]
        for ids, place in zip(batches, places, strict=True):
            self.call("find_places", ids, len(ids), marks, place)
        return found[:used], places

    def distinct(self, values: NDArray[np.int32]) -> tuple[Tensor, Tensor]:
        """Return the distinct values in order of appearance, and the index of each value among them."""
        bits = (2 * len(values) + 1).bit_length()
        found, numbers = (torch.empty(len(values), dtype=torch.int64) for _ in range(2))
        table = torch.full((2**bits, 2), -1, dtype=torch.int32)
        count = self.call("number_values", loader.ready(values, np.int32), len(values), table, bits, found, numbers)
        return found[:count], numbers

    def pack(self, values: Tensor, offsets: NDArray[np.int64]) -> tuple[Tensor, tuple[int, ...], Tensor, Tensor]:
        """`text.pack` in both directions: the order of the texts, the sizes, and the tokens there and back."""
        texts, longest = len(offsets) - 1, int(np.diff(offsets).max(initial=0))
        order, begin = (torch.empty(size, dtype=torch.int64) for size in (texts, longest + 2))
        there, back = (torch.empty_like(values) for _ in range(2))
        self.call("pack_texts", values, loader.ready(offsets, np.int64), texts, longest, order, begin, there, back)
        return order, tuple(torch.diff(begin[: longest + 1]).tolist()), there, back

    def take(self, table: Ragged, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values of rows, one row after the other, and where each row starts, and the end."""
        offsets, starts = loader.ready(table.offsets, np.int64), torch.empty(len(rows) + 1, dtype=torch.int64)
        self.call("find_starts", offsets, rows, len(rows), starts)
        out = torch.empty(int(starts[-1]), dtype=torch.int64)
        self.call("take_rows", loader.ready(table.values, np.int32), offsets, rows, len(rows), starts, out)
        return out, starts


def _as_number(argument: Argument) -> float | None:
    if isinstance(argument, Tensor):
        if not argument.is_contiguous():
            raise ValueError(f"compiled code needs a contiguous tensor, not one of strides {argument.stride()}")
        return argument.data_ptr()
    return argument.ctypes.data if isinstance(argument, np.ndarray) else argument


@cache
def kernel() -> Kernel | None:
    """Return the kernel that CLICKVEC_COMPILED chooses; None if torch is to compute everything."""
    return loader.choose(load, "training")


def load(processor: str) -> Kernel | None:
    """The one for this kind of processor; none where it was not compiled, of another source, or cannot run."""
    libraries = {name: loader.library(f"{name}.c", processor) for name in _FUNCTIONS}
    found = libraries["recurrence"]
    if found is None or None in libraries.values() or not found.recurrence_runs_here():
        return None
    functions = {}
    for library, names in _FUNCTIONS.items():
        for name, types in names.items():
            functions[name] = function = getattr(libraries[library], name)
            function.argtypes, function.restype = types, _LONG if name.startswith("number_") else None
    return Kernel(processor, found.recurrence_lanes(), found.recurrence_sums(), functions)


class CompiledBag(torch.autograd.Function):
    """`functional.embedding_bag`, compiled: the sum of rows of a matrix for each bag of ids."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, ids: Tensor, starts: Tensor, using: Kernel) -> Tensor:  # noqa: ANN401
        """Return one row for each bag."""
        ctx.save_for_backward(ids, starts)
        ctx.rows, ctx.using = len(matrix), using
        return using.sum_bags(matrix.contiguous(), ids, starts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        """Return the gradient of the matrix."""
        ids, starts = ctx.saved_tensors
        using: Kernel = ctx.using
        return using.sum_bags(gradient.contiguous(), *using.uses(ids, ctx.rows, starts)), None, None, None


class CompiledRecurrence(torch.autograd.Function):
    """`towers.read_texts`, compiled. The vectors are in the order of the texts."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        table: Tensor, tokens: Tensor, bias: Tensor, recurrent: Tensor, sizes: tuple[int, ...], order: Tensor,
        using: Kernel,
    ) -> Tensor:  # fmt: skip
        """Return the vectors. The table may be some columns of a larger one. A text without tokens gives zeros."""
        rows, cells = recurrent.shape
        begin = torch.tensor([*accumulate(sizes, initial=0)])
        table = table if table.stride(1) == 1 else table.contiguous()
        packed = recurrent.view(rows // cells, cells // using.lanes, using.lanes, cells).permute(1, 3, 0, 2)
        # The streaming stores of `read_texts` need addresses that torch gives every tensor: multiples of 64.
        gates, squashed = table.new_empty(len(tokens), rows), table.new_empty(len(tokens), cells)
        cell = table.new_empty(len(tokens), cells) if rows == 4 * cells else None
        vectors = table.new_zeros(len(order), cells)
        room = table.new_empty(torch.get_num_threads(), 3, using.sums // 3, cells)  # as many threads as have room
        using.call(
            "read_texts", rows // cells, cells, begin, len(sizes), order, table.data_ptr(), table.stride(0), tokens,
            bias, packed.contiguous(), gates, squashed, cell, vectors, using.piece(sizes[0], rows // cells, cells),
            room, len(room),
        )  # fmt: skip
        ctx.save_for_backward(tokens, recurrent, begin, order, gates, squashed, cell)
        ctx.distinct, ctx.using, ctx.is_done = len(table), using, False
        return vectors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Go back through time. This works once: the gradient overwrites the activations of the gates."""
        if ctx.is_done:
            raise RuntimeError("the gradient of a compiled recurrence can be taken only once")
        ctx.is_done = True
        tokens, recurrent, begin, order, d_sums, squashed, cell = ctx.saved_tensors
        using: Kernel = ctx.using
        (rows, cells), texts = recurrent.shape, int(begin[1])
        piece = using.piece(texts, rows // cells, cells)
        parts = recurrent.new_empty(-(-texts // piece), rows * (cells + 1))
        room = recurrent.new_empty(torch.get_num_threads(), 1 + len(begin), using.sums // 3, cells)
        using.call(
            "back_texts", rows // cells, cells, begin, len(begin) - 1, order, d_sums, squashed, cell,
            gradient.contiguous(), recurrent, parts, piece, room, len(room),
        )  # fmt: skip
        d_table, whole = using.sum_bags(d_sums, *using.uses(tokens, ctx.distinct)), parts.sum(dim=0)
        return d_table, None, whole[rows * cells :], whole[: rows * cells].view(rows, cells), None, None, None


class CompiledLosses(torch.autograd.Function):
    """`objective.losses` of queries and their candidates: the clicked title first, then its negatives."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        y_q: Tensor, y_d: Tensor, candidates: Tensor, counts: Tensor, gamma: float, using: Kernel,
    ) -> Tensor:  # fmt: skip
        """Return the loss of each pair: equations 3 to 5."""
        y_q, y_d = y_q.contiguous(), y_d.contiguous()
        over_q, over_d, R = (y_q.new_empty(shape) for shape in (len(y_q), len(y_d), candidates.shape))
        shared = (y_q, len(y_q), y_d, len(y_d), y_q.shape[1], candidates, candidates.shape[1], over_q, over_d, R)
        using.call("cosines", *shared)
        exponents = torch.zeros_like(R)
        exponents[:, 1:] = torch.where(counts, -gamma * (R[:, :1] - R[:, 1:]), -torch.inf)
        losses = torch.logsumexp(exponents, dim=1)
        # The softmax of the exponents is the slope of the loss in the cosine of each negative.
        slopes = gamma * torch.exp(exponents - losses[:, None])
        slopes[:, 0] = -slopes[:, 1:].sum(dim=1)
        ctx.save_for_backward(y_q, y_d, candidates, over_q, over_d, R, slopes)
        ctx.using = using
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradient of the vectors."""
        y_q, y_d, candidates, over_q, over_d, R, slopes = ctx.saved_tensors
        shared = (y_q, len(y_q), y_d, len(y_d), y_q.shape[1], candidates, candidates.shape[1], over_q, over_d, R)
        dy_q, dy_d, along = torch.zeros_like(y_q), torch.zeros_like(y_d), torch.zeros_like(over_d)
        ctx.using.call("cosines_back", *shared, slopes * gradient[:, None], along, dy_q, dy_d)
        return dy_q, dy_d, None, None, None, None
