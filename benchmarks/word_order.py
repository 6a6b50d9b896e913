"""Does reading words in order pay? Compare the LSTM-RNN with DSSM, which ignores order, on held-out clicks.

    python benchmarks/word_order.py questions --clicks dbpedia/clicks_questions.tsv.gz --out out/word_order
    python benchmarks/word_order.py dbpedia --clicks dbpedia/clicks_questions.tsv.gz \
        --sampled dbpedia/clicks_redirects.tsv.gz --pairs 100000 --out out/word_order
    python benchmarks/word_order.py questions ... --teacher all-MiniLM-L6-v2    # adds rows with a teacher

Trains each tower with recipe `default` and at most 20 words, and lets it search all titles for the clicked ones of
held-out queries (near-duplicates are held out together; the best epoch is chosen on other held-out queries). `sorted`
is a tower with the words of all texts in alphabetical order: the same network without word order. Prints

- MRR@10, Recall@100 and NDCG@10, means of seeds, with paired randomisation tests;
- NDCG@10 by kind and length of the query and by length of the title;
- *scrambled*: NDCG@10 with the words of each query in random order;
- *order pairs*: queries of the log with the same words in another order and no clicked title in common. They are kept
  out of training. A pair is right if s(q1, t1) + s(q2, t2) > s(q1, t2) + s(q2, t1); chance, and DSSM, have 50%;
- *swapped*: held-out queries with two content words exchanged, and a few sentences: can the tower tell them apart?

What is measured is kept in --out/NAME, so that an interrupted run continues. The last line is JSON.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from held_out_clicks import joined, sampled
from numpy.typing import NDArray
from teacher_file import teacher_file
from word_order_tables import QUESTION_WORDS, SENTENCES, show

import clickvec
from clickvec.data import ClickLog, read_clicks
from clickvec.data.held_out import hold_out, near_duplicate_key
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.about import about_model
from clickvec.model.encoder import Encoder
from clickvec.storage.files import replacing_file
from clickvec.text.tokens import split_words

MAX_WORDS = 20
MINILM = "all-MiniLM-L6-v2"
SYSTEMS: dict[str, dict[str, Any]] = {
    "dssm": {"tower": "dssm"},
    "dssm-wide": {"tower": "dssm", "hidden": 576, "output": 192},  # as many weights as bilstm
    "clsm": {"tower": "clsm"},
    "rnn": {"tower": "rnn"},
    "lstm": {"tower": "lstm"},
    "lstm-sorted": {"tower": "lstm"},
    "bilstm": {"tower": "bilstm"},
    "bilstm-sorted": {"tower": "bilstm"},
}
TEACHER_ROWS = ("dssm", "lstm", "bilstm")
_COMMON = (
    "a an the of in on at to for from by with and or be been it its this that as has have had not no i my your his her"
)
STOP_WORDS = QUESTION_WORDS | frozenset(_COMMON.split())
Transform = Callable[[str], str]


class Material(NamedTuple):
    """What all systems are trained and measured on."""

    train: ClickLog
    dev: TestSet
    test: TestSet
    order_pairs: list[tuple[str, str, str, str]]  # query, its title, the other query, its title
    scrambled: list[str]  # the queries of test with their words in random order
    swaps: list[tuple[int, str]]  # a row of test, and its query with two content words exchanged


def material(log: ClickLog) -> Material:
    pairs = order_pairs(log)
    left_out = {near_duplicate_key(query) for first, _, second, _ in pairs for query in (first, second)}
    kept = np.array([near_duplicate_key(query) not in left_out for query in log.queries])
    catalogue = Catalogue(log.titles)
    held = hold_out(part_of(log, kept))
    if held is None:
        sys.exit("too few queries to hold out")
    rng = np.random.default_rng(0)
    test = TestSet.of_clicks(held.test, catalogue)
    asked = [query.query for query in test.queries]
    scrambled = [" ".join(rng.permutation(split_words(query)).tolist()) for query in asked]
    swaps = [(row, text) for row, query in enumerate(asked) if (text := swap_words(query, rng))]
    return Material(held.train, TestSet.of_clicks(held.dev, catalogue), test, pairs, scrambled, swaps)


def part_of(log: ClickLog, kept: NDArray[np.bool_]) -> ClickLog:
    rows = np.flatnonzero(kept).tolist()
    queries, titles = ([texts[row] for row in rows] for texts in (log.queries, log.titles))
    return replace(ClickLog(queries, titles, log.clicks[kept]))


def order_pairs(log: ClickLog) -> list[tuple[str, str, str, str]]:
    """Return the pairs of queries with the same words in another order and no clicked title in common."""
    by_bag: dict[tuple[str, ...], dict[tuple[str, ...], str]] = defaultdict(dict)
    clicked: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for query, title in zip(log.queries, log.titles, strict=True):
        words = tuple(split_words(query))
        by_bag[tuple(sorted(words))].setdefault(words, query)
        clicked[words].setdefault(" ".join(split_words(title)), title)
    pairs = []
    for orders in by_bag.values():
        for one, other in combinations(orders, 2):
            if clicked[one].keys().isdisjoint(clicked[other]):
                first, second = (next(iter(clicked[words].values())) for words in (one, other))
                pairs.append((orders[one], first, orders[other], second))
    return pairs


def swap_words(query: str, rng: np.random.Generator) -> str:
    """Return the query with two of its content words exchanged; "" if it has fewer than two different ones."""
    words = split_words(query)
    content = [at for at, word in enumerate(words[: MAX_WORDS - 1]) if word not in STOP_WORDS and len(word) > 2]
    if len({words[at] for at in content}) < 2:
        return ""
    while True:
        one, other = rng.choice(content, 2, replace=False).tolist()
        if words[one] != words[other]:
            words[one], words[other] = words[other], words[one]
            return " ".join(words)


# --- one system and seed -----------------------------------------------------------------------------------------


def sort_words(text: str) -> str:
    return " ".join(sorted(split_words(text)))


def transformed(made: Material, change: Transform) -> Material:
    """Return the material with every text changed; titles that become equal stay apart."""

    def log_of(log: ClickLog) -> ClickLog:
        return replace(log, queries=list(map(change, log.queries)), titles=list(map(change, log.titles)))

    def part(held: TestSet) -> TestSet:
        entries = held.catalogue.entries if held.catalogue else {}
        queries = (query._replace(query=change(query.query)) for query in held.queries)
        return TestSet(tuple(queries), Catalogue(map(change, entries.values()), ids=entries))

    pairs = [tuple(map(change, pair)) for pair in made.order_pairs]
    return Material(
        log_of(made.train), part(made.dev), part(made.test), pairs, list(map(change, made.scrambled)),  # type: ignore[arg-type]
        [(row, change(text)) for row, text in made.swaps],
    )  # fmt: skip


def run_cell(made: Material, system: str, seed: int, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train and measure one system with one seed, unless its measures are there already."""
    stored = folder / f"{system}-{seed}.json"
    if stored.exists():
        return json.loads(stored.read_text())  # type: ignore[no-any-return]
    change: Transform = sort_words if "-sorted" in system else str
    own = transformed(made, change) if change is not str else made
    model, begun, cpu = folder / "models" / f"{system}-{seed}", time.time(), time.process_time()
    settings = SYSTEMS[system.removesuffix("+teacher")] | {"max_words": MAX_WORDS, "seed": seed}
    settings |= dict(setting.split("=") for setting in options.set)
    if system.endswith("+teacher"):
        texts = chain(own.train.queries, own.test.titles)
        path = teacher_file(folder / "teacher.npy", texts, None if options.teacher == MINILM else options.teacher)
        settings |= {"teacher": path, "catalogue": own.test.titles}
    if not (model / "config.json").exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        clickvec.train(own.train, model, dev=own.dev, device="cpu", if_exists="overwrite", **settings)  # type: ignore[arg-type]
    seconds = time.time() - begun, time.process_time() - cpu
    encoder = Encoder.load(model)
    ranker = Neural(encoder, system)
    found = measure([ranker], own.test)
    result = {name: found.per_query(system, name).tolist() for name in MEASURES}
    asked = zip(own.test.queries, map(change, made.scrambled), strict=True)
    scrambled = replace(own.test, queries=tuple(query._replace(query=text) for query, text in asked))
    result["scrambled"] = measure([ranker], scrambled).per_query(system, "NDCG@10").tolist()
    result |= {"order_pairs": told_apart(encoder, own.order_pairs), **swapped(encoder, own)}
    result["sentences"] = [cosines(encoder, [change(one)], [change(other)])[0] for one, other in SENTENCES]
    result["parameters"] = int(about_model(encoder.model)["parameters"])
    result["seconds"], result["cpu_seconds"] = seconds
    with replacing_file(stored) as file:
        file.write(json.dumps(result).encode())
    return result


