"""The files of the web page: what is served, how it is cached, and that no request reaches another file."""

import json
from pathlib import Path

import pytest
from serving import Running, running

from clickvec.serve.keys import Keys
from clickvec.serve.page_files import read_page

PAGE = Path(__file__).parents[2] / "clickvec" / "serve" / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def test_every_file_of_the_page_is_served_as_what_it_is(reading: Running) -> None:
    paths = {"/" if file.name == "index.html" else f"/page/{file.name}": file for file in PAGE.iterdir()}
    assert set(paths) == set(read_page())
    for path, file in paths.items():
        answer = reading.client.get(path)
        assert (answer.status_code, answer.content) == (200, file.read_bytes())
        assert answer.headers["content-type"].partition(";")[0] == TYPES[file.suffix]
        head = reading.client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"]


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("br;q=1, GZIP;q=0.5", "gzip"), ("", None), ("identity", None), ("gzip;q=0", None), ("x", None)],
)
def test_files_are_compressed_for_those_who_take_that(reading: Running, accepted: str, encoding: str | None) -> None:
    answer = reading.client.get("/page/app.js", headers={"accept-encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding
    size = int(answer.headers["content-length"])
    assert (size < 0.6 * len(answer.content)) if encoding else (size == len(answer.content))
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.content == (PAGE / "app.js").read_bytes()


def test_a_browser_runs_only_our_own_files(reading: Running) -> None:
    headers = reading.client.get("/").headers
    (policy,) = headers.get_list("content-security-policy")  # a second one would hold too
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("condition", ["{}", '"x", {}', "*"])
def test_a_file_that_has_not_changed_is_not_sent_again(reading: Running, condition: str) -> None:
    etag = reading.client.get("/").headers["etag"]
    answer = reading.client.get("/", headers={"if-none-match": condition.replace("{}", etag)})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert answer.headers["cache-control"] == "no-cache"
    assert reading.client.get("/", headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/index.html", "/page/../page_files.py", "/page/%2e%2e/keys.py", "/page/..%2fkeys.py", "/page//etc/passwd",
        "/page/favicon.svg%00", "/page/FAVICON.svg", "/page/favicon.svg/", "/page", "/index.html", "/favicon.ico",
    ],
)  # fmt: skip
def test_no_other_path_is_a_file(reading: Running, path: str) -> None:
    answer = reading.client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_the_page_needs_no_key_and_is_counted_and_logged(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, read_keys=Keys((b"x" * 32,))) as service:
        etag = service.client.get("/").headers["etag"]
        assert service.client.get("/", headers={"if-none-match": etag}).status_code == 304
        assert service.client.put("/").status_code == 405
        assert service.client.get("/page/app.js").status_code == 200
        text = service.service.counters.text({})
    for status in (200, 304, 405):
        assert f'clickvec_requests_total{{endpoint="GET /",status="{status}"}} 1' in text
    lines = [json.loads(line) for line in (tmp_path / "access.jsonl").read_text().splitlines()]
    seen = [(line["endpoint"], line["status"]) for line in lines]
    assert seen == [*(("GET /", status) for status in (200, 304, 405)), ("GET /page/{name}", 200)]
