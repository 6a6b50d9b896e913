"""64-bit hashes of texts, by which lines are counted without keeping the texts.

The hashes are Python's own, which differ from run to run, and the counts made with them do not. Two of ten million
different texts have the same hash in about one of 400,000 runs.
"""

from collections.abc import Sequence
from unicodedata import is_normalized

import numpy as np
from numpy.typing import NDArray

from clickvec.text.tokens import canonical

Keys = NDArray[np.uint64]

# White space that the canonical form does not have; NFKC turns all other kinds into a space.
_SPACES = ("  ", "\n ", " \n", *"\t\v\f\r\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029")


def canonical_texts(texts: Sequence[str]) -> list[str]:
    """Return the canonical form of each text, thousands of texts at a time where they are simple."""
    lines = "\n".join(texts)
    if lines.count("\n") != len(texts) - 1 or not (lines.isascii() or is_normalized("NFKC", lines)):
        return list(map(canonical, texts))
    lower = lines.lower()  # neither lower() nor NFKC looks beyond a line feed
    if not (lower.isascii() or is_normalized("NFKC", lower)):
        return list(map(canonical, texts))
    split = lower.split("\n")
    if lower[:1] == " " or lower[-1:] == " " or any(space in lower for space in _SPACES):
        return [" ".join(line.split()) for line in split]
    return split


def hash_texts(texts: Sequence[str]) -> Keys:
    """Return a hash of each text."""
    return np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64)


def mix(first: Keys, *others: Keys) -> Keys:
    """Return one hash of several columns, by the finaliser of SplitMix64."""
    mixed = first
    for other in others:
        mixed = _scramble(mixed) + other
    return _scramble(mixed)


def _scramble(keys: Keys) -> Keys:
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
