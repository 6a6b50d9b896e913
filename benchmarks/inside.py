"""Write docs/inside.md: what models have learned, and whether the paper's observations hold.

    python benchmarks/inside.py --data DIR      # DIR contains msrd/ (see CONTRIBUTING.md); about an hour on two cores

Models are trained into --work unless they exist (each can be trained elsewhere and copied). Every finding is stored in
--work/findings and not computed again. The text of the page is in inside.md.in; this script fills in the numbers.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import inside_page
import numpy as np

from clickvec.data import JudgedQuery, read_clicks, read_judged, read_texts
from clickvec.evaluation.metrics import with_relevant
from clickvec.evaluation.significance import randomisation_test
from clickvec.explanation.topics import detect
from clickvec.lab.claims.checks import SHARES, attenuation_check, deletion_check, keyword_check
from clickvec.lab.claims.topic_labels import read_labels
from clickvec.lab.claims.topic_scores import cells, score, score_all, signed_cells, untrained
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import canonical, split_words

IMPRESSIONS = 600_000
LONG = "--recipe paper --set cells=32 --set epochs=50 --set learning_rate=0.03"
TRAINED = {
    "lstm": "--tower lstm", "bilstm": "--tower bilstm", "lstm32": "--tower lstm --set cells=32",
    "rnn": "--tower rnn", "rnn96": "--tower rnn --set hidden=96",
    "paper-lstm": "--tower lstm --recipe paper",
    "long-lstm": f"--tower lstm {LONG}", "long-bilstm": f"--tower bilstm {LONG}",
    "long-rnn": "--tower rnn --recipe paper --set hidden=32 --set epochs=50 --set learning_rate=0.01",
}  # fmt: skip
SEEDS = (2, 3)  # more of the long LSTM-RNN
TRAINED |= {f"long-lstm-{seed}": f"{TRAINED['long-lstm']} --set seed={seed}" for seed in SEEDS}
THRESHOLDS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
PAIRS = 1000  # at most, for the deletion of words
TITLES = 3000  # at most, for the attenuation in titles


class Inside:
    """The data, the models, and the stored findings."""

    def __init__(self, data: Path, work: Path) -> None:
        self.work = work
        self.folders = {"site": work / "site", "msrd": data / "msrd"}

    def program(self, *arguments: str, columns: int = 80) -> str:
        """Run clickvec and return its output, at most `columns` wide."""
        command = [sys.executable, "-m", "clickvec", *arguments]
        environment = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1"}
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout

    def prepare(self) -> None:
        """Make the built-in log, the models and an index of its titles, unless they exist."""
        site = self.folders["site"]
        if not (site / "topics.tsv.gz").exists():
            self.program("simulate", str(site), "--impressions", str(IMPRESSIONS))
        for data, folder in self.folders.items():
            for name, settings in TRAINED.items():
                if not (self.model(data, name) / "config.json").exists():
                    sys.stderr.write(f"training {data}-{name}\n")
                    clicks, dev, out = (
                        str(path) for path in (folder / "clicks.tsv.gz", folder / "dev.tsv.gz", self.model(data, name))
                    )
                    self.program("train", clicks, "--dev", dev, "--out", out, *settings.split())
        if not (self.work / "index").exists():
            titles, out = str(site / "titles.tsv.gz"), str(self.work / "index")
            self.program("index", str(self.model("site", "bilstm")), titles, "--out", out)

    def model(self, data: str, name: str) -> Path:
        """Return the folder of a model."""
        return self.work / f"{data}-{name}"

    def encoder(self, data: str, name: str) -> Encoder:
        """Load a trained model."""
        return Encoder.load(self.model(data, name))

    def judged(self, data: str, split: str) -> list[JudgedQuery]:
        """Read the queries of a judged set that have a relevant title."""
        return with_relevant(read_judged(self.folders[data] / f"{split}.tsv.gz"))

    def rareness(self, data: str) -> Callable[[str], float]:
        """Return a function that is higher for words that are rarer in the log."""
        log = read_clicks(self.folders[data] / "clicks.tsv.gz")
        counts = Counter(word for text in (*log.queries, *log.titles) for word in split_words(text))
        return lambda word: -counts[word]

    def found(self, name: str, find: Callable[["Inside"], dict[str, Any]]) -> dict[str, Any]:
        """Return a finding from its file, or compute and store it."""
        path = self.work / "findings" / f"{name}.json"
        if not path.exists():
            sys.stderr.write(f"finding {name}\n")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(find(self), indent=1, ensure_ascii=False), encoding="utf-8")
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept


# --- findings ----------------------------------------------------------------------------------------------------


def attenuation(inside: Inside) -> dict[str, Any]:
    """Compare function words with other words in queries and titles, for each model and the same untrained."""
    found = {}
    for data in inside.folders:
        judged = inside.judged(data, "test")
        texts = {"query": [query.query for query in judged], "title": _sample_titles(judged)}
        for name in ("lstm", "paper-lstm", "long-lstm", "rnn96", "long-rnn"):
            trained = inside.encoder(data, name)
            for kind, encoder in (("trained", trained), ("untrained", untrained(trained, seed=1))):
                for side, some in texts.items():
                    found[f"{data} {name} {kind} {side}"] = asdict(attenuation_check(encoder, some, side))
    return found


def _sample_titles(judged: Sequence[JudgedQuery]) -> list[str]:
    titles = list(dict.fromkeys(title for query in judged for title in query.titles))
    places = np.random.default_rng(0).permutation(len(titles))[:TITLES]
    return [titles[place] for place in places.tolist()]


def thresholds(inside: Inside) -> dict[str, Any]:
    """Measure on dev how much NDCG falls without keywords, by the threshold of a detection."""
    found = {}
    for data in inside.folders:
        encoder, judged = inside.encoder(data, "bilstm"), inside.judged(data, "dev")
        for threshold in THRESHOLDS:
            check = keyword_check(encoder, judged, threshold=threshold)
            found[f"{data} {threshold}"] = {
                "share": check.share, "queries": len(check.query_ids), "of": len(judged),
                "gap": float(check.fall.sum() / len(judged)),
            }  # fmt: skip
    return found


def keywords(inside: Inside) -> dict[str, Any]:
    """Measure NDCG on test without keywords, without as many others, and without as many of the rarest words."""
    found = {}
    for data in inside.folders:
        judged = inside.judged(data, "test")
        baselines: dict[str, Callable[[str], float]] = {"longest": len, "rarest": inside.rareness(data)}
        for name in ("bilstm", "long-bilstm", "lstm"):
            encoder = inside.encoder(data, name)
            judges = {"its own": encoder} | ({"untrained": untrained(encoder, seed=1)} if name == "bilstm" else {})
            for kind, judge in judges.items():
                check = keyword_check(encoder, judged, judge=judge, baselines=baselines)
                found[f"{data} {name} {kind}"] = {
                    "queries": len(check.query_ids), "of": len(judged), "share": check.share,
                    "words": check.words_left_out, "whole": float(check.whole.mean()),
                    "without_keywords": float(check.without_keywords.mean()),
                    "without_others": float(check.without_others.mean()),
                    "without_first": {name: float(values.mean()) for name, values in check.without_first.items()},
                    "p": randomisation_test(check.without_keywords, check.without_others),
                    "p_first": {
                        name: randomisation_test(check.without_keywords, values)
                        for name, values in check.without_first.items()
                    },
                }  # fmt: skip
    return found


def deletion(inside: Inside) -> dict[str, Any]:
    """Measure on test how the score falls when words are left out in the order of each method."""
    found = {}
    for data in inside.folders:
        pairs = [(query.query, query.titles[int(query.grades.argmax())]) for query in inside.judged(data, "test")]
        chosen = np.random.default_rng(0).permutation(len(pairs))[:PAIRS].tolist()
        for name in ("lstm", "bilstm", "rnn"):
            for side in ("title", "query"):
                check = deletion_check(inside.encoder(data, name), [pairs[place] for place in chosen], side)
                found[f"{data} {name} {side}"] = {
                    "pairs": check.pairs, "words": check.words / check.pairs,
                    "falls": {method: float(values.mean()) for method, values in check.falls.items()},
                    "falls_last": {method: float(values.mean()) for method, values in check.falls_last.items()},
                    "p": {
                        method: [
                            randomisation_test(falls["shapley"], falls[method])
                            for falls in (check.falls, check.falls_last)
                        ]
                        for method in check.falls if method != "shapley"
                    },
                    "shares": SHARES.tolist(), "curves": check.curves,
                }  # fmt: skip
    return found


def topics(inside: Inside) -> dict[str, Any]:
    """Compare cells with the known topics of the test queries of the built-in log."""
    site = inside.folders["site"]
    queries = [query.query for query in inside.judged("site", "test")]
    known, log = read_labels(site / "topics.tsv.gz", "query").topics, read_clicks(site / "clicks.tsv.gz")
    labels = [known.get(canonical(query)) for query in queries]
    corpus = [f"{query} {title}" for query, title in zip(log.queries, log.titles, strict=True)]
    found = {}
    for name in ("lstm", "lstm32", "paper-lstm", "long-lstm"):
        encoder = inside.encoder("site", name)
        scores = score_all(encoder, detect(encoder, queries), labels, corpus=corpus)
        found[name] = {clusters: score.as_json() for clusters, score in scores.items()}
    return found


def seeds(inside: Inside) -> dict[str, Any]:
    """Measure gates and topics of the long LSTM-RNN of the built-in log with other seeds."""
    queries = [query.query for query in inside.judged("site", "test")]
    known = read_labels(inside.folders["site"] / "topics.tsv.gz", "query").topics
    labels = [known.get(canonical(query)) for query in queries]
    found = {}
    for name in ("long-lstm", *(f"long-lstm-{seed}" for seed in SEEDS)):
        encoder = inside.encoder("site", name)
        check, detected = attenuation_check(encoder, queries), detect(encoder, queries)
        found[name] = {
            "function": check.function.gate, "content": check.content.gate,
            "cells": score(cells(detected), labels).nmi.adjusted,
            "signed cells": score(signed_cells(detected), labels).nmi.adjusted,
        }  # fmt: skip
    return found


def words_of_topics(inside: Inside) -> dict[str, Any]:
    """Count, for the figure, how often each signed cell detects a word in a query of each topic."""
    site = inside.folders["site"]
    known = read_labels(site / "topics.tsv.gz", "query").topics
    queries = [query for query in read_texts(site / "clicks.tsv.gz", "query") if canonical(query) in known]
    found = detect(inside.encoder("site", "long-lstm"), queries)
    topics = sorted({known[canonical(query)] for query in queries})
    counts = np.zeros((2 * len(found.cells), len(topics)))
    place = {topic: at for at, topic in enumerate(topics)}
    of_text = np.array([place[known[canonical(query)]] for query in queries])
    np.add.at(counts, (2 * found.dimension + found.positive, of_text[found.text]), 1)
    return {"topics": topics, "counts": counts.astype(int).tolist()}


FINDINGS = {
    "words_of_topics": words_of_topics, "attenuation": attenuation, "thresholds": thresholds, "keywords": keywords,
    "deletion": deletion, "topics": topics, "seeds": seeds,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("out/inside"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    inside = Inside(options.data, options.work)
    inside.prepare()
    found = {name: inside.found(name, find) for name, find in FINDINGS.items()}
    inside_page.write(inside, found, options.docs)


if __name__ == "__main__":
    main()
