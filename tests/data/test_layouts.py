"""Logs of each layout that is recognised by its columns, and logs of ids that are joined to a catalogue."""

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from clickvec.data import BadLines, ClickLog, Columns, read_clicks, read_events, read_judged, read_titles
from clickvec.errors import ClickvecError
from clickvec.lab.claims.topic_labels import read_labels

File = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def pairs(log: ClickLog | None) -> list[tuple[str, str, float]]:
    return [] if log is None else list(zip(log.queries, log.titles, log.clicks.tolist(), strict=True))


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_parquet(path: Path, rows: Sequence[dict[str, Any]], **options: Any) -> Path:  # noqa: ANN401
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path, **options)
    return path


# --- ids joined to a catalogue -----------------------------------------------------------------------------------

CATALOGUE = "sku,price,name\np1,3,Pizza Margherita\np2,4,Hotel Shanghai\n"


@pytest.mark.parametrize(
    "content",
    [
        "search_term\tsku\tcount\npizza\tp1\t2\nhotel\tp2\t1\npasta\tp9\t1\n",
        "q\tsku\tn\npizza\tp1\t2\nhotel\tp2\t1\npasta\tp9\t1\n",
    ],
)
def test_ids_are_joined_and_the_others_counted(file: File, content: str) -> None:
    log = read_clicks(file("log.tsv", content), catalogue=file("products.csv", CATALOGUE))
    assert pairs(log) == [("pizza", "Pizza Margherita", 2.0), ("hotel", "Hotel Shanghai", 1.0)]
    assert (log.bad.count, log.bad.total, log.bad.unused.total()) == (0, 3, 1)
    (example,) = log.bad.unused_examples.values()
    assert "log.tsv:4: document id 'p9' is not in" in example
    assert "products.csv" in example


def test_a_line_without_an_id_is_a_query_without_a_click(file: File) -> None:
    log = file("log.csv", "query,sku\npizza,p1\npasta,\n,p1\n")
    found = read_clicks(log, max_bad=0.4, catalogue=file("products.csv", CATALOGUE))
    assert (found.queries, found.bad.unused) == (["pizza"], {"query without a click": 1})
    assert found.bad.examples == [f"{log}:4: blank query"]


def test_a_log_of_ids_needs_a_catalogue(file: File) -> None:
    path = file("log.tsv", "query\tsku\npizza\tp1\n")
    with pytest.raises(ClickvecError, match=r"log\.tsv has the ids of titles.*--catalogue.*--columns title=COLUMN"):
        read_clicks(path)
    assert pairs(read_clicks(path, columns={"title": "sku"})) == [("pizza", "p1", 1.0)]
    with pytest.raises(ClickvecError, match=r"its only line is not a pair.*:2: document id 'p1' is not in"):
        read_clicks(path, catalogue=file("c.tsv", "id\ttitle\nx\tX\n"))


def test_a_title_in_the_log_goes_before_the_catalogue(file: File) -> None:
    log = read_clicks(
        file("log.tsv", "query\tdoc_id\ttitle\na\t1\tOwn\n"), catalogue=file("c.tsv", "id\ttitle\n1\tX\n")
    )
    assert log.titles == ["Own"]


def test_urls_are_joined_to_the_urls_of_the_catalogue(file: File) -> None:
    catalogue = file("c.tsv", "doc_id\turl\ttitle\n7\thttp://a\tSite A\n")
    assert read_clicks(file("log.tsv", "query\turl\nq\thttp://a\n"), catalogue=catalogue).titles == ["Site A"]
    assert read_clicks(file("log.tsv", "query\tdoc_id\nq\t7\n"), catalogue=catalogue).titles == ["Site A"]
    by_id = file("d.tsv", "doc_id\ttitle\nhttp://a\tSite A\n")
    assert read_clicks(file("log.tsv", "query\turl\nq\thttp://a\n"), catalogue=by_id).titles == ["Site A"]


def test_query_ids_are_joined_too(file: File) -> None:
    log = file("log.tsv", "qid\tdoc_id\tclicks\n1\ta\t2\n2\ta\t1\n")
    queries, catalogue = file("q.tsv", "query_id\tquery\n1\tpizza\n"), file("c.tsv", "doc_id\ttitle\na\tA\n")
    assert pairs(read_clicks(log, queries=queries, catalogue=catalogue)) == [("pizza", "A", 2.0)]
    with pytest.raises(ClickvecError, match=r"ids of queries.*--queries"):
        read_clicks(log, catalogue=catalogue)


