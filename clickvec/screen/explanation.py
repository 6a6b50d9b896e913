"""What `clickvec explain` prints. Everything shown was computed elsewhere; nothing but text is made here."""

from collections.abc import Mapping, Sequence

from clickvec.explain.hit import Cell, Explanation, Word
from clickvec.explain.keywords import Keywords
from clickvec.explain.look import Look, Rank, Side
from clickvec.screen.comparison import against_the_first, keyword_table, side_by_side
from clickvec.screen.screen import ARROWS, BAR, ROWS, SHORT, Screen, cell_name, clip, count, fixed, largest_of, verdict

_ADDS_UP = ("shapley", "changes")
_LITTLE = 0.5  # of the trigrams of a word: knowing fewer is worth a word of warning


def show(look: Look, screen: Screen) -> str:
    """The whole answer."""
    sections = [_one_text(look, screen) if look.explanation is None else _pair(look, look.explanation, screen)]
    for name, side in (("query", look.query_side), ("title", look.title_side)):
        if side and side.keywords:
            sections.append(keyword_table(name, side.keywords, screen))
    if look.why_not:
        sections.append(against_the_first(look.why_not, screen))
    if look.versus:
        sections.append(side_by_side(look.versus, screen))
    return "\n\n".join("\n".join(section) for section in sections if section)


# --- one text ----------------------------------------------------------------------------------------------------


def _one_text(look: Look, screen: Screen) -> list[str]:
    damped, voted = look.query_side.attenuation, look.query_side.keywords
    lines = [look.tower]
    if look.rank:
        lines.append("the index is empty" if not look.rank.of else "the query finds nothing: it has no vector")
    if not damped.words:
        return [*lines, "query  has no words"]
    largest = largest_of(damped.effects)
    lines += [*screen.shaded("query  ", damped.words, damped.effects, largest), ""]
    columns = {"word": list(damped.words)}
    if damped.gates and damped.taken_in:
        columns |= {"gate": fixed(damped.gates), "taken in": fixed(damped.taken_in)}
    columns["effect"] = fixed(damped.effects)
    columns["bar"] = [screen.bar(effect, largest, BAR) for effect in damped.effects]
    columns |= _votes(voted)
    lines += _table(columns, screen)
    lines += ["", *_legend(columns, voted, screen)]
    return [*lines, *_remarks({"query": look.query_side}, screen)]


def _votes(voted: Keywords | None) -> dict[str, list[str]]:
    if voted is None:
        return {}
    found = {ARROWS[way]: [count(cells) for cells in row] for way, row in voted.counts.items()}
    return found | {"key": [verdict(said) for said in voted.verdicts]}


def _table(columns: dict[str, list[str]], screen: Screen) -> list[str]:
    head = ["" if name == "bar" else name for name in columns]
    align = "".join("<" if name == "bar" or not at else ">" for at, name in enumerate(columns))
    return screen.table(align, head, list(zip(*columns.values(), strict=True)))


# --- a pair ------------------------------------------------------------------------------------------------------


def _pair(look: Look, found: Explanation, screen: Screen) -> list[str]:
    lines = [look.tower, f"score  {screen.strong(f'{found.score:.3f}')}"]
    if look.rank:
        lines += screen.wrap(f"rank   {_rank(look.rank)}")
    sides = {"query": found.query_words, "title": found.title_words}
    largest = largest_of([word.contribution for words in sides.values() for word in words])
    for name, words in sides.items():
        texts, given = [word.word for word in words], [word.contribution for word in words]
        lines += screen.shaded(f"{name}  ", texts, given, largest) if words else [f"{name}  has no words"]
    shown: dict[str, list[str]] = {}
    for name, words in sides.items():
        if words:
            shown = _word_columns(name, words, largest, screen)
            lines += ["", *_table(shown, screen), _sum(words, found)]
    if shown:
        lines += ["", *_legend(shown, look.query_side.keywords, screen)]
    lines += _remarks({"query": look.query_side, "title": look.title_side}, screen)
    return [*lines, *_links(found, screen), *_cells(found, screen)]


def _rank(rank: Rank) -> str:
    if rank.rank is None:
        return "none: the query finds nothing"
    if rank.id is None:
        return f"it is not in the index, and would stand at {rank.rank:,} beside its {rank.of:,} titles"
    return f"{rank.rank:,} of {rank.of:,} titles, id {clip(rank.id, SHORT)}"


