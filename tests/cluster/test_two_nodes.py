"""A real Ray cluster of two nodes on this machine, of which one is killed half-way: nothing is lost or doubled."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command import PROGRAM, check_tells, contents
from test_cluster_prepare import MEMORY, on_one_machine, write_logs
from tiny import TEXTS, tiny_model

from clickvec.cluster.encoding import encode_on_cluster
from clickvec.cluster.preparing import prepare_on_cluster
from clickvec.data.cleaning import Cleaning
from clickvec.data.parsing.columns import Columns
from clickvec.data.preparation import Preparation
from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder

pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ray = pytest.importorskip("ray", reason="Ray is not installed; it comes with: pip install 'clickvec[cluster]'")

from two_nodes import TwoNodes, two_nodes  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of Ray
    pytest.mark.xdist_group("ray"),
]
TITLES, SHARD = 12_000, 1_000


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    with two_nodes() as running:
        yield running


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """A catalogue in two files with row groups of 500 titles."""
    words = sorted({word for text in TEXTS for word in text.split()})
    rng = np.random.default_rng(3)
    titles = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(TITLES)]
    for part, rows in (("a", slice(0, 7_000)), ("b", slice(7_000, TITLES))):
        table = pyarrow.table({"doc_id": [f"d{k}" for k in range(TITLES)][rows], "title": titles[rows]})
        (tmp_path / "titles").mkdir(exist_ok=True)
        parquet.write_table(table, tmp_path / "titles" / f"{part}.parquet", row_group_size=500)
    return tmp_path / "titles"


def check_vectors(out: Path, catalogue: Path, model: Path) -> None:
    """Check that every title is there once, in order, with the vector that one process computes."""
    manifest = json.loads((out / "vectors.json").read_text())
    shards = [parquet.read_table(out / shard["file"]) for shard in manifest["shards"]]
    assert [shard.num_rows for shard in shards] == [shard["rows"] for shard in manifest["shards"]]
    written, read = pyarrow.concat_tables(shards), parquet.read_table(sorted(catalogue.iterdir()))
    assert manifest["rows"] == TITLES == len(set(written["id"].to_pylist()))
    assert written["id"].to_pylist() == read["doc_id"].to_pylist()
    assert written["title"].to_pylist() == read["title"].to_pylist()
    vectors = np.stack([np.concatenate([part.flatten() for part in written["vector"].chunks])]).reshape(TITLES, -1)
    expected = Encoder.load(model).encode_document(read["title"].to_pylist())
    np.testing.assert_array_equal(vectors, expected)
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["vectors.json", *(shard["file"] for shard in manifest["shards"])]
    )


def test_a_node_killed_while_preparing_loses_nothing(nodes: TwoNodes, tmp_path: Path) -> None:
    logs = write_logs(tmp_path / "logs", clients=True, times=True)
    settings = Preparation(8, 700, Cleaning(), memory=MEMORY)
    on_one_machine(logs, tmp_path / "one", settings)
    killed = []

    def kill(label: str, done: int, total: int | None, note: str = "") -> None:
        if label.startswith("read") and done == 3:
            nodes.kill_second()  # with the lines that are in its memory
            killed.append(done)

    prepare_on_cluster(ray, logs, tmp_path / "two", settings, Columns(), parts=5, progress=kill)
    nodes.add_second()
    assert killed == [3]
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_node_killed_while_encoding_loses_and_doubles_nothing(
    nodes: TwoNodes, catalogue: Path, tmp_path: Path
) -> None:
    model, killed = tiny_model(tmp_path / "model"), []

    def kill(label: str, done: int, total: int | None, note: str = "") -> None:
        if done == 4:
            nodes.kill_second()
            killed.append(total)

    files = sorted(catalogue.iterdir())
    encode_on_cluster(ray, model, files, tmp_path / "out", Columns(), shard_titles=SHARD, progress=kill)
    nodes.add_second()
    assert killed == [12]
    check_vectors(tmp_path / "out", catalogue, model)


def test_a_killed_command_is_resumed_and_finished_shards_are_left_alone(
    nodes: TwoNodes, catalogue: Path, tmp_path: Path
) -> None:
    model, out, files = tiny_model(tmp_path / "model"), tmp_path / "out", sorted(catalogue.iterdir())

    class KilledError(Exception):
        pass

    def kill(label: str, done: int, total: int | None, note: str = "") -> None:
        if done == 5:
            raise KilledError

    with pytest.raises(KilledError):
        encode_on_cluster(ray, model, files, out, Columns(), shard_titles=SHARD, progress=kill)
    time.sleep(1)  # tasks that had begun end
    done = [path.with_suffix(".parquet") for path in out.glob("shard-*.json")]
    assert len(done) == 5
    before = {path: path.stat().st_mtime_ns for path in done}
    with pytest.raises(ClickvecError) as error:
        encode_on_cluster(ray, model, files[:1], out, Columns(), shard_titles=SHARD)
    check_tells(str(error.value), "out", "another model, catalogue")
    encode_on_cluster(ray, model, files, out, Columns(), shard_titles=SHARD)
    assert {path: path.stat().st_mtime_ns for path in done} == before
    check_vectors(out, catalogue, model)
    with pytest.raises(ClickvecError) as error:
        encode_on_cluster(ray, model, files, out, Columns(), shard_titles=SHARD)
    check_tells(str(error.value), "out", "already", "--out")


def test_the_verbs_use_the_cluster_at_an_address(nodes: TwoNodes, catalogue: Path, tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    model, files = tiny_model(tmp_path / "model"), sorted(catalogue.iterdir())
    logs = write_logs(tmp_path / "logs", clients=True)

    def run(*arguments: str | Path, at: str = address) -> subprocess.CompletedProcess[str]:
        command = [*PROGRAM, "cluster", *map(str, arguments), "--address", at]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    done = run("encode", model, *files, "--out", tmp_path / "vectors", "--json")
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (0, TITLES), done.stderr
    check_vectors(tmp_path / "vectors", catalogue, model)
    done = run("prepare", *logs, "--out", tmp_path / "two", "--max-words", "8", "--max-trigrams", "700")
    assert done.returncode == 0, done.stderr
    on_one_machine(logs, tmp_path / "one", Preparation(8, 700, Cleaning(), memory=MEMORY, whole_words=True))
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    done = run("encode", model, logs[0], "--out", tmp_path / "no-ids")
    assert done.returncode == 1
    check_tells(done.stderr.splitlines()[-1], "log-0.parquet", "doc_id")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    done = run("encode", model, *files, "--out", tmp_path / "other")
    assert done.returncode == 1
    check_tells(done.stderr.splitlines()[-1], "other", "file", "--out")
    assert (tmp_path / "other" / "file").read_text() == "mine"
