"""The table of a comparison as LaTeX: a plain tabular, which needs no package and fits into any table environment."""

from collections.abc import Sequence

from clickvec.lab.compare.result_page import HEAD, Findings, table_cells

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$",
    "\n": " ",
}  # fmt: skip
_MARKED = "\x02{}\x03"  # stands for the bold of a cell while its text is escaped


def latex(findings: Findings) -> str:
    """The table; the best figure of each measure is bold, as in the paper."""
    rows = [[_cell(text) for text in row] for row in (HEAD, *table_cells(findings, bold=_MARKED))]
    lines = [_line(rows[0]), r"\hline", *(_line(row) for row in rows[1:])]
    columns = "rl" + "l" * (len(HEAD) - 5) + "rrr"
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\hline", *lines, r"\hline", r"\end{tabular}", ""])


def escape(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def _cell(text: str) -> str:
    return escape(text).replace("\x02", r"\textbf{").replace("\x03", "}")


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
