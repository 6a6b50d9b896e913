"""How the parts of a hit make its score, as a page shows it: the terms, and the words of BM25."""

from collections.abc import Mapping, Sequence

from clickvec.explanation.fused_score import Fused, WordMatch
from clickvec.explanation.why_not import Share, WhyNot
from clickvec.render.html.markup import Html, joined, note, table, tag
from clickvec.render.html.word_chips import bar_cells, number, signed
from clickvec.render.labels import PARTS

MEANINGS = {
    "ranks": "The score adds up the reciprocal ranks of the title by words and by vectors.",
    "mixture": "The score is a weighted sum. BM25 is divided by the highest value that the query allows.",
    "clicks": "The parts add up to log odds; the logistic function turns them into the probability of a click.",
}


def parts_section(fused: Fused) -> Html:
    """Return the terms of a score, and what each word of the query adds to BM25."""
    parts = [part for part in fused.parts if part.contribution]
    bars = bar_cells([part.contribution for part in parts], 3)
    rows = [[PARTS.get(part.name, part.name), bar] for part, bar in zip(parts, bars, strict=True)]
    equal = f"log odds of the score {number(fused.score)}" if fused.is_probability else "the score"
    rows.append([tag("b", "Total"), tag("td", tag("b", signed(fused.total, 3)), f" = {equal}", class_="b")])
    return joined(
        note(MEANINGS.get(fused.method, "The parts add up to the score.")),
        table("Parts of the score", ["part", "contribution"], rows),
        _words(fused.words, fused.bm25),
        rounding_note(fused),
    )


def rounding_note(fused: Fused) -> Html | None:
    """Return what the number format of the vectors changes, if it can be seen."""
    if abs(fused.rounding) < 0.0005:
        return None
    change = f"{signed(fused.rounding, 3)} to {number(fused.cosine)}"
    return note(f"The vectors of the index are rounded, which changes the cosine by {change}.")


def _words(words: Sequence[WordMatch], bm25: float) -> Html:
    if not words:
        return tag("p", "The query has no words, so BM25 is 0.")
    bars = bar_cells([word.contribution for word in words], 3)
    rows = [[_matched(word), bar, _about(word)] for word, bar in zip(words, bars, strict=True)]
    rows.append([tag("b", "Total"), tag("td", tag("b", signed(bm25, 3)), " = BM25", class_="b"), ""])
    return table("BM25: what each word of the query adds", ["query word", "contribution", ""], rows)


def _matched(word: WordMatch) -> str:
    return f"{word.word} → {', '.join(word.matched or word.similar)}" if word.similar else word.word


def _about(word: WordMatch) -> str:
    if word.similar:
        return "in no title: stands for similar words"
    return "in no title" if not word.is_known else "" if word.contribution else "not in this title"


def compared_parts(compared: WhyNot, is_probability: bool) -> Html:
    """Return the terms of both scores, and what each word of the query adds to BM25 of both titles."""
    what = "log odds" if is_probability else "scores"
    parts = [share for share in compared.parts if share.difference]
    tables = [shares_table(f"Parts that differ; the differences add up to the gap of the {what}", parts, PARTS)]
    if any(share.title or share.first for share in compared.bm25_words):
        tables.append(shares_table("What the query's words add to BM25 of both titles", compared.bm25_words))
    return joined(tables)


def shares_table(caption: str, shares: Sequence[Share], names: Mapping[str, str] | None = None) -> Html:
    """Return what each word or part contributes to both titles."""
    bars = bar_cells([share.difference for share in shares], 3)
    rows = [
        [(names or {}).get(share.word, share.word), signed(share.first, 3), signed(share.title, 3), bar]
        for share, bar in zip(shares, bars, strict=True)
    ]
    head = ["part" if names else "query word", "other title", "this title", "difference"]
    return table(caption, head, rows, numeric=(1, 2))
