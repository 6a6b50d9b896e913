"""What `clickvec topics` prints: the map of cells and the paper's table query by cell."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from clickvec.explanation.topics import ENOUGH, SIGNS, CellTopics, QueryTable, SignedCell, Topic, Topics
from clickvec.render.terminal.screen import SHORT, Screen, cell_name, clip, counted

MOST = 20  # signed cells, unless others are asked for
GROUP_WORDS = 6


class _Row(NamedTuple):
    """A cell with one of its signs, and what it detects then."""

    cell: CellTopics
    sign: str
    topic: Topic

    @property
    def worth(self) -> tuple[bool, float]:
        """What orders the rows: of few detections, the specificity says little."""
        enough = self.topic.detections >= ENOUGH
        return enough, self.topic.specificity if enough else self.topic.detections


def topic_map(topics: Topics, dimensions: Collection[int], screen: Screen, *, most: int | None = None) -> str:
    """A line for each sign of each of these cells, the groups that they are in, and the dead cells.

    Of more lines than `most`, those of the most specific cells that detect enough, the most specific first.
    """
    cells, group_of = [(cell.cell, cell.way) for cell in topics.cells], topics.group_of
    names, rows = _names(cells), []
    every = [_Row(cell, sign, cell.signs[sign]) for cell in topics.cells for sign in SIGNS]
    wanted = [row for row in every if row.cell.dimension in dimensions]
    shown = wanted
    if most is not None and len(wanted) > most:
        shown = sorted(wanted, key=lambda row: row.worth, reverse=True)[:most]
        dimensions = {row.cell.dimension for row in shown}
    for cell, sign, topic in shown:
        group = group_of.get(SignedCell(cell.dimension, sign))
        words = ", ".join(f"{word.word} ({word.lift:.3g})" for word in topic.words)
        rows.append(
            (names[cell.dimension], sign, f"{topic.detections:,}", f"{topic.specificity:.2f}",
             "" if group is None else str(group), words or "-")
        )  # fmt: skip
    head = ("cell", "sign", "detections", "specificity", "group", "words (lift)")
    drawn = screen.table("<<>>><", head, rows, cut=5, rule=True)
    left = len(wanted) - len(shown)
    if left:
        more = counted(left, "signed cell is", "signed cells are")
        drawn += screen.wrap(f"the most specific; {more} not shown: --all shows every one, --cells those of some cells")
    return _joined([drawn, _groups(topics, cells, dimensions, screen), _dead(topics, names, screen)])


def _groups(topics: Topics, cells: Sequence[tuple[int, str]], dimensions: Collection[int], screen: Screen) -> list[str]:
    signed = {sign: _names(cells, sign) for sign in SIGNS}
    lines = []
    for number, group in enumerate(topics.groups):
        if any(member.dimension in dimensions for member in group.members):
            members = ", ".join(signed[member.sign][member.dimension] for member in group.members)
            words = ", ".join(clip(word, SHORT) for word in group.words[:GROUP_WORDS])
            lines += screen.wrap(f"group {number}: {members}: {words}")
    return lines


def _dead(topics: Topics, names: Sequence[str], screen: Screen) -> list[str]:
    """The dead cells by what they died of."""
    reasons: dict[str, list[str]] = {}
    for cell in topics.dead:
        reasons.setdefault(cell.dead or "", []).append(names[cell.dimension])
    told = "; ".join(f"{', '.join(cells)} ({reason})" for reason, cells in reasons.items())
    return screen.wrap(f"dead cells: {told or 'none'}")


def query_blocks(found: QueryTable, dimensions: Collection[int], screen: Screen) -> str:
    """The table query by cell, those cells that have an entry, in blocks that fit the screen."""
    filled = sorted({column for row in found.rows for column in row if column in dimensions})
    names = _names(found.cells)
    rows = [
        (" ".join(query.split()), *(", ".join(row.get(at, ())) for at in filled))
        for query, row in zip(found.queries, found.rows, strict=True)
        if not row.keys().isdisjoint(filled)
    ]
    left = len(found.queries) - len(rows)
    said = screen.wrap(f"{counted(left, 'text')} without an entry not shown") if left else []
    head = ("query", *(f"cell {names[at]}" for at in filled))
    return _joined([*(screen.blocks("<" * len(head), head, rows) if rows else []), said])


def _names(cells: Sequence[tuple[int, str]], sign: str = "") -> list[str]:
    both = len({way for _, way in cells}) > 1
    return [cell_name(cell, way, both, sign) for cell, way in cells]


def _joined(parts: Sequence[Sequence[str]]) -> str:
    """Parts, each of some lines, with an empty line between them."""
    return "\n\n".join("\n".join(part) for part in parts if part)
