"""Readers: every kind of file, every kind of bad line, and the sentence each mistake gets."""

import contextlib
import gzip
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickvec.data import (
    BadLines,
    ClickLog,
    Columns,
    read_clicks,
    read_judged,
    read_qrels,
    read_texts,
    read_titles,
    stream_title_blocks,
    stream_titles,
)
from clickvec.data.layouts import tables
from clickvec.data.parsing import csv_rows, lines, numbers, records
from clickvec.data.parsing.header import LOOK_AHEAD
from clickvec.data.parsing.source import open_source
from clickvec.errors import ClickvecError
from clickvec.lab.claims.topic_labels import read_labels
from clickvec.search.rerank import read_result_lists

T = TypeVar("T")
File = Callable[..., Path]
NO_HEADER = Columns(header=False)


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(content: str | bytes, name: str = "clicks.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def pairs(log: ClickLog) -> list[tuple[str, str, float]]:
    return list(zip(log.queries, log.titles, log.clicks.tolist(), strict=True))


TWO = [("hotels", "Hotel A", 2.0), ("film", "Café", 1.0)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "query\ttitle\tclicks\nhotels\tHotel A\t2\nfilm\tCafé\t1\n"),
        ("a.tsv", "hotels\tHotel A\t2\nfilm\tCafé\t1"),  # no header, no last line end
        ("a.tsv", "\ufeffquery\ttitle\tclicks\r\nhotels\tHotel A\t2\r\nfilm\tCafé\t1\r\n"),
        ("a.tsv", "\ufeffhotels\tHotel A\t2\r\nfilm\tCafé\t1\r"),
        ("a.tsv", "Title\tlang\tClicks\tQuery\nHotel A\ten\t2\thotels\nCafé\tfr\t1\tfilm\n"),
        ("a.tsv", "\nquery\ttitle\tclicks\n\nhotels\tHotel A\t2\n\n\nfilm\tCafé\t1\n\n\n"),
        ("a.csv", "query,title,clicks\nhotels,Hotel A,2\nfilm,Café,1\n"),
        ("a.csv", '\ufeff"hotels","Hotel A","2"\r\n"film","Café",1\r\n'),
        ("a.jsonl", '{"query": "hotels", "title": "Hotel A", "clicks": 2}\n{"title": "Caf\\u00e9", "query": "film"}\n'),
        ("a.ndjson", '{"query": "hotels", "title": "Hotel A", "clicks": 2.0, "x": [1]}\n'
                     '{"title": "Café", "query": "film", "clicked": true}'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_formats(file: File, name: str, content: str, packed: bool) -> None:
    data = content.encode()
    path = file(gzip.compress(data), name + ".gz") if packed else file(data, name)
    log = read_clicks(path, columns=NO_HEADER)
    assert pairs(log) == TWO
    if "query" in content.lower():
        assert pairs(read_clicks(path)) == TWO
    assert (log.bad.count, log.bad.total) == (0, 2)
    assert log.clicks.dtype == np.float64
    assert len(log) == 2


def test_gzip_is_told_by_content_and_not_by_name(file: File) -> None:
    assert len(read_clicks(file(gzip.compress(b"query\ttitle\nq\tt\n"), "packed.tsv"))) == 1
    assert len(read_clicks(file("query\ttitle\nq\tt\n", "plain.tsv.gz"))) == 1
    two_members = gzip.compress(b"query\ttitle\nq\tt\nq2") + gzip.compress(b"\tt\n")
    assert read_clicks(file(two_members)).queries == ["q", "q2"]


def test_clicks_default_to_one(file: File) -> None:
    assert pairs(read_clicks(file("query\ttitle\nq\tt\n"))) == [("q", "t", 1.0)]
    assert pairs(read_clicks(file("q\tt\nq\tt\n"), columns=NO_HEADER)) == [("q", "t", 1.0)] * 2


@pytest.mark.parametrize("header", ["time\tclient\tquery\ttitle\tposition\tclicked\n", ""])
def test_impressions_are_a_click_log(file: File, header: str) -> None:
    rows = "1\tc\tq\tt1\t1\t0\n1\tc\tq\tt2\t2\t1\n2\td\tq\tt2\t1\ttrue\n2\td\tq\tt3\t1\tFALSE\n"
    log = read_clicks(file(header + rows), columns=Columns(header=bool(header)))
    assert pairs(log) == [("q", "t2", 1.0), ("q", "t2", 1.0)]
    assert (log.bad.count, log.bad.total) == (0, 4)
    assert log.times is not None
    assert log.positions is not None
    assert (log.clients, log.times.tolist(), log.positions.tolist()) == (["c", "d"], [1, 2], [2, 1])
    assert log.shown is not None
    assert pairs(log.shown) == [("q", "t1", 0.0), ("q", "t3", 0.0)]
    assert log.shown.clients == ["c", "d"]


def test_clicks_column_goes_before_clicked(file: File) -> None:
    assert pairs(read_clicks(file("clicked\tquery\tclicks\ttitle\n1\tq\t7\tt\n"))) == [("q", "t", 7.0)]


def test_zero_clicks_is_a_good_line_and_no_pair(file: File) -> None:
    log = read_clicks(file("query\ttitle\tclicks\nq\tt\t0\nq\tu\t0.5\nq\tv\t1e3\n"))
    assert pairs(log) == [("q", "u", 0.5), ("q", "v", 1000.0)]
    assert (log.bad.count, log.bad.total) == (0, 3)
    with pytest.raises(ClickvecError, match=r"clicks\.tsv.* only line .* pair"):
        read_clicks(file("query\ttitle\tclicks\nq\tt\t0\n"))


def test_several_files_are_one_log(file: File) -> None:
    files = [file("query\ttitle\nq\tt\n", "a.tsv"), file("", "empty.tsv"), file("query,title\nq2,t\n", "b.csv")]
    log = read_clicks(files)
    assert log.queries == ["q", "q2"]
    with pytest.raises(ClickvecError, match=r"a\.tsv and 1 more.* 1 of 2 .*50\.0%"):
        read_clicks([files[0], file("query\ttitle\nx\n", "bad.tsv")])
    with pytest.raises(ClickvecError, match="empty"):
        read_clicks([])


NO_CLICKS = "clicks is neither 0 nor a number from 1e-06 to 1e+12"
GOOD = "query\ttitle\tclicks\n" + "q\tt\t1\n" * 3


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        (b"q\tt", "wrong number of columns", "2 columns, expected query, title, clicks"),
        (b"q", "wrong number of columns", "1 column, expected query, title, clicks"),
        (b"q\tt\t1\t", "wrong number of columns", "4 columns, expected query, title, clicks"),
        (b"\tt\t1", "blank query", "blank query"),
        ("\u00a0 \tt\t1".encode(), "blank query", "blank query"),
        (b"q\t \t1", "blank title", "blank title"),
        (b"q\tt\t", NO_CLICKS, "clicks is '', neither 0 nor a number from"),
        (b"q\tt\t-1", NO_CLICKS, "clicks is '-1', neither 0 nor a number from"),
        (b"q\tt\tmany", NO_CLICKS, "clicks is 'many', neither 0 nor a number from"),
        (b"q\tt\t1e-46", NO_CLICKS, "clicks is '1e-46', neither 0 nor a number from"),
        (b"q\tt\t1e39", NO_CLICKS, "clicks is '1e39', neither 0 nor a number from"),
        (b"q\tt\tnan", NO_CLICKS, "clicks is 'nan', neither 0 nor a number from"),
        (b"q\tt\tinf", NO_CLICKS, "clicks is 'inf', neither 0 nor a number from"),
        (b"q\tt\t1e999", NO_CLICKS, "clicks is '1e999', neither 0 nor a number from"),
        (b"q\tt\t1_0", NO_CLICKS, "clicks is '1_0', neither 0 nor a number from"),
        ("q\tt\t١".encode(), NO_CLICKS, "clicks is '١', neither 0 nor a number from"),
        (b"q\tt\xff\t1", "not UTF-8", "not UTF-8: byte 0xff at 4"),
        (b"q\tt\xc3\t1", "not UTF-8", "not UTF-8: byte 0xc3 at 4"),
        (b"q\0\tt\t1", "NUL byte", "NUL byte"),
        (b"q" * (lines.MAX_LINE_BYTES + 1), "longer than 10,000,000 bytes", "longer than 10,000,000 bytes"),
    ],
)
def test_bad_lines_are_skipped_counted_and_named(file: File, line: bytes, reason: str, detail: str) -> None:
    path = file(GOOD.encode() + line + b"\nlast\tt\t1\r\n")
    log = read_clicks(path, max_bad=0.2)
    assert log.queries == ["q", "q", "q", "last"]
    assert (log.bad.count, log.bad.total, dict(log.bad.reasons)) == (1, 5, {reason: 1})
    (example,) = log.bad.examples
    assert example.startswith(f"{path}:5: {detail}")
    with pytest.raises(ClickvecError, match=r"1 of 5 .*20\.0%.* --max-bad 0\.19 .*:5: "):
        read_clicks(path, max_bad=0.19)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("{", "not JSON: Expecting property name"),
        ("[" * 100_000, "not JSON: "),
        ("[1]", "not a JSON object"),
        ('{"title": "t"}', "no query"),
        ('{"query": null, "title": "t"}', "query is null"),
        ('{"query": "q", "title": "t", "clicks": null}', "clicks is null"),
        ('{"query": "q", "title": "t", "clicks": null, "clicked": true}', "clicks is null"),
        ('{"query": ["q"], "title": "t"}', "query is not text"),
        ('{"query": "q", "title": "t", "clicks": NaN}', "not JSON: NaN is not a finite number"),
        ('{"query": "q", "title": "t", "clicks": -2}', "clicks is '-2'"),
        ('{"query": "q", "title": "t", "clicks": 1e-46}', "clicks is '1e-46'"),
        ('{"query": "q", "title": "t", "clicks": 1e39}', "clicks is '1e+39'"),
        ('{"query": "q\\ud800", "title": "t"}', "an escape"),
        ('{"query": "q\\u0000", "title": "t"}', "an escape"),
        ('{"query": "", "title": "t"}', "blank query"),
    ],
)
def test_bad_json_lines(file: File, line: str, detail: str) -> None:
    log = read_clicks(file('{"query": "q", "title": 1984}\n' + line + "\n", "a.jsonl"), max_bad=0.5)
    assert pairs(log) == [("q", "1984", 1.0)]
    assert f"a.jsonl:2: {detail}" in log.bad.examples[0]


