"""The page of `clickvec explain --html`: one query and one title."""

from collections.abc import Mapping

from clickvec.explanation.contributions import EXACT_WORDS
from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.explainer import Explanation, Rank
from clickvec.explanation.keywords import Keywords
from clickvec.render.html.comparison_section import models_section, why_not_section
from clickvec.render.html.fused_section import parts_section
from clickvec.render.html.markup import Html, joined, note, page, table, tag, text_of
from clickvec.render.html.word_chips import chips, number, sentence, shade, signed, word_table
from clickvec.render.labels import ADDS_UP, METHODS, largest, largest_contribution


def explanation_page(
    explanation: Explanation, *, models: Mapping[str, Explanation] | None = None, model: str = ""
) -> str:
    """Return a page that shows why a query and a title have their score.

    `models` are the explanations by several models, to show side by side; `model` is the name for the heading.
    """
    pair, fused = explanation.pair, explanation.fused
    sections = [("parts", "Parts of the score", parts_section(fused))] if fused else []
    sections.append(("why", "Why this cosine" if fused else "Why this score", _why(pair, in_index=fused is not None)))
    if explanation.why_not is not None:
        sections.append(("why-not", "Compared with the other title", why_not_section(explanation.why_not, fused)))
    sections.append(("words", "Words", _words(pair, explanation.query_side.keywords)))
    sections.append(("links", "Links between words", _links(pair)))
    if models is not None:
        sections.append(("models", "Models", models_section(models)))
    return page(f"{pair.query} – explanation", _header(explanation, model), sections)


def _header(explanation: Explanation, model: str) -> Html:
    pair, fused, rank = explanation.pair, explanation.fused, explanation.rank
    meaning = "score (cosine of query and title)"
    if fused:
        of = "probability of a click, from" if fused.is_probability else "from"
        values = " and ".join(f"{part.label} {number(part.value)}" for part in fused.parts)
        meaning = f"score ({of} {values})"
    score = tag("li", tag("b", number(explanation.score)), tag("span", meaning))
    return joined(
        tag("p", f"Explanation{f' · {model}' if model else ''}", class_="eyebrow"),
        tag("h1", text_of(pair.query)),
        tag("p", text_of(pair.title), class_="lead"),
        tag("ul", score, _rank(rank) if rank else None, class_="figures"),
    )


def _rank(rank: Rank) -> Html:
    if rank.depth:
        told: Html = joined(f"not among the first {rank.depth:,} of {rank.of:,} titles")
    elif rank.rank is None:
        told = joined(f"no rank among {rank.of:,} titles: nothing finds it")
    elif rank.id is None:
        told = joined(f"would be its rank among {rank.of:,} titles; it is not in the index")
    else:
        alone = {name: "–" if place is None else f"{place:,}" for name, place in rank.by.items()}
        places = ", ".join(f"by {name} alone {place}" for name, place in alone.items())
        told = joined(f"rank among {rank.of:,} titles, id ", tag("bdi", rank.id), f" ({places})")
    return tag("li", tag("b", "–" if rank.rank is None else f"{rank.rank:,}"), tag("span", told))


def _why(pair: Pair, in_index: bool) -> Html:
    name = "cosine" if in_index else "score"
    limit = largest_contribution(pair)
    keywords = any(word.keyword for word in (*pair.query_words, *pair.title_words))
    about = f"The number under a word is its contribution: {METHODS[pair.method].replace('score', name)}. "
    sides = {"query": pair.query_words, "title": pair.title_words}
    long = [name for name, words in sides.items() if len(words) > EXACT_WORDS]
    if long and pair.method == "shapley":
        about += (
            f"The {' and the '.join(long)} has more than {EXACT_WORDS} words, so a random sample of the orders was "
            "used, with an error of about 0.01 to 0.02 for a word. "
        )
    adds_up = f"The contributions of each text add up to the {name}." if pair.method in ADDS_UP else (
        f"The contributions need not add up to the {name}."
    )  # fmt: skip
    bold = " Keywords are bold." if keywords else ""
    return joined(
        tag("p", sentence(pair, in_index=in_index)),
        *(chips(name, words, limit) for name, words in sides.items()),
        note(f"{about}{adds_up} Green words raise the {name}, red ones lower it.{bold}"),
    )


def _words(pair: Pair, voted: Keywords | None) -> Html:
    about = (
        "Effect: 1 − cosine of the text's vector with and without the word. A word with less than half of the mean "
        "effect of its text is unimportant."
    )
    if any(word.gate is not None for word in pair.query_words):
        about += " Input gate: its mean over the cells."
    if voted:
        about += (
            f" Cells: how many of the {voted.active} most active cells detect the word, reading from left to right (→) "
            f"or from right to left (←). {voted.needed} or more in each direction make a keyword. The word that is "
            "read first always changes the output, so it has no count."
        )
    return joined(note(about), word_table("Query", pair.query_words), word_table("Title", pair.title_words))


def _links(pair: Pair) -> Html:
    if pair.links is None:
        return note("This model does not read word by word, so the score cannot be divided among pairs of words.")
    if not pair.query_words or not pair.title_words:
        return note("There is nothing to link: one of the two texts has no words.")
    limit = largest(value for row in pair.links for value in row)
    rows = [
        [word.word, *(tag("td", signed(value), class_="p" if value >= 0 else "m", style=shade(value, limit))
                      for value in row)]
        for word, row in zip(pair.query_words, pair.links, strict=True)
    ]  # fmt: skip
    about = "What each pair of words contributes: the product of their parts of the two vectors. The sum is the score."
    head = ["", *(word.word for word in pair.title_words)]
    return joined(note(about), table("Query words down, title words across", head, rows, class_="grid"))
