"""Errors: the request is wrong (422) or the service cannot do it now (503), by type; no answer names a path."""

import errno
import os
from pathlib import Path

import pytest
from serving import running
from test_refusals import error

from clickvec.errors import ClickvecError, DiskFullError, UnavailableError
from clickvec.search.segments.segment import DamagedSegmentError
from clickvec.serve import click_log
from clickvec.serve.supervisor import why_read_only


@pytest.mark.parametrize("written", [0, OSError(errno.ENOSPC, "No space left on device", "/srv/secret")])
def test_a_click_on_a_full_disk_is_503(
    written: int | OSError, read_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(file: int, data: bytes) -> int:
        if isinstance(written, OSError):
            raise written
        return written

    with running(read_index, tmp_path) as service:
        monkeypatch.setattr(click_log.os, "write", write)
        answer = service.post("/click", {"query": "hotels", "clicked": ["t0"]})
        monkeypatch.undo()
    assert error(answer) == (503, "unavailable", "The service cannot do this now; its disk is full.")


def test_a_filter_whose_field_holds_a_path_of_the_index_is_422(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        for name in ("documents.sqlite", "segments", "lock"):
            answer = service.post("/search", {"query": "hotels", "where": {f"{write_index}/{name}": {"like": "x"}}})
            assert error(answer)[:2] == (422, "invalid_request")


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (ClickvecError("k is 0"), 422),
        (ClickvecError("the disk is full of damaged segments"), 422),
        (UnavailableError("PATH is locked"), 503),
        (DamagedSegmentError("PATH/segments is damaged"), 503),
        (DiskFullError("cannot write PATH"), 503),
        (ClickvecError("PATH/other is what the request may not know, as is FOLDER"), 422),
        (OSError(errno.EIO, "PATH"), 503),
    ],
)
def test_the_type_of_an_error_decides_and_paths_stay_here(
    raised: Exception, status: int, write_index: Path, tmp_path: Path
) -> None:
    texts = [str(part).replace("PATH", str(write_index)).replace("FOLDER", str(tmp_path)) for part in raised.args]

    def fail(*_: object, **__: object) -> None:
        raise type(raised)(*(raised.args[:1] if isinstance(raised, OSError) else ()), texts[-1])

    with running(write_index, tmp_path) as service:
        service.service.index.search = fail  # type: ignore[method-assign, assignment]
        answer = service.post("/search", {"query": "hotels"})
        assert answer.status_code == status, answer.text
        assert str(write_index) not in answer.text
        assert str(tmp_path) not in answer.text
        assert ("disk is full." in answer.text) == isinstance(raised, DiskFullError)


def test_a_service_that_only_reads_does_not_name_its_folder(
    write_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with running(write_index, tmp_path, read_only=why_read_only(write_index)) as service:
        answers = [service.post("/documents", {"documents": []}), service.client.delete("/documents/t0")]
    for answer in answers:
        assert error(answer)[0] == 403
        assert "only reads index" in answer.text
        assert str(write_index.parent) not in answer.text


def test_no_answer_holds_a_path_of_the_server(read_index: Path, tmp_path: Path) -> None:
    paths = ["/about", "/model", "/topics", "/map", "/metrics", "/openapi.json", "/readyz", "/v1/models", "/queries"]
    with running(read_index, tmp_path) as service:
        for path in paths:
            answer = service.client.get(path)
            for folder in (read_index.parent, tmp_path, Path.home(), Path(os.getcwd())):
                assert str(folder) not in answer.text, path
