"""Does it help to start from a model of another log? Train from that model and from random weights, and compare.

    clickvec train dbpedia/clicks_redirects.tsv.gz --out start
    python benchmarks/pretrained.py msrd/clicks.tsv.gz --start start --titles msrd/titles.tsv.gz --dev msrd/dev.tsv.gz

Both train with the recipe `default` on the same samples of pairs (--pairs; small ones get smaller minibatches and more
epochs, as in log_size.py) and keep the best epoch on dev. The trigrams and words of the log are added to those of the
start. Prints NDCG@10 on dev and on held-out clicks over all titles: means over the seeds, and the difference from
random weights with its 95% confidence interval (bootstrap over queries, after averaging seeds). A user does nearly the
same, and keeps the start if the new model is worse, with

    clickvec train LOG --from start --set epochs=5 --set learning_rate=0.002 --set max_trigrams=100000
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from log_size import SIZES, draw
from self_supervised import describe

from clickvec import config
from clickvec.data import ClickLog, Judged, dataset, read_clicks, read_judged, read_titles
from clickvec.data.held_out import hold_out
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model, open_model
from clickvec.training.continuing import add_trigrams
from clickvec.training.gate import Start
from clickvec.training.loop import run_training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", type=Path, nargs="+")
    parser.add_argument("--start", type=Path, required=True, help="the model of another log")
    parser.add_argument("--titles", type=Path, help="further titles to search")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000, 10_000, 0], help="sizes of samples; 0: all")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    held, judged, start = hold_out(read_clicks(options.clicks)), read_judged(options.dev), open_model(options.start)
    if held is None:
        parser.error("the log has too few queries to hold any out")
    catalogue = Catalogue([*held.train.titles, *held.dev.titles, *held.test.titles])
    catalogue.add(entry.title for entry in (read_titles(options.titles) if options.titles else ()))
    clicks = TestSet.of_clicks(held.dev, catalogue)
    ranker = Neural(Encoder(start), "model")
    own = [result.per_query("model", CHOSEN_BY) for result in (evaluate([ranker], judged), measure([ranker], clicks))]
    print(f"the start itself: dev {own[0].mean():.2f}, held-out clicks {own[1].mean():.2f}", flush=True)
    for size in options.pairs:
        print(f"\n{size or len(held.train):,} pairs")
        alone: list[np.ndarray] = []
        for name, model in (("random weights", None), ("start", start)):
            each = [
                measured(draw(held.train, size, seed), model, judged, clicks, seed, SIZES.get(size, {}))
                for seed in range(1, options.seeds + 1)
            ]
            values = [np.mean(column, axis=0) for column in zip(*each, strict=True)]
            alone = alone or values
            cells = [f"{now.mean():5.2f}{describe(now - first)}" for now, first in zip(values, alone, strict=True)]
            print(f"{name:14} dev {cells[0]}, held-out clicks {cells[1]}", flush=True)


def measured(
    log: ClickLog, start: Model | None, judged: Judged, clicks: TestSet, seed: int, settings: dict[str, int]
) -> list[np.ndarray]:
    """Train and return NDCG@10 of each judged query and of each held-out one."""
    room = len(start.trigrams) if start else 0  # beside those of the start
    chosen = config.recipe(seed=seed, max_trigrams=50_000 + room, **settings)
    data, texts = dataset.prepare_with_texts(
        log, chosen.max_words, chosen.max_trigrams, whole_words=chosen.whole_words
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        model = run_training(
            data if start is None else add_trigrams(data, texts, start, chosen), chosen, Path(place) / "model",
            start=None if start is None else Start(start, {}), dev=TestSet.of_judged(judged),
        )  # fmt: skip
    ranker = Neural(Encoder(model), "model")
    return [result.per_query("model", CHOSEN_BY) for result in (evaluate([ranker], judged), measure([ranker], clicks))]


if __name__ == "__main__":
    main()
