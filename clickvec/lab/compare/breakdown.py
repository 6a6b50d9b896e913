"""Where a system is good: groups of judged queries, and the mean of each system in each group.

Every query is in exactly one group of each breakdown; groups without queries are dropped. Words and texts are compared
as `text.py` has them: lower case, split at white space, no stemming.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, JudgedQuery
from clickvec.lab.compare.result import Comparison
from clickvec.lab.compare.significance import Floats, query_values
from clickvec.text.tokens import canonical, split_words

MANY_CLICKS = 10  # clicks on a query from which on it counts as well known
MIN_LETTERS = 4  # one edit makes too many short words out of other short words


class Group(NamedTuple):
    """Some of the judged queries."""

    name: str
    places: NDArray[np.intp]  # of its queries in the judged set


class Breakdown(NamedTuple):
    """One way to part the judged queries."""

    name: str
    note: str  # what the names of the groups mean
    groups: tuple[Group, ...]


class GroupMeans(NamedTuple):
    """The mean of each row of the table in each group, and its standard error; NaN for a group of one query."""

    means: Floats  # (rows, groups)
    errors: Floats


class LogCounts(NamedTuple):
    """What a click log knows: words of its queries and titles, clicks by query and by title."""

    words: frozenset[str]
    query_clicks: dict[str, float]
    title_clicks: dict[str, float]

    @classmethod
    def of(cls, log: ClickLog) -> "LogCounts":
        """Count a log once, for all breakdowns."""
        query_clicks, title_clicks = _clicks(log.queries, log.clicks), _clicks(log.titles, log.clicks)
        words: set[str] = set()
        for texts in (query_clicks, title_clicks):
            for text in texts:
                words.update(text.split(" "))
        return cls(frozenset(words), query_clicks, title_clicks)


def breakdowns(queries: Sequence[JudgedQuery], log: ClickLog) -> list[Breakdown]:
    """All breakdowns of a judged set, given the log that the systems were fitted to."""
    counts = LogCounts.of(log)
    return [
        by_length(queries),
        by_words(queries, counts.words),
        by_query_clicks(queries, counts.query_clicks),
        by_title_clicks(queries, counts.title_clicks),
        by_shared_words(queries),
    ]


def group_means(
    comparison: Comparison, breakdown: Breakdown, split: str = "test", measure: str = "NDCG@10"
) -> GroupMeans:
    """The figures of a breakdown of the queries of the split."""
    values = query_values(comparison, split, measure)
    parts = [values[:, group.places] for group in breakdown.groups]
    return GroupMeans(
        np.stack([part.mean(axis=1) for part in parts], axis=1), np.stack([_error(part) for part in parts], axis=1)
    )


def by_length(queries: Sequence[JudgedQuery]) -> Breakdown:
    """Words of the query."""
    lengths = [len(split_words(query.query)) for query in queries]
    names = ("1 word", "2 words", "3 words", "4-5 words", "6 words or more")
    return _breakdown("Length of the query", "", names, np.digitize(lengths, (2, 3, 4, 6)))


def by_words(queries: Sequence[JudgedQuery], known: frozenset[str]) -> Breakdown:
    """Whether the log has the words of the query, and where not, whether that could be a slip of the keys.

    A query with a word that could be one is in that group, whatever its other words are.
    """
    words = [set(split_words(query.query)) for query in queries]
    unseen = set().union(*words) - known
    slips = near_misses(unseen, known)
    groups = [2 if row & slips else 1 if row & unseen else 0 for row in words]
    note = (
        f"Seen: in a query or a title of the log. Misspelled, perhaps: an unseen word that is one letter more, fewer "
        f"or other, or two neighbours swapped, away from a seen one of at least {MIN_LETTERS} letters. Without a "
        f"dictionary a plural or a name that looks alike is there too, and the smaller the log, the more of them."
    )
    names = ("all words seen", "an unseen word", "misspelled, perhaps")
    return _breakdown("Words of the query in the log", note, names, groups)


def by_query_clicks(queries: Sequence[JudgedQuery], clicks: dict[str, float]) -> Breakdown:
    """Clicks that the log has on the query itself."""
    found = [clicks.get(canonical(query.query), 0.0) for query in queries]
    groups = [0 if not count else 1 if count < MANY_CLICKS else 2 for count in found]
    names = ("never in the log", f"under {MANY_CLICKS} clicks", f"{MANY_CLICKS} clicks or more")
    return _breakdown("Clicks on the query in the log", "", names, groups)


def by_title_clicks(queries: Sequence[JudgedQuery], clicks: dict[str, float]) -> Breakdown:
    """Clicks that the log has on the relevant titles of the query, by whatever query; cut at the median of those."""
    found = np.array([sum(clicks.get(title, 0.0) for title in _relevant_titles(query)) for query in queries])
    median = float(np.median(found[found > 0])) if (found > 0).any() else 0.0
    groups = np.where(found == 0, 0, np.where(found <= median, 1, 2))
    note = (
        f"The clicks on all relevant titles of the query, whatever was asked. Tail: up to {median:,.6g}, the median of "
        f"the queries that have any; head: more."
    )
    return _breakdown("Clicks on the relevant titles in the log", note, ("none", "tail", "head"), groups)


def by_shared_words(queries: Sequence[JudgedQuery]) -> Breakdown:
    """How many of the relevant titles have a word of the query in them."""
    groups = []
    for query in queries:
        words = set(split_words(query.query))
        shares = [not words.isdisjoint(title.split(" ")) for title in _relevant_titles(query)]
        groups.append(2 if all(shares) else 1 if any(shares) else 0)
    names = ("no relevant title", "some", "all relevant titles")
    return _breakdown("Relevant titles that share a word with the query", 'Any word counts, "of" too.', names, groups)


def near_misses(unseen: Iterable[str], known: Iterable[str]) -> set[str]:
    """The unseen words that are one edit away from a known word of at least `MIN_LETTERS` letters.

    An edit is an insertion, a deletion, a substitution or a transposition of neighbours. Words that are not all letters
    are left out on both sides: 2014 is no slip for 2013, nor is "anthem?" one for "anthem".
    """
    by_deletion: dict[str, list[str]] = {}
    for word in filter(str.isalpha, unseen):
        for key in _deletions(word):
            by_deletion.setdefault(key, []).append(word)
    longest = max(map(len, by_deletion), default=-1) + 1
    found: set[str] = set()
    for word in known:
        if MIN_LETTERS <= len(word) <= longest and word.isalpha():
            for key in _deletions(word):
                if key in by_deletion:
                    found.update(other for other in by_deletion[key] if one_edit(word, other))
    return found


def one_edit(one: str, other: str) -> bool:
    """Whether one insertion, deletion, substitution or transposition of neighbours turns one word into the other."""
    if len(one) > len(other):
        one, other = other, one
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    swapped = one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
    return one != other and (swapped or one[start + 1 :] == other[start + 1 :])


def _deletions(word: str) -> Iterator[str]:
    """The word, and the word less one letter: words one edit apart have one of these in common."""
    yield word
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]


def _clicks(texts: Iterable[str], clicks: Floats) -> dict[str, float]:
    """The clicks on each distinct text."""
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
    """A breakdown from the number of each query's group."""
    of_query = np.asarray(groups)
    parts = [Group(label, np.flatnonzero(of_query == number)) for number, label in enumerate(names)]
    return Breakdown(name, note, tuple(part for part in parts if len(part.places)))


def _error(part: Floats) -> Floats:
    """The standard error of the mean of each row."""
    queries = part.shape[1]
    if queries < 2:
        return np.full(len(part), np.nan)
    error: Floats = part.std(axis=1, ddof=1) / np.sqrt(queries)
    return error