def test_csv_fields_hold_commas_quotes_and_line_ends(file: File) -> None:
    text = 'query,title,clicks\r\n"a, ""b""","one\r\ntwo\n\nthree",3\r\n5" disk,t,1\r\nx,y\r\n'
    log = read_clicks(file(text, "a.csv"), max_bad=0.5)
    assert pairs(log) == [('a, "b"', "one\ntwo\n\nthree", 3.0), ('5" disk', "t", 1.0)]
    assert log.bad.examples[0].endswith("a.csv:7: 2 columns, expected query, title, clicks")


@pytest.mark.parametrize(
    "stray",
    ['"open,t,1\nq,u,1\nq,"t",1', '"q"x,t,1', f"q,{'x' * 200_000},1", "q\rq,t,1"],
)
def test_csv_mends_itself_after_a_stray_quote(file: File, stray: str) -> None:
    text = "query,title,clicks\nfirst,t,1\n" + stray + "\nlast,t,1\n"
    log = read_clicks(file(text, "a.csv"), max_bad=1.0)
    assert (log.queries[0], log.queries[-1]) == ("first", "last")
    assert log.bad.count >= 1
    assert log.bad.total == text.count("\n") - 1
    assert len(log) + log.bad.count == log.bad.total  # what a quote swallowed is counted


