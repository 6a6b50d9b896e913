"""Words of the sampled lines: shared by query and title, misspelled, and unseen before."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from clickvec.doctor.line_sample import Sample
from clickvec.text.lexical_tokens import singular, tokenise
from clickvec.text.trigrams import trigrams

FEWEST_LETTERS = 4  # a shorter word is one letter away from too many others
TIMES_AS_FREQUENT = 20  # how much more frequent a word must be than its misspelling
CONFIRMED = 0.2  # share of the lines with a misspelling whose title belongs to the word that was meant
EXAMPLES = 5


class WordOverlap(NamedTuple):
    """Sampled lines by whether query and title share a word."""

    lines: int
    shared: int
    every: int  # lines whose title has every word of the query
    examples: tuple[tuple[str, str], ...]  # lines that share none


class Misspelling(NamedTuple):
    """A word of the queries that may be a misspelling of a far more frequent word."""

    word: str
    times: int
    meant: str
    meant_times: int


class Spelling(NamedTuple):
    """The words of the sampled queries by spelling."""

    words: int  # occurrences
    misspelled: int
    queries: int
    with_misspelling: int
    examples: tuple[Misspelling, ...]  # most frequent first


class UnseenWords(NamedTuple):
    """Words in the last tenth of the sampled queries that the queries and titles of the first nine tenths lack."""

    words: int  # occurrences in the last tenth
    unseen: int
    trigrams: int  # of the unseen words
    known_trigrams: int  # of these, those that the first nine tenths have
    examples: tuple[str, ...]


class Words(NamedTuple):
    """The lexical words of the sampled lines. Examples are only those of `shown`."""

    queries: list[list[str]]
    titles: list[list[str]]
    shown: frozenset[str]  # the words of the queries that may be shown

    @classmethod
    def of(cls, sample: Sample) -> "Words":
        """Split the texts of a sample."""
        shown = frozenset(chain(*map(tokenise, sample.shown)))
        return cls(list(map(tokenise, sample.queries)), list(map(tokenise, sample.titles)), shown)


def word_overlap(sample: Sample, words: Words) -> WordOverlap:
    """Count the lines whose query and title share a word."""
    shared = every = 0
    examples = list[tuple[str, str]]()
    for row, (query, title) in enumerate(zip(map(set, words.queries), map(set, words.titles), strict=True)):
        common = len(query & title)
        shared += common > 0
        every += bool(query) and common == len(query)
        if not common and len(examples) < EXAMPLES and sample.queries[row] in sample.shown:
            examples.append((sample.queries[row], sample.titles[row]))
    return WordOverlap(len(sample), shared, every, tuple(examples))


def spelling(words: Words) -> Spelling:
    """Count the words of queries that look misspelled."""
    in_queries = Counter(chain(*words.queries))
    both = in_queries + Counter(chain(*words.titles))
    meant = misspelled_words(words)
    misspelled = sum(in_queries[word] for word in meant)
    with_misspelling = sum(any(word in meant for word in query) for query in words.queries)
    most = sorted(meant.keys() & words.shown, key=lambda word: (-in_queries[word], word))[:EXAMPLES]
    examples = tuple(Misspelling(word, in_queries[word], meant[word], both[meant[word]]) for word in most)
    return Spelling(in_queries.total(), misspelled, len(words.queries), with_misspelling, examples)


def misspelled_words(words: Words) -> dict[str, str]:
    """Return the likely misspelled words of queries, each with the word that was meant.

    A misspelled word is in no title. One edit behind its first letter turns it into a far more frequent word, which
    belongs to the titles clicked for it at least now and then (CONFIRMED): the title has that word, or another query
    for the title. An edit inserts, deletes or replaces a letter, or swaps two neighbours. Plurals and words with digits
    are not taken for misspellings.
    """
    in_queries, in_titles = Counter(chain(*words.queries)), Counter(chain(*words.titles))
    both = in_queries + in_titles
    frequent: dict[str, list[str]] = {}  # by the word itself and by the word without one letter
    for word, times in both.items():
        if times >= TIMES_AS_FREQUENT and _can_be_misspelled(word):
            for key in (word, *_shortened(word)):
                frequent.setdefault(key, []).append(word)
    candidates: dict[str, list[str]] = {}
    for word, times in in_queries.items():
        if word not in in_titles and _can_be_misspelled(word):
            near = {one for key in (word, *_shortened(word)) for one in frequent.get(key, ())}
            fit = [one for one in near if one[0] == word[0] and both[one] >= TIMES_AS_FREQUENT * times]
            fit = [one for one in fit if _one_edit(word, one)]
            if fit:
                candidates[word] = sorted(fit)
    return _confirmed(words, candidates)


def _confirmed(words: Words, candidates: dict[str, list[str]]) -> dict[str, str]:
    """Return the words whose clicked titles confirm a candidate, with the candidate confirmed most often."""
    of_title: dict[tuple[str, ...], set[str]] = {}
    for query, title in zip(words.queries, words.titles, strict=True):
        of_title.setdefault(tuple(title), set(title)).update(query)
    times, hits = Counter[str](), dict[str, Counter[str]]()
    for query, title in zip(words.queries, words.titles, strict=True):
        for word in candidates.keys() & set(query):
            times[word] += 1
            of_word = hits.setdefault(word, Counter())
            of_word.update(meant for meant in candidates[word] if meant in of_title[tuple(title)])
    best = {word: counts.most_common(1)[0] for word, counts in hits.items() if counts}
    return {word: meant for word, (meant, count) in best.items() if count >= CONFIRMED * times[word]}


def _can_be_misspelled(word: str) -> bool:
    return len(word) >= FEWEST_LETTERS and word.isalpha()


def _shortened(word: str) -> Iterator[str]:
    """Yield the word without each of its letters: words that share one of these may be one edit apart."""
    return (word[:at] + word[at + 1 :] for at in range(len(word)))


def _one_edit(word: str, other: str) -> bool:
    """Tell whether one edit turns a word into the other, and they are not singular and plural of one word."""
    if word == other or singular(word) == singular(other):
        return False
    short, long = sorted((word, other), key=len)
    if len(long) - len(short) > 1:
        return False
    start = next((at for at, (one, two) in enumerate(zip(short, long, strict=False)) if one != two), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
    return short[start + 1 :] == long[start + 1 :] or swapped


def unseen_words(words: Words) -> UnseenWords:
    """Compare the last tenth of the sampled queries with the first nine tenths of the sample."""
    end = len(words.queries) - len(words.queries) // 10
    seen = set(chain(*words.queries[:end], *words.titles[:end]))
    last = list(chain(*words.queries[end:]))
    unseen = [word for word in last if word not in seen]
    known = set(chain(*map(trigrams, seen)))
    of_unseen = list(chain(*map(trigrams, unseen)))
    examples = tuple(dict.fromkeys(word for word in unseen if word in words.shown))[:EXAMPLES]
    return UnseenWords(len(last), len(unseen), len(of_unseen), sum(one in known for one in of_unseen), examples)
