"""Algorithm 1: epochs over shuffled minibatches; after each, the dev set; at the end, a model folder.

While a run is going on, its state is in `OUT.run`: `checkpoint.safetensors`, `metrics.jsonl`, and `best`, the model
folder that would be kept if it ended now. `OUT` itself is written once, when the run is complete.
"""

import json
import math
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clickvec import dataset, files, folder
from clickvec.config import Recipe
from clickvec.dataset import Dataset
from clickvec.encoder import Encoder
from clickvec.errors import ClickvecError, Interrupted
from clickvec.evaluate import evaluate
from clickvec.folder import Model
from clickvec.rankers.neural import Neural
from clickvec.readers import Judged
from clickvec.terminal import Line
from clickvec.text import Ragged
from clickvec.train import alarms, card, checkpoint, memory, mining, optimizers, rows
from clickvec.train.negatives import Candidates, Ids, Sampler
from clickvec.train.nesterov import renormalise
from clickvec.train.objective import losses, unit
from clickvec.train.pair import TowerPair
from clickvec.train.places import check_inputs, check_places, clear, pick_device
from clickvec.train.towers import Batch, drop_steps, make_batch

CHECKPOINT_SECONDS = 300.0
LOOK_EVERY = 20  # minibatches between looks at the loss on a GPU, which must be stopped for it
SAMPLE_TITLES = 512
SHUFFLE, DRAW, MINE = 2, 3, 4  # the first word of a seed, so that no two streams are the same


def train(
    data: Dataset, recipe: Recipe, out: str | Path, *, dev: Judged | None = None, device: str = "auto",
    resume: bool = False, overwrite: bool = False, about_data: str = "", quiet: bool = False,
) -> Model:  # fmt: skip
    """Train a model and write it to `out`. See `Run` for the parts."""
    out = Path(out)
    check_inputs(data, recipe, dev)
    run_folder, on = check_places(out, resume, overwrite), pick_device(device)
    try:
        run_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.cannot_write(out, error) from None
    with files.locked(run_folder / "lock", str(out)), memory.kept():
        check_places(out, resume, overwrite)  # again: another run may have ended in between
        if overwrite and not resume:
            clear(run_folder)
        run = Run(data, recipe, run_folder, dev, on, about_data, quiet)
        if resume:
            run.restore()
        run.all_epochs()
        model = run.finish(out)
        shutil.rmtree(run_folder, ignore_errors=True)
    return model


