"""Encodings and delimiters are told by the first lines, and said; options name them where that fails."""

import contextlib
import gzip
from pathlib import Path

import pytest
from command import run

from clickvec.data import BadLines, ClickLog, Columns, read_clicks, read_judged, read_titles
from clickvec.data.parsing.encodings import detect
from clickvec.errors import ClickvecError

ROWS = [("crème brûlée", "Crème brûlée für zwei"), ("smørrebrød", "Smørrebrød – “klassisk”"), ("hotel", "Hôtel")]
CYRILLIC = [("отель в москве", "Гостиница Москва"), ("пицца", "Пицца дома"), ("суп", "Борщ"), ("чай", "Зелёный чай")]


def table(rows: list[tuple[str, str]] = ROWS, separator: str = "\t", header: str = "query title") -> str:
    return "".join(separator.join(row) + "\r\n" for row in [tuple(header.split()), *rows])


def pairs(log: ClickLog) -> list[tuple[str, str]]:
    return list(zip(log.queries, log.titles, strict=True))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.tsv.gz"])
def test_encodings_that_are_told_by_the_first_bytes(tmp_path: Path, encoding: str, name: str) -> None:
    data = table(separator="," if "csv" in name else "\t").encode(encoding)
    data = b"\xff\xfe" + data if encoding == "utf-16-le" else data
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    log = read_clicks(tmp_path / name)
    assert pairs(log) == ROWS
    said = {"cp1252": "windows-1252", "utf-16-le": "utf-16", "utf-8-sig": None}.get(encoding, encoding)
    assert log.bad.encodings == ({str(tmp_path / name): said} if said else {})


@pytest.mark.parametrize("encoding", ["cp1251", "gb18030", "koi8-r", "utf-16-be", "cp1252", "iso2022_jp"])
def test_encodings_that_are_named(tmp_path: Path, encoding: str) -> None:
    rows = ROWS[2:] if encoding == "cp1252" else CYRILLIC[:3]
    (tmp_path / "log.tsv").write_bytes(table(rows).encode(encoding))
    assert pairs(read_clicks(tmp_path / "log.tsv", columns=Columns(encoding=encoding))) == rows
    (tmp_path / "titles.tsv").write_text("doc_id\ttitle\nd1\tCafé\n")  # a file of UTF-8 beside it stays as it is
    assert read_titles(tmp_path / "titles.tsv", columns=Columns(encoding=encoding))[0].title == "Café"


def test_two_letters_with_accents_side_by_side_are_western(tmp_path: Path) -> None:
    rows = [("größe schön", "süße Grüße"), ("fête créée", "la fée"), ("blåøjet", "Ægæisk")]
    (tmp_path / "log.tsv").write_bytes(table(rows).encode("cp1252"))
    assert pairs(read_clicks(tmp_path / "log.tsv")) == rows


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("cp1251", "отель в москве"), ("gb18030", "上海 酒店"), ("gb18030", "T恤 男"), ("shift_jis", "東京 の ホテル"),
     ("euc_kr", "서울 호텔 예약"), ("cp1253", "ξενοδοχείο"), ("cp1255", "מלון בתל אביב")],
)  # fmt: skip
def test_other_encodings_are_not_taken_for_western(encoding: str, text: str) -> None:
    head = f"query\ttitle\n{text}\t{text} {text}\n".encode(encoding)
    with contextlib.suppress(ClickvecError):  # or it is refused
        assert detect(head, "log.tsv", None) != "windows-1252"


def test_text_that_is_clearly_not_utf_8_is_refused_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_bytes(table(CYRILLIC * 5).encode("cp1251"))
    with pytest.raises(ClickvecError, match="is not UTF-8; name its encoding with --encoding, such as cp1251"):
        read_clicks(tmp_path / "log.tsv")


def test_a_file_of_utf_8_with_damaged_lines_stays_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_bytes(table().encode() + b"caf\xe9\tx\n" * 3)
    with pytest.raises(ClickvecError, match=r"byte 0xe9 at 4\. Name the encoding of the file with --encoding"):
        read_clicks(path)
    log = read_clicks(path, max_bad=1)
    assert (len(log), log.bad.reasons, log.bad.encodings) == (3, {"not UTF-8": 3}, {})


