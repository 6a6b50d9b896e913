"""Write docs/inside.md: fill the template inside.md.in with the findings of inside.py, and draw the figures."""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inside_bars
import inside_maps
import numpy as np

from clickvec.data import read_titles
from clickvec.explanation import Keywords, explain, keywords, map_titles, read
from clickvec.explanation.topics import detect
from clickvec.lab.claims.query_table import query_table
from clickvec.lab.claims.topic_labels import read_labels
from clickvec.lab.compare.pair_tests import holm
from clickvec.render.figures.gates import draw_gates
from clickvec.render.terminal.screen import Screen
from clickvec.text.tokens import canonical

if TYPE_CHECKING:
    from inside import Inside

TEMPLATE = Path(__file__).with_name("inside.md.in")
PAIRS = {
    "shanghai": (
        "hotels in shanghai", "shanghai hotels accommodation hotel in shanghai discount and reservation",
    ),
    "bathtub": (
        "how to fix bath tub wont turn off", "how do you paint a bathtub and what paint should you use yahoo answers",
    ),
}  # fmt: skip
# The queries of the paper's table of cells and queries: ten on food, ten on health.
QUERIES = (
    "al yo yo sauce", "atkins diet lasagna", "blender recipes", "cake bakery edinburgh", "canning corn beef hash",
    "torre de pizza", "famous desserts", "fried chicken", "smoked turkey recipes", "italian sausage hoagies",
    "do you get allergy", "much pain will after total knee replacement", "how to make whiter teeth",
    "illini community hospital", "implant infection", "introductory psychology",
    "narcotics during pregnancy side effects", "fight sinus infections", "health insurance high blood pressure",
    "all antidepressant medications",
)  # fmt: skip
NAMES = {
    "site": "built-in log", "msrd": "msrd", "lstm": "LSTM-RNN", "bilstm": "bidirectional", "rnn": "RNN",
    "lstm32": "LSTM-RNN, 32 cells", "rnn96": "RNN, 96 neurons", "paper-lstm": "LSTM-RNN, `paper`",
    "long-lstm": "LSTM-RNN, long", "long-bilstm": "bidirectional, long", "long-rnn": "RNN, 32 neurons, long",
}  # fmt: skip
Rows = Sequence[Sequence[object]]


