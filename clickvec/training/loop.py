"""Algorithm 1: epochs over shuffled minibatches; after each, the dev set; at the end, a model folder.

Until the run is complete, its state is in `OUT.run`: `checkpoint.safetensors`, `metrics.jsonl`, and `best`, the model
of an earlier epoch that will be kept unless a later one is better. `OUT` is written once, at the end.
"""

import dataclasses
import logging
import math
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clickvec.config import Recipe
from clickvec.data import dataset
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError, Interrupted
from clickvec.evaluation.test_set import TestSet
from clickvec.model import folder
from clickvec.model.folder import Model
from clickvec.progress import Progress, ignore
from clickvec.teacher.agreement import describe_teacher
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.training import alarms, card, checkpoint, mining, scratch
from clickvec.training.checkpoint import check_output_folder, clear, locked_run_folder
from clickvec.training.click_weights import click_weights
from clickvec.training.device import make_updater, pick_device, warn_if_slow
from clickvec.training.distillation import weigh_teacher
from clickvec.training.fusing import LogTexts, fit_and_measure
from clickvec.training.gate import Start, decide, has_choice
from clickvec.training.input_checks import check_inputs, with_words_of
from clickvec.training.measuring import describe_epoch, dev_scores
from clickvec.training.negatives import Ids, Sampler
from clickvec.training.towers import TowerPair, make_batch
from clickvec.training.update import Seed, unit
from clickvec.training.workers import ALONE, Workers

log = logging.getLogger(__name__)
CHECKPOINT_SECONDS = 300.0
REPORT_SECONDS = 0.2  # between two reads of the loss: each makes a GPU wait
SAMPLE_TITLES = 512
# The first word of a seed: no two random streams are the same. towers.py and update.py have others.
SHUFFLE, MINE = 2, 4


def run_training(
    data: Dataset, recipe: Recipe, out: str | Path, *, dev: TestSet | None = None, test: TestSet | None = None,
    texts: LogTexts | None = None, device: str = "auto", resume: bool = False, overwrite: bool = False,
    source: str = "", progress: Progress | None = None, start: Start | None = None, teacher: Teacher | None = None,
    workers: Workers = ALONE,
) -> Model:  # fmt: skip
    """Train a model, write it to `out` and return it. `source` tells the model card where the data comes from.

    `dev` is measured after each epoch, if there is an epoch to choose, and the fusion is fitted on it. The model card
    tells the figures on `test`. If dev is too small, `texts` let models of parts of the log take its place. With
    `start`, training continues from a model, and `out` gets that model if the new one is significantly worse. With a
    `teacher`, the model also learns to find the same texts alike as the teacher does. If there are several `workers`,
    the first one writes all files.

    Training runs in a second thread, so that Ctrl-C cannot interrupt an update halfway. On a KeyboardInterrupt, the
    current minibatch is finished, a checkpoint is written and `Interrupted` is raised.
    """
    check_inputs(data, recipe, dev)
    recipe, stop = with_words_of(data, recipe), threading.Event()

    def work() -> Model:
        on, path = pick_device(device, workers), Path(out)
        run_folder = path.with_name(path.name + ".run")
        # Kernels and CUDA graphs go to the current device.
        at_device = torch.cuda.device(on) if on.type == "cuda" else nullcontext()
        with locked_run_folder(run_folder, path) if workers.is_first else nullcontext(), at_device:
            if workers.is_first:
                check_output_folder(path, resume, overwrite)
            workers.tell(None)  # the run folder is there
            run = Run(data, recipe, run_folder, dev, on, source, progress or ignore, stop, start, teacher, workers)
            if resume:
                run.restore()
            elif overwrite and workers.is_first:
                clear(run_folder)
            run.all_epochs()
            if not workers.is_first:
                return run.model(run.towers.to_arrays())
            run.finish(path, test, texts)
            shutil.rmtree(run_folder, ignore_errors=True)
        return folder.open_model(path)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        while not future.done():
            try:
                wait((future,), timeout=0.5)  # on some systems a signal does not end a wait without a timeout
            except KeyboardInterrupt:  # a second one changes nothing: the checkpoint is about to be written
                stop.set()
        return future.result()


