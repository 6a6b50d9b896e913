"""The pages of the repository: links lead somewhere, code places exist, nothing is left to fill in."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_and_nothing_is_left_to_fill_in(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"@[A-Z0-9]+@|TODO|FIXME", text)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_packages_that_the_architecture_names_are_there_and_no_others() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = text.split("clickvec/\n")[1].split("\n\n")[0]
    named = {line.split()[0].rstrip("/") for line in rooms.splitlines() if re.match(r"      \S", line)}
    found = {path.name for path in (ROOT / "clickvec").iterdir() if path.suffix != ".so"}  # compiled
    assert named == found - {"__main__.py", "__pycache__", "py.typed"}


def test_the_code_places_that_paper_md_names_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "clickvec").rglob("*.py"))
    code += "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*.py"))
    for file in re.findall(r"`((?:\w+/)*\w+\.py)`", text):
        assert (ROOT / file).exists() or (ROOT / "clickvec" / file).exists(), file
    for name in re.findall(r"`(?:\w+\.)*(_?\w+)`(?! in the| of)", text.split("## Which gradient")[0]):
        assert re.search(rf"\b{name}\b", code), name


def test_no_page_says_that_keywords_and_topics_are_missing() -> None:
    for page in PAGES:
        assert "not in this release" not in page.read_text(encoding="utf-8"), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_verbs_and_options_that_exist(page: Path) -> None:
    from typer.testing import CliRunner

    from clickvec.cli.app import app

    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"(?:\$ |`)clickvec ((?:(?:lab|cluster) )?[a-z]+) ([^\n`]*)", text)
    assert len(commands) >= 6 or page.name != "README.md" or page.parent != ROOT
    for verb, rest in commands:
        shown = CliRunner().invoke(app, [*verb.split(), "--help"])
        assert shown.exit_code == 0, verb
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in shown.output, f"{verb} {option}"


def test_the_index_of_the_docs_lists_every_page() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in listed, f"add {page.name} to docs/README.md"
