"""From the lines of a click log to a data folder: clean, number, write; in memory or, for a large log, on disk."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from clickvec.data import data_folder, dataset
from clickvec.data.cleaning import Cleaning, CleaningReport, clean, frequent_queries
from clickvec.data.clicks import ClickLog, collect
from clickvec.data.events import Events
from clickvec.data.held_out import hold_out, hold_out_again
from clickvec.data.held_out_files import joined
from clickvec.data.judged import Judged
from clickvec.data.on_disk.assembly import assemble
from clickvec.data.on_disk.log_store import Store, open_store
from clickvec.data.on_disk.sql_cleaning import clean_store, frequent_in_store
from clickvec.data.on_disk.sql_split import TwoParts, hold_out_lines
from clickvec.data.parsing.lines import BadLines
from clickvec.data.secrets import mask
from clickvec.progress import Progress, ignore
from clickvec.text.trigrams import MAX_TRIGRAMS


@dataclass(frozen=True)
class Preparation:
    """How a click log becomes a data folder."""

    max_words: int = 10
    max_trigrams: int = MAX_TRIGRAMS
    cleaning: Cleaning = field(default_factory=Cleaning)
    shown: Judged | None = None  # its titles of grade 0 become negatives
    hold_out: bool = False  # hold two parts of the queries out, for measuring
    append: bool = False  # to the data folder that is there; its max_words, max_trigrams and whole_words are kept
    memory: int | None = None  # bytes that the process may use; None for a log that fits in memory
    catalogue: Iterable[str] = ()  # titles for a teacher, beside those of the log; read once
    whole_words: bool = False  # frequent words have a place among the trigrams
    frequent: int = 0  # how many frequent queries that may be shown the report lists


def write_data_folder(
    blocks: Iterable[Events],
    out: Path,
    settings: Preparation,
    check: Callable[[int], None],
    progress: Progress | None = None,
) -> CleaningReport:
    """Write the data folder of a log. On error, what was at `out` before is unchanged.

    `check` is called with the number of lines with a click when all lines are read; it raises an error if too many
    lines were bad.
    """
    before = data_folder.load_with_texts(out) if settings.append else None
    max_words = before[0].max_words if before else settings.max_words
    max_trigrams = before[1].max_trigrams if before else settings.max_trigrams
    whole_words = before[0].whole_words if before else settings.whole_words
    report = CleaningReport()
    shown = settings.shown if settings.cleaning.keep_secrets else _masked(settings.shown)
    blocks = _counted(blocks, progress or ignore)
    if settings.memory is None:
        log = collect(blocks, BadLines())
        check(len(log))
        log, report = clean(log, settings.cleaning, before[1].queries if before else ())
        if settings.frequent:
            report.frequent = frequent_queries(log, settings.frequent, settings.cleaning.k_anonymous)
        log, held_out = _split(log, settings.hold_out, before)
        data, texts = dataset.prepare_with_texts(
            log, max_words, max_trigrams, shown, before, settings.catalogue, whole_words=whole_words
        )  # fmt: skip
        data_folder.save(data, out, texts._replace(held_out=held_out))
        return report
    with open_store(out, settings.memory) as store:
        _fill(store, blocks, shown, before)
        store.add_catalogue(settings.catalogue)
        check(store.clicked)
        store.finish(None if settings.cleaning.keep_secrets else report.mask)
        clean_store(store, settings.cleaning, report)
        report.check_left(store.clicked)
        if settings.frequent:
            report.frequent = frequent_in_store(store, settings.frequent, settings.cleaning.k_anonymous)
        held_before = before[1].held_out if before else None
        held_out = hold_out_lines(store, held_before) if settings.hold_out or held_before else None
        made = assemble(store, max_words, max_trigrams, whole_words)
        counts = data_folder.counts_of(max_words, made.clicked_titles, made.catalogue_titles, whole_words)
        texts = made.texts._replace(held_out=_with_before(held_out, before))
        data_folder.write(out, made.arrays, made.trigrams, counts, texts)
    return report


def _split(log: ClickLog, is_wanted: bool, before: dataset.Before | None) -> tuple[ClickLog, TwoParts | None]:
    """Return the part of a log to train on, and the parts that are held out."""
    if before and before[1].held_out:
        dev, test = before[1].held_out
        parts = hold_out_again(log, dev.queries, test.queries)
        return parts.train, _with_before((parts.dev, parts.test), before)
    split = hold_out(log) if is_wanted else None
    return (split.train, (split.dev, split.test)) if split else (log, None)


def _with_before(parts: TwoParts | None, before: dataset.Before | None) -> TwoParts | None:
    """Return what is held out of a log together with what a data folder holds out."""
    if not parts or not before or not before[1].held_out:
        return parts
    return joined(before[1].held_out[0], parts[0]), joined(before[1].held_out[1], parts[1])


def _fill(store: Store, blocks: Iterable[Events], shown: Judged | None, before: dataset.Before | None) -> None:
    if before:
        store.add_folder(before)
    for events in blocks:
        store.add(events)
    if shown:
        store.add_judged(shown)


def _counted(blocks: Iterable[Events], progress: Progress) -> Iterator[Events]:
    lines = 0
    for events in blocks:
        yield events
        lines += len(events.queries)
        progress("lines", lines, None)


def _masked(shown: Judged | None) -> Judged | None:
    """Mask the secrets in queries of a judged set, so that they are still those of the log."""
    if shown is None:
        return None
    rows = [judged._replace(query=mask([judged.query])[0][0]) for judged in shown]
    return replace(shown, rows=tuple(rows))
