"""Files of some kilobytes that stand for gigabytes: read in little memory and time, or refused in one sentence."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from memory import used_by

from clickvec.data import BadLines, read_clicks, read_titles, stream_titles
from clickvec.errors import ClickvecError

READ = """
from clickvec.data import read_clicks, read_titles
from clickvec.errors import ClickvecError
for read in (read_clicks, read_titles):
    try:
        print(len(read(sys.argv[1], max_bad=1)), end=" ")
    except ClickvecError as error:
        print("refused:", str(error)[-300:], end=" ")
"""
PREPARE = """
from clickvec.cli.app import main
sys.argv[0] = "clickvec"
try:
    main()
except SystemExit as error:
    assert not error.code
"""


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:  # noqa: ANN401
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, compression="zstd", **options)
    return path


def dictionary(text: str, rows: int) -> Any:  # noqa: ANN401
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), [text])


def test_rows_that_share_a_long_text_are_read_in_little_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", {"query": ["q"] * 20_000, "title": dictionary("x" * 250_000, 20_000)})
    assert path.stat().st_size < 2_000  # 5 GB of text
    used = used_by(READ, path)
    assert used.text.startswith("20000 refused:")  # titles are stored with all their texts
    assert "has 761 bytes and stands for more than 134,217,728" in used.text
    assert used.megabytes < 400


STORE = """
from pathlib import Path
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_store import DocumentStore
store = DocumentStore.create(Path(sys.argv[1]))
print(store.add(Document(number, "t", {"text": chr(65 + number % 26) * 1_000_000}) for number in range(400)))
print(max(sum(len(one.payload["text"]) for one in block) for _, block in store.blocks(0)))
"""


def test_documents_of_any_size_are_stored_and_read_in_little_memory(tmp_path: Path) -> None:
    used = used_by(STORE, tmp_path / "documents.sqlite")
    assert used.text == "400\n17000000"
    assert used.megabytes < 250


@pytest.mark.parametrize("column", ["title", "text"])
def test_a_catalogue_that_stands_for_gigabytes_is_refused(tmp_path: Path, column: str) -> None:
    rows = 8_192
    columns = {"sku": [f"a{number}" for number in range(rows)], "title": ["t"] * rows}
    path = write(tmp_path / "catalogue.parquet", {**columns, column: dictionary("x y " * 62_500, rows)})
    used = used_by(READ.replace("(read_clicks, read_titles)", "(read_titles,)"), path)
    assert "bytes and stands for more than 134,217,728" in used.text
    assert used.megabytes < 400


def test_titles_of_more_than_ten_thousand_characters_are_bad(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.tsv"
    path.write_text(f"doc_id\ttitle\na\t{'x' * 10_000}\nb\t{'x' * 10_001}\n")
    titles = read_titles(path, max_bad=1)
    assert [title.id for title in titles] == ["a"]
    assert titles.bad.reasons == {"title longer than 10,000 characters": 1}


@pytest.mark.slow
def test_the_memory_of_prepare_holds_for_parquet(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    path = write(tmp_path / "log.parquet", {"query": ["q"] * 2_000, "title": dictionary("x" * 250_000, 2_000)})
    used = used_by(PREPARE, "prepare", path, "--out", tmp_path / "data", "--memory", "500MB")
    assert "titles 1" in used.text
    assert used.megabytes < 500


@pytest.mark.parametrize(
    ("encoding", "reason"), [("PLAIN", "has a page of 250,004,"), ("DELTA_BYTE_ARRAY", "1000 refused:")]
)
def test_pages_that_decode_to_gigabytes(tmp_path: Path, encoding: str, reason: str) -> None:
    columns = {"query": ["q"] * 1000, "title": ["x" * 250_000] * 1000}
    path = write(
        tmp_path / "log.parquet", columns, use_dictionary=False, column_encoding={"title": encoding, "query": "PLAIN"}
    )
    assert path.stat().st_size < 40_000
    used = used_by(READ, path)
    assert reason in used.text
    assert used.megabytes < 1000


def test_rows_over_the_limit_of_a_line_are_bad(tmp_path: Path) -> None:
    lists = [["z" * 2000] * 6000, ["z"], [None] * 2_000_000, None]
    columns = {"query": ["q"] * 4, "title": ["t", "t", "t", "y" * 10_000_001], "tags": lists}
    path = write(tmp_path / "log.parquet", columns)
    log = read_clicks(path, max_bad=1)
    assert (len(log), log.bad.examples) == (3, [f"{path}:4: longer than 10,000,000 bytes"])
    bad = BadLines()
    assert [title.title for title in stream_titles(path, bad, max_bad=1)] == ["t"]
    assert bad.reasons == {"longer than 10,000,000 bytes": 3}


def test_a_gzip_file_of_one_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"query\ttitle\nq\tt\n")
        for _ in range(300):
            file.write(b"x" * 1_000_000)
    used = used_by(READ, path)
    assert used.text == "1 1"
    assert used.megabytes < 250


@pytest.mark.parametrize("name", ["log.tsv", "log.csv", "log.jsonl"])
def test_a_million_columns_are_refused_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    names = [f"{number:x}" for number in range(800_000)]
    separator = "," if name.endswith("csv") else "\t"
    text = json.dumps(dict.fromkeys(names, 1)) if name.endswith("jsonl") else separator.join(names)
    path.write_text(f"{text}\n{text}\n")
    used = used_by(READ, path)
    assert used.text.count("more than 10,000") == 2
    assert used.megabytes < 700
    assert used.seconds < 15


def test_lines_of_millions_of_fields_are_bad_and_are_not_split(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("query\ttitle\nq\tt\n" + "\t" * 9_000_000 + "\n" + "a\t" * 4_000_000 + "\n")
    used = used_by(READ, path)
    assert used.text == "1 1"
    assert used.megabytes < 250


def test_quotes_that_join_lines_without_end_are_bad(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("query,title\nq,t\n" + 'x,"' + ("\n" + "y" * 1000 + '","') * 30_000)
    with pytest.raises(ClickvecError, match=r":3: not CSV: a record is longer than 10,000,000 bytes"):
        read_clicks(path)


def test_too_many_columns_of_parquet_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", {f"c{number}": [1] for number in range(10_001)})
    for read in (read_clicks, read_titles):
        with pytest.raises(ClickvecError, match="10,001 columns, more than 10,000"):
            read(path)
