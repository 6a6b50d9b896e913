"""API keys: who may read, who may write, and what is stored of a key."""

import os
from pathlib import Path

import pytest
from serving import Running, running

from clickvec.errors import ClickvecError
from clickvec.serve.keys import Keys, new_key, read_keys


def statuses(service: Running, key: str | None) -> list[int]:
    headers = {"authorization": f"Bearer {key}"} if key is not None else {}
    return [
        service.post("/search", {"query": "new york"}, headers=headers).status_code,
        service.client.get("/metrics", headers=headers).status_code,
        service.client.delete("/documents/no-such-id", headers=headers).status_code,
        service.client.get("/healthz", headers=headers).status_code,
    ]


def test_keys_for_reading_and_writing(read_index: Path, tmp_path: Path) -> None:
    reader, writer = new_key(tmp_path / "read"), new_key(tmp_path / "write")
    readers, writers = (read_keys(tmp_path / name, "", None) for name in ("read", "write"))
    with running(read_index, tmp_path, read_keys=readers, write_keys=writers) as service:
        assert statuses(service, None) == [401, 401, 401, 200]
        assert statuses(service, "wrong") == [401, 401, 401, 200]
        assert statuses(service, reader) == [200, 200, 403, 200]
        assert statuses(service, writer) == [200, 200, 404, 200]
        basic = service.client.get("/metrics", headers={"authorization": f"Basic {reader}"})
        assert basic.status_code == 401
        assert basic.headers["www-authenticate"].startswith("Bearer")
    with running(read_index, tmp_path, read_keys=readers) as service:
        assert statuses(service, reader) == [200, 200, 403, 200]
    with running(read_index, tmp_path, write_keys=writers) as service:
        assert statuses(service, None) == [200, 200, 401, 200]
        assert statuses(service, writer) == [200, 200, 404, 200]


def test_a_key_file_holds_hashes_that_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first = new_key(path)
    path.write_text(path.read_text().rstrip("\n"))  # as some editors do
    second = new_key(path)
    assert first not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    keys = read_keys(path, "VARIABLE", "k" * 24)
    assert first in keys
    assert second in keys
    assert "k" * 24 in keys
    assert first[:-1] not in keys
    assert not Keys()


def test_a_key_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# kept\n")
    path.chmod(0o666)
    with path.open() as held:  # as a stranger may have it open
        key = new_key(path)
        assert held.read() == "# kept\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().startswith("# kept\n")
    assert key in read_keys(path, "", None)


def test_a_key_file_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    target.write_text("something\n")
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path):
        with pytest.raises(ClickvecError, match=r"link|regular|folder"):
            new_key(path)
    assert target.read_text() == "something\n"


def test_a_key_is_not_written_to_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"there is no folder .*nodir for the keys"):
        new_key(tmp_path / "nodir" / "key")
    assert not (tmp_path / "nodir").exists()


def test_bad_key_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# only a comment\n")
    with pytest.raises(ClickvecError, match="holds no key"):
        read_keys(path, "", None)
    path.write_text("a plain key\n")
    with pytest.raises(ClickvecError, match=r"keys:1.*SHA-256"):
        read_keys(path, "", None)
    with pytest.raises(ClickvecError, match=r"VARIABLE.*0 characters"):
        read_keys(None, "VARIABLE", "")
    with pytest.raises(ClickvecError, match=r"VARIABLE.*5 characters"):
        read_keys(None, "VARIABLE", "short")
