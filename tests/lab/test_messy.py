"""The log with planted trouble: the truth file says exactly what the impressions hold."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clickvec.cli.app import app
from clickvec.errors import ClickvecError
from clickvec.lab import simulate
from clickvec.lab.simulate import MessySummary, Site

Rows = list[list[str]]


@pytest.fixture(scope="module")
def site() -> Site:
    return Site.build(0)


@pytest.fixture(autouse=True)
def built(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare `write_messy` the building of the site."""
    monkeypatch.setattr(Site, "build", lambda seed=0: site)


@pytest.fixture(scope="module")
def folder(site: Site, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MessySummary]:
    out = tmp_path_factory.mktemp("messy") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "build", lambda seed=0: site)
        return out, simulate.write_messy(out, 300_000)


@pytest.fixture(scope="module")
def rows(folder: tuple[Path, MessySummary]) -> Rows:
    return read(folder[0])


@pytest.fixture(scope="module")
def truth(folder: tuple[Path, MessySummary]) -> dict[str, Any]:
    return dict(json.loads((folder[0] / "truth.json").read_text(encoding="utf-8")))


def read(folder: Path) -> Rows:
    with gzip.open(folder / "impressions.tsv.gz", "rt", encoding="utf-8", newline="\n") as lines:
        assert next(lines) == "time\tclient\tquery\ttitle\tposition\tclicked\n"
        return [line.removesuffix("\n").split("\t") for line in lines]


def test_the_summary_counts_what_is_there(folder: tuple[Path, MessySummary], rows: Rows, truth: dict[str, Any]) -> None:
    summary = folder[1]
    assert summary.impressions == len(rows) == 300_000
    assert summary.clicks == sum(row[5] == "1" for row in rows)
    assert summary.bots == len(truth["bots"]) > 3
    assert summary.bot_impressions == sum(row[1] in truth["bots"] for row in rows) > 0.05 * len(rows)
    assert (summary.secrets, summary.decoys) == (len(truth["secrets"]), len(truth["decoys"]))
    assert summary.misspelled_queries == len(truth["misspelled"])
    assert all(int(a[0]) <= int(b[0]) for a, b in pairwise(rows))


def test_bots_are_faster_than_any_person(rows: Rows, truth: dict[str, Any]) -> None:
    per_minute = Counter((row[1], int(row[0]) // 60) for row in rows if row[4] == "1")
    fastest: dict[str, int] = {}
    for (client, _), views in per_minute.items():
        fastest[client] = max(views, fastest.get(client, 0))
    views = Counter(row[1] for row in rows if row[4] == "1")
    bots = {client for client in truth["bots"] if views[client] > 60}  # the last ones may be cut short
    assert min(fastest[client] for client in bots) > 20
    assert max(fastest[client] for client in fastest if client not in truth["bots"]) <= 12
    assert {truth["bots"][client] for client in bots} == {"scraper", "clicker", "promoter"}
    assert all(views[client] > 30 for client in truth["busy_clients"][:1])


def test_secrets_decoys_and_misspellings_are_typed_queries(rows: Rows, truth: dict[str, Any]) -> None:
    typed = {row[2] for row in rows}
    for planted in (*truth["secrets"], *truth["decoys"]):
        assert planted["query"] in typed
        assert planted["number"] in planted["query"]
    assert {secret["kind"] for secret in truth["secrets"]} == {"email", "card", "ssn", "phone"}
    assert {decoy["kind"] for decoy in truth["decoys"]} == {"decoy"}
    assert truth["misspelled"].keys() <= typed
    assert len(truth["secrets"]) == pytest.approx(0.005 * 27_000, rel=0.3)
    assert len(truth["decoys"]) == pytest.approx(0.01 * 27_000, rel=0.3)


def test_clicks_fall_with_position_and_a_title_is_seen_at_several(rows: Rows, truth: dict[str, Any]) -> None:
    people = [row for row in rows if row[1] not in truth["bots"]]
    clicks = Counter(int(row[4]) for row in people if row[5] == "1")
    assert clicks[1] > 1.5 * clicks[2] > 2 * clicks[6]
    places: dict[tuple[str, str], set[str]] = {}
    for row in people:
        places.setdefault((row[2], row[3]), set()).add(row[4])
    assert sum(len(seen) > 1 for seen in places.values()) > 5_000
    assert truth["propensities"] == [1 / position for position in range(1, 11)]


def test_a_short_log_is_the_beginning_of_a_longer_one(tmp_path: Path, rows: Rows) -> None:
    summary = simulate.write_messy(tmp_path / "short", 1_234)
    assert read(tmp_path / "short") == rows[:1_234]
    truth = json.loads((tmp_path / "short" / "truth.json").read_text(encoding="utf-8"))
    seen, typed = {row[1] for row in rows[:1_234]}, {row[2] for row in rows[:1_234]}
    assert truth["bots"].keys() <= seen
    assert {planted["query"] for planted in (*truth["secrets"], *truth["decoys"])} <= typed
    assert summary.impressions == 1_234


def test_no_impressions_and_another_seed(tmp_path: Path) -> None:
    assert simulate.write_messy(tmp_path / "none", 0) == MessySummary(0, 0, 0, 0, 0, 0, 0)
    assert read(tmp_path / "none") == []
    simulate.write_messy(tmp_path / "a", 500, seed=1)
    simulate.write_messy(tmp_path / "b", 500, seed=1)
    simulate.write_messy(tmp_path / "c", 500, seed=2)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [
        "dev.tsv.gz", "impressions.tsv.gz", "test.tsv.gz", "titles.tsv.gz", "topics.tsv.gz", "truth.json",
    ]  # fmt: skip
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    assert read(tmp_path / "a") != read(tmp_path / "c")


def test_a_clean_log_replaces_a_messy_one_and_other_files_are_left_alone(tmp_path: Path) -> None:
    simulate.write_messy(tmp_path / "out", 100)
    simulate.write(tmp_path / "out", 100)
    assert not (tmp_path / "out" / "truth.json").exists()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ClickvecError, match=r"contains mine\.txt, which is not part of a simulated log"):
        simulate.write_messy(tmp_path / "out", 100)
    with pytest.raises(ClickvecError, match="cannot be negative"):
        simulate.write_messy(tmp_path / "other", -1)
    assert not (tmp_path / "other").exists()


def test_the_verb(tmp_path: Path) -> None:
    run = CliRunner()
    result = run.invoke(app, ["lab", "simulate", str(tmp_path / "out"), "--messy", "--impressions", "50", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["impressions"] == 50
    assert (tmp_path / "out" / "truth.json").exists()
    result = run.invoke(app, ["lab", "simulate", str(tmp_path / "no"), "--messy", "--no-log"])
    assert result.exit_code == 2
    assert not (tmp_path / "no").exists()
