"""What `clickvec topics` and `clickvec nearest` print."""

from collections.abc import Collection

from clickvec.explanation.neighbours import Nearest
from clickvec.explanation.topics import SIGNS, SignedCell, Topics
from clickvec.render.labels import cell_name, counted
from clickvec.render.terminal.screen import SHORT, Screen, clip, joined

MOST = 20  # signed cells, unless the user asks for others
GROUP_WORDS = 6


def show_topics(topics: Topics, dimensions: Collection[int], screen: Screen, *, most: int | None = None) -> str:
    """Return a table of these cells, a row for each sign, their groups, and the dead cells.

    If there are more than `most` rows, the most specific cells with enough detections are shown.
    """
    rows = [
        (cell, sign, cell.signs[sign]) for cell in topics.cells for sign in SIGNS if cell.dimension in dimensions
    ]  # fmt: skip
    hidden = 0 if most is None else max(0, len(rows) - most)
    if hidden:
        rows = sorted(rows, key=lambda row: row[2].worth, reverse=True)[:most]
        dimensions = {cell.dimension for cell, _, _ in rows}
    cells = [
        (cell_name(cell.cell, cell.way), sign, f"{topic.detections:,}", f"{topic.specificity:.2f}",
         str(topics.group_of.get(SignedCell(cell.dimension, sign), "")),
         ", ".join(f"{word.word} ({word.lift:.3g})" for word in topic.words) or "-")
        for cell, sign, topic in rows
    ]  # fmt: skip
    head = ("cell", "sign", "detections", "specificity", "group", "words (lift)")
    table = screen.table("<<>>><", head, cells, cut=5)
    if hidden:
        more = counted(hidden, "more row", "more rows")
        table += screen.wrap(f"These are the most specific cells. {more} with --all, or choose cells with --cells.")
    return joined([table, _groups(topics, dimensions, screen), _dead(topics, screen)])


def _groups(topics: Topics, dimensions: Collection[int], screen: Screen) -> list[str]:
    lines = []
    for number, group in enumerate(topics.groups):
        if any(member.dimension in dimensions for member in group.members):
            members = ", ".join(
                cell_name(topics.cells[member.dimension].cell, topics.cells[member.dimension].way, member.sign)
                for member in group.members
            )
            words = ", ".join(clip(word, SHORT) for word in group.words[:GROUP_WORDS])
            lines += screen.wrap(f"group {number}: {members}: {words}")
    return lines


def _dead(topics: Topics, screen: Screen) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for cell in topics.dead:
        reasons.setdefault(cell.dead or "", []).append(cell_name(cell.cell, cell.way))
    listed = "; ".join(f"{', '.join(cells)} ({reason})" for reason, cells in reasons.items())
    return screen.wrap(f"dead cells: {listed or 'none'}")


def show_nearest(near: Nearest, screen: Screen) -> str:
    """Return the words and titles that are nearest to a word."""
    times = "not in the titles" if not near.count else f"{counted(near.count, 'time')} in the titles"
    about = f": {times}" + (f", {near.known:.0%} of its letter trigrams known" if near.known else "")
    head = clip(near.word, max(screen.columns - len(about), 6)) + about
    if not near.known:
        return joined([[head], screen.wrap("The model knows none of its letter trigrams, so nothing is near it.")])
    words = [(f"{one.cosine:.3f}", one.word, f"{one.count:,}") for one in near.words]
    titles = [(f"{one.cosine:.3f}", one.title) for one in near.titles]
    return joined([
        [head],
        screen.table("><>", ("cosine", "nearest words", "count"), words, cut=1),
        screen.table("><", ("cosine", "nearest titles"), titles, cut=1),
    ])  # fmt: skip
