"""Compare search with an oracle that knows only the documented rules, on random catalogues. Nothing may differ.

    python benchmarks/oracle.py [--cases 2000] [--seed 0] [--jobs 2]

A case is one query of an index: in one of the three modes, with or without a filter, facets, an offset, a least score.
The oracle computes BM25, cosines, the fused score and their order (docs/search.md) in float64 for every title, and
reads filters and facets off the payloads one by one. Each catalogue has 1 to 250 titles, many of them alike. Some were
added, replaced or deleted after the index was built; some indexes were compacted or opened again. A case is skipped if
two scores at a cut are equal to the last digits, so that rounding decides. The last line is JSON.
"""

import argparse
import json
import math
import multiprocessing
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from tiny import tiny

from clickvec.model.encoder import Encoder
from clickvec.search.index import Document, Index

WORDS = [  # the last two have no vector
    "shanghai", "accommodation", "discount", "reservation", "how", "fix", "bath", "tub", "wont", "turn", "off", "paint",
    "what", "should", "cheap", "to", "new", "york", "city", "guide", "and", "you", "xqzk", "vvkt",
]  # fmt: skip
QUERIES = 12  # cases of a catalogue
HEAD = 100  # titles that words and vectors each propose
COSINE, BM25 = 0.441, 0.189  # of the default fusion
NEAR = 2e-6  # scores that differ by less may be in any order


class Case(NamedTuple):
    """A query and how to search."""

    query: str
    mode: str
    where: dict[str, Any] | None
    k: int
    offset: int
    min_score: float | None


# --- documents -------------------------------------------------------------------------------------------------------


def a_payload(rng: random.Random) -> Any:  # noqa: ANN401
    choices: dict[str, list[Any]] = {
        "price": [rng.randrange(20), rng.randrange(20) / 4, -3, None, 2.0**60],
        "brand": [*"abc", "1", "", ["a", "b"], ["b", "b", 1], None],
        "flag": [True, False, 1, 0, [True, "a"]],
        "size": [{"cm": rng.randrange(5)}, {"cm": [1, 2], "label": "x"}, {}, 7],
    }
    if rng.random() < 0.1:
        return rng.choice([None, {}, {"other": []}])
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.7}


def a_document(doc_id: int, rng: random.Random) -> Document:
    words = rng.choices(WORDS, k=rng.choice([1, 1, 2, 3, 4, 8, 12]))
    return Document(f"d{doc_id}", " ".join(words), a_payload(rng))


def change(index: Index, documents: dict[str, Document], rng: random.Random) -> None:
    """Add, replace and delete some documents. A document that was replaced is the last one then."""
    for _ in range(rng.randrange(4)):
        if documents and rng.random() < 0.4:
            gone = rng.sample(sorted(documents), rng.randint(1, min(5, len(documents))))
            index.delete(gone)
            for doc_id in gone:
                del documents[doc_id]
        else:
            fresh = {document.id: document for document in (a_document(rng.randrange(300), rng) for _ in range(5))}
            every = list(fresh.values())
            index.add(
                ids=[document.id for document in every],
                titles=[document.title for document in every],
                payloads=[document.payload for document in every],
            )
            for document in every:
                documents.pop(str(document.id), None)
                documents[str(document.id)] = document


# --- filters and facets ----------------------------------------------------------------------------------------------


def values_of(payload: Any, path: str) -> list[Any]:  # noqa: ANN401
    """Return the values of a field of a payload."""
    found = list(_fields(payload)) if isinstance(payload, dict) else []
    return [value for name, value in found if name == path]


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner, path)
    elif value is not None:
        yield path, value


def is_same(one: Any, other: Any) -> bool:  # noqa: ANN401
    return kind_of(one) == kind_of(other) and one == other


def kind_of(value: Any) -> int:  # noqa: ANN401
    return 0 if isinstance(value, bool) else 2 if isinstance(value, str) else 1


def holds(where: dict[str, Any], payload: Any) -> bool:  # noqa: ANN401
    """Return whether a payload satisfies a filter."""
    return all(_condition(name, wanted, payload) for name, wanted in where.items())


