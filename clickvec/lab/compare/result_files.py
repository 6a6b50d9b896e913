"""Everything that a comparison leaves in its folder: the table in four forms, and the figure."""

import json
from importlib.util import find_spec
from pathlib import Path

from clickvec.data import ClickLog
from clickvec.errors import missing_extra
from clickvec.lab.compare import result_page
from clickvec.lab.compare.latex import latex
from clickvec.lab.compare.result import Comparison
from clickvec.render import figures
from clickvec.storage import files


def check() -> None:
    """Refuse to begin, and not after an hour, without what the pages need."""
    for module, extra in (("scipy", "eval"), ("matplotlib", "plot")):
        if find_spec(module) is None:
            raise missing_extra(module, extra)


def write(comparison: Comparison, log: ClickLog, out: Path, title: str = "Comparison") -> result_page.Findings:
    """Write table.md, table.tex, comparison.json and, where both are in the table, the costs of LSTM-RNN and RNN."""
    findings = result_page.examine(comparison, log)
    pages = {
        "table.md": result_page.markdown(findings, title),
        "table.tex": latex(findings),
        "comparison.json": json.dumps(result_page.as_json(findings), ensure_ascii=False, allow_nan=False) + "\n",
    }
    for name, text in pages.items():
        with files.replacing_file(out / name) as file:
            file.write(text.encode())
    (out / "cost.png").unlink(missing_ok=True)
    if comparison.curves:
        figures.cost_curve(comparison.curves, out / "cost.png")
    return findings
