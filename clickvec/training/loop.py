"""Algorithm 1: epochs over shuffled minibatches; after each, the dev set; at the end, a model folder.

While a run is going on, its state is in `OUT.run`: `checkpoint.safetensors`, `metrics.jsonl`, and `best`, the model
folder that would be kept if it ended now. `OUT` itself is written once, when the run is complete.
"""

import json
import logging
import math
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe
from clickvec.data import Judged, dataset
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError, Interrupted
from clickvec.evaluation.judged_lists import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.training import alarms, card, checkpoint, memory, mining, scratch, update
from clickvec.training.negatives import Ids, Sampler
from clickvec.training.objective import unit
from clickvec.training.pair import TowerPair
from clickvec.training.paths import check_inputs, check_places, clear, hold, pick_device
from clickvec.training.towers import make_batch
from clickvec.training.update import Plain, Seed

log = logging.getLogger(__name__)
CHECKPOINT_SECONDS = 300.0
LOOK_SECONDS = 0.2  # between looks at the loss: a GPU must be stopped for it
SAMPLE_TITLES = 512
SHUFFLE, MINE = 2, 4  # the first word of a seed, so that no two streams are the same; pair.py and update.py have others


def train(
    data: Dataset, recipe: Recipe, out: str | Path, *, dev: Judged | None = None, device: str = "auto",
    resume: bool = False, overwrite: bool = False, about_data: str = "", progress: Progress | None = None,
) -> Model:  # fmt: skip
    """Train a model and write it to `out`. See `Run` for the parts."""
    out = Path(out)
    check_inputs(data, recipe, dev)
    run_folder, on = check_places(out, resume, overwrite), pick_device(device)
    # Kernels and graphs go to the device of the moment.
    at_device = torch.cuda.device(on) if on.type == "cuda" else nullcontext()
    with hold(run_folder, out), memory.kept(), at_device:
        check_places(out, resume, overwrite)  # again: another run may have ended in between
        run = Run(data, recipe, run_folder, dev, on, about_data, progress or ignore)
        if resume:
            run.restore()
        elif overwrite:
            clear(run_folder)
        run.all_epochs()
        model = run.finish(out)
        shutil.rmtree(run_folder, ignore_errors=True)
    return model


