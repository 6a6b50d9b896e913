"""Findings from the exact counts: lines, duplicates, clients, days, clicks, lengths, head and tail, popular titles."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from clickvec.data.parsing.lines import BadLines
from clickvec.doctor.client_findings import client_findings
from clickvec.doctor.cures import Cures
from clickvec.doctor.finding import NOTHING, Finding, Plot, count_of, listed, percent
from clickvec.doctor.line_counts import DAY, LONGEST, Counted, Titles
from clickvec.doctor.text_hashes import canonical_texts, hash_texts

HEAD = 100  # queries
TOP_TITLES = 10
MANY_DAYS = 31  # more days are not drawn one by one
POPULAR = 0.02  # a title clicked for a larger share of the queries answers everything
POPULAR_CLICKS = 0.1  # and so does one with a larger share of the clicks
BAD_ALLOWED = 0.01  # the default of --max-bad
REASONS = 5


def lines_finding(bad: BadLines, counted: Counted, cures: Cures) -> Finding:
    """Report how many lines there are, and why the bad ones are bad."""
    text = f"{count_of(bad.total, 'line')}"
    if counted.shown:
        text += f", {counted.shown:,} of them without a click (shown and skipped)"
    named = [f"{count:,} {reason}" for reason, count in bad.reasons.most_common(REASONS)]
    others = bad.reasons.total() - sum(count for _, count in bad.reasons.most_common(REASONS))
    reasons = listed([*named, f"{others:,} for other reasons"] if others else named) if bad.count else ""
    text += f". {bad.count:,} ({percent(bad.count, bad.total)}) are bad: {reasons}." if bad.count else ". None is bad."
    for reason, count in bad.unused.most_common():
        text += f" {count_of(count, 'good line')} ({percent(count, bad.total)}) give no pair: {reason}."
    share = bad.count / bad.total if bad.total else 0.0
    advice, cure = NOTHING, ""
    if share > BAD_ALLOWED and bad.likely_encoding:
        advice = "The file has another encoding, or parts in two encodings. Name the encoding:"
        cure = cures("doctor", "--encoding", bad.likely_encoding)
    elif share > BAD_ALLOWED:
        allowed = min(1.0, math.ceil(100 * share) / 100)
        advice = "Repair the file. If these lines can be left out:"
        cure = cures.train("--max-bad", f"{allowed:g}")
    elif bad.count:
        advice = "Training skips these lines. Look at the examples: one cause may hide more."
    lines = (line for few in bad.by_reason.values() for line in few)
    return Finding(
        "lines", "Lines", text, advice,
        {"lines": bad.total, "good": counted.lines, "bad": bad.count, "shown": counted.shown,
         "unused": dict(bad.unused), "reasons": dict(bad.reasons)},
        act=share > BAD_ALLOWED, cure=cure, lines=(*lines, *bad.unused_examples.values()),
    )  # fmt: skip


def duplicates_finding(counted: Counted) -> Finding:
    """Report how often lines repeat."""
    clicked = counted.lines - counted.shown
    repeats = clicked - counted.pairs
    text = f"{repeats:,} clicked lines ({percent(repeats, clicked)}) repeat a pair of query and title"
    numbers: dict[str, int | None] = {"clicked_lines": clicked, "pairs": counted.pairs, "repeats": repeats}
    clients = counted.clients
    if clients is None or clients.identical is None:
        text += ". Without clients and times, a line that was logged twice cannot be told from a second click."
        numbers |= {"by_the_same_client": None, "identical": None}
        return Finding("duplicates", "Duplicates", text, "Training merges pairs and adds their clicks up.", numbers)
    text += (
        f", {clients.repeats:,} of them by the same client. {count_of(clients.identical, 'line')} "
        f"({percent(clients.identical, counted.lines)}) equal an earlier line in every column."
    )
    numbers |= {"by_the_same_client": clients.repeats, "identical": clients.identical}
    act = clients.identical > 0.01 * counted.lines
    advice = "Training merges pairs, and counts a client's repeats within 30 minutes once."
    if act:
        advice = "Check whether the log was written or collected twice."
    return Finding("duplicates", "Duplicates", text, advice, numbers, act=act)


def days_finding(counted: Counted) -> Finding:
    """Report the days that the log covers."""
    days = counted.lines_by_day
    if not days:
        return Finding(
            "days", "Days", "The log has no times.",
            "Add a column time, so that the latest queries are held out instead of random ones.", {"days": None},
        )  # fmt: skip
    first, last = min(days), max(days)
    missing = [day for day in range(first, last + 1) if day not in days] if last - first < 100_000 else []
    span = last - first + 1
    text = f"{count_of(len(days), 'day')} with lines, from {_date(first)} to {_date(last)} (UTC)"
    text += f"; {count_of(span - len(days), 'day')} between them without any." if span > len(days) else "."
    advice = f"Check why {_date(missing[0])} is empty." if missing else NOTHING
    numbers = {"days": len(days), "first": _date(first), "last": _date(last), "empty": span - len(days)}
    plots = (Plot("Lines by day", "bars", *_by_day(days)),) if len(days) > 1 else ()
    return Finding("days", "Days", text, advice, numbers, plots=plots, act=span > len(days))


def _by_day(days: Mapping[int, int]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return labels and lines, by day, by month or by year."""
    for digits in (10, 7, 4):
        lines = Counter[str]()
        for day, count in days.items():
            lines[_date(day)[:digits]] += count
        if len(lines) <= MANY_DAYS:
            break
    return tuple(lines), tuple(map(float, lines.values()))


