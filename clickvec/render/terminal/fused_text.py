"""How the parts of a hit make its score, as `clickvec explain` prints it: the terms, and the words of BM25."""

from collections.abc import Sequence

from clickvec.explanation.explainer import Rank
from clickvec.explanation.fused_score import Fused
from clickvec.explanation.why_not import Share, WhyNot
from clickvec.render.labels import counted, largest, plain, score_text, signed
from clickvec.render.terminal.screen import SHORT, Bar, Screen, clip
from clickvec.search.parts.part import Explained, WordMatch


def heading(fused: Fused, rank: Rank | None, screen: Screen) -> list[str]:
    """Return the score, its parts and the rank."""
    meaning = " (probability of a click)" if fused.is_probability else ""
    lines = [
        f"score  {screen.strong(score_text(fused.score))}{meaning}",
        f"parts  {', '.join(f'{part.label} {plain(part.value)}' for part in fused.parts)}",
    ]
    return [*lines, *(screen.wrap(f"rank   {rank_text(rank)}") if rank else [])]


def rank_text(rank: Rank) -> str:
    """Return the rank of a title in words."""
    alone = [f"{name} alone {'–' if place is None else f'{place:,}'}" for name, place in rank.by.items()]
    by = f"(by {', by '.join(alone)})"
    if rank.id is None:
        if rank.rank is None:
            return "not in the index; it is not ranked" if rank.depth else "not in the index; it is not found"
        return f"not in the index; it would rank {rank.rank:,} of {rank.of + 1:,} {by}"
    place = f"{rank.rank:,}" if rank.rank else f"below {rank.depth:,}" if rank.depth else "not found"
    return f"{place} of {counted(rank.of, 'title')}, id {clip(rank.id, SHORT)} {by}"


def terms_table(fused: Fused, screen: Screen) -> list[str]:
    """Return the terms of the score. Terms of 0 are left out."""
    terms = [term for term in fused.terms if term.contribution]
    if not terms:
        return []
    most = largest(term.contribution for term in terms)
    rows = [(term.label, signed(term.contribution), Bar(term.contribution, most)) for term in terms]
    equal = f"= log odds of the score {score_text(fused.score)}" if fused.is_probability else "= score"
    return [
        *screen.table("<><", ("part of the score", "contribution", ""), rows),
        f"Total {signed(fused.total)} {equal}",
    ]


def words_table(part: Explained, screen: Screen) -> list[str]:
    """Return what each word of the query adds to the value of a part."""
    if part.words is None:
        return []
    if not part.words:
        return [f"The query has no words, so {part.label} is 0."]
    most = largest(word.contribution for word in part.words)
    if not most:
        return [*_misspelled(part.words, screen), f"No word of the query is in the title, so {part.label} is 0."]
    rows = [
        (
            _matched(word),
            signed(word.contribution),
            Bar(word.contribution, most) if word.contribution else _absent(word),
        )
        for word in part.words
    ]
    return [*screen.table("<><", ("query word", part.label, ""), rows), f"Total {signed(part.value)} = {part.label}"]


def _matched(word: WordMatch) -> str:
    """Return a word of the query, with the words that it stands for if no title contains it."""
    if not word.similar:
        return word.word
    return f"{word.word} -> {', '.join(word.matched or word.similar)}"


def _absent(word: WordMatch) -> str:
    return "not in the title" if word.is_known or word.similar else "in no title"


def _misspelled(words: Sequence[WordMatch], screen: Screen) -> list[str]:
    stands = [
        f"{clip(word.word, SHORT)} -> {clip(', '.join(word.similar), 2 * SHORT)}" for word in words if word.similar
    ]
    return screen.wrap(f"Words that no title contains stand for similar ones: {'; '.join(stands)}.") if stands else []


def compared_tables(compared: WhyNot, is_probability: bool, screen: Screen) -> list[list[str]]:
    """Return the terms of both scores, and what each word of the query adds to BM25 of both titles."""
    terms = [share for share in compared.terms if share.difference]
    gap = sum(share.difference for share in compared.terms)
    equal = "= gap of the log odds" if is_probability else "= gap"
    tables = [[*shares_table("part of the score", terms, screen), f"Total difference {signed(gap)} {equal}"]]
    for label, words in compared.part_words.items():
        if any(share.title or share.first for share in words):
            tables.append(shares_table(f"{label} of query word", words, screen))
    return tables


def shares_table(name: str, shares: Sequence[Share], screen: Screen) -> list[str]:
    """Return what each word or part contributes to both titles."""
    most = largest(share.difference for share in shares)
    rows = [
        (share.word, signed(share.title), signed(share.first), signed(share.difference), Bar(share.difference, most))
        for share in shares
    ]
    return screen.table("<>>><", (name, "this title", "other title", "difference", ""), rows)
