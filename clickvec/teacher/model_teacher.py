"""A clickvec model as teacher: a larger one, which a small one learns to agree with."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Dataset, Texts
from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress, ignore
from clickvec.teacher.reduction import SAMPLE, Floats, fit
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.teacher.teaching import LEAST_KNOWN
from clickvec.text.trigrams import Tokens

_TEXTS_AT_ONCE = 2**15


def is_model_folder(path: Path) -> bool:
    """Tell whether a path names a clickvec model."""
    return (path / "trigrams.txt").is_file() and (path / "weights.safetensors").is_file()


def encode_all(path: Path, data: Dataset, texts: Texts, progress: Progress | None = None) -> Teacher:
    """Return the vectors of a model for all texts of a dataset, with all their dimensions. They are not kept."""
    encoder, tell = Encoder.load(path), progress or ignore
    queries, titles = len(data.queries.offsets) - 1, len(data.titles.offsets) - 1
    sample = encoder.encode_document(list(texts.titles[: min(SAMPLE, titles)]))
    reduction = fit(sample, sample.shape[1])
    label = f"texts of {path.name}"

    def rows(lines: Tokens, count: int, encode: Callable[[list[str]], Floats], before: int) -> NDArray[np.int8]:
        made = np.zeros((count, sample.shape[1]), np.int8)
        for first, vectors in _blocks(lines, count, encode):
            made[first : first + len(vectors)] = reduction.rows(vectors)
            tell(label, before + first + len(vectors), queries + titles)
        return made

    made = Teacher(
        path.name,
        rows(texts.queries, queries, encoder.encode_query, 0),
        rows(texts.titles, titles, encoder.encode_document, queries),
        reduction.scales,
    )
    known = made.facts()["titles"]
    if int(known) < LEAST_KNOWN * titles:
        raise ClickvecError(
            f"the teacher {path} knows {known:,} of {titles:,} titles, and half of them are needed; it must be a model "
            "of the same language"
        )
    return made


def _blocks(lines: Tokens, count: int, encode: Callable[[list[str]], Floats]) -> Iterator[tuple[int, Floats]]:
    for first in range(0, count, _TEXTS_AT_ONCE):
        yield first, encode(list(lines[first : min(first + _TEXTS_AT_ONCE, count)]))