def test_a_csv_record_over_several_lines_counts_once(file: File) -> None:
    log = read_clicks(file('query,"two\n\nlines",title\n"a\n\nb",,t\nq,"x\ny"\nq,,t\n', "a.csv"), max_bad=1.0)
    assert (log.queries, log.bad.count, log.bad.total) == (["a\n\nb", "q"], 2, 4)


def test_csv_quote_left_open_to_the_end(file: File) -> None:
    log = read_clicks(file('query,title,clicks\nq,t,1\n"open,t,1\nq,t,1\n', "a.csv"), max_bad=1.0)
    assert (len(log), log.bad.count) == (1, 2)
    assert "a.csv:3: not CSV" in log.bad.examples[0]


@pytest.mark.parametrize("mark", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85", "\r"])
def test_only_line_feeds_split_lines(file: File, mark: str) -> None:
    log = read_clicks(file(f"query\ttitle\tclicks\na{mark}b\tt{mark}u\t1\nq\tt\t1\n"))
    assert pairs(log) == [(f"a{mark}b", f"t{mark}u", 1.0), ("q", "t", 1.0)]


def test_long_queries_and_every_script(file: File) -> None:
    long, scripts = "word " * 10_000, "上海 的 酒店 فنادق होटल 🏨"
    for name in ("a.tsv", "a.csv"):
        content = f"query\ttitle\tclicks\n{long}\tt\t1\n{scripts}\t{scripts}\t1\n"
        assert read_clicks(file(content.replace("\t", "," if name == "a.csv" else "\t"), name)).queries == [
            long,
            scripts,
        ]


def test_lines_are_the_same_however_the_bytes_arrive(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "\ufeffquery\ttitle\tclicks\r\nhotels\tHotel A\t2\r\nbad\r\nfilm\tCafé\t1\r\n" + "é" * 40 + "\r\n"
    path = file(content)
    for size in (1, 2, 3, 7, 1000):
        monkeypatch.setattr(lines, "_CHUNK_BYTES", size)
        log = read_clicks(path, max_bad=0.5)
        assert pairs(log) == TWO
        assert [example.split(":")[1] for example in log.bad.examples] == ["3", "5"]


def test_an_endless_line_is_not_kept_in_memory() -> None:
    class Endless(io.RawIOBase):
        given, largest = 0, 0

        def read1(self, size: int) -> bytes:
            self.given += 1
            return b"x" * size if self.given < 200 else b"\nq\t1\tt\n" if self.given == 200 else b""

    bad = BadLines()
    found = []
    for _, block in lines.stream_lines(Endless(), "endless", bad):  # type: ignore[arg-type]
        found += block
    assert found == ["", "q\t1\tt"]
    assert bad.examples == ["endless:1: longer than 10,000,000 bytes"]


@given(st.lists(st.binary(max_size=12).filter(lambda raw: b"\n" not in raw), max_size=30), st.integers(1, 9))
def test_a_block_reads_as_its_lines_do_one_by_one(raw: list[bytes], size: int) -> None:
    def read(pieces: list[bytes]) -> tuple[list[str], int]:
        stream, bad, found = io.BytesIO(b"\n".join(pieces)), BadLines(), list[str]()
        for _, block in lines.stream_lines(stream, "x", bad, "utf-8"):
            found += block
        return found, bad.count

    together, bad = read([b"-", *raw])
    alone = [read([b"-", piece]) for piece in raw]
    assert [line for line in together if line] == [
        "-",
        *(found[1] for found, _ in alone if len(found) > 1 and found[1]),
    ]
    assert bad == sum(count for _, count in alone)


ROWS = st.lists(
    st.sampled_from([b"q", b"\t", b",", b"\n", b'"', b"1", b"\r", b"\0", b"\xff", b'{"query":"a"}', b"title"])
)


@settings(max_examples=200)
@given(
    st.one_of(st.binary(max_size=60), ROWS.map(b"".join)), st.sampled_from(["a.tsv", "a.csv", "a.jsonl"]), st.booleans()
)
def test_whatever_the_bytes_the_error_is_ours(data: bytes, name: str, packed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(gzip.compress(data) if packed else data)
        for columns in (Columns(), NO_HEADER, Columns({"query": "q", "title": "query"})):
            for read in (read_clicks, read_judged, read_titles, read_texts, read_labels):
                with contextlib.suppress(ClickvecError):
                    read(path, columns=columns)
            with contextlib.suppress(ClickvecError):
                read_qrels(path, path, path, columns=columns)


def test_the_first_twenty_examples_are_kept(file: File) -> None:
    log = read_clicks(file("bad\n" * 30 + "q\tt\t1\n" * 80), max_bad=0.5, columns=NO_HEADER)
    assert (log.bad.count, len(log.bad.examples), len(log)) == (30, 20, 80)


def test_examples_are_in_the_order_of_the_file(file: File) -> None:
    content = b"q\t\t1\nq\nq\tt\xff\t1\nq\tt\t-1\nq\0\n" * 10 + b"q\tt\t1\n"
    log = read_clicks([file(content, "b.tsv"), file(content, "a.tsv")], max_bad=1.0, columns=NO_HEADER)
    assert [int(example.rsplit(".tsv:")[1].split(":")[0]) for example in log.bad.examples] == list(range(1, 21))
    assert all("b.tsv:" in example for example in log.bad.examples)
    assert log.bad.total == 102


def test_the_share_of_bad_lines_at_the_limit_is_taken(file: File) -> None:
    header = "query\ttitle\tclicks\n"
    assert len(read_clicks(file(header + "q\tt\t1\n" * 99 + "bad\n"))) == 99
    with pytest.raises(ClickvecError, match=r"2 of 100 .*2\.0%.* --max-bad 0\.01 .*:100: 1 c"):
        read_clicks(file(header + "q\tt\t1\n" * 98 + "bad\n" * 2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\r\n\n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"query\ttitle\tclicks\n", "header"),
        (b"query\tclicks\nq\t1\n", ":1: .*query, clicks.*title"),
        (b"query\ttitle\tquery\nq\tt\tq\n", ":1: .*query twice"),
        (
            b"query\ttitle\tclicks\n" + b"q,t,1\n" * 3,
            " 3 lines .*:2: 1 column, expected query, title",
        ),
        (b"PK\x03\x04xxxx", "zip"),
        (b"PAR1xxxx", "Parquet"),
        (b"\x28\xb5\x2f\xfdxxxx", "zstd"),
    ],
)
def test_files_that_hold_nothing(file: File, content: bytes, message: str) -> None:
    with pytest.raises(ClickvecError, match=message) as caught:
        read_clicks(file(content))
    assert str(caught.value).startswith(str(file(content)))


@pytest.mark.parametrize("damage", ["cut", "cut in the header", "wrong", "checksum", "tail"])
def test_damaged_gzip(file: File, damage: str) -> None:
    rows = "".join(f"query {i * i}\ttitle {i**3}\t1\n" for i in range(5000))
    packed = gzip.compress(rows.encode())
    broken = {
        "cut": packed[: len(packed) // 2],
        "cut in the header": packed[:5],
        "wrong": packed[:5000] + b"\xff" * 100 + packed[5100:],
        "checksum": packed[:-8] + b"\0" * 8,
        "tail": packed + b"rubbish",
    }[damage]
    with pytest.raises(ClickvecError, match=r"a\.tsv\.gz.*gzip"):
        read_clicks(file(broken, "a.tsv.gz"), columns=NO_HEADER)


def test_gzip_members_and_padding(file: File) -> None:
    rows = [f"query {i * i}\ttitle {'x' * i}.\t1\n" for i in range(300)]
    members = [
        gzip.compress("".join(rows[at : at + 100]).encode(), level) for at, level in ((0, 0), (100, 9), (200, 1))
    ]
    path = file(members[0] + members[1] + bytes(700) + gzip.compress(b"") + members[2] + bytes(5), "a.tsv.gz")
    assert next(iter(lines.file_lines(path, BadLines())))[1][0] == "query 0\ttitle .\t1"
    assert len(read_clicks(path, columns=NO_HEADER)) == 300


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"no\.tsv does not exist"):
        read_clicks(tmp_path / "no.tsv")
    with pytest.raises(ClickvecError, match=r"folder.*file inside"):
        read_judged(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_no_permission(file: File) -> None:
    path = file("q\tt\t1\n")
    path.chmod(0)
    with pytest.raises(ClickvecError, match=r"clicks\.tsv.*Permission denied"):
        read_clicks(path)


def test_a_read_that_fails(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = file("q\tt\t1\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ClickvecError, match=r"clicks\.tsv.*Permission denied"):
        read_clicks(path)


def test_the_first_line_may_be_the_bad_one(file: File) -> None:
    log = read_clicks(file("rubbish\nq\tt\t1\nq\tu\t2\n"), max_bad=0.5, columns=NO_HEADER)
    assert (log.titles, log.bad.count) == (["t", "u"], 1)


def plainly_read(path: Path, columns: Columns) -> tuple[list[tuple[str, str, float]], BadLines]:
    """Read a click log line by line."""
    bad, found = BadLines(), []
    source, schema = open_source(path, bad, columns), tables.LOG
    rows = [(at, line.split("\t")) for first, block in source.lines for at, line in enumerate(block, first) if line]
    header = records._find_header(source, rows[: 1 if columns.header else LOOK_AHEAD], schema)
    for number, fields in rows[header.lines :]:
        if len(fields) != len(header.names):
            bad.add(str(path), number, *records.wrong_width(len(fields), header.names))
            continue
        query, title = (fields[header.at[column]] for column in ("query", "title"))
        count = fields[header.at["clicks"]] if "clicks" in header.at else "1"
        (value,) = numbers.parse_clicks([count])
        if not (query.strip() and title.strip()) or value < 0:
            blank = "query" if not query.strip() else "title"
            allowed = numbers.ALLOWED_CLICKS
            reason = f"clicks is {allowed}" if query.strip() and title.strip() else f"blank {blank}"
            bad.add(str(path), number, reason, reason.replace("clicks is", f"clicks is {count!r},"))
        elif value:
            found.append((query, title, value))
    return found, bad


FIELDS = [
    "q",
    "t",
    " ",
    "\u3000",
    "",
    "a b",
    "é",
    "0",
    "1",
    "2.5",
    "-1",
    "x",
    "clicks",
    "query",
    "title",
    "true",
    "nan",
]
LINES = st.one_of(
    st.lists(st.sampled_from(FIELDS), max_size=4).map("\t".join),
    st.sampled_from(["q\tt\t1", "q\tt\t1\r", "q\tt\t0", "", "q\0\tt\t1", "query\ttitle\tclicks", "q\tt"]),
)


@settings(max_examples=300)
@given(
    st.sampled_from(["", "query\ttitle\tclicks", "title\tquery", "clicks\ttitle\tlang\tquery", "a\tb\tc\td\te\tlang"]),
    st.lists(LINES, max_size=12),
    st.integers(0, 120),
    st.sampled_from([1, 10, 1000]),
    st.sampled_from([Columns(), NO_HEADER, Columns({"query": "lang", "title": "B"})]),
)
def test_columns_read_as_rows_do(header: str, some: list[str], blank: int, size: int, columns: Columns) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "log.tsv"
        path.write_text("\n" * blank + "\n".join([header, *some, *some]), newline="")
        patch.setattr(lines, "_CHUNK_BYTES", size)
        try:
            expected, bad = plainly_read(path, columns)
        except ClickvecError as error:
            with pytest.raises(ClickvecError, match=re.escape(str(error))):
                read_clicks(path, columns=columns)
            return
        if not expected:
            with pytest.raises(ClickvecError):
                read_clicks(path, max_bad=1.0, columns=columns)
            return
        log = read_clicks(path, max_bad=1.0, columns=columns)
    assert pairs(log) == expected
    assert (log.bad, log.bad.examples) == (bad, bad.examples)


# --- judged sets -------------------------------------------------------------------------------------------------

JUDGED = "query_id\tquery\tdoc_id\ttitle\tgrade\n"


@pytest.mark.parametrize("header", [JUDGED, ""])
def test_judged(file: File, header: str) -> None:
    path = file(header + "1\tfilm\ta\tFilm A\t2\n2\tbook\tb\tBook\t0\n1\tfilm\tb\tFilm A\t0\n")
    first, second = judged = read_judged(path, columns=Columns(header=bool(header)))
    assert (first.query_id, first.query, first.doc_ids, first.titles) == ("1", "film", ("a", "b"), ("Film A", "Film A"))
    assert first.grades.tolist() == [2, 0]
    assert np.issubdtype(first.grades.dtype, np.integer)
    assert (len(judged), judged[1].query_id, judged.bad.total) == (2, second.query_id, 3)


def test_judged_as_csv_and_json(file: File) -> None:
    row = {"grade": 2, "query_id": 1, "query": "a, b", "doc_id": "x", "title": "T", "extra": None}
    from_json = read_judged(file(json.dumps(row), "j.jsonl"))
    from_csv = read_judged(file('title,grade,doc_id,query,query_id\nT,2,x,"a, b",1\n', "j.csv"))
    assert from_json[0][:4] == from_csv[0][:4] == ("1", "a, b", ("x",), ("T",))


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("1\tfilm\tb\tB\t1.5", "grade is '1.5', not a whole number from 0 to 50"),
        ("1\tfilm\tb\tB\t-1", "grade is '-1', not a whole number from 0 to 50"),
        ("1\tfilm\tb\tB\t", "grade is '', not a whole number from 0 to 50"),
        ("1\tfilm\tb\tB\t²", "grade is '²', not a whole number from 0 to 50"),
        ("1\tfilm\tb\tB\t100", "grade is '100', not a whole number from 0 to 50"),
        ("1\tfilm\tb\tB\t" + "9" * 5000, "grade is '9"),
        ("1\tfilm\ta\tB\t1", "doc_id a is judged twice for query_id 1"),
        ("1\tother\tb\tB\t1", "query_id 1 is 'other' here and 'film' before"),
        (" \tfilm\tb\tB\t1", "blank query_id"),
        ("1\t\tb\tB\t1", "blank query"),
        ("1\tfilm\t\tB\t1", "blank doc_id"),
        ("1\tfilm\tb\t \t1", "blank title"),
        ("1\tfilm\tb\t1", "4 columns, expected query_id, query, doc_id, title, grade"),
    ],
)
def test_bad_judgements(file: File, line: str, detail: str) -> None:
    judged = read_judged(file(JUDGED + "1\tfilm\ta\tA\t1\n" + line + "\n"), max_bad=0.5)
    assert (len(judged), judged[0].doc_ids, judged[0].titles) == (1, ("a",), ("A",))
    assert judged.bad.count == 1
    assert f":3: {detail}" in judged.bad.examples[0]


def test_qrels(file: File) -> None:
    qrels = file("q1 0 d1 2\nq1\t0  d2 -1\nq2 0 d1 1\n", "qrels.txt")
    queries, titles = (
        file("query\tquery_id\nfilm\tq1\nbook\tq2\n", "queries.tsv"),
        file("id,title\nd1,One\nd2,Two\nd3,X\n", "titles.csv"),
    )
    first, second = judged = read_qrels(qrels, queries, titles)
    assert (first.query, first.doc_ids, first.titles, first.grades.tolist()) == (
        "film",
        ("d1", "d2"),
        ("One", "Two"),
        [2, 0],
    )
    assert (second.query_id, second.query, judged.bad.count) == ("q2", "book", 0)


def test_bad_qrels(file: File) -> None:
    qrels = file("q1 0 d1 2\nq9 0 d1 1\nq1 0 d9 1\nq1 0 d1 1\nq1 0 d1\nq1 0 d2 x\n", "qrels.txt")
    queries = file("query_id\tquery\nq1\tfilm\n", "queries.tsv")
    titles = file("doc_id\ttitle\n" + "".join(f"d{i}\tTitle {i}\n" for i in range(1, 9)), "titles.tsv")
    judged = read_qrels(qrels, queries, titles, max_bad=0.9)
    assert sum(len(query.doc_ids) for query in judged) == 1
    assert [example.partition("qrels.txt:")[2] for example in judged.bad.examples] == [
        f"2: query q9 is not in {queries}",
        f"3: title d9 is not in {titles}",
        "4: doc_id d1 is judged twice for query_id q1",
        "5: 3 columns, expected query_id, 0, doc_id, grade",
        "6: grade is 'x', not a whole number from 0 to 50",
    ]
    with pytest.raises(ClickvecError, match=r"5 of 6 .*83\.3%"):  # the catalogue's lines do not thin it out
        read_qrels(qrels, queries, titles, max_bad=0.5)
    with pytest.raises(ClickvecError, match=r"queries\.tsv is empty"):
        read_qrels(qrels, file("", "queries.tsv"), titles, max_bad=0.5)


# --- titles and result lists -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.tsv", "doc_id\ttitle\nx\tA\ny\tA\n", [("x", "A", {}), ("y", "A", {})]),
        ("t.tsv", "Year\ttitle\tid\n1984\tA\tx\n", [("x", "A", {"Year": "1984"})]),
        ("t.csv", 'doc_id,title,url\nx,"A, B",http://a\n', [("x", "A, B", {"url": "http://a"})]),
        ("t.txt", "First\nSecond one\n", [("0", "First", {}), ("1", "Second one", {})]),
        ("t.txt", "title\nFirst\n\nThird\n", [("0", "First", {}), ("2", "Third", {})]),
        ("t.tsv", "x\tA\n", [("x", "A", {})]),
        ("t.tsv", "x\tA\thttp://a\n", [("x", "A", {"url": "http://a"})]),
        ("t.tsv", "tt1\tTitle\ntt2\tB\n", [("tt1", "Title", {}), ("tt2", "B", {})]),  # a film called Title: no header
        ("t.txt", "Id\nUrl\n", [("0", "Id", {}), ("1", "Url", {})]),
        ("t.jsonl", '{"id": 7, "title": "A", "tags": ["x"]}\n{"doc_id": "z", "title": "C", "id": 1}',
         [("7", "A", {"tags": ["x"]}), ("z", "C", {"id": 1})]),
    ],
)  # fmt: skip
def test_titles(file: File, name: str, content: str, expected: list[object]) -> None:
    path, columns = file(content, name), Columns(header=content.startswith(("doc_id", "Year", "title", "{")))
    titles = read_titles(path, columns=columns)
    assert list(titles) == expected
    assert (len(titles), titles[0], titles.bad.count) == (len(expected), expected[0], 0)
    assert list(stream_titles(path, BadLines(), columns=columns)) == expected
    blocks = list(stream_title_blocks(path, BadLines(), columns=columns))
    assert [title for _, some in blocks for title in some] == [entry.title for entry in titles]


TITLE_LINES = st.sampled_from(
    ["x\tA", "A", "y\tB b\tC", "\tA", "x\t ", " ", "", "\t", "\u2003", "é\r", '"q,\n', ",", "x,A"]
)


@given(
    st.sampled_from(["", "title\n", "doc_id\ttitle\n", "Year\ttitle\tid\n", "id,title\n", "id\n", "\n\ntitle\n"]),
    st.lists(TITLE_LINES, max_size=130),
    st.sampled_from(["t.txt", "t.csv"]),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([Columns(), NO_HEADER]),
)
def test_titles_alone_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, header: str, lines: list[str], name: str, max_bad: float, columns: Columns
) -> None:
    path = tmp_path_factory.getbasetemp() / f"alone-{name}"
    path.write_text(header + "\n".join(lines), newline="")

    def told(read: Callable[..., Iterable[T]]) -> tuple[list[T], tuple[object, ...]]:
        bad, found, said = BadLines(), list[T](), ""
        try:
            found.extend(read(path, bad, max_bad, columns))
        except ClickvecError as error:
            said = str(error)
        return found, (said, bad.count, bad.total, bad.headers, bad.reasons, bad.examples)

    (blocks, problems), (entries, problems_of_entries) = (
        told(stream_title_blocks), told(partial(stream_titles, ids="unused"))
    )  # fmt: skip
    assert problems == problems_of_entries
    assert [title for _, titles in blocks for title in titles] == [entry.title for entry in entries]


