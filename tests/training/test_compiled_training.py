"""What is compiled for training computes what torch does, whoever shares the work."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import each_path

from clickvec.config import Tower, recipe
from clickvec.data import dataset
from clickvec.errors import ClickvecError
from clickvec.model import forward
from clickvec.model.packing import pack
from clickvec.native import loader, lstm
from clickvec.text.ragged import Ragged, ragged

torch = pytest.importorskip("torch")

from kernels import misaligned  # noqa: E402
from test_learning import log_of  # noqa: E402

from clickvec.training import loop, towers  # noqa: E402
from clickvec.training.cpu import compiled  # noqa: E402
from clickvec.training.cpu.compiled import CompiledBag, CompiledLosses, CompiledRecurrence, Kernel  # noqa: E402
from clickvec.training.device import warn_if_slow  # noqa: E402
from clickvec.training.towers import TorchTower, make_batch, read_texts  # noqa: E402
from clickvec.training.update import losses, unit  # noqa: E402

ROOT = Path(__file__).parents[2]
each_kernel = pytest.mark.parametrize("kernel", each_path(compiled.load))


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-6) -> None:
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=0, atol=tolerance * scale)


def leaves(seed: int, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.normal(0, 0.2, shape), dtype=dtype, requires_grad=True) for shape in shapes]


# --- the recurrence ----------------------------------------------------------------------------------------------

LENGTHS = {
    "one": [1],
    "alike": [3] * 8,
    "more than a register holds": [5] * 61,
    "ragged": [0, 7, 1, 0, 2, 2, 9, 4, 3, 1, 5, 6, 6, 1, 0],
    "several pieces": np.random.default_rng(0).integers(0, 12, 400).tolist(),
}


def read(
    table: torch.Tensor, tokens: torch.Tensor, bias: torch.Tensor, recurrent: torch.Tensor, sizes: tuple[int, ...]
) -> torch.Tensor:
    """The vectors by autograd, longest text first."""
    tower = Tower("lstm", cells=recurrent.shape[1], forget_gate=len(recurrent) == 4 * recurrent.shape[1])
    weights = {}
    for name, whole in (("bias", bias), ("recurrent", recurrent)):
        parts = whole.split(tower.cells)
        weights |= {f"{gate}.{name}": part for gate, part in zip(forward.gates(tower), parts, strict=True)}
    return read_texts(tower, weights, table, tokens, sizes)


@each_kernel
@pytest.mark.parametrize("gates", [3, 4])
@pytest.mark.parametrize("cells", [16, 48, 64, 96, 112])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_the_recurrence_is_that_of_torch(kernel: Kernel, gates: int, cells: int, lengths: list[int]) -> None:
    texts = ragged([[(7 * text + 3 * token) % 23 for token in range(length)] for text, length in enumerate(lengths)])
    packed = pack(texts)
    order, tokens = torch.from_numpy(packed.order), torch.from_numpy(packed.tokens.astype(np.int64))
    shapes = [(23, gates * cells), (gates * cells,), (gates * cells, cells)]
    gradient = torch.tensor(np.random.default_rng(1).normal(size=(len(lengths), cells)), dtype=torch.float32)
    table, bias, recurrent = leaves(0, *shapes)
    found = CompiledRecurrence.apply(table, tokens, bias, recurrent, packed.sizes, order, kernel)
    found_gradients = torch.autograd.grad(found, (table, bias, recurrent), gradient)
    exact = leaves(0, *shapes, dtype=torch.float64)
    expected = read(exact[0], tokens, exact[1], exact[2], packed.sizes)
    whole = torch.zeros(len(lengths), cells, dtype=torch.float64).index_copy(0, order[: len(expected)], expected)
    close(found, whole)
    for one, other in zip(found_gradients, torch.autograd.grad(whole, exact, gradient.double()), strict=True):
        close(one, other)


@each_kernel
def test_a_table_may_be_some_columns_of_a_larger_one(kernel: Kernel) -> None:
    whole, bias, recurrent = leaves(3, (5, 2 * 48), (48,), (48, 16))
    given = (torch.tensor([0, 1, 2, 4]), bias, recurrent, (2, 2), torch.tensor([1, 0]), kernel)
    part = CompiledRecurrence.apply(whole[:, 48:], *given)
    assert torch.equal(part, CompiledRecurrence.apply(whole[:, 48:].contiguous(), *given))


@each_kernel
def test_gates_that_are_all_but_closed_keep_their_digits_and_not_a_number_stays_one(kernel: Kernel) -> None:
    table, bias, recurrent = leaves(4, (3, 48), (48,), (48, 16))
    tokens, order = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2])

    def run(shift: float) -> torch.Tensor:
        shifted = bias.detach() + torch.tensor([0.0, 1, 1]).repeat_interleave(16) * shift
        return CompiledRecurrence.apply(table, tokens, shifted, recurrent, (3,), order, kernel)

    for shift in (-12.0, 12.0):
        shifted = bias.detach().double() + torch.tensor([0.0, 1, 1], dtype=torch.float64).repeat_interleave(16) * shift
        expected = read(table.double(), tokens, shifted, recurrent.double(), (3,))
        np.testing.assert_allclose(run(shift).detach().numpy(), expected.detach().numpy(), rtol=2e-5)
    assert torch.isfinite(run(-1e30)).all()
    with torch.no_grad():
        table[1, 3] = torch.nan
    assert torch.isnan(run(0.0)).any(dim=1).tolist() == [False, True, False]


@each_kernel
def test_a_gradient_is_taken_once(kernel: Kernel) -> None:
    table, bias, recurrent = leaves(5, (2, 48), (48,), (48, 16))
    found = CompiledRecurrence.apply(table, torch.tensor([0]), bias, recurrent, (1,), torch.tensor([0]), kernel).sum()
    found.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        found.backward()


# --- rows, bags and layout ---------------------------------------------------------------------------------------

BAGS = st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=300)


@each_kernel
@given(bags=BAGS, width=st.sampled_from([16, 96, 288, 304]))
def test_a_bag_is_that_of_torch(kernel: Kernel, bags: list[list[int]], width: int) -> None:
    packed = ragged(bags)
    ids, starts = torch.from_numpy(packed.values.astype(np.int64)), torch.from_numpy(packed.offsets)
    matrix, gradient = leaves(len(bags), (31, width), (len(bags), width))
    found = CompiledBag.apply(matrix, ids, starts, kernel)
    (d_matrix,) = torch.autograd.grad(found, matrix, gradient)
    expected = torch.nn.functional.embedding_bag(ids, matrix, starts, mode="sum", include_last_offset=True)
    close(found, expected)
    close(d_matrix, torch.autograd.grad(expected, matrix, gradient)[0], 1e-5)


@each_kernel
@given(texts=BAGS)
def test_texts_are_laid_out_as_text_pack_does(kernel: Kernel, texts: list[list[int]]) -> None:
    rows_of, trigrams = ragged(texts), ragged([[token % 7] * (token % 4) for token in range(31)])
    distinct, numbers = kernel.distinct(rows_of.values)
    assert distinct.tolist() == list(dict.fromkeys(rows_of.values.tolist()))
    assert distinct[numbers].tolist() == rows_of.values.tolist()
    order, sizes, there, back = kernel.pack(numbers, rows_of.offsets)
    for found, backwards in ((there, False), (back, True)):
        expected = pack(rows_of, backwards=backwards)
        assert (order.tolist(), sizes) == (expected.order.tolist(), expected.sizes)
        assert distinct[found].tolist() == expected.tokens.tolist()
    values, starts = kernel.take(trigrams, distinct)
    taken = trigrams.take(distinct.numpy())
    assert (values.tolist(), starts.tolist()) == (taken.values.tolist(), taken.offsets.tolist())
    touched, (places,) = kernel.touched([values], 7)
    assert touched.tolist() == sorted(set(values.tolist()))
    assert touched[places].tolist() == values.tolist()


@each_kernel
@given(ids=st.lists(st.integers(0, 9), max_size=400))
def test_uses_are_bags_of_places(kernel: Kernel, ids: list[int]) -> None:
    found, starts = kernel.uses(torch.tensor(ids, dtype=torch.int64), 10)
    for kind in range(10):
        expected = [place for place, one in enumerate(ids) if one == kind]
        assert found[starts[kind] : starts[kind + 1]].tolist() == expected


@each_kernel
@pytest.mark.parametrize("count", [0, 1, 500])
def test_rows_step_as_in_torch(kernel: Kernel, count: int) -> None:
    rng = np.random.default_rng(count)
    chosen = torch.from_numpy(np.sort(rng.permutation(600)[:count]))
    P, S = (torch.from_numpy(rng.random(count)).float() for _ in range(2))
    matrix, change, gradient = (one.detach() for one in leaves(8, (600, 48), (600, 48), (count, 48)))
    expected_matrix, expected_change = matrix.clone(), change.clone()
    near = kernel.look_ahead(matrix, change, chosen, S)
    close(near, matrix[chosen] + S[:, None] * change[chosen])
    kernel.step(matrix, change, chosen, P, near, gradient, 0.3)
    expected_matrix[chosen] = near - 0.3 * gradient
    expected_change[chosen] = P[:, None] * expected_change[chosen] - 0.3 * gradient
    close(matrix, expected_matrix)
    close(change, expected_change)


# --- the loss ----------------------------------------------------------------------------------------------------


@each_kernel
@pytest.mark.parametrize("gamma", [0.0, 1.0, 10.0, 200.0])
def test_the_losses_are_those_of_the_equations(kernel: Kernel, gamma: float) -> None:
    rng = np.random.default_rng(2)
    candidates, counts = torch.from_numpy(rng.integers(0, 30, (12, 5))), torch.from_numpy(rng.random((12, 4)) < 0.7)
    counts[3] = False  # no negative counts
    y_q, y_d = leaves(9, (12, 32), (30, 32))
    with torch.no_grad():
        y_q[2], y_d[4] = 0, 0  # texts without a known word
    found = CompiledLosses.apply(y_q, y_d, candidates, counts, gamma, kernel)
    R = torch.einsum("rd,rjd->rj", unit(y_q), unit(y_d)[candidates])
    expected = losses(gamma, R[:, 0], R[:, 1:], counts)
    close(found, expected)
    weights = torch.from_numpy(rng.random(12)).float()
    for one, other in zip(
        torch.autograd.grad(found, (y_q, y_d), weights), torch.autograd.grad(expected, (y_q, y_d), weights), strict=True
    ):
        close(one, other, 1e-5)


# --- all of it ---------------------------------------------------------------------------------------------------


@each_kernel
def test_what_it_does_not_know_is_left_to_torch(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(compiled, "kernel", lambda: kernel)
    monkeypatch.setattr(towers.CompiledRecurrence, "apply", lambda *given: asked.append(given) or given[0])
    usual = Tower("lstm", cells=16)
    batch, lanes = make_batch(ragged([[0, 1], [1]]), ragged([[0], [1]])), kernel.lanes
    for tower, dtype, known in (
        (usual, torch.float32, True),
        (Tower("lstm", cells=lanes + 1), torch.float32, False),
        (Tower("lstm", cells=16, peepholes=True), torch.float32, False),
        (Tower("lstm", cells=16, pooling="mean"), torch.float32, False),
        (usual, torch.float64, False),
    ):
        made = TorchTower(tower, 2)
        made.weights = {
            name: torch.zeros(shape, dtype=dtype) for name, shape in made.shapes.items() if not name.endswith(".input")
        }
        made.weights["input"] = torch.zeros(2, sum(made.shapes[name][1] for name in made.input_names), dtype=dtype)
        asked.clear()
        made(batch)
        assert bool(asked) == known, (tower, dtype)


def small_log() -> dataset.Dataset:
    words = [f"{first}{second}{third}" for first in "bdfgklm" for second in "aeio" for third in "nrst"]
    return dataset.prepare(log_of([(word, f"{word} {words[-k]}") for k, word in enumerate(words)]), 10, 1000)


@pytest.mark.parametrize("settings", [{}, {"tower": "bilstm"}, {"forget_gate": True, "shared_tower": True}], ids=str)
@pytest.mark.parametrize("name", ["paper", "default"])
@each_kernel
def test_a_run_is_the_run_without_it(
    kernel: Kernel, name: str, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for used in (kernel, None):
        monkeypatch.setattr(compiled, "kernel", lambda used=used: used)
        chosen = recipe(name, cells=32, batch_size=16, epochs=2, **settings)
        run = loop.Run(small_log(), chosen, tmp_path, None, torch.device("cpu"))
        pairs = np.arange(run.updates * 16).reshape(-1, 16) % len(run.data.pair_query)
        some = [run.updater.one_update(few, np.random.default_rng(k), k).loss.item() for k, few in enumerate(pairs)]
        run.updater.settle(run.updates)
        found.append((some, run.towers.to_arrays()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4)
    for key, weight in found[1][1].items():
        np.testing.assert_allclose(
            found[0][1][key], weight, rtol=0, atol=2e-3 if name == "default" else 1e-4, err_msg=key
        )


@each_kernel
def test_the_number_of_threads_changes_nothing(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "kernel", lambda: kernel)
    rng, gradients = np.random.default_rng(0), []
    texts, trigrams = ragged(rng.integers(0, 40, (900, 6)).tolist()), ragged(rng.integers(0, 50, (40, 4)).tolist())
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            tower = TorchTower(Tower("lstm", cells=32), 50)
            shapes = {name: shape for name, shape in tower.shapes.items() if not name.endswith(".input")}
            shapes["input"] = (50, 96)
            tower.weights = dict(zip(shapes, leaves(1, *shapes.values()), strict=True))
            vectors = tower(make_batch(texts, trigrams))
            vectors.backward(torch.ones_like(vectors))
            gradients.append([vectors, *(weight.grad for weight in tower.weights.values())])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_it_can_be_turned_off() -> None:
    code = "from clickvec.training.cpu import compiled; print(compiled.kernel())"
    call, clean = [sys.executable, "-c", code], {**os.environ, "CLICKVEC_COMPILED": "0"}
    assert (
        subprocess.run(call, env=clean, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout
        == "None\n"
    )


def speed_advice(cells: int, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What training logs about its speed before the first update."""
    caplog.clear()
    warn_if_slow(torch.device("cpu"), recipe("paper", cells=cells))
    return [record.getMessage() for record in caplog.records]


