"""docs/inside.md is what its template says: filled in, and not edited by hand or forgotten."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_the_template_filled_in() -> None:
    template = (ROOT / "benchmarks" / "inside.md.in").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    parts = [re.escape(part) for part in re.split(r"\{\{\w+\}\}", template)]
    assert len(parts) > 10
    assert re.fullmatch("(.+?)".join(parts), page, re.DOTALL)
