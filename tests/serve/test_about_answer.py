"""What the service tells about itself, and the folder that tells about its model."""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from serving import Running, running

from clickvec.serve.about_folder import Figure, Measured, MeasuredRow, default_folder, read_about, write_measured
from clickvec.serve.keys import Keys
from clickvec.serve.limits import Settings, keeps_queries

READ, WRITE = (Keys((hashlib.sha256(key).digest(),)) for key in (b"reader", b"writer"))
MEASURED = Measured(
    "held-out clicks of clicks.tsv.gz", 500,
    [MeasuredRow("model", "NDCG@10", 61.3, 60.0, 62.5), MeasuredRow("BM25", "NDCG@10", 52.5)],
    titles=7000, speed=[Figure("search", 900, "queries/s")], note="Better than BM25.",
)  # fmt: skip


def test_about_tells_what_is_on(reading: Running) -> None:
    answer = reading.client.get("/about").json()
    assert answer["titles"] == len(reading.service.index)
    assert answer["model"] == reading.service.index.encoder.fingerprint
    assert answer["has_cells"] is True
    assert (answer["logs_clicks"], answer["keeps_queries"]) == (False, False)
    assert answer["keys"] == {"read": False, "write": False}
    assert answer["fields"] == [
        {"name": "country", "kind": "text", "values": 2, "minimum": None, "maximum": None},
        {"name": "words", "kind": "number", "values": answer["fields"][1]["values"], "minimum": 2.0, "maximum": 12.0},
    ]
    titles = [document.title for document in reading.service.index]
    assert all(any(title.startswith(text) for title in titles) for text in answer["examples"])
    assert len(answer["examples"]) == 5
    assert answer["limits"]["query_characters"] == 1000


def test_about_needs_the_key_for_reading(read_index: Path, tmp_path: Path) -> None:
    keys = Keys((b"x" * 32,))
    with running(read_index, tmp_path, read_keys=keys) as service:
        assert service.client.get("/about").status_code == 401


@pytest.mark.parametrize(
    ("settings", "is_kept"),
    [
        ({}, False),
        ({"log_queries": True}, True),
        ({"log_queries": True, "host": "0.0.0.0"}, False),  # everybody could read what others search
        ({"log_queries": True, "host": "0.0.0.0", "write_keys": Keys((b"x" * 32,))}, True),
        ({"log_queries": True, "read_keys": Keys((b"x" * 32,))}, False),  # nobody could read them
    ],
)
def test_queries_are_kept_only_if_asked_for_and_protected(settings: dict[str, object], is_kept: bool) -> None:
    values: dict[str, object] = {"index": Path("i"), "click_log": Path("c"), **settings}
    assert keeps_queries(Settings(**values)) is is_kept  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "key", "is_shown"),
    [
        ({}, "", True),  # only this machine can reach it
        ({"host": "0.0.0.0"}, "", False),
        ({"read_keys": READ}, "reader", False),
        ({"write_keys": WRITE}, "", False),
        ({"read_keys": READ, "write_keys": WRITE}, "reader", False),
        ({"read_keys": READ, "write_keys": WRITE}, "writer", True),
        ({"host": "0.0.0.0", "write_keys": WRITE}, "writer", True),
    ],
)
def test_the_doctor_is_for_those_who_may_write(
    read_index: Path, tmp_path: Path, settings: dict[str, Any], key: str, is_shown: bool
) -> None:
    (tmp_path / "doctor.json").write_text(json.dumps({"source": "log.tsv", "findings": []}))
    with running(read_index, tmp_path, about=tmp_path, **settings) as service:
        answer = service.client.get("/model", headers={"authorization": f"Bearer {key}"} if key else {})
    assert answer.status_code == 200
    assert (answer.json()["doctor"] is not None) is is_shown


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    folder = default_folder(tmp_path / "index")
    assert folder == tmp_path / "about"
    write_measured(folder, MEASURED)
    about = read_about(folder)
    assert about.measured == MEASURED
    assert (about.doctor, about.problems) == (None, [])


def test_findings_of_the_doctor_are_read(tmp_path: Path) -> None:
    from clickvec.doctor.finding import Finding, Plot

    plot = Plot("Clicks", "curve", ("1", "2"), (0.5, 1.0), "%", (0.1, 0.2), (0.9, 1.2), ("BM25", 0.7))
    finding = Finding("lines", "Lines", "3 lines", "Nothing to do.", {"lines": 3}, ("a\tb",), (plot,), act=True)
    examined = {"source": "log.tsv", "sample": "all lines", "seconds": 1.5, "findings": [finding.as_json()]}
    (tmp_path / "doctor.json").write_text(json.dumps(examined))
    about = read_about(tmp_path)
    assert about.doctor is not None
    assert json.loads(msgspec.json.encode(about.doctor))["findings"][0] == json.loads(json.dumps(finding.as_json()))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"data": 1}', b"\xff\xfe", b"[" * 100_000, b'{"queries": NaN}']
)
def test_a_damaged_file_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "measured.json").write_bytes(content)
    (tmp_path / "doctor.json").mkdir()
    about = read_about(tmp_path)
    assert about.measured is None
    measured, doctor = about.problems
    assert measured.startswith("measured.json is damaged: ")
    assert doctor.startswith("doctor.json cannot be read: ")


def test_a_folder_that_is_missing_is_a_sentence(tmp_path: Path) -> None:
    assert read_about(None).problems == []
    assert read_about(tmp_path / "nothing").problems == ["There is no folder nothing."]
