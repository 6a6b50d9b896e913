"""What `clickvec nearest` prints: words on the left, titles on the right."""

from itertools import zip_longest

from clickvec.explanation.neighbours import Nearest
from clickvec.render.terminal.screen import SHORT, Screen, clip, pad, width

APART = 4  # columns between the two
NARROW = 20  # columns that the titles have at least


def show(found: Nearest, screen: Screen) -> str:
    """What is near to a word."""
    there = f"{found.count:,} times in the titles" if found.count != 1 else "once in the titles"
    about = f": {there if found.count else 'not in the titles'}"
    about += f"; {found.known:.0%} of its letter trigrams known" if found.known else ""
    head = clip(found.word, max(screen.columns - len(about), 6)) + about
    if not found.known:
        return f"{head}\n\nThe model knows none of its letter trigrams: nothing is near to it."
    longest = min(SHORT, max(screen.columns // 4, 8))
    words = [(f"{near.cosine:.3f}", clip(near.word, longest), f"{near.count:,}") for near in found.words]
    left = screen.table("><>", ("cosine", "nearest words", "count"), words, cut=1)
    room = max(map(width, left)) + APART
    titles = [(f"{near.cosine:.3f}", near.title) for near in found.titles]
    right = Screen(max(screen.columns - room, NARROW)).table("><", ("cosine", "nearest titles"), titles, cut=1)
    lines = (f"{pad(one, room)}{two}".rstrip() for one, two in zip_longest(left, right, fillvalue=""))
    return "\n".join([head, "", *lines])
