"""Draw the structure of the code, as docs/architecture.md shows it.

`python docs/architecture.py` writes the drawn parts of that page anew; tests/test_architecture.py checks the layers.
`python docs/architecture.py COMMIT` prints the sizes of the packages at that commit and now.
"""

import ast
import io
import subprocess
import sys
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
SEARCH = {"documents": 0, "payload": 0, "lexical": 0, "vectors": 0, "segments": 1, "parts": 2, "live": 3, "engines": 4}
# Programs belong to the command line, wherever their files are. `clickvec` itself only exports the public names.
PROGRAMS = ("clickvec", "clickvec.__main__", "clickvec.training.__main__")
BEFORE = "575dd08"  # the commit that the page compares with


class Tree:
    """The modules of a checkout of clickvec, and what they import."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root / "clickvec"
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


def size_table(commit: str, before: Tree, now: Tree) -> str:
    """Return a table of the lines and files of Python in each package of two trees, the laboratory last."""
    sizes = [Counter[str](), Counter[str]()]
    files = [Counter[str](), Counter[str]()]
    for number, tree in enumerate((before, now)):
        for module, count in tree.lines.items():
            for name in (package(module), "laboratory" if package(module) == "lab" else "product"):
                sizes[number][name] += count
                files[number][name] += 1
    names = [name for name in dict.fromkeys((*LAYERS, *sizes[0])) if name not in ("lab", "laboratory", "product")]
    rows = [
        (title, *(f"{counts[name]:,}" for counts in (*sizes, *files)))
        for name, title in (
            *((name, f"`{name}`") for name in names if name in LAYERS or sizes[0][name]),
            ("product", "**product**"),
            ("laboratory", "`lab`"),
        )
    ]
    head = f"| package | lines, {commit} | lines, now | files, {commit} | files, now |"
    return "\n".join([head, "|---|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


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
    """Write the drawn parts of the page, or print the sizes at a commit and now."""
    tree, commit = Tree(), sys.argv[1] if len(sys.argv) > 1 else BEFORE
    with tempfile.TemporaryDirectory() as folder:
        sizes = size_table(commit, Tree(at_commit(commit, Path(folder))), tree)
    if len(sys.argv) > 1:
        print(sizes)
        return
    text = PAGE.read_text(encoding="utf-8")
    for name, part in {"imports": import_table(tree), "sizes": sizes}.items():
        start, _, end = drawn(text, name)
        text = start + part + end
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
