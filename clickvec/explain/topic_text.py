"""Topics of cells as text for a terminal: the map, the paper's table query by cell, the scores."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clickvec.explain.topic_scores import Measure, TopicScore
from clickvec.explain.topics import SIGNS, QueryTable, SignedCell, Topics
from clickvec.terminal import table

ARROWS = {"left to right": "→", "right to left": "←"}
GROUP_WORDS = 6


def topic_map(topics: Topics, dimensions: Collection[int]) -> str:
    """A line for each sign of each of these cells, the groups that they are in, and the dead cells."""
    names, group_of = _names([(cell.cell, cell.way) for cell in topics.cells]), topics.group_of
    rows: list[Sequence[object]] = [("cell", "sign", "detections", "specificity", "group", "words (lift)")]
    for cell in topics.cells:
        for sign in SIGNS if cell.dimension in dimensions else ():
            topic, group = cell.signs[sign], group_of.get(SignedCell(cell.dimension, sign))
            words = ", ".join(f"{word.word} ({word.lift:.3g})" for word in topic.words)
            number = "" if group is None else group
            rows.append(
                (names[cell.dimension], sign, topic.detections, f"{topic.specificity:.2f}", number, words or "-")
            )
    return "\n\n".join([table(rows), *_groups(topics, names, dimensions), _dead(topics, names)])


def _groups(topics: Topics, names: Sequence[str], dimensions: Collection[int]) -> list[str]:
    lines = [
        f"group {number}: {' '.join(names[member.dimension] + member.sign for member in group.members)}: "
        + ", ".join(group.words[:GROUP_WORDS])
        for number, group in enumerate(topics.groups)
        if any(member.dimension in dimensions for member in group.members)
    ]
    return ["\n".join(lines)] if lines else []


def _dead(topics: Topics, names: Sequence[str]) -> str:
    if not topics.dead:
        return "dead cells: none"
    return "dead cells: " + ", ".join(f"{names[cell.dimension]} ({cell.dead})" for cell in topics.dead)


def query_blocks(found: QueryTable, dimensions: Collection[int], width: int) -> str:
    """The table query by cell, those cells that have an entry, in blocks that are about as wide as the terminal."""
    filled = sorted({column for row in found.rows for column in row if column in dimensions})
    names = _names(found.cells)
    columns = {at: [f"cell {names[at]}", *(", ".join(row.get(at, ())) for row in found.rows)] for at in filled}
    queries = ["query", *(" ".join(query.split()) for query in found.queries)]
    room = width - _width(queries)
    blocks: list[list[list[str]]] = [[]]
    for column in columns.values():
        if blocks[-1] and sum(2 + _width(there) for there in (*blocks[-1], column)) > room:
            blocks.append([])
        blocks[-1].append(column)
    return "\n\n".join(table(list(zip(queries, *block, strict=True))) for block in blocks)


def score_table(scores: Mapping[str, TopicScore]) -> str:
    """Purity and NMI in per cent: the value, what chance gives and what is left of it."""
    head = ("clusters", "items", "number", "purity", "by chance", "adjusted", "NMI", "by chance", "adjusted")
    rows = [
        (name, f"{score.items:,}", score.clusters, *_measure(score.purity), *_measure(score.nmi))
        for name, score in scores.items()
    ]
    return table([head, *rows])


def as_json(
    topics: Topics,
    dimensions: Collection[int],
    by_cell: QueryTable | None = None,
    scores: Mapping[str, TopicScore] | None = None,
) -> dict[str, Any]:
    """All of it as plain values for `json.dumps`, of these cells."""
    found = topics.as_json()
    found["cells"] = [cell for cell in found["cells"] if cell["dimension"] in dimensions]
    found["dead"] = [cell.dimension for cell in topics.dead]
    if by_cell:
        found["table"] = [
            {"query": query, "cells": {column: words for column, words in row.items() if column in dimensions}}
            for query, row in zip(by_cell.queries, by_cell.rows, strict=True)
        ]
    if scores:
        found["scores"] = {name: score.as_json() for name, score in scores.items()}
    return found


def _measure(measure: Measure) -> tuple[str, str, str]:
    chance = f"{100 * measure.chance:.1f} ± {100 * measure.spread:.1f}"
    return f"{100 * measure.value:.1f}", chance, f"{100 * measure.adjusted:.1f}"


def _names(cells: Sequence[tuple[int, str]]) -> list[str]:
    """The number of each cell, with an arrow where there are two directions."""
    both = len({way for _, way in cells}) > 1
    return [f"{cell}{ARROWS[way]}" if both else str(cell) for cell, way in cells]


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))