def test_a_bad_catalogue_is_refused(file: File) -> None:
    log = file("log.tsv", "query\tdoc_id\nq\ta\n")
    for content, said in [
        ("", r"c\.tsv is empty"),
        ("doc_id\ttitle\nbad\n", r"c\.tsv: its only line is not.*c\.tsv:2: 1 column"),
        ("doc_id\ttitle\na\tA\n" + "bad\n" * 9, r"c\.tsv: 9 of 10 lines \(90\.0%\) are bad"),
        ("sku\tasin\ttitle\n1\t2\tA\n", r"c\.tsv:1: the doc_id may be sku or asin; choose with --columns doc_id=sku"),
    ]:
        with pytest.raises(ClickvecError, match=said):
            read_clicks(log, catalogue=file("c.tsv", content))
    log_with_few = read_clicks(log, max_bad=0.5, catalogue=file("c.tsv", "doc_id\ttitle\na\tA\nbad\n"))
    assert log_with_few.bad.others[0].examples[0].endswith("c.tsv:3: 1 column, expected doc_id, title")


def test_an_id_with_two_titles_is_a_bad_line_of_the_catalogue(file: File) -> None:
    log = file("log.tsv", "query\tdoc_id\nq\ta\nr\tb\n")
    catalogue = file("c.tsv", "doc_id\ttitle\na\tA\na\tA\nb\tB\na\tother\n")
    with pytest.raises(ClickvecError, match=r"1 of 4 lines \(25.0%\) is bad.*c.tsv:5: id a is given twice"):
        read_clicks(log, catalogue=catalogue)
    assert pairs(read_clicks(log, max_bad=0.5, catalogue=catalogue)) == [("q", "A", 1), ("r", "B", 1)]


def test_a_thousand_clicks_with_a_point_are_not_one(file: File) -> None:
    text = "query;title;clicks\nq;A;1.000\nr;B;2\ns;C;0.5\n"
    with pytest.raises(ClickvecError, match=r"log.csv:2: clicks is '1.000', which is 1000 or 1; write 1000"):
        read_clicks(file("log.csv", text))
    assert pairs(read_clicks(file("log.tsv", text.replace(";", "\t"))))[0] == ("q", "A", 1)


def test_truth_is_no_number_as_an_id(file: File) -> None:
    rows = [{"id": True, "title": "Hammer"}, {"id": 1, "title": "Zange"}]
    assert [title.id for title in read_titles(file("c.jsonl", json_lines(rows)))] == ["true", "1"]
    log = read_clicks(file("log.jsonl", json_lines([{"query": "q", "title": "A", "clicked": True}])))
    assert pairs(log) == [("q", "A", 1)]


def test_times_without_signs_between_their_parts(file: File) -> None:
    for stamp in ("20240301100000", "202403011000", "1709287200000", "1709287200000000"):
        log = read_clicks(file("log.tsv", f"query\ttitle\ttime\nq\tA\t{stamp}\n"))
        assert log.times is not None
        assert log.times.tolist() == [1_709_287_200]


# --- usual names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "Search Term,productName,Click Count,sessionID,timestamp,rank",
        "keywords,name,n,user_id,query_time,item_rank",
        "q,product-title,count,Anon.ID,date,pos",
    ],
)
def test_columns_are_found_by_their_usual_names(file: File, header: str) -> None:
    log = read_clicks(file("log.csv", f"{header}\npizza,Pizza,2,u1,2024-02-29T12:00:00Z,3\n"))
    assert pairs(log) == [("pizza", "Pizza", 2.0)]
    assert log.clients == ["u1"]
    assert log.times is not None
    assert log.positions is not None
    assert (log.times.tolist(), log.positions.tolist()) == ([1709208000], [3])


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("q,keywords,title", r":1: the query may be q or keywords; choose with --columns query=q$"),
        ("query,name,product_name,item_name", r"the title may be name, product_name or item_name; choose"),
        ("query,title,query_time,click_time", r"time may be query_time or click_time.*--columns time=-$"),
        ("query,title,count,n", r"clicks may be count or n"),
        ("query,sku,asin", r"doc_id may be sku or asin"),
    ],
)
def test_an_ambiguous_header_is_refused(file: File, header: str, said: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    with pytest.raises(ClickvecError, match=said):
        read_clicks(file("log.csv", f"{header}\n{row}\n"), catalogue=file("c.tsv", "doc_id\ttitle\n1\tA\n"))
    values = dict.fromkeys(header.split(","), "1")
    with pytest.raises(ClickvecError, match=said):
        read_clicks(file("log.jsonl", json.dumps(values)), catalogue=file("c.tsv", "doc_id\ttitle\n1\tA\n"))


def test_our_name_goes_before_a_usual_one_and_better_ones_before_others(file: File) -> None:
    log = read_clicks(file("log.csv", "name,title,q,query,user_id,session_id,date,ts\nn,t,x,a,u,s,2024-01-01,5\n"))
    assert (pairs(log), log.clients) == ([("a", "t", 1.0)], ["u"])
    assert log.times is not None
    assert log.times.tolist() == [5]


def test_a_column_that_is_not_to_be_read(file: File) -> None:
    path = file("log.csv", "query,title,date\na,b,last week\n")
    with pytest.raises(ClickvecError, match=r"log\.csv:2: time is 'last week', neither ISO 8601"):
        read_clicks(path)
    columns = Columns.parse(["time=-"])
    assert read_clicks(path, columns=columns).times is None
    columns.check_used()


# --- times and positions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-02-29 12:00:00", 1709208000),
        ("2024-02-29T12:00:00", 1709208000),
        ("2024-02-29T12:00:00Z", 1709208000),
        ("2024-02-29T13:00:00+01:00", 1709208000),
        ("2024-02-29T12:00:00.789Z", 1709208000),
        ("2024-02-29", 1709164800),
        ("20240229", 1709164800),
        ("1709208000", 1709208000),
        ("1709208000.5", 1709208000),
        ("1709208000123", 1709208000),
        ("1969-12-31 23:59:59", -1),
        ("0", 0),
        ("yesterday", None),
        ("2024-02-30 12:00:00", None),
        ("2024-13-01", None),
        ("NaT", None),
        ("nan", None),
        ("1e400", None),
        ("1_0", None),
        ("-5", None),
        ("9" * 30, None),
        ("", None),
        ("١", None),
    ],
)
def test_times(file: File, text: str, seconds: int | None) -> None:
    path = file("log.tsv", f"query\ttitle\ttime\nq\tt\t1709208000\nq\tu\t{text}\n")
    for content in (path.read_text(), path.read_text().replace("1709208000\n", "2024-01-01 00:00:00\n", 1)):
        log = read_clicks(file("log.tsv", content), max_bad=0.5)
        assert log.times is not None
        if seconds is None:
            assert len(log) == 1
            assert log.bad.examples[0].startswith(f"{path}:3: time is {text!r}, neither ISO 8601")
        else:
            assert log.times[1] == seconds
    alone = read_clicks(file("log.tsv", "query\ttitle\ttime\nq\tt\t5\n" + f"q\tu\t{text}\n" * 2), max_bad=0.7)
    assert len(alone) == (1 if seconds is None else 3)


