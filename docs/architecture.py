"""Print the packages of clickvec, their lines and what they import, as docs/architecture.md shows them.

`python docs/architecture.py` writes that part of the page anew. tests/test_architecture.py checks the layers.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "clickvec"
PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- drawn by docs/architecture.py -->", "<!-- end -->"
# A package may import those before it, never those behind it.
LAYERS = (
    "errors", "progress", "config", "storage", "text", "native", "data", "model", "search", "evaluation", "training",
    "explanation", "render", "lab", "cli",
)  # fmt: skip
# `clickvec` exports the public names. `python -m clickvec.training` is a program, so it belongs to the command line.
PROGRAMS = ("clickvec", "clickvec.training.__main__")


def modules() -> dict[str, Path]:
    """Return every module of clickvec by its dotted name."""
    paths = {".".join(("clickvec", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in sorted(paths.items())}


def imports() -> dict[str, set[str]]:
    """Return the modules of clickvec that each module imports, at the top, in a function or for its types."""
    known = modules()
    return {name: {used for used in _imported(path, known) if used != name} for name, path in known.items()}


def _imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else node.module


def package(module: str) -> str:
    """Return the package, or the module beside the packages, that a module is in."""
    return module.split(".")[1] if "." in module else module


def wrong_way() -> list[str]:
    """Return the imports that point up, from a layer to one behind it."""
    place = {name: number for number, name in enumerate(LAYERS)}
    return [
        f"{module} imports {used}"
        for module, all_used in imports().items()
        for used in sorted(all_used)
        if module not in PROGRAMS and used not in PROGRAMS and place[package(used)] > place[package(module)]
    ]


def lines() -> Counter[str]:
    """Return the lines of Python of each package."""
    counts: Counter[str] = Counter()
    for module, path in modules().items():
        counts[package(module)] += len(path.read_text(encoding="utf-8").splitlines())
    return counts


def drawing() -> str:
    """Return the table of packages: lines, and the packages that each one imports."""
    used: dict[str, set[str]] = {name: set() for name in LAYERS}
    for module, others in imports().items():
        if module not in PROGRAMS:
            used[package(module)] |= {package(other) for other in others} - {package(module), "clickvec"}
    counts = lines()
    rows = [f"| `{name}` | {counts[name]:,} | {', '.join(sorted(used[name], key=LAYERS.index))} |" for name in LAYERS]
    product = sum(counts.values()) - counts["lab"]
    total = (
        f"The product, all but `lab`, has {product:,} lines of Python in {sum(map(_in_product, modules()))} modules."
    )
    return "\n".join(["| package | lines | imports |", "|---|---:|---|", *rows, "", total])


def _in_product(module: str) -> bool:
    return package(module) != "lab"


def main() -> None:
    """Write the drawing into the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{drawing()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
