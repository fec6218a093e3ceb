# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tries wheels in empty environments: `check_wheel.py WHEEL…`.

Each is installed into a new virtual environment, with what it depends on. With the compiler a kernel is compiled and run, and every library
of LLVM that was then in the process has to come from the wheel. With tilewright-runtime a library that was built here is
loaded and called, and nothing of the compiler or LLVM may be in the process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from common import VENV_PYTHON, SetupError, run, say

_MAPPED = """
with open("/proc/self/maps") as maps:
    print(*sorted({line.split()[-1] for line in maps if "/" in line}), sep="\\n")
"""
COMPILE = (
    """
import numpy as np
import tilewright

a, b = (np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((35, (5, 7)), (63, (7, 9))))
assert np.array_equal(tilewright.matmul(a, b), a @ b)  # small integers: exact
ones = np.ones((300, 300), np.float32)
assert (tilewright.matmul(ones, ones, threads=2) == 300).all()
for target in ("x86-64-v3", "neoverse-v1", "rv64gcv", "sm_90a", "gfx942", "vulkan"):  # Every back end is there.
    texts = tilewright.compile(tilewright.MatmulSpec(m=64, n=64, k=64), target=target).asm
    assert texts[list(texts)[-1]]
"""
    + _MAPPED
)
CALL = (
    """
import sys
import numpy as np
import tilewright_runtime

library = tilewright_runtime.load(sys.argv[1])
a, b = (np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((35, (5, 7)), (63, (7, 9))))
assert np.array_equal(library.product(a, b), a @ b)
try:
    library.product(b, a)
except tilewright_runtime.OperandError:
    pass
else:
    raise AssertionError("operands of other shapes are taken")
assert library.selected() in library.targets and tilewright_runtime.__version__ == library.version
"""
    + _MAPPED
)
BUILD = """
import sys
import tilewright

tilewright.library({"product": tilewright.MatmulSpec(m=5, n=9, k=7)}, targets=["host"], name="tried", out=sys.argv[1])
"""
FOREIGN = ("libLLVM", "libMLIR", "libomp")
"""What must come from the compiler's wheel, by the beginning of the file's name."""
INPUT = 'module attributes {tilewright.schedule = #tilewright.schedule<strategy = "s">} {}'
RUNTIME_BYTES = 1_000_000
"""Most bytes of the wheel of calls."""


def main(arguments: list[str]) -> int:
    """Tries the wheels that are named; 0, or 1 after one line that says what is wrong."""
    if not arguments:
        print("check_wheel: expected wheels", file=sys.stderr)
        return 2
    for argument in arguments:
        wheel = Path(argument)
        try:
            with tempfile.TemporaryDirectory(prefix="tilewright-wheel-") as folder:
                (check_calls if wheel.name.startswith("tilewright_runtime") else check_compiler)(wheel, Path(folder))
        except SetupError as error:
            print(f"check_wheel: error: {error}", file=sys.stderr)
            return 1
        say(f"{wheel.name} works by itself")
    return 0


def check_compiler(wheel: Path, folder: Path) -> None:
    """Installs the compiler into a new environment in `folder` and uses it.

    Raises:
        SetupError: It does not work, or uses another LLVM than its own.
    """
    python = _environment(wheel, folder)
    mapped = _output([python, "-I", "-c", COMPILE], folder)
    (tool,) = folder.glob("lib/python*/site-packages/tilewright/bin/tilewright-opt")
    _output([tool, "--tilewright-strip-provenance"], folder, INPUT)
    linked = _output(["ldd", tool], folder)
    libraries = [*mapped.split(), *(word for word in linked.split() if word.startswith("/"))]
    found = [path for path in libraries if Path(path).name.startswith(FOREIGN)]
    outside = [path for path in found if not Path(path).resolve().is_relative_to(folder.resolve())]
    absent = [name for name in FOREIGN if not any(Path(path).name.startswith(name) for path in found)]
    if outside or absent:
        wrong = f"uses {', '.join(outside)}" if outside else f"does without {', '.join(absent)}"
        raise SetupError(f"{wheel.name} {wrong}; expected its own copy of {', '.join(FOREIGN)}")
    _require_license(wheel, folder)


def check_calls(wheel: Path, folder: Path) -> None:
    """Installs tilewright-runtime into a new environment in `folder`, and calls a kernel of a library that is built here.

    Raises:
        SetupError: It does not work, or brings a compiler, or is too large.
    """
    if wheel.stat().st_size > RUNTIME_BYTES:
        raise SetupError(f"{wheel.name} has {wheel.stat().st_size} bytes; expected {RUNTIME_BYTES} at most")
    python = _environment(wheel, folder)
    _output([VENV_PYTHON, "-I", "-c", BUILD, folder / "library"], folder)
    mapped = _output([python, "-I", "-c", CALL, folder / "library" / "libtried.so"], folder)
    compilers = [path for path in mapped.split() if Path(path).name.startswith(FOREIGN) or "/tilewright/" in path]
    if compilers:
        raise SetupError(f"{wheel.name} loads {', '.join(compilers)}; expected nothing of the compiler")
    _require_license(wheel, folder)


def _environment(wheel: Path, folder: Path) -> Path:
    """A new virtual environment in `folder` with a wheel and what it needs; its Python."""
    run([VENV_PYTHON, "-I", "-m", "venv", "--without-pip", folder], what="making an empty environment")
    python = folder / "bin" / "python"
    pip = [VENV_PYTHON, "-I", "-m", "pip", "--disable-pip-version-check", "--python", python]
    run([*pip, "install", "-q", wheel.resolve()], what=f"installing {wheel.name}")
    return python


def _require_license(wheel: Path, folder: Path) -> None:
    if not list(folder.glob("lib/python*/site-packages/tilewright*.dist-info/**/LICENSE")):
        raise SetupError(f"{wheel.name} has no LICENSE; expected LLVM's, under which we and the libraries stand")


def _output(command: list[str | Path], folder: Path, text: str = "") -> str:
    """The standard output of a command that is run in `folder`."""
    env = {"PATH": "/usr/bin:/bin", "TILEWRIGHT_NO_CACHE": "1"}
    words = [str(word) for word in command]
    done = subprocess.run(words, input=text, env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"{Path(words[0]).name} failed: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