def test_bad_titles(file: File) -> None:
    rows = "doc_id\ttitle\nx\tA\nx\tB\n\tC\ny\t \nz\nw\tW\n"
    titles = read_titles(file(rows, "t.tsv"), max_bad=0.9)
    assert [entry.id for entry in titles] == ["x", "w"]
    assert sorted(titles.bad.reasons) == ["blank doc_id", "blank title", "id given twice", "wrong number of columns"]
    json_rows = '{"id": "x", "title": "A"}\n{"id": [1], "title": "B"}\n{"id": "y"}\n'
    titles = read_titles(file(json_rows, "t.jsonl"), max_bad=0.9)
    assert (len(titles), sorted(titles.bad.reasons)) == (1, ["id is not text", "no title"])
    with pytest.raises(ClickvecError, match="--max-bad"):
        list(stream_titles(file(rows, "t.tsv"), BadLines()))


@pytest.mark.parametrize("header", ["", "query\tid\ttitle\n", "query\tdoc_id\ttitle\r\n"])
def test_result_lists(header: str) -> None:
    stream = io.BytesIO(f"{header}q\t1\tA\nq\t2\tB\n\nr\t1\tA\nq\t3\tC\n".encode())
    lists = [(results.query, results.ids, results.titles) for results in read_result_lists(stream)]
    assert lists == [("q", ("1", "2"), ("A", "B")), ("r", ("1",), ("A",)), ("q", ("3",), ("C",))]


