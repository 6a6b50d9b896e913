"""Which queries is a system good at? Groups of judged queries, and the mean of each system in each group.

Every query is in exactly one group of each breakdown. Groups without queries are dropped. Words are compared as the
models read them: in lower case, split at white space, without stemming.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, JudgedQuery
from clickvec.evaluation.significance import Floats
from clickvec.text.tokens import canonical, split_words

MANY_CLICKS = 10  # a query with this many clicks counts as well known
MIN_LETTERS = 4  # too many shorter words are one edit apart


class Group(NamedTuple):
    """A group of judged queries."""

    name: str
    places: NDArray[np.intp]  # positions of its queries in the judged set


class Breakdown(NamedTuple):
    """One way to divide the judged queries into groups."""

    name: str
    note: str  # explains the names of the groups
    groups: tuple[Group, ...]


class GroupMeans(NamedTuple):
    """The mean of each row of the table in each group, and its standard error (NaN for a group of one query)."""

    means: Floats  # (rows, groups)
    errors: Floats


class LogCounts(NamedTuple):
    """Counts of a click log: the words of its queries and titles, clicks by query and by title."""

    words: frozenset[str]
    query_clicks: dict[str, float]
    title_clicks: dict[str, float]

    @classmethod
    def of(cls, log: ClickLog) -> "LogCounts":
        """Count a log."""
        query_clicks, title_clicks = _clicks(log.queries, log.clicks), _clicks(log.titles, log.clicks)
        words: set[str] = set()
        for texts in (query_clicks, title_clicks):
            for text in texts:
                words.update(text.split(" "))
        return cls(frozenset(words), query_clicks, title_clicks)


def breakdowns(queries: Sequence[JudgedQuery], log: ClickLog) -> list[Breakdown]:
    """Return all breakdowns of a judged set. `log` is the log that the systems were fitted to."""
    counts = LogCounts.of(log)
    return [
        by_length(queries),
        by_words(queries, counts.words),
        by_query_clicks(queries, counts.query_clicks),
        by_title_clicks(queries, counts.title_clicks),
        by_shared_words(queries),
    ]


def group_means(values: Floats, breakdown: Breakdown) -> GroupMeans:
    """Return the mean and standard error of each row of `values`, (rows, queries), in each group."""
    parts = [values[:, group.places] for group in breakdown.groups]
    return GroupMeans(
        np.stack([part.mean(axis=1) for part in parts], axis=1), np.stack([_error(part) for part in parts], axis=1)
    )


def by_length(queries: Sequence[JudgedQuery]) -> Breakdown:
    """Group by the number of words of the query."""
    lengths = [len(split_words(query.query)) for query in queries]
    names = ("1 word", "2 words", "3 words", "4-5 words", "6 words or more")
    return _breakdown("Length of the query", "", names, np.digitize(lengths, (2, 3, 4, 6)))


def by_words(queries: Sequence[JudgedQuery], known: frozenset[str]) -> Breakdown:
    """Group by whether the log has all words of the query and, if not, whether an unseen word may be misspelled.

    A query with a word that may be misspelled is in that group, whatever its other words are.
    """
    words = [set(split_words(query.query)) for query in queries]
    unseen = set().union(*words) - known
    misspelled = near_misses(unseen, known)
    groups = [2 if row & misspelled else 1 if row & unseen else 0 for row in words]
    note = (
        f"Seen: the word occurs in a query or a title of the log. Misspelled, perhaps: an unseen word is one edit (a "
        f"letter inserted, deleted, replaced or swapped with its neighbour) away from a seen word of at least "
        f"{MIN_LETTERS} letters. This group also contains plurals and similar names, more of them for a smaller log."
    )
    names = ("all words seen", "an unseen word", "misspelled, perhaps")
    return _breakdown("Words of the query in the log", note, names, groups)


def by_query_clicks(queries: Sequence[JudgedQuery], clicks: dict[str, float]) -> Breakdown:
    """Group by the number of clicks that the log has for the query itself."""
    counts = [clicks.get(canonical(query.query), 0.0) for query in queries]
    groups = [0 if not count else 1 if count < MANY_CLICKS else 2 for count in counts]
    names = ("never in the log", f"under {MANY_CLICKS} clicks", f"{MANY_CLICKS} clicks or more")
    return _breakdown("Clicks on the query in the log", "", names, groups)


def by_title_clicks(queries: Sequence[JudgedQuery], clicks: dict[str, float]) -> Breakdown:
    """Group by the clicks that the log has on the relevant titles, for any query; head and tail split at the median."""
    counts = np.array([sum(clicks.get(title, 0.0) for title in _relevant_titles(query)) for query in queries])
    median = float(np.median(counts[counts > 0])) if (counts > 0).any() else 0.0
    groups = np.where(counts == 0, 0, np.where(counts <= median, 1, 2))
    note = (
        f"Clicks on all relevant titles of the query, from any query. Tail: up to {median:,.6g}, the median of the "
        f"queries that have any; head: more."
    )
    return _breakdown("Clicks on the relevant titles in the log", note, ("none", "tail", "head"), groups)


def by_shared_words(queries: Sequence[JudgedQuery]) -> Breakdown:
    """Group by how many of the relevant titles share a word with the query."""
    groups = []
    for query in queries:
        words = set(split_words(query.query))
        shares = [not words.isdisjoint(title.split(" ")) for title in _relevant_titles(query)]
        groups.append(2 if all(shares) else 1 if any(shares) else 0)
    names = ("no relevant title", "some", "all relevant titles")
    return _breakdown("Relevant titles that share a word with the query", 'Any word counts, also "of".', names, groups)


def near_misses(unseen: Iterable[str], known: Iterable[str]) -> set[str]:
    """Return the unseen words that are one edit away from a known word of at least `MIN_LETTERS` letters.

    An edit is an insertion, a deletion, a substitution or a transposition of neighbours. Words with other characters
    than letters are ignored: 2014 is not a misspelling of 2013, nor is "anthem?" one of "anthem".
    """
    by_deletion: dict[str, list[str]] = {}
    for word in filter(str.isalpha, unseen):
        for key in _deletions(word):
            by_deletion.setdefault(key, []).append(word)
    longest = max(map(len, by_deletion), default=-1) + 1
    misspelled: set[str] = set()
    for word in known:
        if MIN_LETTERS <= len(word) <= longest and word.isalpha():
            for key in _deletions(word):
                if key in by_deletion:
                    misspelled.update(other for other in by_deletion[key] if one_edit(word, other))
    return misspelled


def one_edit(first: str, second: str) -> bool:
    """Return whether one insertion, deletion, substitution or transposition turns one word into the other."""
    short, long = sorted((first, second), key=len)
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
    return short != long and (swapped or short[start + 1 :] == long[start + 1 :])


def _deletions(word: str) -> Iterator[str]:
    """Yield the word, and the word without each letter. Words that are one edit apart have one of these in common."""
    yield word
    for i in range(len(word)):
        yield word[:i] + word[i + 1 :]


def _clicks(texts: Iterable[str], clicks: Floats) -> dict[str, float]:
    """Return the clicks on each distinct text."""
    sums: dict[str, float] = {}
    for text, count in zip(texts, clicks.tolist(), strict=True):
        key = canonical(text)
        sums[key] = sums.get(key, 0.0) + count
    return sums


def _relevant_titles(query: JudgedQuery) -> set[str]:
    return {
        canonical(title) for title, grade in zip(query.titles, query.grades.tolist(), strict=True) if grade >= 1
    }  # fmt: skip


def _breakdown(name: str, note: str, names: Sequence[str], groups: Sequence[int] | NDArray[np.intp]) -> Breakdown:
    """Make a breakdown from the group number of each query."""
    of_query = np.asarray(groups)
    parts = [Group(label, np.flatnonzero(of_query == number)) for number, label in enumerate(names)]
    return Breakdown(name, note, tuple(part for part in parts if len(part.places)))


def _error(part: Floats) -> Floats:
    """Return the standard error of the mean of each row."""
    queries = part.shape[1]
    if queries < 2:
        return np.full(len(part), np.nan)
    error: Floats = part.std(axis=1, ddof=1) / np.sqrt(queries)
    return error
