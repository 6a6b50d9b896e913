"""The paper's table of cells and queries (section V-A.3): the words of each query that each cell detects."""

from collections.abc import Collection

from clickvec.explanation.topics import Detections
from clickvec.render.labels import cell_name, counted
from clickvec.render.terminal.screen import Screen, clip, joined


def query_table(detections: Detections, dimensions: Collection[int], screen: Screen) -> str:
    """Return a row for each query in which one of these cells detects a word, with these cells and words."""
    entries: list[dict[int, dict[str, None]]] = [{} for _ in detections.texts]  # a word detected twice is listed once
    for text, dimension, word in zip(
        detections.text.tolist(), detections.dimension.tolist(), detections.word.tolist(), strict=True
    ):
        if dimension in dimensions:
            entries[text].setdefault(dimension, {})[detections.words[word]] = None
    rows = []
    for query, cells in zip(detections.texts, entries, strict=True):
        if cells:
            listed = (f"{cell_name(*detections.cells[at])}: {', '.join(words)}" for at, words in sorted(cells.items()))
            rows.append((clip(" ".join(query.split()), screen.columns // 2), "; ".join(listed)))
    left = len(entries) - len(rows)
    note = screen.wrap(f"{counted(left, 'text')} without a detection not shown") if left else []
    return joined([screen.table("<<", ("query", "cell: words"), rows, cut=1) if rows else [], note])
