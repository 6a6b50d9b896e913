"""The paper's printed gradients against autograd: what is exact, what is a slip, what is left out (docs/paper.md)."""

import dataclasses
import itertools
from functools import partial
from pathlib import Path

import closed_form as paper
import numpy as np
import pytest
from closed_form import Click, Text, Unfold, Weights

from clickvec.config import Tower
from clickvec.model import forward
from clickvec.text.ragged import Ragged, ragged

torch = pytest.importorskip("torch")

from clickvec.training.towers import TorchTower, make_batch  # noqa: E402
from clickvec.training.update import losses, unit  # noqa: E402

GAMMA = 3.0
WORDS = TRIGRAMS = 6  # as many words as trigrams, so that x(t) for l(t) is a wrong value and not only a wrong shape
LENGTHS = [(3, 5, 4, 1, 2), (4, 2, 3, 5, 6)]  # of a query, its clicked title and n = 3 others
RNN = Tower("rnn", hidden=4)
LSTMS = [
    Tower("lstm", cells=4, forget_gate=forget, peepholes=peep)
    for forget, peep in itertools.product((False, True), (False, True))
]
FULL = LSTMS[-1]
NUMBER = {"output_gate": "1", "forget_gate": "2", "input_gate": "3", "cell_input": "4", "hidden": ""}
LETTER = {"input": "W", "recurrent": "Wrec", "peephole": "Wp", "bias": "b"}
BACK_IN_TIME = ("Wrec1", "Wrec2", "Wrec3", "Wrec4", "Wp1", "Wp2", "Wp3")


def name(tower: Tower) -> str:
    return tower.kind + "+forget" * tower.forget_gate + "+peep" * tower.peepholes


def paper_names(arrays: forward.Weights) -> Weights:
    found = {}
    for key, value in arrays.items():
        gate, part = key.split(".")
        found[LETTER[part] + NUMBER[gate]] = value.T if part == "input" else value
    return found


