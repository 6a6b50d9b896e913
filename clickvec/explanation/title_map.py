"""A map of titles: their vectors in two dimensions, divided into neighbourhoods.

t-SNE puts titles with similar vectors close together; the axes, and the distances between far groups, have no meaning.
k-means divides the map into neighbourhoods. Both come from scikit-learn: pip install 'clickvec[map]'.
"""

from collections import Counter
from collections.abc import Sequence
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
    if len(np.unique(vectors.round(4), axis=0)) < FEWEST_VECTORS:
        return TitleMap((), np.zeros((0, 2)), (), ())

    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=SEED).fit_transform(vectors).astype(np.float64)
    neighbourhood_of = divide(points, round(0.8 * len(points) ** 0.5))
    words = [set(tokenise(title, "words-stop")) for title in sample]
    groups = tuple(
        _neighbourhood(sample, points, words, np.flatnonzero(neighbourhood_of == number))
        for number in np.unique(neighbourhood_of)
    )
    return TitleMap(tuple(sample), points, tuple(neighbourhood_of.tolist()), groups)


def distinct(titles: Sequence[str]) -> list[str]:
    """Return the titles without those that the model reads as the same text as an earlier one."""
    return list({canonical(title): title for title in reversed(titles)}.values())[::-1]


def divide(points: Floats, parts: int) -> NDArray[np.int64]:
    """Divide points into at most so many parts by k-means. Return the part of each, 0 for the largest."""
    from sklearn.cluster import KMeans

    clusters = min(max(parts, 1), len(np.unique(points, axis=0)))
    labels = KMeans(clusters, n_init=8, random_state=SEED).fit(points).labels_.tolist()
    by_size = [label for label, _ in Counter(labels).most_common()]
    return np.array([by_size.index(label) for label in labels], np.int64)


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