def test_training_says_that_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "kernel", lambda: None)
    monkeypatch.delenv(loader.SWITCH, raising=False)
    (said,) = speed_advice(16, caplog)
    assert "compiled" in said
    monkeypatch.setenv(loader.SWITCH, "0")
    assert speed_advice(16, caplog) == []


@each_kernel
def test_training_says_which_cells_fill_registers(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "kernel", lambda: kernel)
    monkeypatch.delenv(loader.SWITCH, raising=False)
    assert speed_advice(16, caplog) == []
    (said,) = speed_advice(17, caplog)
    assert "cells=17" in said
    assert f"cells={ {8: 24, 16: 32}[kernel.lanes] }" in said


def test_a_path_that_training_does_not_have_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "kernel", compiled.kernel.__wrapped__)  # not what it gave before
    monkeypatch.setattr(lstm, "load", lambda _: True)
    monkeypatch.setattr(compiled, "load", lambda _: None)
    monkeypatch.setenv(loader.SWITCH, "avx2")
    for tower in ("lstm", "rnn"):
        with pytest.raises(ClickvecError, match=r"CLICKVEC_COMPILED is 'avx2', but for training .*use 0, 1"):
            loop.Run(small_log(), recipe("paper", tower=tower), tmp_path, None, torch.device("cpu"))