def _condition(name: str, wanted: Any, payload: Any) -> bool:  # noqa: ANN401
    if name in ("and", "or"):
        return (all if name == "and" else any)(holds(inner, payload) for inner in wanted)
    if name == "not":
        return not holds(wanted, payload)
    values = values_of(payload, name)
    if not isinstance(wanted, dict):
        wanted = wanted if isinstance(wanted, list) else [wanted]
        return any(is_same(value, one) for value in values for one in wanted)
    checks = []
    ranges = {key: bound for key, bound in wanted.items() if key in ("gt", "gte", "lt", "lte")}
    if ranges:
        checks.append(any(_is_between(value, ranges) for value in values))
    if "ne" in wanted:
        others = wanted["ne"] if isinstance(wanted["ne"], list) else [wanted["ne"]]
        checks.append(bool(values) and not any(is_same(value, one) for value in values for one in others))
    if "exists" in wanted:
        fields = [path for path, _ in _fields(payload)] if isinstance(payload, dict) else []
        is_there = any(path == name or path.startswith(f"{name}.") for path in fields)
        checks.append(is_there == wanted["exists"])
    return all(checks)


def _is_between(value: Any, bounds: dict[str, Any]) -> bool:  # noqa: ANN401
    compare = {
        "gt": lambda a, b: a > b,
        "gte": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "lte": lambda a, b: a <= b,
    }
    return all(kind_of(value) == kind_of(bound) and compare[key](value, bound) for key, bound in bounds.items())


