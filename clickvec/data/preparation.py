"""From the lines of a click log to a data folder: clean, number, write; in memory or, for a large log, on disk."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from clickvec.data import data_folder, dataset
from clickvec.data.assembly import assemble
from clickvec.data.cleaning import Cleaning, CleaningReport, clean
from clickvec.data.clicks import collect
from clickvec.data.events import Events
from clickvec.data.judged import Judged
from clickvec.data.lines import BadLines
from clickvec.data.log_store import Store, open_store
from clickvec.data.secrets import mask
from clickvec.data.sql_cleaning import clean_store
from clickvec.progress import Progress, ignore
from clickvec.text.trigrams import MAX_TRIGRAMS


@dataclass(frozen=True)
class Preparation:
    """How a click log becomes a data folder."""

    max_words: int = 10
    max_trigrams: int = MAX_TRIGRAMS
    cleaning: Cleaning = field(default_factory=Cleaning)
    shown: Judged | None = None  # its titles of grade 0 become negatives
    append: bool = False  # to the data folder that is there; its max_words and max_trigrams are kept
    memory: int | None = None  # bytes that the process may use; None for a log that fits in memory


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
    report = CleaningReport()
    shown = settings.shown if settings.cleaning.keep_secrets else _masked(settings.shown)
    if settings.memory is None:
        log = collect(_counted(blocks, progress or ignore), BadLines())
        check(len(log))
        log, report = clean(log, settings.cleaning, before[1].queries if before else ())
        data, texts = dataset.prepare_with_texts(log, max_words, max_trigrams, shown, before)
        data_folder.save(data, out, texts)
        return report
    with open_store(out, settings.memory) as store:
        _fill(store, _counted(blocks, progress or ignore), shown, before)
        check(store.clicked)
        store.finish(None if settings.cleaning.keep_secrets else report.mask)
        clean_store(store, settings.cleaning, report)
        report.check_left(store.clicked)
        made = assemble(store, max_words, max_trigrams)
        about = {"max_words": max_words, "clicked_titles": made.clicked_titles}
        data_folder.write(out, made.arrays, made.trigrams, about, made.texts)
    return report


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
    """Mask the secrets of a judged set, so that its queries are still those of the log."""
    if shown is None:
        return None
    masked = [
        judged._replace(query=mask([judged.query])[0][0], titles=tuple(mask(judged.titles)[0])) for judged in shown
    ]
    return replace(shown, rows=tuple(masked))
