"""prepare reads the same data from any format and source, joins ids, and says what it leaves out."""

import gzip
import json
from pathlib import Path

import pytest
from command import ok, refused, run, wrong_usage

PAIRS = [
    ("pizza near me", "Pizza Margherita", 2),
    ("hotel in 上海", "Hotel Shanghai", 1),
    ("pizza near me", "Hotel Shanghai", 0),
    ("café, open", 'Café "Central"', 3),
]
NAMES = ("search_term", "product_name", "count")


def rows_as(form: str) -> bytes:
    if form == "jsonl":
        return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in PAIRS).encode()
    if form == "csv":
        quoted = [['"' + str(cell).replace('"', '""') + '"' for cell in row] for row in (NAMES, *PAIRS)]
        return "".join(",".join(row) + "\n" for row in quoted).encode()
    return "".join("\t".join(map(str, row)) + "\n" for row in (NAMES, *PAIRS)).encode()


def arrays(folder: Path) -> bytes:
    return (folder / "data.safetensors").read_bytes() + (folder / "trigrams.txt").read_bytes()


def test_every_format_gives_the_same_data(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for form in ("tsv", "csv", "jsonl"):
        (tmp_path / f"log.{form}").write_bytes(rows_as(form))
    (tmp_path / "log.tsv.gz").write_bytes(gzip.compress(rows_as("tsv")))
    (tmp_path / "log.csv.zst").write_bytes(pyarrow.compress(rows_as("csv"), codec="zstd", asbytes=True))
    rows = [dict(zip(NAMES, row, strict=True)) for row in PAIRS]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "log.parquet")
    ok("prepare", tmp_path / "log.tsv", "--out", tmp_path / "data")
    expected = arrays(tmp_path / "data")
    for name in ("log.csv", "log.jsonl", "log.tsv.gz", "log.csv.zst", "log.parquet", "log.ts*v"):
        facts = json.loads(ok("prepare", tmp_path / name, "--out", tmp_path / "data", "--overwrite", "--json"))
        assert (facts["pairs"], facts["shown"]) == (3, 1)
        assert arrays(tmp_path / "data") == expected, name
    ok("prepare", "-", "--out", tmp_path / "data", "--overwrite", stdin=rows_as("jsonl"))
    assert arrays(tmp_path / "data") == expected


def test_ids_are_joined_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    log, catalogue = tmp_path / "log.tsv", tmp_path / "products.csv"
    log.write_text("query\tsku\npizza\tp1\nhotel\tp2\npasta\tp9\n")
    catalogue.write_text("sku,name\np1,Pizza\np2,Hotel\n")
    call = ("prepare", log, "--out", tmp_path / "data", "--overwrite")
    assert "--catalogue" in refused(*call)
    done = run(*call, "--catalogue", catalogue)
    assert done.status == 0
    assert "Left out 1 (document id not in" in done.err
    assert "log.tsv:4: document id 'p9' is not in" in done.err
    assert "products.csv does not exist" in refused(*call, "--catalogue", tmp_path / "x" / "products.csv")
    assert "standard input" in wrong_usage("prepare", "-", "--catalogue", "-", "--out", tmp_path / "new")
    assert "which this command reads" in refused("prepare", log, "--catalogue", catalogue, "--out", catalogue)


def test_a_folder_that_holds_no_log(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert "holds no log file" in refused("prepare", tmp_path / "logs", "--out", tmp_path / "data")
    assert "no file matches" in refused("prepare", tmp_path / "logs" / "*.tsv", "--out", tmp_path / "data")
    assert not (tmp_path / "data").exists()
