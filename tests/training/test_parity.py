"""NumPy and torch compute the same towers: every kind, every option, ragged lengths and empty texts."""

import dataclasses
import itertools

import numpy as np
import pytest

from clickvec import config
from clickvec.config import POOLINGS, RECURRENT, Tower
from clickvec.model import forward
from clickvec.model.projection import project
from clickvec.text.ragged import Ragged, ragged

torch = pytest.importorskip("torch")

from clickvec.training.towers import TorchTower, make_batch  # noqa: E402

SMALL = Tower(cells=7, hidden=9, output=6)
TOWERS = [dataclasses.replace(SMALL, kind=kind) for kind in config.TOWERS]
TOWERS += [
    dataclasses.replace(SMALL, kind=kind, forget_gate=forget, peepholes=peep)
    for kind, forget, peep in itertools.product(("lstm", "bilstm"), (False, True), (False, True))
    if forget or peep
]
TOWERS += [dataclasses.replace(SMALL, kind="clsm", window=window) for window in (1, 5)]
POOLED = [
    dataclasses.replace(SMALL, kind=kind, pooling=pooling)
    for kind in RECURRENT
    for pooling in POOLINGS
    if pooling != "last"
]
TOWERS += [*POOLED, dataclasses.replace(SMALL, kind="bilstm", forget_gate=True, peepholes=True, pooling="mean")]
BATCHES = {
    "ragged": [3, 1, 0, 8, 8, 2, 0, 5],
    "one word": [1],
    "empty": [0],
    "all empty": [0, 0, 0],
    "equal": [4, 4, 4],
    "ascending": [1, 2, 3, 4, 5],
}
TRIGRAMS = 40


def name(tower: Tower) -> str:
    extra = f"-{tower.window}" if tower.kind == "clsm" else ""
    extra += f"-{tower.pooling}" if tower.pooling != "last" else ""
    return tower.kind + extra + "+forget" * tower.forget_gate + "+peep" * tower.peepholes


def random_case(tower: Tower, lengths: list[int], dtype: type, seed: int = 0) -> tuple[dict, Ragged, Ragged]:
    rng = np.random.default_rng(seed)
    weights = {key: rng.normal(0, 0.5, shape).astype(dtype) for key, shape in forward.shapes(tower, TRIGRAMS).items()}
    token_trigrams = ragged(rng.integers(0, TRIGRAMS, rng.integers(0, 6)).tolist() for _ in range(12))
    texts = ragged(rng.integers(0, 12, length).tolist() for length in lengths)
    return weights, token_trigrams, texts


@pytest.mark.parametrize("tower", TOWERS, ids=name)
@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-10)], ids=["f32", "f64"])
def test_numpy_equals_torch(tower: Tower, lengths: list[int], dtype: type, tolerance: float) -> None:
    weights, token_trigrams, texts = random_case(tower, lengths, dtype)
    by_numpy = forward.run(tower, weights, project(weights, token_trigrams), texts)
    torch_tower = TorchTower.from_arrays(tower, weights, getattr(torch, np.dtype(dtype).name))
    by_torch = torch_tower(make_batch(texts, token_trigrams)).detach().numpy()
    assert by_numpy.shape == (len(lengths), tower.dimensions)
    assert by_numpy.dtype == dtype
    np.testing.assert_allclose(by_numpy, by_torch, rtol=0, atol=tolerance)
    assert not by_numpy[np.array(lengths) == 0].any()


@pytest.mark.parametrize("tower", TOWERS, ids=name)
def test_a_text_alone_equals_the_text_in_a_batch(tower: Tower) -> None:
    weights, token_trigrams, texts = random_case(tower, BATCHES["ragged"], np.float64)
    table = project(weights, token_trigrams)
    together = forward.run(tower, weights, table, texts)
    for row in range(len(together)):
        alone = forward.run(tower, weights, table, texts.take(np.array([row])))
        np.testing.assert_allclose(alone[0], together[row], rtol=0, atol=1e-14)


@pytest.mark.parametrize("tower", TOWERS, ids=name)
def test_export_and_import_keep_every_bit(tower: Tower) -> None:
    weights, _, _ = random_case(tower, [1], np.float32)
    back = TorchTower.from_arrays(tower, weights, torch.float32).to_arrays()
    assert list(back) == list(weights)
    for key, value in weights.items():
        np.testing.assert_array_equal(back[key], value)


@pytest.mark.parametrize("tower", POOLED, ids=name)
def test_pooling_is_the_mean_or_max_of_the_outputs_in_the_trace(tower: Tower) -> None:
    weights, token_trigrams, texts = random_case(tower, [6], np.float64)
    record = forward.Record()
    (vector,) = forward.run(tower, weights, project(weights, token_trigrams), texts, record)
    outputs = [np.concatenate(tokens) for key, tokens in record.items() if key.endswith("output")]
    pool = np.mean if tower.pooling == "mean" else np.max
    np.testing.assert_allclose(vector, np.concatenate([pool(y, axis=0) for y in outputs]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("tower", POOLED, ids=name)
def test_the_gradient_of_pooling_is_that_of_finite_differences(tower: Tower) -> None:
    weights, token_trigrams, texts = random_case(tower, [3, 0, 4, 1], np.float64)
    torch_tower = TorchTower.from_arrays(tower, weights, torch.float64)
    batch = make_batch(texts, token_trigrams)
    names = [key for key in torch_tower.weights if key != "input"]

    def run(*given: torch.Tensor) -> torch.Tensor:
        torch_tower.weights |= dict(zip(names, given, strict=True))
        return torch_tower(batch)

    assert torch.autograd.gradcheck(run, [torch_tower.weights[key] for key in names])


def test_lstm_with_forget_gate_and_no_peepholes_is_torch_nn_lstm() -> None:
    tower = dataclasses.replace(SMALL, kind="lstm", forget_gate=True)
    weights, token_trigrams, texts = random_case(tower, [4, 4, 4], np.float64)
    table = project(weights, token_trigrams)
    reference = torch.nn.LSTM(TRIGRAMS, tower.cells, batch_first=True, dtype=torch.float64)
    order = ("input_gate", "forget_gate", "cell_input", "output_gate")  # torch's own order of the gates

    def stack(part: str, transpose: bool = False) -> torch.Tensor:
        parts = [weights[f"{gate}.{part}"].T if transpose else weights[f"{gate}.{part}"] for gate in order]
        return torch.tensor(np.concatenate(parts))

    with torch.no_grad():
        reference.weight_ih_l0.copy_(stack("input", transpose=True))
        reference.weight_hh_l0.copy_(stack("recurrent"))
        reference.bias_ih_l0.copy_(stack("bias"))
        reference.bias_hh_l0.zero_()
    counts = np.zeros((12, TRIGRAMS))
    for token in range(12):
        np.add.at(
            counts[token], token_trigrams.values[token_trigrams.offsets[token] : token_trigrams.offsets[token + 1]], 1
        )
    _, (last, _) = reference(torch.tensor(counts[texts.values.reshape(3, 4)]))
    np.testing.assert_allclose(forward.run(tower, weights, table, texts), last[0].detach().numpy(), atol=1e-12)
