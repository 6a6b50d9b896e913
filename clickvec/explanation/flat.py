"""A map: vectors in two dimensions, so that near ones stay near. Exact t-SNE (van der Maaten and Hinton, 2008).

    p_j|i = exp(-β_i ‖x_i - x_j‖²) / Σ_k≠i exp(-β_i ‖x_i - x_k‖²)    β_i so that 2^entropy is the perplexity
    p_ij  = (p_j|i + p_i|j) / 2n
    q_ij  = (1 + ‖y_i - y_j‖²)^-1 / Σ_k≠l (1 + ‖y_k - y_l‖²)^-1
    C     = Σ p_ij log(p_ij / q_ij)                                   what is made small, by moving the y

For what is near on the map, read titles that the model takes to be alike; the axes, and distances between far groups,
mean nothing. Every pair of points is looked at, a thousand times a thousand of them in a few seconds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clickvec.errors import ClickvecError
from clickvec.explanation.reading import Floats
from clickvec.model.encoder import Encoder
from clickvec.model.forward import Array
from clickvec.text.tokens import canonical

PERPLEXITY = 30.0  # about how many neighbours a point cares for
FEW_POINTS, MOST_POINTS = 10, 2_000  # too few to speak of neighbours; too many to wait for, the time is their square
STEPS, EARLY = 1_000, 250
EXAGGERATION = 12.0  # of the p in the early steps, so that clusters find together before they fill the room


class TitleMap(NamedTuple):
    """A sample of titles and their places on the map; `rows` are their places in the list that it was drawn from."""

    rows: tuple[int, ...]
    titles: tuple[str, ...]
    places: Floats


def map_titles(encoder: Encoder, titles: Sequence[str], most: int = 500, *, seed: int = 0) -> TitleMap:
    """A map of different titles that the model can read, at most so many, drawn by chance."""
    if most < 1:
        raise ClickvecError(f"a map shows at least 1 title, not {most}")
    first = {canonical(title): row for row, title in reversed(list(enumerate(titles)))}
    rows = np.array(sorted(first.values()), np.int64)
    chosen = np.sort(np.random.default_rng(seed).permutation(rows)[:most])
    vectors = encoder.encode_document([titles[row] for row in chosen.tolist()])
    readable = vectors.any(axis=1)
    kept = tuple(chosen[readable].tolist())
    return TitleMap(kept, tuple(titles[row] for row in kept), flatten(vectors[readable], seed=seed))


def flatten(vectors: ArrayLike, *, perplexity: float = PERPLEXITY, steps: int = STEPS, seed: int = 0) -> Floats:
    """Places in two dimensions, (n, 2), for n vectors; the same ones give the same map.

    A handful of points is laid out by their two main directions alone.
    """
    x = np.asarray(vectors, np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise ClickvecError(f"a map is made of rows of finite numbers; got an array of shape {x.shape}")
    if len(x) > MOST_POINTS:
        raise ClickvecError(f"a map holds at most {MOST_POINTS:,} points, not {len(x):,}; draw a sample")
    if not perplexity >= 1:
        raise ClickvecError(f"perplexity is at least 1, not {perplexity}: it is a number of neighbours")
    x = x / (np.abs(x).max(initial=0) or 1.0)  # no square is too large
    if len(x) <= FEW_POINTS:
        return _main_directions(x)
    p = similarities(x, min(perplexity, (len(x) - 1) / 3))
    # Start small, with a little chance, where the main directions do not tell two points apart.
    y = 1e-4 * (_main_directions(x) + 0.01 * np.random.default_rng(seed).standard_normal((len(x), 2)))
    speed, gain = np.zeros_like(y), np.ones_like(y)
    rate = len(x) / (4 * EXAGGERATION)  # rising with n, as Belkina et al. 2019 found best
    late, early = p.astype(np.float32), (p * EXAGGERATION).astype(np.float32)  # half the memory to go through
    for step in range(steps):
        slope = gradient(early if step < EARLY else late, y)
        # A coordinate that keeps its direction goes faster, one that turns back slower.
        gain = np.maximum(np.where(speed * slope < 0, gain + 0.2, gain * 0.8), 0.01)
        speed = (0.5 if step < EARLY else 0.8) * speed - rate * gain * slope
        y = y + speed
    return np.asarray(y - y.mean(axis=0))


def similarities(x: Floats, perplexity: float) -> Floats:
    """The p_ij of the vectors, symmetric, with sum 1."""
    apart = distances(x)
    apart[apart < 1e-12 * np.square(x).sum(axis=1).max()] = 0  # equal vectors, but for the last digits
    apart /= apart.mean() or 1.0  # whatever the unit, β is around 1
    np.fill_diagonal(apart, np.inf)
    apart -= apart.min(axis=1, keepdims=True)  # changes no p, and keeps some exp above 0
    low, high = np.full(len(x), -60.0), np.full(len(x), 60.0)  # log2 β
    for _ in range(40):
        middle = (low + high) / 2
        near = np.exp(-np.exp2(middle)[:, None] * apart)
        near /= near.sum(axis=1, keepdims=True)
        bits = -np.sum(near * np.log2(near, where=near > 0, out=np.zeros_like(near)), axis=1)
        too_wide = bits > np.log2(perplexity)
        low, high = np.where(too_wide, middle, low), np.where(too_wide, high, middle)
    return np.asarray((near + near.T) / (2 * len(x)))


def gradient(p: Array, y: Floats) -> Floats:
    """∂C/∂y_i = 4 Σ_j (p_ij - q_ij) (1 + ‖y_i - y_j‖²)^-1 (y_i - y_j)."""
    near = _nearness(y.astype(p.dtype))
    pull = near * (-1 / near.sum())  # in place from here: at a thousand points, time is memory
    pull += p
    pull *= near
    return np.asarray(4 * (pull.sum(axis=1)[:, None] * y - pull @ y), np.float64)


def divergence(p: Floats, y: Floats) -> float:
    """C of a map: how far its q are from the p. 0 when they are the same."""
    near = _nearness(y)
    some = p > 0
    return float(np.sum(p[some] * np.log(p[some] / (near / near.sum())[some])))


def _nearness(y: Array) -> Array:
    near = distances(y)
    near += 1
    np.reciprocal(near, out=near)
    np.fill_diagonal(near, 0)
    return near


def distances(x: Array) -> Array:
    """‖x_i - x_j‖² for all pairs."""
    square = np.sum(x * x, axis=1)
    apart: Array = x @ (-2 * x.T)
    apart += square[:, None]
    apart += square
    return np.maximum(apart, 0, out=apart)


def _main_directions(x: Floats) -> Floats:
    """The two principal components, the first of them with standard deviation 1."""
    found = np.zeros((len(x), 2))
    if x.size:
        left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        main = left[:, :2] * sizes[:2]
        main *= np.sign(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])])  # else up to the library
        found[:, : main.shape[1]] = main / (main[:, 0].std() or 1.0)
    return found
