"""What makes training fast changes nothing: the gradient by hand is autograd's, and rows that wait miss nothing."""

import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from kernels import each_path

from clickvec.config import Recipe, recipe
from clickvec.data import dataset
from clickvec.text.token_table import TokenTable
from clickvec.text.tokens import canonical
from clickvec.text.trigrams import Vocabulary

torch = pytest.importorskip("torch")

from test_learning import log_of  # noqa: E402

from clickvec.training import loop, optimizers, process_settings  # noqa: E402
from clickvec.training.cpu import compiled, rows  # noqa: E402
from clickvec.training.cpu.compiled import Kernel  # noqa: E402
from clickvec.training.optimizers import Decay, Nesterov  # noqa: E402
from clickvec.training.towers import Batch  # noqa: E402

each_kernel = pytest.mark.parametrize("kernel", each_path(compiled.load))

# --- rows that wait ----------------------------------------------------------------------------------------------


def batch_of(trigrams: list[int]) -> Batch:
    nothing = torch.zeros(0, dtype=torch.int64)
    return Batch(torch.tensor(trigrams, dtype=torch.int64), nothing, (), nothing, nothing, nothing)


@st.composite
def courses(draw: st.DrawFn) -> tuple[list[float], list[list[int]], list[int]]:
    """A momentum for each update, the trigrams that it touches, and the updates after which all rows are settled."""
    momenta = draw(st.lists(st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.995]) | st.floats(0, 0.995), max_size=40))
    trigrams = st.lists(st.integers(0, 7), max_size=6)
    return momenta, [draw(trigrams) for _ in momenta], draw(st.lists(st.integers(1, 40), max_size=3))


def both_ways(
    course: tuple[list[float], list[list[int]], list[int]], kernel: Kernel, chosen: Recipe
) -> list[np.ndarray]:
    """Weights and changes at the end, lazy and dense; and at every update the touched rows must agree."""
    momenta, touches, settled = course
    rng, updates = np.random.default_rng(len(momenta)), len(momenta)
    start = rng.normal(size=(8, 16))
    dense, matrix = (torch.tensor(start, dtype=torch.float32, requires_grad=True) for _ in range(2))
    rule, lazy = Nesterov([dense]), rows.Lazy(matrix, momenta, kernel)
    for update, touched in enumerate(touches):
        gradient = rng.normal(size=(8, 16))
        rule.look_ahead(momenta[update])
        near, (local,) = lazy.look_ahead(update, [batch_of(touched)])
        used = rows.touched(kernel, [batch_of(touched)], 8)[0].tolist()
        assert sorted(used) == sorted(set(touched))
        assert [used[place] for place in local.trigrams.tolist()] == touched
        np.testing.assert_allclose(near.detach().numpy(), dense.detach().numpy()[used], rtol=2e-4, atol=2e-4)
        dense.grad = torch.zeros(8, 16)
        dense.grad[used] = torch.tensor(gradient[used], dtype=torch.float32)
        near.grad = dense.grad[used].clone()
        rate = optimizers.learning_rate_at(chosen, update, updates)
        rule.update(rate)
        lazy.update(update, rate)
        if update + 1 in settled:
            lazy.settle(update + 1)
            np.testing.assert_allclose(matrix.detach().numpy(), dense.detach().numpy(), rtol=2e-4, atol=2e-4)
    lazy.settle(updates)
    return [one.detach().numpy() for one in (matrix, dense, lazy.change, rule.change[0])]


@each_kernel
@hypothesis.given(course=courses(), schedule=st.sampled_from(["fixed", "linear"]))
def test_rows_that_wait_end_where_the_dense_update_brings_them(
    kernel: Kernel, course: tuple[list[float], list[list[int]], list[int]], schedule: str
) -> None:
    chosen = recipe("paper", learning_rate=0.3, schedule=schedule)
    weight, dense, change, dense_change = both_ways(course, kernel, chosen)
    np.testing.assert_allclose(weight, dense, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(change, dense_change, rtol=2e-4, atol=2e-4)


def test_a_row_that_waits_for_most_of_a_long_run_misses_nothing() -> None:
    updates = 20_000
    momenta = [0.9 if min(k, updates - 1 - k) < 400 else 0.995 for k in range(updates)]
    for touched_at, until in ((0, 5_000), (0, updates), (390, 420), (19_000, updates), (7, 7)):
        product, total = 1.0, 0.0
        for mu in momenta[touched_at:until]:
            product *= mu
            total += product
        found = Decay(momenta).between(np.array([touched_at]), until)
        np.testing.assert_allclose(np.concatenate(found), [product, total], rtol=1e-11, atol=1e-20)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.05])
