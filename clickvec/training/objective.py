"""What training minimises: equations 3, 4 and 5."""

import torch
from torch import Tensor


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1, so that their product is the cosine of equation 3. A zero vector stays zero."""
    length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / torch.where(length > 0, length, torch.ones_like(length))


def losses(gamma: float, positive: Tensor, negative: Tensor, counts: Tensor) -> Tensor:
    """Return l_r of equation 5 for each pair: log(1 + Σ_j exp(-γ Δ_j)), stable for any γ.

    `positive` (pairs,) is R(Q, D+); `negative` (pairs, n) is R(Q, D-), of which only those where `counts`
    (pairs, n) is true are taken.
    """
    delta = positive[:, None] - negative
    exponents = torch.where(counts, -gamma * delta, torch.full_like(delta, -torch.inf))
    return torch.logsumexp(torch.cat([torch.zeros_like(delta[:, :1]), exponents], dim=1), dim=1)
