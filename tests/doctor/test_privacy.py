"""What fewer than k clients typed, and the names of clients, leave the machine that trains in no file and no answer."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command import ok
from serving import running

from clickvec import config
from clickvec.doctor import training_cost
from clickvec.serve.application import ENDPOINTS
from clickvec.serve.keys import Keys

pytest.importorskip("torch")
SECRET, CLIENT = "zqxvwhistleblower", "alice.zqxv@example.com"
THINGS, KINDS = ("lamp", "chair", "table", "kettle", "carpet"), ("red", "blue", "green", "oak", "steel")
PLACES = ("kitchen", "garden", "bath", "office", "cellar", "attic")


def write_log(path: Path, who: str | None) -> Path:
    """Write a log in which one client types a query of its own, often and in several wordings, and a bad line."""
    lines = [("query", "title", "clicks", "time", *([who] if who else []))]

    def add(query: str, title: str, client: str, clicks: str = "1") -> None:
        time = str(1_700_000_000 + 10 * len(lines))
        lines.append((query, title, clicks, time, *([client] if who else [])))

    for kind, thing, place in itertools.product(KINDS, THINGS, PLACES):
        for client in ("ann", "bob", "cid"):
            add(f"{kind} {thing} for the {place}", f"{thing} made of {kind}", client)
    for at in range(150 if who else 15):  # without clients, a query with 3 clicks may be of 3 people
        add(f"{SECRET} {PLACES[at % 2]}" if who else f"{SECRET} {at}", "lamp made of red", CLIENT)
    add(f"{SECRET}!", "lamp made of red", CLIENT, f"many {SECRET}")
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(config.DEFAULT, "cells", 8)
    monkeypatch.setitem(config.DEFAULT, "epochs", 1)
    monkeypatch.setattr(training_cost, "MINIBATCHES", 2)


def answers(out: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the answers to all GET requests of somebody who may write."""
    key = Keys()
    with running(out / "index", tmp_path, about=out / "about", log_queries=True, write_keys=key) as service:
        for endpoint in ENDPOINTS:
            if endpoint.method == "GET":
                for _ in range(100):
                    answer = service.client.get(endpoint.path.replace("{id}", "0").replace("{dimension}", "0"))
                    if answer.status_code != 202:
                        break
                assert answer.status_code < 500
                yield answer.text


def check_nowhere(texts: Sequence[str | bytes], *secrets: str) -> None:
    for text in texts:
        raw = text if isinstance(text, bytes) else text.encode()
        for secret in secrets:
            assert secret.encode() not in raw.lower(), raw[:300]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["user_id", "session_id", None])
def test_up_publishes_nothing_that_few_clients_typed(who: str | None, tmp_path: Path) -> None:
    log, out = write_log(tmp_path / "log.tsv", who), tmp_path / "out"
    screen = ok("up", log, "--out", out, "--no-serve")
    folders = [out] if who == "user_id" else [out / name for name in ("about", "index", "model")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    check_nowhere([path.read_bytes() for path in files], SECRET, CLIENT, "zqxv@")
    check_nowhere([screen, *answers(out, tmp_path)], SECRET, CLIENT)
    doctor = json.loads((out / "about/doctor.json").read_text())
    named = [example for finding in doctor["findings"] for example in finding["examples"] if "client " in example]
    assert bool(named) is (who is not None)
    assert "red lamp for the kitchen" in (out / "about/queries.txt").read_text()


def test_the_doctor_shows_neither(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv", "user_id")
    small = ("--set", "cells=8", "--set", "batch_size=8")
    page = tmp_path / "page.html"
    check_nowhere([ok("doctor", log, "--json", "--html", page, *small), page.read_bytes()], SECRET, CLIENT)
    shown = ok("doctor", log, "--all", *small)
    check_nowhere([shown], CLIENT)
    assert shown.count(SECRET) == 1  # the bad line, for those who have the log
