"""A map of titles: their vectors in two dimensions, divided into neighbourhoods.

t-SNE puts titles with similar vectors close together; the axes, and the distances between far groups, have no meaning.
k-means divides the map into neighbourhoods. Both come from scikit-learn: pip install 'clickvec[map]'. Without it, only
`map_vectors` can draw a map: along the two principal components, divided at medians.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import missing_extra
from clickvec.explanation.reading import Floats
from clickvec.model.encoder import Encoder
from clickvec.text.lexical_tokens import tokenise
from clickvec.text.tokens import canonical

TITLES = 400  # most titles on a map
FEWEST_VECTORS = 4  # different ones; a map of fewer shows nothing
PERPLEXITY = 30  # about how many neighbours of a title t-SNE considers
LANDMARKS = 800  # titles that t-SNE arranges; further ones are placed among those that are most similar
NEAREST, SHARPNESS = 4, 20.0  # landmarks that place a title, and how much more a more similar one counts
WORDS, EXAMPLES = 4, 2  # listed for each neighbourhood
SEED = 0


@dataclass(frozen=True)
class Neighbourhood:
    """Titles that are close together on the map."""

    titles: int
    words: tuple[str, ...]  # most characteristic first
    examples: tuple[str, ...]  # those with most of the words, then those nearest to the centre
    centre: tuple[float, float]


@dataclass(frozen=True, eq=False)
class TitleMap:
    """A sample of titles, their positions on the map, and their neighbourhoods, largest first."""

    titles: tuple[str, ...]
    points: Floats  # (titles, 2)
    neighbourhood_of: tuple[int, ...]  # for each title
    neighbourhoods: tuple[Neighbourhood, ...]
    method: str = "t-SNE"  # or PCA

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return {
            "neighbourhoods": [{"titles": group.titles, "words": group.words} for group in self.neighbourhoods],
            "titles": [
                {"title": title, "x": x, "y": y, "neighbourhood": number}
                for title, (x, y), number in zip(self.titles, self.points.tolist(), self.neighbourhood_of, strict=True)
            ],
        }


def can_map() -> bool:
    """Return whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def map_titles(encoder: Encoder, titles: Sequence[str], most: int = TITLES) -> TitleMap:
    """Map a random sample of at most `most` different titles that have a vector. The same titles give the same map.

    It is empty if the titles have too few different vectors. Raise ClickvecError if scikit-learn is not installed.
    """
    if not can_map():
        raise missing_extra("scikit-learn", "map")
    different = distinct(titles)
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(different))[:most])
    vectors = encoder.encode_document([different[at] for at in chosen.tolist()])
    sample = [different[at] for at in chosen[vectors.any(axis=1)].tolist()]
    vectors = vectors[vectors.any(axis=1)]
    return map_vectors(sample, vectors)


def map_vectors(titles: Sequence[str], vectors: Floats | NDArray[np.float32]) -> TitleMap:
    """Map titles with these unit vectors. The map is empty if too few vectors are different.

    Of many titles, t-SNE arranges a random sample, and the others are placed among them. Without scikit-learn, all are
    placed along the two principal components of their vectors.
    """
    if len(np.unique(vectors.round(4), axis=0)) < FEWEST_VECTORS:
        return TitleMap((), np.zeros((0, 2)), (), ())
    method, arrange, split = ("t-SNE", tsne, divide) if can_map() else ("PCA", principal, halve)
    landmarks = np.sort(np.random.default_rng(SEED).permutation(len(vectors))[:LANDMARKS])
    if method == "PCA" or len(landmarks) == len(vectors):
        points = arrange(vectors)
    else:
        arranged = arrange(vectors[landmarks])
        points = place(vectors, vectors[landmarks], arranged)
        points[landmarks] = arranged
    neighbourhood_of = split(points, round(0.8 * len(points) ** 0.5))
    words = [set(tokenise(title, "words-stop")) for title in titles]
    groups = tuple(
        _neighbourhood(titles, points, words, np.flatnonzero(neighbourhood_of == number))
        for number in np.unique(neighbourhood_of)
    )
    return TitleMap(tuple(titles), points, tuple(neighbourhood_of.tolist()), groups, method)


