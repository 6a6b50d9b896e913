"""Columns are named, never guessed: refused headers, names given by the user, files without header, standard input."""

import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clickvec.data import (
    BadLines,
    Columns,
    judged,
    read_clicks,
    read_judged,
    read_qrels,
    read_texts,
    read_titles,
    stream_title_blocks,
    stream_titles,
    texts,
    titles,
)
from clickvec.data.layouts import joins, tables
from clickvec.data.parsing.columns import NAMES
from clickvec.data.parsing.open_files import STDIN
from clickvec.errors import ClickvecError
from clickvec.lab.claims import topic_labels
from clickvec.lab.claims.topic_labels import read_labels

NO_HEADER = Columns(header=False)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "file.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def qrels_queries(path: Path, **options: Any) -> object:  # noqa: ANN401
    (path.parent / "qrels").write_text("q1 0 d1 1\n")
    (path.parent / "titles.tsv").write_text("doc_id\ttitle\nd1\tOne\n")
    return read_qrels(path.parent / "qrels", path, path.parent / "titles.tsv", **options)


def qrels_titles(path: Path, **options: Any) -> object:  # noqa: ANN401
    (path.parent / "qrels").write_text("q1 0 d1 1\n")
    (path.parent / "queries.tsv").write_text("query_id\tquery\nq1\tone\n")
    return read_qrels(path.parent / "qrels", path.parent / "queries.tsv", path, **options)


def title_blocks(path: Path, **options: Any) -> object:  # noqa: ANN401
    return list(stream_title_blocks(path, BadLines(), **options))


def title_stream(path: Path, **options: Any) -> object:  # noqa: ANN401
    return list(stream_titles(path, BadLines(), **options))


# The reader, a header whose names it does not know, the columns that it misses, and the names that map them.
KINDS: dict[str, tuple[Callable[..., Any], str, list[str], str]] = {
    "log": (read_clicks, "product_heading first_search clicks", ["query", "title"],
            "query=first_search,title=product_heading"),
    "judged": (read_judged, "qid search_term sku name rating", ["query_id", "query", "doc_id", "title", "grade"],
               "query_id=qid,query=search_term,doc_id=sku,title=name,grade=rating"),
    "catalogue": (read_titles, "sku label_text", ["title"], "title=label_text"),
    "stream": (title_stream, "sku label_text", ["title"], "title=label_text"),
    "blocks": (title_blocks, "sku label_text", ["title"], "title=label_text"),
    "queries": (read_texts, "when search_term", ["query"], "query=search_term"),
    "labels": (read_labels, "phrase category", ["text", "topic"], "text=COLUMN,topic=category"),
    "qrels queries": (qrels_queries, "my_qid first_search", ["query_id", "query"],
                      "query_id=my_qid,query=first_search"),
    "qrels titles": (qrels_titles, "our_sku label_text", ["doc_id", "title"], "doc_id=our_sku,title=label_text"),
}  # fmt: skip
ROWS = {
    "log": "Fresh dough,pizza near me,2",
    "judged": "q1,pizza near me,d1,Fresh dough,2",
    "labels": "pizza near me,food",
}
ROWS |= dict.fromkeys(("catalogue", "stream", "blocks", "qrels titles"), "d1,Fresh dough")
ROWS |= {"queries": "today,pizza near me", "qrels queries": "q1,pizza near me"}


def written(kind: str, form: str, file: Callable[..., Path]) -> Path:
    """A file of this kind whose columns have the user's names."""
    names, row = KINDS[kind][1].split(), ROWS[kind].split(",")
    if form == "jsonl":
        return file(json.dumps(dict(zip(names, row, strict=True))) + "\n", "file.jsonl")
    between = "\t" if form == "tsv" else ","
    return file(f"{between.join(names)}\n{between.join(row)}\n", f"file.{form}")


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
@pytest.mark.parametrize("kind", KINDS)
def test_unknown_names_are_refused_with_the_cure(kind: str, form: str, file: Callable[..., Path]) -> None:
    read, header, missing, cure = KINDS[kind]
    path = written(kind, form, file)
    with pytest.raises(ClickvecError) as caught:
        read(path)
    said = str(caught.value)
    assert said.startswith(f"{path}:1: ")
    assert f"{', '.join(header.split())}; {', '.join(missing[:-1])}" in said
    assert f"{missing[-1]} {'are' if missing[1:] else 'is'} missing" in said
    assert f"--columns {cure}" in said


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
@pytest.mark.parametrize("kind", KINDS)
def test_names_given_by_the_user(kind: str, form: str, file: Callable[..., Path]) -> None:
    read, _, _, cure = KINDS[kind]
    columns = Columns.parse([cure.replace("COLUMN", "phrase")])
    found = read(written(kind, form, file), columns=columns)
    columns.check_used()
    assert any(text in repr(found) for text in ("pizza near me", "Fresh dough"))


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_header_only_if_so_told(kind: str, file: Callable[..., Path]) -> None:
    read, row = KINDS[kind][0], ROWS[kind].split(",")
    content = "\t".join([row[1], row[0], row[2]] if kind == "log" else row) + "\n"
    path = file(row[1] + "\n" if kind == "queries" else content)
    with pytest.raises(ClickvecError, match=r":1: .*--no-header"):
        read(path)
    assert any(text in repr(read(path, columns=NO_HEADER)) for text in ("pizza near me", "Fresh dough"))


