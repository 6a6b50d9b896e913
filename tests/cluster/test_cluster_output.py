"""What Ray prints does not mix with the results of the verbs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import run
from tiny import tiny_model

from clickvec.cluster import encoding, session


def test_messages_of_ray_do_not_reach_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray prints that a node was lost on standard output while it is connected and when it disconnects."""
    manifest = {"rows": 3, "shards": [], "skipped": 0}

    @contextmanager
    def connected(_: str) -> Iterator[None]:
        print("(raylet) The node has been marked dead")
        yield
        print("(raylet) one more message")

    monkeypatch.setattr(session, "connected", connected)
    monkeypatch.setattr(encoding, "encode_on_cluster", lambda *_, **__: manifest)
    (tmp_path / "titles.tsv").write_text("doc_id\ttitle\n1\tshower valve\n")
    done = run(
        "cluster", "encode", tiny_model(tmp_path / "model"), tmp_path / "titles.tsv", "--out", tmp_path / "v", "--json"
    )
    assert json.loads(done.out) == manifest
    assert done.err.count("(raylet)") == 2
