"""Train Skip-Thought vectors (Kiros et al. 2015) on contiguous prose, in torch. skipthought.py runs the model.

A GRU encodes a sentence as a vector h_i. Two more GRUs, conditioned on h_i, predict the words of the previous and the
next sentence (section 2.1). Adam maximises the log-probabilities of equation 10. Uni-skip and bi-skip are trained one
after the other. Weights have the names of the published code; the decoders have

    decoder_f_*, decoder_b_*   W, b, U, Wx, bx, Ux, as in the encoder, for the next and the previous sentence
    decoder_f_C, _Cx, ...      C_r and C_z concatenated, and C, of equations 5 to 7. The published code has none: it
                               puts h_i into the first state of the decoder, which is zero here
    ff_logit_W, ff_logit_b     the vocabulary matrix V of equation 9, one row per word

On a CPU, use the sampled softmax: it covers only the words w of the minibatch and subtracts log q_w from their logits,
where q_w is the probability that a minibatch contains w (importance sampling, Jean et al. 2015).
"""

import dataclasses
import math
import time
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clickvec.errors import ClickvecError, missing_extra
from clickvec.lab.other_systems.prose import Corpus
from clickvec.lab.other_systems.skipthought import EOS, GRU, UNKNOWN, Array, Skip, SkipThought, split_words
from clickvec.model.packing import Packed, pack
from clickvec.progress import Progress, ignore
from clickvec.storage.files import check_replaceable, replacing, write_json, write_lines
from clickvec.text.ragged import Ragged
from clickvec.training.device import pick_device

