"""`clickvec prepare`: what is dropped is told, a large log goes through DuckDB, and another log can be appended."""

import json
from pathlib import Path

import pytest
from command import SMALL, check_tells, contents, ok, refused, run, wrong_usage

from clickvec.data import held_out

HEADER = "time\tclient\tquery\ttitle\tposition\tclicked\n"


def write_log(path: Path, lines: list[tuple[object, ...]]) -> Path:
    path.write_text(HEADER + "".join("\t".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path


def searches(day: int = 0) -> list[tuple[object, ...]]:
    """Three clients with common queries, one with a private one, and a bot."""
    start = 86_400 * day
    lines: list[tuple[object, ...]] = [
        (start + 60 * k, client, f"Hotel {k}", f"title {k}", 1, 1) for client in ("ann", "bob", "eve") for k in range(5)
    ]
    lines.append((start, "ann", "my secret", "title 1", 1, 1))
    lines += [(start + k, "bot", "hotel 1", f"title {k}", 1, 1) for k in range(30)]
    return lines


def test_what_is_dropped_is_told(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv", searches())
    done = run("prepare", log, "--out", tmp_path / "data", "--max-per-hour", "20", "--json")
    assert done.status == 0
    facts = json.loads(done.out)
    assert facts["queries"] == 5
    assert facts["dropped"]["max_per_hour"] == {"lines": 30, "queries": 0}
    assert facts["dropped"]["k_anonymous"] == {"lines": 1, "queries": 1}
    check_tells(done.err, "--max-per-hour: 30 lines", "--k-anonymous: 1 lines; 1 queries")
    assert (tmp_path / "data" / "queries.txt").read_text() == "".join(f"hotel {k}\n" for k in range(5))


def test_lists_and_limits(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.tsv", searches())
    (tmp_path / "queries").write_text("HOTEL  2\n\n")
    (tmp_path / "clients").write_text("bot\n")
    lists = "--drop-queries", tmp_path / "queries", "--drop-clients", tmp_path / "clients"
    facts = json.loads(ok("prepare", log, "--out", tmp_path / "data", *lists, "--json"))
    assert facts["queries"] == 4
    assert facts["dropped"]["drop_clients"] == {"lines": 30, "queries": 0}
    check_tells(
        refused("prepare", log, "--out", tmp_path / "x", "--min-clicks", "1000"),
        "no click",
        "--min-clicks",
        "; 0 keeps all",
    )
    check_tells(refused("prepare", log, "--out", tmp_path / "x", "--drop-clients", tmp_path / "absent"), "absent")
    assert not (tmp_path / "x").exists()


def test_secrets_are_masked_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\nmail ann@example.com\tx\n")
    for option, text in (((), "mail <email>\n"), (("--keep-secrets",), "mail ann@example.com\n")):
        ok("prepare", log, "--out", tmp_path / "data", "--overwrite", *option)
        assert (tmp_path / "data" / "queries.txt").read_text() == text


def test_memory_changes_nothing_but_the_memory(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    log = write_log(tmp_path / "log.tsv", searches())
    ok("prepare", log, "--out", tmp_path / "expected")
    ok("prepare", log, "--out", tmp_path / "data", "--memory", "1.5GB")
    assert contents(tmp_path / "data") == contents(tmp_path / "expected")
    check_tells(refused("prepare", log, "--out", tmp_path / "x", "--memory", "1 MB"), "1 MB", "at least 500 MB")
    check_tells(wrong_usage("prepare", log, "--out", tmp_path / "x", "--memory", "much"), "much", "2GB")


def test_tomorrows_log_is_appended(tmp_path: Path) -> None:
    today, tomorrow = write_log(tmp_path / "a.tsv", searches()), write_log(tmp_path / "b.tsv", searches(1))
    data = tmp_path / "data"
    ok("prepare", today, tomorrow, "--out", tmp_path / "both", "--max-words", "5")
    ok("prepare", today, "--out", data, "--max-words", "5")
    check_tells(refused("prepare", tomorrow, "--out", data), "--overwrite", "--append")
    check_tells(wrong_usage("prepare", tomorrow, "--out", data, "--append", "--overwrite"), "--append")
    check_tells(refused("prepare", tomorrow, "--out", tmp_path / "absent", "--append"), "absent", "leave out --append")
    ok("prepare", tomorrow, "--out", data, "--append")
    assert contents(data) == contents(tmp_path / "both")


def test_held_out_parts_measure_a_model_that_is_trained_on_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\n" + "".join(f"query {k}\ttitle {k} {k % 7}\n" for k in range(60)))
    done = run("prepare", log, "--out", tmp_path / "all", "--hold-out")
    check_tells(done.err, "No clicks are held out", "500")
    monkeypatch.setattr(held_out, "FEWEST", 5)
    ok("prepare", log, "--out", tmp_path / "data", "--hold-out")
    parts = [(tmp_path / "data" / name).read_text().splitlines()[1:] for name in ("dev.tsv", "test.tsv")]
    texts = (tmp_path / "data" / "queries.txt").read_text().splitlines()
    assert sorted([line.split("\t")[0] for part in parts for line in part] + texts) == sorted(
        f"query {k}" for k in range(60)
    )
    facts = json.loads(ok("train", tmp_path / "data", "--out", tmp_path / "model", *SMALL, "--json"))
    assert facts["held_out"]["queries"] == len(parts[1]) > 0
    assert facts["held_out"]["titles"] == 60
