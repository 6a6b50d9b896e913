"""One tower on queries or on titles, forward and backward, by the kernels."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.model import forward
from clickvec.training import scratch
from clickvec.training.gpu import kernels
from clickvec.training.towers import TorchTower

BLOCK, WARPS = 16, 4  # texts of one program, and its warps
FEW, COLUMNS = 8, 128  # trigrams, and columns of their rows, that one program loads at once


def send(numbers: NDArray[np.integer], device: torch.device) -> Tensor:
    """Copy integers of the data to the device as int32, in blocks, to save memory."""
    sent = torch.empty(len(numbers), dtype=torch.int32, device=device)
    for block in scratch.blocks(len(numbers)):
        sent[block] = torch.from_numpy(numbers[block].astype(np.int32)).to(device)
    return sent


class TokenTrigrams(NamedTuple):
    """The trigrams of every distinct token, on the device."""

    begin: Tensor
    trigrams: Tensor


class Texts(NamedTuple):
    """As many texts as a minibatch may have: the tokens of text r are `length[r]` tokens from `begin[r]` on."""

    tokens: Tensor
    begin: Tensor
    length: Tensor
    words: int  # at most


class Packed:
    """The small weights of a tower side by side, as the kernels read them, and a gradient for each.

    The gradients of the tower's own tensors are views of these.
    """

    def __init__(self, tower: TorchTower) -> None:
        self.tower, self.cells = tower, tower.tower.cells
        self.ways = ("forward.", "backward.") if tower.tower.kind == "bilstm" else ("",)
        self.gates = forward.gates(tower.tower)
        self.width = len(self.gates) * self.cells
        device = tower.weights["input"].device
        self.recurrent, self.d_recurrent = (
            torch.zeros(len(self.ways), self.width, self.cells, device=device) for _ in range(2)
        )
        self.transposed = torch.zeros(len(self.ways), self.cells, self.width, device=device)
        self.bias, self.d_bias = (torch.zeros(len(self.ways), self.width, device=device) for _ in range(2))
        self._own = [(way, gate) for way in self.ways for gate in self.gates]
        self._recurrent_parts = [tower.weights[f"{way}{gate}.recurrent"].detach() for way, gate in self._own]
        self._bias_parts = [tower.weights[f"{way}{gate}.bias"].detach() for way, gate in self._own]

    def pack(self) -> None:
        """Copy the present weights, and set the gradients to 0."""
        torch.cat(self._recurrent_parts, out=self.recurrent.view(-1, self.cells))
        torch.cat(self._bias_parts, out=self.bias.view(-1))
        self.transposed.copy_(self.recurrent.transpose(1, 2))
        self.d_recurrent.zero_()
        self.d_bias.zero_()

    def give_gradients(self) -> None:
        """Make the gradients of the tower's tensors views of these."""
        recurrent = self.d_recurrent.view(len(self._own), self.cells, self.cells)
        bias = self.d_bias.view(len(self._own), self.cells)
        for (way, gate), d_recurrent, d_bias in zip(self._own, recurrent, bias, strict=True):
            self.tower.weights[f"{way}{gate}.recurrent"].grad = d_recurrent
            self.tower.weights[f"{way}{gate}.bias"].grad = d_bias


class Reader:
    """A tower that reads texts: what it keeps of each token, and the vectors."""

    def __init__(self, packed: Packed, texts: Texts, token_trigrams: TokenTrigrams) -> None:
        self.packed, self.texts, self.token_trigrams = packed, texts, token_trigrams
        self.rows = len(texts.begin)
        self._part = 32 if packed.cells % 32 == 0 else 16
        ways, cells, device = len(packed.ways), packed.cells, texts.begin.device
        self.gates = torch.zeros(texts.words, self.rows, ways * packed.width, device=device)
        self.cell, self.output = (torch.zeros(texts.words, self.rows, ways * cells, device=device) for _ in range(2))
        self._ones = torch.ones(texts.words * self.rows, device=device)
        self.vectors, self._d_output, self._d_cell = (
            torch.zeros(self.rows, ways * cells, device=device) for _ in range(3)
        )

    def _bag_grid(self) -> tuple[int, int, int]:
        return self.rows, self.texts.words, -(-self.gates.shape[2] // COLUMNS)

    def read(self, matrix: Tensor) -> Tensor:
        """Return the vectors of the texts."""
        texts, packed = self.texts, self.packed
        kernels.sum_bags[self._bag_grid()](
            self.gates, matrix, packed.bias, texts.tokens, texts.begin, texts.length, *self.token_trigrams, self.rows,
            WIDTH=self.gates.shape[2], COLUMNS=COLUMNS, FEW=FEW, num_warps=1,
        )  # fmt: skip
        for way in range(len(packed.ways)):
            gates, cell, output, vectors = self._of(way, self.gates, self.cell, self.output, self.vectors)
            kernels.run_forward[(-(-self.rows // BLOCK),)](
                gates, packed.transposed[way], cell, output, vectors, texts.length, self.rows, texts.words,
                self.gates.shape[2], self.cell.shape[2], **self._constants(way),
            )  # fmt: skip
        return self.vectors

    def go_back(self, d_vectors: Tensor, d_matrix: Tensor) -> None:
        """Add to the gradients of all weights, from the gradient of the vectors."""
        texts, packed = self.texts, self.packed
        d_vectors = d_vectors.contiguous()
        for way in range(len(packed.ways)):
            gates, cell, output, given, d_output, d_cell = self._of(
                way, self.gates, self.cell, self.output, d_vectors, self._d_output, self._d_cell
            )
            kernels.run_backward[(-(-self.rows // BLOCK),)](
                gates, packed.recurrent[way], cell, given, d_output, d_cell, texts.length, self.rows, texts.words,
                self.gates.shape[2], self.cell.shape[2], **self._constants(way),
            )  # fmt: skip
            d_sums, before = (gates[1:], output[:-1]) if way == 0 else (gates[:-1], output[1:])
            d_sums = d_sums.reshape(-1, packed.width)
            packed.d_recurrent[way].addmm_(d_sums.T, before.reshape(-1, packed.cells))
            packed.d_bias[way].addmv_(gates.reshape(-1, packed.width).T, self._ones)  # a sum, in half the time
        kernels.spread_bags[self._bag_grid()](
            self.gates, d_matrix, texts.tokens, texts.begin, texts.length, *self.token_trigrams, self.rows,
            WIDTH=self.gates.shape[2], COLUMNS=COLUMNS, FEW=FEW, num_warps=1,
        )  # fmt: skip

    def _of(self, way: int, gates: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """Return the columns of one direction."""
        width, cells = self.packed.width, self.packed.cells
        return (
            gates[..., way * width : (way + 1) * width],
            *(one[..., way * cells : (way + 1) * cells] for one in others),
        )

    def _constants(self, way: int) -> dict[str, object]:
        return {
            "CELLS": self.packed.cells, "GATES": len(self.packed.gates), "BLOCK": BLOCK, "PART": self._part,
            "BACKWARDS": way == 1, "num_warps": WARPS,
            "num_stages": 1,  # pipelining would read ahead of what is written
        }  # fmt: skip
