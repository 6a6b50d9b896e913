"""Compiles clickvec/lstm.c when the package is installed, where there is a C compiler; where not, NumPy does its work.

`python hatch_build.py` does the same by hand, into the checkout.
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
    BuildHookInterface = object

SOURCE = Path(__file__).with_name("clickvec") / "lstm.c"
OPTIONS = ("-O3", "-ffp-contract=fast", "-Wno-psabi", "-shared", "-fPIC")
PROCESSORS = {  # the file that is loaded is the one whose processor this is: see clickvec/compiled.py
    "avx512": ("-mavx512f", "-mfma", "-mprefer-vector-width=512"),
    "avx2": ("-mavx2", "-mfma"),
}


def compile_all(folder: Path = SOURCE.parent) -> list[Path]:
    """Compile the source for each kind of processor; gives the files, none where that cannot be done here."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.platform == "win32":
        return []
    made, source = [], hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    for name, options in PROCESSORS.items():
        target = folder / f"_lstm_{name}.so"
        fresh = target.with_suffix(f".{os.getpid()}")  # a process may be running the one that is there
        command = [*shlex.split(os.environ.get("CC", "cc")), *OPTIONS, *options, f'-DSOURCE="{source}"']
        try:
            subprocess.run([*command, str(SOURCE), "-o", str(fresh)], check=True, capture_output=True, text=True)
            fresh.replace(target)
            made.append(target)
        except (OSError, subprocess.CalledProcessError) as error:
            target.unlink(missing_ok=True)
            why = getattr(error, "stderr", None) or error
            print(f"{target.name} is not compiled, and NumPy will do its work: {why}", file=sys.stderr)
    return made


class CustomBuildHook(BuildHookInterface):
    """What hatchling calls before it makes a wheel, or an editable install."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Compile, and say that the wheel is for this kind of machine."""
        made = compile_all()
        if made:
            build_data["artifacts"] = [f"/clickvec/{file.name}" for file in made]
            system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{system}"


if __name__ == "__main__":
    compile_all()
