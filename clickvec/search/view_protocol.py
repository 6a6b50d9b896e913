"""What a search needs of an index, wherever it is kept: in files (`live/`), or in a database (`engines/`)."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.fusion import Candidates, Fusion
from clickvec.search.parts.part import PartQuery
from clickvec.search.title_view import Positions, TitleView

Scores = NDArray[np.float32]


class SearchView(TitleView, Protocol):
    """What one search uses. It does not change while it is used."""

    @property
    def fusion(self) -> Fusion:
        """How words and vectors make a score."""

    @property
    def fusion_report(self) -> dict[str, Any] | None:
        """How the fusion was chosen."""


@runtime_checkable
class HybridAtOnce(Protocol):
    """A view that finds and fuses the candidates of hybrid search in one step."""

    def hybrid(self, parts: Sequence[PartQuery], depth: int) -> tuple[Positions, Scores, Candidates] | None:
        """Return the candidates of all parts, best first; None if a part cannot be asked in this way."""


class EngineError(UnavailableError):
    """A database does not answer, or refuses. The request may be right."""


class StaleViewError(EngineError):
    """The index was built again while a search used a view of the old one. The next view is right."""


class LiveDocuments(Protocol):
    """The documents of an index, the present view of them, and their changes."""

    def view(self) -> SearchView:
        """Return the present view."""

    def refresh(self) -> None:
        """Let the next view show all changes that were made before this call."""

    def reading(self) -> AbstractContextManager[object]:
        """Let everything that is read inside a `with` block belong to one state of the documents."""

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given."""

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there, all or none. Return how many were given."""

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""

    def state(self) -> dict[str, Any]:
        """Return the stored settings."""

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""

    def compact(self, progress: Progress | None = None) -> None:
        """Build what is derived from the documents again."""

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> None:  # noqa: ANN401
        """Encode all titles with another model and use it from then on, together with other settings."""

    def close(self) -> None:
        """Release everything."""

    def copied(self) -> "LiveDocuments":
        """Return an independent copy."""
