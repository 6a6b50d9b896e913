"""Findings about damaged texts in the sample, and about a query and a title that are in each other's column."""

import math
from collections.abc import Callable, Iterator, Sequence

from clickvec.data.repair import has_entities, has_mojibake, repair
from clickvec.doctor.cures import Cures
from clickvec.doctor.finding import NOTHING, Finding, count_of, percent
from clickvec.doctor.line_counts import Counted
from clickvec.doctor.line_sample import Sample

DAMAGED, FEWEST = 0.001, 3  # a smaller share of the lines, or fewer lines, may be the user's own text
EXAMPLES = 5
PAGES = 100  # neighbouring lines of result pages that decide which column has the query
LEAST_TEXTS = 500
MORE_TITLES = 1.5  # times as many titles as queries
NOT_LONGER, NOT_CAPITALISED = 0.9, -0.1  # how the column of the queries compares with that of the titles
_LOST = "\ufffd"  # what programs write for a letter that they could not read


def text_findings(sample: Sample, counted: Counted, cures: Cures) -> Iterator[Finding]:
    """Yield all findings of this module. The last one tells whether queries and titles are exchanged."""
    yield _damaged(sample, cures)
    yield _swapped(sample, counted, cures)


def _damaged(sample: Sample, cures: Cures) -> Finding:
    kinds = {"mojibake": has_mojibake, "entities": has_entities, "lost": lambda text: _LOST in text}
    numbers = {"lines": len(sample)}
    examples = dict[str, None]()
    every = 0
    texts = list(zip(sample.queries, sample.titles, strict=True))
    suspects = [pair for pair in texts if any("&" in text or not text.isascii() for text in pair)]
    for pair in suspects:
        is_damaged = False
        for name, is_kind in kinds.items():
            rows = sum(map(is_kind, pair))
            numbers[name] = numbers.get(name, 0) + (rows > 0)
            is_damaged |= rows > 0
        every += is_damaged
        if is_damaged and pair[0] in sample.shown and len(examples) < EXAMPLES:
            examples.update((f"{text} -> {repair(text)}", None) for text in pair if repair(text) != text)
    found = [
        f"{numbers[name]:,} {what}" for name, what in (
            ("mojibake", "UTF-8 that was read as Latin-1 (\u00c3\u00a9 for \u00e9)"),
            ("entities", "HTML entities (&amp; for &)"),
            ("lost", f"letters that are lost ({_LOST})"),
        ) if numbers.get(name)
    ]  # fmt: skip
    if not found:
        return Finding("damaged_texts", "Damaged texts", "No HTML entity and no wrongly decoded letter was found.",
                       NOTHING, numbers)  # fmt: skip
    text = f"Of {count_of(len(sample), 'sampled line')}, {percent(every, len(sample))} are damaged: {'; '.join(found)}."
    act = every >= max(FEWEST, DAMAGED * len(sample))
    advice, cure = "Too few to matter.", ""
    if act and numbers.get("mojibake", 0) + numbers.get("entities", 0):
        advice, cure = "To write a repaired copy of the log, and train on it:", cures.repair()
    elif act:
        advice = "The letters are not in the file any more. Export the log again as UTF-8."
    return Finding("damaged_texts", "Damaged texts", text, advice, numbers, tuple(examples), act=act, cure=cure)


def _swapped(sample: Sample, counted: Counted, cures: Cures) -> Finding:
    """Tell whether the column of the queries has the titles.

    The lines of a result page decide: they have one query and several titles. Without them, three signs must agree.
    Users type more different queries than there are titles, in fewer words, and with fewer capitals. The least
    differences are between what was measured on six logs and on the same logs with the columns swapped.
    """
    titles = len(counted.titles.keys)
    words, capitals = (
        [_mean(measure, texts) for texts in (sample.queries, sample.titles)] for measure in (_words, _is_capitalised)
    )
    numbers = {"same_query": counted.same_query, "same_title": counted.same_title, "queries": counted.queries,
               "titles": titles, "words": words, "capitals": capitals}  # fmt: skip
    pages = counted.same_query + counted.same_title
    if pages >= PAGES:
        swapped = counted.same_title > counted.same_query
        why = f"{percent(counted.same_title, pages)} of the lines of a result page have one title and several queries"
    else:
        swapped = (
            min(counted.queries, titles) >= LEAST_TEXTS
            and titles > MORE_TITLES * counted.queries
            and words[0] > NOT_LONGER * words[1]
            and capitals[0] - capitals[1] > NOT_CAPITALISED
        )
        why = (
            f"there are {titles:,} titles for {counted.queries:,} queries; a query has {words[0]:.1f} words, a title "
            f"{words[1]:.1f}; {percent(capitals[0])} of the queries have capitals, {percent(capitals[1])} of the titles"
        )
    if not swapped:
        return Finding("columns", "Columns", "Queries and titles are in their columns, as far as one can tell.",
                       NOTHING, numbers)  # fmt: skip
    text = f"Queries and titles seem to be exchanged: {why}."
    cure = cures.exchange()
    advice = "Check a few lines. If they are, exchange the columns" + (":" if cure else " of the file.")
    return Finding("columns", "Columns", text, advice, numbers, act=True, cure=cure)


def _mean(measure: Callable[[str], float], texts: Sequence[str]) -> float:
    return math.fsum(map(measure, texts)) / max(1, len(texts))


def _words(text: str) -> float:
    return text.count(" ") + 1


def _is_capitalised(text: str) -> float:
    return text != text.lower()
