"""One thing beside another: a title and the first or some other one, and two models on the same text."""

from collections.abc import Sequence

from clickvec.explanation.keywords import Keywords
from clickvec.explanation.model_comparison import ComparedModel, ModelComparison
from clickvec.explanation.why_not import Edit, Part, WhyNot
from clickvec.render.html.cells import cell_name, keyword_table, two_ways
from clickvec.render.html.markup import Html, joined, note, table, tag
from clickvec.render.html.word_chips import bar, limit_of, number, shaded, side, signed

EDITS_SHOWN = 8
PARTS_SHOWN = 6


def why_not_section(why_not: WhyNot, first_hit: bool = True) -> Html:
    """What stands between a title and the first hit, or another title that the user named; and what would change it."""
    other = "first" if first_hit else "other"
    limit = limit_of(why_not.title, why_not.first)
    here, there = number(why_not.title.score, 3), number(why_not.first.score, 3)
    gap = f"This title scores {here}, {'the one that ranked first' if first_hit else 'the other title'} {there}"
    if why_not.gap <= 0:
        return joined(tag("p", f"{gap}: there is nothing that stands between them."), _titles(why_not, limit, other))
    return joined(
        tag("p", f"{gap}: a gap of ", tag("b", number(why_not.gap, 3)), ". ", _missing(why_not, other)),
        _titles(why_not, limit, other),
        share_table(why_not, other),
        tag("h3", "What would change it"),
        _path(why_not, other),
        _edits(why_not.edits),
        tag("h3", "Cells that tell the two apart"),
        _cells(why_not, other),
    )


def _titles(why_not: WhyNot, limit: float, other: str) -> Html:
    return joined(
        side(other, shaded(why_not.first.title_words, limit)),
        side("this one", shaded(why_not.title.title_words, limit)),
    )


def _missing(why_not: WhyNot, other: str) -> Html:
    said = []
    if missing := _felt(why_not.missing):
        said.append(joined(f"It lacks what helps the {other} title: ", parts(missing), ". "))
    if burdens := _felt(why_not.burdens):
        said.append(joined("It has what costs it score: ", parts(burdens), "."))
    return joined(said)


def _felt(found: Sequence[Part]) -> list[Part]:
    """Those that do not round to nothing."""
    return [part for part in found if abs(part.contribution) >= 0.005]


def parts(found: Sequence[Part]) -> Html:
    """Words with their contributions, in a sentence; of a word that is there twice, the sum."""
    total: dict[str, float] = {}
    for part in found:
        total[part.word] = total.get(part.word, 0.0) + part.contribution
    largest = sorted(total.items(), key=lambda entry: -abs(entry[1]))[:PARTS_SHOWN]
    shown = [joined(tag("b", tag("bdi", word)), f" ({signed(given)})") for word, given in largest]
    return joined(*(joined(", " if at else None, part) for at, part in enumerate(shown)))


def share_table(why_not: WhyNot, other: str = "first") -> Html:
    """What each word of the query gives to the two titles."""
    limit = max((abs(share.difference) for share in why_not.words), default=0.0)
    rows = [
        [
            share.word,
            signed(share.first),
            signed(share.title),
            tag("td", bar(share.difference, limit, True), class_="b"),
        ]
        for share in why_not.words
    ]
    head = ["query word", f"to the {other} title", "to this one", "difference"]
    return table("What the words of the query give to either title", head, rows, numeric=(1, 2))


def _path(why_not: WhyNot, other: str) -> Html:
    if not why_not.path:
        tried = f"No single word that the query or the {other} title has, put in or taken out, raises the score."
        return tag("p", tried)
    steps = tag(
        "ol", (tag("li", _said(edit), f": {number(edit.score, 3)} ({signed(edit.change, 3)})") for edit in why_not.path)
    )
    some = "all of these edits, each the best there is at its turn" if len(why_not.path) > 1 else "this edit"
    edited, there = number(why_not.path[-1].score, 3), number(why_not.first.score, 3)
    past = f"{'' if why_not.reached else 'not '}past the {other} title, which scores {there}"
    return joined(tag("p", f"With {some}, the edited title scores {edited} and is {past}:"), steps)


def _said(edit: Edit) -> Html:
    out, put = (tag("b", tag("bdi", word)) if word is not None else None for word in (edit.out, edit.put))
    if edit.kind == "replace":
        return joined("put ", put, " in place of ", out)
    return joined(f"{edit.kind} ", put if edit.kind == "add" else out)


def _edits(edits: Sequence[Edit]) -> Html | None:
    if not edits:
        return None
    shown = edits[:EDITS_SHOWN]
    limit, negative = max(abs(edit.change) for edit in shown), any(edit.change < 0 for edit in shown)
    rows = [
        [_said(edit), tag("td", bar(edit.change, limit, negative, 3), class_="b"), number(edit.score, 3), edit.title]
        for edit in shown
    ]
    return table("Single edits, the best first", ["edit", "change", "score", "the title then"], rows, numeric=(2,))


def _cells(why_not: WhyNot, other: str) -> Html:
    both = two_ways(why_not.title.cells)
    limit = max((abs(share.difference) for share in why_not.cells), default=0.0)
    rows = [
        [
            cell_name(share.cell, share.way, both),
            signed(share.first, 3),
            signed(share.title, 3),
            tag("td", bar(share.difference, limit, True, 3), class_="b"),
        ]
        for share in why_not.cells
    ]
    return table(
        "What cells give to either score", ["cell", f"{other} title", "this one", "difference"], rows, numeric=(1, 2)
    )


# --- models ------------------------------------------------------------------------------------------------------


def versus_section(versus: ModelComparison) -> Html:
    """The paper's comparison of two models: scores, and cells by word."""
    rows = [
        [model.name, model.tower, number(model.score, 3) if model.score is not None else "–"] for model in versus.models
    ]
    scores = table("The score of the pair", ["model", "tower", "score"], rows, numeric=(2,))
    silent = [model.name for model in versus.models if model.query is None]
    tables = [_votes("Query", [(model, model.query) for model in versus.models])]
    if versus.title is not None:
        tables.append(_votes("Title", [(model, model.title) for model in versus.models]))
    return joined(
        scores,
        note("How many of the most active cells of each model detect each word."),
        tables,
        note(f"No cells to count: {', '.join(silent)} does not read word by word.") if silent else None,
    )


def _votes(name: str, found: Sequence[tuple[ComparedModel, Keywords | None]]) -> Html:
    """A table for all models that read the same words; one that reads fewer words as words has a table of its own."""
    rows = [(model.name, keywords) for model, keywords in found if keywords is not None and keywords.words]
    alike: dict[tuple[str, ...], list[tuple[str, Keywords]]] = {}
    for row in rows:
        alike.setdefault(row[1].words, []).append(row)
    return joined(
        keyword_table(f"{name}: cells of {', '.join(model for model, _ in same)}", same) for same in alike.values()
    )
