"""What `clickvec topics` and `clickvec nearest` print."""

from collections.abc import Collection

from clickvec.explanation.neighbours import Nearest
from clickvec.explanation.topics import Topics
from clickvec.render.labels import cell_name, counted
from clickvec.render.terminal.screen import SHORT, Screen, clip, joined

MOST = 20  # signed cells, unless the user asks for others
GROUP_WORDS = 6


def show_topics(topics: Topics, dimensions: Collection[int], screen: Screen, *, most: int | None = None) -> str:
    """Return a table of these cells, a row for each sign, their groups, and the dead cells.

    If there are more than `most` rows, the most specific cells with enough detections are shown.
    """
    shown = [topic for topic in topics.topics if topic.dimension in dimensions]
    hidden = 0 if most is None else max(0, len(shown) - most)
    if hidden:
        shown = sorted(shown, key=lambda topic: topic.worth, reverse=True)[:most]
    rows = [
        (cell_name(topic.cell, topic.way), topic.sign, f"{topic.detections:,}", f"{topic.specificity:.2f}",
         "" if topic.group is None else str(topic.group),
         ", ".join(f"{word.word} ({word.lift:.3g})" for word in topic.words) or "-")
        for topic in shown
    ]  # fmt: skip
    head = ("cell", "sign", "detections", "specificity", "group", "words (lift)")
    table = screen.table("<<>>><", head, rows, cut=5)
    if hidden:
        more = counted(hidden, "more row", "more rows")
        table += screen.wrap(f"These are the most specific cells. {more} with --all, or choose cells with --cells.")
    groups = [line for number in sorted({t.group for t in shown if t.group is not None})
              for line in screen.wrap(_group(topics, number))]  # fmt: skip
    dead = ", ".join(cell_name(topics.topics[2 * at].cell, topics.topics[2 * at].way) for at in topics.dead)
    return joined([table, groups, screen.wrap(f"dead cells: {dead or 'none'}")])


def _group(topics: Topics, number: int) -> str:
    members = ", ".join(cell_name(t.cell, t.way, t.sign) for t in topics.topics if t.group == number)
    return f"group {number}: {members}: {', '.join(clip(word, SHORT) for word in topics.groups[number][:GROUP_WORDS])}"


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
