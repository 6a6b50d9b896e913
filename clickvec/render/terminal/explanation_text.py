"""What `clickvec explain` prints: the score, the words and what they contribute; the rest with `--all`."""

from collections.abc import Iterator, Mapping, Sequence

from clickvec.explanation.explained_pair import Pair, Word, summary
from clickvec.explanation.explainer import Explanation
from clickvec.explanation.fused_score import Fused
from clickvec.explanation.why_not import Edit, WhyNot
from clickvec.render.labels import (
    ARROWS,
    EDITS,
    METHODS,
    cell_name,
    count,
    counted,
    largest,
    largest_contribution,
    merged,
    plain,
    same_words,
    score_text,
    signed,
    total,
)
from clickvec.render.terminal.fused_text import compared_tables, heading, shares_table, terms_table, words_table
from clickvec.render.terminal.screen import SHORT, Bar, Cell, Screen, clip, joined

ROWS = 8  # of cells, words and edits
VISIBLE_ROUNDING = 0.0005  # of the cosine, by the number format of the vectors
LITTLE_KNOWN = 0.5  # warn of a word if the model knows a smaller share of its letter trigrams

Columns = dict[str, Sequence[Cell]]


def show(
    look: Explanation, screen: Screen, *, models: Mapping[str, Explanation] | None = None, everything: bool = False
) -> str:
    """Return the score and the contributions of words; with `everything`, also gates, cells, links and edits.

    `models` are the explanations by several models, to show side by side.
    """
    parts = [*_parts(look, screen, everything), *(_models(models, screen) if models else ())]
    return joined([*parts, _legend(look, screen) if everything else []])


def _parts(look: Explanation, screen: Screen, everything: bool) -> Iterator[list[str]]:
    told = "".join(
        piece if isinstance(piece, str) else f"{clip(piece.word, SHORT)} ({signed(piece.contribution)})"
        for piece in summary(look.pair, in_index=look.fused is not None)
    )
    has_vectors = bool(look.query_side.vector.any() and look.title_side.vector.any())
    if look.fused:
        yield [look.tower] if everything else []
        yield heading(look.fused, look.rank, screen)
        yield terms_table(look.fused, screen)
        for part in look.fused.parts:
            yield words_table(part, screen)
    elif not has_vectors:
        yield [*_texts(look.pair, screen), *screen.wrap(told)]
        return
    else:
        yield [look.tower] if everything else []
    if has_vectors:
        yield from _pair(look, told, screen, everything)
    else:
        yield [*_texts(look.pair, screen), *screen.wrap(told)]
    yield _remarks(look, screen, everything)
    if everything and has_vectors:
        yield _links(look.pair, screen)
        yield _cells(look.pair, screen)
    if look.why_not:
        yield from _why_not(look.why_not, look.fused, screen, everything)


def _texts(pair: Pair, screen: Screen) -> list[str]:
    texts = {"query": pair.query, "title": pair.title}
    return [f"{name}  {clip(text, screen.columns - 7)}".rstrip() for name, text in texts.items()]


def _pair(look: Explanation, told: str, screen: Screen, everything: bool) -> Iterator[list[str]]:
    pair, most = look.pair, largest_contribution(look.pair)
    name = "cosine" if look.fused else "score"
    yield [*([] if look.fused else [f"score  {screen.strong(plain(pair.score))}"]), *screen.wrap(told)]
    sides = {"query": pair.query_words, "title": pair.title_words}
    yield [
        line for side, words in sides.items()
        for line in screen.words(
            f"{side}  ", [word.word for word in words], [word.contribution for word in words], most
        )
    ]  # fmt: skip
    for side, words in sides.items():
        yield [*_table(_word_columns(side, words, most, everything), screen), total(words, pair, name)]
    for part in look.fused.parts if look.fused else ():
        if abs(part.rounding) >= VISIBLE_ROUNDING:
            told = f"The vectors of the index are rounded, which changes the {part.label} by {signed(part.rounding)}"
            yield screen.wrap(f"{told} to {plain(part.value)}.")


def _word_columns(name: str, words: Sequence[Word], most: float, everything: bool) -> Columns:
    columns: Columns = {
        f"{name} word": [word.word for word in words],
        "contribution": [signed(word.contribution) for word in words],
    }
    if not everything:  # with everything, there is no room for bars in 80 columns
        columns[""] = [Bar(word.contribution, most) for word in words]
    else:
        columns["without"] = [plain(word.without) for word in words]
        columns["effect"] = [plain(word.effect) for word in words]
        if words[0].gate is not None:
            columns["gate"] = [plain(word.gate) for word in words]
        if words[0].detected_by:
            for way in words[0].detected_by:
                columns[f"cells {ARROWS[way]}"] = [count(word.detected_by[way]) for word in words]
            columns["keyword"] = [_verdict(word.keyword) for word in words]
    return columns


def _verdict(keyword: bool | None) -> str:
    return "?" if keyword is None else "yes" if keyword else ""


def _table(columns: Columns, screen: Screen) -> list[str]:
    align = "".join(">" if at and name else "<" for at, name in enumerate(columns))
    return screen.table(align, list(columns), list(zip(*columns.values(), strict=True)))


def _remarks(look: Explanation, screen: Screen, everything: bool) -> list[str]:
    known = {word.word: word.known for word in (*look.query_words, *look.title_words)}
    hardly = [f"{clip(word, SHORT)} ({share:.0%})" for word, share in known.items() if share < LITTLE_KNOWN]
    told = [f"Mostly unknown words (share of known letter trigrams): {', '.join(hardly)}."] if hardly else []
    sides = {"query": look.query_words, "title": look.title_words} if everything else {}
    for name, words in sides.items():
        little = [clip(word.word, SHORT) for word in words if word.unimportant]
        if little:
            told.append(f"Unimportant in the {name} (less than half of the mean effect): {', '.join(little)}.")
    if everything and not look.query_side.keywords:
        told.append("This model does not read word by word, so it has no gates, keywords or links.")
    return [line for sentence in told for line in screen.wrap(sentence)]


