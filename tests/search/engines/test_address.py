"""Addresses of databases, and what is told about wrong ones. No server is needed."""

import pytest
from command import refused, wrong_usage

from clickvec.errors import ClickvecError
from clickvec.search.engines.address import is_address, parse_address, short_name, without_password
from clickvec.search.index import Index


def test_the_parts_of_an_address() -> None:
    one = parse_address("postgres://me:s%40cret@db.example:5433/shop?table=titles&sslmode=require")
    assert (one.scheme, one.name, one.user) == ("postgresql", "titles", "me")
    assert one.url == "postgresql://me:s%40cret@db.example:5433/shop?sslmode=require"
    assert one.shown == "postgresql://me@db.example:5433/shop (table titles)"
    assert parse_address("postgresql:///shop?host=/tmp/socket").name == "clickvec"
    other = parse_address("milvus://me:cret@[::1]:19531/shop?collection=Titles&words=postgresql://u:p@h/db?table=w&x=y")
    assert (other.url, other.name, other.user, other.password) == ("http://[::1]:19531/shop", "Titles", "me", "cret")
    assert other.words == "postgresql://u:p@h/db?table=w&x=y"
    assert "cret" not in f"{one!r} {one.shown} {other!r} {other.shown}"
    assert is_address("mysql://x")
    assert not is_address("folder/index")
    assert without_password("postgresql://u:cret@h/db") == "postgresql://u@h/db (table clickvec)"
    assert (short_name("postgresql://u@h/db?table=a"), short_name("some/folder")) == ("a", "folder")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("mysql://u:cret@h/db", "postgresql"),
        ("postgresql://u:cret@h", "no database"),
        ("postgresql://u:cret@h:port/db", "port"),
        ("postgresql://u:cret@h/db?table=Robert'); DROP TABLE x;--", "small letters"),
        ("postgresql://u:cret@h/db?table=" + "a" * 60, "at most 40"),
        ("milvus://u:cret@h:19530", "words"),
        ("milvus://u:cret@?collection=x&words=y", "host"),
        ("milvus://u:cret@h?collection=a-b&words=y", "letters"),
        ("milvus://u:cret@h?colection=a&words=y", "colection"),
    ],
)
def test_a_bad_address_is_told_without_its_password(address: str, told: str) -> None:
    with pytest.raises(ClickvecError, match=told) as error:
        Index.open(address)
    assert "cret" not in str(error.value)


@pytest.mark.parametrize("verb", ["info", "retrain"])
def test_verbs_that_need_a_folder_refuse_an_address(verb: str) -> None:
    message = wrong_usage(verb, "postgresql://u:cret@h/db")
    assert "needs a folder" in message
    assert "cret" not in message


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(
        ClickvecError, match=r"postgresql://u@127.0.0.1:1/db .* does not answer.*start the server"
    ) as error:
        Index.open("postgresql://u:cret@127.0.0.1:1/db")
    assert "cret" not in str(error.value)
    message = refused("search", "postgresql://u:cret@127.0.0.1:1/db", "hotel")
    assert "does not answer" in message
    assert "cret" not in message