def _date(day: int) -> str:
    try:
        return datetime.fromtimestamp(day * DAY, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return f"day {day:,} after 1970"


def clicks_finding(counted: Counted) -> Finding:
    """Report clicks, pairs, queries and titles."""
    once = counted.pairs_by_clicks.get(1.0, 0)
    titles = len(counted.titles.keys)
    text = (
        f"{count_of(counted.clicks, 'click')} on {count_of(counted.pairs, 'pair')} of "
        f"{count_of(counted.queries, 'query', 'queries')} and {count_of(titles, 'title')}. "
        f"Of the pairs, {percent(once, counted.pairs)} have one click."
    )
    few = counted.queries < 500
    advice = "There is little to learn from. Collect more days." if few else NOTHING
    return Finding(
        "clicks", "Clicks", text, advice,
        {"clicks": counted.clicks, "pairs": counted.pairs, "queries": counted.queries, "titles": titles,
         "pairs_with_one_click": once},
        act=few,
    )  # fmt: skip


def lengths_finding(counted: Counted, max_words: int, cures: Cures) -> Finding:
    """Report the lengths of queries in words, and how many are longer than the model reads word by word."""
    by_length = counted.lines_by_length
    total = int(by_length.sum())
    rising = np.cumsum(by_length)
    median = int(np.searchsorted(rising, total / 2))
    long = int(by_length[max_words + 1 :].sum())
    text = f"The median query has {count_of(median, 'word')}; {percent(long, total)} have more than {max_words}."
    advice, cure = NOTHING, ""
    if long > 0.05 * total:
        enough = min(LONGEST, int(np.searchsorted(rising, 0.95 * total)))
        advice = f"Words from number {max_words} on are read as one. Try more:"
        cure = cures.train("--set", f"max_words={enough}")
    shown = range(1, min(LONGEST, int(np.searchsorted(rising, 0.999 * total))) + 1)
    labels = tuple(f"{length}{' or more' if length == LONGEST else ''}" for length in shown)
    plot = Plot("Clicked lines by words in the query", "bars", labels, tuple(float(by_length[at]) for at in shown))
    return Finding(
        "query_lengths", "Query length", text, advice,
        {"median_words": median, "longer": long, "max_words": max_words, "by_words": by_length[: shown.stop].tolist()},
        plots=(plot,), act=advice != NOTHING, cure=cure,
    )  # fmt: skip


def head_finding(counted: Counted) -> Finding:
    """Report how much of the clicks the most frequent queries have, and how many queries occur once."""
    queries, clicks = counted.queries, counted.clicks
    once = counted.queries_by_clicks.get(1.0, 0)
    head = _clicks_of_top(counted.queries_by_clicks, [HEAD])[0]
    text = (
        f"The {HEAD} most frequent queries have {percent(head, clicks)} of the clicks. "
        f"Of the queries, {percent(once, queries)} have a single click."
    )
    if head > 0.9 * clicks and queries > HEAD:
        advice = "A table of the best titles for the frequent queries may serve as well as a model."
    elif once > 0.5 * queries:
        advice = "Most queries are in the tail, where a model helps most. Keep the rare queries."
    else:
        advice = NOTHING
    ranks = [rank for rank in (10**power * step for power in range(9) for step in (1, 2, 5)) if rank < queries]
    ranks.append(queries)
    shares = tuple(100 * part / clicks for part in _clicks_of_top(counted.queries_by_clicks, ranks))
    plot = Plot(
        "Share of the clicks on the most frequent queries", "curve", tuple(f"{rank:,}" for rank in ranks), shares, "%"
    )
    numbers = {"top": HEAD, "top_share": head / clicks, "once": once, "once_share": once / queries}
    return Finding("head_and_tail", "Head and tail", text, advice, numbers, plots=(plot,))


def _clicks_of_top(frequencies: Counter[float], ranks: list[int]) -> list[float]:
    """Return the clicks of the so many most clicked queries; `frequencies` says how many have how many clicks."""
    values = np.array(sorted(frequencies, reverse=True))
    counts = np.array([frequencies[value] for value in values.tolist()], np.float64)
    queries, clicks = (np.concatenate(([0.0], np.cumsum(column))) for column in (counts, counts * values))
    return np.interp(ranks, queries, clicks).tolist()


def popular_finding(counted: Counted, sampled_titles: Sequence[str]) -> Finding:
    """Report the titles that were clicked for most queries. Those that are named are in the sample."""
    titles, queries = counted.titles, counted.queries
    counts = np.sort(titles.queries)[::-1][:TOP_TITLES].astype(np.int64).tolist()
    top = _most_popular(titles, sampled_titles)
    most = counts[0]
    text = f"The most clicked title was clicked for {percent(most, queries)} of the queries ({most:,})"
    share = sum(counts) / counted.pairs
    clicks = float(titles.clicks.max()) / counted.clicks
    text += (
        f", the ten most clicked have {percent(share)} of the pairs. The largest share of clicks is {percent(clicks)}."
    )
    act = queries > 1 / POPULAR and (most > POPULAR * queries or clicks > POPULAR_CLICKS)
    advice = NOTHING
    if act:
        advice = (
            "A title that answers everything teaches nothing: if it is a home page or an advertisement, leave it out."
        )
    examples = tuple(f"{count_of(count, 'query', 'queries')}: {title}" for title, count in top)
    named = tuple(_short(title) for title, _ in top)
    shares = tuple(100 * count / queries for _, count in top)
    plots = (Plot("Share of the queries for which a title was clicked", "bars", named, shares, "%"),) if top else ()
    numbers = {"top_queries": counts, "top_share": most / queries, "ten_share_of_pairs": share,
               "top_share_of_clicks": clicks}  # fmt: skip
    return Finding("popular_titles", "Popular titles", text, advice, numbers, examples, plots, act)


def _most_popular(titles: Titles, sampled: Sequence[str]) -> list[tuple[str, int]]:
    """Return the sampled titles with the most queries, and the number of these. Masked titles are not among them."""
    text_of = dict(zip(canonical_texts(sampled), sampled, strict=True))
    keys = hash_texts(list(text_of))
    at = np.minimum(np.searchsorted(titles.keys, keys), len(titles.keys) - 1)
    columns = (titles.keys[at] == keys, titles.queries[at], titles.clicks[at])
    rows = zip(*(column.tolist() for column in columns), text_of.values(), strict=True)
    found = ((queries, clicks, text) for is_there, queries, clicks, text in rows if is_there)
    best = sorted(found, key=lambda row: (-row[0], -row[1], row[2]))[:TOP_TITLES]
    return [(text, int(queries)) for queries, _, text in best]


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def count_findings(
    bad: BadLines, counted: Counted, sampled_titles: Sequence[str], max_words: int, cures: Cures
) -> Iterator[Finding]:
    """Yield all findings of this module."""
    yield lines_finding(bad, counted, cures)
    yield duplicates_finding(counted)
    yield from client_findings(counted, cures)
    yield days_finding(counted)
    yield clicks_finding(counted)
    yield lengths_finding(counted, max_words, cures)
    yield head_finding(counted)
    yield popular_finding(counted, sampled_titles)
