"""Findings from the random sample: languages, words that query and title share, misspelled and unseen words."""

from collections.abc import Iterator

from clickvec.doctor.finding import NOTHING, Finding, Plot, count_of, listed, percent
from clickvec.doctor.languages import NO_LETTERS, count_languages, shares
from clickvec.doctor.line_sample import Sample
from clickvec.doctor.sample_words import TIMES_AS_FREQUENT, Words, spelling, unseen_words, word_overlap

SMALL_SHARE = 0.02  # scripts and languages with a smaller share may be noise
SECOND_LANGUAGE = 0.05
SPACELESS = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")  # words are not separated by spaces


def sample_findings(sample: Sample) -> Iterator[Finding]:
    """Yield all findings of this module."""
    words = Words.of(sample)
    yield _languages(sample)
    yield _overlap(sample, words)
    yield _spelling(words)
    yield _unseen(words)


def _languages(sample: Sample) -> Finding:
    found = count_languages([f"{query} {title}" for query, title in zip(sample.queries, sample.titles, strict=True)])
    scripts = list(shares(found.scripts))
    languages = list(shares(found.languages))
    latin = found.scripts["Latin"]
    recognised = sum(found.languages.values())
    text = f"Scripts: {listed([f'{name} {percent(share)}' for name, share in scripts[:4]])}."
    frequent = [(name, share) for name, share in languages if share >= SMALL_SHARE]
    if recognised >= 0.1 * latin > 0:
        named = listed([f"{name} {percent(share)}" for name, share in frequent[:4]])
        text += f" Languages, by function words in {percent(recognised, latin)} of the Latin lines: {named}."
    elif latin:
        text += (
            f" Only {percent(recognised, latin)} of the Latin lines have a function word, too few to tell languages."
        )
    kinds = [name for name, share in scripts if share >= SMALL_SHARE and name != NO_LETTERS]
    spaceless = [name for name in kinds if name in SPACELESS]
    advice, act = NOTHING, False
    if spaceless:
        act = True
        advice = f"{listed(spaceless)} does not separate words by spaces: put spaces between words before training."
    elif len(kinds) > 1 or (
        recognised >= 0.1 * latin > 0 and sum(share for _, share in frequent[1:]) > SECOND_LANGUAGE
    ):
        advice = "One model learns several languages if the log has clicks in each. Evaluate each language by itself."
    plot = Plot("Share of the sampled lines", "bars", tuple(name for name, _ in scripts[:8]),
                tuple(100 * share for _, share in scripts[:8]), "%")  # fmt: skip
    numbers = {"scripts": dict(found.scripts), "languages": dict(found.languages), "lines": found.texts}
    return Finding("languages", "Languages", text, advice, numbers, plots=(plot,) if len(scripts) > 1 else (), act=act)


def _overlap(sample: Sample, words: Words) -> Finding:
    found = word_overlap(sample, words)
    text = (
        f"Query and title share a word in {percent(found.shared, found.lines)} of the clicks; "
        f"in {percent(found.every, found.lines)} the title has every word of the query."
    )
    apart = 1 - found.shared / found.lines
    if apart < 0.05:
        advice = "Word matching finds nearly all of these titles. Compare the figures of the model with BM25."
    else:
        advice = f"Word matching alone cannot find {percent(apart)} of the clicked titles: a model can."
    examples = tuple(f"{query} | {title}" for query, title in found.examples)
    numbers = {"lines": found.lines, "shared": found.shared, "every_word": found.every}
    return Finding("shared_words", "Shared words", text, advice, numbers, examples)


def _spelling(words: Words) -> Finding:
    found = spelling(words)
    text = (
        f"Of the words in queries, {percent(found.misspelled, found.words)} look misspelled: one edit gives a word "
        f"{TIMES_AS_FREQUENT} times as frequent that belongs to the clicked title. Of the queries, "
        f"{percent(found.with_misspelling, found.queries)} have one."
    )
    examples = tuple(f"{one.word} ({one.times:,}): {one.meant} ({one.meant_times:,})?" for one in found.examples)
    advice = "Do not correct them: letter trigrams read a misspelled word much like the right one."
    numbers = {"words": found.words, "misspelled": found.misspelled, "queries": found.queries,
               "queries_with_one": found.with_misspelling}  # fmt: skip
    return Finding("misspelled", "Spelling", text, advice if found.misspelled else NOTHING, numbers, examples)


def _unseen(words: Words) -> Finding:
    found = unseen_words(words)
    text = (
        f"Of the words in the last tenth of the sampled queries, {percent(found.unseen, found.words)} are not in the "
        "first nine tenths (in the whole log, fewer)."
    )
    if found.unseen:
        text += f" Of their letter trigrams, {percent(found.known_trigrams, found.trigrams)} are known."
    share = found.unseen / found.words if found.words else 0.0
    advice = NOTHING
    if share > 0.1:
        advice = "The vocabulary changes. Train again when new clicks come in."
    examples = tuple(found.examples)
    numbers = {"words": found.words, "unseen": found.unseen, "trigrams": found.trigrams,
               "known_trigrams": found.known_trigrams}  # fmt: skip
    return Finding("unseen_words", "Unseen words", text, advice, numbers, examples)


def sample_note(sample: Sample) -> str:
    """Say what the sample is."""
    if len(sample) == sample.lines:
        return f"all clicked lines ({sample.lines:,})"
    return f"a random sample of {len(sample):,} of {count_of(sample.lines, 'clicked line')}"
