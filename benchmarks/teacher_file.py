"""Ask a teacher once for the vectors of all texts of a benchmark, and keep them for all its runs."""

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from clickvec.lab.other_systems.transformer import Transformer
from clickvec.storage.files import replacing_file
from clickvec.text.tokens import canonical


def teacher_file(path: Path, texts: Iterable[str], teacher: str | None = None) -> Path:
    """Return `path`, an .npy file with a vector for each text, and the texts beside it in .txt; write it if needed.

    `teacher` is a sentence-transformers folder; by default all-MiniLM-L6-v2.
    """
    if not path.exists():
        distinct = [text for text in dict.fromkeys(map(canonical, texts)) if text]
        print(f"the teacher encodes {len(distinct):,} texts", file=sys.stderr, flush=True)
        vectors = Transformer(teacher)._encode(distinct)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".txt").write_text("".join(f"{text}\n" for text in distinct), encoding="utf-8")
        with replacing_file(path) as file:
            np.save(file, vectors.astype(np.float16))
    return path
