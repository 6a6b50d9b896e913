"""Attenuation, as section V-A.1 of the paper sees it: which words the model lets through, and which it damps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clickvec.explanation.attribution import without_each
from clickvec.explanation.reading import Floats, Reading, encode, read
from clickvec.model.encoder import Encoder

UNIMPORTANT = 0.5  # of the mean effect of the text's words


@dataclass(frozen=True)
class Attenuation:
    """For each word of a text, how far the input gates opened and what it did to the final vector."""

    words: tuple[str, ...]
    gates: tuple[float, ...] | None  # the mean of i(t), over cells and directions; None without gates
    taken_in: tuple[float, ...] | None  # the mean of |i(t) y_g(t)|: what comes through the gate into the cells
    effects: tuple[float, ...]  # 1 - the cosine of the vectors of the text with the word and without it
    unimportant: tuple[bool, ...]  # whether that is less than half of the mean over the text


def attenuation(encoder: Encoder, text: str, side: str = "query") -> Attenuation:
    """What becomes of each word when the tower of `side` reads a text."""
    reading = read(encoder, side, text)
    left = np.asarray(encode(encoder, side, without_each(reading.words)), np.float64)
    return attenuate(reading.words, reading.vector, left, reading)


def attenuate(words: Sequence[str], vector: Floats, left: Floats, reading: Reading | None) -> Attenuation:
    """The same from what is known: the text's vector, and a row of `left` for the text without each word."""
    # No vector: none without the word either. And rounding must not make an effect negative.
    effects = np.maximum(1 - left @ vector, 0) if vector.any() else np.zeros(len(words))
    least = UNIMPORTANT * effects.mean() if len(words) else 0.0
    return Attenuation(
        tuple(words),
        _mean(reading, "input_gate"),
        _mean(reading, "input_gate", "cell_input"),
        tuple(effects.tolist()),
        tuple((effects < least).tolist()),
    )


def _mean(reading: Reading | None, *names: str) -> tuple[float, ...] | None:
    """The mean, over cells and directions, of the size of the product of these activations at each word."""
    if reading is None or not all(name in way.values for way in reading.ways for name in names):
        return None
    products = [np.prod([way.values[name] for name in names], axis=0) for way in reading.ways]
    return tuple(np.mean([np.abs(product).mean(axis=1) for product in products], axis=0).tolist()) if products else ()
