"""How the parts of a hit make its score, as a page shows it: the terms, and the words of BM25."""

from collections.abc import Sequence

from clickvec.explanation.fused_score import Fused
from clickvec.explanation.why_not import Share, WhyNot
from clickvec.render.html.markup import Html, joined, note, table, tag
from clickvec.render.html.word_chips import bar_cells, number, signed
from clickvec.search.parts.part import Explained, WordMatch

MEANINGS = {
    "ranks": "The score adds up the reciprocal ranks of the title by each part.",
    "mixture": "The score is a weighted sum. BM25 is divided by the highest value that the query allows.",
    "clicks": "The parts add up to log odds; the logistic function turns them into the probability of a click.",
}


def parts_section(fused: Fused) -> Html:
    """Return the terms of a score, and what each word of the query adds to BM25."""
    terms = [term for term in fused.terms if term.contribution]
    bars = bar_cells([term.contribution for term in terms], 3)
    rows = [[term.label, bar] for term, bar in zip(terms, bars, strict=True)]
    equal = f"log odds of the score {number(fused.score)}" if fused.is_probability else "the score"
    rows.append([tag("b", "Total"), tag("td", tag("b", signed(fused.total, 3)), f" = {equal}", class_="b")])
    return joined(
        note(MEANINGS.get(fused.method, "The parts add up to the score.")),
        table("Parts of the score", ["part", "contribution"], rows),
        *(_words(part) for part in fused.parts),
        *(rounding_note(part) for part in fused.parts),
    )


def rounding_note(part: Explained) -> Html | None:
    """Return what the number format of the index changes, if it can be seen."""
    if abs(part.rounding) < 0.0005:
        return None
    change = f"{signed(part.rounding, 3)} to {number(part.value)}"
    return note(f"The vectors of the index are rounded, which changes the {part.label} by {change}.")


def _words(part: Explained) -> Html | None:
    if part.words is None:
        return None
    if not part.words:
        return tag("p", f"The query has no words, so {part.label} is 0.")
    bars = bar_cells([word.contribution for word in part.words], 3)
    rows = [[_matched(word), bar, _about(word)] for word, bar in zip(part.words, bars, strict=True)]
    rows.append([tag("b", "Total"), tag("td", tag("b", signed(part.value, 3)), f" = {part.label}", class_="b"), ""])
    return table(f"{part.label}: what each word of the query adds", ["query word", "contribution", ""], rows)


def _matched(word: WordMatch) -> str:
    return f"{word.word} → {', '.join(word.matched or word.similar)}" if word.similar else word.word


def _about(word: WordMatch) -> str:
    if word.similar:
        return "in no title: stands for similar words"
    return "in no title" if not word.is_known else "" if word.contribution else "not in this title"


def compared_parts(compared: WhyNot, is_probability: bool) -> Html:
    """Return the terms of both scores, and what each word of the query adds to BM25 of both titles."""
    what = "log odds" if is_probability else "scores"
    terms = [share for share in compared.terms if share.difference]
    tables = [shares_table(f"Parts that differ; the differences add up to the gap of the {what}", terms, "part")]
    for label, words in compared.part_words.items():
        if any(share.title or share.first for share in words):
            tables.append(shares_table(f"What the query's words add to {label} of both titles", words))
    return joined(tables)


def shares_table(caption: str, shares: Sequence[Share], name: str = "query word") -> Html:
    """Return what each word or part contributes to both titles."""
    bars = bar_cells([share.difference for share in shares], 3)
    rows = [
        [share.word, signed(share.first, 3), signed(share.title, 3), bar]
        for share, bar in zip(shares, bars, strict=True)
    ]
    head = [name, "other title", "this title", "difference"]
    return table(caption, head, rows, numeric=(1, 2))
