"""Clicks: from a request to a log that `prepare` reads, and to training."""

import json
import os
import threading
from pathlib import Path

import pytest
from command import ok
from serving import running
from tiny import TEXTS

from clickvec.data import read_clicks
from clickvec.serve.click_log import ClickLog, Impression, default_path, mark_used, take

SHOWN = Impression("a query", "t1", "a title", 1, 0, None)


def test_what_was_shown_and_clicked_is_logged_as_prepare_reads_it(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        shown = ["t0", {"id": "t1", "position": 5}, {"id": "gone"}]
        body = {"query": "Hotels in\tShanghai", "shown": shown, "clicked": ["t1", "t4"], "client": "c1"}
        assert service.post("/click", body).json() == {"logged": 3, "unknown": ["gone"]}
        twice = {"query": "hotels", "shown": ["t1", "t1", "t2"], "clicked": ["t1"]}
        assert service.post("/click", twice).json()["logged"] == 2
        later = service.post("/click", {"query": "new york", "clicked": ["t5"], "client": "c2"})
        assert later.json() == {"logged": 1, "unknown": []}
    lines = [json.loads(line) for line in (tmp_path / "clicks.jsonl").read_text().splitlines()]
    assert [(line["doc_id"], line.get("position"), line["clicked"]) for line in lines] == [
        ("t0", 1, 0), ("t1", 5, 1), ("t4", None, 1), ("t1", 1, 1), ("t2", 3, 0), ("t5", None, 1)
    ]  # fmt: skip
    log = read_clicks(tmp_path / "clicks.jsonl")
    assert list(zip(log.queries, log.titles, strict=True)) == [
        ("Hotels in\tShanghai", TEXTS[1]), ("Hotels in\tShanghai", TEXTS[4]), ("hotels", TEXTS[1]),
        ("new york", TEXTS[5]),
    ]  # fmt: skip
    assert log.times is not None
    assert log.shown is not None
    assert list(log.shown.titles) == [TEXTS[0], TEXTS[2]]
    ok("prepare", tmp_path / "clicks.jsonl", "--k-anonymous", "0", "--out", tmp_path / "data")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"query": " ", "clicked": ["t1"]}, "blank"),
        ({"query": "a"}, "shown"),
        ({"query": "a", "shown": [{"id": "t1", "position": 0}]}, "position"),
        ({"query": "a", "clicked": ["t1"] * 1_001}, "1,001"),
        ({"query": "a", "clicked": ["t1"], "client": "c" * 201}, "client"),
    ],
)
def test_bad_clicks_are_refused(body: object, told: str, write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        answer = service.post("/click", body)
        assert answer.status_code == 422
        assert told in answer.json()["error"]["message"]
    assert not (tmp_path / "clicks.jsonl").exists()


def test_a_log_that_cannot_be_written_is_503_and_searches_go_on(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path, click_log=tmp_path / "no" / "such" / "folder.jsonl") as service:
        answer = service.post("/click", {"query": "a", "clicked": ["t1"]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert service.post("/search", {"query": "new york"}).status_code == 200


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ClickLog(tmp_path / "clicks.jsonl")
    log.append([SHOWN])
    before, write = log.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:10]))
    with pytest.raises(Exception, match="disk may be full"):
        log.append([SHOWN])
    monkeypatch.undo()
    assert log.path.read_bytes() == before
    log.append([SHOWN])
    assert log.path.read_bytes().startswith(before)
    assert [json.loads(line)["doc_id"] for line in log.path.read_text().splitlines()] == ["t1", "t1"]


def test_no_line_is_lost_or_torn_while_logs_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "index.clicks.jsonl"
    taken: set[Path] = set()

    def append(writer: int) -> None:
        log = ClickLog(path)
        for number in range(200):
            log.append([SHOWN._replace(doc_id=f"{writer}-{number}-{part}") for part in range(3)])

    threads = [threading.Thread(target=append, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken.update(take(path))
    taken.update(take(path))
    ids = [json.loads(line)["doc_id"] for log in sorted(taken) for line in log.read_text().splitlines()]
    assert sorted(ids) == sorted(f"{w}-{n}-{p}" for w in range(4) for n in range(200) for p in range(3))


def test_taken_logs_are_taken_again_until_they_are_marked(tmp_path: Path) -> None:
    path = default_path(tmp_path / "my [index]*")
    assert take(path) == []
    ClickLog(path).append([SHOWN])
    first = take(path)
    assert len(first) == 1
    assert not path.exists()
    assert take(path) == first
    for other in ("my [index]*.clicks-eu.jsonl", "my [index]*.clicks-backup.jsonl"):  # of others, or of the user
        (tmp_path / other).write_text("{}\n")
    assert take(path) == first
    for file in tmp_path.glob("*-eu.jsonl"):
        file.unlink()
    (tmp_path / "my [index]*.clicks-backup.jsonl").unlink()
    mark_used(first)
    assert take(path) == []
    assert len(list(tmp_path.iterdir())) == 1
