"""What `clickvec explain` prints. Everything shown was computed elsewhere; nothing but text is made here."""

from collections.abc import Generator, Iterator, Mapping, Sequence

from clickvec.explanation.explained_pair import Cell, Pair, Word, no_vector, summary
from clickvec.explanation.explainer import Explanation, Rank
from clickvec.explanation.keywords import Keywords
from clickvec.explanation.model_comparison import ModelComparison
from clickvec.explanation.side import ExplainedText
from clickvec.render.terminal.comparison import against_the_first, keyword_table, side_by_side
from clickvec.render.terminal.screen import (  # fmt: skip
    ARROWS,
    BAR,
    ROWS,
    SHORT,
    Screen,
    apart,
    cell_name,
    clip,
    count,
    counted,
    fixed,
    largest_of,
    verdict,
)

LINKS = 5  # of the strongest, unless all are asked for
_GIVES = {
    "shapley": "part of the score", "changes": "part of the score",
    "leave-one-out": "how far the score falls without the word, which need not add up to the score",
    "gradients": "its integrated gradient, which need not add up to the score",
}  # fmt: skip
_ADDS_UP = ("shapley", "changes")
_LITTLE = 0.5  # of the trigrams of a word: knowing fewer is worth a word of warning

Columns = dict[str, list[str]]


def show(
    look: Explanation, screen: Screen, *, comparison: ModelComparison | None = None, everything: bool = False
) -> str:
    """Return what one asks for first or, with `everything`, all of it."""
    return "\n".join(apart(_parts(look, screen, comparison, everything)))


def _parts(
    look: Explanation, screen: Screen, comparison: ModelComparison | None, everything: bool
) -> Iterator[list[str]]:
    sides = {"query": look.query_side, **({"title": look.title_side} if look.title_side else {})}
    unseen = [said for name, side in sides.items() if (said := no_vector(name, side.known))]
    columns: Columns = {}
    if unseen:
        yield _without_vector(look, unseen, screen)
    else:
        columns = yield from _pair(look, look.pair, screen) if look.pair else _one_text(look, screen)
        yield _remarks(sides, screen, everything)
        yield _links(look.pair, screen, everything) if look.pair else []
        yield _cells(look.pair, screen) if look.pair and everything else []
        for name, side in sides.items():
            yield keyword_table(name, side.keywords, screen) if everything and side.keywords else []
        yield against_the_first(look.why_not, screen, everything=everything) if look.why_not else []
    yield side_by_side(comparison, screen) if comparison else []
    yield _legend(columns, look, screen)


def _without_vector(look: Explanation, said: Sequence[str], screen: Screen) -> list[str]:
    """Nothing can be said of a text that the model cannot see, but that."""
    lines = [look.tower, f"query  {clip(look.query, screen.columns - 7)}".rstrip()]
    if look.title is not None:
        lines.append(f"title  {clip(look.title, screen.columns - 7)}".rstrip())
    elif look.rank and not look.rank.of:
        lines.append("the index is empty")
    return [*lines, *(line for sentence in said for line in screen.wrap(sentence))]


# --- one text ----------------------------------------------------------------------------------------------------


def _one_text(look: Explanation, screen: Screen) -> Generator[list[str], None, Columns]:
    """The text and its table; gives back the columns of that."""
    damped, voted, lines = look.query_side.attenuation, look.query_side.keywords, [look.tower]
    largest = largest_of(damped.effects)
    if look.rank:  # there is no hit, though the query has a vector
        lines.append("the index is empty" if not look.rank.of else "no title of the index has a vector")
    yield [*lines, *screen.shaded("query  ", damped.words, damped.effects, largest)]
    columns = {"word": list(damped.words)}
    if damped.gates and damped.taken_in:
        columns |= {"gate": fixed(damped.gates), "taken in": fixed(damped.taken_in)}
    columns["effect"] = fixed(damped.effects)
    columns["bar"] = [screen.bar(effect, largest, BAR) for effect in damped.effects]
    if voted:
        columns |= {ARROWS[way]: [count(cells) for cells in row] for way, row in voted.counts.items()}
        columns["key"] = [verdict(said) for said in voted.verdicts]
    yield _table(columns, screen)
    return columns


def _table(columns: Columns, screen: Screen) -> list[str]:
    head = ["" if name == "bar" else name for name in columns]
    align = "".join("<" if name == "bar" or not at else ">" for at, name in enumerate(columns))
    return screen.table(align, head, list(zip(*columns.values(), strict=True)))


# --- a pair ------------------------------------------------------------------------------------------------------