def test_times_of_one_format_are_read_as_one_by_one() -> None:
    from clickvec.data.parsing.numbers import parse_times

    for texts in (
        ["2024-02-29 12:00:00", "1999-12-31T23:59:59"],
        ["2024-02-29T12:00:00Z", "1970-01-01T00:00:00Z"],
        ["1709208000", "999999999"],
        ["1709208000123", "170920800012"],
        ["2024-02-29 12:00:00", "2024-02-29 25:00:00"],
        ["2024-02-29 12:00:0x", "2024-02-29 12:00:00"],
    ):
        assert parse_times(texts).tolist() == [int(parse_times([text, "x"])[0]) for text in texts]


def test_positions(file: File) -> None:
    rows = "".join(f"q\tt\t{text}\n" for text in ("1", " 7 ", "2.0", "", "0", "-1", "x", "1.5", "9999999999"))
    log = read_clicks(file("log.tsv", "query\ttitle\tposition\n" + rows), max_bad=0.6)
    assert log.positions is not None
    assert log.positions.tolist() == [1, 7, 2, 0]
    assert [example.partition(".tsv:")[2][:1] for example in log.bad.examples] == ["6", "7", "8", "9", "1"]
    assert "position is '0', not a whole number from 1 to 1,000,000,000" in log.bad.examples[0]


def test_files_with_other_columns_in_one_log(file: File) -> None:
    log = read_clicks([
        file("a.tsv", "query\ttitle\tclient\ttime\tposition\na\tA\tu\t5\t1\n"),
        file("b.tsv", "query\ttitle\nb\tB\n"),
    ])  # fmt: skip
    assert (log.queries, log.clients, log.times) == (["a", "b"], ["u", ""], None)
    assert log.positions is not None
    assert log.positions.tolist() == [1, 0]


# --- OpenSearch UBI ----------------------------------------------------------------------------------------------

UBI_QUERIES = [
    {
        "application": "shop", "query_id": "q1", "client_id": "c1", "user_query": "toner", "object_id_field": "sku",
        "query": '{"query":{"match":{"name":"toner"}}}', "query_attributes": {"experiment": "x"},
        "timestamp": "2024-05-16T12:34:56.789Z", "query_response_id": "r1",
        "query_response_hit_ids": ["p1", "p2", "p3"],
    },
    {
        "application": "shop", "query_id": "q2", "client_id": "c2", "user_query": "laptop", "query_attributes": {},
        "timestamp": "2024-05-17T00:00:00.000Z", "query_response_id": "r2", "query_response_hit_ids": [],
    },
    {
        "application": "shop", "query_id": "q3", "client_id": "c2", "user_query": "", "query_attributes": {},
        "timestamp": "2024-05-17T00:00:00.000Z", "query_response_id": "r3", "query_response_hit_ids": ["p1"],
    },
]  # fmt: skip


