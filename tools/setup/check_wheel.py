# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a wheel carries its LLVM: `check_wheel.py WHEEL`.

The wheel is unpacked beside the virtual environment's packages, a kernel is compiled and run with it, and every library
of LLVM that was then in the process has to come from the unpacked wheel.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from common import VENV_PYTHON, SetupError, run, say

USE = """
import sys

sys.path.insert(0, {packages!r})
import numpy as np
import tilewright

a, b = (np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((35, (5, 7)), (63, (7, 9))))
assert np.array_equal(tilewright.matmul(a, b), a @ b)  # small integers: exact
ones = np.ones((300, 300), np.float32)
assert (tilewright.matmul(ones, ones, threads=2) == 300).all()
with open("/proc/self/maps") as maps:
    print(*sorted({{line.split()[-1] for line in maps if "/" in line}}), sep="\\n")
"""
FOREIGN = ("libLLVM", "libMLIR", "libomp")
"""What must come from the wheel, by the beginning of the file's name."""
INPUT = 'module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s">} {}'


def main(arguments: list[str]) -> int:
    """Checks the one wheel that is named; 0, or 1 after one line that says what is wrong."""
    if len(arguments) != 1:
        print("check_wheel: expected one wheel", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="tilewright-wheel-") as folder:
            check(Path(arguments[0]), Path(folder))
    except SetupError as error:
        print(f"check_wheel: error: {error}", file=sys.stderr)
        return 1
    say("the wheel carries its LLVM")
    return 0


def check(wheel: Path, folder: Path) -> None:
    """Unpacks the wheel into `folder` and uses it.

    Raises:
        SetupError: It does not work, or uses another LLVM than its own.
    """
    pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    run([*pip, "--no-deps", "--target", folder, wheel], what="unpacking the wheel")
    mapped = _output([VENV_PYTHON, "-I", "-c", USE.format(packages=str(folder))], folder)
    tool = folder / "tilewright" / "bin" / "tilewright-opt"
    _output([tool, "--tilewright-strip-provenance"], folder, INPUT)
    linked = _output(["ldd", tool], folder)
    libraries = [*mapped.split(), *(word for word in linked.split() if word.startswith("/"))]
    found = [path for path in libraries if Path(path).name.startswith(FOREIGN)]
    outside = [path for path in found if not Path(path).resolve().is_relative_to(folder.resolve())]
    absent = [name for name in FOREIGN if not any(Path(path).name.startswith(name) for path in found)]
    if outside or absent:
        wrong = f"uses {', '.join(outside)}" if outside else f"does without {', '.join(absent)}"
        raise SetupError(f"{wheel.name} {wrong}; expected its own copy of {', '.join(FOREIGN)}")
    if not list(folder.glob("tilewright-*.dist-info/**/LICENSE")):
        raise SetupError(f"{wheel.name} has no LICENSE; expected LLVM's, under which we and the libraries stand")


def _output(command: list[str | Path], packages: Path, text: str = "") -> str:
    """The standard output of a command that is run in the folder `packages`."""
    env = {"PATH": "/usr/bin:/bin", "TILEWRIGHT_NO_CACHE": "1"}
    words = [str(word) for word in command]
    done = subprocess.run(words, input=text, env=env, cwd=packages, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"{Path(words[0]).name} failed: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
