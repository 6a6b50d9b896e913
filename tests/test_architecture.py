"""The structure of the code is what docs/architecture.md says it is."""

import importlib.util
from pathlib import Path

import clickvec

DOCS = Path(__file__).parents[1] / "docs"
spec = importlib.util.spec_from_file_location("architecture", DOCS / "architecture.py")
assert spec is not None
assert spec.loader is not None
architecture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(architecture)
TREE = architecture.Tree()


def test_every_package_has_a_layer() -> None:
    assert set(architecture.LAYERS) == {architecture.package(name) for name in TREE.modules} - {"clickvec", "__main__"}


def test_layers_import_one_way() -> None:
    assert TREE.wrong_way() == []


def test_packages_within_search_import_one_way() -> None:
    assert set(architecture.SEARCH) == {architecture.search_package(name) for name in TREE.modules} - {""}
    assert TREE.wrong_way_in_search() == []


def test_no_import_cycle_lazy_imports_included() -> None:
    assert TREE.cycle() == []


def test_no_two_modules_have_the_same_name() -> None:
    assert TREE.same_names() == []


def test_no_package_is_named_like_a_public_function() -> None:
    assert not set(clickvec.__all__) & {architecture.package(name) for name in TREE.modules}


def test_the_page_shows_the_imports_of_today() -> None:
    _, shown, _ = architecture.drawn((DOCS / "architecture.md").read_text(encoding="utf-8"), "imports")
    assert shown == architecture.import_table(TREE), "run python docs/architecture.py"
