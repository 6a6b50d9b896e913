"""Prepare a click log on a Ray cluster: the data folder is the one that `clickvec prepare` writes, byte for byte.

One task reads each file, and one task cleans each part of the queries; Ray moves the lines between them. What is left,
one line for each pair, goes to DuckDB on the machine that runs the command, which numbers the texts, counts the
trigrams and writes the data folder.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clickvec.cluster.session import RETRIES, finished
from clickvec.cluster.shuffled_lines import CleanPart, ReadFile, Whole, clean_part, read_part
from clickvec.data.cleaning import Cleaning, CleaningReport, Dropped
from clickvec.data.clicks import describe_files
from clickvec.data.events import Events
from clickvec.data.parsing.columns import Columns
from clickvec.data.parsing.lines import BadLines
from clickvec.data.parsing.open_files import STDIN
from clickvec.data.parsing.paths import log_files
from clickvec.data.preparation import Preparation, write_data_folder
from clickvec.errors import ClickvecError
from clickvec.progress import Progress, ignore

PART_BYTES = 2**25  # of Parquet, about five times as much text
REPEATED = {"max_retries": RETRIES}


def prepare_on_cluster(
    ray: Any,  # noqa: ANN401
    logs: Sequence[Path], out: Path, settings: Preparation, columns: Columns, *, max_bad: float = 0.01,
    parts: int | None = None, tell: Callable[[BadLines], None] | None = None, progress: Progress | None = None,
) -> CleaningReport:  # fmt: skip
    """Read logs, clean them by queries and write a data folder; return what cleaning dropped. `tell` gets bad lines."""
    if settings.cleaning.max_per_hour or settings.cleaning.max_per_client:
        raise ClickvecError("a cluster divides the log by queries, so it cannot count a client's searches per hour")
    paths, report = [path.resolve() for path in _files(logs)], CleaningReport()
    parts = parts or max(1, sum(path.stat().st_size for path in paths) // PART_BYTES)
    show = progress or ignore
    read = ray.remote(num_returns=1 + parts, **REPEATED)(read_part)
    tasks = [
        read.remote(path, number, columns, settings.cleaning.keep_secrets, parts) for number, path in enumerate(paths)
    ]
    bad, whole, clicked = BadLines(), Whole(False, True, False, False), 0
    for number, (path, task) in enumerate(zip(paths, tasks, strict=True), 1):
        found: ReadFile = ray.get(task[0])
        bad.merge(found.bad)
        columns.merge(found.columns)
        report.secrets += found.report.secrets
        clicked += found.clicked
        whole = Whole(
            whole.has_clients or found.has_clients, whole.has_times and found.has_times,
            whole.has_positions or found.has_positions, whole.sessions or found.sessions,
        )  # fmt: skip
        show(f"read {path.name}", number, len(paths))
    bad.check(describe_files(logs), max_bad, clicked, "pair with a click")
    if tell:
        tell(bad)
    columns.check_used()
    to_clean = ray.remote(**REPEATED)(clean_part)
    cleaned = [to_clean.remote(whole, settings.cleaning, *(task[1 + part] for task in tasks)) for part in range(parts)]
    del tasks  # Ray keeps the lines until the parts are clean

    def blocks() -> Iterator[Events]:
        left = 0
        for part in finished(ray, cleaned):
            _add(report, part)
            left += part.clicked
            if len(part.events.queries):
                yield part.events
        for rule in report.clicks:
            report.warn(rule, settings.cleaning)
        report.check_left(left)

    merging = settings.__class__(
        settings.max_words, settings.max_trigrams, Cleaning(keep_secrets=True), hold_out=settings.hold_out,
        memory=settings.memory, whole_words=settings.whole_words,
    )  # fmt: skip
    write_data_folder(blocks(), out, merging, lambda _: None, progress)
    return report


def _files(logs: Sequence[Path]) -> list[Path]:
    """Return the files of a log, which every node must be able to open."""
    files = log_files(logs)
    for path in files:
        if path == STDIN or not path.is_file():
            raise ClickvecError(f"{path} is not a file; a cluster reads files, best Parquet, that every node can open")
    return files


def _add(report: CleaningReport, part: CleanPart) -> None:
    """Add what was dropped of one part. Parts have no query in common."""
    by_rule = {dropped.rule: dropped for dropped in report.dropped}
    for rule, lines, queries in part.report.dropped:
        before = by_rule.get(rule, Dropped(rule, 0, 0))
        by_rule[rule] = Dropped(rule, before.lines + lines, before.queries + queries)
    report.dropped = list(by_rule.values())
    for name, clicks in part.report.clicks.items():
        sums = report.clicks.get(name, (0.0, 0.0))
        report.clicks[name] = sums[0] + clicks[0], sums[1] + clicks[1]
    report.only_sessions |= part.report.only_sessions
