"""Which columns of a catalogue hold numbers."""

from pathlib import Path

import pytest

from clickvec.data.titles import number_columns


@pytest.mark.parametrize(
    ("values", "is_number"),
    [
        (("3", "4.50", "-1", "0"), True),
        (("", "7", " 8 "), True),
        (("", ""), False),
        (("3", "n/a"), False),
        (("3", "007"), False),  # a code
        (("1234567890123456",), False),
        (("1e5",), False),
        (("1,99",), False),
        (("nan",), False),
        (("٣",), False),
    ],
)
@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_a_column_of_nothing_but_numbers(values: tuple[str, ...], is_number: bool, ending: str, tmp_path: Path) -> None:
    between = "," if ending == "csv" else "\t"
    rows = [
        between.join((f"d{number}", "a title", f'"{value}"' if ending == "csv" else value))
        for number, value in enumerate(values)
    ]
    (tmp_path / f"c.{ending}").write_text("\n".join([between.join(("doc_id", "title", "price")), *rows, ""]))
    assert number_columns(tmp_path / f"c.{ending}") == ["price"] * is_number


@pytest.mark.parametrize(
    ("values", "is_number"),
    [
        (("1,50", "7", "-0,5"), True), (("1.50", "7"), True), (("1.200,50", "1,5"), True),
        (("1.200", "1,5"), True), (("1.200", "1.25"), True), (("0.125", "2"), True), (("1.200", "7"), False),
        (("1.50", "1,50"), False), (("1,50 EUR", "1,50"), False), (("1,2,3", "1,50"), False),
    ],
)  # fmt: skip
def test_decimal_commas_in_a_file_with_semicolons(values: tuple[str, ...], is_number: bool, tmp_path: Path) -> None:
    rows = [f"d{number};a title;{value}" for number, value in enumerate(values)]
    (tmp_path / "c.csv").write_text("\n".join(["doc_id;title;price", *rows, ""]))
    assert number_columns(tmp_path / "c.csv") == ["price"] * is_number


@pytest.mark.parametrize("name", ["sku", "EAN", "brand_id", "zip", "article code"])
def test_codes_stay_text(name: str, tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(f"doc_id\ttitle\t{name}\twidth\n1\ta title\t123\t5\n")
    assert number_columns(tmp_path / "c.tsv") == ["width"]


def test_json_lines_have_types(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"doc_id": "1", "title": "a title", "price": "3"}\n')
    assert number_columns(tmp_path / "c.jsonl") == []
