"""Does a projection on top of the LSTM-RNN help? Train with one, on clicks alone, and measure it beside none.

    python benchmarks/projection.py msrd/clicks.tsv.gz --titles msrd/titles.tsv.gz --dev msrd/dev.tsv.gz

The vector of a text is P y instead of y, the last output of the LSTM-RNN, or Q relu(P y). P and Q are learned with the
other weights. Prints NDCG@10 on dev and on held-out clicks over all titles: means over the seeds, and the difference
from no projection with its 95% confidence interval (bootstrap over queries, after averaging seeds). On a CPU.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from self_supervised import describe
from torch import Tensor

from clickvec import config
from clickvec.data import Judged, dataset, read_clicks, read_judged, read_titles
from clickvec.data.dataset import Dataset
from clickvec.data.held_out import hold_out
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.training import loop
from clickvec.training.towers import Batch, TorchTower, TowerPair

CELLS = 96
SIZES: dict[str, tuple[int, ...]] = {  # of the layers on top
    "none": (), "P y": (96,), "Q relu(P y), 192 units": (192, 96),
}  # fmt: skip


class Projected(TowerPair):
    """Towers with layers on top, which are further weights of each tower."""

    sizes: tuple[int, ...] = ()
    last: "Projected"

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        Projected.last = self
        rng, width = np.random.default_rng(7), CELLS
        for number, size in enumerate(self.sizes):
            start = np.eye(width, size) + rng.normal(0, 0.3 / np.sqrt(width), (width, size))
            for tower in self.towers.values():
                tower.weights[f"layer {number}"] = torch.tensor(start, dtype=torch.float32, requires_grad=True)
            width = size


def project(vectors: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """Return what the layers make of vectors."""
    for number, layer in enumerate(layers):
        vectors = (vectors.relu() if number else vectors) @ layer
    return vectors


class ProjectedEncoder(Encoder):
    """An encoder with layers on top."""

    layers: Sequence[Tensor] = ()

    def _on_top(self, vectors: np.ndarray) -> np.ndarray:
        made = project(torch.from_numpy(np.atleast_2d(vectors)), self.layers).detach()
        made = made / torch.linalg.vector_norm(made, dim=1, keepdim=True).clamp(min=1e-9)
        return made.numpy().reshape(*vectors.shape[:-1], -1)

    def encode_query(self, texts: str | Sequence[str], *, progress: Progress | None = None) -> np.ndarray:
        """Return the projected vectors of queries."""
        return self._on_top(super().encode_query(texts, progress=progress))

    def encode_document(self, texts: str | Sequence[str], *, progress: Progress | None = None) -> np.ndarray:
        """Return the projected vectors of titles."""
        return self._on_top(super().encode_document(texts, progress=progress))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", type=Path, nargs="+")
    parser.add_argument("--titles", type=Path, help="further titles to search")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    held, judged = hold_out(read_clicks(options.clicks)), read_judged(options.dev)
    if held is None:
        parser.error("the log has too few queries to hold any out")
    catalogue = Catalogue([*held.train.titles, *held.dev.titles, *held.test.titles])
    catalogue.add(entry.title for entry in (read_titles(options.titles) if options.titles else ()))
    clicks = TestSet.of_clicks(held.dev, catalogue)
    data = dataset.prepare(held.train, 10, 50_000, whole_words=config.recipe().whole_words)
    call = TorchTower.__call__

    def call_projected(tower: TorchTower, batch: Batch, matrix: Tensor | None = None) -> Tensor:
        layers = [weight for name, weight in tower.weights.items() if name.startswith("layer ")]
        return project(call(tower, batch, matrix), layers)

    TorchTower.__call__, loop.TowerPair = call_projected, Projected  # type: ignore[method-assign,misc]
    alone: list[np.ndarray] = []
    for name, sizes in SIZES.items():
        Projected.sizes = sizes
        each = [measured(data, judged, clicks, seed) for seed in range(1, options.seeds + 1)]
        values = [np.mean(column, axis=0) for column in zip(*each, strict=True)]
        alone = alone or values
        cells = [f"{now.mean():5.2f}{describe(now - first)}" for now, first in zip(values, alone, strict=True)]
        print(f"{name:28} dev {cells[0]}, held-out clicks {cells[1]}", flush=True)


def measured(data: Dataset, judged: Judged, clicks: TestSet, seed: int) -> list[np.ndarray]:
    """Train and return NDCG@10 of each judged query and of each held-out one."""
    with tempfile.TemporaryDirectory() as place:
        chosen = config.recipe(seed=seed, keep="last")
        model = loop.run_training(data, chosen, Path(place) / "model", device="cpu")
    encoder = ProjectedEncoder(model)
    encoder.layers = [w for name, w in Projected.last.title.weights.items() if name.startswith("layer ")]
    ranker = Neural(encoder, "model")
    return [result.per_query("model", CHOSEN_BY) for result in (evaluate([ranker], judged), measure([ranker], clicks))]


if __name__ == "__main__":
    main()
