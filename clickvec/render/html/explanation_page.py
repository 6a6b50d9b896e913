"""`clickvec explain --html`: one pair of query and title on one page."""

from clickvec.explanation.contributions import EXACT_WORDS
from clickvec.explanation.explained_pair import Pair, Word
from clickvec.explanation.explained_pair import summary as in_words
from clickvec.explanation.explainer import Rank
from clickvec.explanation.keywords import RULE, Keywords, Rule, keywords_of
from clickvec.explanation.model_comparison import ModelComparison
from clickvec.explanation.reading import Reading
from clickvec.explanation.why_not import WhyNot
from clickvec.render.html import cells
from clickvec.render.html.comparison_section import versus_section, why_not_section
from clickvec.render.html.markup import Html, joined, note, page, section, table, tag, text_of
from clickvec.render.html.word_chips import ARROWS, bar, grid, limit_of, shaded, side, signed, word_table

METHODS = {
    "shapley": "what it adds to the score, averaged over {orders}; over each text they add up to the score",
    "changes": "the change of the output when it was read, times the other vector; over each text they "
    "add up to the score",
    "leave-one-out": "how far the score falls without it; these do not add up to the score",
    "gradients": "its integrated gradient, from a text of empty words to this one; over each text they add up to "
    "the score, less what the biases alone would give",
}


def explanation_page(
    explanation: Pair,
    query_reading: Reading | None,
    title_reading: Reading | None,
    why_not: WhyNot | None = None,
    versus: ModelComparison | None = None,
    model: str = "",
    rule: Rule = RULE,
    rank: Rank | None = None,
    first_hit: bool = True,
) -> str:
    """Why a query and a title have their score, as a page; readings are None for a tower without outputs at words.

    The rule is that by which the keywords of the explanation were found, the rank that of the title in an index.
    `first_hit`: the title that it is compared with is the first hit, and not one that the user named.
    """
    sections = [("why", "Why this score", _why(explanation))]
    if why_not is not None:
        heading = "Why not first" if first_hit else "Beside the other title"
        sections.append(("why-not", heading, why_not_section(why_not, first_hit)))
    sections += [
        ("words", "Words", _words(explanation)),
        ("links", "Links between words", _links(explanation)),
    ]
    sections.append(("cells", "Cells", _cells(explanation, query_reading, title_reading)))
    if query_reading and title_reading:
        readings = {"Query": query_reading, "Title": title_reading}
        sections.append(("keywords", "Keywords", _keywords(readings, rule)))
        sections.append(("active", "Active cells", _active(readings, rule)))
        sections.append(("gates", "Gates", _gates(query_reading, title_reading)))
    if versus is not None:
        sections.append(("models", "Models", versus_section(versus)))
    drawn = [section(name, heading, content) for name, heading, content in sections]
    contents = [(name, heading) for name, heading, _ in sections]
    return page(f"{explanation.query} – why this hit", _header(explanation, model, rank), contents, *drawn)


def _header(explanation: Pair, model: str, rank: Rank | None) -> Html:
    score = tag("li", tag("b", f"{explanation.score:.3f}".replace("-", "−")), tag("span", "cosine of query and title"))
    return joined(
        tag("p", f"Why this hit{f' · {model}' if model else ''}", class_="eyebrow"),
        tag("h1", text_of(explanation.query)),
        tag("p", text_of(explanation.title), class_="lead"),
        tag("ul", score, _rank(rank) if rank else None, class_="figures"),
    )


def _rank(rank: Rank) -> Html:
    """Where the title stands in the index, and under which id."""
    if rank.rank is None:
        about = f"no rank among {rank.of:,} titles: the query or the title has no vector"
        return tag("li", tag("b", "–"), tag("span", about))
    about = f"rank among {rank.of:,} titles"
    if rank.id is None:
        return tag("li", tag("b", f"{rank.rank:,}"), tag("span", f"would be its {about}; it is not in the index"))
    return tag("li", tag("b", f"{rank.rank:,}"), tag("span", f"{about}, id ", tag("bdi", rank.id)))


def _why(explanation: Pair) -> Html:
    limit = limit_of(explanation)
    voted = any(word.keyword for word in (*explanation.query_words, *explanation.title_words))
    return joined(
        tag("p", summary(explanation)),
        side("query", shaded(explanation.query_words, limit)),
        side("title", shaded(explanation.title_words, limit)),
        note(
            f"Under each word its contribution to the score: {_meaning(explanation)}. Green words raise the "
            f"score; red ones, underlined, lower it.{' Bold words are keywords.' if voted else ''}"
        ),
    )


def _meaning(explanation: Pair) -> str:
    """What a contribution is; for a long text, that it is an estimate."""
    texts = {"query": explanation.query_words, "title": explanation.title_words}
    long = [name for name, words in texts.items() if len(words) > EXACT_WORDS]
    orders = "all orders in which the words could have been put in"
    if long:
        orders += (
            f" (of the {' and of the '.join(long)}, with more than {EXACT_WORDS} words, over a sample of the orders, "
            "which puts a word off by about 0.01 to 0.02)"
        )
    return METHODS[explanation.method].format(orders=orders)