def _pair(look: Explanation, found: Pair, screen: Screen) -> Generator[list[str], None, Columns]:
    """The score, the sentence about it, the texts and their tables; gives back the columns of a table."""
    lines = [look.tower, f"score  {screen.strong(f'{found.score:.3f}')}"]
    lines += screen.wrap(f"rank   {_rank(look.rank)}") if look.rank else []
    lines += screen.wrap("".join(piece if isinstance(piece, str) else _with_part(piece) for piece in summary(found)))
    sides = {"query": found.query_words, "title": found.title_words}
    largest = largest_of([word.contribution for words in sides.values() for word in words])
    for name, words in sides.items():
        texts, given = [word.word for word in words], [word.contribution for word in words]
        lines += screen.shaded(f"{name}  ", texts, given, largest)
    yield lines
    columns: Columns = {}
    for name, words in sides.items():
        columns = _word_columns(name, words, largest, screen)
        yield [*_table(columns, screen), _sum(words, found)]
    return columns


def _with_part(word: Word) -> str:
    return f"{clip(word.word, SHORT)} ({fixed([word.contribution], signed=True)[0]})"


def _rank(rank: Rank) -> str:
    if rank.id is None:
        return f"not in the index: it would rank {rank.rank or 0:,} of {rank.of + 1:,}"
    return f"{rank.rank or 0:,} of {counted(rank.of, 'title')}, id {clip(rank.id, SHORT)}"


def _word_columns(name: str, words: Sequence[Word], largest: float, screen: Screen) -> Columns:
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


def _sum(words: Sequence[Word], found: Pair) -> str:
    total = sum(word.contribution for word in words)
    same = "the score" if found.method in _ADDS_UP else f"by {found.method}, which need not be the score"
    return f"all of them give {total:+.3f}: {same}"


def _links(found: Pair, screen: Screen, everything: bool) -> list[str]:
    """The pairs of words that the same cells answer to."""
    if not found.strongest:
        return []
    largest = found.strongest[0].weight
    rows = []
    for link in found.strongest if everything else found.strongest[:LINKS]:
        one, other = found.query_words[link.query_word].word, found.title_words[link.title_word].word
        cells = ", ".join(_named(found.cells[place], found) for place in link.cells)
        bar = screen.bar(link.weight, largest, BAR)
        rows.append((f"{clip(one, SHORT)} ~ {clip(other, SHORT)}", f"{link.weight:+.3f}", bar, f"cells {cells}"))
    return screen.table("<><<", ("strongest links", "give", "", ""), rows)


def _named(cell: Cell, found: Pair) -> str:
    return cell_name(cell.cell, cell.way, found.both_ways)


def _cells(found: Pair, screen: Screen) -> list[str]:
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
    others = counted(len(found.cells) - len(heaviest), "cell")
    said = f"these give {share:+.3f}, the other {others} {found.score - share:+.3f}"
    return [*screen.table("<>>><", ("cell", "query", "title", "gives", ""), rows), said]


# --- what it means -----------------------------------------------------------------------------------------------


def _remarks(sides: Mapping[str, ExplainedText], screen: Screen, everything: bool) -> list[str]:
    """Words that the model hardly knows, words that do little, and what it cannot see."""
    texts = {name: side for name, side in sides.items() if any(side.known)}
    known = {word: share for side in texts.values() for word, share in zip(side.words, side.known, strict=True)}
    hardly = [f"{clip(word, SHORT)} ({share:.0%})" for word, share in known.items() if share < _LITTLE]
    said = [f"little known, by the share of their letter trigrams: {', '.join(hardly)}"] if hardly else []
    for name, side in texts.items():
        damped = [clip(word, SHORT) for word, no in zip(side.words, side.attenuation.unimportant, strict=True) if no]
        if damped:
            said.append(f"unimportant in the {name}, with less than half of the mean effect: {', '.join(damped)}")
    votes = [side.keywords for side in sides.values() if side.keywords]
    if not votes:
        said.append("this model does not read word by word: it has no gates, keywords and links to show")
    elif everything and any(len(vote.counts) == 1 for vote in votes):
        said.append(
            "this model reads from left to right only: it cannot tell whether the first word of a text is a keyword, "
            "and sees no word in the light of those that follow it"
        )
    return [line for sentence in said for line in screen.wrap(sentence)]


def _legend(columns: Columns, look: Explanation, screen: Screen) -> list[str]:
    """What the columns of the tables of words mean."""
    voted, method = look.query_side.keywords, look.pair.method if look.pair else ""
    meanings = {
        "gives": _GIVES.get(method, ""), "without": "the score without the word", "gate": "mean input gate",
        "taken in": "mean of what comes through the gate", "effect": "1 - cosine with and without the word",
        **(_votes(voted) if voted else {}),
    }  # fmt: skip
    said = [f"{name}: {meaning}" for name, meaning in meanings.items() if name in columns]
    return screen.wrap("; ".join(said)) if said else []


def _votes(voted: Keywords) -> dict[str, str]:
    return {
        ARROWS["left to right"]: f"cells, of the {voted.active} most active, that detect it",
        ARROWS["right to left"]: "the same from right to left",
        "key": f"* keyword (at least {voted.needed} of the {voted.active} most active cells in every direction that "
        "can tell), ? read first, cannot tell",
    }
