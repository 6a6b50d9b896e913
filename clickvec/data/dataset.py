"""A click log as arrays, ready for training. data_folder.py writes and reads them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, Judged
from clickvec.data.pairs import distinct_pairs, pair_keys, passed_over, rows_of, token_counts
from clickvec.data.position_bias import looks_of_log
from clickvec.errors import ClickvecError
from clickvec.native.words import AnyTokenTable, token_table
from clickvec.storage.disk_arrays import DiskArray
from clickvec.text.ragged import Ints, Ragged, concatenate
from clickvec.text.tokens import split_tokens, text_blocks
from clickvec.text.trigrams import MAX_TRIGRAMS, Tokens, Vocabulary, count_units

_TEXTS_AT_ONCE = 2**15  # to limit memory
AnyArray = NDArray[Any] | DiskArray


class Dataset(NamedTuple):
    """A click log as numbers. A text is a row of token ids; a token is a row of trigram ids."""

    trigrams: tuple[str, ...]  # and whole words
    max_words: int
    tokens: Ragged  # the trigram ids of each token
    queries: Ragged  # the token ids of each distinct query
    titles: (
        Ragged  # the token ids of each distinct title: the clicked ones, those only shown, the rest of the catalogue
    )
    clicked_titles: int  # the number of clicked titles
    pair_query: NDArray[np.int32]  # the distinct (query, clicked title) pairs
    pair_title: NDArray[np.int32]
    pair_clicks: NDArray[np.float32]
    clicked: Ragged  # the clicked titles of each query
    shown: Ragged  # the titles of each query that were shown and not clicked; empty rows if that is not known
    pair_looks: NDArray[np.float32] | None = None  # how often readers looked at the pair; None if not known
    catalogue_titles: int = 0  # the number of titles that were neither clicked nor shown
    whole_words: bool = False  # whether frequent words were counted among the trigrams

    def __repr__(self) -> str:
        """Show the sizes. The arrays would fill the screen."""
        queries, titles = len(self.queries.offsets) - 1, len(self.titles.offsets) - 1
        return f"Dataset({len(self.pair_query):,} pairs, {queries:,} queries, {titles:,} titles)"


class Texts(NamedTuple):
    """The texts of a dataset, and what else appending another log to it needs."""

    queries: Tokens  # the canonical form of each query, by its id; there may be more behind the last one
    titles: Tokens
    query_times: NDArray[np.int64] | None = None  # of the first click of each query, in seconds since 1970
    pair_sums: AnyArray | None = None  # the clicks of each pair, if float32 is not exact
    max_trigrams: int = MAX_TRIGRAMS
    held_out: tuple[ClickLog, ClickLog] | None = None  # clicks for measuring: dev and test


def prepare(
    log: ClickLog, max_words: int, max_trigrams: int, shown: Judged | None = None, catalogue: Iterable[str] = (),
    *, whole_words: bool = False,
) -> Dataset:  # fmt: skip
    """Return the arrays of a click log, with the titles that were shown and not clicked, and those of a catalogue.

    Titles that were shown are in the log, if it has impressions, and in `shown`, a judged set, where they have grade 0.
    A teacher can teach the titles of the catalogue. Each counts once when the trigrams are chosen. With `whole_words`,
    frequent words are chosen too; `max_trigrams` limits both together.
    """
    return prepare_with_texts(
        log, max_words, max_trigrams, shown, catalogue=catalogue, whole_words=whole_words
    )[0]  # fmt: skip


def prepare_with_texts(
    log: ClickLog, max_words: int, max_trigrams: int, shown: Judged | None = None, before: "Before | None" = None,
    catalogue: Iterable[str] = (), *, whole_words: bool = False,
) -> tuple[Dataset, Texts]:  # fmt: skip
    """Do the same as `prepare`, and return the texts too. `before` is a dataset that the log is appended to."""
    old, old_texts = before or _nothing(max_words)
    tokens = token_table(max_words)
    shown_queries, shown_titles, grades = _shown_lines(log, shown)
    asked_before, width_before = len(old.queries.offsets) - 1, old.clicked_titles
    titles_before = len(old.titles.offsets) - 1
    all_before = titles_before - old.catalogue_titles  # clicked or shown
    query, query_tokens, shown_query, queries = _read(
        old_texts.queries[:asked_before], log.queries, shown_queries, tokens
    )
    title, title_tokens, shown_title, distinct_titles = _read(
        old_texts.titles[:width_before], log.titles, [*old_texts.titles[width_before:all_before], *shown_titles], tokens
    )
    listed = _distinct(distinct_titles, chain(old_texts.titles[all_before:titles_before], catalogue))
    asked, width = len(query_tokens.lengths), len(title_tokens.lengths)
    sums_before: NDArray[Any] = old.pair_clicks if old_texts.pair_sums is None else np.asarray(old_texts.pair_sums)
    pair_query, pair_title, sums = distinct_pairs(
        np.concatenate([old.pair_query, query]),
        np.concatenate([old.pair_title, title]),
        np.concatenate([sums_before.astype(np.float64), log.clicks]),
        width,
    )
    clicked, passed, others = rows_of(pair_query, pair_title, asked), rows_of(_NONE, _NONE, asked), _NONE
    if len(shown_title) or len(old.shown.values):
        # Sorted by title, so that titles that were only shown keep their order.
        order = np.argsort(old.shown.values, kind="stable")
        number_before = np.concatenate(
            [np.arange(width_before, dtype=np.int32), shown_title[: all_before - width_before]]
        )
        query_before = np.repeat(np.arange(asked_before, dtype=np.int32), old.shown.lengths)
        passed, others = passed_over(
            np.concatenate([query_before[order], shown_query]),
            np.concatenate([number_before[old.shown.values[order]], shown_title[all_before - width_before :]]),
            np.concatenate([np.zeros(len(order), np.int64), grades]),
            clicked,
            width,
        )
    listed = listed[(listed >= width) & ~np.isin(listed, others)]
    titles: Tokens = distinct_titles
    if len(others) or len(listed):
        beyond = distinct_titles[width:]
        more = [beyond[number - width] for number in np.concatenate([others, listed]).tolist()]
        title_tokens = concatenate([title_tokens, tokens.read(more)])
        titles = [*distinct_titles[:width], *more]
    once = np.arange(width + len(others), width + len(others) + len(listed), dtype=np.int32)
    times = token_counts(query_tokens, pair_query, len(tokens))
    times += token_counts(title_tokens, np.concatenate([pair_title, once]), len(tokens))
    vocabulary = Vocabulary.of_tokens(tokens, times, max_trigrams, whole_words=whole_words)
    clicks = sums.astype(np.float32)
    data = Dataset(
        vocabulary.trigrams, max_words, vocabulary.rows(tokens), query_tokens, title_tokens, width,
        pair_query, pair_title, clicks, clicked, passed,
        _looks(log, (query, title), (shown_query, shown_title), (pair_query, pair_title), old), len(listed),
        whole_words,
    )  # fmt: skip
    query_times = _first_times(query, log.times, asked, before)
    pair_sums = None if (clicks == sums).all() else sums
    return data, Texts(queries, titles, query_times, pair_sums, max_trigrams)


Before = tuple[Dataset, Texts]
_NONE = np.zeros(0, np.int32)


def _nothing(max_words: int) -> Before:
    """Return the dataset of no log."""
    empty = Ragged(_NONE, np.zeros(1, np.int64))
    return Dataset((), max_words, empty, empty, empty, 0, _NONE, _NONE, np.zeros(0, np.float32), empty, empty), Texts(
        [], []
    )


def _shown_lines(log: ClickLog, shown: Judged | None) -> tuple[list[str], list[str], NDArray[np.int64]]:
    """Return queries and titles with the grade of the title; what the log shows without a click has grade 0."""
    queries = [judged.query for judged in shown or () for _ in judged.titles]
    titles = [title for judged in shown or () for title in judged.titles]
    graded = [grade for judged in shown or () for grade in judged.grades.tolist()]
    if log.shown:
        queries += log.shown.queries
        titles += log.shown.titles
    grades = np.zeros(len(titles), np.int64)
    grades[: len(graded)] = graded
    return queries, titles, grades


def _read(
    before: Sequence[str], texts: list[str], others: list[str], tokens: AnyTokenTable
) -> tuple[Ints, Ragged, Ints, AnyTokenTable]:
    """Return the number of each text, the tokens of each distinct text, the numbers of other texts, and all texts.

    Distinct texts are numbered in order of first appearance, those `before` first. The tokens of the other texts are
    not read.
    """
    distinct, numbers, rows = token_table(max_words=0), np.empty(len(texts), np.int32), list[Ragged]()
    distinct.read(list(before))
    rows.append(tokens.read_table(distinct, 0))
    done = 0
    for block in text_blocks(texts, _TEXTS_AT_ONCE):
        known = len(distinct)
        numbers[done : done + len(block)] = distinct.read(block).values
        rows.append(tokens.read_table(distinct, known))
        done += len(block)
    return numbers, concatenate(rows), distinct.read(others).values, distinct


def _distinct(distinct: AnyTokenTable, texts: Iterator[str]) -> Ints:
    """Return the numbers of the distinct ones of some texts, in order of first appearance."""
    numbers = dict[int, None]()
    while block := list(islice(texts, _TEXTS_AT_ONCE)):
        numbers.update(dict.fromkeys(distinct.read(block).values.tolist()))
    return np.fromiter(numbers, np.int32, len(numbers))


def _looks(
    log: ClickLog, lines: tuple[Ints, Ints], shown: tuple[Ints, Ints], pairs: tuple[Ints, Ints], old: Dataset
) -> NDArray[np.float32] | None:
    """Return the looks at each pair, given queries and titles of the clicked lines, the shown lines and the pairs."""
    if not log.shown or not len(pairs[0]):
        return None
    keys, last = pair_keys(*pairs), len(log.shown)
    line = np.concatenate([pair_keys(*lines), pair_keys(shown[0][-last:], shown[1][-last:])])
    number = np.minimum(np.searchsorted(keys, line), len(keys) - 1)
    before = np.searchsorted(keys, pair_keys(old.pair_query, old.pair_title))
    return looks_of_log(log, np.where(keys[number] == line, number, -1), before, old.pair_looks, len(keys))


def _first_times(
    query: Ints, times: NDArray[np.int64] | None, asked: int, before: Before | None
) -> NDArray[np.int64] | None:
    """Return the time of the first click of each query; None if some of the lines have no time."""
    if times is None or (before and before[1].query_times is None):
        return None
    first = np.full(asked, np.iinfo(np.int64).max)
    if before and before[1].query_times is not None:
        first[: len(before[1].query_times)] = before[1].query_times
    np.minimum.at(first, query, times)
    return first


_ROWS_AT_ONCE = 2**18  # to limit memory


def token_texts(data: Dataset, texts: Texts) -> list[str]:
    """Return the tokens of a dataset by their ids, read from its texts."""
    tokens = [""] * (len(data.tokens.offsets) - 1)
    for rows, lines in ((data.queries, texts.queries), (data.titles, texts.titles)):
        count = len(rows.offsets) - 1
        for first in range(0, count, _TEXTS_AT_ONCE):
            stop = min(first + _TEXTS_AT_ONCE, count)
            words = chain.from_iterable(split_tokens(line, data.max_words) for line in lines[first:stop])
            numbers = rows.values[rows.offsets[first] : rows.offsets[stop]].tolist()
            for number, token in zip(numbers, words, strict=True):
                tokens[number] = token
    return tokens


def check(data: Dataset) -> None:
    """Raise if an index is out of bounds, as in a damaged folder: compiled code does not check."""
    queries, titles, tokens = (len(rows.offsets) - 1 for rows in (data.queries, data.titles, data.tokens))
    ends = {"tokens": len(data.trigrams), "queries": tokens, "titles": tokens}
    ends |= dict.fromkeys(("clicked", "shown"), titles - data.catalogue_titles)
    bad = [name for name, end in ends.items() if not _are_rows_below(getattr(data, name), end)]
    bad += [name for name in ("clicked", "shown") if len(getattr(data, name).offsets) != queries + 1]
    for name, end in (("pair_query", queries), ("pair_title", data.clicked_titles)):
        column = getattr(data, name)
        if len(column) != len(data.pair_clicks) or not _are_below(column, end):
            bad.append(name)
    if not 0 <= data.clicked_titles <= titles:
        bad.append("clicked_titles")
    if not 0 <= data.catalogue_titles <= titles - data.clicked_titles:
        bad.append("catalogue_titles")
    if len(data.pair_clicks) and not (data.pair_clicks.min() > 0 and np.isfinite(data.pair_clicks.max())):
        bad.append("pair_clicks")
    looks = data.pair_looks
    if looks is not None and (len(looks) != len(data.pair_clicks) or not (np.isfinite(looks) & (looks > 0)).all()):
        bad.append("pair_looks")
    if bad:
        raise ClickvecError(f"the data is damaged: {bad[0]} has values out of range; make it again with prepare")


def _are_rows_below(rows: Ragged, end: int) -> bool:
    """Whether the offsets are valid, and all values below `end`."""
    offsets = rows.offsets
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(rows.values):
        return False
    blocks = (offsets[first : first + _ROWS_AT_ONCE + 1] for first in range(0, len(offsets) - 1, _ROWS_AT_ONCE))
    return all((block[1:] >= block[:-1]).all() for block in blocks) and _are_below(rows.values, end)


def _are_below(numbers: NDArray[np.integer], end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)


def describe(data: Dataset, by_title: NDArray[np.float64] | None = None) -> dict[str, int | float]:
    """Return counts for the model card and the warnings. `by_title` may be an array of zeros, one for each title."""
    by_title = np.zeros(data.clicked_titles) if by_title is None else by_title
    for first in range(0, len(data.pair_title), _ROWS_AT_ONCE):
        block = slice(first, first + _ROWS_AT_ONCE)
        np.add.at(by_title, data.pair_title[block].astype(np.intp), data.pair_clicks[block].astype(np.float64))
    return {
        "pairs": len(data.pair_query), "queries": len(data.queries.offsets) - 1, "titles": data.clicked_titles,
        **count_units(data.trigrams), "distinct tokens": len(data.tokens.offsets) - 1,
        "shown": len(data.shown.values), **({"catalogue": data.catalogue_titles} if data.catalogue_titles else {}),
        "share of the most clicked title": float(by_title.max() / by_title.sum()) if len(by_title) else 0.0,
    }  # fmt: skip
