"""The verbs at the address of a database: the same results as with a folder, and one sentence for what goes wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import check_tells, ok, refused, run
from real_servers import Engines
from tiny import tiny_model

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

CATALOGUE = "id\ttitle\tprice\n" + "".join(
    f"t{number}\t{title}\t{number}\n"
    for number, title in enumerate(("shanghai hotels", "cheap hotels in shanghai", "new york", "paint a bathtub"))
)
CLICKS = "query\ttitle\nhotels\tshanghai hotels\ncheap hotel\tcheap hotels in shanghai\nbathtub\tpaint a bathtub\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return a model, a catalogue and a click log."""
    (tmp_path / "titles.tsv").write_text(CATALOGUE)
    (tmp_path / "clicks.tsv").write_text(CLICKS)
    return tiny_model(tmp_path / "model"), tmp_path / "titles.tsv", tmp_path / "clicks.tsv"


def test_verbs_give_what_they_give_with_a_folder(
    engines: Engines, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    model, titles, clicks = files
    location, folder = engines.location(), tmp_path / "same"
    ok("index", model, titles, "--out", folder)
    ok("index", model, titles, "--out" if engines.name == "embedded" else "--to", location)

    def both(verb: str, *arguments: str | Path, option: str = "") -> list[Any]:
        outs = [ok(verb, *((option,) if option else ()), where, *arguments, "--json") for where in (location, folder)]
        return [[json.loads(line) for line in out.splitlines()] for out in outs]

    for arguments in (("cheap hotels",), ("hotels", "--mode", "vectors"), ("york", "--where", '{"price": {"gt": 1}}')):
        found, wanted = both("search", *arguments)
        assert rounded(found) == rounded(wanted)
    found, wanted = both("evaluate", "--held-out", clicks, option="--index")
    assert rounded(found) == rounded(wanted)
    done = run("evaluate", "--index", location, "--held-out", clicks)
    assert [row.split()[0] for row in done.out.split("\n\n")[0].splitlines()[2:]] == [
        "hybrid",
        "words",
        "vectors",
        "BM25",
    ]
    assert "4 titles, fusion mixture" in done.err
    assert "3 queries" in done.err
    (tmp_path / "more.tsv").write_text("id\ttitle\nt9\tzebra crossing\n")
    ok("index", "add", location, tmp_path / "more.tsv")
    assert "zebra crossing" in ok("search", location, "zebra", "--mode", "words")
    ok("index", "delete", location, "t9")
    assert "zebra crossing" not in ok("search", location, "zebra")


def rounded(value: Any) -> Any:  # noqa: ANN401
    """Return JSON with numbers of four digits: sums in a database have another order."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def test_another_model_and_an_index_that_is_there_are_refused(
    engines: Engines, files: tuple[Path, Path, Path], encoder: Encoder
) -> None:
    model, titles, clicks = files
    location = engines.location()
    Index.create(location, encoder, [Document("a", "shanghai hotels")]).close()
    to = "--out" if engines.name == "embedded" else "--to"
    check_tells(refused("index", model, titles, to, location), "--overwrite")
    with Index.open(location) as index:
        assert [document.id for document in index] == ["a"]
    unknown = location.replace("collection=", "collection=no").replace("table=", "table=no")
    unknown = unknown.replace(str(engines.folder), str(engines.folder / "no"))
    check_tells(refused("evaluate", "--index", unknown, "--held-out", clicks), "no")
    assert ok("evaluate", "--index", location, "--held-out", clicks)


DEAD = {
    "postgresql": "postgresql://me:cret@127.0.0.1:1/shop",
    "milvus": "milvus://me:cret@127.0.0.1:1?words=",
    "milvus and postgresql": "milvus://me:cret@127.0.0.1:1?words=postgresql://me:cret@127.0.0.1:1/shop",
}


@pytest.mark.parametrize("engine", DEAD)
def test_each_verb_tells_that_a_server_does_not_answer(
    engine: str, files: tuple[Path, Path, Path], encoder: Encoder, tmp_path: Path
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if "milvus" in engine:
        pytest.importorskip("pymilvus", reason="pymilvus is not installed")
    model, titles, clicks = files
    address = DEAD[engine]
    if engine == "milvus":
        address += str(tmp_path / "words")
        with Index.create(tmp_path / "words", encoder, [Document("a", "hotel")]) as words:
            words._live.set_state(milvus="clickvec_clickvec_1")
    for verb in (
        ("index", model, titles, "--to", address, "--overwrite"),
        ("search", address, "hotel"),
        ("explain", address, "hotel"),
        ("evaluate", "--index", address, "--held-out", clicks),
        ("index", "add", address, titles),
        ("index", "delete", address, "t1"),
        ("serve", address, "--port", "0"),
        ("export", address, "--for", "opensearch", "--out", tmp_path / "out"),
    ):
        message = refused(*verb)
        check_tells(message, "me@127.0.0.1:1", "does not answer", "start the server or correct the address")
        assert "cret" not in message
    if engine == "milvus":
        assert len(Index.open(tmp_path / "words")) == 1  # it was not replaced