class Run:
    """One training run: towers, optimizer, sampler, and where it is."""

    def __init__(
        self, data: Dataset, recipe: Recipe, run_folder: Path, dev: Judged | None,
        device: torch.device, about_data: str, quiet: bool,
    ) -> None:  # fmt: skip
        self.data, self.recipe, self.folder, self.dev, self.device = data, recipe, run_folder, dev, device
        self.about_data, self.quiet = about_data, quiet
        self.pairs = len(data.pair_query)
        self.batches = math.ceil(self.pairs / recipe.batch_size)
        self.updates = self.batches * recipe.epochs
        self.towers = TowerPair(recipe, len(data.trigrams), device)
        towers = self.towers.towers
        parameters = [tensor for tower in towers.values() for tensor in tower.parameters()]
        self.inputs = {side: rows.make(recipe, tower.weights["input"], self.updates) for side, tower in towers.items()}
        lazy = [id(one.matrix) for one in self.inputs.values() if isinstance(one, rows.Lazy)]
        self.optimizer = optimizers.make(recipe, [one for one in parameters if id(one) not in lazy], self.updates)
        self.average = optimizers.Average(parameters, recipe.average) if recipe.average else None
        self.sampler = Sampler(data, recipe)
        self.state = checkpoint.State()
        self._data_name = checkpoint.name_data(data, dev)
        self._weights = _click_weights(data, recipe)

    # --- one minibatch -------------------------------------------------------------------------------------------

    def _draw(self, pairs: Ids, rng: np.random.Generator) -> tuple[Candidates, Batch, Batch]:
        """The titles of a minibatch, and its queries and titles as batches."""
        found = self.sampler.draw(pairs, rng)
        queries = self._batch(self.data.queries.take(self.data.pair_query[pairs]), rng)
        return found, queries, self._batch(self.data.titles.take(found.titles), rng)

    def _batch(self, texts: Ragged, rng: np.random.Generator) -> Batch:
        if self.recipe.word_dropout:
            texts = drop_steps(texts, self.recipe.word_dropout, rng)
        return make_batch(texts, self.data.steps, self.device)

    def _look_ahead(self, update: int, queries: Batch, titles: Batch) -> tuple[Tensor, Tensor]:
        """The vectors of queries and titles at the point where the gradient is to be taken."""
        self.optimizer.look_ahead(update)
        batches, bptt_steps = (queries, titles), self.recipe.bptt_steps
        if self.recipe.shared_tower:
            ((matrix, local),) = (one.look_ahead(update, batches) for one in self.inputs.values())
            y_q, y_d = (self.towers.query(batch, bptt_steps, matrix) for batch in local)
            return y_q, y_d
        vectors = []
        for (side, tower), batch in zip(self.towers.towers.items(), batches, strict=True):
            matrix, (local_batch,) = self.inputs[side].look_ahead(update, [batch])
            vectors.append(tower(local_batch, bptt_steps, matrix))
        return vectors[0], vectors[1]

    def _losses(self, found: Candidates, y_q: Tensor, y_d: Tensor) -> Tensor:
        """l_r of each pair."""
        y_q, y_d = unit(y_q), unit(y_d)
        positive = torch.from_numpy(found.positive).to(self.device)
        counts = torch.from_numpy(np.ascontiguousarray(found.counts)).to(self.device)
        if found.negative is None:
            cosines = y_q @ y_d.T
            clicked = cosines.gather(1, positive[:, None])[:, 0]
            negative = cosines
        else:
            # functional.embedding is y_d[...] with a gradient that does not depend on the order of threads.
            y_negative = functional.embedding(torch.from_numpy(found.negative).to(self.device), y_d)
            clicked = (y_q * functional.embedding(positive, y_d)).sum(dim=1)
            negative = torch.einsum("rd,rjd->rj", y_q, y_negative)
        return losses(self.recipe.gamma, clicked, negative, counts)

    def one_update(self, pairs: Ids, rng: np.random.Generator, update: int) -> tuple[Tensor, float, int, float]:
        """Gradient at the look-ahead point, re-normalised for each tower, and one step.

        The loss, summed; the weight of the pairs; how many known clicks were masked; negatives of a pair on average.
        """
        found, queries, titles = self._draw(pairs, rng)
        per_pair = self._losses(found, *self._look_ahead(update, queries, titles))
        weights = self._weights[pairs]
        loss = (per_pair * torch.from_numpy(weights).to(self.device)).sum()
        for tower in self.towers.towers.values():
            for parameter in tower.parameters():
                parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        for side, tower in self.towers.towers.items():
            gradients = [
                self.inputs[side].gradient(),
                *(w.grad for name, w in tower.weights.items() if name != "input"),
            ]
            renormalise([gradient for gradient in gradients if gradient is not None], self.recipe.clip)
            self.inputs[side].before_update()
        self.optimizer.update(update)
        for one in self.inputs.values():
            one.update(update)
        if self.average:
            self.average.update(update)
        return loss.detach(), float(weights.sum()), found.masked, float(found.counts.sum(1).mean())

    # --- epochs --------------------------------------------------------------------------------------------------

    def all_epochs(self) -> None:
        """Run to the end, from wherever the state is."""
        self._say(alarms.one_title_rules(float(dataset.describe(self.data)["share of the most clicked title"])))
        with _stop_flag() as stop:
            while self.state.epoch < self.recipe.epochs and not self._out_of_patience():
                self._one_epoch(stop)

    def _one_epoch(self, stop: threading.Event) -> None:
        state, size = self.state, self.recipe.batch_size
        order = np.random.default_rng([SHUFFLE, self.recipe.seed, state.epoch]).permutation(self.pairs)
        line = Line(f"epoch {state.epoch + 1}/{self.recipe.epochs}", self.pairs, " pairs", start=state.batch * size)
        total = torch.tensor(state.loss_sum, dtype=torch.float64, device=self.device)
        begun = saved = time.monotonic()
        self._mine()
        negatives = -1.0  # of the fullest minibatch; not known where a resumed run has none left in this epoch
        look_every = 1 if self.device.type == "cpu" else LOOK_EVERY
        while state.batch < self.batches:
            pairs = order[state.batch * size : (state.batch + 1) * size]
            rng = np.random.default_rng([DRAW, self.recipe.seed, state.epoch, state.batch])
            loss, weight, masked, found = self.one_update(pairs, rng, state.epoch * self.batches + state.batch)
            total, negatives = total + loss, max(negatives, found)
            state.batch, state.weight_sum, state.masked = (
                state.batch + 1,
                state.weight_sum + weight,
                state.masked + masked,
            )
            if state.batch % look_every == 0 or state.batch == self.batches:
                state.loss_sum = float(total)
                self._check_finite()
                if not self.quiet:
                    line.show(min(state.batch * size, self.pairs), f"loss {state.loss_sum / state.weight_sum:.4f}")
            now = time.monotonic()
            if stop.is_set() or now - saved > CHECKPOINT_SECONDS:
                state.loss_sum, saved = float(total), now
                self._check_finite(weights=True)
                state.seconds += now - begun
                begun = now
                self._save_checkpoint()
                if stop.is_set():
                    line.clear()
                    raise Interrupted(f"{self._stopped('stopped')}; go on with --resume")
        state.seconds += time.monotonic() - begun
        line.clear()
        self._end_epoch(negatives)

    def _mine(self) -> None:
        """Find the hard negatives of an epoch at its beginning; the first has none, as its model knows nothing yet."""
        if self.recipe.hard_negatives and self.state.epoch and not self.state.batch:
            rng = np.random.default_rng([MINE, self.recipe.seed, self.state.epoch])
            self.sampler.mined[:] = mining.mine(self.data, self.towers, rng, self.device).numpy()

    def _check_finite(self, *, weights: bool = False) -> None:
        """Stop when the loss is not a number; with `weights`, which takes longer, when any kept number is not."""
        bad = "the loss" if not math.isfinite(self.state.loss_sum) else ""
        if not bad and weights and not all(torch.isfinite(tensor).all() for tensor in self._tensors().values()):
            bad = "a weight"
        if bad:
            raise ClickvecError(f"{self._stopped(f'{bad} is not a number any more: stopped')}; start again, step lower")

    def _stopped(self, what: str) -> str:
        kept = f"the best model so far is {self.folder / 'best'}" if self.state.history else "no epoch was complete"
        return f"{what} in epoch {self.state.epoch + 1} of {self.recipe.epochs}; {kept}"

    def _end_epoch(self, negatives: float) -> None:
        """Measure, keep the model if it is to be kept, write metrics and checkpoint."""
        for one in self.inputs.values():
            one.settle((self.state.epoch + 1) * self.batches)
        self._check_finite(weights=True)
        state = self.state
        loss = state.loss_sum / state.weight_sum
        with self.average.in_place_of_the_weights() if self.average else nullcontext():
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
        self._say(_describe(row, self.recipe.epochs))
        self._say(collapse)
        self._say(alarms.learns_nothing(loss, negatives))

    def _mean_cosine(self) -> tuple[float, str | None]:
        sample = np.linspace(0, self.data.clicked_titles - 1, min(SAMPLE_TITLES, self.data.clicked_titles)).astype(
            np.int64
        )
        with torch.no_grad():
            batch = make_batch(self.data.titles.take(sample), self.data.steps, self.device)
            return alarms.collapsed(unit(self.towers.title(batch)).cpu().numpy())

    def _kept_epoch(self) -> int:
        """The epoch whose model is kept if the run ends now."""
        return self.state.best_epoch if self.recipe.keep == "best" and self.dev is not None else self.state.epoch

    def _out_of_patience(self) -> bool:
        return 0 < self.recipe.patience <= self.state.epoch - self.state.best_epoch

    # --- files ---------------------------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must keep, besides the state."""
        tensors = self.towers.tensors() | self.optimizer.tensors()
        for side, one in self.inputs.items():
            tensors |= {f"{side}.input.{name}": tensor for name, tensor in one.tensors().items()}
        if self.average:
            tensors |= self.average.tensors()
        if self.recipe.hard_negatives:
            tensors["mined"] = torch.from_numpy(self.sampler.mined)
        return tensors

    def _save_checkpoint(self) -> None:
        checkpoint.save(
            self.folder / "checkpoint.safetensors", self.state, self.recipe, self._data_name, self._tensors()
        )
        (self.folder / "metrics.jsonl").write_text(self._metrics(), encoding="utf-8")

    def restore(self) -> None:
        """Go back to the checkpoint."""
        self.state = checkpoint.restore(
            self.folder / "checkpoint.safetensors", self.recipe, self._data_name, self._tensors()
        )

    def _metrics(self) -> str:
        return "".join(json.dumps(row) + "\n" for row in self.state.history)

    def model(self, arrays: dict[str, Any]) -> Model:
        """The weights as a model."""
        recipe = self.recipe
        about = card.training(recipe, self.data, self.about_data, self.state.history, self._kept_epoch())
        return Model(recipe.tower_shape(), recipe.shared_tower, recipe.max_words, self.data.trigrams, arrays, about)

    def finish(self, out: Path) -> Model:
        """Write the model that is to be kept, with the history of the whole run."""
        best = folder.open_model(self.folder / "best")
        model = self.model(dict(best.weights))
        folder.save_model(model, out, card.write(model), self._metrics())
        return folder.open_model(out)

    def _say(self, sentence: str | None) -> None:
        if sentence and not self.quiet:
            sys.stderr.write(sentence + "\n")


def _click_weights(data: Dataset, recipe: Recipe) -> np.ndarray[Any, np.dtype[np.float32]]:
    if recipe.click_weight == "count":
        return np.asarray(data.pair_clicks, np.float32)
    if recipe.click_weight == "log":
        return np.log2(1 + data.pair_clicks).astype(np.float32)
    return np.ones(len(data.pair_clicks), np.float32)


def _describe(row: dict[str, Any], epochs: int) -> str:
    text = f"epoch {row['epoch']}/{epochs}: loss {row['loss']:.4f}, {row['pairs_per_second']:,.0f} pairs/s"
    if row["masked"]:
        text += f", {row['masked']:,} clicked titles not taken as negatives"
    if "dev" in row:
        text += ", dev " + " ".join(f"{name} {value:.2f}" for name, value in row["dev"].items())
    return text


@contextmanager
def _stop_flag() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C or SIGTERM, so that the minibatch under way is finished; a second one ends at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        flag.set()
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, stop)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