def a_filter(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = rng.randrange(9 if depth < 2 else 6)
    numbers = [rng.randrange(20), rng.randrange(20) / 4, -3, 2**60]
    low = rng.choice(numbers)
    if kind == 0:
        return {
            rng.choice(["price", "brand", "flag", "size.cm", "nothing"]): rng.choice(
                [*numbers, "a", "1", True, False, 1]
            )
        }
    if kind == 1:
        return {"brand": rng.choice([["a", "b"], ["c"], [1, "1"], []])}
    if kind == 2:
        return {"price": {"gte": low, "lt": rng.choice(numbers)}}
    if kind == 3:
        return {rng.choice(["brand", "price"]): {"ne": rng.choice(["a", ["a", "b"], 3, low])}}
    if kind == 4:
        return {rng.choice(["size", "size.cm", "size.label", "flag", "price"]): {"exists": rng.random() < 0.5}}
    if kind == 5:
        return {"brand": {"gt": rng.choice("abc1")}, "size.cm": {"lte": rng.randrange(5)}}
    inner = [a_filter(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    return {"not": inner[0]} if kind == 6 else {"and" if kind == 7 else "or": inner}


def facet(documents: list[Document], path: str, limit: int) -> tuple[list[tuple[Any, int]], int, Any, Any]:
    """Return the most frequent values, how many there are, and the smallest and the largest number."""
    counts: Counter[tuple[int, Any]] = Counter()
    for document in documents:
        counts.update({(kind_of(value), value) for value in values_of(document.payload, path)})
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    numbers = [value for kind, value in counts if kind == 1]
    return (
        [(value, count) for (_, value), count in ordered[:limit]],
        len(counts),
        min(numbers, default=None),
        max(numbers, default=None),
    )


# --- scores ----------------------------------------------------------------------------------------------------------


class Oracle:
    """Scores of every title of a catalogue, in float64."""

    def __init__(self, documents: list[Document], encoder: Encoder) -> None:
        self.documents, self.encoder = documents, encoder
        self.words = [document.title.split() for document in documents]
        titles = [document.title for document in documents]
        self.vectors = np.array([_unit(encoder.encode_document(title)) for title in titles], np.float64)

    def bm25(self, query: str) -> tuple[np.ndarray, float]:  # type: ignore[type-arg]
        """Return the BM25 score of each title, and the highest that the words allow."""
        count = len(self.documents)
        mean = sum(map(len, self.words)) / count
        scores, highest = np.zeros(count), 0.0
        for word, times in Counter(query.split()).items():
            having = sum(word in words for words in self.words)
            idf = math.log(1 + (count - having + 0.5) / (having + 0.5))
            highest += idf * times
            for row, words in enumerate(self.words):
                frequency = words.count(word)
                norm = 1.2 * (1 - 0.75 + 0.75 * len(words) / mean)
                scores[row] += times * idf * frequency / (frequency + norm)
        return scores, highest

    def order(self, case: Case) -> tuple[list[int], np.ndarray, list[int], bool]:  # type: ignore[type-arg]
        """Return the rows that are found, in order, all scores, the rows of the head, and whether a cut is close."""
        allowed = np.array([case.where is None or holds(case.where, document.payload) for document in self.documents])
        bm25, highest = self.bm25(case.query)
        query = _unit(self.encoder.encode_query(case.query))
        cosine = (self.vectors * query).sum(axis=1)  # equal titles get equal cosines, to the last bit
        by_words = _best(bm25, allowed & (bm25 > 0))
        by_vectors = _best(cosine, allowed & self.vectors.any(axis=1) & query.any())
        if case.mode != "hybrid":
            rows, scores = (by_words, bm25) if case.mode == "words" else (by_vectors, cosine)
            return rows, scores, rows if case.mode == "words" else rows[:HEAD], self._is_close(scores, rows)
        fused = COSINE * cosine + BM25 * bm25 / highest
        head = np.zeros(len(allowed), np.bool_)
        head[by_words[:HEAD] + by_vectors[:HEAD]] = True
        first = _best(fused, head)
        behind = [row for row in by_words if not head[row]]
        rest = [row for row in by_vectors if not head[row] and not bm25[row]]
        is_close = self._is_close(bm25, by_words) or self._is_close(cosine, by_vectors)
        return first + behind + rest, fused, first, is_close

    def _is_close(self, scores: np.ndarray, rows: list[int]) -> bool:  # type: ignore[type-arg]
        """Return whether rounding decides which titles are the first 100. Titles of the same words are equal."""
        if len(rows) <= HEAD:
            return False
        last, next_one = rows[HEAD - 1], rows[HEAD]
        return self.words[last] != self.words[next_one] and bool(abs(scores[last] - scores[next_one]) < NEAR)


def _unit(vector: Any) -> np.ndarray:  # type: ignore[type-arg]  # noqa: ANN401
    vector = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def _best(scores: np.ndarray, found: np.ndarray) -> list[int]:  # type: ignore[type-arg]
    rows = np.flatnonzero(found)
    return [int(row) for row in rows[np.argsort(-scores[rows], kind="stable")]]


# --- cases -----------------------------------------------------------------------------------------------------------


def a_case(oracle: Oracle, rng: random.Random) -> Case:
    known = sorted({word for words in oracle.words for word in words})
    query = " ".join(rng.choices(known, k=rng.choice([1, 1, 2, 3, 5])))
    where = a_filter(rng) if rng.random() < 0.6 else None
    k, offset = rng.choice([1, 3, 10, 50, 120, 300]), rng.choice([0, 0, 0, 2, 30, 110])
    return Case(query, rng.choice(["hybrid", "words", "vectors"]), where, k, offset, None)


def differences(index: Index, oracle: Oracle, case: Case, rng: random.Random) -> str | None:
    """Return what is wrong about the answer to a case; None if nothing is, "close" if rounding decides."""
    rows, scores, head, is_close = oracle.order(case)
    if rng.random() < 0.2 and rows:
        least = float(scores[rng.choice(rows)]) + 0.01
        if min(abs(scores[rows] - least), default=1) < NEAR:
            return "close"
        case = case._replace(min_score=least)
        rows = [row for row in rows if scores[row] >= least]
        head = [row for row in head if scores[row] >= least]
    if is_close:
        return "close"
    options = {"where": case.where, "mode": case.mode, "min_score": case.min_score}
    hits = index.search(case.query, case.k, offset=case.offset, **options)
    expected = rows[case.offset : case.offset + case.k]
    row_of = {document.id: row for row, document in enumerate(oracle.documents)}
    got = [row_of.get(hit.id, -1) for hit in hits]
    if len(got) != len(expected) or -1 in got or len(set(got)) < len(got):
        return f"{len(got)} hits instead of {len(expected)}"
    for place, (hit, row, wanted) in enumerate(zip(hits, got, expected, strict=True)):
        if abs(hit.score - scores[row]) > 1e-5 * max(1, abs(scores[row])):
            return f"hit {place} scores {hit.score} instead of {scores[row]}"
        if row != wanted and not _may_swap(oracle, case, row, wanted, head, scores):
            return f"hit {place} is {hit.id} instead of {oracle.documents[wanted].id}"
        document = oracle.documents[row]
        if (hit.title, hit.payload) != (document.title, document.payload):
            return f"hit {place} has another title or payload"
    fields = ["price", "brand", "flag", "size.cm", "size.label", "nothing"]
    for query in (case.query, None):
        found = [oracle.documents[row] for row in head] if query else [
            document for document in oracle.documents if case.where is None or holds(case.where, document.payload)
        ]  # fmt: skip
        limit = rng.choice([1, 3, 10])
        counted = index.facets(query, fields, case.where, limit, case.mode, case.min_score if query else None)
        for name in fields:
            told, right = tuple(counted[name]), facet(found, name, limit)
            if repr(told) != repr(right) and _plain(told) != _plain(right):
                return f"facet {name} of {query!r} is {told} instead of {right}"
    return None


def _plain(counted: tuple[Any, ...]) -> list[Any]:
    """Return a facet in which 1 and 1.0 are the same, and true is not."""
    plain = lambda value: (kind_of(value), value)  # noqa: E731
    return [[(plain(value), count) for value, count in counted[0]], *counted[1:]]


def _may_swap(oracle: Oracle, case: Case, row: int, wanted: int, head: list[int], scores: Any) -> bool:  # noqa: ANN401
    """Return whether two titles may be in another order: what orders them is nearly the same."""
    if case.mode == "words":
        return bool(0 < abs(scores[row] - scores[wanted]) < NEAR)
    if oracle.words[row] == oracle.words[wanted]:  # these have the same vector, to the last bit
        return False
    if case.mode == "vectors" or (row in head and wanted in head):
        return bool(abs(scores[row] - scores[wanted]) < NEAR)
    bm25, _ = oracle.bm25(case.query)
    cosine = oracle.vectors @ _unit(oracle.encoder.encode_query(case.query))
    order = bm25 if bm25[row] and bm25[wanted] else cosine
    return row not in head and wanted not in head and bool(abs(order[row] - order[wanted]) < 10 * NEAR)


def catalogue(seed: str) -> list[tuple[str, str]]:
    """Make a catalogue and search it. Return how each case ended, and what it was."""
    rng, encoder, ended = random.Random(seed), Encoder(tiny(cells=16, seed=3)), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        count = rng.choice([1, 2, 5, 20, 60, 120, 250])
        documents = {str(document.id): document for document in (a_document(number, rng) for number in range(count))}
        Index.create(path, encoder, documents.values(), search="exact").close()
        index = Index.open(path)
        try:
            change(index, documents, rng)
            if rng.random() < 0.2:
                index.compact()
                change(index, documents, rng)
            if rng.random() < 0.2:
                index.close()
                index = Index.open(path)
            if not documents:
                return [("right" if not index.search("new york", 10) else "wrong", seed)]
            oracle = Oracle(list(documents.values()), index.encoder)
            for number in range(QUERIES):
                case = a_case(oracle, rng)
                told = differences(index, oracle, case, rng)
                ended.append(
                    (
                        "right" if told is None else "close" if told == "close" else f"wrong: {told}",
                        f"{seed}/{number} {case}",
                    )
                )
        finally:
            index.close()
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    done = 0
    with multiprocessing.get_context("forkserver").Pool(options.jobs) as pool:
        seeds = (f"{options.seed}-{number}" for number in range(options.cases))
        for ended in pool.imap(catalogue, seeds):
            for outcome, case in ended:
                kind = outcome.partition(":")[0]
                mode = case.partition("mode='")[2].partition("'")[0] or "empty index"
                counts.setdefault(mode, Counter())[kind] += 1
                done += kind != "close"
                if kind == "wrong":
                    print(f"{case}: {outcome}", flush=True)
            if done >= options.cases:
                pool.terminate()
                break
    print(f"{'mode':12}{'right':>8}{'wrong':>8}{'skipped':>8}")
    for mode, count in sorted(counts.items()):
        print(f"{mode:12}{count['right']:8,}{count['wrong']:8,}{count['close']:8,}")
    total = sum(counts.values(), Counter[str]())
    print(json.dumps({"cases": total["right"] + total["wrong"], "wrong": total["wrong"], "skipped": total["close"]}))
    sys.exit(total["wrong"] > 0)


if __name__ == "__main__":
    main()
