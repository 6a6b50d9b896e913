"""Compiles the C of the package when it is installed, where there is a C compiler; where not, Python does its work.

`python clickvec/native/build.py` does the same by hand.
"""

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # by hand, where hatchling is not installed
    BuildHookInterface = object  # type: ignore[assignment,misc]

NATIVE = Path(__file__).parent
OPTIONS = ("-O3", "-ffp-contract=fast", "-Wno-psabi", "-shared", "-fPIC")
PROCESSORS = {  # the file that is loaded is the one whose processor this is: see loader.py
    "avx512": ("-mavx512f", "-mfma", "-mprefer-vector-width=512"),
    "avx2": ("-mavx2", "-mfma"),
}
WITH_THREADS = {name: (*options, "-fopenmp") for name, options in PROCESSORS.items()}
SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "lstm.c": PROCESSORS,
    "words.c": {"any": ()},
    "recurrence.c": WITH_THREADS,
    "gather.c": WITH_THREADS,
}
SHARED = "lanes.h"  # what some of them include


def compile_all(folder: Path = NATIVE) -> list[Path]:
    """Compile each source for each kind of processor; gives the files, none where that cannot be done here."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.platform == "win32":
        return []
    made = [
        compile_one(NATIVE / name, folder / f"_{Path(name).stem}_{processor}.so", options)
        for name, processors in SOURCES.items()
        for processor, options in processors.items()
    ]
    return [file for file in made if file is not None]


def compile_one(source: Path, target: Path, options: tuple[str, ...]) -> Path | None:
    """Compile a source into a file that knows which source it is of; gives the file, or nothing where it cannot."""
    known_by = hashlib.sha256(source.read_bytes() + (NATIVE / SHARED).read_bytes()).hexdigest()
    fresh = target.with_suffix(f".{os.getpid()}")  # a process may be running the one that is there
    command = [*shlex.split(os.environ.get("CC", "cc")), *OPTIONS, *options, f'-DSOURCE="{known_by}"']
    try:
        subprocess.run([*command, str(source), "-o", str(fresh)], check=True, capture_output=True, text=True)
        fresh.replace(target)
        return target
    except (OSError, subprocess.CalledProcessError) as error:
        target.unlink(missing_ok=True)
        why = getattr(error, "stderr", None) or error
        print(f"{target.name} is not compiled, and Python will do its work: {why}", file=sys.stderr)
        return None


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls before it makes a wheel, or an editable install."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Compile, and say that the wheel is for this kind of machine."""
        made = compile_all()
        if made:
            build_data["artifacts"] = [f"/clickvec/native/{file.name}" for file in made]
            system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{system}"


if __name__ == "__main__":
    compile_all()