class Run:
    """One training run: towers, optimizer, sampler, and where it is."""

    def __init__(
        self, data: Dataset, recipe: Recipe, run_folder: Path, dev: Judged | None,
        device: torch.device, about_data: str, progress: Progress,
    ) -> None:  # fmt: skip
        self.data, self.recipe, self.folder, self.dev, self.device = data, recipe, run_folder, dev, device
        self.about_data, self.progress = about_data, progress
        self.pairs = len(data.pair_query)
        self.batches = math.ceil(self.pairs / recipe.batch_size)
        self.updates = self.batches * recipe.epochs
        self.towers = TowerPair(recipe, len(data.trigrams), device)
        self.sampler = Sampler(data, recipe, run_folder)
        self.state = checkpoint.State()
        self._data_name = checkpoint.name_data(data, dev)
        self._facts = dataset.describe(data, scratch.array(run_folder, (data.clicked_titles,), np.float64))
        self._order: Ids = scratch.array(run_folder, (self.pairs,), np.int64)  # of the pairs in an epoch
        weights = _click_weights(data, recipe, run_folder)
        self.updater = update.make(data, recipe, self.towers, self.sampler, weights, self.updates)

    # --- epochs --------------------------------------------------------------------------------------------------

    def all_epochs(self) -> None:
        """Run to the end, from wherever the state is."""
        _warn(alarms.one_title_dominates(float(self._facts["share of the most clicked title"])))
        with _stop_flag() as stop:
            while self.state.epoch < self.recipe.epochs and not self._out_of_patience():
                self._one_epoch(stop)

    def _one_epoch(self, stop: "_Stop") -> None:
        state, size = self.state, self.recipe.batch_size
        self._shuffle()
        label = f"epoch {state.epoch + 1}/{self.recipe.epochs}"
        self.progress(label, state.batch * size, self.pairs)
        total = torch.tensor(state.loss_sum, dtype=torch.float64, device=self.device)
        masked = torch.tensor(state.masked, device=self.device)
        begun = saved = looked = time.monotonic()
        self._mine()
        negatives: float | Tensor = -1.0  # of the fullest minibatch; not known where a resumed run has none left
        seed = Seed(self.recipe.seed, state.epoch, self.batches)
        for outcome in self.updater.epoch(self._order, seed, state.batch):
            total, masked = total + outcome.loss, masked + outcome.masked
            negatives = _larger(negatives, outcome.negatives)
            state.batch, state.weight_sum = state.batch + 1, state.weight_sum + outcome.weight
            if time.monotonic() - looked > LOOK_SECONDS or state.batch == self.batches or stop.is_set():
                state.loss_sum, state.masked, looked = float(total), int(masked), time.monotonic()
                self._check_finite()
                if state.batch < self.batches:
                    self.progress(
                        label, state.batch * size, self.pairs, f"loss {state.loss_sum / state.weight_sum:.4f}"
                    )
            now = time.monotonic()
            if stop.is_set() or now - saved > CHECKPOINT_SECONDS:
                state.loss_sum, state.masked, saved = float(total), int(masked), now
                self._check_finite(weights=True)
                state.seconds += now - begun
                begun = now
                self._save_checkpoint()
                if stop.is_set():
                    raise Interrupted(f"{self._stopped('stopped')}; go on with --resume", stop.signal)
        state.seconds += time.monotonic() - begun
        self._end_epoch(float(negatives))

    def _shuffle(self) -> None:
        """Bring the pairs into the order of the epoch."""
        for some in scratch.blocks(self.pairs):
            self._order[some] = np.arange(some.start, some.stop)
        np.random.default_rng([SHUFFLE, self.recipe.seed, self.state.epoch]).shuffle(self._order)

    def _mine(self) -> None:
        """Find the hard negatives of an epoch at its beginning; the first has none, as its model knows nothing yet."""
        if self.recipe.hard_negatives and self.state.epoch and not self.state.batch:
            rng = np.random.default_rng([MINE, self.recipe.seed, self.state.epoch])
            mining.mine(self.data, self.towers, rng, self.device, self.sampler.mined)

    def _check_finite(self, *, weights: bool = False) -> None:
        """Stop when the loss is not a number; with `weights`, which takes longer, when any kept number is not."""
        bad = "the loss" if not math.isfinite(self.state.loss_sum) else ""
        if not bad and weights:
            numbers = (tensor for tensor in self._tensors().values() if tensor.is_floating_point())
            bad = "" if all(torch.isfinite(tensor).all() for tensor in numbers) else "a weight"
        if bad:
            raise ClickvecError(f"{self._stopped(f'{bad} is not a number any more: stopped')}; start again, step lower")

    def _stopped(self, what: str) -> str:
        kept = f"the best model so far is {self.folder / 'best'}" if self.state.history else "no epoch was complete"
        return f"{what} in epoch {self.state.epoch + 1} of {self.recipe.epochs}; {kept}"

    def _end_epoch(self, negatives: float) -> None:
        """Measure, keep the model if it is to be kept, write metrics and checkpoint."""
        self.updater.settle((self.state.epoch + 1) * self.batches)
        self._check_finite(weights=True)
        state = self.state
        loss = state.loss_sum / state.weight_sum
        average = self.updater.average if isinstance(self.updater, Plain) else None
        with average.in_place_of_the_weights() if average else nullcontext():
            arrays, (similar, collapse) = self.towers.to_arrays(), self._mean_cosine()
        row: dict[str, Any] = {
            "epoch": state.epoch + 1, "loss": loss, "pairs_per_second": self.pairs * (state.epoch + 1) / state.seconds,
            "seconds": state.seconds, "masked": state.masked, "mean_cosine": similar,
        }  # fmt: skip
        if self.dev is not None:
            result = evaluate([Neural(Encoder(self.model(arrays)), "dev")], self.dev)
            row["dev"] = dict(zip(result.measures, result.means[0].tolist(), strict=True))
            if row["dev"]["NDCG@10"] > state.best_score:
                state.best_epoch, state.best_score = state.epoch + 1, row["dev"]["NDCG@10"]
        state.history.append(row)
        state.epoch, state.batch, state.loss_sum, state.weight_sum, state.masked = state.epoch + 1, 0, 0.0, 0.0, 0
        if self._kept_epoch() == state.epoch:
            model = self.model(arrays)
            folder.save_model(model, self.folder / "best", card.write(model))
        self._save_checkpoint()
        log.info(_describe(row, self.recipe.epochs))
        _warn(collapse, alarms.learns_nothing(loss, negatives))

    def _mean_cosine(self) -> tuple[float, str | None]:
        sample = np.linspace(0, self.data.clicked_titles - 1, min(SAMPLE_TITLES, self.data.clicked_titles)).astype(
            np.int64
        )
        with torch.no_grad():
            batch = make_batch(self.data.titles.take(sample), self.data.tokens, self.device)
            return alarms.collapsed(unit(self.towers.title(batch)).cpu().numpy())

    def _kept_epoch(self) -> int:
        """The epoch whose model is kept if the run ends now."""
        return self.state.best_epoch if self.recipe.keep == "best" and self.dev is not None else self.state.epoch

    def _out_of_patience(self) -> bool:
        return 0 < self.recipe.patience <= self.state.epoch - self.state.best_epoch

    # --- files ---------------------------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must keep, besides the state."""
        tensors = self.towers.tensors() | self.updater.tensors()
        if self.recipe.hard_negatives:
            tensors["mined"] = torch.from_numpy(self.sampler.mined)
        return tensors

    def _save_checkpoint(self) -> None:
        checkpoint.save(
            self.folder / "checkpoint.safetensors", self.state, self.recipe, self._data_name, self._tensors()
        )
        with files.replacing_file(self.folder / "metrics.jsonl") as file:
            file.write(self._metrics().encode())

    def restore(self) -> None:
        """Go back to the checkpoint."""
        path, tensors = self.folder / "checkpoint.safetensors", self._tensors()
        self.state = checkpoint.restore(path, self.recipe, self._data_name, tensors)
        if self.state.batch > self.batches:
            raise checkpoint.damaged(path, "batch")
        ends = {"mined": len(self.data.titles.offsets) - 1, "since": self.updates + 1}  # compiled code does not look
        for name, tensor in tensors.items():
            end = ends.get(name.rpartition(".")[2])
            if end and tensor.numel() and not (int(tensor.min()) >= -1 and int(tensor.max()) < end):
                raise checkpoint.damaged(path, name)
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise checkpoint.damaged(path, name)

    def _metrics(self) -> str:
        return "".join(json.dumps(row) + "\n" for row in self.state.history)

    def model(self, arrays: dict[str, Any]) -> Model:
        """The weights as a model."""
        recipe = self.recipe
        about = card.training(recipe, self._facts, self.about_data, self.state.history, self._kept_epoch())
        return Model(recipe.tower_shape(), recipe.shared_tower, recipe.max_words, self.data.trigrams, arrays, about)

    def finish(self, out: Path) -> Model:
        """Write the model that is to be kept, with the history of the whole run."""
        best = folder.open_model(self.folder / "best")
        model = self.model(dict(best.weights))._replace(metrics=self._metrics())
        folder.save_model(model, out, card.write(model))
        return folder.open_model(out)