def test_a_swapped_log_is_not_read_by_position(file: Callable[..., Path]) -> None:
    path = file("product_heading\tfirst_search\tclicks\n" + "Pizza\tpizza near me\t3\n" * 200)
    with pytest.raises(ClickvecError, match=r"query and title .*missing"):
        read_clicks(path)
    log = read_clicks(path, columns=Columns({"query": "First_Search ", "title": "product_heading"}))
    assert (log.queries[0], log.titles[0], log.clicks[0], len(log)) == ("pizza near me", "Pizza", 3, 200)


def test_names_as_a_mapping(file: Callable[..., Path]) -> None:
    path = file("search_term\tname\npizza\tFresh dough\n")
    assert read_clicks([path], columns={"query": "search_term", "title": "name"}).queries == ["pizza"]
    with pytest.raises(ClickvecError, match=r"'clicks': 'cliks'.*search_term, name"):
        read_clicks(path, columns={"query": "search_term", "title": "name", "clicks": "cliks"})


def test_a_header_is_never_a_document(file: Callable[..., Path]) -> None:
    path = file("sku,label_text\n1,Pizza\n", "titles.csv")
    with pytest.raises(ClickvecError, match="--columns title=label_text"):
        read_titles(path)
    assert list(read_titles(path, columns=Columns({"title": "label_text"}))) == [("1", "Pizza", {})]
    numbered = Columns({"title": "label_text", "doc_id": "-"})
    assert list(read_titles(path, columns=numbered)) == [("0", "Pizza", {"sku": "1"})]


CATALOGUES = ("csv", "tsv", "jsonl", "parquet")


