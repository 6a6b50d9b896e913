"""PostgreSQL servers that die, refuse, or hold something else: one sentence, and nothing is lost."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from real_servers import kill_postgres, program

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.engines import postgres_tables
from clickvec.search.engines.address import parse_address
from clickvec.search.engines.postgres_connections import Connections
from clickvec.search.index import Index

ADDING = """
import sys
from clickvec.search.index import Index
index = Index.open(sys.argv[1])
for number in range(100000):
    index.add(ids=[f"{number}-{part}" for part in range(3)], titles=[f"hotel number {number}"] * 3)
    print(number, flush=True)
"""
BUILDING = """
import sys, time
from clickvec.search.documents.document import Document
from clickvec.search.index import Index
old = Index.open(sys.argv[1])
def documents():
    for number in range(10001):
        if number == 10000:
            print("half", flush=True)
            time.sleep(60)
        yield Document(f"new{number}", "hotel")
Index.create(sys.argv[1], old.encoder, documents(), overwrite=True)
"""


def sql(server: Any, *statements: str) -> list[tuple[Any, ...]]:  # noqa: ANN401
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def check_counts(server: Any, table: str) -> None:  # noqa: ANN401
    """Compare the stored counts with the documents."""
    ((generation, titles, length),) = sql(server, f"SELECT generation, titles, total_length FROM {table}")
    documents, words = f"{table}_documents_{generation}", f"{table}_words_{generation}"
    assert sql(server, f"SELECT count(*), coalesce(sum(length), 0) FROM {documents}") == [(titles, length)]
    counted = f"SELECT w, count(*) FROM {documents} d, LATERAL (SELECT DISTINCT unnest(d.words) w) u GROUP BY w"
    assert sorted(sql(server, counted)) == sorted(sql(server, f"SELECT word, titles FROM {words}"))


def test_a_killed_server_loses_nothing_that_was_acknowledged(own_postgres: Any, encoder: Encoder) -> None:  # noqa: ANN401
    location = f"{own_postgres.get_uri()}&table=killed"
    acknowledged = -1
    with Index.create(location, encoder, [Document("first", "new york")]) as index:
        with program(ADDING, location) as adding:
            assert adding.stdout
            while acknowledged < 5:
                acknowledged = int(adding.stdout.readline())
            kill_postgres(own_postgres)
            rest = [int(line) for line in adding.stdout.read().split()]
            acknowledged = rest[-1] if rest else acknowledged
        with pytest.raises(ClickvecError, match=r"does not answer"):
            index.search("hotel")
        with pytest.raises(ClickvecError, match=r"does not answer"):
            index.add(ids=["x"], titles=["y"])
        own_postgres.ensure_postgres_running()
        ids = {str(document.id) for document in index}  # the same object connects again
        assert {f"{number}-{part}" for number in range(acknowledged + 1) for part in range(3)} | {"first"} <= ids
        by_call = [len({f"{number}-{part}" for part in range(3)} & ids) for number in range(acknowledged + 3)]
        assert set(by_call) <= {0, 3}  # all of a call, or nothing
        assert index.search("hotel number 3")
        check_counts(own_postgres, "killed")


def test_killed_writers_and_builders_leave_a_whole_index(postgres: Any, encoder: Encoder) -> None:  # noqa: ANN401
    location = f"{postgres.get_uri()}&table=halves"
    Index.create(location, encoder, [Document("first", "new york")]).close()
    with program(ADDING, location) as adding:
        assert adding.stdout
        while int(adding.stdout.readline()) < 4:
            pass
        adding.kill()
    check_counts(postgres, "halves")
    with program(BUILDING, location) as building:
        assert building.stdout
        assert building.stdout.readline() == "half\n"
        with pytest.raises(ClickvecError, match="another process is building"):
            Index.create(location, encoder, [], overwrite=True)
        building.kill()
        building.wait(60)
    with Index.open(location) as index:
        assert index.get("first")
        assert index.get("new1") is None
    for _ in range(100):  # the server notices that the builder is gone
        time.sleep(0.1)
        with contextlib.suppress(ClickvecError):
            with Index.create(location, encoder, [Document("last", "hotel")], overwrite=True) as index:
                assert [document.id for document in index] == ["last"]
            break
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'halves%' ORDER BY 1"
    assert [name for (name,) in sql(postgres, tables)] == [
        "halves",
        "halves_documents_2",
        "halves_model_2",
        "halves_words_2",
    ]


def test_two_services_share_an_index(postgres: Any, encoder: Encoder) -> None:  # noqa: ANN401
    location = f"{postgres.get_uri()}&table=shared"
    with Index.create(location, encoder, []) as one, Index.open(location) as other:
        one.add(ids=["a"], titles=["cheap hotels"])
        assert [hit.id for hit in other.search("cheap hotels")] == ["a"]
        other.delete(["a"])
        assert one.search("cheap hotels") == []
        Index.create(location, encoder, [Document("b", "hotel")], overwrite=True).close()
        assert [hit.id for hit in one.search("hotel")] == [hit.id for hit in other.search("hotel")] == ["b"]


def test_users_who_may_not(postgres: Any, encoder: Encoder) -> None:  # noqa: ANN401
    location = f"{postgres.get_uri()}&table=rights"
    Index.create(location, encoder, [Document("a", "hotel")]).close()
    sql(
        postgres,
        "CREATE ROLE reader LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        "CREATE ROLE strict LOGIN PASSWORD 'right'",
        "CREATE DATABASE plain",
    )  # fmt: skip
    as_reader = location.replace("//postgres:@", "//reader@")
    with Index.open(as_reader) as index:
        assert [hit.id for hit in index.search("hotel")] == ["a"]
        for change in (lambda: index.add(ids=["b"], titles=["x"]), lambda: index.delete(["a"])):
            with pytest.raises(ClickvecError, match=r"does not allow this.*nothing was changed.*[Gg]rant"):
                change()
        assert len(index) == 1
    plain = as_reader.replace("/postgres?", "/plain?")
    with pytest.raises(ClickvecError, match=r"lacks the extension pgvector.*CREATE EXTENSION vector"):
        Index.create(plain, encoder, [])
    rules = Path(sql(postgres, "SHOW hba_file")[0][0])
    rules.write_text("local all strict scram-sha-256\n" + rules.read_text())
    sql(postgres, "SELECT pg_reload_conf()")
    for _ in range(100):  # the server reads its rules again
        time.sleep(0.1)
        with pytest.raises(ClickvecError, match=r"refuses the user or the password|no index") as error:
            Index.open(location.replace("//postgres:@", "//strict:wrongcret@").replace("rights", "none"))
        if "refuses" in str(error.value):
            break
    assert "refuses" in str(error.value)
    assert "wrongcret" not in str(error.value)
    with pytest.raises(ClickvecError, match="create the database"):
        Index.open(location.replace("/postgres?", "/nope?"))


def test_tables_of_others_and_texts_that_cannot_be_stored(postgres: Any, encoder: Encoder) -> None:  # noqa: ANN401
    sql(postgres, "CREATE TABLE precious (x integer)", "INSERT INTO precious VALUES (7)")
    location = f"{postgres.get_uri()}&table=precious"
    for refused in (lambda: Index.open(location), lambda: Index.create(location, encoder, [], overwrite=True)):
        with pytest.raises(ClickvecError, match=r"table of something else.*table=NAME"):
            refused()
    assert sql(postgres, "SELECT x FROM precious") == [(7,)]
    with pytest.raises(ClickvecError, match=r"no index.*--to"):
        Index.open(f"{postgres.get_uri()}&table=absent")
    with Index.create(f"{postgres.get_uri()}&table=texts", encoder, []) as index:
        for document, told in (
            (Document("a", "x\0y"), "U\\+0000"),
            (Document("a", "x\ud800y"), "surrogate"),
            (Document("a", "x", {"k": "\0"}), "U\\+0000"),
        ):
            with pytest.raises(ClickvecError, match=told):
                index.add(ids=[document.id], titles=[document.title], payloads=[document.payload])
        index.add(ids=["a"], titles=["x"], payloads=[{"k": "\\u0000 written out"}])
        assert index.get("a") == Document("a", "x", {"k": "\\u0000 written out"})
        assert index.search("hotel \0 \ud800", where={"k": ["\0", "\ud800"]}) == []
        with pytest.raises(ClickvecError, match="cannot change its model"):
            index.use_model(encoder)


def test_a_server_without_pgvector(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = pytest.importorskip("psycopg", reason="psycopg is not installed").errors

    class Server:
        def execute(self, statement: str) -> "Server":
            if statement.startswith("CREATE EXTENSION"):
                raise errors.FeatureNotSupported('extension "vector" is not available')
            return self

        def fetchone(self) -> None:
            return None

        def close(self) -> None:
            pass

    monkeypatch.setattr(postgres_tables, "connect", lambda address: Server())
    with pytest.raises(ClickvecError, match=r"no pgvector; install"):
        postgres_tables.prepare_database(Connections(parse_address("postgresql://u@h/db")))


def test_an_approximate_search_finds_nearly_all(postgres: Any, encoder: Encoder) -> None:  # noqa: ANN401
    documents = [Document(at, f"hotel {at} new york {at % 7}", {"n": at % 50}) for at in range(3_000)]
    location = f"{postgres.get_uri()}&table=many"
    memory = Index.build(
        encoder,
        titles=[one.title for one in documents],
        ids=[one.id for one in documents],
        payloads=[one.payload for one in documents],
    )
    with Index.create(location, encoder, documents, search="approximate") as index:
        for where in (None, {"n": 7}, {"n": {"lt": 40}}):
            wanted = {hit.score for hit in memory.search("hotels in new york", k=20, mode="vectors", where=where)}
            found = index.search("hotels in new york", k=20, mode="vectors", where=where)
            assert len(found) == 20
            assert sum(any(abs(hit.score - score) < 1e-5 for score in wanted) for hit in found) >= 18
            assert len(index.search("hotels in new york", k=20, where=where)) == 20
