"""The files that a comparison writes, and its table on the terminal.

table.md is the whole page, table.tex the table alone, comparison.json every figure, cost.png the training loss.
"""

import json
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from clickvec.data import ClickLog
from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.significance import ROUNDS, Floats
from clickvec.lab.compare.breakdown import Breakdown, GroupMeans
from clickvec.lab.compare.findings import MEASURES, TESTED, Comparison, Findings, Row, as_json, examine, one_line
from clickvec.lab.compare.pair_tests import LEVEL
from clickvec.render.figures.style import LINES, drawing
from clickvec.render.terminal.screen import Screen, width
from clickvec.storage import files

HEAD = ("#", "system", *MEASURES, f"95% CI of {TESTED}", "ahead of", "parameters", "training", "queries/s")
NAME = 32  # columns that a name keeps on a terminal before other columns are left out
SMALL_GROUP = 30  # a group with fewer queries is marked

_BREAKDOWNS = (
    f"Mean {TESTED} on the test queries of each group; ± is the standard error of the mean over queries. A group "
    f"marked * has fewer than {SMALL_GROUP} queries and is unreliable. The best of each column is bold."
)
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$",
    "\n": " ", "\x02": r"\textbf{", "\x03": "}",
}  # fmt: skip
_LATEX_BOLD = "\x02{}\x03"  # control characters mark bold text until the other characters are escaped


def check() -> None:
    """Check, before any work, that the libraries for the pages are installed."""
    for module, extra in (("scipy", "eval"), ("matplotlib", "plot")):
        if find_spec(module) is None:
            raise missing_extra(module, extra)


def write(comparison: Comparison, log: ClickLog, out: Path, title: str = "Comparison") -> Findings:
    """Write table.md, table.tex, comparison.json and, if the table has both, the training loss of LSTM-RNN and RNN."""
    findings = examine(comparison, log)
    pages = {
        "table.md": markdown(findings, title),
        "table.tex": latex(findings),
        "comparison.json": json.dumps(as_json(findings), ensure_ascii=False, allow_nan=False) + "\n",
    }
    for name, text in pages.items():
        with files.replacing_file(out / name) as file:
            file.write(text.encode())
    (out / "cost.png").unlink(missing_ok=True)
    if comparison.curves:
        cost_curve(comparison.curves, out / "cost.png")
    return findings


