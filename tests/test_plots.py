"""Figures are drawn for what has a figure, and nothing else; tables and progress look as they should."""

from pathlib import Path

import numpy as np
import pytest
from tiny import tiny

from clickvec import plots
from clickvec.encoder import Encoder
from clickvec.errors import ClickvecError
from clickvec.terminal import Line, table

pytest.importorskip("matplotlib")


def size_of(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.mark.parametrize("kind", ["lstm", "rnn", "bilstm"])
def test_gates_of_every_tower_that_reads_word_by_word(kind: str, tmp_path: Path) -> None:
    trace = Encoder(tiny(kind=kind)).trace_query("hot dogs in a bun")
    plots.gates(trace, tmp_path / "new" / "gates.png")
    width, height = size_of(tmp_path / "new" / "gates.png")
    assert width > height or kind != "lstm"
    assert height > 600 * (2 if kind == "bilstm" else 1)  # a row for each direction


@pytest.mark.parametrize(("kind", "text"), [("dssm", "hot dogs in a bun"), ("lstm", "")])
def test_where_there_is_nothing_to_draw_it_says_so(kind: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="nothing to draw"):
        plots.gates(Encoder(tiny(kind=kind)).trace_query(text), tmp_path / "gates.png")
    assert not list(tmp_path.iterdir())


def test_a_training_curve_with_and_without_dev(tmp_path: Path) -> None:
    rows = [{"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)]
    plots.training_curve(rows, tmp_path / "loss.png")
    plots.training_curve([row | {"dev": {"NDCG@10": 50.0}} for row in rows], tmp_path / "both.png")
    assert size_of(tmp_path / "loss.png") == size_of(tmp_path / "both.png")
    assert (tmp_path / "loss.png").read_bytes() != (tmp_path / "both.png").read_bytes()


def test_a_table_has_text_to_the_left_and_numbers_to_the_right() -> None:
    assert table([["system", "NDCG"], ["LSTM", "9.5"], ["a long name", "10.0"]]) == (
        "system       NDCG\n-----------------\nLSTM          9.5\na long name  10.0"
    )


def test_progress_counts_from_where_it_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(np.arange(0.0, 100.0, 10.0))
    monkeypatch.setattr("clickvec.terminal.time.monotonic", lambda: float(next(clock)))
    line = Line("epoch 2/3", total=1000, unit=" pairs", start=400)
    line.show(500, "loss 0.5")
    assert capsys.readouterr().err == "epoch 2/3 50% of 1,000, 0:50 left, 10 pairs/s, loss 0.5\n"


def test_a_cost_curve_of_systems_with_different_epochs(tmp_path: Path) -> None:
    plots.cost_curve({"LSTM-RNN": [2.0, 0.5, 0.1], "RNN": [2.5, 1.5], "none": []}, tmp_path / "new" / "cost.png")
    width, height = size_of(tmp_path / "new" / "cost.png")
    assert width > height
    with pytest.raises(ClickvecError, match="nothing to draw"):
        plots.cost_curve({"LSTM-RNN": []}, tmp_path / "none.png")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_costs_are_on_a_logarithmic_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: figures.append(figure))
    plots.cost_curve({"LSTM-RNN": [2.0, 0.5], "RNN": [2.5, 1.5]}, tmp_path / "cost.png")
    (axes,) = figures[0].axes
    assert axes.get_yscale() == "log"
    assert {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in axes.lines} == {
        "LSTM-RNN": (1, 2, 2.0, 0.5), "RNN": (1, 2, 2.5, 1.5)
    }  # fmt: skip