def cosines(encoder: Encoder, queries: Sequence[str], others: Sequence[str]) -> list[float]:
    """Return the cosine of each query with the other query in its place."""
    first, second = encoder.encode_query(list(queries)), encoder.encode_query(list(others))
    return np.einsum("qd,qd->q", first, second).tolist()  # type: ignore[no-any-return]


def told_apart(encoder: Encoder, pairs: Sequence[tuple[str, str, str, str]]) -> list[float]:
    """Return 1 for each order pair whose titles are assigned to the right queries, 0 for a wrong one, 0.5 for a tie."""
    if not pairs:
        return []
    q1, t1, q2, t2 = map(list, zip(*pairs, strict=True))
    queries = encoder.encode_query(q1) - encoder.encode_query(q2)
    titles = encoder.encode_document(t1) - encoder.encode_document(t2)
    margin = np.einsum("pd,pd->p", queries, titles)
    margin[np.abs(margin) < 1e-6] = 0  # rounding
    return (0.5 + 0.5 * np.sign(margin)).tolist()  # type: ignore[no-any-return]


def swapped(encoder: Encoder, made: Material) -> dict[str, float]:
    """Return how far exchanging two content words moves a query: cosine, score of the clicked title, best title."""
    if not made.swaps:
        return {}
    rows = [row for row, _ in made.swaps]
    before = encoder.encode_query([made.test.queries[row].query for row in rows])
    after = encoder.encode_query([text for _, text in made.swaps])
    titles = encoder.encode_document(made.test.titles)
    clicked = encoder.encode_document([made.test.queries[row].titles[0] for row in rows])
    scores, others = before @ titles.T, after @ titles.T
    change = np.abs(np.einsum("qd,qd->q", before - after, clicked))
    return {
        "swap cosine": float(np.einsum("qd,qd->q", before, after).mean()),
        "swap score change": float(change.mean()),
        "swap spread": float((change / scores.std(axis=1)).mean()),  # in standard deviations of the titles' scores
        "swap other best": float((scores.argmax(axis=1) != others.argmax(axis=1)).mean() * 100),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--clicks", type=Path, nargs="+", required=True)
    parser.add_argument("--sampled", type=Path, nargs="*", default=[], help="further logs, of which --pairs are used")
    parser.add_argument("--pairs", type=int, default=100_000, help="lines of each --sampled log; order pairs are added")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--teacher", help=f"{MINILM} or a sentence-transformers folder: add rows with a teacher")
    parser.add_argument("--set", nargs="*", default=[], help="settings over the recipe: key=value")
    parser.add_argument("--out", type=Path, default=Path("out/word_order"))
    options = parser.parse_args()
    logs = [read_clicks(path) for path in options.clicks]
    logs += [with_order_pairs(read_clicks(path), options.pairs) for path in options.sampled]
    made = material(joined(logs))
    asked = [query.query for query in made.test.queries]
    lengths = [np.mean([len(split_words(text)) for text in texts]) for texts in (asked, made.train.titles)]
    print(
        f"{options.name}: {len(made.train):,} pairs to train on, {len(made.test.queries):,} held-out queries of "
        f"{lengths[0]:.1f} words, {len(made.test.titles):,} titles of {lengths[1]:.1f} words\n"
    )
    names = [*options.systems, *(f"{name}+teacher" for name in TEACHER_ROWS if options.teacher)]
    cells: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in range(1, options.seeds + 1):
        for name in names:
            cells[name].append(run_cell(made, name, seed, options.out / options.name, options))
            mean = np.mean(cells[name][-1]["NDCG@10"])
            print(f"{name}, seed {seed}: NDCG@10 {mean:.2f}", file=sys.stderr, flush=True)
    print(json.dumps(show(made.test, len(made.swaps), len(made.order_pairs), cells)))


def with_order_pairs(log: ClickLog, pairs: int) -> ClickLog:
    """Return a random sample of a log together with its order pairs, which are measured and not trained on."""
    first, title, second, other = zip(*order_pairs(log), strict=True)
    apart = ClickLog([*first, *second], [*title, *other], np.ones(2 * len(first)))
    return joined([sampled(log, pairs), apart])


if __name__ == "__main__":
    main()