def summary(explanation: Pair) -> Html:
    """The score in a sentence or two."""
    return joined(*(piece if isinstance(piece, str) else _named(piece) for piece in in_words(explanation)))


def _named(word: Word) -> Html:
    """A word with its contribution, in a sentence."""
    return joined(tag("b", tag("bdi", word.word)), f" ({signed(word.contribution)})")


def _words(explanation: Pair) -> Html:
    gated = any(word.gate is not None for word in explanation.query_words)
    voted = any(word.detected_by for word in explanation.query_words)
    about = "Effect: how far the vector of the text turns when the word is left out, 1 − the cosine of the two; a word "
    about += "with less than half of the mean effect of its text is unimportant."
    about += " Input gate: its mean over the cells." if gated else ""
    about += (
        " Cells: how many of the most active ones detect the word; → reads from left to right, ← from right to left."
        if voted
        else ""
    )
    return joined(
        note(about), word_table("Query", explanation.query_words), word_table("Title", explanation.title_words)
    )


def _links(explanation: Pair) -> Html:
    if explanation.links is None:
        return note("This tower has no output at each word, so that the score cannot be split into pairs of words.")
    if not explanation.query_words or not explanation.title_words:
        return note("There is nothing to link: one of the two texts has no words.")
    limit = max(abs(value) for row in explanation.links for value in row)
    none = [False] * len(explanation.title_words)
    rows = [(word.word, row, none) for word, row in zip(explanation.query_words, explanation.links, strict=True)]
    matrix = grid("Query words down, title words across", [word.word for word in explanation.title_words], rows, limit)
    return joined(
        note("What each pair of words gives to the score: the product of the parts of the two vectors that they gave. "
             "All of them together are the score."),
        matrix,
        _strongest(explanation),
    )  # fmt: skip


def _strongest(explanation: Pair) -> Html | None:
    if not explanation.strongest:
        return None
    both = cells.two_ways(explanation.cells)
    most = explanation.strongest[0].weight
    rows = [
        [
            explanation.query_words[link.query_word].word,
            explanation.title_words[link.title_word].word,
            tag("td", bar(link.weight, most, False, 3), class_="b"),
            ", ".join(_cell(explanation, place, both) for place in link.cells),
        ]
        for link in explanation.strongest
    ]
    arrows = f" ({', '.join(f'{arrow} {way}' for way, arrow in ARROWS.items())})" if both else ""
    return table(
        f"The strongest links, and the cells behind each{arrows}",
        ["query word", "title word", "part of the score", "cells"],
        rows,
    )


def _cell(explanation: Pair, place: int, both_ways: bool) -> str:
    cell = explanation.cells[place]
    return cells.cell_name(cell.cell, cell.way, both_ways)


def _cells(explanation: Pair, query: Reading | None, title: Reading | None) -> Html:
    about = "The cosine is a sum over cells: for each, its activation in the query's vector times that in the title's."
    about += " Beside it the word of either text that moved the cell most." if query else ""
    return joined(note(about), cells.top_cells(explanation, query, title))


def _keywords(readings: dict[str, Reading], rule: Rule) -> Html:
    one_way = all(len(reading.directions) < 2 for reading in readings.values())
    voted = {name: keywords_of(reading, rule) for name, reading in readings.items()}
    cells_asked, needed = (voted["Query"].active, voted["Query"].needed)
    times = "" if rule.threshold == 1 else f"{rule.threshold:g} times "
    about = (
        f"How many of the {cells_asked} most active cells detect each word: their output changes there by at least "
        f"{times}what each word would give if all gave the same. {needed} of {cells_asked}, in each direction that can "
        "speak, make a keyword. The word that is read first always changes the output, and is not counted."
    )
    about += " This model reads one way, and so has no verdict on the first word." if one_way else ""
    tables = (keyword_table_of(name, found) for name, found in voted.items())
    return joined(note(about), tables)


def keyword_table_of(name: str, found: Keywords) -> Html:
    """The paper's table of one text."""
    if not found.words:
        return note(f"The {name.lower()} has no words.")
    return cells.keyword_table(name, [("", found)])


def _active(readings: dict[str, Reading], rule: Rule) -> Html:
    about = (
        "The output y(t) of the cells that are most active in the end, after each word in the order of the text. "
        "Underlined: the change at this word is large enough for the cell to detect it."
    )
    return joined(
        note(about), tag("div", (cells.active_cells(*pair, rule) for pair in readings.items()), class_="abreast")
    )


def _gates(query: Reading, title: Reading) -> Html:
    about = (
        "A row is a word, a column is a cell. Green is above the middle of the scale, red below; a gate is in the "
        "middle when it is half open. Query and title share the scale."
    )
    return joined(note(about), cells.gate_maps(query, title))