class Log:
    """Two towers and a click log, drawn at random, as the package has them and as the paper has them."""

    def __init__(
        self,
        tower: Tower,
        lengths: list[tuple[int, ...]],
        zero: frozenset[str] = frozenset(),
        scale: float = 1,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.tower = tower
        self.trigrams = [rng.integers(0, TRIGRAMS, rng.integers(1, 5)).tolist() for _ in range(WORDS)]
        self.words = [[rng.integers(0, WORDS, length).tolist() for length in row] for row in lengths]
        self.w_Q, self.w_D = (
            {key: rng.uniform(-scale, scale, shape) for key, shape in forward.shapes(tower, TRIGRAMS).items()}
            for _ in "QD"
        )
        for weights in (self.w_Q, self.w_D):
            for key, value in weights.items():
                if set(paper_names({key: value})) & zero:
                    value[:] = 0
        self.clicks = [Click(texts[0], texts[1], texts[2:]) for texts in map(self._texts, self.words)]

    def _texts(self, row: list[list[int]]) -> list[Text]:
        W_h = np.zeros((TRIGRAMS, WORDS))
        for word, found in enumerate(self.trigrams):
            np.add.at(W_h[:, word], found, 1)
        one_hot = [np.vstack([np.zeros(WORDS), np.eye(WORDS)[words]]) for words in row]
        return [Text(x, x @ W_h.T) for x in one_hot]

    def autograd(self, shared: bool = False) -> tuple[Weights, ...]:
        """∇L(Λ_Q) and ∇L(Λ_D), or ∇L(Λ) of a shared tower."""
        towers = [
            TorchTower.from_arrays(self.tower, w, torch.float64) for w in (self.w_Q, self.w_D)[: 1 if shared else 2]
        ]
        tokens = ragged(self.trigrams)

        def embed(texts: Ragged, tower: TorchTower) -> torch.Tensor:
            return unit(tower(make_batch(texts, tokens)))

        y_Q = embed(ragged(row[0] for row in self.words), towers[0])
        y_D = embed(ragged(words for row in self.words for words in row[1:]), towers[-1]).unflatten(0, (len(y_Q), -1))
        R = (y_Q[:, None] * y_D).sum(2)
        loss = losses(GAMMA, R[:, 0], R[:, 1:], torch.ones_like(R[:, 1:], dtype=torch.bool)).sum()
        loss.backward()
        self.loss = loss.item()
        for tower in towers:
            tower.weights = {key: weight.grad for key, weight in tower.weights.items()}
        return tuple(paper_names(tower.to_arrays()) for tower in towers)

    def by_paper(
        self, shared: bool = False, printed: str = "", exact: bool = False, **options: object
    ) -> tuple[Weights, ...]:
        """The same by the paper's expressions, or by exact back-propagation in NumPy."""
        w_Q, w_D = paper_names(self.w_Q), paper_names(self.w_Q if shared else self.w_D)
        if self.tower.kind == "rnn":
            tower = paper.Tower(paper.rnn_run, partial(paper.rnn_gradient, printed=printed, **options))
        elif exact:
            tower = paper.Tower(paper.lstm_run, partial(paper.lstm_exact, **options))
        else:
            tower = paper.Tower(paper.lstm_run, partial(paper.lstm_gradient, printed=printed, **options))
        self.paper_loss = paper.loss(tower, w_Q, w_D, self.clicks, GAMMA)
        grad_Q, grad_D = paper.loss_gradient(tower, w_Q, w_D, self.clicks, GAMMA, printed)
        return ({key: grad_Q[key] + grad_D[key] for key in grad_Q},) if shared else (grad_Q, grad_D)


def wrong(found: tuple[Weights, ...], true: tuple[Weights, ...]) -> set[str]:
    """The weights whose gradients differ on some side."""
    return {
        key
        for side, true_side in zip(found, true, strict=True)
        for key in true_side
        if not np.allclose(side[key], true_side[key], rtol=0, atol=1e-12)
    }


# What is exact


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_rnn_expressions_equal_autograd(shared: bool) -> None:
    log = Log(RNN, LENGTHS)
    assert not wrong(log.by_paper(shared), log.autograd(shared))
    assert log.paper_loss == pytest.approx(log.loss, rel=1e-13)


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize("tower", LSTMS, ids=name)
def test_exact_bptt_equals_autograd(tower: Tower, shared: bool) -> None:
    log = Log(tower, LENGTHS)
    assert not wrong(log.by_paper(shared, exact=True), log.autograd(shared))
    assert log.paper_loss == pytest.approx(log.loss, rel=1e-13)


def exact_when(weight: str, words: int, unfold: Unfold) -> set[str]:
    """What has to be zero for the paper's expression of a weight to be exact, for texts of so many words."""
    kind, gate = weight[:-1], weight[-1]
    if gate == "1":  # c(t) is held fixed: nothing may go from y(t-1) to c(t)
        fewest = 3 if kind == "Wrec" else 2  # y(0) = 0, so W_rec is of no use before the second word
        return {"Wrec2", "Wrec3", "Wrec4"} if words >= fewest else set()
    # y(t-1), and what the peepholes see, are held fixed: nothing may go back but c(t-1) -> c(t)
    first_use = 2 if gate == "2" or kind in ("Wrec", "Wp") else 1
    if words <= first_use:
        return {"Wp1"} if words == first_use else set()
    return set(BACK_IN_TIME) - ({f"Wrec{gate}"} if unfold == "mended" else set())


@pytest.mark.parametrize("unfold", ["printed", "mended", "none"])
@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_lstm_expressions_are_exact_just_when_docs_say(words: int, unfold: Unfold) -> None:
    """All 128 ways of setting recurrent weights and peepholes to zero."""
    log, v = Log(FULL, [(words, words)]), np.random.default_rng(1).normal(size=(1, FULL.cells))
    query, w = log.clicks[0].Q, paper_names(log.w_Q)
    for choice in itertools.product((False, True), repeat=len(BACK_IN_TIME)):
        zero = set(itertools.compress(BACK_IN_TIME, choice))
        some = {key: np.zeros_like(value) if key in zero else value for key, value in w.items()}
        differ = wrong((paper.lstm_gradient(some, query, v, unfold=unfold),), (paper.lstm_exact(some, query, v),))
        assert differ == {key for key in w if not exact_when(key, words, unfold) <= zero}


def test_the_two_ends_of_that_table_against_autograd() -> None:
    one_word, nothing_back = Log(LSTMS[0], [(1, 1, 1, 1)]), Log(FULL, LENGTHS, zero=frozenset(BACK_IN_TIME))
    for log in (one_word, nothing_back):
        assert not wrong(log.by_paper(), log.autograd())
    full = Log(FULL, LENGTHS)
    assert wrong(full.by_paper(), full.autograd()) == set(paper_names(full.w_Q))


# What is left out


@pytest.mark.parametrize("tower", LSTMS, ids=name)
def test_what_the_lstm_expressions_leave_out(tower: Tower) -> None:
    """They are back-propagation along fewer paths; LSTM47 as it is printed is along none that the net has."""
    log = Log(tower, LENGTHS)
    not_unfolded, mended, printed = (log.by_paper(unfold=unfold) for unfold in ("none", "mended", "printed"))
    no_path = log.by_paper(exact=True, paths=frozenset())
    for gate in "1234" if tower.forget_gate else "134":
        own_path = log.by_paper(exact=True, paths=frozenset({f"rec{gate}"}))
        others = {key for key in own_path[0] if key[-1] != gate}
        assert wrong(mended, own_path) <= others
        if gate == "1":  # LSTM46 is as it should be
            assert wrong(printed, own_path) <= others
        else:
            assert wrong(not_unfolded, no_path) <= others
            assert wrong(printed, own_path) - others == set(own_path[0]) - others
            assert wrong(printed, no_path) - others == set(no_path[0]) - others


def flat(found: Weights, like: Weights) -> np.ndarray:
    return np.concatenate([found[key].ravel() for key in like])


def cosine(found: Weights, true: Weights) -> float:
    a, b = flat(found, true), flat(true, true)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def distance(found: Weights, true: Weights) -> float:
    return float(np.linalg.norm(flat(found, true) - flat(true, true)) / np.linalg.norm(flat(true, true)))


@pytest.mark.slow
def test_how_much_they_leave_out() -> None:
    """The table in docs/paper.md, over 40 random nets: mean cosine with the exact gradient of the title tower."""
    columns: list[dict[str, str]] = []
    for tower, scale in ((LSTMS[0], 0.1), (LSTMS[0], 1), (FULL, 1)):
        found: dict[str, list[list[float]]] = {}
        for seed in range(40):
            log = Log(dataclasses.replace(tower, cells=8), [(3, 8, 8)], scale=scale, seed=seed)
            _, true = log.by_paper(exact=True)
            readings = [log.by_paper(unfold=unfold)[1] for unfold in ("printed", "mended", "none")]
            for gate in {key[-1] for key in true}:
                part = {key: value for key, value in true.items() if key[-1] == gate}
                found.setdefault(gate, []).append([cosine(reading, part) for reading in readings])
            found.setdefault("all", []).append([cosine(reading, true) for reading in readings])
            found.setdefault("error", []).append([distance(reading, true) for reading in readings])
        means = {row: np.median(x, axis=0) if row == "error" else np.mean(x, axis=0) for row, x in found.items()}
        columns.append({row: " / ".join(f"{x:.2f}" for x in mean) for row, mean in means.items()})
    rows = {"1": "output gate", "3": "input gate", "2": "forget gate", "4": "input without gating"}
    rows |= {"all": "all together", "error": "all together: distance"}
    docs = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
    for row, title in rows.items():
        assert f"| {title} | {' | '.join(column.get(row, '-') for column in columns)} |" in docs


# What is a slip


@pytest.mark.parametrize(
    ("printed", "weights"), [("eq 7", {"W", "Wrec", "b"}), ("appR19", {"W"}), ("tau", {"b"})], ids=paper.RNN_SLIPS
)
def test_each_slip_of_the_rnn_is_one(printed: str, weights: set[str]) -> None:
    log = Log(RNN, LENGTHS)
    assert wrong(log.by_paper(printed=printed), log.autograd()) == weights


def test_the_sign_of_equation_7_climbs_the_loss() -> None:
    log = Log(RNN, LENGTHS)
    for side, true_side in zip(log.by_paper(printed="eq 7"), log.autograd(), strict=True):
        assert cosine(side, true_side) == pytest.approx(-1)


@pytest.mark.parametrize(("printed", "weights"), [("x(t)", {"W2", "W3", "W4"}), ("b_3", {"b2"})], ids=paper.LSTM_SLIPS)
def test_each_slip_of_the_lstm_is_one(printed: str, weights: set[str]) -> None:
    """With nothing back in time but the cell the expressions are exact, so that a slip stands alone."""
    log = Log(FULL, LENGTHS, zero=frozenset(BACK_IN_TIME))
    assert wrong(log.by_paper(printed=printed), log.autograd()) == weights


@pytest.mark.parametrize("gate", "234")
def test_lstm47_is_short_of_a_factor(gate: str) -> None:
    """With no recurrence but its own, the expressions of a gate ought to be exact; with the factor they are."""
    log = Log(FULL, LENGTHS, zero=frozenset(BACK_IN_TIME) - {f"Wrec{gate}"})
    own, true = {f"W{gate}", f"Wrec{gate}", f"b{gate}"} | ({f"Wp{gate}"} - {"Wp4"}), log.autograd()
    assert not wrong(log.by_paper(unfold="mended"), true) & own
    assert wrong(log.by_paper(unfold="printed"), true) & own == own


def test_the_loss_bounds_the_0_1_loss_only_in_base_2() -> None:
    """A pair just the wrong way round costs ln 2, which is less than 1."""
    assert np.log1p(np.exp(-GAMMA * -0.01)) < 1 < np.log2(1 + np.exp(-GAMMA * -0.01))
