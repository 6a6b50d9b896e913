"""`rows.Lazy` on the device: rows of the input matrix that a minibatch does not touch are brought up to date later."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clickvec.training.gpu import kernels
from clickvec.training.gpu.gpu_tower import COLUMNS, FEW, Texts, TokenTrigrams
from clickvec.training.optimizers import Decay


class Waiting:
    """Equation 6 for an input matrix, row by row; the arrays and their meaning are those of `rows.Lazy`."""

    def __init__(self, matrix: Tensor, momenta: Sequence[float]) -> None:
        self.matrix, device = matrix.detach(), matrix.device
        self.change, self.gradient = torch.zeros_like(self.matrix), torch.zeros_like(self.matrix)
        self.since = torch.zeros(len(matrix), dtype=torch.int64, device=device)
        self._touched = torch.full((len(matrix),), -1, dtype=torch.int32, device=device)  # by which update, at last
        decay = Decay(momenta)
        self._decay = [torch.from_numpy(part).to(device) for part in (decay.logs, decay.zeros, decay.totals)]

    def look_ahead(self, now: Tensor, texts: Texts, token_trigrams: TokenTrigrams) -> None:
        """Bring the rows that the texts touch to Λ + μ ΔΛ; `now` is the number of this update, from 1."""
        kernels.mark_rows[(len(texts.begin),)](
            self._touched, now, texts.tokens, texts.begin, texts.length, *token_trigrams, FEW=FEW, num_warps=1
        )
        self._catch_up(now, everything=False)

    def update(self, now: Tensor, learning_rate: Tensor) -> None:
        """Move along the gradient with this learning rate, and set the gradient to 0."""
        kernels.step_rows[(len(self.matrix),)](
            self.matrix, self.change, self.gradient, self._touched, now, learning_rate, WIDTH=self.matrix.shape[1],
            COLUMNS=COLUMNS, num_warps=1,
        )  # fmt: skip

    def settle(self, updates: int) -> None:
        """Bring every row to its value after this many updates."""
        now = torch.tensor([updates], dtype=torch.int32, device=self.matrix.device)
        self._catch_up(now, everything=True)

    def _catch_up(self, now: Tensor, *, everything: bool) -> None:
        kernels.catch_up[(len(self.matrix),)](
            self.matrix, self.change, self.since, self._touched, now, *self._decay, ALL=everything,
            WIDTH=self.matrix.shape[1], COLUMNS=COLUMNS, num_warps=1,
        )  # fmt: skip

    def tensors(self) -> dict[str, Tensor]:
        """Return the same tensors as `rows.Lazy`."""
        return {"change": self.change, "since": self.since}