def write(inside: "Inside", found: Mapping[str, dict[str, Any]], docs: Path) -> None:
    """Draw the figures, fill in the template, and write the page."""
    images = docs / "images" / "inside"
    images.mkdir(parents=True, exist_ok=True)
    _draw(inside, found, images)
    parts = {
        "attenuation": _attenuation(found["attenuation"]),
        "gates": _gates(inside),
        "neurons": _neurons(found["attenuation"]),
        "thresholds": _thresholds(found["thresholds"]),
        "keywords": _keywords(found["keywords"]),
        "deletion": _deletion(found["deletion"]),
        "topics": _topics(found["topics"]),
        "seeds": _seeds(found["seeds"]),
        "speed": _speed(),
        **_outputs(inside),
        **{f"table_{name}": _paper_tables(inside, name) for name in PAIRS},
        **{f"versus_{name}": _versus(inside, name) for name in PAIRS},
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    wanted = set(re.findall(r"\{\{(\w+)\}\}", template))
    if wanted != set(parts):
        raise SystemExit(f"the template and the parts differ: {sorted(wanted ^ set(parts))}")
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    (docs / "inside.md").write_text(page, encoding="utf-8")


# --- tables ------------------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(entry) for entry in line) + " |" for line in lines)


def _attenuation(found: Mapping[str, Any]) -> str:
    rows = []
    for name, check in found.items():
        data, model, kind, side = name.split()
        if "rnn" in model:
            continue
        groups = [check[group] for group in ("function", "short", "content")]
        rows.append([
            NAMES[data], "queries" if side == "query" else "titles",
            NAMES[model] + ("" if kind == "trained" else ", untrained"),
            *(" / ".join(f"{group[what]:.3f}" for group in groups) for what in ("gate", "taken_in", "effect")),
            f"{check['less_gate']:.0%}", f"{groups[0]['effect'] / groups[2]['effect']:.2f}",
        ])  # fmt: skip
    head = ["data", "texts", "model", "gate", "input", "effect", "gate lower", "effect ratio"]
    return _table(head, rows)


def _neurons(found: Mapping[str, Any]) -> str:
    rows = []
    for name in ("lstm", "rnn96", "paper-lstm", "long-lstm", "long-rnn"):
        for kind in ("trained", "untrained"):
            groups = [found[f"{data} {name} {kind} {side}"] for data in ("site", "msrd") for side in ("query", "title")]
            cells = [f"{check['function']['cells']:.1f} / {check['content']['cells']:.1f}" for check in groups]
            rows.append([NAMES[name] + ("" if kind == "trained" else ", untrained"), *cells])
    return _table(
        ["", *(f"{data}, {side}" for data in ("built-in log", "msrd") for side in ("queries", "titles"))], rows
    )


def _thresholds(found: Mapping[str, Any]) -> str:
    shares = sorted({float(name.split()[1]) for name in found})
    rows = []
    for data in ("site", "msrd"):
        at = [found[f"{data} {share}"] for share in shares]
        rows.append([NAMES[data], "share of words that are keywords", *(f"{one['share']:.0%}" for one in at)])
        rows.append([NAMES[data], "NDCG@10 lost, beyond the loss by other words", *(f"{one['gap']:.1f}" for one in at)])
    return _table(["dev", "threshold (equal shares)", *(f"{share:g}" for share in shares)], rows)


def _keywords(found: Mapping[str, Any]) -> str:
    orders = list(next(iter(found.values()))["without_first"])
    tests = [(name, order) for name in found for order in ("", *orders)]
    p = dict(zip(tests, holm([found[n]["p_first"][r] if r else found[n]["p"] for n, r in tests]), strict=True))
    rows = []
    for name, check in found.items():
        data, model, kind = name.split(maxsplit=2)
        found_by = NAMES[model] if kind == "its own" else f"{NAMES[model]}, keywords of an untrained model"
        rows.append([
            NAMES[data], found_by, f"{check['queries']:,} of {check['of']:,}", f"{check['whole']:.1f}",
            f"**{check['without_keywords']:.1f}**", f"{check['without_others']:.1f} ({_p(p[name, ''])})",
            *(f"{check['without_first'][order]:.1f} ({_p(p[name, order])})" for order in orders),
        ])  # fmt: skip
    head = [
        "test", "model", "queries", "NDCG@10", "without keywords", "without other words (p)",
        *(f"without the {order} (p)" for order in orders),
    ]  # fmt: skip
    return _table(head, rows)


def _p(value: float) -> str:
    return f"{value:.4f}" if value < 0.01 else f"{value:.2f}"


def _deletion(found: Mapping[str, Any]) -> str:
    methods = list(next(iter(found.values()))["falls"])
    rows = []
    for name, check in found.items():
        data, model, side = name.split()
        falls = [f"{check['falls'][method]:.3f} / {check['falls_last'][method]:.3f}" for method in methods]
        about = [f"{NAMES[data]}, {NAMES[model]}", "titles" if side == "title" else "queries", f"{check['words']:.1f}"]
        rows.append([*about, *falls, " / ".join(map(_p, check["p"]["changes"]))])
    return _table(["test", "words of", "mean words", *methods, "p: shapley, changes"], rows)


def _topics(found: Mapping[str, Any]) -> str:
    rows = []
    for model, scores in found.items():
        for name, one in scores.items():
            rows.append([
                NAMES[model], name, one["clusters"], f"{one['items']:,}",
                f"{one['purity']['value']:.1%} ({one['purity']['chance']:.1%})", f"{one['purity']['adjusted']:.3f}",
                f"{one['nmi']['value']:.3f} ({one['nmi']['chance']:.3f})", f"{one['nmi']['adjusted']:.3f}",
            ])  # fmt: skip
    head = [
        "model", "clusters", "number", "words", "purity (chance)", "adjusted", "NMI (chance)", "adjusted",
    ]  # fmt: skip
    return _table(head, rows)


def _seeds(found: Mapping[str, Any]) -> str:
    """Return one sentence about the other seeds of the long training."""
    gates = ", ".join(f"{one['function']:.3f} / {one['content']:.3f}" for one in found.values())
    nmi = ", ".join(f"{one['cells']:.3f} / {one['signed cells']:.3f}" for one in found.values())
    return (
        f"*The long LSTM-RNN with seeds 1, 2, 3: adjusted NMI of cells / signed cells {nmi}; mean gate at function "
        f"words / others in test queries {gates}.*"
    )


def _speed() -> str:
    command = [sys.executable, str(Path(__file__).with_name("explain.py"))]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return "\n".join(printed[:-1])  # the last line is JSON


# --- the paper's two examples ------------------------------------------------------------------------------------


def _gates(inside: "Inside") -> str:
    """Return the mean input gate at each word of the first title, for each model."""
    title = PAIRS["shanghai"][1]
    rows = []
    for name in ("lstm", "paper-lstm", "long-lstm"):
        gates = read(inside.encoder("site", name), "title", title).directions[0].values["input_gate"].mean(axis=1)
        rows.append([NAMES[name], *(f"{gate:.3f}" for gate in gates)])
    return _table(["mean input gate", *title.split()], rows)


def _paper_tables(inside: "Inside", pair: str) -> str:
    tables = []
    for side, text in zip(("query", "title"), PAIRS[pair], strict=True):
        tables.append(_keyword_table(keywords(inside.encoder("site", "bilstm"), text, side)))
    return "\n\n".join(tables)


def _keyword_table(found: Keywords) -> str:
    words = [f"**{word}**" if verdict else word for word, verdict in zip(found.words, found.verdicts, strict=True)]
    rows = [[way, *("-" if count is None else count for count in row)] for way, row in found.counts.items()]
    return _table([f"cells of {found.active}", *words], rows)


def _versus(inside: "Inside", pair: str) -> str:
    found = {NAMES[name]: explain(inside.encoder("site", name), *PAIRS[pair]) for name in ("lstm", "rnn")}
    tables = []
    for side in ("query", "title"):
        rows = []
        for name, model in found.items():
            words = model.query_words if side == "query" else model.title_words
            counts = [word.detected_by["left to right"] for word in words]
            rows.append([f"{name}, score {model.score:.3f}", *("-" if n is None else n for n in counts)])
        tables.append(_table([f"cells of 10, {side}", *(word.word for word in words)], rows))
    return "\n\n".join(tables)


# --- printed output and figures ----------------------------------------------------------------------------------


def _outputs(inside: "Inside") -> dict[str, str]:
    names = "site-bilstm", "index", "site-long-lstm", "msrd-lstm"
    model, index, long, films = (str(inside.work / name) for name in names)
    clicks, titles = str(inside.folders["site"] / "clicks.tsv.gz"), str(inside.folders["msrd"] / "titles.tsv.gz")
    first = "shower valve cartridge explained by experts"
    missing = inside.program("explain", model, "bath tub wont turn off", PAIRS["bathtub"][1], "--first", first)
    cells = inside.program("topics", long, clicks, "--words", "5", "--cells", "0,1,2,3,4,5,6,7")
    near = "nearest", index, "pizza", "infection", "infectoin", "-k", "6", "--least", "3"
    unlike = "nearest", films, "batman", "--catalogue", titles, "-k", "6", "--least", "2", "--unlike"
    paper_queries = detect(inside.encoder("site", "long-lstm"), QUERIES)
    return {
        "query_table": query_table(paper_queries, range(8), Screen(120)),
        "explain": inside.program("explain", model, *PAIRS["shanghai"], "--all").rstrip(),
        "why_not": missing[missing.index("Compared with") :].rstrip(),
        "cells": cells.split("\n\n")[0].rstrip(),
        "nearest": inside.program(*near).rstrip(),
        "nearest_unlike": inside.program(*unlike).rstrip(),
    }


def _draw(inside: "Inside", found: Mapping[str, dict[str, Any]], images: Path) -> None:
    for name, model in (("shanghai", "lstm"), ("shanghai", "long-lstm"), ("bathtub", "long-lstm")):
        encoder = inside.encoder("site", model)
        draw_gates(explain(encoder, *PAIRS[name]), images / f"gates-{name}-{model}.png")
    curves = found["deletion"]["site lstm title"]["curves"]
    inside_bars.deletion_curves(
        {method: [value / curve[0] for value in curve] for method, curve in curves.items()},
        images / "deletion.png",
        across="words of the title left out, in tenths",
    )
    pair = explain(inside.encoder("site", "lstm"), *PAIRS["shanghai"]).pair
    assert pair
    inside_bars.contributions(pair, images / "contributions.png")
    inside_bars.function_word_bars(_function_words(found["attenuation"]), images / "function-words.png")
    _cells_by_topic(found["words_of_topics"], images / "topics.png")
    _title_map(inside, images / "titles.png")


def _function_words(found: Mapping[str, Any]) -> dict[str, dict[str, tuple[float, float]]]:
    """Map measure -> model -> (function words, other words), in the test queries of the built-in log."""
    shown = {
        NAMES[model].replace("`", ""): found[f"site {model} trained query"]
        for model in ("lstm", "paper-lstm", "long-lstm")
    }
    shown["untrained"] = found["site lstm untrained query"]
    measures = {"mean input gate": "gate", "effect on the vector": "effect"}
    return {
        measure: {model: (check["function"][key], check["content"][key]) for model, check in shown.items()}
        for measure, key in measures.items()
    }


def _cells_by_topic(found: Mapping[str, Any], path: Path) -> None:
    """Draw each topic's share of the detections of a signed cell, divided by its share of all detections."""
    counts = np.array(found["counts"], np.float64)
    lift = counts / counts.sum(axis=1, keepdims=True) / (counts.sum(axis=0) / counts.sum())
    order = np.argsort(lift.argmax(axis=1) - lift.max(axis=1) / 1000, kind="stable")
    rows = [f"{cell // 2} {'+' if cell % 2 else '-'}" for cell in order.tolist()]
    inside_maps.topic_map(
        rows,
        found["topics"],
        lift[order],
        path,
        title="how much more often than by chance a cell detects words of a topic",
        values="lift",
    )


def _title_map(inside: "Inside", path: Path) -> None:
    """Draw the titles of the built-in log by their known topic."""
    site = inside.folders["site"]
    titles = [title.title for title in read_titles(site / "titles.tsv.gz")]
    topics = read_labels(site / "topics.tsv.gz", "title").topics
    known = [title for title in titles if topics.get(canonical(title))]
    mapped = map_titles(inside.encoder("site", "lstm"), known, 800)
    groups = [str(topics[canonical(title)]) for title in mapped.titles]
    inside_maps.title_map(
        mapped.points, mapped.titles, groups, path, title="titles of the built-in log, coloured by topic"
    )