def catalogue(rows: list[dict[str, Any]], form: str, tmp_path: Path) -> Path:
    """A catalogue of this format with the keys of the first row as its columns."""
    path = tmp_path / f"catalogue.{form}"
    if form == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        between = "," if form == "csv" else "\t"
        lines = [rows[0], *(list(map(str, row.values())) for row in rows)]
        path.write_text("".join(between.join(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("form", CATALOGUES)
@pytest.mark.parametrize("name", ["product_id", "SKU", "itemId", "asin", "_id", "document_id", "id", "doc_id", "url",
                                  "Artikel-Nr.", "Artikelnummer", "Bestellnummer", "EAN13", "isbn13", "handle", "pid",
                                  "id_product", "docno", "slug"])  # fmt: skip
def test_the_ids_of_a_catalogue_have_any_usual_name(name: str, form: str, tmp_path: Path) -> None:
    path = catalogue([{name: "a17", "title": "Pizza", "brand": "x"}, {name: 7, "title": "Tea", "brand": "x"}]
                     if form == "jsonl" else
                     [{name: "a17", "title": "Pizza", "brand": "x"}, {name: "7", "title": "Tea", "brand": "x"}],
                     form, tmp_path)  # fmt: skip
    expected = [("a17", "Pizza", {"brand": "x"}), ("7", "Tea", {"brand": "x"})]
    assert list(read_titles(path)) == title_stream(path) == expected


@pytest.mark.parametrize("form", CATALOGUES)
def test_a_column_that_may_be_the_ids_is_refused(form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"vendor_no": f"x{at}", "brand_id": f"b{at // 2}", "title": f"Pizza {at}"} for at in range(4)]
    path = catalogue(rows, form, tmp_path)
    with pytest.raises(ClickvecError, match=r"vendor_no may be the ids.*doc_id=vendor_no.*doc_id=-"):
        read_titles(path)
    assert [title.id for title in read_titles(path, columns=Columns({"doc_id": "vendor_no"}))] == [
        "x0",
        "x1",
        "x2",
        "x3",
    ]
    assert [title.id for title in read_titles(path, columns=Columns({"doc_id": "-"}))] == ["0", "1", "2", "3"]
    assert len(read_titles(path, ids="unused")) == 4
    assert not caplog.messages
    with pytest.raises(ClickvecError, match=r"no column of ids.*doc_id=vendor_no"):
        read_titles(path, ids="needed")
    two = catalogue([{"sku": "1", "product_id": "2", "title": "Pizza"}], form, tmp_path)
    with pytest.raises(ClickvecError, match=r"may be sku or product_id.*doc_id=sku.*doc_id=-"):
        read_titles(two)
    assert len(read_titles(two, ids="unused")) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("Kennung", "K-{}"), ("reference", "{}"), ("which", "lamp-{}"), ("Nummer", "{}"), ("vendor_no", "x{}")],
)
def test_a_column_of_different_words_may_be_the_ids(name: str, value: str, tmp_path: Path) -> None:
    values = [value.format(at) for at in range(120)]
    values[7], values[60] = (
        "" if name == "vendor_no" else values[7],
        values[61],
    )  # a blank cell and one that is there twice
    rows = [{"title": f"Pizza {at % 5}", name: word} for at, word in enumerate(values)]
    with pytest.raises(ClickvecError, match=f"{name} may be the ids.*doc_id={name}.*doc_id=-"):
        read_titles(catalogue(rows, "csv", tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price", "{}"), ("Preis", "{},50"), ("worth", "{}.5"), ("image", "{}.jpg"), ("picture", "https://x/{}"),
        ("since", "2024-01-{:02}"), ("description", "word{}"), ("notes", "some words {}"), ("seller", "x{}@y.example"),
    ],
)  # fmt: skip
def test_a_column_of_something_else_is_no_id(name: str, value: str, tmp_path: Path) -> None:
    rows = [{"title": f"Pizza{at}", name: value.format(at)} for at in range(10, 120)]
    for form in ("tsv", "jsonl"):
        assert read_titles(catalogue(rows, form, tmp_path))[0].id == "0"


@pytest.mark.parametrize("form", CATALOGUES)
def test_row_numbers_as_ids_are_said(form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"title": f"Pizza {at}", "brand_id": "b"} for at in range(3)]
    assert [title.id for title in read_titles(catalogue(rows, form, tmp_path))] == ["0", "1", "2"]
    (said,) = caplog.messages
    assert "row numbers are the ids" in said
    assert "--columns doc_id=COLUMN" in said


def test_json_lines_with_and_without_ids_are_not_mixed(file: Callable[..., Path]) -> None:
    some = file('{"id": "x", "title": "A"}\n{"title": "B"}\n', "a.jsonl")
    titles = read_titles(some, max_bad=0.5)
    assert ([title.id for title in titles], titles.bad.examples) == (["x"], [f"{some}:2: no doc_id"])


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_one_column_has_one_role(form: str, tmp_path: Path) -> None:
    path = catalogue([{"query": "pizza", "clicks": 1}], form, tmp_path)
    with pytest.raises(ClickvecError, match=r"query cannot be both query and title; .*--columns title=COLUMN"):
        read_clicks(path, columns={"query": "query", "title": "query"})
    with pytest.raises(ClickvecError, match="query cannot be both query and title"):
        read_clicks(path, columns={"title": "query"})


def test_the_user_s_name_goes_before_ours(file: Callable[..., Path]) -> None:
    columns = Columns({"title": "name", "doc_id": "sku"})
    table = file("title\tname\tid\tsku\nsubtitle\tPizza\t7\tp1\n")
    expected = [("p1", "Pizza", {"title": "subtitle", "id": "7"})]
    assert list(read_titles(table, columns=columns)) == expected
    value = {"title": "subtitle", "name": "Pizza", "id": "7", "sku": "p1"}
    assert list(read_titles(file(json.dumps(value), "a.jsonl"), columns=columns)) == expected
    swapped = read_clicks(
        file("query\ttitle\nFresh dough\tpizza near me\n"), columns=Columns({"query": "title", "title": "query"})
    )
    assert (swapped.queries, swapped.titles) == (["pizza near me"], ["Fresh dough"])


