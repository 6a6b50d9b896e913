"""Addresses of databases, and what is told about wrong ones. No server is needed."""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from command import refused, run

from clickvec.errors import ClickvecError
from clickvec.search.engines.address import is_address, parse_address, short_name, without_password
from clickvec.search.index import Index
from clickvec.storage.outputs import check_output


def test_the_parts_of_an_address() -> None:
    one = parse_address("postgres://me:s%40cret@db.example:5433/shop?table=titles&sslmode=require")
    assert (one.scheme, one.name, one.user) == ("postgresql", "titles", "me")
    assert one.url == "postgresql://me:s%40cret@db.example:5433/shop?sslmode=require"
    assert one.shown == "postgresql://me@db.example:5433/shop (table titles)"
    assert parse_address("postgresql:///shop?host=/tmp/socket").name == "clickvec"
    other = parse_address("milvus://me:cret@[::1]:19531/shop?collection=Titles&words=postgresql://u:p@h/db?table=w&x=y")
    assert (other.url, other.name, other.user, other.password) == ("http://[::1]:19531/shop", "Titles", "me", "cret")
    unquoted = parse_address("postgresql://bob:hun@ter2@h/db")  # the first @ would end the password for the server
    assert (unquoted.url, unquoted.shown) == (
        "postgresql://bob:hun%40ter2@h/db",
        "postgresql://bob@h/db (table clickvec)",
    )
    assert parse_address("milvus://bob:hun@ter2@h?words=F").password == "hun@ter2"
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
        ("postgresql://u:cret#2@h/db", "%23"),
        ("postgresql://u:cr et@h/db", "%20"),
        ("postgresql://u:cret/2@h/db", "%2F"),
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


DATABASE = "postgresql://bob:hun@ter2@h/db"


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", DATABASE), ("retrain", DATABASE), ("up", "x", "--out", DATABASE), ("up", DATABASE),
        ("prepare", "x", "--out", DATABASE), ("train", "x", "--catalogue", DATABASE, "--out", "m"),
        ("serve", "x", "--access-log", DATABASE), ("report", "m", "--out", DATABASE),
    ],
)  # fmt: skip
def test_paths_are_no_addresses(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.status == 2
    assert "needs a folder" in done.err
    assert "ter2" not in done.out + done.err
    assert list(tmp_path.iterdir()) == []


def test_an_address_is_no_output_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClickvecError, match="needs a folder") as error:
        check_output(Path(DATABASE))
    assert "ter2" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"cannot open {DATABASE} today", "cannot open postgresql://bob:***@h/db today"),
        ("postgres:/bob:cret@h/db", "postgres:/bob:***@h/db"),
        ("POSTGRESQL:/bob:cret@h/db", "POSTGRESQL:/bob:***@h/db"),
        ("postgresql://bob:cr et@h/db", "postgresql://bob:***@h/db"),
        ("postgresql://h/db?Password=cret", "postgresql://h/db?Password=***"),
        ("postgresql://h/db?user=u&password=cret&sslmode=x", "postgresql://h/db?user=u&password=***&sslmode=x"),
        ("milvus://u:a@h?words=postgresql://b:c@i/db", "milvus://u:***@i/db"),
        ("https://u:cret@h/log.tsv", "https://u:***@h/log.tsv"),
        ("http://h:80/a?mail=b@c", "http://h:80/a?mail=b@c"),
    ],
)
def test_no_message_shows_a_password(text: str, told: str) -> None:
    error = ClickvecError(text)
    assert str(error) == told
    assert repr(error) == f"ClickvecError({told!r})"


def test_wrong_usage_shows_no_password() -> None:
    assert "ter2" not in run("info", "m", DATABASE).err
    assert "ter2" not in run("index", "build", "m", "c", f"--too={DATABASE}").err


def test_an_unknown_error_shows_no_password() -> None:
    script = f"""
        import sys
        from clickvec.cli import streams
        sys.excepthook = streams.print_traceback
        raise RuntimeError({DATABASE!r})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "RuntimeError: postgresql://bob:***@h/db" in done.stderr
    assert "ter2" not in done.stderr


@pytest.mark.parametrize(
    "address", [DATABASE, "milvus://bob:hunter2@h?words=F", "milvus://h?words=postgresql://bob:hunter2@h/db"]
)
def test_a_pickled_address_has_no_password(address: str) -> None:
    pickled = pickle.dumps(parse_address(address))
    assert b"ter2" not in pickled
    assert pickle.loads(pickled).name == "clickvec"


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
