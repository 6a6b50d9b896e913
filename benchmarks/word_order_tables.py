"""The tables of benchmarks/word_order.py: all queries, groups of queries, exchanged words, order pairs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.result import text_table
from clickvec.evaluation.significance import randomisation_test
from clickvec.evaluation.test_set import TestSet
from clickvec.lab.compare.pair_tests import holm
from clickvec.text.tokens import split_words

BASE = "dssm"  # the system that others are compared with
_ASKING = (
    "what whats what's who whos who's whose whom where wheres where's when which why how is are was were do does did "
    "can could name list count"
)
_NEGATIONS = "not no never without except neither nor none cannot isn't wasn't doesn't didn't don't"
QUESTION_WORDS, NEGATIONS = frozenset(_ASKING.split()), frozenset(_NEGATIONS.split())
SENTENCES = (
    ("flights from london to paris", "flights from paris to london"),
    ("dog bites man", "man bites dog"),
    ("school dance", "dance school"),
    ("liquid in gas", "gas in liquid"),
    ("who is the mother of queen victoria", "queen victoria is the mother of who"),
    ("teams that beat brazil in germany", "teams that brazil beat in germany"),
    ("house without garden", "garden without house"),
)
DIRECT = (  # further comparisons: the same network without order, and DSSM with as many weights as bilstm
    ("lstm", "lstm-sorted"), ("bilstm", "bilstm-sorted"), ("bilstm", "dssm-wide"), ("bilstm", "lstm"),
    ("lstm+teacher", "lstm"), ("dssm+teacher", "dssm"), ("bilstm+teacher", "bilstm"),
)  # fmt: skip
Values = NDArray[np.float64]
Cells = dict[str, list[dict[str, Any]]]  # what was measured with each seed, by system


def groups(test: TestSet) -> dict[str, NDArray[np.intp]]:
    """Return rows of test by kind and length of the query and by length of its clicked titles."""
    words = [split_words(query.query) for query in test.queries]
    asked = np.array([row[0] in QUESTION_WORDS or row[-1].endswith("?") for row in words])
    negated = np.array([not NEGATIONS.isdisjoint(row) for row in words])
    lengths = np.array([len(row) for row in words])
    of_title = np.array([
        np.mean([len(split_words(title)) for title in query.titles]) for query in test.queries
    ])  # fmt: skip
    found = {"questions": asked, "other queries": ~asked, "negations": negated}
    for low, high in ((1, 2), (3, 4), (5, 6), (7, 8), (9, 12), (13, 10**6)):
        name = f"query of {low} to {high} words" if high < 10**6 else f"query of {low} words or more"
        found[name] = (lengths >= low) & (lengths <= high)
    for low, high in ((0, 1.5), (1.5, 2.5), (2.5, 3.5), (3.5, 1e6)):
        name = {0: "title of 1 word", 1.5: "title of 2 words", 2.5: "title of 3 words"}.get(low, "title of 4 or more")
        found[name] = (of_title >= low) & (of_title < high)
    return {name: np.flatnonzero(mask) for name, mask in found.items() if mask.any()}


def show(test: TestSet, swaps: int, pairs: int, cells: Cells) -> dict[str, Any]:
    """Print the tables, and return their numbers."""
    means = {
        name: {key: np.mean([seed[key] for seed in seeds], axis=0) for key in (*MEASURES, "scrambled", "order_pairs")}
        for name, seeds in cells.items()
    }
    others = [name for name in cells if name != base_of(name, cells)]
    ndcg = {name: kept["NDCG@10"] for name, kept in means.items()}
    tests = [randomisation_test(ndcg[name], ndcg[base_of(name, cells)], 100_000) for name in others]
    p = dict(zip(others, zip(tests, holm(tests).tolist(), strict=True), strict=True))
    rows = [["system", "weights", *MEASURES, "±", "over DSSM", "p", "p, Holm", "scrambled", "seconds"]]
    result: dict[str, Any] = {}
    for name, seeds in cells.items():
        spread = float(np.std([np.mean(seed["NDCG@10"]) for seed in seeds], ddof=1)) if len(seeds) > 1 else 0.0
        gain = float((ndcg[name] - ndcg[base_of(name, cells)]).mean())
        entry = {key: float(np.mean(values)) for key, values in means[name].items() if len(values)}
        entry |= {"weights": seeds[0]["parameters"], "spread": spread, "over DSSM": gain, "p": p.get(name)}
        entry["seconds"] = float(np.mean([seed["cpu_seconds"] for seed in seeds]))
        result[name] = entry
        tested = [f"{gain:+.1f}", *(f"{value:.2g}" for value in p[name])] if name in p else ["", "", ""]
        rows.append([
            name, f"{entry['weights']:,}", *(f"{entry[key]:.1f}" for key in MEASURES), f"{spread:.1f}", *tested,
            f"{entry['scrambled']:.1f}", f"{entry['seconds']:.0f}",
        ])  # fmt: skip
    print(text_table(rows))
    print(f"\nNDCG@10 of two systems; p values are not corrected\n{direct_table(ndcg)}")
    print(f"\nNDCG@10 by group; p values are not corrected\n{group_table(test, means, result)}")
    print(f"\nTwo content words exchanged in {swaps:,} queries\n{swap_table(cells, result)}")
    print(f"\nCosine of two sentences\n{sentence_table(cells, result)}")
    if pairs:
        print(f"\n{pairs:,} order pairs\n{pair_table(means, result)}")
    return result


def direct_table(ndcg: dict[str, Values]) -> str:
    rows = [["system", "minus", "difference", "p"]]
    for one, other in DIRECT:
        if one in ndcg and other in ndcg:
            p = randomisation_test(ndcg[one], ndcg[other], 100_000)
            rows.append([one, other, f"{(ndcg[one] - ndcg[other]).mean():+.2f}", f"{p:.2g}"])
    return text_table(rows)


def base_of(name: str, cells: dict[str, Any]) -> str:
    """Return the DSSM that a system is compared with: the one with a teacher for systems with one."""
    with_teacher = f"{BASE}+teacher"
    return with_teacher if name.endswith("+teacher") and with_teacher in cells else BASE


def compared(cells: dict[str, Any]) -> list[str]:
    return [name for name in ("lstm", "bilstm", "lstm+teacher", "bilstm+teacher") if name in cells]


def group_table(test: TestSet, means: dict[str, dict[str, Values]], result: dict[str, Any]) -> str:
    tested = compared(means)
    rows = [["group", "queries", *means, *(f"{name} - {base_of(name, means)}: p" for name in tested)]]
    for label, places in groups(test).items():
        values = {name: kept["NDCG@10"][places] for name, kept in means.items()}
        tests = [(name, randomisation_test(values[name], values[base_of(name, means)])) for name in tested]
        cells = [f"{np.mean(values[name] - values[base_of(name, means)]):+.1f}: {p:.2g}" for name, p in tests]
        rows.append([label, f"{len(places):,}", *(f"{np.mean(found):.1f}" for found in values.values()), *cells])
        for name, found in values.items():
            result[name].setdefault("groups", {})[label] = float(np.mean(found))
        for name, p in tests:
            result[name].setdefault("group p", {})[label] = p
    return text_table(rows)


def swap_table(cells: Cells, result: dict[str, Any]) -> str:
    """Return how far exchanging two content words of a query moves it."""
    names = ("swap cosine", "swap score change", "swap spread", "swap other best")
    rows = [["system", "cosine of both", "change of score", "in standard deviations", "% with another best title"]]
    for name, seeds in cells.items():
        found = [float(np.mean([seed.get(key, np.nan) for seed in seeds])) for key in names]
        result[name] |= dict(zip(names, found, strict=True))
        rows.append([name, f"{found[0]:.3f}", f"{found[1]:.3f}", f"{found[2]:.2f}", f"{found[3]:.0f}"])
    return text_table(rows)


def sentence_table(cells: Cells, result: dict[str, Any]) -> str:
    """Return the cosines of sentences and the same words in another order."""
    cosines = {name: np.mean([seed["sentences"] for seed in seeds], axis=0).tolist() for name, seeds in cells.items()}
    rows = [["sentences", *cells]]
    for number, pair in enumerate(SENTENCES):
        rows.append([" / ".join(pair), *(f"{found[number]:.2f}" for found in cosines.values())])
    for name, found in cosines.items():
        result[name]["sentences"] = found
    return text_table(rows)


def pair_table(means: dict[str, dict[str, Values]], result: dict[str, Any]) -> str:
    """Test each system against chance: a coin would give 0.5 on every pair."""
    rows = [["system", "right, %", "p (against 50%)"]]
    for name, kept in means.items():
        values = kept["order_pairs"]
        p = randomisation_test(values, np.full(len(values), 0.5), 100_000)
        result[name]["order pairs p"] = p
        rows.append([name, f"{100 * values.mean():.1f}", f"{p:.2g}"])
    return text_table(rows)
