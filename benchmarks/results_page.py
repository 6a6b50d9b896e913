"""Write docs/results.md, and for each of its tables a page of tests, breakdowns and settings."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from clickvec.evaluation.significance import randomisation_test
from clickvec.lab.compare import result_page
from clickvec.lab.compare.findings import Comparison, Findings, Row, examine
from clickvec.lab.compare.material import Material
from clickvec.lab.compare.pair_tests import t_test
from clickvec.lab.compare.result_page import pipe_table

Found = Mapping[str, tuple[Material, Comparison]]
NOTES = Path(__file__).with_name("results_notes.md")  # the findings, written by hand
HEAD = """# Results on public data

`make results` writes this page ([benchmarks/results.py](../benchmarks/results.py)). No number in a table is typed in
by hand. All values are NDCG@1 / @3 / @10 in per cent, on the judged titles of each query. Settings and epochs were
chosen on dev, nothing on test.

What each system sees: in these tables our trainer sees only the log. [With a teacher](results/teacher.md) it sees the
titles of the catalogue too. BM25, ULM and PLSA have the judged titles of dev and test in
their collection. Doc2Vec and the vocabulary of Skip-Thought are also trained on the judged queries, as in the paper.
No system sees the grades. ± is the standard deviation over seeds if a system has several. BM25, ULM, PLSA, Doc2Vec,
Skip-Thought and the transformer were run once. Skip-Thought was trained on books in Debian packages
(benchmarks/prose.py). A + after a commit means that other files, which do not affect the row, had changed. Two values
were entered by hand afterwards: the commit of the rows trained on the GPU (93c6a3f is the state that was copied
there; the copy itself reported an older one), and the training time of Skip-Thought, which is its CPU time on one
core.

- **msrd**: the Movie Search Ranking Dataset (metarank/msrd, CC BY-SA 4.0): real web queries; a click is a movie that
  people picked from a shuffled list. Titles have three words on average.
- **dbpedia**: what people type and the Wikipedia title that they want: redirects (CC BY-SA 3.0) and 50,054 questions.
  The judged sets are DBpedia-Entity v2. The sample of 200,000 pairs, the size of the paper's training set, contains
  all questions and redirects drawn with a fixed seed. Its dev set has 74 queries, so a difference of one point there
  is noise.

