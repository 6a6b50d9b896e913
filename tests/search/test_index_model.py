"""What a reader sees depends on the living documents, in the order in which they were added, and on nothing else.

Hypothesis changes an index in random steps. After each step, every reader must see what a new index of the same
documents shows: ids, scores, pages, facets. It does not matter what was there before, when a segment was built, or
which process reads. `make test-model STEPS=100000` tries many steps with new random numbers.
"""

import contextlib
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import Answers, answers
from child import ROOT
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tiny import tiny, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.fusion import Fusion
from clickvec.search.index import Change, Document, Index
from clickvec.search.live import live_index
from clickvec.search.parts import MODES

STEPS = int(os.environ.get("CLICKVEC_MODEL_STEPS", "400"))
TOLERANCE = 1e-6  # of scores, relative to those above 1
MOST = 250  # hits that are compared: more than the candidates of hybrid search
NEAREST, LEAST_RECALL = 10, 0.8  # share of the 10 nearest titles that an approximate search finds for each query

# An index adds so many documents at once as a new segment, and compacts itself after so many changes. These numbers are
# its constants, made small, so that few documents reach both.
SMALL_LIMITS = ((live_index, "BULK", 30), (live_index, "MOST_ADDED", 60))

WORDS = (
    *("hotel", "hotels", "shanghai", "cheap", "flights", "new", "york", "city", "guide", "paint", "bathtub", "fix"),
    *("tub", "the", "of", "ab-260", "ab260", "7", "café", "上海", "酒店", "жжж", "accommodation", "reservation"),
    *("accomodations", "preservation", "hotel " * 300),
)
# More words of similar spelling than a correction compares.
SIMILAR = ["".join(letters) for length in (5, 6) for letters in itertools.product("ab", repeat=length)]
QUERIES = [
    "hotels in shanghai",
    "cheep flihgts",
    "ab 260",
    "new york 酒店",
    "жжж the",
    "",
    "zzz",
    "paint bathtub 7",
    "abccab cabb hotls",
    "acomodatoin reservatoin newyork",
]
WHERES = [None, {"n": [1, 2]}]
FUSIONS = (
    Fusion.default(),
    Fusion.mixture("vectors", 0.2),
    Fusion.ranks(60),
    Fusion.from_json(
        {
            "method": "clicks",
            "weights": {
                "constant": -3.0, "cosine": 4.0, "words": 1.0, "codes": 0.5, "rarest match": 0.3, "unknown words": -0.2,
                "rarest word": 0.1, "query length": -0.1,
            },
        }
    ),
)  # fmt: skip

titles = st.lists(st.sampled_from(WORDS) | st.sampled_from(SIMILAR), max_size=5).map(" ".join)
new_titles = titles.filter(str.strip)  # a change must not blank a title
ids = st.integers(0, 14) | st.integers(0, 14).map(str)
payloads = st.none() | st.fixed_dictionaries({"n": st.integers(0, 3)}, optional={"brand": st.sampled_from("xy")})
documents = st.lists(st.builds(Document, ids, titles, payloads), max_size=6, unique_by=lambda one: str(one.id))
fields = st.fixed_dictionaries(
    {}, optional={"n": st.none() | st.integers(0, 3), "brand": st.none() | st.sampled_from("xy")}
)
which = st.integers(0, 1000)  # one of those that are there
bm25_constants = st.tuples(st.floats(0, 3), st.floats(0, 1))
doors = st.sampled_from(["first", "second"])  # which of two handles of this process makes a change


@cache
def folder() -> Path:
    """A folder for this process, which is removed when it ends."""
    made = tempfile.TemporaryDirectory(prefix="clickvec-model-")
    _kept.append(made)
    return Path(made.name)


_kept: list[Any] = []


@cache
def model(number: int) -> Encoder:
    """One of four models: two of equal sizes, a larger one, and one whose training has chosen a fusion."""
    path = folder() / f"model-{number}"
    if number < 3:
        return Encoder.load(tiny_model(path, seed=number, **({"output": 8} if number == 2 else {})))
    from clickvec.model.folder import save_model

    save_model(tiny(seed=3)._replace(fusion=FUSIONS[3].as_json()), path)
    return Encoder.load(path)


@cache
def other_process() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "answers.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    _kept.append(process)
    return process


@pytest.fixture(scope="module", autouse=True)
def _clean_up() -> Iterator[None]:
    yield
    for kept in _kept:
        if isinstance(kept, subprocess.Popen):
            kept.kill()
            kept.communicate(timeout=60)
        else:
            kept.cleanup()
    _kept.clear()
    for made in (folder, model, other_process):
        made.cache_clear()


