"""Compile the C code when the package is installed. Without a C compiler, slower Python code does the same work.

`python clickvec/native/build.py` compiles it in a checkout.
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
except ModuleNotFoundError:  # run directly, without hatchling
    BuildHookInterface = object  # type: ignore[assignment,misc]

NATIVE = Path(__file__).parent
OPTIONS = ("-O3", "-ffp-contract=fast", "-Wno-psabi", "-shared", "-fPIC")
PROCESSORS = {  # loader.py loads the file for the processor that it runs on
    "avx512": ("-mavx512f", "-mfma", "-mprefer-vector-width=512"),
    "avx2": ("-mavx2", "-mfma"),
}
WITH_THREADS = {name: (*options, "-fopenmp") for name, options in PROCESSORS.items()}
SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "lstm.c": PROCESSORS,
    "products.c": PROCESSORS,
    "words.c": {"any": ()},
    "postings.c": {"any": ("-ffp-contract=off",)},  # the same bits as NumPy
    "recurrence.c": WITH_THREADS,
    "gather.c": WITH_THREADS,
}
SHARED = "lanes.h"  # included by some of them


def compile_all(folder: Path = NATIVE) -> list[Path]:
    """Compile each source for each kind of processor. Return the files; none on an unsupported machine."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.platform == "win32":
        return []
    compiled = [
        compile_one(NATIVE / name, folder / f"_{Path(name).stem}_{processor}.so", options)
        for name, processors in SOURCES.items()
        for processor, options in processors.items()
    ]
    return [file for file in compiled if file is not None]


def compile_one(source: Path, target: Path, options: tuple[str, ...]) -> Path | None:
    """Compile a source. Return the file, which contains the hash of its source; None if that fails."""
    source_hash = hashlib.sha256(source.read_bytes() + (NATIVE / SHARED).read_bytes()).hexdigest()
    temporary = target.with_suffix(f".{os.getpid()}")  # another process may be using the present file
    command = [*shlex.split(os.environ.get("CC", "cc")), *OPTIONS, *options, f'-DSOURCE="{source_hash}"']
    try:
        subprocess.run([*command, str(source), "-o", str(temporary)], check=True, capture_output=True, text=True)
        temporary.replace(target)
        return target
    except (OSError, subprocess.CalledProcessError) as error:
        target.unlink(missing_ok=True)
        reason = getattr(error, "stderr", None) or error
        print(f"{target.name} was not compiled; slower Python code will be used: {reason}", file=sys.stderr)
        return None


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that hatchling calls before it builds a wheel or an editable install."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Compile, and mark the wheel as one for this kind of machine."""
        compiled = compile_all()
        if compiled:
            build_data["artifacts"] = [f"/clickvec/native/{file.name}" for file in compiled]
            system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{system}"


if __name__ == "__main__":
    compile_all()
