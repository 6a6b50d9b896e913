"""compare(): fit every system, score dev and test, and collect the rows. A stopped comparison can be resumed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError, Interrupted
from clickvec.evaluation.measure import LIST_MEASURES, measure
from clickvec.evaluation.metrics import CHOSEN_BY, with_relevant, write_run
from clickvec.evaluation.significance import Floats
from clickvec.evaluation.test_set import TestSet
from clickvec.lab.compare.baselines import Trial, best_on
from clickvec.lab.compare.bench import Bench, Task, code_version
from clickvec.lab.compare.catalogue_search import NOT_SEARCHED, Rows, catalogue_values, fuse_ranks
from clickvec.lab.compare.findings import Comparison, Row
from clickvec.lab.compare.material import Material
from clickvec.lab.compare.pool import run_all
from clickvec.lab.compare.qrels import write_qrels
from clickvec.lab.compare.store import Facts, Recorded, scores_of
from clickvec.lab.compare.systems import System, choose
from clickvec.lab.compare.trained import Trainer
from clickvec.lab.other_systems.hybrid import MIXTURE_GRID, RRF_GRID, Mixture, ReciprocalRank
from clickvec.progress import Progress
from clickvec.storage import files
from clickvec.storage.outputs import check_outside
from clickvec.storage.temporary import locked

Say = Callable[[str], None]
# The files and folders that a comparison writes.
FILES = ("scores", "models", "trec", "lock", "comparison.json", "table.md", "table.tex", "cost.png")


def compare(
    material: Material, out: str | Path, *, recipe: str = "default", keys: Sequence[str] = (), seeds: int = 1,
    settings: Sequence[str] = (), device: str = "auto", jobs: int = 1, commit: str = "", say: Say = lambda _: None,
    progress: Progress | None = None,
) -> Comparison:  # fmt: skip
    """Return the rows of the table. Scores in `out` that belong to the same data and settings are reused."""
    chosen, out = choose(recipe, keys), Path(out)
    if material.catalogue:
        chosen = _searchable(chosen, keys)
    trainer = Trainer(recipe, tuple(settings), device, progress if jobs == 1 else None)
    bench = Bench(material, trainer, out, commit or code_version(), jobs)
    bench.check(chosen)
    own = [system for system in chosen if not system.parts]
    curve = _curve_systems(bench, own)
    check_place(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.cannot_write(out, error) from None
    with locked(out, str(out)):
        tasks = [Task(system, seed) for system in own for seed in _seeds(system, seeds)]
        tasks += [Task(system, 1) for system in curve.values() if Task(system, 1) not in tasks]
        try:
            recorded = run_all(bench, tasks, say)
        except KeyboardInterrupt:
            raise Interrupted("stopped; run the same command again to resume") from None
        for system in chosen:
            for seed in _seeds(system, seeds) if system.parts else ():
                parts = [_of_seed(recorded, part, seed) for part in system.parts]
                recorded[system.key, seed] = _combine(system, parts, material)
        rows = [_row(system, _runs(recorded, system.key), bench, seeds) for system in chosen]
        keys = [system.key for system in chosen]
        _write_trec(out / "trec", material, {task: run for task, run in recorded.items() if task[0] in keys})
    queries = {split: with_relevant(judged) for split, judged in material.sets.items()}
    left_out = {split: len(judged) - len(queries[split]) for split, judged in material.sets.items()}
    about = {"recipe": recipe, "settings": list(settings), "seeds": seeds, "pairs": len(material.log)}
    both = len({query.query for query in material.dev} & {query.query for query in material.test})
    if both:
        say(f"{both:,} queries are in both dev and test, so settings chosen on dev make the figures on test too good")
        about["queries both in dev and in test"] = both
    if material.catalogue:
        about["titles searched"] = len(material.searched.titles)
    about |= {name: ", ".join(paths) for name, paths in material.names.items() if paths}
    curves = {label: recorded[system.key, 1].facts.history for label, system in curve.items()}
    return Comparison(tuple(rows), queries, left_out, about, curves)


def check_place(out: Path) -> None:
    """Refuse a folder that contains anything but a comparison. A folder with only `scores` in it is accepted."""
    check_outside(out)
    if out.exists() and not out.is_dir():
        raise ClickvecError(f"{out} is a file, and --out must be a folder; choose another --out")
    names = [entry.name for entry in out.iterdir()] if out.exists() else []
    others = sorted(name for name in names if name not in FILES and not name.startswith("."))
    if others:
        raise ClickvecError(f"{out} contains {others[0]}, which is not part of a comparison; choose another --out")


def _seeds(system: System, seeds: int) -> range:
    return range(1, seeds + 1) if system.seeded else range(1, 2)


def _runs(recorded: Mapping[tuple[str, int], Recorded], key: str) -> list[Recorded]:
    return [ranker for (other, _), ranker in sorted(recorded.items()) if other == key]


def _of_seed(recorded: Mapping[tuple[str, int], Recorded], key: str, seed: int) -> Recorded:
    """Return the run of a system with this seed, or its only run if it does not depend on the seed."""
    return recorded.get((key, seed)) or recorded[key, 1]


def _combine(system: System, parts: Sequence[Recorded], material: Material) -> Recorded:
    """Combine the scores of BM25 and the LSTM-RNN, with settings chosen on dev. Times and parameters add up."""
    words, vectors = parts
    found, grid = _fuse_searches(words, vectors, material) if material.catalogue else ({}, {})
    if system.key == "hybrid-rrf":
        trials: list[Trial] = [(grid, partial(ReciprocalRank, [words, vectors], **grid)) for grid in RRF_GRID]
    else:
        trials = [(grid, partial(Mixture, vectors, words, **grid)) for grid in MIXTURE_GRID]
    best = best_on(material.dev, trials)
    scores = {split: scores_of(best.ranker, judged) for split, judged in material.sets.items()}
    facts = [part.facts for part in parts]
    combined = Facts(
        parameters=sum(fact.parameters or 0 for fact in facts),
        train_seconds=sum(fact.train_seconds for fact in facts),
        queries_per_second=1 / sum(1 / fact.queries_per_second for fact in facts),
        settings=grid or best.settings, history=[], commit=vectors.facts.commit, machine=vectors.facts.machine,
    )  # fmt: skip
    return Recorded(system.label, combined, material.sets, scores, found)


def _searchable(systems: Sequence[System], keys: Sequence[str]) -> list[System]:
    """Return the systems that can search a catalogue. Raise if another one was asked for by name."""
    refused = next((system.key for system in systems if system.key in NOT_SEARCHED and system.key in keys), None)
    if refused:
        raise ClickvecError(
            f"{refused} cannot search a catalogue; leave it out, or measure an index by clickvec evaluate --index"
        )
    return [system for system in systems if system.key not in NOT_SEARCHED]


def _fuse_searches(words: Recorded, vectors: Recorded, material: Material) -> tuple[dict[str, Rows], dict[str, Any]]:
    """Return the rank fusion of two searches with the constant that is best on dev, and this setting."""

    def score(grid: dict[str, Any]) -> float:
        found = fuse_ranks(words.found["dev"], vectors.found["dev"], **grid)
        return float(catalogue_values(found, material.dev, material.searched)[LIST_MEASURES.index(CHOSEN_BY)].mean())

    best = max(RRF_GRID, key=score)
    return {split: fuse_ranks(words.found[split], vectors.found[split], **best) for split in material.sets}, best


def _values(runs: Sequence[Recorded], split: str, material: Material) -> Floats:
    """Return (seeds, measures, queries)."""
    judged = material.sets[split]
    if material.catalogue:
        return np.stack([catalogue_values(run.found[split], judged, material.searched) for run in runs])
    return measure({str(number): run for number, run in enumerate(runs)}, TestSet.of_judged(judged)).values


def _curve_systems(bench: Bench, own: Sequence[System]) -> dict[str, System]:
    """Return the two systems of the paper's figure of the training loss, if the table has both.

    The loss depends on γ. If the recipe gives the RNN another γ than the LSTM-RNN, the figure gets an extra run of the
    RNN with the γ of the LSTM-RNN. That run is not in the table.
    """
    systems = {system.key: system for system in own}
    if not {"lstm", "rnn"} <= set(systems):
        return {}
    gamma = bench.trainer.recipe_of(systems["lstm"], 1).gamma
    rnn = systems["rnn"]
    if bench.trainer.recipe_of(rnn, 1).gamma != gamma:
        rnn = System("rnn-cost", rnn.label, {**(rnn.settings or {}), "gamma": gamma})
    return {"LSTM-RNN": systems["lstm"], "RNN": rnn}


def _row(system: System, runs: Sequence[Recorded], bench: Bench, seeds: int) -> Row:
    facts = [run.facts for run in runs]
    values = {split: _values(runs, split, bench.material) for split in bench.material.sets}
    return Row(
        system.key, facts[0].label or bench.label(system), values["dev"], values["test"], facts[0].parameters,
        # Times of the first seed, like the machine: other seeds may have run on other machines.
        train_seconds=facts[0].train_seconds, queries_per_second=facts[0].queries_per_second,
        settings=facts[0].settings, histories=[fact.history for fact in facts],
        command=bench.command(system, seeds), commit=facts[0].commit, machine=facts[0].machine,
    )  # fmt: skip


def _write_trec(folder: Path, material: Material, recorded: Mapping[tuple[str, int], Recorded]) -> None:
    """Write a run file for each system and seed, and the qrels, also with gains instead of grades for trec_eval."""
    with files.replacing(folder, "test.qrels") as fresh:
        for split, judged in material.sets.items():
            write_qrels(fresh / f"{split}.qrels", judged)
            write_qrels(fresh / f"{split}.gains.qrels", judged, gains=True)
            for (key, seed), ranker in recorded.items():
                write_run(fresh / f"{split}.{key}.{seed}.run", ranker.rank(judged), f"{key}.{seed}")
