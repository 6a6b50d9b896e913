"""One system and seed: fit it, score dev and test, and store the scores."""

import os
import platform
import shlex
import subprocess
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import clickvec
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import with_relevant
from clickvec.lab.compare import baselines, store, trained
from clickvec.lab.compare.catalogue_search import search_catalogue
from clickvec.lab.compare.material import Material, short_hash
from clickvec.lab.compare.qrels import qrels_lines
from clickvec.lab.compare.store import Facts, Recorded, scores_of
from clickvec.lab.compare.systems import System
from clickvec.lab.compare.trained import Trainer

_FILES = (
    "clicks",
    "shown",
    "dev",
    "test",
    "held-out",
    "catalogue",
    "prose",
    "skip-thoughts",
)  # the options of the command line that name files
FORMAT = 1  # of the stored scores; scores of another format are not reused


class Task(NamedTuple):
    """One system with one seed."""

    system: System
    seed: int

    def __str__(self) -> str:
        """Return the name that progress messages show."""
        return f"{self.system.key}, seed {self.seed}" if self.system.seeded else self.system.key


class Bench(NamedTuple):
    """The data, options and output folder with which the systems are fitted."""

    material: Material
    trainer: Trainer
    out: Path
    commit: str
    jobs: int

    def check(self, systems: Sequence[System]) -> None:
        """Check, before any work, that every system has its libraries, device and settings."""
        for split, judged in self.material.sets.items():
            if not with_relevant(judged):
                raise ClickvecError(f"the {split} set has no query with a relevant title (grade 1 or more)")
            list(qrels_lines(judged))  # raises if a TREC file cannot contain an id
        self.trainer.check_settings(systems)
        if any(system.settings is not None for system in systems):
            trained.check(self.trainer)
        baselines.check([system.key for system in systems], self.material)

    def label(self, system: System) -> str:
        """Return the label of a system in the table, with the settings of its recipe."""
        if system.settings is None:
            return system.label
        return system.label.format(**asdict(self.trainer.recipe_of(system, 1)))

    def recorded(self, task: Task) -> Recorded | None:
        """Return the stored scores for the same data and settings, or None."""
        material = self.material
        return store.load(self._folder(task), task.system.label, material.sets, material.catalogue is not None)

    def record(self, task: Task) -> None:
        """Fit the system, score both judged sets, and store the scores."""
        material, system = self.material, task.system
        if system.settings is None:
            fitted = baselines.fit(
                system.key, material, task.seed, self.out / "models", self.trainer.device, self.trainer.progress
            )
        else:
            fitted = trained.fit(self.trainer, system, material, task.seed, self.out / "models")
        scores = {"dev": scores_of(fitted.ranker, material.dev)}
        begun = time.perf_counter()
        scores["test"] = scores_of(fitted.ranker, material.test)
        found = {}
        if material.catalogue:
            found["dev"] = search_catalogue(fitted.ranker, material.dev, material.searched, self.trainer.progress)
            begun = time.perf_counter()
            found["test"] = search_catalogue(fitted.ranker, material.test, material.searched, self.trainer.progress)
        seconds = time.perf_counter() - begun
        device = trained.device_name(self.trainer) if system.settings is not None else ""
        facts = Facts(
            fitted.parameters, fitted.seconds, len(material.test) / max(seconds, 1e-9), fitted.settings,
            fitted.history, self.commit, machine(device, self.jobs), fitted.label,
        )  # fmt: skip
        store.save(self._folder(task), scores, facts, found)

    def command(self, system: System, seeds: int) -> str:
        """Return the command that makes one row alone, with file names instead of paths."""
        names = self.material.names
        files = [f"--{option} {shlex.quote(name)}" for option in _FILES for name in names.get(option, ())]
        settings = [f"--set {shlex.quote(setting)}" for setting in self.trainer.settings]
        options = [f"--systems {system.key}", f"--recipe {self.trainer.recipe}", *settings, f"--seeds {seeds}"]
        return " ".join(["clickvec lab compare", *files, *options, "--out DIR"])

    def _folder(self, task: Task) -> Path:
        """Return the folder of the scores of a task, named by a hash of everything that they depend on."""
        parts: list[object] = [FORMAT, self.material.fingerprint]
        if task.system.settings is not None:
            parts.append(trained.settings_for_hash(self.trainer.recipe_of(task.system, task.seed)))
        else:
            parts.append(baselines.depends_on(task.system.key, self.material))
        return self.out / "scores" / f"{task.system.key}-{task.seed}-{short_hash(*parts)}"


def machine(device: str, jobs: int) -> str:
    """Describe the machine that made a row."""
    cores = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"{device + ', ' if device else ''}{cores}, {jobs} at a time"


def code_version(package: Path = Path(clickvec.__file__).parent) -> str:
    """Return the commit of clickvec's own checkout, with `+` if files have changed since. Outside one: the version.

    The package may be inside another project's repository, for example in its `.venv`. That commit is not returned.
    """
    try:
        project = tomllib.loads((package.parent / "pyproject.toml").read_text(encoding="utf-8")).get("project")
        if not isinstance(project, dict) or project.get("name") != "clickvec":
            return clickvec.__version__
        _git(package, "ls-files", "--error-unmatch", "__init__.py")  # fails unless the repository tracks it
        if _git(package, "rev-parse", "--show-prefix") != f"{package.name}/":
            return clickvec.__version__
        return _git(package, "describe", "--always", "--dirty=+", "--match", "")
    except (OSError, ValueError, subprocess.SubprocessError):
        return clickvec.__version__


def _git(folder: Path, *arguments: str) -> str:
    """Run git in a folder. Drop GIT_DIR and the like, which hooks set and which may name another repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10, env=environment)
    return done.stdout.strip()
