"""The guard: whatever a verb writes goes neither into a folder of ours nor over what it reads."""

import inspect
import shutil
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from command import SMALL, contents, ok, program, run
from tiny import TEXTS, tiny_model

from clickvec import Encoder, Index
from clickvec.cli import app, index_verbs
from clickvec.errors import ClickvecError
from clickvec.storage.files import replacing, replacing_file
from clickvec.storage.outputs import check_output, kind_of

OUTPUTS = ("out", "html", "png", "run")  # the parameters of verbs that name an output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, another model, an index, a data folder and plain files."""
    at = tmp_path_factory.mktemp("outputs")
    tiny_model(at / "model")
    tiny_model(at / "other", seed=1)
    Index.build(Encoder.load(at / "model"), TEXTS).save(at / "index")
    (at / "titles.tsv").write_text("doc_id\ttitle\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS)))
    rows = (f"q\t{TEXTS[0]}\t{i}\t{text}\t{int(i < 2)}\n" for i, text in enumerate(TEXTS))
    (at / "judged.tsv").write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n" + "".join(rows))
    (at / "clicks.tsv").write_text("query\ttitle\n" + "".join(f"{t}\t{t} page\n" for t in TEXTS))
    ok("prepare", at / "clicks.tsv", "--out", at / "data")
    return at


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


def commands(at: Path, out: Path) -> dict[tuple[str, str], list[str | Path]]:
    """A command for each verb and each of its outputs, which would succeed if the output were elsewhere."""
    model, index, judged = at / "model", at / "index", at / "judged.tsv"
    sets = ["--clicks", at / "clicks.tsv", "--dev", judged, "--test", judged]
    return {
        ("simulate", "out"): ["simulate", out, "--impressions", "100", "--overwrite"],
        ("doctor", "html"): ["doctor", at / "clicks.tsv", "--html", out, "--overwrite"],
        ("prepare", "out"): ["prepare", at / "clicks.tsv", "--out", out, "--overwrite"],
        ("train", "out"): ["train", at / "data", "--dev", judged, "--out", out, "--overwrite", *SMALL],
        ("evaluate", "run"): ["evaluate", model, "--judged", judged, "--run", out],
        ("compare", "out"): ["compare", *sets, "--systems", "bm25", "--out", out],
        ("shrink", "out"): ["shrink", model, "--out", out, "--overwrite"],
        ("encode", "out"): ["encode", model, at / "titles.tsv", "--out", out, "--overwrite"],
        ("index", "out"): ["index", model, at / "titles.tsv", "--out", out, "--overwrite"],
        ("explain", "html"): ["explain", index, TEXTS[0], "--against", at / "other", "--html", out, "--overwrite"],
        ("explain", "png"): ["explain", model, TEXTS[0], TEXTS[1], "--png", out, "--overwrite"],
        ("report", "out"): ["report", model, "--judged", judged, "--out", out, "--overwrite"],
        ("demo", "out"): ["demo", "--out", out],
        ("export", "out"): ["export", index, "--for", "opensearch", "--out", out],
        ("up", "out"): ["up", at / "clicks.tsv", "--out", out, "--no-serve"],
    }


def test_the_table_of_commands_has_every_output_of_every_verb() -> None:
    found = set()
    verbs = [("", command) for command in app.app.registered_commands]
    verbs += [("index", command) for command in index_verbs.app.registered_commands]  # build, add, delete
    for group, command in verbs:
        assert command.callback is not None
        hints = get_type_hints(command.callback)
        for name in inspect.signature(command.callback).parameters:
            if name in OUTPUTS and Path in (hints[name], *get_args(hints[name])):
                found.add((group or command.callback.__name__, name))
    assert found == set(commands(Path(), Path()))


@pytest.mark.parametrize("verb", commands(Path(), Path()), ids="-".join)
@pytest.mark.parametrize("folder", ["model", "other", "index", "index/models", "data"])
def test_no_verb_writes_into_a_folder_of_ours(place: Path, verb: tuple[str, str], folder: str) -> None:
    before = contents(place)
    suffix = {"png": ".png", "html": ".html"}.get(verb[1], ".npy" if verb[0] == "encode" else "")
    for out in (place / folder / f"new{suffix}", place / folder / "deeper" / f"new{suffix}"):
        done = run(*commands(place, out)[verb])
        assert done.status == 1, done
        assert "choose" in done.err
        assert str(out) in done.err
    assert contents(place) == before


@pytest.mark.parametrize("verb", commands(Path(), Path()), ids="-".join)
def test_no_verb_replaces_a_file_of_a_folder_of_ours(place: Path, verb: tuple[str, str]) -> None:
    before = contents(place)
    for file in ("model/weights.safetensors", "other/config.json", "index/documents.sqlite", "data/data.json"):
        done = run(*commands(place, place / file)[verb])
        assert done.status in (1, 2), done  # 2: a --png that does not end in .png
    assert contents(place) == before


OWN = {"prepare": "data", "train": "model", "shrink": "model", "index": "index"}  # what a verb may overwrite


@pytest.mark.parametrize("verb", commands(Path(), Path()), ids="-".join)
@pytest.mark.parametrize("folder", ["model", "index", "data"])
def test_no_verb_replaces_a_folder_of_another_kind_or_one_that_it_reads(
    place: Path, verb: tuple[str, str], folder: str
) -> None:
    if OWN.get(verb[0]) == folder and verb[0] != "shrink":  # shrink would replace the model that it reads
        return
    before = contents(place)
    done = run(*commands(place, place / folder)[verb])
    assert done.status in (1, 2), done
    assert contents(place) == before


@pytest.mark.parametrize("verb", [key for key in commands(Path(), Path()) if key[0] not in ("simulate", "demo")])
def test_no_verb_replaces_a_file_that_it_reads(place: Path, verb: tuple[str, str]) -> None:
    before = contents(place)
    for file in ("clicks.tsv", "judged.tsv", "titles.tsv"):
        done = run(*commands(place, place / file)[verb])
        if done.status == 0:  # it was told to overwrite a file that it does not read
            assert verb == ("explain", "html") or (verb == ("doctor", "html") and file != "clicks.tsv")
            (place / file).write_bytes(before[file])
        else:
            assert done.status in (1, 2), done
    assert contents(place) == before


def test_an_index_is_not_rebuilt_over_the_model_that_is_read_from_it(place: Path) -> None:
    before = contents(place)
    (model,) = (place / "index" / "models").iterdir()
    done = run("index", model, place / "titles.tsv", "--out", place / "index", "--overwrite")
    assert done.status == 1
    assert "which this command reads" in done.err
    assert contents(place) == before


def test_a_link_into_a_folder_of_ours_is_seen_through(place: Path) -> None:
    (place / "harmless").symlink_to(place / "model")
    (place / "page.html").symlink_to(place / "model" / "config.json")
    before = contents(place / "model")
    assert run(*commands(place, place / "harmless" / "x.npy")["encode", "out"]).status == 1
    assert run(*commands(place, place / "page.html")["explain", "html"]).status == 1
    assert contents(place / "model") == before


def test_every_writer_of_the_library_has_the_guard(place: Path) -> None:
    inside = pytest.raises(ClickvecError, match="choose an output outside of it")
    with inside, replacing_file(place / "model" / "x"):
        pass
    with inside, replacing(place / "index" / "x", "config.json"):
        pass


def test_a_folder_with_a_config_that_is_not_ours_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")  # as many projects have one
    assert kind_of(tmp_path) is None
    check_output(tmp_path / "vectors.npy")


def test_what_is_elsewhere_is_written(place: Path) -> None:
    for key, command in commands(place, place / "new").items():
        if key[0] in ("encode", "index", "shrink", "evaluate"):
            ok(*command)
            assert (place / "new").exists()
            shutil.rmtree(place / "new") if (place / "new").is_dir() else (place / "new").unlink()


def test_a_program_that_is_refused_leaves_nothing(place: Path) -> None:
    before = sorted(place.rglob("*"))
    done = program(*commands(place, place / "model" / "new")["train", "out"])
    assert done.returncode == 1
    assert sorted(place.rglob("*")) == before