@each_kernel
def test_a_lazy_run_is_a_dense_run(kernel: Kernel, shared: bool, clip: float, tmp_path, monkeypatch) -> None:  # noqa: ANN001
    monkeypatch.setattr(compiled, "kernel", lambda: kernel)
    words = [f"{first}{second}{third}" for first in "bdfgklm" for second in "aeio" for third in "nrst"]
    data = dataset.prepare(log_of([(word, f"{word} {words[-k]}") for k, word in enumerate(words)]), 10, 1000)
    chosen = recipe(
        "paper",
        cells=16,
        batch_size=8,
        epochs=2,
        clip_norm=clip,
        shared_tower=shared,
        learning_rate=0.05 if clip else 0.002,
    )
    runs = [loop.Run(data, chosen, tmp_path, None, torch.device("cpu")) for _ in range(2)]
    assert all(isinstance(one, rows.Lazy) for one in runs[0].updater.inputs.values())
    runs[1].updater.optimizer = optimizers.make(chosen, list(runs[1].towers.tensors().values()))
    for side, tower in runs[1].towers.towers.items():
        runs[1].updater.inputs[side], tower.use_compiled = rows.Whole(tower.weights["input"]), False
    for update in range(runs[0].updates):
        pairs = np.arange(8 * update, 8 * update + 8) % len(data.pair_query)
        lazy, dense = (run.updater.one_update(pairs, np.random.default_rng(update), update)[0].item() for run in runs)
        assert lazy == pytest.approx(dense, rel=1e-4)
    for one in runs[0].updater.inputs.values():
        one.settle(runs[0].updates)
    for name, weight in runs[0].towers.to_arrays().items():
        np.testing.assert_allclose(weight, runs[1].towers.to_arrays()[name], rtol=0, atol=1e-4, err_msg=name)


@each_kernel
def test_adam_sees_every_row_at_each_update(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "kernel", lambda: kernel)
    matrix = torch.zeros(4, 16, requires_grad=True)
    assert isinstance(rows.make(recipe("paper"), matrix, 10), rows.Lazy)
    dense = rows.make(recipe("default"), matrix, 10)
    assert isinstance(dense, rows.Dense)
    near, (local,) = dense.look_ahead(0, [batch_of([3, 1, 3])])
    first, second, third = local.trigrams.tolist()
    assert (first, {first, second}) == (third, {0, 1})
    near.grad = torch.ones(2, 16)
    dense.before_update(None)
    assert matrix.grad.sum(dim=1).tolist() == [0, 16, 0, 16]
    dense.update(0, 0.0)
    assert not matrix.grad.any()  # ready for the next


@each_kernel
def test_rows_that_fill_no_register_are_updated_whole(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "kernel", lambda: kernel)
    for name in ("paper", "default"):
        assert type(rows.make(recipe(name), torch.zeros(4, 3, requires_grad=True), 10)) is rows.Whole


def test_training_keeps_memory_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # so that no variable is set
    with process_settings.tuned_for_training():
        assert torch.zeros(3_000_000).sum() == 0
    assert sys.platform != "linux" or process_settings.DEFAULTS.keys() == process_settings.KEEP_MEMORY.keys()


# --- preparing ---------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["a", "ab", "#a##", "上海", "İ"]
)


@hypothesis.given(
    st.lists(st.tuples(st.lists(WORDS, max_size=5), st.lists(WORDS, max_size=5)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 12) | st.just(1000),
)
def test_preparing_counts_and_numbers_trigrams_as_the_vocabulary_does(
    pairs: list[tuple[list[str], list[str]]], max_words: int, limit: int
) -> None:
    data = dataset.prepare(log_of([(" ".join(query), " ".join(title)) for query, title in pairs]), max_words, limit)
    distinct = {(canonical(" ".join(query)), canonical(" ".join(title))) for query, title in pairs}
    expected = Vocabulary.count([text for pair in distinct for text in pair], limit)
    assert data.trigrams == expected.trigrams
    table = TokenTable(max_words)
    for side in (0, 1):
        table.read(dict.fromkeys(canonical(" ".join(pair[side])) for pair in pairs))
    by_token = expected.rows(table)
    np.testing.assert_array_equal(data.tokens.values, by_token.values)
    np.testing.assert_array_equal(data.tokens.offsets, by_token.offsets)
