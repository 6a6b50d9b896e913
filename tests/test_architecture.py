"""The structure of the code, as docs/architecture.md draws it."""

import importlib.util
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "docs" / "architecture.py"
spec = importlib.util.spec_from_file_location("architecture", SCRIPT)
assert spec is not None
assert spec.loader is not None
architecture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(architecture)


def test_every_package_is_in_a_layer() -> None:
    assert set(architecture.LAYERS) == {architecture.package(name) for name in architecture.modules()} - {"clickvec"}


def test_layers_import_one_way() -> None:
    assert architecture.wrong_way() == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    TopologicalSorter(architecture.imports()).prepare()


def test_no_two_modules_have_the_same_name() -> None:
    names = Counter(name.rpartition(".")[2] for name in architecture.modules())
    assert [name for name, count in names.items() if count > 1 and name != "__main__"] == []


def test_no_package_is_named_like_a_public_function() -> None:
    import clickvec

    assert not set(clickvec.__all__) & {architecture.package(name) for name in architecture.modules()}