FILES = ("uni_skip.npz", "bi_skip.npz", "utable.npy", "btable.npy", "dictionary.txt", "about.json")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a model; the defaults are those of the paper."""

    words: int = 20_000  # size of the vocabulary, including <eos> and UNK
    embedding: int = 620
    uni: int = 2400  # units of the uni-skip encoder
    bi: int = 1200  # units of each of the two bi-skip encoders
    epochs: int = 5
    batch_size: int = 128
    max_words: int = 30  # longer sentences and their neighbours are skipped, as in the published code
    learning_rate: float = 1e-3
    clip: float = 10.0  # maximal norm of the gradient
    sampled_softmax: bool = False


PAPER = Settings()
SMALL = Settings(words=10_000, embedding=200, uni=300, bi=150, epochs=3, learning_rate=2e-3, sampled_softmax=True)
TINY = Settings(
    words=2_000, embedding=64, uni=96, bi=48, epochs=4, batch_size=64, learning_rate=4e-3, sampled_softmax=True
)


class Trained(NamedTuple):
    """A model and its training loss by epoch, for uni-skip and bi-skip: the mean of -log P over words."""

    model: SkipThought
    losses: dict[str, list[float]]


def train(
    sentences: Sequence[str],
    settings: Settings = PAPER,
    out: str | Path | None = None,
    *,
    source: str = "",
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> Trained:
    """Train on sentences in order, with "" where contiguity ends, and write the model to `out`.

    `source` describes the sentences in about.json.
    """
    begun, torch_device = time.perf_counter(), pick_device(device)
    if out is not None:
        check_replaceable(Path(out), "uni_skip.npz", FILES)
    corpus = Corpus.read(sentences, settings.words, settings.max_words)
    skips, losses = [], {}
    for kind in ("uni", "bi"):
        weights = initial_weights(settings, len(corpus.words), kind, seed)
        learner = Learner(weights, corpus, settings, torch_device)
        losses[kind] = [learner.epoch(kind, number, seed, progress) for number in range(settings.epochs)]
        skips.append(as_skip(learner.arrays()))
    model = SkipThought(corpus.words, skips)
    if out is not None:
        about = {"source": source, "settings": dataclasses.asdict(settings), "seed": seed, "losses": losses}
        save(model, Path(out), {**about, "sentences": len(corpus.middles), "seconds": time.perf_counter() - begun})
    return Trained(model, losses)


def save(model: SkipThought, out: Path, about: dict[str, Any]) -> None:
    """Write a model in the format of the published files, which `SkipThought.load` reads."""
    uni, bi = model.skips
    with replacing(out, "uni_skip.npz", FILES) as folder:
        for skip, name in ((uni, "uni"), (bi, "bi")):
            encoders = [("encoder_", skip.forward), *([("encoder_r_", skip.backward)] if skip.backward else [])]
            arrays = {prefix + key: array for prefix, gru in encoders for key, array in gru._asdict().items()}
            np.savez(folder / f"{name}_skip.npz", Wemb=skip.Wemb, **arrays)
            np.save(folder / f"{name[0]}table.npy", skip.table)
        write_lines(folder / "dictionary.txt", model.words)
        write_json(folder / "about.json", about)


# --- the model ---------------------------------------------------------------------------------------------------


def initial_weights(settings: Settings, words: int, kind: str, seed: int) -> dict[str, NDArray[np.float32]]:
    """Return orthogonal recurrent weights, zero biases, and all others uniform in [-0.1, 0.1] (section 3)."""
    rng = np.random.default_rng([seed, kind == "bi"])
    E, H = settings.embedding, settings.uni if kind == "uni" else settings.bi
    vector = H if kind == "uni" else 2 * H

    def uniform(*shape: int) -> NDArray[np.float32]:
        return rng.uniform(-0.1, 0.1, shape).astype(np.float32)

    def orthogonal(size: int) -> NDArray[np.float32]:
        return np.linalg.qr(rng.standard_normal((size, size)))[0].astype(np.float32)

    def gru(prefix: str, size: int) -> dict[str, NDArray[np.float32]]:
        U = np.concatenate([orthogonal(size), orthogonal(size)], axis=1)
        parts = GRU(uniform(E, 2 * size), np.zeros(2 * size, np.float32), U,
                    uniform(E, size), np.zeros(size, np.float32), orthogonal(size))  # fmt: skip
        return {prefix + name: array for name, array in parts._asdict().items()}

    weights = {"Wemb": uniform(words, E), **gru("encoder_", H)}
    if kind == "bi":
        weights |= gru("encoder_r_", H)
    for prefix in ("decoder_f_", "decoder_b_"):
        conditions = {f"{prefix}C": uniform(vector, 2 * vector), f"{prefix}Cx": uniform(vector, vector)}
        weights |= gru(prefix, vector) | conditions
    return weights | {"ff_logit_W": uniform(words, vector), "ff_logit_b": np.zeros(words, np.float32)}


def as_skip(arrays: dict[str, Array]) -> Skip:
    """Return the weights that encoding needs."""
    prefixes = [prefix for prefix in ("encoder_", "encoder_r_") if f"{prefix}W" in arrays]
    encoders = (GRU(*(arrays[prefix + key] for key in GRU._fields)) for prefix in prefixes)
    return Skip(arrays["Wemb"], arrays["Wemb"], *encoders)


def run_gru(
    w: dict[str, Tensor], prefix: str, x: Tensor, sizes: Sequence[int], conditions: Tensor | None = None
) -> Tensor:
    """Return states h^t of a GRU over packed embeddings, packed likewise. `conditions` are C h_i, added at each t."""
    a = x @ torch.cat([w[f"{prefix}W"], w[f"{prefix}Wx"]], dim=1) + torch.cat([w[f"{prefix}b"], w[f"{prefix}bx"]])
    U, H = torch.cat([w[f"{prefix}U"], w[f"{prefix}Ux"]], dim=1), len(w[f"{prefix}Ux"])
    h, states = x.new_zeros(sizes[0], H), []
    for n, a_t in zip(sizes, torch.split(a, list(sizes)), strict=True):
        h, a_t = h[:n], a_t if conditions is None else a_t + conditions[:n]
        U_h = h @ U
        r, z = torch.sigmoid(a_t[:, : 2 * H] + U_h[:, : 2 * H]).chunk(2, dim=1)
        h_bar = torch.tanh(a_t[:, 2 * H :] + r * U_h[:, 2 * H :])
        h = torch.lerp(h_bar, h, z)  # z h + (1 - z) h̄
        states.append(h)
    return torch.cat(states)


def encode(w: dict[str, Tensor], texts: Ragged) -> Tensor:
    """Return h_i of each text, (texts, dimensions)."""
    halves = []
    for prefix in ("encoder_", "encoder_r_") if "encoder_r_W" in w else ("encoder_",):
        batch = pack(texts, backwards=prefix == "encoder_r_")
        states = run_gru(w, prefix, functional.embedding(_ids(batch.tokens, w), w["Wemb"]), batch.sizes)
        starts = np.concatenate(([0], np.cumsum(batch.sizes)))
        last = starts[texts.lengths[batch.order] - 1] + np.arange(len(batch.order))
        halves.append(states[_ids(last[np.argsort(batch.order)], w)])
    return torch.cat(halves, dim=1)


def decode(w: dict[str, Tensor], prefix: str, h_i: Tensor, batch: Packed) -> Tensor:
    """Return the states that predict each word of a packed batch from the previous words and h_i: equations 5 to 8."""
    words = np.split(batch.tokens, np.cumsum(batch.sizes)[:-1])
    before = np.concatenate([word[:n] for word, n in zip(words, batch.sizes[1:], strict=False)])
    x = functional.embedding(_ids(before, w), w["Wemb"])
    x = torch.cat([x.new_zeros(batch.sizes[0], x.shape[1]), x])  # the first word has no previous word
    C = torch.cat([w[f"{prefix}C"], w[f"{prefix}Cx"]], dim=1)
    return run_gru(w, prefix, x, batch.sizes, h_i[_ids(batch.order, w)] @ C)


def _ids(values: NDArray[np.integer], w: dict[str, Tensor]) -> Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(w["Wemb"].device)


class Learner:
    """The weights and their training."""

    def __init__(
        self, weights: dict[str, NDArray[np.float32]], corpus: Corpus, settings: Settings, device: torch.device
    ) -> None:
        self.corpus, self.settings = corpus, settings
        self.w = {name: torch.tensor(array, device=device, requires_grad=True) for name, array in weights.items()}
        self.adam = torch.optim.Adam(self.w.values(), lr=settings.learning_rate, fused=True)

    def arrays(self) -> dict[str, Array]:
        """Return the weights as arrays."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.w.items()}

    def epoch(self, kind: str, number: int, seed: int, progress: Progress | None) -> float:
        """Go through the prose once; returns the mean over words of -log P."""
        total, words, seen = 0.0, 0, 0
        label, sentences, report = f"{kind}-skip epoch {number + 1}", len(self.corpus.middles), progress or ignore
        report(label, 0, sentences)
        for middles in self.corpus.batches(self.settings.batch_size, (seed, number)):
            loss, count = self.loss(middles)
            self.adam.zero_grad()
            torch.autograd.backward(loss / count)
            torch.nn.utils.clip_grad_norm_(self.w.values(), self.settings.clip)
            self.adam.step()
            total, words, seen = total + loss.item(), words + count, seen + len(middles)
            if not math.isfinite(total):
                raise ClickvecError(f"the loss of {kind}-skip became NaN; train with a lower learning rate")
            report(label, seen, sentences, f"loss {total / words:.3f}")
        return total / words

    def loss(self, middles: NDArray[np.int64]) -> tuple[Tensor, int]:
        """Return equation 10: the sum of -log P over the words of the neighbouring sentences, and their number."""
        h_i, states, words = encode(self.w, self.corpus.sentences.take(middles)), [], []
        for prefix, offset in (("decoder_f_", 1), ("decoder_b_", -1)):
            neighbours = pack(self.corpus.sentences.take(middles + offset))
            states.append(decode(self.w, prefix, h_i, neighbours))
            words.append(neighbours.tokens)
        return self._cross_entropy(torch.cat(states), np.concatenate(words)), sum(map(len, words))

    def _cross_entropy(self, states: Tensor, words: NDArray[np.integer]) -> Tensor:
        """Equation 9."""
        V, b = self.w["ff_logit_W"], self.w["ff_logit_b"]
        if self.settings.sampled_softmax:
            sample, words = np.unique(words, return_inverse=True)
            log_q = np.log(-np.expm1(len(words) * np.log1p(-self.corpus.frequency[sample])))
            V, b = V[_ids(sample, self.w)], b[_ids(sample, self.w)] - torch.from_numpy(log_q).to(b)
        return functional.cross_entropy(torch.addmm(b, states, V.T), _ids(words, self.w), reduction="sum")