def _click_weights(data: Dataset, recipe: Recipe, run_folder: Path) -> NDArray[np.float32]:
    if recipe.click_weight == "none":
        return np.broadcast_to(np.float32(1), len(data.pair_clicks))
    if recipe.click_weight == "count":
        return np.asarray(data.pair_clicks, np.float32)
    weights: NDArray[np.float32] = scratch.array(run_folder, data.pair_clicks.shape, np.float32)
    for some in scratch.blocks(len(weights)):
        weights[some] = np.log2(1 + data.pair_clicks[some])
    return weights


def _warn(*warnings: str | None) -> None:
    for warning in warnings:
        if warning:
            log.warning(warning)


def _larger(one: float | Tensor, other: float | Tensor) -> float | Tensor:
    """The larger of two numbers, without waiting for a GPU to know it."""
    if isinstance(other, Tensor):
        return torch.maximum(one, other) if isinstance(one, Tensor) else other.clamp(min=one)
    return max(float(one), other)


def _describe(row: dict[str, Any], epochs: int) -> str:
    text = f"epoch {row['epoch']}/{epochs}: loss {row['loss']:.4f}, {row['pairs_per_second']:,.0f} pairs/s"
    if row["masked"]:
        text += f", {row['masked']:,} clicked titles not taken as negatives"
    if "dev" in row:
        text += ", dev " + " ".join(f"{name} {value:.2f}" for name, value in row["dev"].items())
    return text


class _Stop(threading.Event):
    """Set when a run should stop after the minibatch under way."""

    signal = 0  # the number of the signal that set it


@contextmanager
def _stop_flag() -> Iterator[_Stop]:
    """Set by the first Ctrl-C, SIGTERM or SIGHUP, which ends the minibatch under way; a second one ends at once."""
    flag = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none, and nohup ignores it
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        before[hangup] = signal.getsignal(hangup)

    def stop(number: int, frame: FrameType | None) -> None:
        flag.signal = number
        flag.set()
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, stop)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