class OnDisk(RuleBasedStateMachine):
    """An index folder, two handles of it in this process, and what they must show."""

    is_on_disk, vectors, search = True, "float32", "exact"
    count = 0  # of documents at the beginning
    steps_each, queries_each = 25, 3  # steps on one index, then a new one is made; queries after each step

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = contextlib.ExitStack()
        self.path = Path(self.cleanup.enter_context(tempfile.TemporaryDirectory(dir=folder()))) / "index"
        patch = self.cleanup.enter_context(pytest.MonkeyPatch.context())
        for module, name, value in SMALL_LIMITS:
            patch.setattr(module, name, value)
        self.steps = 0
        self.handles: dict[str, Index] = {}
        self.anew: Index | None = None  # a new index of the same documents, until the next change

    def teardown(self) -> None:
        for index in self.handles.values():
            index.close()
        self.cleanup.close()

    # --- what must be seen -------------------------------------------------------------------------------------------

    def put(self, *changed: Document) -> None:
        """Expect these documents at the end."""
        for document in changed:
            self.expected.pop(str(document.id), None)
        self.expected |= {str(document.id): document for document in changed}

    def asked(self) -> list[Any]:
        """Return the queries and filters of this step, and the field to count."""
        queries = itertools.islice(itertools.cycle(QUERIES), self.steps, self.steps + self.queries_each)
        return [list(queries), WHERES, "n"]

    def compare(self, found: Answers) -> None:
        expected = self.expected_answers
        for name in ("documents", "length", "model", "fusion", "facets", "corrections"):
            assert found[name] == expected[name], name
        for question, hits in expected["hits"].items():
            self.compare_hits(found["hits"][question], hits, question)

    def compare_hits(self, found: list[list[Any]], expected: list[list[Any]], question: str) -> None:
        """Compare hits up to ties: equal scores at each place, and equal scores of each id. The last may be others."""
        assert len(found) == min(MOST, len(expected)), question
        if not found:
            return
        scores = {hit[0]: hit[1:] for hit in expected}
        values = [hit[1:] for hit in found]
        check_close(values, [hit[1:] for hit in expected[:MOST]], question)
        check_close(values, [scores[hit[0]] for hit in found], question)

    @invariant()
    def every_reader_sees_what_a_new_index_shows(self) -> None:
        if not self.handles:
            return
        wait_for_compaction()
        self.steps += 1
        if self.anew is None:
            self.anew = Index.build(self.encoder, list(self.expected.values()), vectors=self.vectors)
            self.anew.use_fusion(self.fusion, self.k1, self.b)
        self.expected_answers = answers(self.anew, *self.asked(), max(MOST, len(self.expected)))
        for name, index in self.handles.items():
            if name != self.changed_by:  # who has made a change sees it at once
                index.refresh()
            self.compare(answers(index, *self.asked(), MOST))
            self.check_pages(index)
        if self.steps == self.asked_at and self.is_on_disk:
            self.compare(self.answers_of_another_process())

    def answers_of_another_process(self) -> Answers:
        process = other_process()
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps({"path": str(self.path), "questions": [*self.asked(), MOST]}) + "\n")
        process.stdin.flush()
        return dict(json.loads(process.stdout.readline()))

    def check_pages(self, index: Index) -> None:
        """Short pages are cuts of one long page, which goes beyond the candidates of hybrid search."""
        query, where = QUERIES[self.steps % len(QUERIES)], WHERES[self.steps % len(WHERES)]
        for mode in MODES:
            whole = index.search(query, MOST, where, mode)
            size = max(2, len(whole) // 5)
            pages = [index.search(query, size, where, mode, offset) for offset in range(0, len(whole) + 1, size)]
            assert list(itertools.chain(*pages))[: len(whole)] == whole

    # --- the steps ---------------------------------------------------------------------------------------------------

    @initialize(number=st.integers(0, 3), asked_at=st.integers(1, 100), seed=st.integers(0, 10**6))
    def create(self, number: int, asked_at: int, seed: int) -> None:
        self.encoder, self.k1, self.b, self.asked_at = model(number), None, None, asked_at
        self.fusion = chosen_fusion(self.encoder)
        first = made(self.count, seed, "first")
        self.expected = {str(document.id): document for document in first}
        self.changed_by = "first"
        if self.is_on_disk:
            Index.create(self.path, self.encoder, first, vectors=self.vectors, search=self.search).close()
            self.handles = {name: Index.open(self.path) for name in ("first", "second")}
        else:
            self.handles = {"first": Index.build(self.encoder, first, vectors=self.vectors)}

    def by(self, door: str) -> Index:
        """Return the handle that makes a change."""
        self.changed_by = door if self.is_on_disk else "first"
        self.anew = None
        return self.handles[self.changed_by]

    def some(self, numbers: Sequence[int]) -> list[str | int]:
        """Return different ids of documents that are there."""
        there = list(self.expected.values())
        return list({at % len(there): there[at % len(there)].id for at in numbers}.values()) if there else []

    @rule(door=doors, added=documents)
    def add(self, door: str, added: list[Document]) -> None:
        """Add documents. Some of them replace others."""
        assert self.by(door).add(added) == len(added)
        self.put(*added)

    @rule(door=doors, numbers=st.lists(which, min_size=1, max_size=3), title=titles)
    def replace(self, door: str, numbers: list[int], title: str) -> None:
        """Add documents with the ids of others, and with another title."""
        changed = [Document(doc_id, title, {"n": 1}) for doc_id in self.some(numbers)]
        self.by(door).add(changed)
        self.put(*changed)

    @rule(door=doors, numbers=st.lists(which, min_size=1, max_size=3), values=fields, title=st.none() | new_titles)
    def update(self, door: str, numbers: list[int], values: dict[str, Any], title: str | None) -> None:
        """Change single fields."""
        changes = [Change(doc_id, title, values) for doc_id in self.some(numbers)]
        assert self.by(door).update(changes) == len(changes)
        self.put(*(change.of(self.expected[str(change.id)]) for change in changes))

    @rule(door=doors, numbers=st.lists(which, min_size=1, max_size=4))
    def delete(self, door: str, numbers: list[int]) -> None:
        """Delete documents."""
        gone = self.some(numbers)
        assert self.by(door).delete([*gone, "never there"]) == len(gone)
        for doc_id in gone:
            del self.expected[str(doc_id)]

    @rule(door=doors, count=st.integers(31, 75), seed=st.integers(0, 10**6))
    def add_in_bulk(self, door: str, count: int, seed: int) -> None:
        """Add more documents than the delta takes."""
        added = made(self.count // 20 + count, seed, "bulk")
        self.by(door).add(added)
        self.put(*added)

    @precondition(lambda self: len(self.expected) > 100)
    @rule(door=doors, share=st.floats(0.3, 1))
    def delete_many(self, door: str, share: float) -> None:
        """Delete a part of the documents, as far as the index keeps its minimum."""
        gone = list(self.expected)[: int(share * (len(self.expected) - self.count))]
        assert self.by(door).delete(gone) == len(gone)
        for doc_id in gone:
            del self.expected[doc_id]

    @rule(door=doors, number=st.integers(0, 3), fusion=st.none() | st.sampled_from(FUSIONS))
    def use_model(self, door: str, number: int, fusion: Fusion | None) -> None:
        """Swap the model, or the fusion of the same model."""
        self.encoder, self.fusion = model(number), fusion or chosen_fusion(model(number))
        self.by(door).use_model(self.encoder, fusion)

    @rule(door=doors, fusion=st.sampled_from(FUSIONS), constants=st.none() | bm25_constants)
    def use_fusion(self, door: str, fusion: Fusion, constants: tuple[float, float] | None) -> None:
        """Swap the fusion alone."""
        self.fusion = fusion
        if constants:
            self.k1, self.b = constants
        self.by(door).use_fusion(fusion, *(constants or ()))

    @rule(door=doors)
    def compact(self, door: str) -> None:
        self.by(door).compact()

    @rule(repair=st.booleans(), is_alone=st.booleans())
    def restart(self, repair: bool, is_alone: bool) -> None:
        """Close and open again: one of two handles, or both, so that for a moment nobody has opened the index."""
        if not self.is_on_disk:
            self.handles = {"first": pickle.loads(pickle.dumps(self.handles["first"]))}
            return
        for name in ("first", "second") if is_alone else ("first",):
            self.handles[name].close()
        self.handles["first"] = Index.open(self.path, repair=repair)
        if is_alone:
            self.handles["second"] = Index.open(self.path)

    @rule(door=doors, added=documents)
    def refused(self, door: str, added: list[Document]) -> None:
        """Changes that are refused change nothing."""
        index = self.by(door)
        twice = [*added, Document("twice", "x"), Document("twice", "y")]
        with pytest.raises(ClickvecError, match="more than one title"):
            index.add(twice)
        with pytest.raises(ClickvecError, match="no document with the id 'never there'"):
            index.update([*(Change(doc_id, "x") for doc_id in self.some([0])), Change("never there", "x")])

    @rule(door=doors, number=st.integers(0, 3), count=st.integers(31, 75), seed=st.integers(0, 10**6))
    def swap_the_model_beside_a_bulk(self, door: str, number: int, count: int, seed: int) -> None:
        """Two threads, or two handles, build a new segment at the same time."""
        added = made(self.count // 20 + count, seed, "bulk")
        self.encoder, self.fusion = model(number), chosen_fusion(model(number))
        swapping, adding = self.by("first"), self.by(door)
        in_threads(lambda: swapping.use_model(self.encoder), lambda: adding.add(added))
        self.changed_by = ""  # neither has to show the change of the other at once
        self.put(*added)

    @rule(door=doors, added=documents)
    def compact_beside_a_change(self, door: str, added: list[Document]) -> None:
        """One thread, or handle, compacts while another one adds documents."""
        compacting, adding = self.by("first"), self.by(door)
        in_threads(compacting.compact, lambda: adding.add(added))
        self.changed_by = ""
        self.put(*added)


class InInt8(OnDisk):
    """The same, with vectors of int8."""

    vectors = "int8"


class InMemory(OnDisk):
    """An index in memory, which has one handle. A restart pickles it."""

    is_on_disk = False


class Approximate(OnDisk):
    """An index folder whose vectors are searched approximately, with as many titles as this needs."""

    search, count = "approximate", 1_100
    steps_each, queries_each = 8, 1

    def compare_hits(self, found: list[list[Any]], expected: list[list[Any]], question: str) -> None:
        """Compare words exactly. Nearest titles may be missing, but each title that is found has its exact scores."""
        mode = question.split()[0]
        if mode == "words":
            super().compare_hits(found, expected, question)
            return
        assert len({hit[0] for hit in found}) == len(found), question
        first = 2 if mode == "hybrid" and self.fusion.method == "ranks" else 1  # ranks depend on what is found
        scores = {hit[0]: hit[first:] for hit in expected}
        check_close([hit[first:] for hit in found], [scores[hit[0]] for hit in found], question)
        if mode == "vectors" and expected:
            best = expected[:NEAREST]
            hits = [hit for hit in found[:NEAREST] if hit[1] >= best[-1][1] - TOLERANCE]  # a tie is as near
            assert len(hits) >= LEAST_RECALL * len(best), question


def check_close(found: list[list[float]], expected: list[list[float]], question: str) -> None:
    np.testing.assert_allclose(np.array(found), np.array(expected), TOLERANCE, TOLERANCE, err_msg=question)


def made(count: int, seed: int, prefix: str) -> list[Document]:
    """Return documents of random words. Those of one seed and prefix have the same ids."""
    rng = random.Random(seed)
    return [
        Document(
            f"{prefix} {number}",
            " ".join(rng.choice(rng.choice((WORDS, SIMILAR))) for _ in range(rng.randint(1, 6))),
            {"n": rng.randrange(4)},
        )
        for number in range(count)
    ]


def chosen_fusion(encoder: Encoder) -> Fusion:
    """Return the fusion that training has chosen for a model, or the default."""
    return Fusion.from_json(encoder.model.fusion) if encoder.model.fusion else Fusion.default()


def wait_for_compaction() -> None:
    """Wait for a compaction that an index has begun by itself, so that a run of steps can be repeated."""
    for thread in threading.enumerate():
        if thread.name == "clickvec-compact":
            thread.join(60)
            assert not thread.is_alive()


def in_threads(*actions: Callable[[], object]) -> None:
    """Do all of these at the same time."""
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(("kind", "share"), [(OnDisk, 0.5), (InInt8, 0.21), (InMemory, 0.21), (Approximate, 0.08)])
def test_what_a_reader_sees_depends_on_the_living_documents_alone(kind: type[OnDisk], share: float) -> None:
    if kind is Approximate:
        pytest.importorskip("faiss")
    steps = settings(
        max_examples=max(1, round(STEPS * share) // kind.steps_each),
        stateful_step_count=kind.steps_each,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(kind, settings=steps)


@pytest.mark.slow
def test_the_same_holds_with_the_real_limits(tmp_path: Path) -> None:
    """One bulk, and then so many deletions that the index compacts itself in a child process."""
    bulk, questions = made(live_index.BULK + 1, 0, "bulk"), (QUERIES[:3], WHERES, "n", MOST)
    with Index.create(tmp_path / "index", model(0), made(10, 0, "first")) as index:
        first = list(index)
        index.add(bulk)
        anew = Index.build(model(0), [*first, *bulk])
        assert answers(index, *questions) == answers(anew, *questions)
        index.delete(document.id for document in bulk)
        wait_for_compaction()
        assert answers(index, *questions) == answers(Index.build(model(0), first), *questions)
        assert len(index.view().seqs_at(np.arange(index.view().size))) == len(first)  # it has compacted itself