class Run:
    """One training run: towers, updater, sampler, and how far it is."""

    def __init__(
        self, data: Dataset, recipe: Recipe, run_folder: Path, dev: TestSet | None = None,
        device: torch.device = torch.device("cpu"), source: str = "", progress: Progress = ignore,  # noqa: B008
        stop: threading.Event | None = None, start: Start | None = None, teacher: Teacher | None = None,
        workers: Workers = ALONE, is_part: bool = False,
    ) -> None:  # fmt: skip
        self.workers, self._is_part = workers, is_part
        run_folder = run_folder if workers.is_first or run_folder.is_dir() else Path(tempfile.gettempdir())
        self.data, self.recipe, self.folder, self.dev, self.device = data, recipe, run_folder, dev, device
        self.source, self.progress, self.stop, self.start = source, progress, stop or threading.Event(), start
        self.pairs = len(data.pair_query)
        self.batches = math.ceil(self.pairs / recipe.batch_size)
        self.updates = self.batches * recipe.epochs
        self.towers = TowerPair(recipe, data.trigrams, device, start.model if start else None)
        self.teacher, self._taught = teacher, describe_teacher(data, teacher) if teacher else {}
        self.sampler = Sampler(data, recipe, run_folder, has_teacher=teacher is not None)
        self.state = checkpoint.State()
        self._warned = set[str]()
        self._facts = dataset.describe(data, scratch.array(run_folder, (data.clicked_titles,), np.float64))
        self._order: Ids = scratch.array(run_folder, (self.pairs,), np.int64)  # of the pairs in an epoch
        weights = click_weights(data, recipe, run_folder)
        if not is_part:
            warn_if_slow(device, recipe)
        trusted = weigh_teacher(recipe, self._taught["agreement"]) if teacher else recipe
        self.updater = make_updater(data, trusted, self.towers, self.sampler, weights, self.updates, teacher, workers)
        if workers.count > 1:
            workers.check_alike({"data folder or dev set": self._data_name, "setting": dataclasses.asdict(recipe)})

    # --- epochs --------------------------------------------------------------------------------------------------

    def all_epochs(self) -> None:
        """Train to the end, from the present state."""
        while not self._is_complete():
            self._one_epoch()

    def _is_complete(self) -> bool:
        state = self.state
        out_of_patience = 0 < self.recipe.patience <= state.epoch - state.best_epoch
        return state.epoch >= self.recipe.epochs or out_of_patience

    def _one_epoch(self) -> None:
        state, size = self.state, self.recipe.batch_size
        self.workers.copy_from_first(self.towers.tensors() | self.updater.tensors())
        self._shuffle()
        label = f"epoch {state.epoch + 1}/{self.recipe.epochs}"
        self.progress(label, state.batch * size, self.pairs)
        total = torch.tensor(state.loss_sum, dtype=torch.float64, device=self.device)
        masked = torch.tensor(state.masked, device=self.device)
        begun = saved = reported = time.monotonic()
        self._mine()
        negatives: float | Tensor | None = None  # of the first minibatch; unknown if a resumed run has none left
        seed = Seed(self.recipe.seed, state.epoch, self.batches)
        for outcome in self.updater.epoch(self._order, seed, state.batch):
            total, masked = total + outcome.loss, masked + outcome.masked
            negatives = outcome.negatives if negatives is None else negatives
            state.batch, state.weight_sum = state.batch + 1, state.weight_sum + outcome.weight
            now, stopped, ended = time.monotonic(), self.stop.is_set(), state.batch == self.batches
            to_save = self.workers.is_first and (stopped or (now - saved > CHECKPOINT_SECONDS and not self._is_part))
            if to_save or ended or now - reported > REPORT_SECONDS:
                state.loss_sum, state.masked, reported = float(total), int(masked), now
                self._check_finite(weights=to_save)
                if not ended:  # the line about the epoch follows at once
                    self.progress(
                        label, state.batch * size, self.pairs, f"loss {state.loss_sum / state.weight_sum:.4f}"
                    )
            if to_save:
                if self._is_part:
                    raise Interrupted("Training stopped while the fusion was fitted. Resume it with --resume")
                state.seconds += now - begun
                begun = saved = now
                self._save_checkpoint()
                if stopped:
                    raise Interrupted(f"Training stopped {self._where()} Resume it with --resume")
        state.seconds += time.monotonic() - begun
        self._end_epoch(-1.0 if negatives is None else float(negatives))

    def _shuffle(self) -> None:
        """Put the pairs into the order of the epoch."""
        for block in scratch.blocks(self.pairs):
            self._order[block] = np.arange(block.start, block.stop)
        np.random.default_rng([SHUFFLE, self.recipe.seed, self.state.epoch]).shuffle(self._order)

    def _mine(self) -> None:
        """Find the hard negatives of an epoch at its start. The first has none if its model knows nothing yet."""
        if self.recipe.hard_negatives and (self.state.epoch or self.start) and not self.state.batch:
            rng = np.random.default_rng([MINE, self.recipe.seed, self.state.epoch])
            mining.mine(self.data, self.towers, rng, self.device, self.sampler.mined, self.workers)

    def _check_finite(self, *, weights: bool = False) -> None:
        """Raise a ClickvecError if the loss is NaN or infinite; with `weights`, which takes longer, if a weight is."""
        bad = "" if math.isfinite(self.state.loss_sum) else "the loss"
        if not bad and weights:
            tensors = (tensor for tensor in self._tensors().values() if tensor.is_floating_point())
            bad = "" if all(torch.isfinite(tensor).all() for tensor in tensors) else "a weight"
        if bad:
            lower = f"--set learning_rate={min(0.01, self.recipe.learning_rate / 3):.1g}"
            where = self._where(f": {bad} became NaN or infinite")
            raise ClickvecError(f"Training stopped {where} Try a lower learning rate ({lower})")

    def _where(self, reason: str = "") -> str:
        best = f"The best model so far is in {self.folder / 'best'}." if self.state.history else "No epoch is complete."
        return f"in epoch {self.state.epoch + 1} of {self.recipe.epochs}{reason}. {best}"

    def _end_epoch(self, negatives: float) -> None:
        """End an epoch. The first worker measures and saves the model while the others wait."""
        self.updater.settle((self.state.epoch + 1) * self.batches)
        self._check_finite(weights=True)
        if self.workers.is_first:
            self._measure_and_save(negatives)
        self.state = self.workers.tell(self.state)

    def _measure_and_save(self, negatives: float) -> None:
        """Measure the model, save it if it is the one to keep, and write metrics and checkpoint."""
        state = self.state
        loss = state.loss_sum / state.weight_sum
        arrays, (mean_cosine, collapse) = self.towers.to_arrays(), self._mean_cosine()
        row: dict[str, Any] = {
            "epoch": state.epoch + 1, "loss": loss, "pairs_per_second": self.pairs * (state.epoch + 1) / state.seconds,
            "seconds": state.seconds, "masked": state.masked, "mean_cosine": mean_cosine,
        }  # fmt: skip
        if self.dev is not None and self._has_choice:
            row["dev"] = dev_scores(self.model(arrays), self.dev)
            if row["dev"]["NDCG@10"] > state.best_score:
                state.best_epoch, state.best_score = state.epoch + 1, row["dev"]["NDCG@10"]
        state.history.append(row)
        state.epoch, state.batch, state.loss_sum, state.weight_sum, state.masked = state.epoch + 1, 0, 0.0, 0.0, 0
        if self._is_part:
            return
        if self._kept_epoch() == state.epoch and not self._is_complete():
            model = self.model(arrays)
            folder.save_model(model._replace(card=card.write(model)), self.folder / "best")
        self._save_checkpoint()
        log.info(describe_epoch(row, self.recipe.epochs))
        for kind, warning in (("collapse", collapse), ("loss", alarms.learns_nothing(loss, negatives))):
            if warning and kind not in self._warned:  # once in a run, not after each epoch
                log.warning(warning)
                self._warned.add(kind)

    def _mean_cosine(self) -> tuple[float, str | None]:
        titles = self.data.clicked_titles
        sample = np.linspace(0, titles - 1, min(SAMPLE_TITLES, titles)).astype(np.int64)
        with torch.no_grad():
            batch = make_batch(self.data.titles.take(sample), self.data.tokens, self.device)
            return alarms.collapsed(unit(self.towers.title(batch)).cpu().numpy())

    def _kept_epoch(self) -> int:
        """Return the epoch whose model is kept if the run ends now."""
        chooses = self.recipe.keep == "best" and self.dev is not None and self._has_choice
        return self.state.best_epoch if chooses else self.state.epoch

    @property
    def _has_choice(self) -> bool:
        """Whether dev is measured after each epoch: not if training continues for a single one, which takes as long."""
        return self.start is None or has_choice(self.recipe)

    # --- files ---------------------------------------------------------------------------------------------------

    @cached_property
    def _data_name(self) -> str:
        name = checkpoint.name_data(self.data, self.dev, self.teacher)
        return f"{name} from {self.start.model.fingerprint}" if self.start else name

    def _tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint holds besides the state."""
        tensors = self.towers.tensors() | self.updater.tensors()
        if self.recipe.hard_negatives:
            tensors["mined"] = torch.from_numpy(self.sampler.mined)
        return tensors

    def _save_checkpoint(self) -> None:
        path = self.folder / "checkpoint.safetensors"
        checkpoint.save(path, self.state, self.recipe, self._data_name, self._tensors())

    def restore(self) -> None:
        """Restore the state from the checkpoint, which only the first worker needs to reach."""
        if self.workers.is_first:
            self._read_checkpoint()
        self.state = self.workers.tell(self.state)
        self.workers.fill_from_first(self.sampler.mined)  # the start of an epoch copies the other tensors

    def _read_checkpoint(self) -> None:
        path, tensors = self.folder / "checkpoint.safetensors", self._tensors()
        self.state = checkpoint.restore(path, self.recipe, self._data_name, tensors)
        if self.state.batch > self.batches:
            raise checkpoint.damaged(path, "batch")
        ends = {"mined": len(self.data.titles.offsets) - 1, "since": self.updates + 1}
        checkpoint.check_indices(path, tensors, ends)

    def model(self, arrays: dict[str, Any]) -> Model:
        """Return the weights as a model."""
        recipe, history, kept = self.recipe, self.state.history, self._kept_epoch()
        about = {
            "recipe": dataclasses.asdict(recipe), "data": {"from": self.source, **self._facts},
            "kept_epoch": kept, "kept": history[kept - 1] if kept else {},
        }  # fmt: skip
        if self.teacher is not None:
            about["teacher"] = self._taught
        return Model(recipe.tower_shape(), recipe.shared_tower, recipe.max_words, self.data.trigrams, arrays, about)

    def finish(self, out: Path, test: TestSet | None = None, texts: LogTexts | None = None) -> None:
        """Write the model to keep, with the history of the whole run, its fusion and the figures on test."""
        if self._kept_epoch() == self.state.epoch:
            arrays = self.towers.to_arrays()
        else:
            arrays = dict(folder.open_model(self.folder / "best").weights)
        model = self.model(arrays)._replace(metrics=self.state.metrics())
        kept = decide(self.start, model, out, self.progress) if self.start else model
        if kept is model:
            start = self.start.model if self.start else None
            kept = fit_and_measure(model, self.data, self.dev, test, texts, self._train_fold, self.progress, start)
            kept = kept._replace(card=card.write(kept))
        folder.save_model(kept, out)

    def _train_fold(self, data: Dataset, number: int) -> Model:
        """Train a model on a part of the data, and keep no file of it."""

        def progress(label: str, done: int, total: int | None, note: str = "") -> None:
            self.progress(f"part {number + 1}, {label}", done, total, note)

        recipe = dataclasses.replace(self.recipe, patience=0)  # it needs dev
        run = Run(
            data, recipe, self.folder, None, self.device, progress=progress, stop=self.stop, teacher=self.teacher,
            is_part=True,
        )  # fmt: skip
        run.all_epochs()
        return run.model(run.towers.to_arrays())
