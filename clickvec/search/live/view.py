"""What one search uses: a segment, the documents that were added since (the delta), and which of them are alive.

A view never changes. A process makes the next one from the documents that were added or deleted since, while other
threads use the old one. The position of a title counts through the segment, then through the delta.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError
from clickvec.model.encoder import Encoder, Vectors
from clickvec.model.fusion_report import is_report
from clickvec.model.shrink import VECTOR_TYPES, StoredVectors
from clickvec.search.fusion import Fusion
from clickvec.search.lexical.query_terms import K1, B
from clickvec.search.lexical.word_search import Words
from clickvec.search.live.delta import Delta
from clickvec.search.payload.facets import Facet, count_values
from clickvec.search.payload.fields import FieldKinds, Fields, field_kinds
from clickvec.search.payload.filters import Filter
from clickvec.search.segments.segment import Coverage, Segment
from clickvec.search.title_view import Documents
from clickvec.search.vectors.exact import BLOCK_QUERIES

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]
_MASKS = 16  # filters whose mask a view remembers


SEARCHES = ("auto", "exact", "approximate")
_FOLDER_NAME = re.compile(r"[\w-]{0,100}", re.ASCII)
_MOST_K1 = 1000.0


class Settings(NamedTuple):
    """What an index stores beside its documents, under these names."""

    model: str = ""  # the fingerprint
    segment: str = ""  # the name of its folder; "" if there is none yet
    segment_crc32: int = 0  # of its segment.json
    vectors: str = "float32"
    search: str = "auto"  # one of SEARCHES
    fusion: dict[str, Any] | None = None  # None: the default
    fusion_report: dict[str, Any] | None = None  # how it was chosen
    k1: float = K1
    b: float = B

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Settings":
        """Return the settings that a store holds. Those of a newer version are ignored.

        Raise if a value has another type or range: the index may be a stranger's, and every value is used as it is. The
        folders that it names are opened, and removed when they are no longer in use, so they must be inside the index.
        """
        settings = cls(**{name: state[name] for name in cls._fields if name in state})
        if name := settings.invalid():
            value = f"{getattr(settings, name)!r:.100}"
            raise UnavailableError(f"the index has the setting {name} {value}, which is not valid; build it again")
        return settings

    def invalid(self) -> str | None:
        """Return the name of a setting that has another type or range than it should."""
        is_valid = {
            "model": isinstance(self.model, str) and _FOLDER_NAME.fullmatch(self.model),
            "segment": isinstance(self.segment, str) and _FOLDER_NAME.fullmatch(self.segment),
            "segment_crc32": type(self.segment_crc32) is int and 0 <= self.segment_crc32 < 2**32,
            "vectors": self.vectors in VECTOR_TYPES,
            "search": self.search in SEARCHES,
            "fusion": self.fusion is None or Fusion.from_json(self.fusion),
            "fusion_report": self.fusion_report is None or is_report(self.fusion_report),
            "k1": _is_between(self.k1, 0, _MOST_K1),
            "b": _is_between(self.b, 0, 1),
        }
        return next((name for name, valid in is_valid.items() if not valid), None)


def _is_between(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


class View:
    """A segment, a delta as it is now, and the mask of the titles that are alive (None if all are)."""

    def __init__(
        self,
        documents: Documents,
        encoder: Encoder,
        settings: Settings,
        segment: Segment,
        delta: Delta,
        covers: Coverage,
        alive: Mask | None = None,
    ) -> None:
        self.documents, self.encoder, self.settings = documents, encoder, settings
        self.segment, self.delta, self.covers, self.alive = segment, delta, covers, alive
        self._delta_seqs, self._delta_exact = delta.seqs(), delta.exact()
        self._delta_fields = delta.fields()
        self.size = len(segment) + len(self._delta_seqs)
        self.count = self.size if alive is None else int(np.count_nonzero(alive))
        self._masks: dict[Filter, Mask] = {}

    def __len__(self) -> int:
        """Return the number of titles that are alive."""
        return self.count

    def followed_by(self, settings: Settings, deleted: Positions, covers: Coverage) -> "View":
        """Return the next view of the same segment, after titles were added to the delta and others deleted."""
        added = len(self.segment) + len(self.delta) - self.size
        alive = self.alive
        if alive is not None and added:
            alive = np.concatenate((alive, np.ones(added, np.bool_)))
        following = View(self.documents, self.encoder, settings, self.segment, self.delta, covers, alive)
        dead = following.positions_of(deleted)
        if not len(dead):
            return following
        alive = np.ones(following.size, np.bool_) if alive is None else alive.copy()
        alive[dead] = False
        return View(self.documents, self.encoder, settings, self.segment, self.delta, covers, alive)

    @cached_property
    def fusion(self) -> Fusion:
        """How words and vectors make a score."""
        return Fusion.default() if self.settings.fusion is None else Fusion.from_json(self.settings.fusion)

    @property
    def fusion_report(self) -> dict[str, Any] | None:
        """How the fusion was chosen."""
        return self.settings.fusion_report

    @cached_property
    def words(self) -> Words:
        """BM25 over the living titles of the view."""
        parts = (self.segment.words, self.delta.words)
        sizes = (len(self.segment), len(self._delta_seqs))
        return Words(parts, self.settings.k1, self.settings.b, sizes, self.alive)

    @property
    def version(self) -> tuple[str, str]:
        """The fingerprint of the model, and the name of the segment."""
        return self.settings.model or self.encoder.fingerprint, self.settings.segment

    @property
    def recall(self) -> float | None:
        """The recall of the approximate search, measured when it was built; None if the search is exact."""
        return None if self.segment.approximate is None else self.segment.approximate.recall

    @property
    def precision(self) -> str:
        """The number format of the vectors."""
        return self.segment.vector_type

    def fields(self) -> tuple[Fields, ...]:
        """Return the fields of all titles, in parts."""
        return self.segment.fields, *self._delta_fields

    def notes(self, where: Filter) -> list[str]:
        """Return a sentence for each condition that no document can satisfy."""
        return where.notes(*self.fields())

    def count_values(self, field: str, positions: Positions | None, allowed: Mask | None, limit: int) -> Facet:
        """Count the values of a field among the titles at these positions; if None, among all that are allowed."""
        if positions is None:
            positions = np.arange(self.size) if allowed is None else np.flatnonzero(allowed)
        return count_values(self.fields(), field, positions, limit)

    def field_kinds(self) -> dict[str, FieldKinds]:
        """Return the fields of the payloads, and what kinds of values they have."""
        return field_kinds(self.fields())

    def sample(self, count: int) -> Positions:
        """Return at most so many random positions of titles, rising, the same ones each time."""
        alive = np.arange(self.size) if self.alive is None else np.flatnonzero(self.alive)
        return alive[np.sort(np.random.default_rng(0).choice(len(alive), min(count, len(alive)), replace=False))]

    def allowed(self, where: Filter | None) -> Mask | None:
        """Return which positions a search may return; None if all of them."""
        if where is None:
            return self.alive
        mask = self._masks.get(where)
        if mask is None:
            mask = where.mask(*self.fields())
            if self.alive is not None:
                mask = mask & self.alive
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            self._masks[where] = mask
        return mask

    @property
    def is_exact(self) -> bool:
        """Whether `nearest` misses no title."""
        return self.segment.approximate is None

    @property
    def compared(self) -> int:
        """About how many titles `nearest` compares with a query."""
        return self.segment.compared + len(self._delta_seqs)

    def nearest(self, queries: Vectors, k: int, allowed: Mask | None) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the positions of the k best titles for each query and their cosines, best first, ties by position."""
        masks = (None, None) if allowed is None else (allowed[: len(self.segment)], allowed[len(self.segment) :])
        if not len(self._delta_seqs):
            yield from self.segment.nearest(queries, k, masks[0])
            return
        for first in range(0, len(queries), BLOCK_QUERIES):
            block = queries[first : first + BLOCK_QUERIES]
            in_segment = list(self.segment.nearest(block, k, masks[0]))
            # Few titles of the delta are better than the last title of the segment, and only those are needed.
            least = [scores[-1] if len(scores) == k else -np.inf for _, scores in in_segment]
            in_delta = self._delta_exact.nearest(block, k, masks[1], np.array(least, np.float32))
            for one, other in zip(in_segment, in_delta, strict=True):
                yield self._merged(one, other, k)

    def _merged(
        self, in_segment: tuple[Positions, Vectors], in_delta: tuple[Positions, Vectors], k: int
    ) -> tuple[Positions, Vectors]:
        """Return the k best titles of both parts, best first."""
        if not len(in_delta[0]):
            return in_segment
        positions = np.concatenate((in_segment[0], len(self.segment) + in_delta[0]))
        scores = np.concatenate((in_segment[1], in_delta[1]))
        best = np.argsort(-scores, kind="stable")[:k]
        return positions[best], scores[best]

    def cosines(self, query: Vectors, positions: Positions) -> Vectors:
        """Return the cosines of a query and the titles at these positions."""
        scores, start = np.zeros(len(positions), np.float32), len(self.segment)
        in_segment = positions < start
        scores[in_segment] = self.segment.exact.scores(query, positions[in_segment])
        scores[~in_segment] = self._delta_exact.scores(query, positions[~in_segment] - start)
        return scores

    def count_above(self, query: Vectors, score: float, position: int) -> int:
        """Return how many titles have a higher cosine, or the same and a smaller position."""
        start, alive = len(self.segment), self.alive
        masks = (None, None) if alive is None else (alive[:start], alive[start:])
        return self.segment.exact.count_above(query, score, position, masks[0]) + self._delta_exact.count_above(
            query, score, position - start, masks[1]
        )

    def vectors_at(self, positions: Positions) -> StoredVectors:
        """Return the stored vectors of titles."""
        start = len(self.segment)
        parts = (self.segment.exact.vectors, self._delta_exact.vectors)
        stored = np.empty((len(positions), self.encoder.dimensions), parts[0].dtype)
        in_segment = positions < start
        stored[in_segment] = parts[0][positions[in_segment]]
        stored[~in_segment] = parts[1][positions[~in_segment] - start]
        return stored

    def live_vectors(self) -> tuple[StoredVectors, Vectors | None]:
        """Return the vectors and scales of all titles that are alive."""
        parts = (self.segment.exact, self._delta_exact)
        if self.size == len(self.segment) and self.alive is None:
            return parts[0].vectors, parts[0].scales
        rows: Any = slice(None) if self.alive is None else self.alive
        scales = [part.scales for part in parts if part.scales is not None]
        stored = np.concatenate([part.vectors for part in parts])[rows]
        return stored, np.concatenate(scales)[rows] if scales else None

    def alike(self, title: str) -> Iterator[int]:
        """Yield the positions of titles that may have the same words as a title, in rising order.

        The same words have nearly the same vector, or none, so only few titles need to be read.
        """
        vector = self.encoder.encode_document(title)
        for start, search in ((0, self.segment.exact), (len(self.segment), self._delta_exact)):
            for position in search.alike(vector):
                if self.alive is None or self.alive[start + position]:
                    yield start + position

    def unreachable(self) -> int:
        """Return the number of titles without a vector."""
        parts = (self.segment.exact.vectors, self._delta_exact.vectors)
        has_none = np.concatenate([~vectors.any(axis=1) for vectors in parts])
        return int(has_none.sum() if self.alive is None else (has_none & self.alive).sum())

    def seqs_at(self, positions: Positions) -> list[int]:
        """Return the sequence numbers of the documents at these positions."""
        start = len(self.segment)
        if not len(self._delta_seqs):
            return [int(seq) for seq in self.segment.seqs[positions]]
        return [int(self.segment.seqs[at] if at < start else self._delta_seqs[at - start]) for at in positions.tolist()]

    def positions_of(self, seqs: Positions) -> Positions:
        """Return the positions of those documents that the view has, dead or alive."""
        found = []
        for start, part in ((0, self.segment.seqs), (len(self.segment), self._delta_seqs)):
            if len(part) and len(seqs):
                at = np.minimum(np.searchsorted(part, seqs), len(part) - 1)
                found.append(start + at[part[at] == seqs])
        return np.concatenate((np.zeros(0, np.int64), *found))