def cost_curve(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw the training cost of each system by epoch on a logarithmic axis, as in the paper."""
    drawn = {name: costs for name, costs in curves.items() if len(costs)}
    if not drawn:
        raise ClickvecError("there is nothing to draw: no system has a training cost by epoch")
    with drawing(path, 6.4, 3.8) as figure:
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        axes = figure.add_subplot()
        for place, (name, costs) in enumerate(drawn.items()):
            axes.plot(range(1, len(costs) + 1), costs, color=LINES[place % len(LINES)], marker="o", label=name)
        axes.set(xlabel="epoch", ylabel="training cost", yscale="log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")  # 0.5, not 5 x 10^-1
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y", which="both")
        figure.legend(loc="outside upper center", ncols=4)


def for_terminal(findings: Findings, screen: Screen) -> str:
    """Return the table as columns that fit the screen: leave out the last columns first, then shorten the names."""
    rows = [HEAD, *table_cells(findings)]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    widths[1] = min(widths[1], NAME)
    shown = len(HEAD)
    while shown > 2 + len(MEASURES) and sum(widths[:shown]) + 2 * (shown - 1) > screen.columns:
        shown -= 1
    head, *body = (row[:shown] for row in rows)
    figures = "<" if any("±" in cell for row in body for cell in row) else ">"
    align = "><" + figures * len(MEASURES) + "<<>>>"
    lines = screen.table(align[:shown], head, body, cut=1)
    if shown < len(HEAD):
        lines += ["", *screen.wrap(f"table.md also has these columns: {', '.join(HEAD[shown:])}")]
    return "\n".join(lines)


def table_cells(findings: Findings, bold: str = "{}") -> list[list[str]]:
    """Return the cells of the table under `HEAD`. The best figure of each measure is formatted with `bold`."""
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
    """Return the whole page: table, legend, tests, breakdowns, settings, and the command of each row."""
    sections = [f"# {title}", _measured_on(findings.comparison), _markdown_table(findings), _legend(findings)]
    sections += [_tests(findings), "## NDCG by kind of query", _BREAKDOWNS]
    sections += [_breakdown(findings.comparison, *part) for part in findings.breakdowns]
    sections += [_settings(findings.comparison.rows), _origin(findings.comparison.rows)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _measured_on(comparison: Comparison) -> str:
    counts = ", ".join(
        f"{len(queries):,} {split} queries ({comparison.left_out.get(split, 0):,} more have no relevant title)"
        for split, queries in comparison.queries.items()
    )
    about = "".join(f"\n- {name}: {one_line(value)}" for name, value in comparison.about.items())
    return f"Measured on {counts}.\n{about}".rstrip()


def _markdown_table(findings: Findings) -> str:
    head = [*HEAD, "dev NDCG@1 / @3 / @10"]
    cells = table_cells(findings, bold="**{}**")
    for line, row in zip(cells, findings.comparison.rows, strict=True):
        line.append(" / ".join(f"{mean:.1f}" for mean in row.mean("dev")))
    return pipe_table([head, *cells])


def _legend(findings: Findings) -> str:
    seeds = max(len(row.test) for row in findings.comparison.rows)
    spread = f" Figures with ± are means over {seeds} seeds with their standard deviation." if seeds > 1 else ""
    searched = findings.comparison.about.get("titles searched")
    over = f", in a search of {searched:,} titles (those without a grade count as not relevant)" if searched else ""
    titles = "searched per second" if searched else "scored per second, with all their judged titles"
    return (
        f"NDCG on test, in per cent{over}. The best of each column is bold.{spread} 95% CI of {TESTED}: 95% confidence "
        f"interval of the mean (bootstrap over queries, {ROUNDS:,} rounds). Ahead of: the numbers of the rows that "
        f"this row beats with p < {LEVEL} after correction (see below). Parameters: learned numbers. Training: time "
        f"of one seed. Queries/s: test queries {titles}. The corpus of BM25, "
        f"ULM and PLSA contains the judged titles; Doc2Vec and the vocabulary of Skip-Thought also see the judged "
        f"queries, as in the paper. None of them sees a grade. Our trained models see only the log."
    )


def _tests(findings: Findings) -> str:
    """Return all pairs by both tests in one square. The differences and the uncorrected p values are in the JSON."""
    rows, pairs = findings.comparison.rows, findings.pairs
    if not pairs:
        return ""
    number_of = {row.key: number for number, row in enumerate(rows)}
    square = [["·"] * len(rows) for _ in rows]
    for pair in pairs:
        i, j = number_of[pair.first], number_of[pair.second]
        square[i][j], square[j][i] = _p_cell(pair.randomisation_corrected), _p_cell(pair.t_corrected)
    head = ["#", "system", *(str(number) for number in range(1, len(rows) + 1))]
    body = [[str(number), row.label, *line] for number, (row, line) in enumerate(zip(rows, square, strict=True), 1)]
    first = {pair for pair in pairs if pair.randomisation_corrected < LEVEL}
    second = {pair for pair in pairs if pair.t_corrected < LEVEL}
    return (
        f"## Significance\n\nThe two-sided p value of each pair of rows, for {TESTED} on the same test queries, after "
        f"Holm's correction for {len(pairs):,} pairs. Above the diagonal: paired randomisation test "
        f"({findings.rounds:,} rounds, so no p is below {len(pairs) / (1 + findings.rounds):.2g}). Below it: paired "
        f"t-test. Bold: p < {LEVEL}. {len(first):,} pairs differ significantly by the first test, {len(second):,} by "
        f"the second, {len(first & second):,} by both. The tests are about queries: would another sample of queries "
        f"give the same order? A system with several seeds enters with its mean on each query."
        f"\n\n{pipe_table([head, *body])}"
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
    chosen = [", ".join(f"{name} {one_line(value)}" for name, value in row.settings.items()) for row in rows]
    lines = [[str(number), row.label, text] for number, (row, text) in enumerate(zip(rows, chosen, strict=True), 1)]
    return f"## Settings\n\nChosen on dev or set by the recipe.\n\n{pipe_table([['#', 'system', 'settings'], *lines])}"


def _origin(rows: Sequence[Row]) -> str:
    """Return the command, the version of the code and the machine of each row."""
    commands = "\n".join(f"{row.command}  # {number}" for number, row in enumerate(rows, 1))
    made: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(rows, 1):
        made.setdefault((row.commit, row.machine), []).append(number)
    places = "\n".join(
        f"- {'all rows' if len(made) == 1 else f'row {number_ranges(numbers)}'}: clickvec {commit}, on {machine}"
        for (commit, machine), numbers in made.items()
    )
    return f"## How each row was made\n\n```\n{commands}\n```\n\n{places}"


def latex(findings: Findings) -> str:
    """Return the table as a plain tabular, which needs no LaTeX package. The best of each measure is bold."""
    rows = [[latex_escape(text) for text in row] for row in (HEAD, *table_cells(findings, bold=_LATEX_BOLD))]
    head, *body = (" & ".join(cells) + r" \\" for cells in rows)
    columns = "rl" + "l" * (len(HEAD) - 5) + "rrr"
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}", ""]
    return "\n".join(lines)


def latex_escape(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_LATEX_ESCAPES.get(character, character) for character in text)


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def rounded(means: Floats) -> Floats:
    """Round means as they are shown, so that figures that look equal are both bold or both not."""
    return np.round(means, 1)


def number_ranges(numbers: Sequence[int]) -> str:
    """Return 1, 2, 3 and 5 as `1-3, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def size(count: int | None) -> str:
    """Return a number of parameters as 14.4M, 960K or 512; an empty string for None."""
    if count is None:
        return ""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{name}"
    return str(count)


def duration(seconds: float) -> str:
    """Return a time as 42 s, 3.5 min or 2.1 h; an empty string for 0."""
    if not seconds > 0:
        return ""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def rate(per_second: float) -> str:
    """Return a rate with three significant digits; an empty string if it is not positive and finite."""
    if not (math.isfinite(per_second) and per_second > 0):
        return ""
    return f"{float(f'{per_second:.3g}'):,.0f}" if per_second >= 100 else f"{per_second:.3g}"