def ubi_event(
    action: str, query_id: str | None, object_id: str | None, ordinal: int | None, name: str
) -> dict[str, Any]:
    position = {} if ordinal is None else {"ordinal": ordinal}
    target = {"object_id": object_id, "object_id_field": "sku", "name": name, "description": f"About {name}"}
    return {
        "application": "shop", "action_name": action, "query_id": query_id, "session_id": "s1", "client_id": "c1",
        "timestamp": "2024-05-16T12:35:00.000Z", "message_type": "INFO", "message": "...",
        "event_attributes": {"position": position, "object": target if object_id else {}},
    }  # fmt: skip


UBI_EVENTS = [
    ubi_event("page_exit", None, None, None, ""),
    ubi_event("click", "q1", "p2", 2, "Toner Black"),
    ubi_event("click", "q1", "p2", 2, "Toner Black"),
    ubi_event("add_to_cart", "q1", "p2", 2, "Toner Black"),
    ubi_event("click", "q2", "p7", 5, "Laptop"),
    ubi_event("impression", "q2", "p8", 6, "Other Laptop"),
    ubi_event("click", "q9", "p1", 1, "Toner Red"),
    ubi_event("click", None, "p1", 1, "Toner Red"),
]
UBI_CLICKED = [("toner", "Toner Black", 2.0), ("laptop", "Laptop", 1.0)]
UBI_SHOWN = [("toner", "Toner Red", 0.0), ("laptop", "Other Laptop", 0.0)]


def flattened(row: dict[str, Any], names: Sequence[str]) -> str:
    fields = []
    for name in names:
        cell: Any = row
        for part in name.split("."):
            cell = cell.get(part) if isinstance(cell, dict) else None
        text = "" if cell is None else json.dumps(cell) if isinstance(cell, list) else str(cell)
        fields.append('"' + text.replace('"', '""') + '"')
    return ",".join(fields) + "\n"


def ubi_files(form: str, folder: Path) -> list[Path]:
    files = [folder / f"ubi_queries.{form}", folder / f"ubi_events.{form}"]
    for path, rows in zip(files, (UBI_QUERIES, UBI_EVENTS), strict=True):
        if form == "parquet":
            no_empty_struct = [{**row, "query_attributes": None} if "query_attributes" in row else row for row in rows]
            write_parquet(path, no_empty_struct)
        elif form == "csv":
            inner = ("event_attributes.object.object_id", "event_attributes.object.name",
                     "event_attributes.position.ordinal")  # fmt: skip
            names = [*(n for n in rows[0] if not n.endswith("attributes")), *(inner if path == files[1] else ())]
            path.write_text(",".join(names) + "\n" + "".join(flattened(row, names) for row in rows))
        elif form == "hits.jsonl":
            path.write_text(json_lines([{"_index": "ubi", "_id": "1", "_score": 1, "_source": row} for row in rows]))
        else:
            path.write_text(json_lines(rows))
    return files


@pytest.mark.parametrize("form", ["jsonl", "hits.jsonl", "csv", "parquet"])
@pytest.mark.parametrize("turned", [False, True])
def test_ubi(tmp_path: Path, form: str, turned: bool) -> None:
    files = ubi_files(form, tmp_path)
    log = read_clicks(files[::-1] if turned else files)
    assert pairs(log) == UBI_CLICKED
    assert pairs(log.shown) == UBI_SHOWN
    assert log.times is not None
    assert log.positions is not None
    assert (log.clients, log.times.tolist(), log.positions.tolist()) == (["c1", "c2"], [1715862896, 1715904000], [2, 5])
    assert (log.bad.count, log.bad.total) == (0, 11)
    assert log.bad.unused == {
        "another action than a click or an impression": 2,
        "a click or an impression without query_id or object_id": 1,
        "query_id without a query": 1,
        "query without a text": 1,
        "document id not in the events": 1,
    }


def test_ubi_with_a_catalogue_and_as_a_folder(tmp_path: Path, file: File) -> None:
    ubi_files("jsonl", tmp_path / "ubi" if (tmp_path / "ubi").mkdir() is None else tmp_path)
    catalogue = file("products.jsonl", json_lines([{"sku": "p2", "name": "Second"}, {"sku": "p3", "name": "Third"}]))
    log = read_clicks(tmp_path / "ubi", catalogue=catalogue)
    assert pairs(log) == [("toner", "Second", 2.0), ("laptop", "Laptop", 1.0)]
    assert pairs(log.shown) == [("toner", "Toner Red", 0.0), ("toner", "Third", 0.0), ("laptop", "Other Laptop", 0.0)]


