"""Files that a stranger has made, well formed and wrong: each is used or refused in one sentence."""

import contextlib
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from child import run_script
from tiny import TEXTS, tiny_model

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fuzz

KINDS = [name for name in fuzz.formats() if name.endswith("well formed")]
CASES = 12


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("faiss")
    at = tmp_path_factory.mktemp("good")
    tiny_model(at / "model", cells=16)
    titles = "".join(f"d{number}\t{title}\t/{number}\n" for number, title in enumerate(TEXTS))
    (at / "titles.tsv").write_text("doc_id\ttitle\turl\n" + titles)
    fuzz.make_indexes(at)
    return at


@pytest.mark.parametrize("name", KINDS)
def test_a_well_formed_hostile_file_is_used_or_refused(name: str, good: Path, tmp_path: Path) -> None:
    for number in range(CASES):
        outcome = fuzz.one_case(good, tmp_path / "at", name, f"test-{name}-{number}")
        assert outcome in ("accepted", "refused"), (number, outcome)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak of memory")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET title = zeroblob(900000000) WHERE seq = 1",
        "UPDATE documents SET payload = zeroblob(900000000) WHERE seq = 1",
        "UPDATE state SET value = zeroblob(900000000)",
    ],
)
def test_a_huge_value_takes_little_memory(statement: str, good: Path, tmp_path: Path) -> None:
    """SQLite would read the value whole, and Python copy it. The process may take 1 GB in all."""
    shutil.copytree(good / "index", tmp_path / "index")
    with contextlib.closing(sqlite3.connect(tmp_path / "index" / "documents.sqlite")) as database, database:
        database.execute(statement)
    run_script(
        """
        import sys
        from pathlib import Path
        from clickvec.errors import ClickvecError
        from clickvec.search.index import Index

        try:
            with Index.open(sys.argv[1]) as index:
                index.search("hotels")
                list(index)
        except ClickvecError as error:
            assert "documents.sqlite" in str(error), error
        else:
            sys.exit("it was read")
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
        assert peak < 1_000_000, f"{peak} KB"
        """,
        tmp_path / "index",
    )
