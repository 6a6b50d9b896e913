"""Format the tables that benchmarks print."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as aligned columns, numbers to the right. The first row is the header."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(cell.strip("-%").replace(",", "").replace(".", "").isdigit() for cell in column[1:] if cell)
               for column in zip(*cells, strict=True)]  # fmt: skip
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