# --- vocabulary expansion (section 2.2) --------------------------------------------------------------------------


def expand(model: SkipThought, words: Sequence[str], vectors: Array) -> SkipThought:
    """Return the model with embeddings for new words: a linear map takes word vectors into its embedding space.

    The map is fitted by least squares on the shared words, without <eos> and UNK. Words of the model keep their
    embeddings.
    """
    known = {word: row for row, word in enumerate(model.words)}
    special = (EOS, UNKNOWN)
    shared = [row for row, word in enumerate(words) if word in known and word not in special]
    new = [row for row, word in enumerate(words) if word not in known]
    if not shared:
        raise ClickvecError("the texts share no word with the Skip-Thought model, so its vocabulary cannot be expanded")
    with_bias = np.column_stack([vectors[shared], np.ones(len(shared))]).astype(np.float64)
    rows, unseen = [known[words[row]] for row in shared], np.asarray(vectors[new], dtype=np.float32)
    skips = []
    for skip in model.skips:
        W = np.linalg.lstsq(with_bias, skip.table[rows], rcond=None)[0].astype(np.float32)
        table = np.concatenate([skip.table[: len(model.words)], unseen @ W[:-1] + W[-1]])
        skips.append(skip._replace(table=table))
    return SkipThought([*model.words, *(words[row] for row in new)], skips)


def word_vectors(
    texts: Iterable[str], size: int = 300, epochs: int = 5, seed: int = 0
) -> tuple[list[str], NDArray[np.float32]]:
    """Return words and their word2vec vectors (gensim, skip-gram), the same in every run."""
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise missing_extra("gensim", "baselines") from error
    sentences = [words for words in map(split_words, texts) if words]
    made = Word2Vec(sentences, vector_size=size, epochs=epochs, min_count=1, sg=1, seed=seed, workers=1,
                    hashfxn=lambda word: zlib.crc32(word.encode()))  # fmt: skip
    return list(made.wv.index_to_key), np.asarray(made.wv.vectors, dtype=np.float32)