def test_ubi_with_two_pages_of_one_query_and_titles_that_are_no_hits(file: File) -> None:
    page = {"query_id": "q1", "user_query": "toner", "client_id": None, "query_response_hit_ids": ["p1"]}
    events = [
        ubi_event("impression", "q1", "p9", 9, "Nine"),
        ubi_event("click", "q1", "p2", 2, "Two"),
        ubi_event("impression", "q1", "p1", 1, "One"),
        ubi_event("click", "q1", "p9", 9, "Nine"),
    ]
    queries = file("q.jsonl", json_lines([page, {**page, "query_response_hit_ids": ["p2", "p1"]}]))
    log = read_clicks([queries, file("e.jsonl", json_lines(events))])
    assert pairs(log) == [("toner", "Two", 1.0), ("toner", "Nine", 1.0)]
    assert pairs(log.shown) == [("toner", "One", 0.0), ("toner", "One", 0.0)]
    assert log.positions is not None
    assert (log.clients, log.times, log.positions.tolist()) == (None, None, [1, 9])


def test_ubi_that_cannot_be_joined(tmp_path: Path, file: File) -> None:
    queries, events = ubi_files("jsonl", tmp_path)
    with pytest.raises(ClickvecError, match=r"ubi_events\.jsonl holds events of UBI; give the file of their queries"):
        read_clicks(events)
    with pytest.raises(ClickvecError, match=r"ubi_queries\.jsonl holds the ids of titles.*--catalogue"):
        read_clicks(queries)
    bad = [{**UBI_QUERIES[0], "timestamp": "soon"}, {**UBI_QUERIES[0], "query_response_hit_ids": "[1, {"}]
    log = read_clicks([events, queries, file("more.jsonl", json_lines(bad))], max_bad=0.5)
    assert [example.partition("more.jsonl")[2][:10] for example in log.bad.examples] == [":1: time i", ":2: the hi"]
    with_text = [{**event, "user_query": "asked"} for event in UBI_EVENTS]
    assert read_clicks(file("events.jsonl", json_lines(with_text))).queries == ["asked"] * 3


def test_objects_that_share_a_description_are_told(file: File, caplog: pytest.LogCaptureFixture) -> None:
    queries = file("q.jsonl", json_lines([{**UBI_QUERIES[0], "query_response_hit_ids": ["p1", "p2", "p3"]}]))
    titles = {"p1": "Toner", "p2": "Toner", "p3": "Ink"}
    events = [ubi_event("click", "q1", doc_id, 1, title) for doc_id, title in titles.items()]
    read_clicks([queries, file("e.jsonl", json_lines(events))])
    assert "2 of 3 objects share their name or description with another one" in caplog.text


def test_one_title_for_all_documents_is_refused(file: File) -> None:
    queries = file("q.jsonl", json_lines([{**UBI_QUERIES[0], "query_response_hit_ids": ["p1", "p2", "p3"]}]))
    events = [ubi_event("click", "q1", f"p{at}", at, "") for at in (1, 2, 3)]
    for event in events:
        event["event_attributes"]["object"]["description"] = "x"
    log = [queries, file("e.jsonl", json_lines(events))]
    with pytest.raises(ClickvecError, match=r"e\.jsonl: 3 of 3 documents have the title 'x'.*--catalogue FILE"):
        read_clicks(log)
    with pytest.raises(ClickvecError, match=r"two\.jsonl: 2 of 2 documents have the title 'x'.*--catalogue FILE"):
        read_clicks([queries, file("two.jsonl", json_lines(events[:2]))])
    titles = [{"sku": f"p{at}", "name": f"Toner {at}", "shop": "x"} for at in (1, 2, 3)]
    catalogue = file("c.jsonl", json_lines(titles))
    assert pairs(read_clicks(log, catalogue=catalogue)) == [("toner", f"Toner {at}", 1.0) for at in (1, 2, 3)]
    with pytest.raises(ClickvecError, match=r"c\.jsonl: 3 of 3 documents have the title 'x'.*--columns title=COLUMN"):
        read_clicks(log, catalogue=catalogue, columns=Columns({"title": "shop"}))


# --- ORCAS, AOL --------------------------------------------------------------------------------------------------

ORCAS = (
    "8570661\tkaren carpenter\tD1265400\thttps://en.wikipedia.org/wiki/Karen_Carpenter\n"
    "8570662\tthe office\tD7\thttp://office\n8570662\tthe office\tD8\thttp://office2\n"
)
MSMARCO = (
    "D1265400\thttps://en.wikipedia.org/wiki/Karen_Carpenter\tKaren Carpenter - Wikipedia\tKaren Anne ...\n"
    "D7\thttp://office\tThe Office\tbody\nD9\thttp://x\t\tno title\n"
)


def test_orcas(file: File) -> None:
    path, catalogue = file("orcas.tsv", ORCAS), file("msmarco-docs.tsv.gz", gzip.compress(MSMARCO.encode()))
    log = read_clicks(path, catalogue=catalogue)
    assert pairs(log) == [("karen carpenter", "Karen Carpenter - Wikipedia", 1.0), ("the office", "The Office", 1.0)]
    assert (log.bad.count, log.bad.total, log.bad.unused.total()) == (0, 3, 1)
    assert [title[:2] for title in read_titles(catalogue, max_bad=0.4)] == [
        ("D1265400", "Karen Carpenter - Wikipedia"),
        ("D7", "The Office"),
    ]
    with pytest.raises(ClickvecError, match=r"orcas\.tsv has the columns of ORCAS.*--catalogue msmarco-docs"):
        read_clicks(path)


