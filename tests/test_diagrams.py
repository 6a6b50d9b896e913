"""The diagrams in docs/: what the script draws is what is there, and it says what the code says."""

import ast
import importlib.util
import json
import re
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from clickvec.config import Tower
from clickvec.model import forward
from clickvec.render.labels import signed
from clickvec.text.trigrams import trigrams

DOCS = Path(__file__).parents[1] / "docs"
NAMES = ("towers", "cell", "training", "explanation")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def diagrams() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diagrams", DOCS / "diagrams.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(name: str) -> ElementTree.Element:
    return ElementTree.parse(DOCS / "images" / f"{name}.svg").getroot()


def texts(name: str) -> list[str]:
    return ["".join(text.itertext()) for text in drawn(name).iter(f"{SVG}text")]


def test_the_diagrams_are_what_the_script_writes(diagrams: ModuleType, tmp_path: Path) -> None:
    diagrams.main(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"{name}.svg" for name in NAMES)
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (DOCS / "images" / file.name).read_bytes(), "run: python docs/diagrams.py"


def test_the_script_needs_nothing_but_python() -> None:
    tree = ast.parse((DOCS / "diagrams.py").read_text(encoding="utf-8"))
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in found} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", NAMES)
def test_a_diagram_stands_on_white_has_a_title_and_needs_nothing_from_elsewhere(name: str) -> None:
    root = drawn(name)
    title, back = list(root)[:2]
    assert (root.tag, title.tag, back.tag) == (f"{SVG}svg", f"{SVG}title", f"{SVG}rect")
    assert title.text
    assert back.get("fill") == "#ffffff"
    assert (back.get("width"), back.get("height")) == (root.get("width"), root.get("height"))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    plain = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert "href" not in plain
    assert "url(" not in plain


# --- what they say -----------------------------------------------------------------------------------------------


def test_the_towers_have_the_trigrams_of_their_words() -> None:
    said = texts("towers")
    for word in ("hotels", "in", "shanghai", "hotel", "deals"):
        assert word in said
        assert " ".join(trigrams(word)) in " ".join(said)
    assert said.count("shanghai") == 2
    assert {"query Q", "title D", "cosine", "yQ(TQ)", "yD(TD)", "counts l(t)"} <= set(said)


def test_the_cell_has_the_gates_and_equations_of_the_forward_pass() -> None:
    said = texts("cell")
    assert {*forward.gates(Tower("lstm", forget_gate=True)), "cell", "output"} <= set(said)
    assert {"yg(t)", "i(t)", "f(t)", "c(t)", "o(t)", "y(t)", "c(t−1)", "y(t−1)", "l(t)", "Wp1", "Wp2", "Wp3"} <= set(
        said
    )
    assert said.count("=") == 6  # equation 2
    assert "σ(W3 l(t) + Wrec3 y(t−1) + Wp3 c(t−1) + b3)" in said
    assert "σ(W1 l(t) + Wrec1 y(t−1) + Wp1 c(t) + b1)" in said
    dashes = [shape.get("stroke-dasharray") for shape in drawn("cell").iter() if shape.get("stroke-dasharray")]
    assert dashes.count("9 6") == 4  # the forget gate: its box, two arrows, the legend
    assert dashes.count("1.5 6") == 4  # three peepholes and the legend


def test_training_has_the_clicked_title_the_others_and_the_loss() -> None:
    said = texts("training")
    assert {"query Q", "clicked title D+", "other title D1−", "other title Dn−", "softmax", "P(D+|Q)"} <= set(said)
    assert said.count("cos") == said.count("× γ") == 4
    assert said.count("query") == 1
    assert said.count("title") == 4
    assert "loss = −log P(D+|Q) = log(1 + Σj exp(−γ Δj))" in said


def test_the_explanation_shows_every_word_with_its_contribution_and_the_score() -> None:
    found = json.loads((DOCS / "images" / "explanation.json").read_text(encoding="utf-8"))["explanation"]
    said = texts("explanation")
    assert f"{found['score']:.3f}" in said
    words = [*found["query_words"], *found["title_words"]]
    numbers = [signed(word["contribution"], 2).replace("-", "−") for word in words]
    shown = [text for pair in zip((word["word"] for word in words), numbers, strict=True) for text in pair]
    assert [text for text in said if text in shown and text not in ("query", "title")] == shown
    assert any(text.startswith(f"Total {found['score']:+.3f} = score") for text in said)


# --- how they look -----------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """About where a text lies."""

    text: str
    left: float
    right: float
    top: float
    bottom: float


def places(name: str) -> list[Place]:
    found = []
    for text in drawn(name).iter(f"{SVG}text"):
        said, size, x, y = "".join(text.itertext()), *(float(text.get(key, "")) for key in ("font-size", "x", "y"))
        width = (0.6 if text.get("font-family") or text.get("font-weight") else 0.54) * size * len(said)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "")]
        found.append(Place(said, left, left + width, y - 0.75 * size, y + 0.3 * size))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_text_lies_on_another_and_none_leaves_the_picture(name: str) -> None:
    root, found = drawn(name), places(name)
    for one, two in combinations(found, 2):
        apart = one.right <= two.left or two.right <= one.left or one.bottom <= two.top or two.bottom <= one.top
        assert apart, (one, two)
    for text in found:
        assert text.left >= 8, text
        assert text.right <= float(root.get("width", 0)) - 8, text


@pytest.mark.parametrize("name", NAMES)
def test_letters_are_large_enough_and_shapes_are_inside(name: str) -> None:
    root = drawn(name)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert min(float(text.get("font-size", 0)) for text in root.iter(f"{SVG}text")) >= 0.02 * width
    for shape in root.iter():
        numbers = re.findall(r"-?[\d.]+", shape.get("d", "") + shape.get("points", ""))
        points = [(float(x), float(y)) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
        if shape.tag == f"{SVG}rect":
            x, y, wide, high = (float(shape.get(key, 0)) for key in ("x", "y", "width", "height"))
            points += [(x, y), (x + wide, y + high)]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points), shape.attrib