def test_bad_result_lines() -> None:
    bad = BadLines()
    stream = io.BytesIO(b"q\t1\tA\nq\t2\nq\t\tB\nq\t3\t\xff\nq\t4\tD\n")
    (results,) = read_result_lists(stream, bad, max_bad=0.9)
    assert (results.query, results.ids, results.titles) == ("q", ("1", "4"), ("A", "D"))
    assert (bad.count, bad.total) == (3, 5)
    assert bad.examples[0] == "standard input:2: 2 columns, expected query, id, title"
    with pytest.raises(ClickvecError, match="standard input is empty"):
        list(read_result_lists(io.BytesIO(b"")))
    late = read_result_lists(io.BytesIO(b"q\t1\tA\nbad\n"))
    assert next(late)[0] == "q"
    with pytest.raises(ClickvecError, match=r"1 of 2 .*50\.0%"):
        next(late)


def test_result_lists_come_as_they_end() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream, os.fdopen(write_end, "wb", buffering=0) as writer:
        lists = read_result_lists(stream)
        writer.write(b"q\t1\tA\nr\t1\tB\n")
        assert next(lists)[:3] == ("q", ("1",), ("A",))  # the pipe is still open


def test_zstd_is_told_by_content_and_may_hold_several_frames(file: File) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    frames = [pyarrow.compress(part, codec="zstd", asbytes=True) for part in (b"query\ttitle\nq\tt\nq2", b"\tt\n")]
    assert read_clicks(file(b"".join(frames), "a.tsv.zst")).queries == ["q", "q2"]
    assert read_clicks(file(b"".join(frames))).queries == ["q", "q2"]
    json_line = pyarrow.compress(b'{"query": "q", "title": "t"}', codec="zstd", asbytes=True)
    assert read_clicks(file(json_line, "a.jsonl.zst")).queries == ["q"]
    with pytest.raises(ClickvecError, match=r"clicks\.tsv: the zstd file is cut short or damaged"):
        read_clicks(file(frames[0][:-5]))


CSV_PARTS = st.sampled_from(["a", "b c", ",", ",", "\n", "\n", '"', '""', "\r\n", " ", "1", "é", "\0"])


@settings(max_examples=200, deadline=None)
@given(st.lists(CSV_PARTS, max_size=40).map("".join), st.integers(1, 20))
def test_csv_without_quotes_is_split_as_the_csv_module_does(text: str, size: int) -> None:
    def read() -> tuple[list[tuple[str, str, float]], list[str], int, int]:
        log = read_clicks(path, max_bad=1)
        return pairs(log), log.bad.examples, log.bad.count, log.bad.total

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "log.csv"
        path.write_bytes(f"query,title\nfirst,line\n{text}\nlast,line\n".encode())
        patch.setattr(lines, "_CHUNK_BYTES", size)
        fast = read()
        patch.setattr(csv_rows, "_is_plain", lambda _: False)
        assert read() == fast