def tsne(vectors: Floats | NDArray[np.float32]) -> Floats:
    """Arrange vectors in two dimensions by t-SNE."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    rounds = 1000 if len(vectors) <= TITLES else 500  # many titles take seconds, and change little after that
    with _one_thread():
        points = TSNE(perplexity=perplexity, init="pca", random_state=SEED, max_iter=rounds).fit_transform(vectors)
    return np.asarray(points, np.float64)


def _one_thread() -> AbstractContextManager[object]:
    """Let scikit-learn use one thread here. Its threads wait for each other thousands of times, each time busily.

    So few titles gain at most a second from more threads, which would hold back the searches of a service meanwhile.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="openmp")  # of the calling thread only
    return limits


def principal(vectors: Floats | NDArray[np.float32]) -> Floats:
    """Return the two principal components of vectors."""
    centred = np.asarray(vectors, np.float64) - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ axes[:, [-1, -2]])


def place(vectors: Floats | NDArray[np.float32], landmarks: Floats | NDArray[np.float32], points: Floats) -> Floats:
    """Return where vectors lie on a map: between the points of the landmarks that are most similar to them."""
    cosines = np.asarray(vectors, np.float64) @ np.asarray(landmarks, np.float64).T
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
    similar = np.take_along_axis(cosines, near, axis=1)
    weights = np.exp(SHARPNESS * (similar - similar[:, :1]))
    return np.asarray((points[near] * (weights / weights.sum(axis=1, keepdims=True))[:, :, None]).sum(axis=1))


def distinct(titles: Sequence[str]) -> list[str]:
    """Return the titles without those that the model reads as the same text as an earlier one."""
    return list({canonical(title): title for title in reversed(titles)}.values())[::-1]


def divide(points: Floats, parts: int) -> NDArray[np.int64]:
    """Divide points into at most so many parts by k-means. Return the part of each, 0 for the largest."""
    from sklearn.cluster import KMeans

    clusters = min(max(parts, 1), len(np.unique(points, axis=0)))
    with _one_thread():
        labels = KMeans(clusters, n_init=8, random_state=SEED).fit(points).labels_.tolist()
    by_size = [label for label, _ in Counter(labels).most_common()]
    return np.array([by_size.index(label) for label in labels], np.int64)


def halve(points: Floats, parts: int) -> NDArray[np.int64]:
    """Divide points into at most so many parts: halve the largest at the median of its longer side, again and again."""
    groups = [np.arange(len(points))]
    while len(groups) < parts:
        largest = max(range(len(groups)), key=lambda at: len(groups[at]))
        members = groups[largest]
        values = points[members, np.ptp(points[members], axis=0).argmax()]
        is_low = values < np.median(values)
        if not is_low.any():
            break
        groups[largest : largest + 1] = [members[is_low], members[~is_low]]
    part_of = np.zeros(len(points), np.int64)
    for number, members in enumerate(sorted(groups, key=len, reverse=True)):
        part_of[members] = number
    return part_of


def _neighbourhood(
    titles: Sequence[str], points: Floats, words: Sequence[set[str]], members: NDArray[np.int64]
) -> Neighbourhood:
    counts = Counter(word for at in members.tolist() for word in words[at])
    total = Counter(word for title_words in words for word in title_words)
    characteristic = characteristic_words(counts, total, len(members) / len(titles))
    centre = points[members].mean(axis=0)
    nearest = members[np.argsort(((points[members] - centre) ** 2).sum(axis=1), kind="stable")].tolist()
    nearest.sort(key=lambda at: -len(words[at].intersection(characteristic)))  # stable: ties stay nearest first
    examples = tuple(titles[at] for at in nearest[:EXAMPLES])
    return Neighbourhood(len(members), characteristic, examples, (float(centre[0]), float(centre[1])))


def characteristic_words(counts: Counter[str], total: Counter[str], share: float) -> tuple[str, ...]:
    """Return the words with the highest count · log lift in a group that has this share of all titles."""
    weight = {word: count * np.log(count / total[word] / share) for word, count in counts.items()}
    return tuple(sorted(counts, key=lambda word: (-weight[word], word))[:WORDS])