def _links(pair: Pair, screen: Screen) -> list[str]:
    """The pairs of a query word and a title word that the same cells respond to."""
    if not pair.strongest:
        return []
    rows = []
    for link in pair.strongest:
        words = pair.query_words[link.query_word].word, pair.title_words[link.title_word].word
        cells = ", ".join(cell_name(pair.cells[at].cell, pair.cells[at].way) for at in link.cells)
        bar = Bar(link.weight, pair.strongest[0].weight)
        rows.append((" ~ ".join(clip(word, SHORT) for word in words), signed(link.weight), bar, cells))
    return screen.table("<><<", ("strongest links", "contribution", "", "cells"), rows)


def _cells(pair: Pair, screen: Screen) -> list[str]:
    top = sorted(pair.cells, key=lambda cell: -abs(cell.contribution))[:ROWS]
    most = largest(cell.contribution for cell in top)
    if not most:
        return []
    rows = [
        (cell_name(cell.cell, cell.way), signed(cell.query), signed(cell.title), signed(cell.contribution),
         Bar(cell.contribution, most))
        for cell in top
    ]  # fmt: skip
    share = sum(cell.contribution for cell in top)
    others = f"{counted(len(pair.cells) - len(top), 'other cell')}: {signed(pair.score - share)}"
    head = ("cell", "query", "title", "contribution", "")
    return [*screen.table("<>>><", head, rows), f"These cells: {signed(share)}; {others}"]


# --- compared with another title, and with another model ---------------------------------------------------------


def _why_not(compared: WhyNot, fused: Fused | None, screen: Screen, everything: bool) -> Iterator[list[str]]:
    other = clip(compared.first.title, screen.columns - 13)
    scores = ", ".join(
        f"{name}{score_text(score)}"
        for name, score in (("", compared.score), ("other ", compared.first_score), ("gap ", compared.gap))
    )
    head = [screen.strong("Compared with the other title"), f"other title  {other}", f"score        {scores}"]
    if compared.gap <= 0:
        yield [*head, "This title scores the same." if compared.gap == 0 else "This title scores higher."]
        return
    yield head
    if fused:
        yield from compared_tables(compared, fused.is_probability, screen)
    if any(share.title or share.first for share in compared.words):
        yield shares_table("cosine of query word" if fused else "query word", compared.words, screen)
    named = {"Words that help the other title and are missing here": compared.missing,
             f"Words that lower the {'cosine' if fused else 'score'} of this title": compared.burdens}  # fmt: skip
    lists = {
        name: ", ".join(f"{clip(word, SHORT)} {signed(given)}" for word, given in merged(parts, ROWS))
        for name, parts in named.items()
    }
    yield [line for name, words in lists.items() if words for line in screen.wrap(f"{name}: {words}.")]
    helpful = [edit for edit in compared.edits if edit.change > 0][:ROWS] if everything else []
    yield _edits("single edit", helpful, screen)
    yield _edits("edits, one after another", compared.path, screen)
    yield _outcome(compared, screen)


def _edits(name: str, edits: Sequence[Edit], screen: Screen) -> list[str]:
    rows = [
        (EDITS[edit.kind].format(**{"out": _quoted(edit.out), "put": _quoted(edit.put)}), score_text(edit.score),
         signed(edit.change))
        for edit in edits
    ]  # fmt: skip
    return screen.table("<>>", (name, "score", "change"), rows) if rows else []


def _quoted(word: str | None) -> str:
    return f'"{clip(word or "", SHORT)}"'


def _outcome(compared: WhyNot, screen: Screen) -> list[str]:
    if not compared.path:
        return screen.wrap("No edit that was tried raises the score.")
    last = compared.path[-1]
    verdict = "passes" if compared.reached else "does not pass"
    other = score_text(compared.first_score)
    told = f"The edited title scores {score_text(last.score)} and {verdict} the other title ({other}):"
    return [*screen.wrap(told), *screen.wrap(clip(last.title, 3 * screen.columns))]


def _models(models: Mapping[str, Explanation], screen: Screen) -> Iterator[list[str]]:
    models = {clip(name, SHORT): model for name, model in models.items()}
    rows = [(name, plain(model.score), model.tower) for name, model in models.items()]
    heading = screen.strong("Models side by side: how many of the most active cells detect each word")
    yield [heading, *screen.table("<><", ("model", "score", "tower"), rows, cut=2)]
    for side, head, cells in same_words(models):
        yield screen.table("<" + ">" * len(head), [f"{side} word", *head], cells)


def _legend(look: Explanation, screen: Screen) -> list[str]:
    """What the columns of the tables of words mean."""
    name = "cosine" if look.fused else "score"
    meanings = {
        "effect": "1 - cosine of the text with and without the word",
        "contribution": METHODS[look.pair.method].replace("score", name),
        "without": f"{name} without the word",
    }
    if any(word.gate is not None for word in look.query_words):
        meanings["gate"] = "mean input gate"
    if voted := look.query_side.keywords:
        meanings["cells"] = f"how many of the {voted.active} most active cells detect the word (→ ← reading direction)"
        meanings["keyword"] = f"{voted.needed} or more cells in each direction; ? the word is read first"
    return [line for name, meaning in meanings.items() for line in screen.wrap(f"{name}: {meaning}")]