def test_bad_bytes_of_a_named_encoding_spoil_only_their_line(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_bytes("query\ttitle\né\tä\n".encode("cp1252") + b"a\tb\x81\n" + "ü\tö\n".encode("cp1252"))
    log = read_clicks(path, max_bad=1, columns=Columns(encoding="cp1252"))
    assert pairs(log) == [("é", "ä"), ("ü", "ö")]
    assert log.bad.examples == [f"{path}:3: not cp1252"]
    path.write_bytes("query\ttitle\né\tä\n".encode("utf-16") + b"\x00\xd8" + "a\tb\n".encode("utf-16-le") + b"c")
    assert pairs(read_clicks(path, max_bad=1)) == [("é", "ä")]


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.txt"])
def test_delimiters_are_told_by_the_header(tmp_path: Path, separator: str, name: str) -> None:
    path = tmp_path / name
    rows = [("a", '"b; c, d | e"'), ("x", "y")] if separator != "\t" or name.endswith("csv") else [("a", "b; c, d | e")]
    for header in ("query title", "search_term product_name", "suchbegriff titel"):
        path.write_text(table(rows, separator, header))
        columns = {"query": "suchbegriff", "title": "titel"} if "titel" in header else {}
        log = read_clicks(path, columns=columns)
        assert log.titles[0] == "b; c, d | e"
        usual = "," if name.endswith("csv") else "\t"
        assert log.bad.delimiters == ({} if separator == usual else {str(path): separator})


def test_a_text_with_another_delimiter_is_one_column(tmp_path: Path) -> None:
    path = tmp_path / "titles.tsv"
    path.write_text("title\nHotel, bar; spa\nPub, open\n")
    assert [title.title for title in read_titles(path)] == ["Hotel, bar; spa", "Pub, open"]
    path.write_text("query, as typed\ttitle\na\tb\n")
    assert len(read_clicks(path, columns={"query": "query, as typed"})) == 1


def test_a_delimiter_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("query:title\na:b\n")
    assert pairs(read_clicks(path, columns=Columns(delimiter=":"))) == [("a", "b")]
    path.write_text("a:b\nc:d\n")
    assert pairs(read_clicks(path, columns=Columns(header=False, delimiter=":"))) == [("a", "b"), ("c", "d")]
    judged = tmp_path / "judged.txt"
    judged.write_text("query_id;query;doc_id;title;grade\n1;q;d;t;2\n")
    assert read_judged(judged)[0].titles == ("t",)
    columns = Columns(delimiter="#")
    read_judged(judged, columns=columns)
    with pytest.raises(ClickvecError, match="--delimiter '#' is in the first line of no file"):
        columns.check_used()


@pytest.mark.parametrize(
    "options", [{"delimiter": ";;"}, {"delimiter": '"'}, {"encoding": "nope"}, {"encoding": "hex"}]
)
def test_options_that_name_nothing(options: dict[str, str]) -> None:
    with pytest.raises(ClickvecError):
        Columns(**options)  # type: ignore[arg-type]


def test_the_command_line_says_how_files_were_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(table(ROWS * 10, ";").encode("cp1252"))
    done = run("prepare", path, "--out", tmp_path / "data", "--delimiter", ";", "--encoding", "cp1252")
    assert done.status == 0, done.err
    done = run("prepare", path, "--out", tmp_path / "data2")
    assert "read as windows-1252; --encoding NAME changes this" in done.err
    assert "columns are separated by ;" in done.err
    assert run("prepare", path, "--out", tmp_path / "data3", "--encoding", "nope").status != 0


def test_what_was_told_is_known_to_the_caller() -> None:
    bad, other = BadLines(), BadLines(encodings={"a": "utf-16"}, delimiters={"a": ";"})
    bad.merge(other)
    assert (bad.encodings, bad.delimiters) == ({"a": "utf-16"}, {"a": ";"})
