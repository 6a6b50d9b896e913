"""Encode texts with Skip-Thought vectors (Kiros et al. 2015), in NumPy: the last state of a GRU is the vector.

Uni-skip is the state of one GRU; bi-skip is the states of a forward and a backward GRU; combine-skip is both. The files
are those that the authors publish (github.com/ryankiros/skip-thoughts). skipthought_training.py writes the same files:

    uni_skip.npz    Wemb, encoder_W, _b, _U, _Wx, _bx and _Ux; decoder weights are ignored
    bi_skip.npz     the same, and encoder_r_W and so on, of the backward GRU
    utable.npy      the embedding of each word of the dictionary for uni-skip, after vocabulary expansion
    btable.npy      the same for bi-skip
    dictionary.txt  one word per line, including <eos> and UNK

The arrays determine the sizes: 620, 2400 and 2 x 1200 in the published files. Nothing is unpickled: uni_skip.npz.pkl is
ignored. The published tables are pickles of one small array per word; `plain_tables` converts them to plain arrays.
The model and the checks of its files share most names, so they stay in one file.

| paper              | here         | meaning                                          |
|--------------------|--------------|--------------------------------------------------|
| W_r, W_z; U_r, U_z | `W`, `U`     | weights of the two gates, side by side           |
| W, U               | `Wx`, `Ux`   | weights of the proposed state                    |
| r^t, z^t           | `r`, `z`     | reset gate and update gate, equations 1 and 2    |
| h̄^t, h^t           | `h_bar`, `h` | proposed state and state, equations 3 and 4      |

The published code, and this module, differs from the paper, like torch.nn.GRU: the reset gate multiplies U h^(t-1)
instead of h^(t-1); the update gate is the part of h^(t-1) that is kept instead of replaced; there are biases.

One regular expression splits text into words, much as NLTK does: punctuation apart, "don't" as "do n't", quotes as ``
and ''. Words are in lower case. A word is looked up in lower case, then Capitalised, then in CAPITALS.
"""

import pickletools
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.ranker import Ranker
from clickvec.model.forward import sigmoid, unit
from clickvec.model.packing import Packed, pack
from clickvec.storage.files import replacing_file
from clickvec.storage.snapshot import open_folder
from clickvec.text.ragged import Ragged, ragged
from clickvec.text.tokens import normalise

Array = NDArray[np.floating[Any]]
EOS, UNKNOWN = "<eos>", "UNK"
CHUNK = 1024  # texts encoded at once
CACHE_BYTES = 256 * 2**20

_CLITIC = r"'(?:s|re|ve|ll|d|m)\b"
_WORD = re.compile(rf"``|''|\w+(?=n't\b)|n't\b|{_CLITIC}|\w+(?:(?!{_CLITIC})[-.&']\w+)*|\.\.\.|--|[^\w\s]")
_OPENING_QUOTE = re.compile(r"(?:(?<=[\s(\[{<])|^)\"|“")
_DAMAGED = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


def split_words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in lower case."""
    quoted = _OPENING_QUOTE.sub(" `` ", normalise(text).replace("’", "'"))
    return _WORD.findall(quoted.replace('"', " '' ").replace("”", " '' "))


class GRU(NamedTuple):
    """The weights of one encoder under their published names. E is the size of the embedding, H of the state."""

    W: Array  # (E, 2H)
    b: Array  # (2H,)
    U: Array  # (H, 2H)
    Wx: Array  # (E, H)
    bx: Array  # (H,)
    Ux: Array  # (H, H)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The expected shapes of the weights, given E and H."""
        H = self.bx.size
        E = self.Wx.size // max(H, 1)
        return (E, 2 * H), (2 * H,), (H, 2 * H), (E, H), (H,), (H, H)

    def __call__(self, embeddings: Array, batch: Packed) -> Array:
        """Return the last state of each text, (texts, H), given the embeddings of the distinct words."""
        W_x, Wx_x = embeddings @ self.W + self.b, embeddings @ self.Wx + self.bx
        last = np.zeros((len(batch.order), len(self.Ux)), dtype=W_x.dtype)
        h, start = last.copy(), 0
        for n in batch.sizes:
            x, h = batch.tokens[start : start + n], h[:n]
            r, z = np.split(sigmoid(W_x[x] + h @ self.U), 2, axis=1)
            h_bar = np.tanh(Wx_x[x] + r * (h @ self.Ux))
            h = z * h + (1 - z) * h_bar
            last[:n] = h
            start += n
        return last[np.argsort(batch.order)]