# --- memory ------------------------------------------------------------------------------------------------------


Seen = tuple[str, tuple[float, ...]]  # the name of a function, and the numbers and addresses that it was given


def watched(kernel: Kernel, see: Callable[[Seen], object]) -> Kernel:
    """A kernel whose calls are seen before they are made."""

    def watch(name: str) -> Callable[..., int]:
        def call(*given: float) -> int:
            see((name, given))
            return kernel.functions[name](*given)

        return call

    return kernel._replace(functions={name: watch(name) for name in kernel.functions})


@each_kernel
def test_the_room_of_threads_is_for_as_many_as_there_are(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may call torch.set_num_threads at any time."""
    calls: list[Seen] = []
    using, rooms, threads = watched(kernel, calls.append), {}, iter(range(1, 1000))
    monkeypatch.setattr(torch, "get_num_threads", lambda: next(threads))
    make_empty = torch.Tensor.new_empty

    def new_empty(like: torch.Tensor, *shape: int) -> torch.Tensor:
        made = make_empty(like, *shape)
        rooms[made.data_ptr()] = made  # kept, so that no other one gets its address
        return made

    monkeypatch.setattr(torch.Tensor, "new_empty", new_empty)
    table, bias, recurrent = leaves(3, (5, 48), (48,), (48, 16))
    order = torch.arange(400)
    found = CompiledRecurrence.apply(table, torch.arange(800) % 5, bias, recurrent, (400, 400), order, using)
    found.sum().backward()
    shared = [(given[-2], given[-1]) for name, given in calls if name in ("read_texts", "back_texts")]
    assert len(shared) == 2
    for room, count in shared:
        assert len(rooms[room]) == count


@each_kernel
def test_misaligned_arrays_give_the_same(kernel: Kernel) -> None:
    texts, trigrams = ragged([[3, 1], [], [2, 2, 0]]), ragged([[0], [1, 2], [], [4, 3]])
    calls: list[Seen] = []
    results, using = [], watched(kernel, calls.append)
    for made in (np.copy, misaligned):
        distinct, numbers = using.distinct(made(texts.values))
        order, sizes, there, back = using.pack(numbers, made(texts.offsets))
        taken = using.take(Ragged(made(trigrams.values), made(trigrams.offsets)), distinct)
        results.append([distinct, numbers, order, torch.tensor(sizes), there, back, *taken])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    arrays = {"number_values": (0,), "pack_texts": (1,), "find_starts": (0,), "take_rows": (0, 1)}
    addresses = [given[place] for name, given in calls for place in arrays[name]]
    assert not [address for address in addresses if address % 4]


@each_kernel
def test_what_is_not_contiguous_is_refused_or_copied(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        kernel.sum_bags(torch.zeros(16, 4).T, torch.tensor([0]), torch.tensor([0, 1]))
    table, bias, recurrent = leaves(3, (5, 48), (48,), (48, 16))
    given = (torch.tensor([0, 1, 2, 4]), bias, recurrent, (2, 2), torch.tensor([1, 0]), kernel)
    expected = CompiledRecurrence.apply(table, *given)
    assert torch.equal(CompiledRecurrence.apply(table.T.contiguous().T, *given), expected)


@each_kernel
def test_pieces_are_whole_groups_and_alike(kernel: Kernel) -> None:
    for texts, gates, cells in ((1, 3, 96), (256, 3, 96), (1280, 3, 96), (1280, 4, 96), (5000, 4, 512), (97, 3, 16)):
        piece = kernel.piece(texts, gates, cells)
        assert piece % (kernel.sums // gates) == 0
        assert 1 <= -(-texts // piece) <= 32
        assert -(-texts // piece) * gates * cells**2 <= max(2**22, 4 * gates * cells**2)
