"""The verbs that build, change and search an index."""

import json
from pathlib import Path

import pytest
from command import check_tells, contents, ok, refused, run, wrong_usage
from tiny import tiny_model

from clickvec.search.index import Index

CATALOGUE = """doc_id\ttitle\tprice\tbrand
a\thotels in shanghai\t20\tacme
b\tcheap flights to new york\t9.5\tacme
c\tnew york city guide\t\tother
d\tЖЖЖ AB-1234\t-3\tother
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


@pytest.fixture
def index(tmp_path: Path, model: Path) -> Path:
    (tmp_path / "titles.tsv").write_text(CATALOGUE)
    ok("index", model, tmp_path / "titles.tsv", "--numbers", "price", "--out", tmp_path / "index")
    return tmp_path / "index"


def ids(*arguments: str | Path) -> list[str]:
    return [hit["id"] for hit in json.loads(ok("search", *arguments, "--json"))["hits"]]


# --- build -------------------------------------------------------------------------------------------------------


def test_build_may_be_left_out(tmp_path: Path, model: Path) -> None:
    (tmp_path / "titles.tsv").write_text(CATALOGUE)
    for name, verb in (("one", ("index",)), ("two", ("index", "build"))):
        done = run(*verb, model, tmp_path / "titles.tsv", "--out", tmp_path / name)
        assert (done.status, done.out) == (0, f"{tmp_path / name}: 4 titles, fusion mixture\n")
        check_tells(done.err, "1 title has no known letter trigram", "only words can find")
    ok("index", "--out", tmp_path / "three", model, tmp_path / "titles.tsv")
    assert list(Index.open(tmp_path / "three")) == list(Index.open(tmp_path / "one"))
    assert "--held-out" in ok("index", "--help")
    for verb in ("add", "update", "delete"):
        assert f"index {verb} --help" in ok("index", "--help")
        assert ok("index", verb, "--help").startswith(f"Usage: root index {verb} ")
    assert "give either --out" in wrong_usage("index", model, tmp_path / "titles.tsv")


def test_numbers_of_a_table(index: Path, model: Path, tmp_path: Path) -> None:
    assert [document.payload for document in Index.open(index)] == [
        {"price": 20, "brand": "acme"},
        {"price": 9.5, "brand": "acme"},
        {"brand": "other"},  # a blank cell
        {"price": -3, "brand": "other"},
    ]
    assert ids(index, "new york hotels", "--where", '{"price": {"gte": 9, "lt": 20}}') == ["b"]
    build = ("index", model, tmp_path / "titles.tsv", "--out", tmp_path / "new", "--numbers")
    check_tells(refused(*build, "brand"), "titles.tsv", "brand of id a", "'acme'", "not a number", "--numbers")
    check_tells(refused(*build, "prize"), "titles.tsv", "'prize'", "--numbers")
    assert not (tmp_path / "new").exists()


def test_fitting_on_too_few_queries_keeps_the_default(index: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n1\thotels\ta\thotels in shanghai\t1\n")
    titles = ("index", model, tmp_path / "titles.tsv", "--out", tmp_path / "fitted", "--dev", tmp_path / "dev.tsv")
    done = run(*titles)
    assert (done.status, done.out) == (0, f"{tmp_path / 'fitted'}: 4 titles, fusion mixture\n")
    check_tells(done.err, "Kept the fusion mixture", "on 1 queries", "at least")
    assert "either --dev" in wrong_usage(*titles, "--held-out", tmp_path / "dev.tsv")


def test_a_bad_catalogue_leaves_the_index_as_it_was(index: Path, model: Path, tmp_path: Path) -> None:
    before = contents(index)
    (tmp_path / "bad.tsv").write_text("doc_id\ttitle\na\tone\na\ttwo\n")
    for arguments in (
        ("index", model, tmp_path / "bad.tsv", "--out", index, "--overwrite"),
        ("index", model, tmp_path / "titles.tsv", "--out", index),
        ("index", "add", index, tmp_path / "bad.tsv"),
        ("index", "add", index, tmp_path / "titles.tsv", "--columns", "title=name"),
        ("index", "add", index, tmp_path / "missing.tsv"),
    ):
        refused(*arguments)
        assert len(Index.open(index)) == 4
    assert contents(index).keys() >= {name for name in before if "sqlite-" not in name}


@pytest.mark.parametrize("name", ["product_id", "productid", "sku", "item_id", "asin"])
def test_the_ids_of_a_catalogue_reach_the_hits(name: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(f"{name},title,price\n101,hotels in shanghai,20\n102,new york,30\n")
    done = run("index", model, tmp_path / "c.csv", "--out", tmp_path / "index")
    assert (done.status, done.err) == (0, "Read as numbers: price (--numbers none keeps text)\n")
    assert ids(tmp_path / "index", "hotels", "--mode", "words") == ["101"]
    ok("index", "add", tmp_path / "index", tmp_path / "c.csv")
    assert [(one.id, one.payload) for one in Index.open(tmp_path / "index")] == [
        ("101", {"price": 20}),
        ("102", {"price": 30}),
    ]


def test_ids_that_are_not_recognised_are_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("vendor_no,title\nx1,hotels in shanghai\nx2,new york\n")
    build = ("index", model, tmp_path / "c.csv", "--out", tmp_path / "index")
    check_tells(refused(*build), "c.csv", "vendor_no may be the ids", "--columns doc_id=vendor_no", "doc_id=-")
    assert not (tmp_path / "index").exists()
    ok(*build, "--columns", "doc_id=vendor_no")
    assert [one.id for one in Index.open(tmp_path / "index")] == ["x1", "x2"]
    done = run(*build, "--columns", "doc_id=-", "--overwrite")
    assert (done.status, done.err) == (0, "")
    assert next((one.id, one.payload) for one in Index.open(tmp_path / "index")) == ("0", {"vendor_no": "x1"})
    (tmp_path / "c.csv").write_text("title\nhotels in shanghai\nnew york\n")
    check_tells(
        run(*build, "--overwrite").err, "c.csv has no column of ids", "row numbers are the ids", "doc_id=COLUMN"
    )


# --- add, update and delete --------------------------------------------------------------------------------------


def test_update_changes_the_given_columns_alone(index: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("sku,price,stock\na,21.5,3\nb,,4\n")
    done = run("index", "update", index, tmp_path / "prices.csv", "--numbers", "stock")
    said = "New to the index: the field stock\n"
    assert (done.status, done.out, done.err) == (0, f"{index}: 2 titles updated, 4 in all\n", said)
    found = {one.id: (one.title, one.payload) for one in Index.open(index)}
    assert found["a"] == ("hotels in shanghai", {"price": 21.5, "brand": "acme", "stock": 3})
    assert found["b"] == ("cheap flights to new york", {"price": 9.5, "brand": "acme", "stock": 4})  # a blank cell
    (tmp_path / "more.jsonl").write_text('{"id": "a", "brand": null, "title": "rooms"}\n{"id": "c", "price": 7}\n')
    assert ok("index", "update", index, tmp_path / "more.jsonl") == f"{index}: 2 titles updated, 4 in all\n"
    found = {one.id: (one.title, one.payload) for one in Index.open(index)}
    assert found["a"] == ("rooms", {"price": 21.5, "stock": 3})
    assert found["c"] == ("new york city guide", {"brand": "other", "price": 7})
    assert ids(index, "rooms", "--mode", "words") == ["a"]

    (tmp_path / "bad.csv").write_text("sku,price\na,1\nnope,2\n")
    check_tells(
        refused("index", "update", index, tmp_path / "bad.csv"), "no document with the id 'nope'", "nothing was"
    )
    (tmp_path / "no-ids.csv").write_text("price,vendor_no\n1,x1\n2,x2\n")
    check_tells(refused("index", "update", index, tmp_path / "no-ids.csv"), "no column of ids", "doc_id=vendor_no")
    assert {one.id: (one.title, one.payload) for one in Index.open(index)} == found


@pytest.mark.parametrize("verb", ["add", "update"])
def test_numbers_in_columns_that_are_new_to_an_index_are_numbers(verb: str, index: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("sku,title,pricee,brand\na,hotels in shanghai,12.5,7\n")
    done = run("index", verb, index, tmp_path / "prices.csv")
    check_tells(done.err, "Read as numbers: pricee", "New to the index: the field pricee")
    with Index.open(index) as opened:
        found = opened.get("a")
        assert found is not None
        assert (found.payload["pricee"], found.payload["brand"]) == (12.5, "7")  # a brand is text in this index
    assert ids(index, "hotels", "--where", '{"pricee": {"gt": 12}}') == ["a"]
    assert run("index", "update", index, tmp_path / "prices.csv").err == ""


@pytest.mark.parametrize("lines", ["sku\na\n", "sku,title\na,\n", "sku,title,price\na, ,\n"])
def test_an_update_that_changes_nothing_is_refused(lines: str, index: Path, tmp_path: Path) -> None:
    (tmp_path / "changes.csv").write_text(lines)
    check_tells(refused("index", "update", index, tmp_path / "changes.csv"), "changes.csv", "nothing to change")
    (tmp_path / "changes.csv").write_text("sku,title,price\na,,\nb,,3\n")
    done = run("index", "update", index, tmp_path / "changes.csv")
    assert done.err == "1 line has an id and no new value, and changed nothing\n"
    assert done.out == f"{index}: 1 title updated, 4 in all\n"


def test_decimal_commas_are_read_between_semicolons(model: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("sku;title;Preis\na;red lamp;1,50\nb;blue lamp;1.200,50\nc;lamp;7\n")
    ok("index", model, tmp_path / "c.csv", "--out", tmp_path / "index")
    assert [one.payload for one in Index.open(tmp_path / "index")] == [{"Preis": 1.5}, {"Preis": 1200.5}, {"Preis": 7}]
    (tmp_path / "u.csv").write_text("sku;Preis\na;2,75\n")
    ok("index", "update", tmp_path / "index", tmp_path / "u.csv")
    assert ids(tmp_path / "index", "lamp", "--where", '{"Preis": {"gt": 2, "lt": 3}}') == ["a"]
    (tmp_path / "u.csv").write_text('sku,Preis\na,"1,500"\n')
    check_tells(refused("index", "update", tmp_path / "index", tmp_path / "u.csv"), "'1,500', not a number", "by ;")
    for cell, told in (
        ("1.999", "1999 or 1.999. Write 1999"), ("007", "not a number"), ("1_000", "not a number"), ("1e3", "not a")
    ):  # fmt: skip
        (tmp_path / "more.csv").write_text(f"sku;title;Preis\nz;green lamp;{cell}\n")
        check_tells(
            refused("index", "add", tmp_path / "index", tmp_path / "more.csv"), f"Preis of id z is '{cell}'", told
        )
    (tmp_path / "more.csv").write_text("sku;title;Preis\ny;green lamp;1.999\nz;dark lamp;2,50\n")
    ok("index", "add", tmp_path / "index", tmp_path / "more.csv")
    prices = {document.id: document.payload["Preis"] for document in Index.open(tmp_path / "index")}
    assert prices == {"a": 2.75, "b": 1200.5, "c": 7, "y": 1999, "z": 2.5}


def test_a_column_of_numbers_may_have_a_comma_in_its_name(model: Path, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("id;title;Preis, EUR\n1;Hammer;3\n")
    for option in ("auto", '"Preis, EUR"'):
        command = ("index", model, tmp_path / "c.csv", "--out", tmp_path / "index", "--overwrite", "--numbers", option)
        ok(*command)
        assert '"Preis, EUR": 3' in ok("search", tmp_path / "index", "hammer")


def test_add_says_which_fields_replaced_titles_lose(index: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.tsv").write_text("doc_id\ttitle\tprice\na\thotels\t1\nb\tflights\t2\nnew\tmug\t3\n")
    done = run("index", "add", index, tmp_path / "prices.tsv")
    check_tells(done.err, "2 replaced titles lost the field brand", "clickvec index update")
    assert run("index", "add", index, tmp_path / "prices.tsv").err == ""


def test_add_replaces_and_delete_removes(index: Path, tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("doc_id\ttitle\ne\thotels in new york\na\tshanghai accommodation\n")
    assert ok("index", "add", index, tmp_path / "more.tsv") == f"{index}: 2 titles added or replaced, 5 in all\n"
    assert [(one.id, one.title) for one in Index.open(index)][-2:] == [
        ("e", "hotels in new york"),
        ("a", "shanghai accommodation"),
    ]
    assert "e" in ids(index, "hotels")
    done = run("index", "delete", index, "e", "x", "b", "e")
    assert (done.status, done.out) == (0, f"{index}: 2 titles deleted, 3 left\n")
    check_tells(done.err, "no title with the id: x")
    assert ok("index", "delete", index, "-", stdin="c\n\nd\n") == f"{index}: 2 titles deleted, 1 left\n"
    assert [one.id for one in Index.open(index)] == ["a"]


def test_titles_without_ids_are_not_added(index: Path, tmp_path: Path) -> None:
    before = list(Index.open(index))
    (tmp_path / "more.tsv").write_text("title\nhotels in new york\n")
    check_tells(
        refused("index", "add", index, tmp_path / "more.tsv"), "more.tsv", "no column of ids", "--columns doc_id="
    )
    (tmp_path / "more.jsonl").write_text('{"title": "hotels in new york"}\n')
    check_tells(
        refused("index", "add", index, tmp_path / "more.jsonl"), "more.jsonl", "no column of ids", "--columns doc_id="
    )
    assert list(Index.open(index)) == before


def test_added_columns_are_numbers_if_they_are_numbers_in_the_index(index: Path, tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("doc_id\ttitle\tprice\tbrand\ne\thotels\t15\t7\nf\tmotels\t\t\n")
    ok("index", "add", index, tmp_path / "more.tsv")
    assert [document.payload for document in Index.open(index)][-2:] == [{"price": 15, "brand": "7"}, None]
    assert ids(index, "hotels", "--where", '{"brand": {"exists": false}}') == ["f"]
    (tmp_path / "bad.tsv").write_text("doc_id\ttitle\tprice\ng\thotels\tn/a\n")
    check_tells(refused("index", "add", index, tmp_path / "bad.tsv"), "price of id g", "'n/a'", "not a number")


def test_a_damaged_segment_is_built_again_before_a_change(index: Path, tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("doc_id\ttitle\ne\thotels in new york\n")
    for change in (("add", index, tmp_path / "more.tsv"), ("delete", index, "a")):
        vectors = max((index / "segments").glob("*/vectors.npy"), key=lambda file: file.stat().st_mtime_ns)
        content = bytearray(vectors.read_bytes())
        content[-1] ^= 1
        vectors.write_bytes(content)
        check_tells(refused("search", index, "hotels"), "vectors.npy", "damaged", "clickvec index add")
        done = run("index", *change)
        assert done.status == 0
        check_tells(done.err, "vectors.npy", "damaged")
        assert "e" in ids(index, "hotels")
    assert [document.id for document in Index.open(index)] == ["b", "c", "d", "e"]


def test_ids_that_are_not_text_delete_nothing(index: Path) -> None:
    check_tells(refused("index", "delete", index, "-", stdin=b"a\n\xff\n"), "standard input:2", "not UTF-8")
    assert len(Index.open(index)) == 4


# --- search ------------------------------------------------------------------------------------------------------


def test_modes_and_parts(index: Path) -> None:
    hits = Index.open(index).search("new york", k=9)
    lines = ok("search", index, "new york", "--parts", "-k", "9").splitlines()
    for line, hit in zip(lines, hits, strict=True):
        start = (
            f"{hit.score:.3f}  cosine {hit.parts['cosine']:.3f}  BM25 {hit.parts['bm25']:.3f}  {hit.id}  {hit.title}"
        )
        assert line.startswith(start)
    assert set(ids(index, "new york", "--mode", "words")) == {"b", "c"}
    assert "d" not in ids(index, "new york", "--mode", "vectors")
    assert ids(index, "ЖЖЖ") == ["d"]
    assert ids(index, "ab1234")[0] == "d"
    check_tells(wrong_usage("search", index, "new york", "--mode", "magic"), "--mode", "'magic'", "hybrid")


def test_filter_offset_threshold_and_facets(index: Path) -> None:
    everything = ids(index, "new york hotels")
    assert ids(index, "new york hotels", "--offset", "1", "-k", "2") == everything[1:3]
    assert ids(index, "new york hotels", "--where", '{"brand": "other"}')[0] == "c"
    best = json.loads(ok("search", index, "new york hotels", "--json"))["hits"][0]["score"]
    assert ids(index, "new york hotels", "--min-score", str(best - 1e-6)) == everything[:1]
    found = json.loads(ok("search", index, "new york", "--json", "--facets", "brand", "--facets", "price"))
    assert sorted(found["facets"]["brand"]["counts"]) == [["acme", 2], ["other", 1]]
    assert (found["facets"]["price"]["minimum"], found["facets"]["price"]["maximum"]) == (9.5, 20)
    assert "brand: acme 2, other 1" in ok("search", index, "new york", "--facets", "brand")


def test_a_filter_that_is_wrong_or_finds_nothing(index: Path) -> None:
    search = ("search", index, "new york", "--where")
    check_tells(wrong_usage(*search, "{brand"), "--where", "not JSON")
    check_tells(wrong_usage(*search, "[1]"), "--where", "not a JSON object")
    check_tells(refused(*search, '{"brand": {"near": 1}}'), "brand", "near")
    done = run(*search, '{"colour": "red"}')
    assert (done.status, done.out) == (0, "")
    check_tells(done.err, "colour", "No hits for 'new york'", "no title is left after --where\n")


def test_a_misspelled_word_is_corrected_and_told(index: Path) -> None:
    done = run("search", index, "shangai", "--mode", "words")
    assert done.out.split("  ")[1] == "a"
    check_tells(done.err, "No title contains 'shangai'", "shanghai")
    assert "shangai" not in run("search", index, "shangai", "--mode", "vectors").err
    assert json.loads(ok("search", index, "shangai", "--json"))["corrected"] == {"shangai": ["shanghai"]}
    assert "corrected" not in json.loads(ok("search", index, "shanghai", "--json"))


def test_an_unknown_code_is_told_and_its_letters_are_not_searched(index: Path) -> None:
    for code in ("qx9-77z4", "qx977z4"):
        assert run("search", index, f"new york {code}").err == f"No title contains '{code}'\n"
        assert run("search", index, code).err.startswith(f"No hits for '{code}': no title contains a word of it")
        assert json.loads(ok("search", index, code, "--json"))["corrected"] == {code: []}


def test_queries_that_find_nothing_say_why(index: Path) -> None:
    for arguments, why in (
        (("",), "has no words"),
        (("☃☃☃",), "no title contains"),
        (("☃☃☃", "--mode", "vectors"), "knows no letter trigram"),
        (("qqq", "--mode", "words"), "no title contains a word"),
    ):
        done = run("search", index, *arguments)
        assert (done.status, done.out) == (0, "")
        check_tells(done.err, "No hits", why)


# --- info --------------------------------------------------------------------------------------------------------


def test_info_describes_an_index(index: Path, model: Path) -> None:
    facts = json.loads(ok("info", index, "--json"))
    assert (facts["titles"], facts["titles without a vector"], facts["vectors"]) == (4, 1, "float32")
    assert facts["fusion"]["method"] == "mixture"
    assert facts["BM25"] == {"k1": 1.2, "b": 0.75}
    of_model = json.loads(ok("info", model, "--json"))
    assert of_model.items() <= facts.items()
    assert "titles: 4\n" in ok("info", index)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_index_of_an_old_format_is_refused(number: int, index: Path, tmp_path: Path) -> None:
    (index / "index.json").write_text(f'{{"format": {number}}}')
    (tmp_path / "titles.tsv").write_text(CATALOGUE)
    for command in (("search", index, "york"), ("info", index), ("index", "add", index, tmp_path / "titles.tsv")):
        check_tells(refused(*command), f"index format {number}", "build it again with: clickvec index")
