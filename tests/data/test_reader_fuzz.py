"""Whatever the bytes of a log: only our own error is raised, and every line is kept, left out for a reason, or bad."""

import contextlib
import gzip
import io
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickvec.data import BadLines, Columns, read_clicks, read_events
from clickvec.errors import ClickvecError

QUERIES = ["pizza", "hotel in 上海", "", "a b", '5" disk', "x,y", "café", " "]
CATALOGUE = "doc_id\turl\ttitle\n" + "".join(f"D{n}\thttp://{n}\tTitle {n}\n" for n in range(5))
QUERY_TEXTS = "query_id\tquery\n" + "".join(f"{n}\tquery {n}\n" for n in range(5))
TIMES = ["2024-02-29 12:00:00", "1709208000", "2024-02-29T12:00:00.5Z", "soon", "", "2024-02-30 00:00:00"]
NUMBERS = ["1", "0", "2.5", "-1", "x", "", "10"]


def line(rng: random.Random, layout: str) -> list[str]:
    query, title, number = rng.choice(QUERIES), rng.choice(QUERIES), rng.choice(NUMBERS)
    doc, time, client = f"D{rng.randrange(7)}", rng.choice(TIMES), rng.choice(["u1", "u2", ""])
    return {
        "pairs": [query, title, number],
        "impressions": [time, client, query, title, rng.choice(NUMBERS), rng.choice(["0", "1", "true"])],
        "ids": [query, doc, number],
        "orcas": [str(rng.randrange(99)), query, doc, f"http://{doc}"],
        "aol": [client, query, time, number, rng.choice(["", f"http://{rng.randrange(7)}"])],
        "qrels": [str(rng.randrange(7)), "0", doc, rng.choice(["0", "1", "2", "x", "-1"])],
        "beir": [str(rng.randrange(7)), doc, rng.choice(["0", "1", "2", "x"])],
    }[layout]


HEADERS = {
    "pairs": "query title clicks",
    "impressions": "time client query title position clicked",
    "ids": "search_term sku count",
    "orcas": "",
    "aol": "AnonID Query QueryTime ItemRank ClickURL",
    "qrels": "",
    "beir": "query-id corpus-id score",
}


def text_of(rng: random.Random, layout: str, form: str) -> bytes:
    """Return a file of a layout; some of its lines are bad."""
    names, rows = HEADERS[layout].split(), [line(rng, layout) for _ in range(rng.randrange(30))]
    if form == "jsonl":
        objects = [dict(zip(names or ["query", "title", "clicks"], row, strict=False)) for row in rows]
        return "".join(json.dumps(value, ensure_ascii=rng.random() < 0.5) + "\n" for value in objects).encode()
    between = "," if form == "csv" else "\t"
    if form == "csv":
        quoted = [['"' + field.replace('"', '""') + '"' for field in row] for row in rows]
        rows = quoted if rng.random() < 0.5 else rows
    lines = [between.join(row) for row in ([names] if names else []) + rows]
    return ("\r\n" if rng.random() < 0.3 else "\n").join(lines).encode()


