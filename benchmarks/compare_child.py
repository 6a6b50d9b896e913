"""Record what one tree answers, for compare_with.py, which runs this file with the code of each tree.

    python -P benchmarks/compare_child.py SECTION SETTINGS OUT

It uses nothing but what every tree promises: the public names of `clickvec`, the command line and HTTP. The result is
JSON: check -> case -> value. Where a tree lacks something, the value is the error.
"""

import dataclasses
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # behind the tree and the libraries: files here have common names

import compare_cases as cases
from compare_quality import measures

# What differs between two runs of one tree: durations, rates, ports, clocks, temporary names, sizes with all of these.
CHANGING = (
    (
        re.compile(r"^.*\d% of [\d,]+, [\d:]+ left.*\n?", re.MULTILINE),
        "",
    ),  # a line of progress, which appears after a while
    (re.compile(r"Training takes .*? minibatches", re.DOTALL), "<forecast of the time>"),
    (re.compile(r"index bytes: [\d,]+"), "index bytes: <bytes>"),
    (re.compile(r"\b\d[\d,.]*( ?(µs|ms|s|min|h|seconds|minutes)\b| [a-z]+/s\b)"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+\d\d:\d\d)?"), "<clock>"),
    (re.compile(r"/tmp/tmp\w+"), "<temporary>"),
)
SECONDS = 600  # for one command
CHANGING_KEYS = re.compile(r"second|_ms$|^ms$|latency|^(time|date|created|started|minibatches)$|index.bytes")


class Answers:
    """What a tree answers: check -> case -> value."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.checks: dict[str, dict[str, Any]] = {}

    def record(self, check: str, case: object, answer: Callable[..., Any], *given: Any, **options: Any) -> Any:  # noqa: ANN401
        """Keep what a function returns or, if it fails, the error. Return it."""
        try:
            value = answer(*given, **options)
        except Exception as error:  # a tree that lacks something has another answer
            value = {"error": f"{type(error).__name__}: {error}"}
        self.checks.setdefault(check, {})[self.without_paths(str(case))] = self.cleaned(value)
        return value

    def cleaned(self, value: Any) -> Any:  # noqa: ANN401
        """Return a value as JSON, without what differs between two runs."""
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        elif hasattr(value, "_asdict"):
            value = value._asdict()
        elif hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, Mapping):
            return {
                str(key): "<changing>"
                if CHANGING_KEYS.search(str(key)) and isinstance(item, float | int)
                else self.cleaned(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.cleaned(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.cleaned_text(str(value))

    def cleaned_text(self, text: str) -> str:
        """Return a text without paths, times and the like."""
        text = self.without_paths(text)
        for pattern, name in CHANGING:
            text = pattern.sub(name, text)
        return text

    def without_paths(self, text: str) -> str:
        """Return a text with names in place of the folders of this comparison."""
        for path, name in self.settings["names"].items():
            text = text.replace(path, name)
        return text

    def file(self, name: str) -> Path:
        """Return the path of a file of this tree."""
        return Path(self.settings["folder"]) / name

    def fresh(self, name: str) -> Path:
        """Return the path of a file or folder of this tree that is not there."""
        path = self.file(name)
        for old in (path, path.with_name(f"{name}.clicks.jsonl")):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        return path


def clickvec(*arguments: object, stdin: str = "") -> dict[str, Any]:
    """Run a verb, and return its status and output. One that does not end is an error."""
    command = [sys.executable, "-P", "-m", "clickvec", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS)
    return {"status": done.returncode, "out": read_json(done.stdout), "err": done.stderr}


def needed(*arguments: object) -> None:
    """Run a verb that must succeed."""
    done = clickvec(*arguments)
    if done["status"]:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done['err']}")


def read_json(text: str) -> Any:  # noqa: ANN401
    """Return the value of a text if it is JSON, its values if it is lines of JSON, otherwise the text."""
    for read in (json.loads, lambda lines: [json.loads(line) for line in lines.splitlines() or "?"]):
        with suppress(ValueError):
            return read(text)
    return text


def digest(path: Path) -> str:
    """Return a hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# --- the sections ------------------------------------------------------------------------------------------------


def weights(answers: Answers) -> None:
    """Train small models of each tower and recipe, from a model, and with a teacher: hashes of weights, vectors."""
    from clickvec import Encoder

    settings = answers.settings
    for name, options in cases.TRAININGS.items():
        model = answers.fresh(f"trained-{name}")
        shutil.rmtree(f"{model}.teacher", ignore_errors=True)
        given = [option.format(**settings, folder_of_start=answers.file("trained-lstm")) for option in options]
        log = settings["held_out"] if "--from" in given else settings["small"]
        answers.record("training prints", name, clickvec, "train", log, "--out", model, *given, "--json")
        answers.record("weights, all bytes", name, digest, model / "weights.safetensors")
        for side in ("query", "document"):
            answers.record("vectors", f"{name}, {side}", encoded, model, side, settings["queries"][:20])
    for side in ("query", "document"):
        answers.record("500 vectors at once", side, encoded, settings["model"], side, settings["queries"])
    encoder = Encoder.load(settings["model"])
    for query in settings["queries"]:
        answers.record("vector of one query", query, encoder.encode_query, query)


def encoded(model: str | Path, side: str, texts: list[str]) -> Any:  # noqa: ANN401
    """Return the vectors of texts."""
    from clickvec import Encoder

    return getattr(Encoder.load(model), f"encode_{side}")(texts)


def hits(answers: Answers) -> None:
    """Search a folder: modes, filters, explanations, other options; then changes. Three further ways to build it."""
    search_everything(answers, str(answers.fresh("index")))
    for name, options in cases.INDEXES.items():
        path = answers.fresh(f"index-{name.replace(' ', '-')}")
        given = [option.format(**answers.settings) for option in options]
        model, titles = answers.settings["model"], answers.settings["catalogue"]
        answers.record("index", name, clickvec, "index", model, titles, "--out", path, *given)
        with opened(answers, path) as index:
            for query in answers.settings["queries"]:
                answers.record(f"hits, {name}", query, found, index, query)


def postgres(answers: Answers) -> None:
    """Search PostgreSQL as a folder."""
    search_everything(answers, answers.settings["postgres"], 100)


def milvus(answers: Answers) -> None:
    """Search Milvus as a folder."""
    search_everything(answers, f"{answers.settings['milvus']}&words={answers.fresh('milvus-words')}", 100)


def search_everything(answers: Answers, location: str, count: int = 500) -> None:
    """Build an index, search it in all ways, change it, and search it again. `count` queries have a filter."""
    settings = answers.settings
    to = "--to" if "://" in location else "--out"
    given = (settings["model"], settings["catalogue"], to, location, "--numbers", "price,stock")
    answers.record("index", "built", clickvec, "index", *given)
    queries, text = settings["queries"], "a title that no index has, hotels"
    with opened(answers, location) as index:
        for mode in cases.MODES:
            for name, where in cases.FILTERS.items():
                for query in queries if where is None else queries[:count]:
                    answers.record(f"hits, {mode}, {name}", query, found, index, query, mode=mode, where=where)
            answers.record(f"hits, {mode}, many queries at once", "all", found_at_once, index, queries, mode)
            for query in queries[:100]:
                deep = answers.record(f"100 hits, {mode}", query, found, index, query, k=100, mode=mode)
                page = {"k": 5, "offset": 20, "mode": mode, "min_score": 0.3}
                answers.record(f"a page of hits, {mode}", query, found, index, query, **page)
                answers.record(f"facets, {mode}", query, called, index, "facets", query, cases.FACETS, mode=mode)
                for place in (1, 41, 81):
                    answers.record(
                        f"ranks, {mode}", f"{query} | hit {place + 1}", rank, index, query, deep, place, mode
                    )
        for query in queries:
            answers.record("corrections", query, called, index, "corrections", query)
        for query in queries[:100]:
            for place in (0, 1, 7):
                answers.record("explanations", f"{query} | hit {place + 1}", explained, index, query, place)
            answers.record("scores of texts", query, called, index, "scores", query, [text, query])
        for query in queries[:20]:
            answers.record("explanations", f"{query} | {text}", explained, index, query, text)
        for name in cases.ATTRIBUTES:
            answers.record("attributes", name, getattr, index, name)
    change(answers, location, queries[: count // 5])


def found(index: Any, query: str, **options: Any) -> list[Any]:  # noqa: ANN401
    """Return the hits of a query as rows."""
    return rows(index.search(query, **options))


def found_at_once(index: Any, queries: list[str], mode: str) -> list[Any]:  # noqa: ANN401
    """Return the hits of many queries as rows."""
    return [rows(hits_of_query) for hits_of_query in index.search(queries, mode=mode)]


def rank(index: Any, query: str, deep: list[Any], place: int, mode: str) -> Any:  # noqa: ANN401
    """Return the rank of the hit at a place, None if there are fewer hits."""
    return index.rank(query, index.get(deep[place][0]), mode) if place < len(deep) else None


def explained(index: Any, query: str, title: int | str) -> Any:  # noqa: ANN401
    """Explain a text, or the hit at a place of the list."""
    import clickvec as library

    given = title if isinstance(title, str) else index.search(query)[title].id
    return same_shape(library.explain(index, query, given).as_json())


# Of the terms of a score, what a comparison calls them now, and before.
NAMES = {
    "BM25": "words", "matching codes": "codes", "matching numbers": "numbers", "rarest matching word": "rarest match",
    "words in no title": "unknown words", "rarest query word": "rarest word", "number of query words": "query length",
}  # fmt: skip


def values_of(parts: Any) -> Any:  # noqa: ANN401
    """Return the values of the parts of a hit, which were a tuple before."""
    return parts.values() if isinstance(parts, dict) else parts or ()


def same_shape(told: dict[str, Any]) -> dict[str, Any]:
    """Return an explanation without its labels, in the shape that it had before scores were sums of named parts."""
    fused, rank, why = told["fused"], told["rank"], told["why_not"]
    if "terms" not in fused:
        return told
    of = {part["name"]: part for part in fused["parts"]}
    changed = {
        "parts": [{"name": term["name"], "contribution": term["contribution"]} for term in fused["terms"]],
        "cosine": of["vectors"]["value"],
        "rounding": of["vectors"]["rounding"],
        "bm25": of["words"]["value"],
        "words": of["words"]["words"],
    }
    kept = {name: value for name, value in fused.items() if name not in ("terms", "read")}
    ranks = {f"by_{name}": place for name, place in rank.pop("by").items()}
    if why:
        why = {name: value for name, value in why.items() if name not in ("terms", "part_words")} | {
            "parts": [share | {"word": NAMES.get(share["word"], share["word"])} for share in why["terms"]],
            "bm25_words": why["part_words"].get("BM25", []),
        }
    return told | {"fused": kept | changed, "rank": rank | ranks, "why_not": why}


def called(target: Any, method: str, *given: Any, **options: Any) -> Any:  # noqa: ANN401
    """Call a method."""
    return getattr(target, method)(*given, **options)


def change(answers: Answers, location: str, queries: list[str]) -> None:
    """Add, replace, change and delete documents; search after each step, after compaction, and in a new reader."""
    titles = [
        (f"n{number}", f"{query} number {number}") for number, query in enumerate(answers.settings["queries"][:60])
    ]
    titles += [(f"t{number:05}", f"renewed {number} {titles[number % 60][1]}") for number in range(0, 400, 10)]
    payloads = [{"price": number / 2, "category": "new"} for number in range(len(titles))]
    steps: dict[str, Callable[[Any], Any]] = {
        "added": lambda index: index.add(
            ids=[doc_id for doc_id, _ in titles], titles=[title for _, title in titles], payloads=payloads
        ),
        "updated": lambda index: index.update([{"id": doc_id, "price": 1000} for doc_id, _ in titles[:90:3]]),
        "deleted": lambda index: index.delete([doc_id for doc_id, _ in titles[1:90:3]] + ["t00005", "t00006"]),
        "compacted": lambda index: index.compact(),
    }
    with opened(answers, location) as index:
        for step, make in steps.items():
            answers.record("changes", step, make, index)
            search_again(answers, index, step, queries)
    with opened(answers, location) as index:
        search_again(answers, index, "opened again", queries)
        answers.record("changes", "documents", documents, index)


def documents(index: Any) -> str:  # noqa: ANN401
    """Return a hash of all documents, in order of their ids."""
    every = sorted((str(one.id), one.title, json.dumps(one.payload, sort_keys=True)) for one in index)
    return f"{len(every)} {hashlib.sha256(repr(every).encode()).hexdigest()[:16]}"


def search_again(answers: Answers, index: Any, step: str, queries: list[str]) -> None:  # noqa: ANN401
    """Search some queries in all modes, with and without a filter."""
    for query in queries:
        for mode in cases.MODES:
            for where in (None, {"price": {"gte": 20}}):
                case = f"{step}: {query} | {where}"
                answers.record(f"hits after changes, {mode}", case, found, index, query, mode=mode, where=where)


@contextmanager
def opened(answers: Answers, location: object) -> Iterator[Any]:
    """Open an index. If that fails, record it, and let each use of it fail."""
    from clickvec import Index

    index = answers.record("index", "opened", lambda: Opened(Index.open(location)))
    try:
        yield index.index if isinstance(index, Opened) else None
    finally:
        if isinstance(index, Opened):
            index.index.close()


class Opened:
    """An index that was opened: its repr is recorded."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401
        self.index = index

    def __str__(self) -> str:
        return repr(self.index)


def rows(found: Any) -> list[Any]:  # noqa: ANN401
    """Return hits as rows: id, score, cosine, BM25, price."""
    return [
        [str(hit.id), float(hit.score), *map(float, values_of(hit.parts)), (hit.payload or {}).get("price")]
        for hit in found
    ]


def evaluate(answers: Answers) -> None:
    """Measure the model, BM25 and the index: on judged lists, on held-out clicks, over the index, with a run file."""
    settings = answers.settings
    index, small = answers.fresh("evaluated-index"), answers.fresh("evaluated-small")
    run = answers.fresh("run.txt")
    needed("index", settings["model"], settings["catalogue"], "--out", index)
    needed("shrink", settings["model"], "--out", small)
    for command in cases.EVALUATIONS:
        given = [word.format(**settings, index=index, run=run, shrunk=small) for word in command.split()]
        done = answers.record("tables, JSON", command, clickvec, "evaluate", *given, "--json")
        table = dict(done)["out"]
        if isinstance(table, dict):  # each figure is a case of its own
            for name, value in leaves(table):
                if isinstance(value, float):
                    answers.record("figures", f"{command} | {name}", float, value)
        answers.record("tables, text", command, clickvec, "evaluate", *given)
    answers.record("run file", "bytes", digest, run)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield the names and values in nested JSON. A row of a table is named by its system."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{name} {key}".strip())
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, f"{name} {item.get('system', number) if isinstance(item, dict) else number}")
    else:
        yield name, value


def over_http(answers: Answers) -> None:
    """Ask a service everything: searches, explanations, studies, documents, wrong requests, changes, clicks."""
    settings = answers.settings
    index = answers.fresh("served-index")
    needed("index", settings["model"], settings["catalogue"], "--out", index, "--numbers", "price,stock")
    with service(index) as port:
        for check, method, path, body in chain(cases.REQUESTS, cases.searches(settings["queries"])):
            shown = body if isinstance(body, str) else json.dumps(body)
            answers.record(check, f"{method} {path} {shown}"[:200], ask, port, method, path, body)
    log = index.with_name(f"{index.name}.clicks.jsonl")
    answers.record("click log", "lines", json_lines, log)


def json_lines(path: Path) -> list[Any]:
    """Return the lines of a file of JSON."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@contextmanager
def service(index: Path) -> Iterator[int]:
    """Run a service, and yield its port."""
    command = [sys.executable, "-P", "-m", "clickvec", "serve", str(index), "--port", "0", "--log-queries"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        said, port = [], None
        assert process.stderr is not None
        while not port and (line := process.stderr.readline()):
            said.append(line)
            port = re.search(r"at http://127\.0\.0\.1:(\d+)", line)
        if not port:
            raise RuntimeError("".join(said))
        process.stderr.close()  # what it would still print does not fill the pipe
        try:
            yield int(port[1])
        finally:
            process.terminate()


def ask(port: int, method: str, path: str, body: Any) -> dict[str, Any]:  # noqa: ANN401
    """Send a request, and return the status, the type and the body. Wait for what is still being computed."""
    sent = body if isinstance(body, str) or body is None else json.dumps(body)
    for _ in range(100):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, sent, {"content-type": "application/json"} if sent is not None else {})
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        connection.close()
        if response.status != 202:
            break
        time.sleep(0.3)
    if path == "/metrics":  # only the names
        text = "\n".join(sorted({line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[:1] != "#"}))
    kind = response.headers.get("content-type")
    return {"status": response.status, "type": kind, "body": read_json(text) if len(text) < 1e6 else len(text)}


def messages(answers: Answers) -> None:
    """Run right and wrong commands, and wrong calls in Python: status, stdout and stderr."""
    settings = answers.settings
    folder = answers.fresh("files")
    folder.mkdir()
    for name, content in cases.FILES.items():
        (folder / name).write_bytes(content)
    index = folder / "index"
    needed("index", settings["model"], settings["catalogue"], "--out", index)
    os.chdir(folder)
    known = {**settings, "log": settings["small"], "index": index}
    for check, commands in cases.COMMANDS.items():
        for command in commands:
            words, _, stdin = command.partition(" < ")
            given = [str(known[word[1:-1]]) if word[1:-1] in known else word for word in split(words)]
            answers.record(check, command, clickvec, *given, stdin=stdin)
    import clickvec as library

    with opened(answers, index) as index_opened:
        known = {"clickvec": library, "index": index_opened, "encoder": library.Encoder.load(settings["model"])}
        for call in cases.CALLS:
            answers.record("wrong calls", call, eval, call, known)


def split(command: str) -> list[str]:
    """Return the words of a command. A word in single quotes may hold spaces."""
    return [quoted or plain for quoted, plain in re.findall(r"'([^']*)'|(\S+)", command)]


def quality(answers: Answers) -> None:
    """Train on each log with the default recipe, index, search the judged queries: hits, and how good they are."""
    from clickvec import Index

    for log in answers.settings["logs"]:
        name = log["name"]
        model, index_path = answers.fresh(f"{name}-model"), answers.fresh(f"{name}-index")
        judged = log["judged"]
        needed("train", log["clicks"], "--catalogue", log["catalogue"], "--out", model)
        needed("index", model, log["catalogue"], "--out", index_path)
        answers.record("weights", name, digest, model / "weights.safetensors")
        answers.record("vectors", name, encoded, model, "query", list(judged))
        with Index.open(index_path) as index:
            for mode in cases.MODES:
                every = [index.search(query, k=100, mode=mode) for query in judged]
                for query, hits_of_query in list(zip(judged, every, strict=True))[:500]:
                    answers.record(f"{name}, {mode}: ids of 10", query, ids, hits_of_query[:10])
                    answers.record(f"{name}, {mode}: ids of 100", query, ids, hits_of_query)
                    answers.record(f"{name}, {mode}: with scores", query, rows, hits_of_query)
                titles = [[hit.title for hit in hits_of_query] for hits_of_query in every]
                for measure, value in measures(titles, judged).items():
                    answers.record("quality", f"{name}, {mode}: {measure}", float, value)


def ids(found: Any) -> list[str]:  # noqa: ANN401
    """Return the ids of hits."""
    return [str(hit.id) for hit in found]


SECTIONS = {
    "weights": weights, "hits": hits, "postgres": postgres, "milvus": milvus, "evaluate": evaluate, "http": over_http,
    "messages": messages, "quality": quality,
}  # fmt: skip


def main() -> None:
    section, settings, out = sys.argv[1:]
    answers = Answers(json.loads(Path(settings).read_text(encoding="utf-8")))
    answers.record("the section itself", "end", SECTIONS[section], answers)
    Path(out).write_text(json.dumps(answers.checks), encoding="utf-8")


if __name__ == "__main__":
    main()
