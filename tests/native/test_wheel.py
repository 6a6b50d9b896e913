"""The built wheel, without extras, in an empty environment: it encodes, indexes and searches; the rest says what to do.

Set-up has fetched the run-time dependencies as files into .wheels: nothing here reaches for the network.
"""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from command import sentence
from tiny import TEXTS, tiny_model

from clickvec import Encoder
from clickvec.native import lstm, words

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".wheels"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not any(WHEELS.glob("numpy-*.whl")), reason="no wheels in .wheels: run `make setup`"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    options = ("--no-build-isolation", "--no-deps", "--no-index", "-w", str(out))
    subprocess.run([*PIP, "wheel", *options, str(ROOT)], check=True, timeout=300)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bare(wheel: Path) -> Path:
    """The folder of the programs of an environment that holds the wheel and what it needs."""
    place = wheel.parent / "bare"
    venv.create(place, symlinks=True)  # without pip: ours installs into it
    python = str(place / "bin" / "python")
    options = ("--no-index", "--find-links", str(WHEELS), "--no-compile")
    subprocess.run([*PIP, "--python", python, "install", *options, str(wheel)], check=True, timeout=300)
    return place / "bin"


def there(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment, where the checkout is out of sight."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=clean, cwd=program.parents[1], timeout=300)


def test_what_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    packages = {name.split("/")[0] for name in names}
    assert packages == {"clickvec", next(name for name in packages if name.endswith(".dist-info"))}
    assert {"clickvec/py.typed", "clickvec/render/html/style.css"} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if "tests/" in name or name.endswith((".pyc", ".md"))]
    source = {
        str(path.relative_to(ROOT)) for kind in ("*.py", "*.c", "*.h") for path in (ROOT / "clickvec").rglob(kind)
    }
    source |= {str(path.relative_to(ROOT)) for path in (ROOT / "clickvec/serve/page").iterdir()}
    assert "clickvec/serve/page/index.html" in source
    assert source <= set(names)  # what is compiled is told by the hash of its C
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert sorted(line.split()[1].split(">")[0] for line in needed) == ["numpy", "rich", "typer"]


def test_it_encodes_indexes_and_searches_without_extras(bare: Path, tmp_path: Path) -> None:
    for module in ("torch", "matplotlib", "scipy"):
        assert "ModuleNotFoundError" in there(bare / "python", "-c", f"import {module}").stderr
    where = there(bare / "python", "-c", "import clickvec; print(clickvec.__file__)").stdout
    assert Path(where).is_relative_to(bare.parent)
    loaded = "from clickvec.native import lstm, words; print(bool(lstm.kernel()), bool(words.functions()))"
    assert there(bare / "python", "-c", loaded).stdout == f"{bool(lstm.kernel())} {bool(words.functions())}\n"
    model = tiny_model(tmp_path / "model")
    (tmp_path / "titles.txt").write_text("".join(f"{text}\n" for text in ["title", *TEXTS]))
    (tmp_path / "judged.tsv").write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n1\ta\t1\tb\t1\n")
    for arguments in [
        ("encode", model, tmp_path / "titles.txt", "--out", tmp_path / "vectors.npy"),
        ("index", model, tmp_path / "titles.txt", "--out", tmp_path / "index"),
        ("info", model, "--verify"),
        ("evaluate", model, "bm25", "--judged", tmp_path / "judged.tsv"),
        ("--help",),
    ]:
        done = there(bare / "clickvec", *arguments)
        assert done.returncode == 0, done.stderr
    encoder = Encoder.load(model)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), encoder.encode_document(TEXTS), atol=1e-6)
    found = there(bare / "clickvec", "search", tmp_path / "index", "hotels in shanghai", "-k", "3", "--mode", "vectors")
    assert found.returncode == 0, found.stderr
    cosines = encoder.similarity(encoder.encode_document(TEXTS), encoder.encode_query("hotels in shanghai"))
    best = np.argsort(-cosines)[:3]
    assert found.stdout.splitlines() == [f"{cosines[place]:.3f}  {place}  {TEXTS[place]}" for place in best]


def test_what_needs_an_extra_says_which(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("query\ttitle\na\tb\n")
    for arguments, module, extra in [
        (("train", tmp_path / "log.tsv", "--out", tmp_path / "m"), "torch", "train"),
        (("demo", "--out", tmp_path / "demo"), "torch", "all"),
    ]:
        done = there(bare / "clickvec", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        said = f"{module} is not installed; it comes with: pip install 'clickvec[{extra}]'"
        assert sentence(done.stderr) == said
    draw = (
        "from clickvec.render.figures.style import drawing; from pathlib import Path\n"
        "with drawing(Path('x.png'), 1, 1): pass"
    )
    done = there(bare / "python", "-c", draw)
    assert "matplotlib is not installed; it comes with: pip install 'clickvec[plot]'" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "m.run").exists()
    assert not (tmp_path / "demo").exists()
