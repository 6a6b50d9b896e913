"""Draw the structure of the code, as docs/architecture.md shows it.

`python docs/architecture.py` writes the drawn parts of that page anew; tests/test_architecture.py checks the layers.
"""

import ast
import io
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_suffix(".md")
# A package may import those before it in this list, never those after it.
LAYERS = (
    "errors", "progress", "setting_values", "config", "storage", "text", "native", "data", "model", "search",
    "evaluation", "teacher", "cluster", "training", "doctor", "explanation", "render", "serve", "lab", "cli",
)  # fmt: skip
# The packages within search, and their layers: each package may import those of lower layers.
SEARCH = {"documents": 0, "payload": 0, "lexical": 0, "vectors": 0, "segments": 1, "live": 2, "engines": 3}
# Programs belong to the command line, wherever their files are. `clickvec` itself only exports the public names.
PROGRAMS = ("clickvec", "clickvec.__main__", "clickvec.training.__main__")
BEFORE = "fc400a0"  # the commit before the packages; its laboratory was in these folders and files
LAB_BEFORE = (
    "compare", "simulate", "rankers.doc2vec", "rankers.hybrid", "rankers.plsa", "rankers.skipthought",
    "rankers.transformer", "train.prose", "train.skipthought", "explain.checks", "explain.topic_scores",
)  # fmt: skip


class Tree:
    """The modules of a checkout of clickvec, and what they import."""

    def __init__(self, root: Path = ROOT, lab: tuple[str, ...] = ("lab",)) -> None:
        self.root, self.lab = root / "clickvec", tuple(f"clickvec.{name}" for name in lab)
        paths = {self._name(path): path for path in sorted(self.root.rglob("*.py"))}
        self.modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
        self.lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in self.modules.items()}
        self.imports = {name: set(self._imports(path)) - {name} for name, path in self.modules.items()}

    def _name(self, path: Path) -> str:
        return ".".join(path.relative_to(self.root.parent).with_suffix("").parts)

    def _imports(self, path: Path) -> Iterator[str]:
        """Yield the modules that a file imports: at the top, in a function, or for its types."""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.modules)
            elif isinstance(node, ast.ImportFrom) and node.module in self.modules:
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    yield submodule if submodule in self.modules else node.module

    def in_lab(self, module: str) -> bool:
        """Tell whether a module belongs to the laboratory."""
        return any(module == name or module.startswith(f"{name}.") for name in self.lab)

    def cycle(self) -> list[str]:
        """Return modules that import each other in a circle; none if there is no cycle."""
        try:
            TopologicalSorter(self.imports).prepare()
        except CycleError as error:
            return list(error.args[1])
        return []

    def wrong_way(self) -> list[str]:
        """Return the imports that point from a layer to a later one."""
        position = {name: number for number, name in enumerate(LAYERS)}
        return [
            f"{module} imports {used}"
            for module, all_used in self.imports.items()
            for used in sorted(all_used)
            if module not in PROGRAMS and used not in PROGRAMS and position[package(used)] > position[package(module)]
        ]

    def wrong_way_in_search(self) -> list[str]:
        """Return the imports between packages within search that do not point to a lower layer."""
        return [
            f"{module} imports {used}"
            for module, all_used in self.imports.items()
            for used in sorted(all_used)
            if (user := search_package(module)) != (other := search_package(used))
            and user in SEARCH
            and other in SEARCH
            and SEARCH[other] >= SEARCH[user]
        ]

    def same_names(self) -> list[str]:
        """Return the file names that several modules share."""
        counts = Counter(name.rpartition(".")[2] for name in self.modules)
        return sorted(name for name, count in counts.items() if count > 1 and name != "__main__")

    def entries(self) -> list[str]:
        """Return what `ls clickvec` shows, without compiled files."""
        return sorted(path.name for path in self.root.iterdir() if path.name[:1] != "_" or path.name == "__init__.py")


def package(module: str) -> str:
    """Return the package that a module is in, or its own name if it is beside the packages."""
    return module.split(".")[1] if "." in module else module


def search_package(module: str) -> str:
    """Return the package within search that a module is in; an empty string if it is in none."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["search"] and len(parts) > 3 else ""


def import_table(tree: Tree) -> str:
    """Return a table of the packages that each package imports."""
    used: dict[str, set[str]] = {name: set() for name in LAYERS}
    for module, others in tree.imports.items():
        if module not in PROGRAMS:
            used[package(module)] |= {package(other) for other in others} - {package(module), "clickvec"}
    rows = [f"| `{name}` | {', '.join(sorted(used[name], key=LAYERS.index))} |" for name in LAYERS]
    return "\n".join(["| package | imports |", "|---|---|", *rows])


def size_table(before: Tree, after: Tree) -> str:
    """Return the sizes of two trees beside each other, and the lines of each package of the second."""

    def product(tree: Tree) -> int:
        return sum(count for name, count in tree.lines.items() if not tree.in_lab(name))

    def over_300(tree: Tree) -> str:
        return ", ".join(name.removeprefix("clickvec.") for name, count in tree.lines.items() if count > 300) or "none"

    rows = [
        ("entries in `clickvec/`", *(str(len(tree.entries())) for tree in (before, after))),
        ("modules", *(str(len(tree.modules)) for tree in (before, after))),
        ("lines of Python: product", *(f"{product(tree):,}" for tree in (before, after))),
        ("lines of Python: laboratory", *(f"{sum(tree.lines.values()) - product(tree):,}" for tree in (before, after))),
        ("files over 300 lines", *(over_300(tree) for tree in (before, after))),
        ("file names used twice", *(", ".join(tree.same_names()) or "none" for tree in (before, after))),
        ("import cycle", *(" → ".join(tree.cycle()) or "none" for tree in (before, after))),
    ]  # fmt: skip
    counts: Counter[str] = Counter()
    for module, count in after.lines.items():
        counts[package(module)] += count
    sizes = ", ".join(f"{name} {counts[name]:,}" for name in LAYERS)
    table = "\n".join(["| | before | after |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])
    listing = "`ls clickvec` before: " + " ".join(before.entries())
    return f"{table}\n\nLines of each package: {sizes}.\n\n{listing}"


def at_commit(revision: str, folder: Path) -> Path:
    """Extract the package as it was at a commit."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "clickvec"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def drawn(text: str, name: str) -> tuple[str, str, str]:
    """Split the page at a drawn part: what is before it, the part, what is after it."""
    begin, end = f"<!-- {name}: drawn by docs/architecture.py -->\n", f"\n<!-- end of {name} -->"
    before, rest = text.split(begin)
    part, after = rest.split(end)
    return before + begin, part, end + after


def main() -> None:
    """Write the drawn parts of the page."""
    tree = Tree()
    with tempfile.TemporaryDirectory() as folder:
        before = Tree(at_commit(BEFORE, Path(folder)), LAB_BEFORE)
        parts = {"imports": import_table(tree), "sizes": size_table(before, tree)}
    text = PAGE.read_text(encoding="utf-8")
    for name, part in parts.items():
        start, _, end = drawn(text, name)
        text = start + part + end
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
