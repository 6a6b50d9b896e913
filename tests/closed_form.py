"""The gradients printed in the paper's appendix and in its supplement III, in NumPy: an oracle for the tests.

It is written to be held against the paper, line for line, one pair of texts at a time; it is slow. Names are the
paper's: `Wrec3` is W_rec3, (cells, cells); `W3` is W_3, (cells, trigrams); `Wp3` is W_p3; `b3` is b_3. Equations go by
their labels in the paper's source; one that stands both in the appendix and in the supplement has a c at the end of its
label in the appendix (LSTM20c, LSTM20), and is cited by that.

Row t of an array is time t = 1..T, and row 0 is the state before the first word, y(0) = c(0) = 0. τ counts back from
the last word, t = T - τ, and runs over 0..T-1.

Where the text has a slip, the equation here is the corrected one, and `printed` names one slip to keep, so that a test
can show that it is one (see docs/paper.md). Even then the expressions of the LSTM-RNN leave paths out; `lstm_exact`
leaves out none.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]
Unfold = Literal["printed", "mended", "none"]

RNN_SLIPS = ("eq 7", "appR19", "tau")
LSTM_SLIPS = ("x(t)", "b_3")
PATHS = frozenset({"rec1", "rec2", "rec3", "rec4", "p1", "p2", "p3"})  # the arrows of the net that go back in time


class Text(NamedTuple):
    """A text: its words, and their trigrams l(t) = W_h x(t)."""

    x: Array  # (T + 1, words), one-hot
    l: Array  # (T + 1, trigrams), counts  # noqa: E741


class Click(NamedTuple):
    """A query r, the title that was clicked, and n that were not."""

    Q: Text
    D_plus: Text
    D_minus: Sequence[Text]


class Tower(NamedTuple):
    """y(t) of a text under some weights, and what turns v into one side of dR/dΛ, summed over τ."""

    run: Callable[[Weights, Text], Array]
    gradient: Callable[[Weights, Text, Array], Weights]


def loss(tower: Tower, w_Q: Weights, w_D: Weights, clicks: Iterable[Click], gamma: float) -> float:
    """Equations 4 and 5."""
    return float(sum(np.log1p(np.exp(-gamma * _deltas(tower, w_Q, w_D, click)).sum()) for click in clicks))


def loss_gradient(
    tower: Tower, w_Q: Weights, w_D: Weights, clicks: Iterable[Click], gamma: float, printed: str = ""
) -> tuple[Weights, Weights]:
    """Equation 7 for separate towers, ∇L(Λ_Q) and ∇L(Λ_D); for a shared tower their sum is ∇L(Λ), as in appR13."""
    sign = -1 if printed == "eq 7" else 1  # slip: α is already dl/dΔ, and the minus before the sum is one too many
    grad_Q, grad_D = _zeros_like(w_Q), _zeros_like(w_D)
    for click in clicks:
        delta = _deltas(tower, w_Q, w_D, click)
        alpha = -gamma * np.exp(-gamma * delta) / (1 + np.exp(-gamma * delta).sum())  # eq 8, appR2
        for alpha_j, D_j in zip(alpha, click.D_minus, strict=True):
            for part, D in ((1, click.D_plus), (-1, D_j)):  # dΔ/dΛ = dR(Q, D+)/dΛ - dR(Q, D-)/dΛ  [appR4, lstmTrain1]
                y_Q, y_D = tower.run(w_Q, click.Q), tower.run(w_D, D)
                v_Q, v_D = v(y_Q, y_D)
                _add(grad_Q, tower.gradient(w_Q, click.Q, v_Q), sign * alpha_j * part)
                _add(grad_D, tower.gradient(w_D, D, v_D), sign * alpha_j * part)
    return grad_Q, grad_D


def R(y_Q: Array, y_D: Array) -> float:  # noqa: N802
    """Equation 3, appR5."""
    return float(y_Q[-1] @ y_D[-1] / (np.linalg.norm(y_Q[-1]) * np.linalg.norm(y_D[-1])))


def v(y_Q: Array, y_D: Array) -> tuple[Array, Array]:
    """v_Q = dR/dy_Q(T_Q) and v_D = dR/dy_D(T_D); they are row τ = 0.

    [lstmTrain2, LSTM6; a, b, c: rdssmTrain6, appR5]. The other rows are what appR19 puts for earlier times.
    """
    a, b, c = y_Q[-1] @ y_D[-1], 1 / np.linalg.norm(y_Q[-1]), 1 / np.linalg.norm(y_D[-1])
    steps = max(len(y_Q), len(y_D))
    y_Q, y_D = (np.vstack([y[::-1], np.zeros((steps - len(y), y.shape[1]))]) for y in (y_Q, y_D))  # row τ is y(T - τ)
    return b * c * y_D - a * b**3 * c * y_Q, b * c * y_Q - a * b * c**3 * y_D


# RNN ------------------------------------------------------------------------------------------------------------------


def rnn_run(w: Weights, text: Text) -> Array:
    """Equation 1: y(0)..y(T)."""
    y = np.zeros((len(text.l), len(w["b"])))
    for t in range(1, len(y)):
        y[t] = np.tanh(w["W"] @ text.l[t] + w["Wrec"] @ y[t - 1] + w["b"])
    return y


def rnn_gradient(w: Weights, text: Text, v: Array, printed: str = "") -> Weights:
    """One side, Q or D, of dR/dΛ for the RNN."""
    y, l = rnn_run(w, text), text.l  # noqa: E741
    T = len(y) - 1
    delta = np.zeros_like(y)
    delta[T] = (1 - y[T]) * (1 + y[T]) * v[0]  # rdssmTrain5, appR14
    for tau in range(T):  # rdssmTrain4, appR15; its last turn, into time 0, is of use to no weight
        t = T - tau
        delta[t - 1] = (1 - y[t - 1]) * (1 + y[t - 1]) * (w["Wrec"].T @ delta[t])

    delta_W = delta
    if printed == "appR19":  # slip: each time as if it were the last, against appR15
        delta_W = np.array([(1 - y[t]) * (1 + y[t]) * v[T - t] for t in range(T + 1)])
    grad = _zeros_like(w)
    for tau in range(T):
        t = T - tau
        grad["Wrec"] += np.outer(delta[t], y[t - 1])  # rdssmTrain3, appR13, appR16
        grad["W"] += np.outer(delta_W[t], l[t])  # rdssmTrain7, appR18, appR20
        grad["b"] += delta[t]  # not in the paper, which leaves b out of Λ
    if printed == "tau":  # slip: τ = T is time 0, before the first word; with y(-1) = l(0) = 0 only b can tell
        grad["b"] += delta[0]
    return grad


# LSTM-RNN -------------------------------------------------------------------------------------------------------------


class States(NamedTuple):
    """Everything that equation 2 computes, row t for time t."""

    y_g: Array
    i: Array
    f: Array
    c: Array
    o: Array
    y: Array


def lstm_states(w: Weights, text: Text) -> States:
    """Equation 2; a forget gate without weights is 1, a peephole without weights is 0."""
    s = States(*np.zeros((6, len(text.l), len(w["b1"]))))

    def sigma(n: int, t: int, c: Array) -> Array:
        peephole = w[f"Wp{n}"] @ c if f"Wp{n}" in w else 0
        return 1.0 / (1 + np.exp(-(w[f"W{n}"] @ text.l[t] + w[f"Wrec{n}"] @ s.y[t - 1] + peephole + w[f"b{n}"])))

    for t in range(1, len(text.l)):
        s.y_g[t] = np.tanh(w["W4"] @ text.l[t] + w["Wrec4"] @ s.y[t - 1] + w["b4"])
        s.i[t] = sigma(3, t, s.c[t - 1])
        s.f[t] = sigma(2, t, s.c[t - 1]) if "W2" in w else 1
        s.c[t] = s.f[t] * s.c[t - 1] + s.i[t] * s.y_g[t]
        s.o[t] = sigma(1, t, s.c[t])
        s.y[t] = s.o[t] * np.tanh(s.c[t])
    return s


def lstm_run(w: Weights, text: Text) -> Array:
    """Equation 2: y(0)..y(T)."""
    return lstm_states(w, text).y


def lstm_gradient(w: Weights, text: Text, v: Array, printed: str = "", unfold: Unfold = "printed") -> Weights:
    """One side, Q or D, of dR/dΛ for the LSTM-RNN, by the paper's expressions.

    How they fit together, which the paper does not say: the expression of a gate at time t is the term of t = T - τ in
    the sum of equation 7; its δ(T) comes from v, and each earlier δ(t) from LSTM46 or LSTM47. dc(t)/dΛ runs forward
    from dc(0)/dΛ = 0, and holds y(1)..y(t-1) fixed.

    LSTM47 is short of a factor, and `unfold` says what to do: "printed" takes it as it is, "mended" puts the factor in,
    and "none" does not unfold gates 2, 3 and 4 at all, as dc(T)/dΛ reaches all the words by itself.
    """
    s, T, grad = lstm_states(w, text), len(text.l) - 1, _zeros_like(w)
    y, c, o, h = s.y, s.c, s.o, np.tanh(s.c)

    # Output gate
    delta = np.zeros_like(y)
    delta[T] = o[T] * (1 - o[T]) * h[T] * v[0]  # LSTM9c; v_Q(t) there is v_Q, and t is T_Q
    for t in range(T, 1, -1):
        delta[t - 1] = (o[t - 1] * (1 - o[t - 1]) * h[t - 1]) * (w["Wrec1"].T @ delta[t])  # LSTM46
    for t in range(1, T + 1):
        _add(grad, {
            "Wrec1": np.outer(delta[t], y[t - 1]),  # LSTM8c
            "W1": np.outer(delta[t], text.l[t]),  # LSTM10
            "Wp1": np.outer(delta[t], c[t]),  # LSTM11
            "b1": delta[t],  # LSTM11Bias
        })  # fmt: skip

    # Input gate (3), forget gate (2), input without gating (4)
    a = (1 - h) * (1 + h) * o  # LSTM19, LSTM29, LSTM39
    b = gate_slopes(s)
    dc_db3 = np.zeros_like(y)
    for n in (3, 2, 4) if "W2" in w else (3, 4):
        delta, error_c = np.zeros_like(y), np.zeros_like(y)
        delta[T] = error_c[T] = a[T] * v[0]  # LSTM21c, LSTM31c, LSTM41c, first line
        for t in range(T, 1, -1):
            if unfold == "printed":
                delta[t - 1] = a[t - 1] * (w[f"Wrec{n}"].T @ delta[t])  # LSTM47
            elif unfold == "mended":  # y(t-1) reaches c(t) by the slope b(t), and c(t) lives on in c(t+1)..c(T)
                delta[t - 1] = a[t - 1] * (w[f"Wrec{n}"].T @ (b[n][t] * error_c[t]))
                error_c[t - 1] = delta[t - 1] + s.f[t] * error_c[t]
        into = {f"Wrec{n}": y, f"Wp{n}": c, f"W{n}": text.x if printed == "x(t)" else text.l}  # slip: x for l
        dc = {name: np.zeros((y.shape[1], source.shape[1])) for name, source in into.items()}
        dc[f"b{n}"] = np.zeros(y.shape[1])
        for t in range(1, T + 1):
            for name, source in into.items():
                at = source[t] if name == f"W{n}" else source[t - 1]
                # Wrec: LSTM21c, 31c, 41c, second line. W: LSTM23c, 33c, 43c. Wp: LSTM25c, 35c.
                dc[name] = s.f[t][:, None] * dc[name] + np.outer(b[n][t], at)
            before = dc_db3[t - 1] if printed == "b_3" and n == 2 else dc[f"b{n}"]  # slip: dc(t-1)/db_3 for db_2
            dc[f"b{n}"] = s.f[t] * before + b[n][t]  # LSTM27c, 37c, 45c
            if n == 3:
                dc_db3[t] = dc["b3"]
            # diag(δ(t)) dc(t)/dΛ: LSTM20c, 22c, 24c, 26c; LSTM30c, 32c, 34c, 36c; LSTM40c, 42c, 44c
            _add(grad, {name: (delta[t] * value.T).T for name, value in dc.items()})
    return grad


def gate_slopes(s: States) -> dict[int, Array]:
    """b_i, b_f and b_g, by the number of the gate: how far c(t) moves with what goes into the gate at t."""
    before = np.vstack([np.zeros_like(s.c[:1]), s.c[:-1]])  # c(t-1)
    return {
        3: s.y_g * s.i * (1 - s.i),  # LSTM21c, LSTM19
        2: before * s.f * (1 - s.f),  # LSTM31c, LSTM29
        4: s.i * (1 - s.y_g) * (1 + s.y_g),  # LSTM41c, LSTM39
    }


def lstm_exact(w: Weights, text: Text, v: Array, paths: frozenset[str] = PATHS) -> Weights:
    """One side of dR/dΛ for the LSTM-RNN by back-propagation through time, along the given paths and c(t-1) -> c(t).

    With all the paths it is exact. `rec3` is y(t-1) -> i(t), `p3` is c(t-1) -> i(t), and so on; `p1` is c(t) -> o(t).
    """
    s, T, grad = lstm_states(w, text), len(text.l) - 1, _zeros_like(w)
    h, b = np.tanh(s.c), gate_slopes(s)
    gates = (1, 2, 3, 4) if "W2" in w else (1, 3, 4)

    def back(path: str, error: Array) -> Array | float:
        return w[f"W{path}"].T @ error if path in paths and f"W{path}" in w else 0.0

    error_y, error_c = v[0], np.zeros_like(v[0])  # dR/dy(t), and what comes to c(t) from c(t+1) and its gates
    for t in range(T, 0, -1):
        e = {1: error_y * h[t] * s.o[t] * (1 - s.o[t])}  # dR/d(what goes into gate n at time t)
        error_c = error_c + error_y * s.o[t] * (1 - h[t] ** 2) + back("p1", e[1])
        e |= {n: error_c * b[n][t] for n in (2, 3, 4)}
        for n in gates:
            peeped = s.c[t] if n == 1 else s.c[t - 1]
            _add(grad, {
                f"W{n}": np.outer(e[n], text.l[t]), f"Wrec{n}": np.outer(e[n], s.y[t - 1]),
                f"Wp{n}": np.outer(e[n], peeped), f"b{n}": e[n],
            })  # fmt: skip
        error_c = s.f[t] * error_c + back("p2", e[2]) + back("p3", e[3])
        error_y = np.zeros_like(error_y) + sum(back(f"rec{n}", e[n]) for n in gates)
    return grad


def _deltas(tower: Tower, w_Q: Weights, w_D: Weights, click: Click) -> Array:
    """Δ_j of every negative  [below eq 5, appR3]."""
    y_Q = tower.run(w_Q, click.Q)
    clicked = R(y_Q, tower.run(w_D, click.D_plus))
    return np.array([clicked - R(y_Q, tower.run(w_D, D_j)) for D_j in click.D_minus])


def _zeros_like(w: Weights) -> Weights:
    return {name: np.zeros_like(value) for name, value in w.items()}


def _add(total: Weights, more: Weights, times: float = 1.0) -> None:
    """Add what is there for the weights of the total; a weight that the tower lacks is left out."""
    for name in total:
        if name in more:
            total[name] = total[name] + times * more[name]