AOL = (
    "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    "142\trentdirect.com\t2006-03-01 07:17:12\t\t\n"
    "217\tlottery\t2006-03-01 11:58:51\t1\thttp://www.calottery.com\n"
    "217\t-\t2006-03-01 11:59:00\t2\thttp://x\n"
    "218\tlottery\t2006-03-32 11:58:51\t1\thttp://www.calottery.com\n"
)


def test_aol(file: File) -> None:
    path = file("user-ct-test-collection-01.txt", AOL)
    log = read_clicks(path, max_bad=0.3)
    assert pairs(log) == [("lottery", "http://www.calottery.com", 1.0)]
    assert log.times is not None
    assert log.positions is not None
    assert (log.clients, log.times.tolist(), log.positions.tolist()) == (["217"], [1141214331], [1])
    assert log.bad.unused == {"query without a click": 1, "query without a text": 1}
    assert log.bad.examples[0].startswith(f"{path}:5: time is '2006-03-32 11:58:51'")
    assert (log.bad.count, log.bad.total) == (1, 4)
    more = AOL.replace("\n", "\tx\n")
    assert read_clicks(file("aol.tsv", more), max_bad=0.3).titles == log.titles
    catalogue = file("sites.csv", "url,title\nhttp://www.calottery.com,California Lottery\n")
    assert read_clicks(path, max_bad=0.3, catalogue=catalogue).titles == ["California Lottery"]


# --- BEIR, TREC --------------------------------------------------------------------------------------------------

CORPUS = json_lines([
    {"_id": "d1", "title": "One", "text": "The first", "metadata": {}},
    {"_id": "d2", "title": "", "text": "Only a text", "metadata": {}},
])  # fmt: skip
QUERIES = json_lines([{"_id": "q1", "text": "first", "metadata": {}}, {"_id": "q2", "text": "second"}])


def beir(file: File, parts: dict[str, str]) -> Path:
    for part, rows in parts.items():
        file(f"scifact/qrels/{part}.tsv", "query-id\tcorpus-id\tscore\n" + rows)
    file("scifact/queries.jsonl", QUERIES)
    return file("scifact/corpus.jsonl", CORPUS).parent


def test_beir(file: File) -> None:
    folder = beir(
        file, {"test": "q1\td1\t1\n", "train": "q1\td1\t2\nq2\td2\t1\nq1\td2\t0\nq2\td9\t1\nq9\td1\t1\nq1\td1\tx\n"}
    )
    log = read_clicks(folder, max_bad=0.2)
    assert pairs(log) == [("first", "One", 1.0), ("second", "Only a text", 1.0)]
    assert pairs(log.shown) == [("first", "Only a text", 0.0)]
    assert (log.bad.count, log.bad.total, log.bad.unused.total()) == (1, 6, 2)
    assert "train.tsv:7: grade is 'x', not a whole number" in log.bad.examples[0]
    texts = {"queries": folder / "queries.jsonl", "catalogue": folder / "corpus.jsonl"}
    assert pairs(read_clicks(folder / "qrels" / "test.tsv", **texts)) == [("first", "One", 1.0)]


def test_beir_without_a_training_part(file: File) -> None:
    assert len(read_clicks(beir(file, {"dev": "q1\td1\t1\n", "test": "q2\td1\t1\n"}))) == 2


def test_trec_qrels(file: File) -> None:
    path = file("qrels.txt", "1 0 d1 2\n1 0 d2 0\n2 0 d2 -1\n3 0 d1 1\n1 0 d7 1\n1 0\n")
    texts = {
        "queries": file("q.tsv", "qid\tquery\n1\tone\n2\ttwo\n"),
        "catalogue": file("c.tsv", "id\ttitle\nd1\tD1\nd2\tD2\n"),
    }
    log = read_clicks(path, max_bad=0.2, **texts)
    assert (pairs(log), pairs(log.shown)) == ([("one", "D1", 1.0)], [("one", "D2", 0.0), ("two", "D2", 0.0)])
    assert (log.bad.count, log.bad.total, log.bad.unused.total()) == (1, 6, 2)
    with pytest.raises(ClickvecError, match=r"qrels\.txt holds judgements.*--queries FILE and --catalogue FILE"):
        read_clicks(path)


