"""Tokens of all texts of a dataset and the weights of a BERT model, for a machine that has torch and little else.

`write_tokens` needs the package tokenizers; computing the vectors from what it writes needs only torch and NumPy.
"""

import math
import shutil
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Dataset, Texts
from clickvec.errors import ClickvecError, missing_extra
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.storage.arrays import read_arrays, write_arrays
from clickvec.storage.json_files import parse_json
from clickvec.teacher import teacher_folder
from clickvec.teacher.reduction import Floats, Reduction
from clickvec.teacher.sentence_source import SentenceSource, model_folder
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.text.ragged import Ragged, concatenate

if TYPE_CHECKING:
    from clickvec.teacher.bert import Bert

_BLOCK = 2**15  # texts of a member of tokens.npz
_MOST_LENGTH = 512


class TokenSource:
    """A teacher folder with tokens. The vectors are computed with our own forward pass, on a GPU if there is one."""

    reduction: Reduction | None = None

    def __init__(self, path: Path) -> None:
        """Open the folder. All of it is read into memory, except the tokens."""
        with teacher_folder.open_teacher_folder(path) as (opened, about):
            self.name, self.identity, self.digest = str(about["name"]), str(about["identity"]), str(about["texts"])
            self._count, self._heads = int(about["texts_count"]), int(about["heads"])
            self._epsilon = float(about["layer_norm_eps"])
            self._weights = {name: np.array(array) for name, array in opened.arrays("encoder.safetensors").items()}
        self.texts_at_once = _BLOCK if self._device == "cuda" else _BLOCK // 16
        self._path, self._held = path / "tokens.npz", (-1, Ragged(np.zeros(0, np.int32), np.zeros(1, np.int64)))

    def check_texts(self, taught: TaughtTexts) -> None:
        """Raise if the tokens are those of other texts."""
        if taught.digest != self.digest:
            raise ClickvecError(
                f"{self._path.parent} has the tokens of {self._count:,} other texts than the {len(taught):,} of the "
                "data; make both again with prepare --teacher --tokens"
            )

    def vectors(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> Floats:
        """Return the vectors of texts by their numbers, which are in ascending order."""
        parts = []
        for block in np.unique(numbers // _BLOCK).tolist():
            here = numbers[(numbers >= block * _BLOCK) & (numbers < (block + 1) * _BLOCK)] - block * _BLOCK
            parts.append(self._tokens(block).take(here))
        return np.asarray(self._bert.encode(concatenate(parts)).cpu().numpy(), np.float32)

    def all_tokens(self, taught: TaughtTexts) -> tuple[Ragged, Ragged]:
        """Return the tokens of all queries and of all titles of a dataset, in its order."""
        blocks = range(math.ceil(self._count / _BLOCK))
        tokens = concatenate([self._tokens(block) for block in blocks])
        return tokens.part(slice(0, taught.queries)), tokens.take(taught.number_of_title)

    def model(self, *, to_train: bool = False) -> "Bert":
        """Return the encoder, on a GPU if there is one."""
        from clickvec.teacher.bert import Bert

        return Bert(self._weights, self._heads, self._epsilon, self._device, to_train=to_train)

    @cached_property
    def _bert(self) -> "Bert":
        return self.model()

    @cached_property
    def _device(self) -> str:
        try:
            import torch
        except ImportError:
            raise missing_extra("torch", "train") from None
        return "cuda" if torch.cuda.is_available() else "cpu"

    def _tokens(self, block: int) -> Ragged:
        if self._held[0] != block:
            try:
                with np.load(self._path, allow_pickle=False) as members:
                    values, lengths = members[f"tokens.{block}"], members[f"lengths.{block}"]
                rows = Ragged(values.astype(np.int32), np.concatenate(([0], np.cumsum(lengths.astype(np.int64)))))
                if rows.offsets[-1] != len(values) or len(lengths) != min(_BLOCK, self._count - block * _BLOCK):
                    raise ValueError("the lengths do not fit")
                if len(values) and rows.values.max() >= len(self._weights["embeddings.word_embeddings.weight"]):
                    raise ValueError("a token is out of range")
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                raise ClickvecError(f"{self._path} is damaged: {error}; copy or make it again") from None
            self._held = (block, rows)
        return self._held[1]


def check_target(folder: Path) -> None:
    """Raise if a folder may not be replaced by one with tokens: vectors may have taken hours."""
    files.check_replaceable(folder, teacher_folder.MARKER, teacher_folder.ALL_FILES)
    if teacher_folder.is_teacher_folder(folder) and teacher_folder.kind_of_teacher(folder) == "vectors":
        raise ClickvecError(f"{folder} holds the vectors of a teacher already; leave out --tokens, or remove it")


def write_tuned(folder: Path, weights: dict[str, NDArray[Any]], name: str, identity: str, out: Path) -> None:
    """Write a teacher folder with the tokens of another one and the weights of its encoder after fine-tuning."""
    from clickvec.teacher.bert import pack

    with teacher_folder.open_teacher_folder(folder) as (_, about):
        facts = {key: value for key, value in about.items() if key not in ("format", "kind", "files")}
    with files.replacing(out, teacher_folder.MARKER, teacher_folder.ALL_FILES) as fresh:
        shutil.copyfile(folder / "tokens.npz", fresh / "tokens.npz")
        write_arrays(fresh / "encoder.safetensors", pack(weights))
        teacher_folder.write_about(fresh, "tokens", {**facts, "name": name, "identity": identity})


def check_tokens(model: str) -> Path:
    """Return the folder of a BERT model. Raise if it is none, or only a name."""
    path = model_folder(model)
    if path is None:
        raise ClickvecError(f"the folder of the model is needed, and {model} is a name; download it first")
    _settings(path)
    return path


def write_tokens(data: Dataset, texts: Texts, model: str, folder: Path, progress: Progress | None = None) -> None:
    """Write a teacher folder with the tokens of all texts of a dataset and the weights of a BERT model."""
    source, path = SentenceSource(model), check_tokens(model)
    check_target(folder)
    heads, epsilon, most = _settings(path)
    tokenizer = _tokenizer(path, most)
    taught, report, longest = TaughtTexts(data, texts), progress or ignore, 1
    with files.replacing(folder, teacher_folder.MARKER, teacher_folder.ALL_FILES) as fresh:
        with zipfile.ZipFile(fresh / "tokens.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for first in range(0, len(taught), _BLOCK):
                report("texts", first, len(taught))
                block = taught.block(first, first + _BLOCK)
                rows = [row.ids if text else [] for row, text in zip(tokenizer.encode_batch(block), block, strict=True)]
                lengths = np.fromiter(map(len, rows), np.uint16, len(rows))
                longest = max(longest, int(lengths.max(initial=0)))
                small = np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.int32
                values = np.fromiter((token for row in rows for token in row), small, int(lengths.sum(dtype=np.int64)))
                for name, array in (("tokens", values), ("lengths", lengths)):
                    with archive.open(f"{name}.{first // _BLOCK}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
        report("texts", len(taught), len(taught))
        write_arrays(fresh / "encoder.safetensors", _packed(path, longest))
        about = {
            "name": source.name, "identity": source.identity, "texts": taught.digest, "texts_count": len(taught),
            "heads": heads, "layer_norm_eps": epsilon,
        }  # fmt: skip
        teacher_folder.write_about(fresh, "tokens", about)


def _packed(path: Path, positions: int) -> dict[str, NDArray[Any]]:
    from clickvec.teacher.bert import pack

    weights = path / "model.safetensors"
    if not weights.is_file():
        raise ClickvecError(f"{path} has no model.safetensors; save the model in this format, or leave out --tokens")
    with weights.open("rb") as file:
        return pack(read_arrays(file, str(weights)), positions)


def _settings(path: Path) -> tuple[int, float, int]:
    """Return heads, the epsilon of layer norms and the most tokens of a model. Refuse what is not BERT with a mean."""
    config = _read(path / "config.json")
    modules = [str(module.get("type", "")).rpartition(".")[2] for module in _read(path / "modules.json")]
    pooling = _read(path / "1_Pooling" / "config.json") if "Pooling" in modules else {}
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
    found = {
        "model_type": config.get("model_type"), "hidden_act": config.get("hidden_act"),
        "position_embedding_type": config.get("position_embedding_type", "absolute"),
        "modules": ", ".join(name for name in modules if name != "Normalize"), "pooling": ", ".join(modes),
    }  # fmt: skip
    wanted = {
        "model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute",
        "modules": "Transformer, Pooling", "pooling": "pooling_mode_mean_tokens",
    }  # fmt: skip
    for name, value in wanted.items():
        if found[name] != value:
            raise ClickvecError(
                f"--tokens and teacher_epochs are for BERT encoders with mean pooling, and {path.name} has {name} "
                f"{found[name]!r}, not {value!r}; leave them out"
            )
    sentence = _read(path / "sentence_bert_config.json")
    most = min(int(sentence.get("max_seq_length") or _MOST_LENGTH), int(config["max_position_embeddings"]))
    return int(config["num_attention_heads"]), float(config["layer_norm_eps"]), most


def _read(path: Path) -> Any:  # noqa: ANN401
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ClickvecError(f"{path} cannot be read: {error}") from None


def _tokenizer(path: Path, most: int) -> Any:  # noqa: ANN401
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise missing_extra("tokenizers", "transformer") from None
    if not (path / "tokenizer.json").is_file():
        raise ClickvecError(f"{path} has no tokenizer.json; leave out --tokens")
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    return tokenizer