The column *better than* lists the rows that a row beats significantly on test by NDCG@10: p < 0.01, randomisation
test, Holm's correction for all pairs of the table. Each table has a page with all p values, breakdowns by kind of
query, and settings.
"""


def write_pages(found: Found, titles: Mapping[str, str], docs: Path, work: Path) -> None:
    """Write all pages and the figures of the training cost."""
    (docs / "results").mkdir(parents=True, exist_ok=True)
    sections = [HEAD.strip()]
    for name, (made_from, comparison) in found.items():
        findings = examine(comparison, made_from.log)
        (docs / "results" / f"{name}.md").write_text(result_page.markdown(findings, titles[name]), encoding="utf-8")
        sections.append(section(name, titles[name], findings))
        if comparison.curves and comparison.about["recipe"] == "paper":
            figure = docs / "images" / f"cost-{name.split('-')[0]}.png"
            result_page.cost_curve(comparison.curves, figure)
            sections.append(
                f"![Training cost of LSTM-RNN and RNN](images/{figure.name})\n\n*The paper's figure: the training cost "
                "of LSTM-RNN and RNN by epoch, on a logarithmic axis, with the same γ.*"
            )
    sections += [marks(found), more_of(found), NOTES.read_text(encoding="utf-8").strip()]
    (docs / "results.md").write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    shutil.copy(docs / "results.md", work / "results.md")


def section(name: str, title: str, findings: Findings) -> str:
    """Return one table and the command for its rows."""
    comparison = findings.comparison
    lines = [["#", "key", "system", "test", "±", "dev", "better than", "parameters", "training", "queries/s", "commit"]]
    best = max(row.mean("test")[2] for row in comparison.rows)
    for number, (row, beaten) in enumerate(zip(comparison.rows, findings.beaten(), strict=True), 1):
        spread = f"{row.spread('test')[2]:.1f}" if len(row.test) > 1 else ""
        test = f"**{ndcg(row, 'test')}**" if row.mean("test")[2] == best else ndcg(row, "test")
        cost = [
            result_page.size(row.parameters),
            result_page.duration(row.train_seconds),
            result_page.rate(row.queries_per_second),
        ]
        lines.append([
            str(number), f"`{row.key}`", row.label, test, spread, ndcg(row, "dev"), result_page.number_ranges(beaten),
            *cost, row.commit,
        ])  # fmt: skip
    queries = {split: len(found) for split, found in comparison.queries.items()}
    command = comparison.rows[0].command.replace(f"--systems {comparison.rows[0].key}", "--systems KEY")
    machines = sorted({row.machine for row in comparison.rows})
    return (
        f"## {title}\n\n{comparison.about['pairs']:,} pairs, {queries['dev']:,} dev and {queries['test']:,} test "
        f"queries, {seeds(comparison)}. Run on {'; '.join(machines)}. Command for one row:\n\n    {command}\n\n"
        f"{pipe_table(lines)}\n\n[All p values, breakdowns and settings](results/{name}.md)"
    )


def seeds(comparison: Comparison) -> str:
    most = max(len(row.test) for row in comparison.rows)
    return f"{most} seeds" if most > 1 else "one seed"


def ndcg(row: Row, split: str) -> str:
    return " / ".join(f"{mean:.1f}" for mean in row.mean(split))


def marks(found: Found) -> str:
    """Return the table that compares recipe default with BM25 and the transformer."""
    lines = [["data", "system", "dev", "test", "NDCG@10 over BM25 on dev: p (t, randomisation)", "on test"]]
    for name in ("msrd-default", "msrd-shown", "dbpedia-default", "dbpedia-all"):
        if name not in found:
            continue
        comparison = found[name][1]
        rows = {row.key: row for row in comparison.rows}
        for key in ("bm25", "transformer", "lstm", "bilstm", "hybrid-rrf", "hybrid-mix"):
            if key in rows:
                tests = ["", ""] if key == "bm25" else [over(rows[key], rows["bm25"], s) for s in ("dev", "test")]
                lines.append([name, rows[key].label, ndcg(rows[key], "dev"), ndcg(rows[key], "test"), *tests])
    return (
        "## `default` compared with BM25 and the transformer\n\nTwo-sided p values of single comparisons, not "
        f"corrected; the pages above have corrected ones.\n\n{pipe_table(lines)}"
    )


def over(row: Row, other: Row, split: str) -> str:
    first, second = row.per_query(split)[2], other.per_query(split)[2]
    chance = randomisation_test(first, second, rounds=100_000)
    return f"{np.mean(first - second):+.1f}: {t_test(first, second):.2g}, {chance:.2g}"


def more_of(found: Found) -> str:
    """Return the table of the paper's numbers of negatives and of cells."""
    keys = ("lstm-n2", "lstm-n4", "lstm-n6", "lstm-n8", "lstm-32", "lstm-64", "lstm")
    lines = [["data", "n = 2", "n = 4", "n = 6", "n = 8", "32 cells", "64 cells", "96 cells"]]
    for name, (_, comparison) in found.items():
        rows = {row.key: row for row in comparison.rows}
        if "lstm-32" not in rows:
            continue
        rows.setdefault("lstm-n4", rows["lstm"])  # under `paper` it is that row
        lines.append([name, *(f"{rows[key].mean('test')[2]:.1f} ± {rows[key].spread('test')[2]:.1f}" for key in keys)])
    return f"## Do more negatives and more cells help?\n\nNDCG@10 of the LSTM-RNN on test.\n\n{pipe_table(lines)}"
