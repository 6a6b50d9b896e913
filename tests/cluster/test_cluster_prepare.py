"""A data folder made on a cluster has the bytes of one made by DuckDB on one machine."""

import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import check_tells, contents

from clickvec.cluster.preparing import prepare_on_cluster
from clickvec.cluster.session import connected
from clickvec.cluster.shuffled_lines import part_of
from clickvec.data.cleaning import Cleaning
from clickvec.data.events import Events
from clickvec.data.logs import read_events
from clickvec.data.parsing.columns import Columns
from clickvec.data.parsing.lines import BadLines
from clickvec.data.preparation import Preparation, write_data_folder
from clickvec.errors import ClickvecError

pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MEMORY = 600_000_000


class HereAndNow:
    """Stands for ray: runs each task at once, in this process."""

    def remote(self, num_returns: int = 1, **_: object) -> Callable[[Callable[..., Any]], Any]:
        def decorate(function: Callable[..., Any]) -> Any:  # noqa: ANN401
            return type("Task", (), {"remote": staticmethod(function)})

        return decorate

    def get(self, done: object) -> object:
        return done

    def wait(self, tasks: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return tasks[-1:], tasks[:-1]  # the last one first: the order must not matter

    def cancel(self, task: object) -> None:
        raise AssertionError(task)


def write_logs(folder: Path, **columns: bool) -> list[Path]:
    """Write a log of 6,000 lines in four Parquet files, with the columns that are wanted."""
    rng = np.random.default_rng(5)
    words = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "prst"]
    titles = [" ".join(rng.choice(words, rng.integers(1, 13))) for _ in range(900)]
    queries = [" ".join(rng.choice(words, rng.integers(1, 4))) for _ in range(400)]
    queries += [f"mail user{k}@example.org" for k in range(40)] + ["", "ÄRGER  Straße", "ärger straße", "上海 酒店"]
    folder.mkdir()
    paths = []
    for number, size in enumerate((2500, 1, 3000, 499)):
        asked, shown = (len(queries) * rng.random(size) ** 2).astype(int), (900 * rng.random(size) ** 2).astype(int)
        table = {"query": [queries[k] for k in asked], "title": [titles[k] for k in shown]}
        table["clicks"] = rng.choice([1.0, 2.0, 0.1, 0.7], size) if columns.get("floats") else np.ones(size)
        if columns.get("impressions"):
            table["clicks"] *= rng.random(size) < 0.3
        if columns.get("clients") or (columns.get("some_clients") and number == 2):
            table["client"] = [f"c{k}" if k else "" for k in rng.integers(0, 60, size)]
        if columns.get("times") or (columns.get("some_times") and number):
            table["time"] = 1_700_000_000 + rng.integers(0, 40_000, size)
        if columns.get("positions"):
            table["position"] = rng.integers(1, 11, size)
        paths.append(folder / f"log-{number}.parquet")
        parquet.write_table(pyarrow.table(table), paths[-1])
    return paths


LOGS = {
    "clicks alone": {},
    "clients and times": {"clients": True, "times": True},
    "clients in one file, times in three": {"some_clients": True, "some_times": True},
    "floats": {"floats": True, "clients": True},
    "impressions": {"impressions": True, "clients": True, "times": True},
    "impressions with positions": {"impressions": True, "positions": True, "times": True},
}
RULES: dict[str, dict[str, Any]] = {
    "default": {},
    "strict": {"k_anonymous": 5, "merge_minutes": 240, "max_query_words": 2, "min_clicks": 3},
    "none": {"k_anonymous": 0, "merge_minutes": 0, "keep_secrets": True},
}


def on_one_machine(logs: list[Path], out: Path, settings: Preparation) -> object:
    bad = BadLines()
    return write_data_folder(read_events(logs, bad=bad), out, settings, lambda _: None)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("log", LOGS)
def test_the_folder_is_that_of_duckdb_byte_for_byte(log: str, rules: str, tmp_path: Path) -> None:
    logs = write_logs(tmp_path / "logs", **LOGS[log])
    settings = Preparation(8, 700, Cleaning(**RULES[rules]), memory=MEMORY, hold_out=log == "clients and times")
    one = on_one_machine(logs, tmp_path / "one", settings)
    for parts in (1, 7):
        many = prepare_on_cluster(HereAndNow(), logs, tmp_path / f"many{parts}", settings, Columns(), parts=parts)
        assert contents(tmp_path / f"many{parts}") == contents(tmp_path / "one")
        assert many.dropped == one.dropped


def test_every_query_has_one_part_in_every_process() -> None:
    assert [part_of(text, 8) for text in ("", "shoe", "上海 酒店", "\ud800")] == [0, 1, 3, 0]


def test_events_keep_the_numbers_of_their_lines() -> None:
    events = Events(["a", "b"], ["x", "y"], np.ones(2), lines=np.array([5, 9]))
    assert events.where(np.array([False, True])).lines.tolist() == [9]


def refusal(logs: list[Path], out: Path, rules: Cleaning | None = None, **options: Any) -> str:  # noqa: ANN401
    settings = Preparation(8, 700, rules or Cleaning(), memory=MEMORY)
    with pytest.raises(ClickvecError) as error:
        prepare_on_cluster(HereAndNow(), logs, out, settings, **({"columns": Columns()} | options))
    assert not out.exists()
    return str(error.value)


def test_what_a_cluster_cannot_do_is_refused(tmp_path: Path) -> None:
    logs, out = write_logs(tmp_path / "logs", clients=True, times=True), tmp_path / "data"
    check_tells(refusal(logs, out, Cleaning(max_per_hour=9)), "cluster", "searches per hour")
    check_tells(refusal([Path("-")], out), "-", "every node")
    check_tells(refusal(logs, out, Cleaning(k_anonymous=1000)), "no click", "--k-anonymous")
    check_tells(refusal(logs, out, columns=Columns({"query": "term"})), "term")
    parquet.write_table(pyarrow.table({"query": ["a"] * 9, "title": ["b"] * 9, "clicks": ["x"] * 9}), logs[1])
    check_tells(refusal(logs[1:2], out), "log-1.parquet")


def test_a_missing_ray_and_a_missing_cluster_are_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(address: str) -> str:
        with pytest.raises(ClickvecError) as error, connected(address):
            raise AssertionError(address)
        return str(error.value)

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    if find_spec("ray"):
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            check_tells(said(address), "no Ray cluster", address, "ray start --head")
    monkeypatch.setitem(sys.modules, "ray", None)
    check_tells(said("auto"), "ray is not installed", "clickvec[cluster]")
