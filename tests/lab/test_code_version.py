"""Which code made a row: the commit of clickvec's own checkout, and of no repository around it."""

import shutil
import subprocess
from pathlib import Path

import pytest

import clickvec
from clickvec.lab.compare.bench import code_version

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.strip()


def package_in(root: Path, name: str = "clickvec") -> Path:
    """A small package, and the file that says which project it is."""
    package = root / "clickvec"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    return package


def commit_all(root: Path) -> str:
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    return git(root, "rev-parse", "HEAD")


@needs_git
def test_a_checkout_gives_its_commit_and_says_if_it_was_changed(tmp_path: Path) -> None:
    package = package_in(tmp_path)
    commit = commit_all(tmp_path)
    found = code_version(package)
    assert len(found) >= 7
    assert commit.startswith(found)
    (package / "__init__.py").write_text("changed = True\n")
    assert code_version(package) == f"{found}+"


@needs_git
def test_a_repository_that_does_not_track_the_package_gives_no_commit(tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("another project")
    (tmp_path / ".gitignore").write_text(".venv\n")
    commit_all(tmp_path)
    assert code_version(package_in(tmp_path / ".venv" / "site-packages")) == clickvec.__version__
    assert code_version(package_in(tmp_path)) == clickvec.__version__  # with its pyproject.toml, and not tracked


@needs_git
@pytest.mark.parametrize("folder", [".", "vendor/clickvec"])
def test_a_package_that_another_project_tracks_gives_no_commit(folder: str, tmp_path: Path) -> None:
    package = package_in(tmp_path / folder, name="theirs" if folder == "." else "clickvec")
    commit_all(tmp_path)
    assert code_version(package) == clickvec.__version__


@needs_git
def test_a_hook_of_another_repository_does_not_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = package_in(tmp_path / "ours")
    commit = commit_all(tmp_path / "ours")
    package_in(tmp_path / "theirs", name="theirs")
    commit_all(tmp_path / "theirs")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "theirs" / ".git"))
    assert commit.startswith(code_version(package))


@needs_git
def test_without_git_there_is_only_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = package_in(tmp_path)
    commit_all(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert code_version(package) == clickvec.__version__