# --- Parquet, JSON ------------------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path) -> None:
    import datetime

    day = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    rows = [
        {
            "search_term": "pizza",
            "info": {"name": "Pizza"},
            "clicks": 2,
            "ts": day,
            "rank": 1.0,
            "user_id": 7,
            "x": [1],
        },
        {"search_term": None, "info": {"name": "Null"}, "clicks": 1, "ts": day, "rank": None, "user_id": 7, "x": []},
        {"search_term": "pasta", "info": None, "clicks": 1, "ts": day, "rank": None, "user_id": 8, "x": None},
        {
            "search_term": "shown",
            "info": {"name": "Shown"},
            "clicks": 0,
            "ts": day,
            "rank": None,
            "user_id": None,
            "x": [],
        },
        {"search_term": "a\0b", "info": {"name": "Nul"}, "clicks": 1, "ts": day, "rank": None, "user_id": 8, "x": []},
    ]
    path = write_parquet(tmp_path / "log.parquet", rows, row_group_size=2)
    log = read_clicks(path, max_bad=0.6, columns={"title": "info.name"})
    assert pairs(log) == [("pizza", "Pizza", 2.0)]
    assert (log.clients, pairs(log.shown)) == (["7"], [("shown", "Shown", 0.0)])
    assert log.times is not None
    assert log.positions is not None
    assert (log.times.tolist(), log.positions.tolist()) == ([1709208000], [1])
    assert [example.partition(".parquet")[2] for example in log.bad.examples] == [
        ":2: blank query", ":3: blank title", ":5: NUL byte",
    ]  # fmt: skip
    assert log.bad.total == 5


def test_parquet_is_told_by_content_and_read_by_all_readers(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "rows", [
        {"query_id": 1, "query": "q", "doc_id": 2, "title": "t", "grade": 3, "more": True},
        {"query_id": 1, "query": "q", "doc_id": 3, "title": "u", "grade": 0, "more": None},
    ])  # fmt: skip
    assert read_judged(path)[0].titles == ("t", "u")
    assert read_titles(path)[0] == ("2", "t", {"query_id": 1, "query": "q", "grade": 3, "more": True})
    with pytest.raises(ClickvecError, match=r"rows: this is a judged set"):
        read_clicks(path)
    with pytest.raises(ClickvecError, match=r"rows: found the columns query_id, .*; topic is missing"):
        read_labels(path, columns=Columns({"text": "query"}))


def test_a_catalogue_in_parquet_keeps_the_types_of_its_columns(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"doc_id": 7, "title": "red car", "price": 9.5, "stock": 3, "new": True, "tags": ["a", "b"],
         "maker": {"name": "acme", "since": date(1990, 1, 2)}, "cost": Decimal("1.25"), "photo": b"\xff"},
        {"doc_id": 8, "title": "bad\0title", "price": 1.0},
        {"doc_id": 9, "title": "blue car", "price": float("nan"), "stock": None},
    ]  # fmt: skip
    path = write_parquet(tmp_path / "titles.parquet", rows, row_group_size=2)
    first, second = read_titles(path, max_bad=0.5)
    assert (first.id, first.payload) == ("7", {
        "price": 9.5, "stock": 3, "new": True, "tags": ["a", "b"], "maker": {"name": "acme", "since": "1990-01-02"},
        "cost": 1.25,
    })  # fmt: skip
    assert (second.id, second.title, second.payload) == ("9", "blue car", {})
    write_parquet(path, [{"title": "red car"}, {"title": "blue car"}])
    assert [(title.id, title.title, title.payload) for title in read_titles(path)] == [
        ("0", "red car", {}), ("1", "blue car", {})
    ]  # fmt: skip


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", [{"query": "q", "title": "t"}] * 1000)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-3], b"query,title\n", b""):
        path.write_bytes(damaged)
        with pytest.raises(ClickvecError, match=r"log\.parquet: the Parquet file is cut short or damaged"):
            read_clicks(path)