def test_json_lines_without_the_user_s_key_are_read_by_no_other(file: Callable[..., Path]) -> None:
    rows = [{"query": "a", "title": "A"}, {"query": "b", "name": "B", "title": "x"}, {"query": "c", "title": "y"}]
    path = file("".join(json.dumps(row) + "\n" for row in rows), "a.jsonl")
    log = read_clicks(path, max_bad=0.5, columns=Columns({"title": "name"}))
    assert (log.titles, log.bad.examples) == (["A", "B"], [f"{path}:3: no title"])
    assert read_clicks(file('{"q": "a", "title": "A"}\n', "b.jsonl"), columns=Columns({"query": "q"})).clicks[0] == 1


def test_names_apply_to_the_files_that_have_them(file: Callable[..., Path]) -> None:
    columns = Columns({"query": "search_term", "title": "name"})
    read_clicks(file("search_term\tname\na\tb\n", "log.tsv"), columns=columns)
    judgement = file("query_id\tquery\tdoc_id\ttitle\tgrade\n1\ta\tx\tb\t1\n", "judged.tsv")
    assert read_judged(judgement, columns=columns)[0].titles == ("b",)
    columns.check_used()


@pytest.mark.parametrize("name", ["log.tsv", "log.csv", "log.jsonl"])
def test_a_name_that_applies_to_no_file_is_an_error(name: str, file: Callable[..., Path]) -> None:
    row = {
        "tsv": "query\ttitle\tn\na\tb\t1\n",
        "csv": "query,title,n\na,b,1\n",
        "jsonl": '{"query":"a","title":"b","n":1}',
    }
    columns = Columns({"clicks": "cliks"})
    path = file(row[name.rpartition(".")[2]], name)
    read_clicks(path, columns=columns)
    with pytest.raises(ClickvecError) as caught:
        columns.check_used()
    assert "--columns clicks=cliks" in str(caught.value)
    assert f"{path} has query, title, n" in str(caught.value)


def test_titles_that_are_streamed_have_the_column_or_nothing_is_given(file: Callable[..., Path]) -> None:
    columns = Columns({"title": "nmae"})
    with pytest.raises(ClickvecError, match="--columns title=nmae"):
        next(stream_title_blocks(file("doc_id\ttitle\nx\tA\n"), BadLines(), columns=columns))
    with pytest.raises(ClickvecError, match="--columns title=nmae"):
        title_blocks(file('{"title": "A"}\n', "a.jsonl"), columns=columns)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected query=search_term"),
        ("query", "expected query=search_term"),
        ("query=a,,title=b", "expected query=search_term"),
        ("=a", "expected query=search_term"),
        ("query=", "blank"),
        ("query= ", "blank"),
        ("query=a,query=b", "query is named twice"),
        ("url=a", "no column 'url'"),
        ("Query=a", "no column 'Query'"),
        ("query=a\rb", "expected query=search_term"),
    ],
)
def test_names_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ClickvecError, match=said):
        Columns.parse([text])


def test_names_with_commas_signs_and_spaces() -> None:
    assert Columns.parse([' query = search term ,"title=name, long"', "clicks=a=b"]).names == {
        "query": "search term",
        "title": "name, long",
        "clicks": "a=b",
    }
    with pytest.raises(ClickvecError, match="header"):
        Columns.parse(["query=a"], header=False)