def _word_columns(name: str, words: Sequence[Word], largest: float, screen: Screen) -> dict[str, list[str]]:
    columns = {
        f"{name} word": [word.word for word in words],
        "gives": fixed([word.contribution for word in words], signed=True),
        "bar": [screen.bar(word.contribution, largest, BAR) for word in words],
        "without": fixed([word.without for word in words]),
    }
    gates = [word.gate for word in words if word.gate is not None]
    if gates:
        columns["gate"] = fixed(gates)
    columns["effect"] = fixed([word.effect for word in words])
    for way in words[0].detected_by:
        columns[ARROWS[way]] = [count(word.detected_by[way]) for word in words]
    if words[0].detected_by:
        columns["key"] = [verdict(word.keyword) for word in words]
    return columns


def _sum(words: Sequence[Word], found: Explanation) -> str:
    total = sum(word.contribution for word in words)
    same = "the score" if found.method in _ADDS_UP else f"by {found.method}, which need not be the score"
    return f"all of them give {total:+.3f}: {same}"


def _legend(columns: dict[str, list[str]], voted: Keywords | None, screen: Screen) -> list[str]:
    most = f"cells, of the {voted.active} most active, that detect it" if voted else ""
    meanings = {
        "gives": "part of the score", "without": "the score without the word", "gate": "mean input gate",
        "taken in": "mean of what comes through the gate", "effect": "1 - cosine with and without the word",
        ARROWS["left to right"]: most, ARROWS["right to left"]: "the same from right to left",
        "key": "* keyword, ? no direction can tell",
    }  # fmt: skip
    said = [f"{name}: {meaning}" for name, meaning in meanings.items() if name in columns]
    return screen.wrap([*(f"{one};" for one in said[:-1]), said[-1]])


def _remarks(sides: Mapping[str, Side | None], screen: Screen) -> list[str]:
    """Words that the model hardly knows, words that do little, and what it cannot see."""
    texts = {name: side for name, side in sides.items() if side}
    known = {word: share for side in texts.values() for word, share in zip(side.words, side.known, strict=True)}
    hardly = [f"{clip(word, SHORT)} ({share:.0%})" for word, share in known.items() if share < _LITTLE]
    said = [f"little known, by the share of their letter trigrams: {', '.join(hardly)}"] if hardly else []
    for name, side in texts.items():
        damped = [clip(word, SHORT) for word, no in zip(side.words, side.attenuation.unimportant, strict=True) if no]
        if damped:
            said.append(f"unimportant in the {name}, with less than half of the mean effect: {', '.join(damped)}")
    votes = [side.keywords for side in texts.values() if side.keywords]
    if not votes:
        said.append("this model does not read word by word: it has no gates, keywords and links to show")
    elif any(len(vote.counts) == 1 for vote in votes):
        said.append(
            "this model reads from left to right only: it cannot tell whether the first word of a text is a keyword, "
            "and sees no word in the light of those that follow it"
        )
    return [line for sentence in said for line in screen.wrap(sentence)]


def _links(found: Explanation, screen: Screen) -> list[str]:
    """The pairs of words that the same cells answer to."""
    if not found.strongest:
        return []
    largest = found.strongest[0].weight
    rows = []
    for link in found.strongest[:ROWS]:
        one, other = found.query_words[link.query_word].word, found.title_words[link.title_word].word
        cells = ", ".join(_named(found.cells[place], found) for place in link.cells)
        bar = screen.bar(link.weight, largest, BAR)
        rows.append((f"{clip(one, SHORT)} ~ {clip(other, SHORT)}", f"{link.weight:+.3f}", bar, f"cells {cells}"))
    return ["", *screen.table("<><<", ("strongest links", "give", "", ""), rows)]


def _named(cell: Cell, found: Explanation) -> str:
    return cell_name(cell.cell, cell.way, found.both_ways)


def _cells(found: Explanation, screen: Screen) -> list[str]:
    """The cells that give most to the score, or take most."""
    heaviest = sorted(found.cells, key=lambda cell: -abs(cell.contribution))[:ROWS]
    largest = largest_of([cell.contribution for cell in heaviest])
    if not largest:
        return []
    rows = [
        (_named(cell, found), *fixed((cell.query, cell.title, cell.contribution), signed=True),
         screen.bar(cell.contribution, largest, BAR))
        for cell in heaviest
    ]  # fmt: skip
    share = sum(cell.contribution for cell in heaviest)
    others = f"these give {share:+.3f}, the other {len(found.cells) - len(heaviest)} cells {found.score - share:+.3f}"
    return ["", *screen.table("<>>><", ("cell", "query", "title", "gives", ""), rows), others]