def test_parquet_text_that_is_not_utf_8(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    raw = pyarrow.array([b"good", b"\xff", None], pyarrow.binary())
    for kind in (pyarrow.binary(), pyarrow.string()):
        column = pyarrow.Array.from_buffers(kind, 3, raw.buffers())
        parquet.write_table(pyarrow.table({"query": column, "title": ["a", "b", "c"]}), tmp_path / "x.parquet")
        log = read_clicks(tmp_path / "x.parquet", max_bad=0.7)
        assert log.queries == ["good"]
        assert [example.partition(".parquet")[2] for example in log.bad.examples] == [
            ":2: not UTF-8",
            ":3: blank query",
        ]


def test_inner_fields_of_json_lines_have_dotted_names(file: File) -> None:
    path = file("log.json", json_lines([{"request": {"q": {"text": "pizza"}}, "title": "Pizza", "user": {"id": 5}}]))
    log = read_clicks(path, columns={"query": "request.q.text"})
    assert (pairs(log), log.clients) == ([("pizza", "Pizza", 1.0)], ["5"])


def test_json_lines_have_the_optional_columns_of_the_first(file: File) -> None:
    rows = [
        {"query": "a", "title": "A", "time": 1},
        {"query": "b", "title": "B"},
        {"query": "c", "title": "C", "rank": 3},
    ]
    log = read_clicks(file("log.jsonl", json_lines(rows)), max_bad=0.7)
    assert (log.queries, log.positions) == (["a"], None)
    assert log.bad.reasons.total() == 2
    later = read_clicks(file("log.jsonl", json_lines(rows[1:])))
    assert (later.queries, later.times, later.positions) == (["b", "c"], None, None)


# --- files, patterns, folders ------------------------------------------------------------------------------------


def test_patterns_and_folders(file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("logs/b.tsv", "logs/a/c.tsv.gz", "logs/part-0001", "logs/d.csv"):
        text = f"query\ttitle\n{name}\tt\n".replace("\t", "," if name.endswith("csv") else "\t")
        file(name, gzip.compress(text.encode()) if name.endswith("gz") else text)
    for name in ("logs/README.txt", "logs/_SUCCESS", "logs/.b.tsv.crc", "logs/image.png", "logs/_temporary/x.tsv"):
        file(name, "not a log")
    file("logs/model/config.json", "{}")
    file("logs/model/trigrams.txt", "abc\n")
    found = ["logs/a/c.tsv.gz", "logs/b.tsv", "logs/d.csv", "logs/part-0001"]
    assert read_clicks(tmp_path / "logs").queries == found
    monkeypatch.chdir(tmp_path)
    assert read_clicks("logs/*.tsv").queries == ["logs/b.tsv"]
    assert read_clicks(["logs/*/*.tsv.gz", "logs/b.tsv"]).queries == ["logs/a/c.tsv.gz", "logs/b.tsv"]
    assert read_clicks("logs/a/**/*.tsv*").queries == ["logs/a/c.tsv.gz"]
    file("a[1].tsv", "query\ttitle\nbrackets\tt\n")
    assert read_clicks("a[1].tsv").queries == ["brackets"]
    with pytest.raises(ClickvecError, match=r"no file matches logs/\*\.xml"):
        read_clicks("logs/*.xml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ClickvecError, match="empty holds no log file"):
        read_clicks(tmp_path / "empty")
    with pytest.raises(ClickvecError, match="model is a model folder, not a click log"):
        read_clicks(tmp_path / "logs" / "model")
    with pytest.raises(ClickvecError, match=r"none\.tsv does not exist"):
        read_clicks(tmp_path / "none.tsv")


def test_what_a_folder_leaves_out_and_what_is_given_twice_is_told(
    file: File, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (
        "logs/driver-license.tsv",
        "logs/clicks.tsv",
        "logs/clicks.tsv.1",
        "logs/LICENSE",
        "logs/b.tsv.2024-01-05",
    ):
        file(name, f"query\ttitle\n{name}\tt\n")
    assert read_clicks(tmp_path / "logs").queries == ["logs/clicks.tsv", "logs/driver-license.tsv"]
    assert "because of their names: b.tsv.2024-01-05, clicks.tsv.1. Files" in caplog.text
    (tmp_path / "link.tsv").symlink_to(tmp_path / "logs/clicks.tsv")
    again = [
        tmp_path / "logs",
        tmp_path / "logs/../logs/clicks.tsv",
        tmp_path / "link.tsv",
        tmp_path / "logs/clicks.tsv.1",
    ]
    assert len(read_clicks(again)) == 3
    assert caplog.text.count("it is read once") == 2


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    import os
    import threading

    pipe = tmp_path / "log.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"query": "q", "title": "t"}\n',))
    writer.start()
    assert read_clicks(pipe).queries == ["q"]
    writer.join(60)


def test_events_come_in_the_order_of_the_files(file: File) -> None:
    bad = BadLines()
    paths = [file(f"{n}.tsv", f"query\ttitle\tclicks\nq{n}\tt\t{n}\nbad\n") for n in (2, 0, 1)]
    assert [(e.queries[0], e.clicks[0]) for e in read_events(paths, bad=bad)] == [("q2", 2), ("q0", 0), ("q1", 1)]
    assert (bad.count, bad.total) == (3, 6)


def test_without_pyarrow_the_error_says_how_to_install_it(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    paths = file("a.parquet", b"PAR1...PAR1"), file("a.tsv.zst", b"\x28\xb5\x2f\xfd...")
    for name in ("pyarrow", "pyarrow.parquet", "compression"):
        monkeypatch.setitem(sys.modules, name, None)
    for path in paths:
        with pytest.raises(
            ClickvecError, match=r"pyarrow is not installed; it comes with: pip install 'clickvec\[data\]'"
        ):
            read_clicks(path)


def test_json_objects_with_many_sets_of_keys(file: File) -> None:
    rows = [{"title": f"t{n}", ("q" if n % 3 else "keywords"): f"q{n}", f"x{n % 5}": 1} for n in range(30)]
    assert read_clicks(file("log.jsonl", json_lines(rows))).queries == [f"q{n}" for n in range(30)]
    both = {"title": "t", "q": "second", "keywords": "first"}
    assert read_clicks(file("log.jsonl", json_lines([*rows, both]))).queries[-1] == "first"