def ubi_of(rng: random.Random, events: bool) -> bytes:
    values: list[object] = []
    for _ in range(rng.randrange(20)):
        query_id = rng.choice(["q1", "q2", "q3", None, ""])
        if events:
            target = rng.choice([{"object_id": f"D{rng.randrange(7)}", "name": "A name"}, {}, None, [1], "x"])
            where = rng.choice([{"ordinal": rng.choice([0, 1, 2, "x", None, 3.5])}, {}, None])
            values.append({
                "action_name": rng.choice(["click", "impression", "search", None]), "query_id": query_id,
                "timestamp": rng.choice(TIMES), "event_attributes": {"object": target, "position": where},
            })  # fmt: skip
        else:
            hits = rng.choice([["D1", "D2"], [], None, "D1, D3", "[1, ", [None, 7, {}], {"a": 1}])
            values.append({
                "query_id": query_id, "user_query": rng.choice([*QUERIES, None]), "client_id": rng.choice(["c", None]),
                "timestamp": rng.choice(TIMES), "query_response_hit_ids": hits,
            })  # fmt: skip
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Change, cut, repeat or mix in some bytes, or leave the file whole."""
    kind = rng.randrange(6)
    if kind == 0 or not data:
        return data
    at = rng.randrange(len(data))
    noise = bytes(rng.choice(b'\0\xff\xfe\t,\n\r"{}[]: aA1\xc3\xa9\\') for _ in range(rng.randrange(1, 12)))
    return {
        1: data[:at],
        2: data[:at] + noise + data[at:],
        3: data[:at] + noise + data[at + len(noise) :],
        4: data[at:] + data[:at],
        5: data + noise,
    }[kind]


def packed(rng: random.Random, data: bytes) -> bytes:
    kind = rng.randrange(4)
    if kind == 1:
        data = gzip.compress(data, mtime=0)
    elif kind == 2:
        with contextlib.suppress(ImportError):
            import pyarrow

            data = pyarrow.compress(data, codec="zstd", asbytes=True)
    return data if kind == 0 or rng.random() < 0.8 else damaged(rng, data)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "catalogue.tsv").write_text(CATALOGUE)
        (place / "queries.tsv").write_text(QUERY_TEXTS)
        yield place


def check(path: Path, columns: Columns, by_lines: bool = True) -> tuple[int, BadLines] | None:
    """Read a log. Return how many lines were kept; None if it was refused as a whole."""
    bad, texts = BadLines(), {"catalogue": path.parent / "catalogue.tsv", "queries": path.parent / "queries.tsv"}
    try:
        kept = sum(len(events.queries) for events in read_events(path, columns, bad=bad, **texts))
    except ClickvecError:
        return None
    assert bad.count == bad.reasons.total()
    assert 0 <= bad.count <= bad.total
    if by_lines:
        assert kept + bad.count + bad.unused.total() == bad.total
    with contextlib.suppress(ClickvecError):
        read_clicks(path, max_bad=1, columns=columns, **texts)
    return kept, bad


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(list(HEADERS)), st.sampled_from(["tsv", "csv", "jsonl"]))
def test_every_line_is_kept_left_out_or_bad(seed: int, layout: str, form: str) -> None:
    rng = random.Random(seed)
    with folder() as place:
        path = place / f"log.{form}"
        path.write_bytes(packed(rng, damaged(rng, text_of(rng, layout, form))))
        for columns in (Columns(), Columns(header=False)):
            check(path, columns)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_all_lines_of_a_whole_file_are_counted(seed: int) -> None:
    rng = random.Random(seed)
    layout = rng.choice(["pairs", "impressions", "ids", "aol", "beir"])
    with folder() as place:
        path = place / "log.tsv"
        data = text_of(rng, layout, "tsv")
        path.write_bytes(data)
        found = check(path, Columns())
        lines = [raw for raw in data.replace(b"\r\n", b"\n").split(b"\n")[1:] if raw]
        assert found is not None
        assert found[1].total == len(lines)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_ubi_never_crashes(seed: int) -> None:
    rng = random.Random(seed)
    with folder() as place:
        (place / "logs").mkdir()
        for name, events in (("queries.jsonl", False), ("events.jsonl", True)):
            (place / "logs" / name).write_bytes(packed(rng, damaged(rng, ubi_of(rng, events))))
        with contextlib.suppress(ClickvecError):
            read_clicks(place / "logs", max_bad=1, catalogue=place / "catalogue.tsv")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(["log.tsv", "log.csv", "log.jsonl", "log.parquet"]))
def test_random_bytes(data: bytes, name: str) -> None:
    with folder() as place:
        (place / name).write_bytes(data)
        check(place / name, Columns())
        check(place / name, Columns(header=False))


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_damaged_parquet(compression: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [
        {"query": f"q{n}", "title": None if n % 9 == 0 else f"t{n}", "clicks": n % 3, "time": n, "inner": {"a": [n]}}
        for n in range(100)
    ]
    whole = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), whole, compression=compression, row_group_size=30)
    rng, read = random.Random(compression), 0
    with folder() as place:
        path = place / "log.parquet"
        for _ in range(100):
            data = bytearray(whole.getvalue())
            for _ in range(rng.choice([0, 1, 2, 8])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data if rng.random() < 0.9 else data[: rng.randrange(len(data))])
            read += check(path, Columns()) is not None
    assert read > 10


def test_a_whole_file_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from clickvec.data.parsing import lines

    rng = random.Random(7)
    with folder() as place:
        for layout in HEADERS:
            for form in ("tsv", "csv", "jsonl"):
                path = place / f"log.{form}"
                path.write_bytes(text_of(rng, layout, form))
                found = []
                for size in (1, 7, 1 << 20):
                    monkeypatch.setattr(lines, "_CHUNK_BYTES", size)
                    result = check(path, Columns())
                    found.append(result and (result[0], result[1].count, result[1].total, dict(result[1].unused)))
                assert found[0] == found[1] == found[2]