def test_all_columns_have_a_name() -> None:
    schemas = (
        tables.LOG,
        judged._JUDGED,
        joins.QUERIES,
        titles.TITLES,
        topic_labels._LABELS,
        *texts._SCHEMAS.values(),
    )
    assert {column for schema in schemas for column in schema.columns} == set(NAMES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"query\ttitle\tQUERY\na\tb\tc\n", ":1: the header names query twice"),
        (b"q\ttitle\tq\na\tb\tc\n", ":1: the header names q twice"),
        (b"qu\xffery\ttitle\nquery\ttitle\na\tb\n", ":1: not UTF-8: byte 0xff at 3; this may be the header"),
        (b"qu\0ery\ttitle\nquery\ttitle\na\tb\n", ":1: NUL byte; this may be the header"),
        (b"\nqu\xffery\ttitle\na\tb\n\xff\n", ":2: not UTF-8"),
        (b"\xff\n", "its only line is not a good pair"),
        (b"", "is empty"),
        (b"\n\r\n", "is empty"),
        (b"query title\na b\n", "--delimiter"),
        (b'{"query": "a", "title": "b"}\n', "name it .jsonl"),
        (b"\x1b[31mterm\tname\na\tb\n", "--columns"),
        (b"\t\t\na\tb\tc\n", ":1: found the columns '', '', ''; query and title are missing"),
        ("\t".join(f"c{n}" for n in range(99)).encode(), "c19 and 79 more; query and title are missing"),
        (b"x" * 1000 + b"\tname\n", "x" * 40 + "..., name;"),
    ],
)
def test_headers_that_are_refused(content: bytes, said: str, file: Callable[..., Path]) -> None:
    path = file(content)
    with pytest.raises(ClickvecError) as caught:
        read_clicks(path, columns=Columns({"query": "q"}))
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_a_stray_quote_in_the_header(file: Callable[..., Path]) -> None:
    with pytest.raises(ClickvecError, match=r"a\.csv:1: not CSV.*header"):
        read_clicks(file('"query"x,title\nquery,title\na,b\n', "a.csv"))


@pytest.mark.parametrize("header", ["\ufeffsearch_term\tname\r\n", "\r\nNAME\tSearch_Term\r\n"])
def test_byte_order_marks_and_line_ends(header: str, file: Callable[..., Path]) -> None:
    row = "b\ta\r\n" if "NAME" in header else "a\tb\r\n"
    log = read_clicks(file(header + row), columns=Columns({"query": "search_term", "title": "name"}))
    assert (log.queries, log.titles) == (["a"], ["b"])


def test_a_header_is_a_header_without_one_too(file: Callable[..., Path]) -> None:
    assert len(read_clicks(file("title\tquery\nb\ta\n"), columns=NO_HEADER)) == 1
    assert len(read_titles(file("title\nA\n"), columns=NO_HEADER)) == 1
    assert [title.title for title in read_titles(file("t1\tTitle\nt2\tB\n"), columns=NO_HEADER)] == ["Title", "B"]


def test_clicks_that_cannot_be_added_up(file: Callable[..., Path]) -> None:
    for count in ("1e-46", "9e-7", "1.1e12", "1e39", "-1", "nan", "inf", "1e999"):
        with pytest.raises(ClickvecError, match=rf":2: clicks is '{count}'.* 1e-06 to 1e\+12"):
            read_clicks(file(f"query\ttitle\tclicks\na\tb\t{count}\n"))
    log = read_clicks(file("query\ttitle\tclicks\na\tb\t1e-6\na\tc\t1e12\na\td\t-0\n"))
    assert log.clicks.tolist() == [1e-6, 1e12]


# --- standard input ----------------------------------------------------------------------------------------------


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    table, values = b"\nquery\ttitle\na\tb\n", b'\n{"query": "a", "title": "b"}\n'
    for content in (table, values, gzip.compress(table), gzip.compress(values), b"\xef\xbb\xbf" + values[1:]):
        for stream in (io.BytesIO(content), io.BufferedReader(io.BytesIO(content))):  # type: ignore[arg-type]
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
            assert read_clicks("-").queries == ["a"]


def test_standard_input_that_comes_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(write_end, b"\n")
        os.write(write_end, b'{"title": "A"}\n')
        os.close(write_end)
        assert [title.title for title in read_titles(STDIN)] == ["A"]
        assert not stdin.closed


def test_errors_call_it_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    give(b"a\tb\n")
    with pytest.raises(ClickvecError, match=r"^standard input:1: found the columns a, b; "):
        read_clicks(STDIN)
    give(b"PK\x03\x04....")
    with pytest.raises(ClickvecError, match=r"^standard input .*zip"):
        read_judged(STDIN)
    give(gzip.compress(b"query\ttitle\n" * 100)[:-9])
    with pytest.raises(ClickvecError, match=r"^standard input.*gzip"):
        read_titles(STDIN)
    give(b"query\nx\ty\n")
    with pytest.raises(ClickvecError, match=r"^standard input: its only line .*: standard input:2: 2 columns"):
        read_texts(STDIN)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ClickvecError, match=r"^standard input is empty"):
        read_clicks(STDIN)


def test_a_file_called_like_standard_input(tmp_path: Path) -> None:
    (tmp_path / "-").write_text("title\nA\n")
    assert len(read_titles(tmp_path / "-")) == 1
