"""A map of titles, cut into neighbourhoods, each with the words and the cells that tell it from the rest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.evaluation.lexical import tokenise
from clickvec.explanation.flat import TitleMap, map_titles
from clickvec.explanation.reading import Floats, cell_names
from clickvec.model.encoder import Encoder

MAPPED = 400  # titles, at most
WORDS, CELLS, EXAMPLES = 4, 3, 2  # that are named of each neighbourhood
STARTS, ROUNDS = 8, 50  # of k-means


class Standing(NamedTuple):
    """A cell, and how far its mean over the titles of a neighbourhood is from that over all titles."""

    cell: int
    way: str
    difference: float


@dataclass(frozen=True)
class Neighbourhood:
    """Titles that lie together."""

    titles: int
    words: tuple[str, ...]  # the most telling first
    cells: tuple[Standing, ...]
    examples: tuple[str, ...]  # those with most of the words, then the inmost
    centre: tuple[float, float]


@dataclass(frozen=True)
class Neighbourhoods:
    """The map; `of` has the neighbourhood of each of its titles."""

    map: TitleMap
    found: tuple[Neighbourhood, ...]
    of: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return {
            "neighbourhoods": [
                {"titles": one.titles, "words": one.words, "cells": [cell._asdict() for cell in one.cells]}
                for one in self.found
            ],
            "titles": [
                {"title": title, "x": x, "y": y, "neighbourhood": of}
                for title, (x, y), of in zip(self.map.titles, self.map.places.tolist(), self.of, strict=True)
            ],
        }


def neighbourhoods(encoder: Encoder, titles: Sequence[str], most: int = MAPPED) -> Neighbourhoods:
    """A map of a sample of titles."""
    drawn = map_titles(encoder, titles, most)
    places = drawn.places
    of = split(places, round(0.8 * len(places) ** 0.5)) if len(places) else np.zeros(0, np.int64)
    vectors = np.asarray(encoder.encode_document(list(drawn.titles)), np.float64)
    words = [set(tokenise(title, "words-stop")) for title in drawn.titles]
    in_all = Counter(word for one in words for word in one)
    found = [
        _neighbourhood(encoder, drawn, vectors, words, in_all, np.flatnonzero(of == place))
        for place in range(int(of.max(initial=-1)) + 1)
    ]
    return Neighbourhoods(drawn, tuple(found), tuple(of.tolist()))


def _neighbourhood(
    encoder: Encoder,
    drawn: TitleMap,
    vectors: Floats,
    words: Sequence[set[str]],
    in_all: Counter[str],
    members: NDArray[np.int64],
) -> Neighbourhood:
    here = Counter(word for place in members.tolist() for word in words[place])
    beside = vectors[members].mean(axis=0) - vectors.mean(axis=0)
    names = cell_names(encoder)
    standing = np.argsort(-np.abs(beside), kind="stable")[:CELLS].tolist()
    centre = drawn.places[members].mean(axis=0)
    inmost = members[np.argsort(((drawn.places[members] - centre) ** 2).sum(axis=1), kind="stable")].tolist()
    named = telling(here, in_all, len(members) / len(words))
    inmost.sort(key=lambda place: -len(words[place].intersection(named)))  # stable: of as many, the inmost
    return Neighbourhood(
        len(members),
        named,
        tuple(Standing(names[place][0], names[place][1], float(beside[place])) for place in standing),
        tuple(drawn.titles[place] for place in inmost[:EXAMPLES]),
        (float(centre[0]), float(centre[1])),
    )


def telling(here: Counter[str], in_all: Counter[str], share: float) -> tuple[str, ...]:
    """Words by count · log lift, as topics weigh them: frequent here, and not everywhere. `share`: of all titles."""
    weight = {word: count * np.log(count / in_all[word] / share) for word, count in here.items()}
    return tuple(sorted(here, key=lambda word: (-weight[word], word))[:WORDS])


def split(places: Floats, parts: int) -> NDArray[np.int64]:
    """k-means in the plane: the part of each place, numbered by size, the largest 0; the best of some starts."""
    rng = np.random.default_rng(0)
    tries = [_lloyd(places, _spread(places, max(1, parts), rng)) for _ in range(STARTS)]
    of = min(tries, key=lambda one: one[1])[0]
    by_size = [part for part, _ in Counter(of.tolist()).most_common()]
    return np.array([by_size.index(part) for part in of.tolist()], np.int64)


def _spread(places: Floats, parts: int, rng: np.random.Generator) -> Floats:
    """Centres to start from, far from each other by chance (k-means++)."""
    centres = [places[rng.integers(len(places))]]
    while len(centres) < parts:
        apart = _apart(places, np.array(centres)).min(axis=1)
        if not apart.any():
            break
        centres.append(places[rng.choice(len(places), p=apart / apart.sum())])
    return np.array(centres)


def _lloyd(places: Floats, centres: Floats) -> tuple[NDArray[np.int64], float]:
    for _ in range(ROUNDS):
        of = _apart(places, centres).argmin(axis=1)
        moved = np.array([
            places[of == part].mean(axis=0) if (of == part).any() else centre for part, centre in enumerate(centres)
        ])  # fmt: skip
        if np.allclose(moved, centres):
            break
        centres = moved
    apart = _apart(places, centres)
    return apart.argmin(axis=1), float(apart.min(axis=1).sum())


def _apart(places: Floats, centres: Floats) -> Floats:
    return np.asarray(((places[:, None] - centres) ** 2).sum(axis=2))
