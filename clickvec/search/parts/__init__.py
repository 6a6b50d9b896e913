"""The parts of the score: what it is a sum of."""

from clickvec.search.parts.part import Feature, Part
from clickvec.search.parts.vector_part import VECTORS
from clickvec.search.parts.word_part import WORDS

PARTS: tuple[Part, ...] = (VECTORS, WORDS)
FEATURES: dict[str, Feature] = {feature.name: feature for part in PARTS for feature in part.features}
# Behind the candidates come the titles that match, then all others.
PROPOSING = tuple(sorted((part for part in PARTS if part.proposes), key=lambda part: not part.selects))
MODES = ("hybrid", *(part.name for part in PROPOSING))