class Skip(NamedTuple):
    """Uni-skip or, with a backward GRU, bi-skip."""

    table: Array  # (words of the dictionary, E)
    Wemb: Array  # (words of training, E)
    forward: GRU
    backward: GRU | None = None

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return len(self.forward.Ux) * (1 if self.backward is None else 2)

    def __call__(self, words: NDArray[np.int32], texts: Ragged) -> Array:
        """Return the vectors of texts, (texts, dimensions). Texts index `words`, and words index the table."""
        embeddings = np.asarray(self.table[words], dtype=np.float32)
        forward = self.forward(embeddings, pack(texts))
        if self.backward is None:
            return forward
        return np.concatenate([forward, self.backward(embeddings, pack(texts, backwards=True))], axis=1)


class SkipThought(Ranker):
    """Ranks by the cosine of Skip-Thought vectors.

    A text ends in <eos>, as in training; the authors recommend it for texts without a full stop. A text without any
    known word has the zero vector and scores 0. In other texts, an unknown word is read as UNK.
    """

    name = "Skip-Thought"

    def __init__(self, words: Sequence[str], skips: Sequence[Skip]) -> None:
        """Rank with the concatenated vectors of `skips`; row k of their tables embeds word k."""
        self.words, self.skips = tuple(words), tuple(skips)
        self._rows = {word: row for row, word in enumerate(self.words)}
        self._cache: dict[str, Array] = {}

    @classmethod
    def load(cls, folder: str | Path, kind: str = "combine") -> "SkipThought":
        """Load a folder of published files or of our own. `kind` is uni, bi or combine."""
        path = Path(folder)
        if kind not in ("uni", "bi", "combine"):
            raise ClickvecError(f"Skip-Thought vectors are uni, bi or combine, not {kind!r}")
        if not path.is_dir():
            raise ClickvecError(f"there is no folder of Skip-Thought files at {path}")
        with open_folder(path, ["dictionary.txt"], "folder of Skip-Thought files") as opened:
            words = [word.strip() for word in opened.lines("dictionary.txt")]
        for needed in (EOS, UNKNOWN):
            if needed not in words:
                raise ClickvecError(f"{path}/dictionary.txt has no line {needed}; copy or make it again")
        kinds = ("uni", "bi") if kind == "combine" else (kind,)
        return cls(words, [_read_skip(path, part, len(words)) for part in kinds])

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return sum(skip.dimensions for skip in self.skips)

    @property
    def parameters(self) -> int:
        """The number of learned parameters of the encoders, without the words of the vocabulary expansion."""
        return sum(w.size for skip in self.skips for w in (skip.Wemb, *skip.forward, *(skip.backward or ())))

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of the query with each title."""
        # Titles of the same words are scored once: in a matrix product the last bit depends on the row and breaks ties.
        rows: dict[str, int] = {}
        row = [rows.setdefault(" ".join(split_words(title)), len(rows)) for title in titles]
        vectors = unit(self.encode([query, *rows]))
        return np.asarray(vectors[1:] @ vectors[0], dtype=np.float32)[row]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, (texts, dimensions), each part scaled to length 1. Vectors are cached."""
        keys = [" ".join(split_words(text)) for text in texts]
        vectors = {key: self._cache[key] for key in keys if key in self._cache}
        new = [key for key in dict.fromkeys(keys) if key not in vectors]
        for first in range(0, len(new), CHUNK):
            chunk = new[first : first + CHUNK]
            vectors |= zip(chunk, self._read(chunk), strict=True)
        if 4 * self.dimensions * (len(self._cache) + len(new)) > CACHE_BYTES:
            self._cache.clear()
        self._cache |= vectors
        return np.stack([vectors[key] for key in keys]) if keys else np.zeros((0, self.dimensions), np.float32)

    def _read(self, keys: Sequence[str]) -> Array:
        ids = ragged(self._ids(key.split()) for key in keys)
        words, positions = np.unique(ids.values, return_inverse=True)
        texts = Ragged(positions.astype(np.int32), ids.offsets)
        vectors = np.concatenate([unit(skip(words, texts)) for skip in self.skips], axis=1)
        if not np.isfinite(vectors).all():
            raise ClickvecError(f"{self.name} gives vectors with NaN; copy or make its files again")
        return vectors

    def _ids(self, words: Sequence[str]) -> list[int]:
        """Return the rows of the words; nothing for a text without a known word."""
        ids = [self._find(word) for word in words]
        if all(row is None for row in ids):
            return []
        return [self._rows[UNKNOWN] if row is None else row for row in ids] + [self._rows[EOS]]

    def _find(self, word: str) -> int | None:
        spellings = (word, word.capitalize(), word.upper())
        return next((self._rows[spelling] for spelling in spellings if spelling in self._rows), None)


