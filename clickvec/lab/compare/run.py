"""compare(): fit every system, score dev and test, and gather the rows. It can be stopped and started again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clickvec.errors import ClickvecError, Interrupted
from clickvec.evaluation import evaluate
from clickvec.evaluation.metrics import with_relevant, write_qrels, write_run
from clickvec.lab.compare import fusion
from clickvec.lab.compare.bench import Bench, Task, code_version
from clickvec.lab.compare.material import Material
from clickvec.lab.compare.pool import run_all
from clickvec.lab.compare.result import Comparison, Row
from clickvec.lab.compare.store import Recorded
from clickvec.lab.compare.systems import System, choose
from clickvec.lab.compare.trained import Trainer
from clickvec.progress import Progress
from clickvec.storage import files
from clickvec.storage.outputs import check_outside
from clickvec.storage.temporary import locked

Say = Callable[[str], None]
# What is in the folder of a comparison.
FILES = ("scores", "models", "trec", "lock", "comparison.json", "table.md", "table.tex", "cost.png")


def compare(
    material: Material, out: str | Path, *, recipe: str = "default", keys: Sequence[str] = (), seeds: int = 1,
    settings: Sequence[str] = (), device: str = "auto", jobs: int = 1, commit: str = "", say: Say = lambda _: None,
    progress: Progress | None = None,
) -> Comparison:  # fmt: skip
    """The rows of the table. What is in `out` for the same data and settings is used and not made again."""
    chosen, out = choose(recipe, keys), Path(out)
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
    with locked(out / "lock", str(out)):
        tasks = [Task(system, seed) for system in own for seed in _seeds(system, seeds)]
        tasks += [Task(system, 1) for system in curve.values() if Task(system, 1) not in tasks]
        try:
            recorded = run_all(bench, tasks, say)
        except KeyboardInterrupt:
            raise Interrupted("stopped; the same command goes on from here") from None
        for system in chosen:
            for seed in _seeds(system, seeds) if system.parts else ():
                parts = [_of_seed(recorded, part, seed) for part in system.parts]
                recorded[system.key, seed] = fusion.fuse(system, parts, material)
        rows = [_row(system, _runs(recorded, system.key), bench, seeds) for system in chosen]
        keys = [system.key for system in chosen]
        _write_trec(out / "trec", material, {task: run for task, run in recorded.items() if task[0] in keys})
    queries = {split: with_relevant(judged) for split, judged in material.sets.items()}
    left_out = {split: len(judged) - len(queries[split]) for split, judged in material.sets.items()}
    about = {"recipe": recipe, "settings": list(settings), "seeds": seeds, "pairs": len(material.log)}
    both = len({query.query for query in material.dev} & {query.query for query in material.test})
    if both:
        say(f"{both:,} queries are both in dev and in test: what is chosen on dev flatters the figures on test")
        about["queries both in dev and in test"] = both
    about |= {name: ", ".join(paths) for name, paths in material.names.items() if paths}
    curves = {label: recorded[system.key, 1].facts.history for label, system in curve.items()}
    return Comparison(tuple(rows), queries, left_out, about, curves)


def check_place(out: Path) -> None:
    """Refuse a folder that holds other things than a comparison; `scores` that were carried there are one."""
    check_outside(out)
    if out.exists() and not out.is_dir():
        raise ClickvecError(f"{out} is a file, and a folder is to be written there; choose another --out")
    found = [entry.name for entry in out.iterdir()] if out.exists() else []
    others = sorted(name for name in found if name not in FILES and not name.startswith("."))
    if others:
        raise ClickvecError(f"{out} holds {others[0]}, which is no part of a comparison; choose another --out")


def _seeds(system: System, seeds: int) -> range:
    return range(1, seeds + 1) if system.seeded else range(1, 2)


def _runs(recorded: Mapping[tuple[str, int], Recorded], key: str) -> list[Recorded]:
    return [run for (found, _), run in sorted(recorded.items()) if found == key]


def _of_seed(recorded: Mapping[tuple[str, int], Recorded], key: str, seed: int) -> Recorded:
    """A system's run with this seed; its only one where the seed changes nothing."""
    return recorded.get((key, seed)) or recorded[key, 1]


def _curve_systems(bench: Bench, own: Sequence[System]) -> dict[str, System]:
    """The two systems of the paper's figure of training costs, where both are wanted, with the same cost function.

    A cost depends on γ: where the recipe gives the RNN another one, the figure has a run of it with that of the
    LSTM-RNN, which is in no table.
    """
    found = {system.key: system for system in own}
    if not {"lstm", "rnn"} <= set(found):
        return {}
    gamma = bench.trainer.recipe_of(found["lstm"], 1).gamma
    rnn = found["rnn"]
    if bench.trainer.recipe_of(rnn, 1).gamma != gamma:
        rnn = System("rnn-cost", rnn.label, {**(rnn.settings or {}), "gamma": gamma})
    return {"LSTM-RNN": found["lstm"], "RNN": rnn}


def _row(system: System, runs: Sequence[Recorded], bench: Bench, seeds: int) -> Row:
    facts = [run.facts for run in runs]
    values = {
        split: evaluate.evaluate([_Named(run, str(place)) for place, run in enumerate(runs)], judged).values
        for split, judged in bench.material.sets.items()
    }
    return Row(
        system.key, facts[0].label or bench.label(system), values["dev"], values["test"], facts[0].parameters,
        # Of the first seed, like the machine: seeds may have run on different ones, and a mean would be of no machine.
        train_seconds=facts[0].train_seconds, queries_per_second=facts[0].queries_per_second,
        settings=facts[0].settings, histories=[fact.history for fact in facts],
        command=bench.command(system, seeds), commit=facts[0].commit, machine=facts[0].machine,
    )  # fmt: skip


class _Named(Recorded):
    """A recorded run under another name: the seeds of a system have one name, and an evaluation wants several."""

    def __init__(self, run: Recorded, name: str) -> None:
        self.__dict__ |= run.__dict__
        self.name = name


def _write_trec(place: Path, material: Material, recorded: Mapping[tuple[str, int], Recorded]) -> None:
    """A run file for each system and seed, and the judgements, with gains in place of grades for trec_eval."""
    with files.replacing(place, "test.qrels") as fresh:
        for split, judged in material.sets.items():
            write_qrels(fresh / f"{split}.qrels", judged)
            write_qrels(fresh / f"{split}.gains.qrels", judged, gains=True)
            for (key, seed), run in recorded.items():
                write_run(fresh / f"{split}.{key}.{seed}.run", evaluate.run(run, judged), f"{key}.{seed}")
