"""A comparison as something to read: for the terminal, as Markdown and as JSON. The LaTeX table is in latex.py."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickvec.data import ClickLog
from clickvec.lab.compare import significance
from clickvec.lab.compare.breakdown import Breakdown, GroupMeans, breakdowns, group_means
from clickvec.lab.compare.result import MEASURES, Comparison, Row
from clickvec.lab.compare.significance import LEVEL, PAIR_ROUNDS, Floats, Pair
from clickvec.render.terminal.screen import Screen, width

TESTED = "NDCG@10"  # the measure of the intervals, the tests and the breakdowns
HEAD = ("#", "system", *MEASURES, f"95% of {TESTED}", "ahead of", "parameters", "training", "queries/s")
NAME = 32  # columns that a name keeps on a terminal before other columns are left out
SMALL_GROUP = 30  # a group with fewer queries is marked

_BREAKDOWNS = (
    f"Mean {TESTED} on the test queries of each group; ± is the standard error of the mean over the queries. A group "
    f"marked * has fewer than {SMALL_GROUP} queries: do not lean on it. The best of each column is bold."
)


@dataclass(frozen=True)
class Findings:
    """A comparison and what follows from it: all that the pages show."""

    comparison: Comparison
    intervals: Mapping[str, Floats]  # of dev and of test: (rows, 2)
    pairs: Sequence[Pair]  # on test
    breakdowns: Sequence[tuple[Breakdown, GroupMeans]]  # of test
    rounds: int  # of the randomisation test

    def beaten(self) -> list[list[int]]:
        """For each row the numbers, from 1, of the rows that it is significantly ahead of."""
        numbers = {row.key: number for number, row in enumerate(self.comparison.rows, 1)}
        ahead = significance.ahead(self.pairs)
        return [sorted(numbers[key] for key in ahead.get(row.key, ())) for row in self.comparison.rows]


def examine(comparison: Comparison, log: ClickLog, rounds: int = PAIR_ROUNDS, seed: int = 0) -> Findings:
    """Intervals, tests and breakdowns of a comparison; `log` is what its systems were fitted to."""
    intervals = {
        split: significance.bootstrap_interval(significance.query_values(comparison, split, TESTED), seed=seed)
        for split in ("dev", "test")
    }
    pairs = significance.all_pairs(comparison, "test", TESTED, rounds, seed)
    parts = breakdowns(comparison.queries["test"], log)
    means = [(part, group_means(comparison, part, "test", TESTED)) for part in parts]
    return Findings(comparison, intervals, pairs, means, rounds)


def for_terminal(findings: Findings, screen: Screen) -> str:
    """The table as aligned columns that fit the screen: the last ones are left out first, then names are cut."""
    rows = [HEAD, *table_cells(findings)]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    widths[1] = min(widths[1], NAME)
    shown = len(HEAD)
    while shown > 2 + len(MEASURES) and sum(widths[:shown]) + 2 * (shown - 1) > screen.columns:
        shown -= 1
    head, *body = (row[:shown] for row in rows)
    figures = "<" if any("±" in cell for row in body for cell in row) else ">"
    align = "><" + figures * len(MEASURES) + "<<>>>"
    lines = screen.table(align[:shown], head, body, cut=1, rule=True)
    if shown < len(HEAD):
        lines += ["", *screen.wrap(f"table.md has these columns too: {', '.join(HEAD[shown:])}")]
    return "\n".join(lines)


def table_cells(findings: Findings, bold: str = "{}") -> list[list[str]]:
    """The cells of the table under `HEAD`, for all pages; the best figure of each measure goes into `bold`."""
    rows = findings.comparison.rows
    best = np.max([rounded(row.mean("test")) for row in rows], axis=0)
    cells = []
    for number, (row, beaten) in enumerate(zip(rows, findings.beaten(), strict=True), 1):
        means, spreads = rounded(row.mean("test")), row.spread("test")
        figures = [
            bold.format(f"{mean:.1f}") if mean == top else f"{mean:.1f}" for mean, top in zip(means, best, strict=True)
        ]
        if len(row.test) > 1:
            figures = [f"{figure} ± {spread:.1f}" for figure, spread in zip(figures, spreads, strict=True)]
        low, high = findings.intervals["test"][number - 1]
        facts = (size(row.parameters), duration(row.train_seconds), rate(row.queries_per_second))
        cells.append([str(number), row.label, *figures, f"{low:.1f} to {high:.1f}", number_ranges(beaten), *facts])
    return cells


def markdown(findings: Findings, title: str = "Comparison") -> str:
    """The whole page: the table, what it means, the tests, the breakdowns, and how to make it again."""
    sections = [f"# {title}", _measured_on(findings.comparison), _markdown_table(findings), _legend(findings)]
    sections += [_tests(findings), "## Where each system is good", _BREAKDOWNS]
    sections += [_breakdown(findings.comparison, *part) for part in findings.breakdowns]
    sections += [_settings(findings.comparison.rows), _origin(findings.comparison.rows)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _measured_on(comparison: Comparison) -> str:
    counts = ", ".join(
        f"{len(queries):,} {split} queries ({comparison.left_out.get(split, 0):,} more have no relevant title)"
        for split, queries in comparison.queries.items()
    )
    about = "".join(f"\n- {name}: {_one_line(value)}" for name, value in comparison.about.items())
    return f"Measured on {counts}.\n{about}".rstrip()


def _markdown_table(findings: Findings) -> str:
    head = [*HEAD, "dev NDCG@1 / @3 / @10"]
    cells = table_cells(findings, bold="**{}**")
    for line, row in zip(cells, findings.comparison.rows, strict=True):
        line.append(" / ".join(f"{mean:.1f}" for mean in row.mean("dev")))
    return pipe_table([head, *cells])


def _legend(findings: Findings) -> str:
    seeds = max(len(row.test) for row in findings.comparison.rows)
    spread = f" Figures with ± are means of {seeds} seeds, ± their standard deviation." if seeds > 1 else ""
    return (
        f"NDCG on test, in per cent; the best of each column is bold.{spread} 95% of {TESTED}: from where to where the "
        f"mean goes as the test queries are drawn again ({significance.ROUNDS:,} bootstrap rounds). Ahead of: the "
        f"numbers of the rows that this one beats, with p < {LEVEL} after correction (see below). Parameters: numbers "
        f"learned. Training: of one seed. Queries/s: test queries, with all their judged titles, scored in a second. "
        f"BM25, ULM and PLSA know the judged titles as part of their collection, Doc2Vec and the vocabulary of "
        f"Skip-Thought the judged queries too, as in the paper; none of them a grade. What we train sees the log."
    )


def _tests(findings: Findings) -> str:
    """All pairs by both tests in one square; differences and raw p are in the JSON."""
    rows, pairs = findings.comparison.rows, findings.pairs
    if not pairs:
        return ""
    place = {row.key: number for number, row in enumerate(rows)}
    square = [["·"] * len(rows) for _ in rows]
    for pair in pairs:
        i, j = place[pair.first], place[pair.second]
        square[i][j], square[j][i] = _p_cell(pair.randomisation_corrected), _p_cell(pair.t_corrected)
    head = ["#", "system", *(str(number) for number in range(1, len(rows) + 1))]
    body = [[str(number), row.label, *line] for number, (row, line) in enumerate(zip(rows, square, strict=True), 1)]
    first = {pair for pair in pairs if pair.randomisation_corrected < LEVEL}
    second = {pair for pair in pairs if pair.t_corrected < LEVEL}
    return (
        f"## Is it luck?\n\nThe p of every two rows on the {TESTED} of the same test queries, two-sided, after Holm's "
        f"correction for {len(pairs):,} pairs: above the diagonal by the randomisation test (whose {findings.rounds:,} "
        f"rounds give no less than {len(pairs) / (1 + findings.rounds):.2g}), below it by the paired t-test. Bold: "
        f"p < {LEVEL}. Of the pairs, {len(first):,} differ by the first test, {len(second):,} by the second, "
        f"{len(first & second):,} by both. The tests are about queries: whether others would give the same order. A "
        f"system with several seeds counts with their mean on each query.\n\n{pipe_table([head, *body])}"
    )


def _p_cell(p: float) -> str:
    text = "<.001" if p < 0.001 else "1" if p > 0.995 else f"{p:.3f}"[1:] if p < 0.0995 else f"{p:.2f}"[1:]
    return f"**{text}**" if p < LEVEL else text


def _breakdown(comparison: Comparison, breakdown: Breakdown, figures: GroupMeans) -> str:
    heading, groups = f"### {breakdown.name}", breakdown.groups
    if len(groups) == 1:
        return f"{heading}\n\nAll {len(groups[0].places):,} queries are in one group: {groups[0].name}."
    mark = ["\\*" if len(group.places) < SMALL_GROUP else "" for group in groups]
    names = [f"{group.name} ({len(group.places):,}){star}" for group, star in zip(groups, mark, strict=True)]
    best = rounded(figures.means).max(axis=0)
    lines = [["#", "system", *names]]
    for number, (row, means, errors) in enumerate(zip(comparison.rows, *figures, strict=True), 1):
        shown = [
            (f"**{mean:.1f}**" if mean == top else f"{mean:.1f}") + (f" ± {error:.1f}" if np.isfinite(error) else "")
            for mean, top, error in zip(rounded(means), best, errors, strict=True)
        ]
        lines.append([str(number), row.label, *shown])
    return "\n\n".join(part for part in (heading, breakdown.note, pipe_table(lines)) if part)


def _settings(rows: Sequence[Row]) -> str:
    chosen = [", ".join(f"{name} {_one_line(value)}" for name, value in row.settings.items()) for row in rows]
    lines = [[str(number), row.label, text] for number, (row, text) in enumerate(zip(rows, chosen, strict=True), 1)]
    return f"## Settings\n\nChosen on dev, or set by the recipe.\n\n{pipe_table([['#', 'system', 'settings'], *lines])}"


def _origin(rows: Sequence[Row]) -> str:
    """The commands, and below them which code and which machine made which rows."""
    commands = "\n".join(f"{row.command}  # {number}" for number, row in enumerate(rows, 1))
    made: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(rows, 1):
        made.setdefault((row.commit, row.machine), []).append(number)
    places = "\n".join(
        f"- {'all rows' if len(made) == 1 else f'row {number_ranges(numbers)}'}: clickvec {commit}, on {machine}"
        for (commit, machine), numbers in made.items()
    )
    return f"## How each row was made\n\n```\n{commands}\n```\n\n{places}"


def as_json(findings: Findings) -> dict[str, Any]:
    """All of it as plain values, for `json.dumps(..., allow_nan=False)`; what is no finite number is null."""
    comparison = findings.comparison
    result = {
        "measures": MEASURES,
        "about": comparison.about,
        "splits": {
            split: {"query_ids": [query.query_id for query in queries], "left_out": comparison.left_out.get(split, 0)}
            for split, queries in comparison.queries.items()
        },
        "rows": [_row_json(findings, place) for place in range(len(comparison.rows))],
        "significance": {
            "split": "test", "measure": TESTED, "rounds": findings.rounds, "correction": "Holm",
            "pairs": [pair._asdict() for pair in findings.pairs],
        },
        "breakdowns": [_breakdown_json(findings.comparison, *part) for part in findings.breakdowns],
        "curves": comparison.curves,
    }  # fmt: skip
    plain: dict[str, Any] = _plain(result)
    return plain


def _row_json(findings: Findings, place: int) -> dict[str, Any]:
    row = findings.comparison.rows[place]
    names = (
        "key", "label", "parameters", "train_seconds", "queries_per_second", "settings", "histories", "command",
        "commit", "machine",
    )  # fmt: skip
    result = {name: getattr(row, name) for name in names}
    for split, values in (("dev", row.dev), ("test", row.test)):
        result[split] = {
            "mean": dict(zip(MEASURES, row.mean(split), strict=True)),
            "spread": dict(zip(MEASURES, row.spread(split), strict=True)),
            f"95% of {TESTED}": findings.intervals[split][place],
            # For each seed the value of each query. Four decimals of a per cent keep the file a quarter of the size.
            "per_query": dict(zip(MEASURES, np.round(values, 4).swapaxes(0, 1), strict=True)),
        }
    return result


def _breakdown_json(comparison: Comparison, breakdown: Breakdown, figures: GroupMeans) -> dict[str, Any]:
    queries, keys = comparison.queries["test"], [row.key for row in comparison.rows]
    groups = [
        {
            "name": group.name,
            "queries": len(group.places),
            "query_ids": [queries[place].query_id for place in group.places],
            "mean": dict(zip(keys, means, strict=True)),
            "standard_error": dict(zip(keys, errors, strict=True)),
        }
        for group, means, errors in zip(breakdown.groups, figures.means.T, figures.errors.T, strict=True)
    ]
    return {"name": breakdown.name, "note": breakdown.note, "measure": TESTED, "groups": groups}


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Values that JSON has: arrays as lists, NaN and infinity as null, what is neither number nor text as text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _one_line(value: object) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def rounded(means: Floats) -> Floats:
    """As they are shown: figures that look the same are the same, and so both are the best or none is."""
    return np.round(means, 1)


def number_ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3 and 5 as `1-3, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def size(count: int | None) -> str:
    """A number of parameters: 14.4M, 960K, 512; nothing where nothing is learned."""
    if count is None:
        return ""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{name}"
    return str(count)


def duration(seconds: float) -> str:
    """42 s, 3.5 min, 2.1 h; nothing where there was no training."""
    if not seconds > 0:
        return ""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def rate(per_second: float) -> str:
    """Three digits are all that a clock gives."""
    if not (math.isfinite(per_second) and per_second > 0):
        return ""
    return f"{float(f'{per_second:.3g}'):,.0f}" if per_second >= 100 else f"{per_second:.3g}"
