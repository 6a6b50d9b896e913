"""What `clickvec explain` prints of a title beside the first one, of models beside each other, and of keywords."""

from collections.abc import Sequence

from clickvec.explanation.keywords import Keywords
from clickvec.explanation.model_comparison import ModelComparison
from clickvec.explanation.why_not import Edit, Part, WhyNot
from clickvec.render.terminal.screen import (
    ARROWS,
    BAR,
    ROWS,
    SHORT,
    Screen,
    apart,
    cell_name,
    clip,
    count,
    fixed,
    largest_of,
)

Rows = Sequence[tuple[str, Sequence[int | None]]]


def keyword_table(name: str, voted: Keywords, screen: Screen) -> list[str]:
    """Words across, a row a direction, and how many of the most active cells detect each word."""
    if not voted.words:
        return []
    head = f"keywords of the {name}: of the {voted.active} most active cells, how many detect each word"
    return [screen.strong(head), *_across(name, voted, list(voted.counts.items()), screen, marked=True)]


def _across(name: str, voted: Keywords, rows: Rows, screen: Screen, *, marked: bool) -> list[str]:
    marks = [bool(said) and marked for said in voted.verdicts]
    return screen.across(name, voted.words, marks, [(label, [count(cells) for cells in row]) for label, row in rows])


# --- a title beside the first ------------------------------------------------------------------------------------


def against_the_first(found: WhyNot, screen: Screen, *, everything: bool = False) -> list[str]:
    """Why the title does not stand above the first one, and what would change that; if asked for, with the cells."""
    first = clip(found.first.title, screen.columns - 8)
    scores = f"{found.title.score:.3f}, the other {found.first.score:.3f}, the gap {found.gap:.3f}"
    lines = [screen.strong("why not first"), f"other  {first}", f"score  {scores}"]
    if found.gap <= 0:
        same = "scores the same as" if found.gap == 0 else "scores higher than"
        return [*lines, f"nothing stands between them: the title {same} the other"]
    named = [
        *_parts("helps the other title, and is missing here", found.missing, screen),
        *_parts("costs this title", found.burdens, screen),
    ]
    more = (_cells(found, screen), _edits(found.edits, screen)) if everything else ([], [])
    return apart([lines, _shares(found, screen), more[0], named, more[1], _path(found, screen)])


def _shares(found: WhyNot, screen: Screen) -> list[str]:
    largest = largest_of([share.difference for share in found.words])
    rows = [
        (share.word, *fixed((share.title, share.first, share.difference), signed=True),
         screen.bar(share.difference, largest, BAR))
        for share in found.words
    ]  # fmt: skip
    return screen.table("<>>><", ("query word", "gives here", "gives there", "difference", ""), rows)


def _cells(found: WhyNot, screen: Screen) -> list[str]:
    largest = largest_of([cell.difference for cell in found.cells])
    both = found.title.both_ways
    rows = [
        (cell_name(cell.cell, cell.way, both), *fixed((cell.title, cell.first, cell.difference), signed=True),
         screen.bar(cell.difference, largest, BAR))
        for cell in found.cells[:ROWS]
    ]  # fmt: skip
    return screen.table("<>>><", ("cell", "gives here", "gives there", "difference", ""), rows)


def _parts(what: str, parts: Sequence[Part], screen: Screen) -> list[str]:
    named = ", ".join(f"{clip(part.word, SHORT)} {part.contribution:+.3f}" for part in parts[:ROWS])
    return screen.wrap(f"{what}: {named}") if named else []


def _edits(edits: Sequence[Edit], screen: Screen) -> list[str]:
    helpful = [edit for edit in edits if edit.change > 0][:ROWS]
    if not helpful:
        return []
    rows = [(_told(edit), f"{edit.score:.3f}", f"{edit.change:+.3f}") for edit in helpful]
    return screen.table("<>>", ("one edit of the title, and the score after it", "score", "change"), rows)


def _told(edit: Edit) -> str:
    out, put = (f'"{clip(word or "", SHORT)}"' for word in (edit.out, edit.put))
    return {"add": f"add {put}", "leave out": f"leave out {out}", "replace": f"put {put} in place of {out}"}[edit.kind]


def _path(found: WhyNot, screen: Screen) -> list[str]:
    if not found.path:
        return ["no edit that was tried raises the score"]
    rows = [
        (f"{at}. {_told(edit)}", f"{edit.score:.3f}", f"{edit.change:+.3f}") for at, edit in enumerate(found.path, 1)
    ]
    last = found.path[-1]
    end = (
        f"the edited title scores {last.score:.3f} and is {'' if found.reached else 'not '}past the other title, "
        f"which scores {found.first.score:.3f}:"
    )
    return [
        *screen.table("<>>", ("edit after edit", "score", "change"), rows),
        *screen.wrap(end),
        *screen.wrap(clip(last.title, 3 * screen.columns)),
    ]


# --- models beside each other ------------------------------------------------------------------------------------


def side_by_side(found: ModelComparison, screen: Screen) -> list[str]:
    """How many of the most active cells of each model detect each word."""
    lines = [screen.strong("models side by side: of the most active cells, how many detect each word")]
    names = [clip(model.name, SHORT) for model in found.models]
    about = [
        (name, *([] if model.score is None else [f"{model.score:.3f}"]), clip(model.tower, screen.columns - SHORT - 11))
        for name, model in zip(names, found.models, strict=True)
    ]
    head = ("model", *([] if found.title is None else ["score"]), "tower")
    lines += screen.table("<" * len(head), head, about)
    for side in ("query", "title"):
        # Models that read the same words share a table; one that takes fewer words has a table of its own.
        tables: dict[tuple[str, ...], list[tuple[str, Keywords]]] = {}
        for name, model in zip(names, found.models, strict=True):
            voted = model.query if side == "query" else model.title
            if voted and voted.words:
                tables.setdefault(voted.words, []).append((name, voted))
        for models in tables.values():
            rows = [(f"{name} {ARROWS[way]}", row) for name, one in models for way, row in one.counts.items()]
            lines += ["", *_across(side, models[0][1], rows, screen, marked=False)]
    return lines