# --- the files ---------------------------------------------------------------------------------------------------


def _read_skip(folder: Path, kind: str, words: int) -> Skip:
    path, table_path = folder / f"{kind}_skip.npz", folder / f"{kind[0]}table.npy"
    prefixes = ("encoder_",) if kind == "uni" else ("encoder_", "encoder_r_")
    arrays = _read_npz(path, ["Wemb", *(prefix + name for prefix in prefixes for name in GRU._fields)])
    encoders = [_check(GRU(*(arrays[prefix + name] for name in GRU._fields)), prefix, path) for prefix in prefixes]
    table = _read_table(table_path)
    E = len(encoders[0].Wx)
    if table.ndim != 2 or table.shape[1] != E or len(table) < words:
        raise ClickvecError(
            f"{table_path} has the shape {table.shape}, but dictionary.txt and {path.name} require ({words}, {E}); "
            "take all files from one model"
        )
    return Skip(table, arrays["Wemb"], *encoders)


def _read_npz(path: Path, names: Sequence[str]) -> dict[str, Array]:
    _check_exists(path)
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("not a complete zip archive")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [name for name in names if name not in archive]
            if missing:
                raise ClickvecError(f"{path} lacks {missing[0]}; it is not a Skip-Thought model of this kind")
            return {name: np.asarray(archive[name], dtype=np.float32) for name in names}
    except _DAMAGED as error:
        raise ClickvecError(f"{path} is damaged or contains pickles ({error}); copy or make it again") from None


def _check(gru: GRU, prefix: str, path: Path) -> GRU:
    for name, array, shape in zip(GRU._fields, gru, gru.shapes, strict=True):
        if array.shape != shape:
            raise ClickvecError(f"{path}: {prefix}{name} has the shape {array.shape} instead of {shape}; copy it again")
        if not np.isfinite(array).all():
            raise ClickvecError(f"{path}: {prefix}{name} contains NaN or infinity; copy or make it again")
    return gru


def _read_table(path: Path) -> Array:
    """Return a memory-mapped table: the published ones have 2 GB."""
    if _read_header(path)[1].hasobject:
        raise ClickvecError(
            f"{path} is a pickle, which clickvec does not open; convert it once with: "
            f"python -c 'from {__name__} import plain_tables; plain_tables(\"{path.parent}\")'"
        )
    try:
        table: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGED as error:
        raise ClickvecError(f"{path} is damaged: {error}; copy or make it again") from None
    if not np.issubdtype(table.dtype, np.floating):
        raise ClickvecError(f"{path} contains {table.dtype} instead of floating-point numbers; copy or make it again")
    return table


def _read_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape and type of an .npy file, and where its data begin."""
    _check_exists(path)
    try:
        with path.open("rb") as file:
            first = np.lib.format.read_magic(file) == (1, 0)
            read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            return shape, dtype, file.tell()
    except _DAMAGED as error:
        raise ClickvecError(f"{path} is damaged: {error}; copy or make it again") from None


def _check_exists(path: Path) -> None:
    if not path.is_file():
        raise ClickvecError(f"{path.parent} is not a complete folder of Skip-Thought files: {path.name} is missing")


def plain_tables(folder: str | Path) -> None:
    """Convert tables that are pickles of one array per word to plain arrays, without executing the pickles.

    Of the byte strings in the pickle, those with the length of a row of float32 are the rows.
    """
    for kind in ("uni", "bi"):
        path = Path(folder) / f"{kind[0]}table.npy"
        E = _read_npz(Path(folder) / f"{kind}_skip.npz", ["Wemb"])["Wemb"].shape[-1]
        shape, dtype, start = _read_header(path)
        if not dtype.hasobject:
            continue
        header = {"descr": "<f4", "fortran_order": False, "shape": (*shape, E)}
        with path.open("rb") as pickled, replacing_file(path) as plain:
            np.lib.format.write_array_header_1_0(plain, header)
            pickled.seek(start)
            rows = sum(plain.write(row) > 0 for row in _byte_strings(pickled, 4 * E))
            if shape != (rows,):
                raise ClickvecError(f"{path} has {rows:,} rows of {E} numbers instead of {shape}; copy it again")


def _byte_strings(pickled: BinaryIO, size: int) -> Iterator[bytes]:
    try:
        for _, value, _ in pickletools.genops(pickled):
            if isinstance(value, str | bytes) and len(value) == size:
                yield value if isinstance(value, bytes) else value.encode("latin-1")  # Python 2 pickles bytes as str
    except ValueError as error:
        raise ClickvecError(f"the pickle is damaged: {error}; copy it again") from None
