"""The forward pass of a BERT encoder with mean pooling, as all-MiniLM-L6-v2 has it. It needs only torch.

`token_source.py` imports this file when vectors are computed, so that all else works without torch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.errors import ClickvecError
from clickvec.text.ragged import Ragged

WORDS, POSITIONS, KIND = (f"embeddings.{name}_embeddings" for name in ("word", "position", "token_type"))
_TOKENS_AT_ONCE = {"cuda": 2**18, "cpu": 2**9}  # on a CPU, so few that its cache holds them
_TRAINED_AT_ONCE = {"cuda": 2**15, "cpu": 2**9}  # on a GPU, so few that their gradient takes a few gigabytes


class Bert:
    """A BERT encoder. Its weights are in the form of `pack`: the word table in int8, with a scale for each word."""

    def __init__(
        self, weights: Mapping[str, NDArray[Any]], heads: int, epsilon: float, device: str, *, to_train: bool = False
    ) -> None:
        """Copy the weights to a device. They become float16 on a GPU, unless they are to be trained, else float32."""
        self.device, self._heads, self._epsilon = device, heads, epsilon
        kind = torch.float16 if device == "cuda" and not to_train else torch.float32
        tensors = {name: torch.from_numpy(np.array(values)).to(device) for name, values in weights.items()}
        words, scales = tensors.pop(f"{WORDS}.weight"), tensors.pop(f"{WORDS}.scales")
        tensors[f"{WORDS}.weight"] = words.to(torch.float32) * scales[:, None].to(torch.float32)
        self.weights = {name: tensor.to(kind).requires_grad_(to_train) for name, tensor in tensors.items()}
        self.layers = sum(name.endswith("attention.self.query.weight") for name in weights)
        self.dimensions = words.shape[1]
        self._at_once = (_TRAINED_AT_ONCE if to_train else _TOKENS_AT_ONCE)[device]

    @torch.no_grad()
    def encode(self, texts: Ragged) -> Tensor:
        """Return the unit vector of each text, given the numbers of its tokens. A text without tokens gets zeros."""
        vectors = torch.zeros(len(texts.lengths), self.dimensions, device=self.device)
        for rows, tokens, is_token in self.groups(texts):
            vectors[rows] = self.vectors(tokens, is_token)
        return vectors

    def groups(self, texts: Ragged) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield texts of similar length, padded: their rows, their tokens, and which of these are no padding.

        The longest come first, so that a lack of memory shows at once. Texts without tokens are left out.
        """
        lengths = np.asarray(texts.lengths)
        values = torch.from_numpy(texts.values.astype(np.int32)).to(self.device)
        offsets = torch.from_numpy(texts.offsets).to(self.device)
        order = np.argsort(lengths, kind="stable")
        order = order[np.searchsorted(lengths[order], 1) :]
        stop = len(order)
        while stop:
            longest = int(lengths[order[stop - 1]])
            first = max(0, stop - max(1, self._at_once // longest))
            rows = torch.from_numpy(order[first:stop]).to(self.device)
            at = torch.arange(longest, device=self.device)
            starts, counts = offsets[rows, None], (offsets[rows + 1] - offsets[rows])[:, None]
            is_token = at < counts
            yield rows, values[(starts + at).clamp(max=len(values) - 1)].long() * is_token, is_token
            stop = first

    def vectors(self, tokens: Tensor, is_token: Tensor) -> Tensor:
        """Return the unit vectors of padded texts."""
        texts, length = tokens.shape
        x = functional.embedding(tokens, self.weights[f"{WORDS}.weight"])
        x = x + self.weights[f"{POSITIONS}.weight"][:length] + self.weights[f"{KIND}.weight"][0]
        x = self._norm(x, "embeddings")
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(x, f"{name}.attention.self.{part}").view(texts, length, self._heads, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            read = functional.scaled_dot_product_attention(query, key, value, attn_mask=is_token[:, None, None, :])
            read = self._linear(read.transpose(1, 2).flatten(2), f"{name}.attention.output.dense")
            x = self._norm(x + read, f"{name}.attention.output")
            inner = functional.gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{name}.output.dense"), f"{name}.output")
        total = (x.float() * is_token[..., None]).sum(1)
        return functional.normalize(total, dim=1)  # the mean has the same direction

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self.weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(x, (self.dimensions,), weight, bias, self._epsilon)


def pack(weights: Mapping[str, NDArray[Any]], positions: int | None = None) -> dict[str, NDArray[Any]]:
    """Return the weights of a BERT model in the form that travels: int8 words, float16, so many positions or all."""
    names = {name.removeprefix("bert."): values for name, values in weights.items() if "pooler" not in name}
    kept = {name: values for name, values in names.items() if name.startswith(("embeddings.", "encoder.layer."))}
    needed = (f"{WORDS}.weight", f"{POSITIONS}.weight", f"{KIND}.weight", "encoder.layer.0.attention.self.query.bias")
    missing = [name for name in needed if name not in kept]
    if missing:
        raise ClickvecError(f"the weights of the model lack {missing[0]}, so it is no BERT encoder; leave out --tokens")
    packed = {
        name: np.asarray(values, np.float16) for name, values in kept.items() if not name.endswith("position_ids")
    }
    words = np.asarray(kept[f"{WORDS}.weight"], np.float32)
    scales = np.maximum(np.abs(words).max(1), 1e-9) / 127
    packed[f"{WORDS}.weight"] = np.rint(words / scales[:, None]).astype(np.int8)
    packed[f"{POSITIONS}.weight"] = packed[f"{POSITIONS}.weight"][:positions]
    return {**packed, f"{WORDS}.scales": scales.astype(np.float32)}
