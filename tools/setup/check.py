# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the project's checks: `check.py STEP…`, with the steps lint, lit, pytest, long, browser and format.

Every step runs, also after one that failed. Lint runs beside what follows it: the type checker has one thread. pytest's summary is the
last line when it is the last step. The exit status is 0 when all passed.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvm
import packages
from common import LLVM_MAJOR, ROOT, VENV_PYTHON, SetupError

BIN = VENV_PYTHON.parent


def main(steps: list[str]) -> int:
    """Runs the named steps in order; 0 when all passed, 2 for an unknown name."""
    unknown = [step for step in steps if step not in STEPS]
    if unknown or not steps:
        print(f"check: unknown step {' '.join(unknown) or '(none)'}; expected {', '.join(STEPS)}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor() as beside:
        linted = beside.submit(lint) if "lint" in steps else None
        passed = [STEPS[step]() for step in steps if step not in ("lint", "pytest")]
        passed += [linted.result()] if linted else []
        passed += [pytest()] if "pytest" in steps else []
    return 0 if all(passed) else 1


def lint() -> bool:
    """Lint, formatting and types of every source."""
    return all(
        [
            _passes("ruff check", [BIN / "ruff", "check", "--quiet", "."]),
            _passes("ruff format", [BIN / "ruff", "format", "--quiet", "--check", "."]),
            _passes("clang-format", [_clang_format(), "--dry-run", "-Werror", *_cpp_files()]),
            _passes("types", [BIN / "basedpyright", "--warnings"]),
        ]
    )


def reformat() -> bool:
    """Formats every source in place, and mends what ruff can mend."""
    return all(
        [
            _passes("ruff check --fix", [BIN / "ruff", "check", "--fix", "."]),
            _passes("ruff format", [BIN / "ruff", "format", "."]),
            _passes("clang-format", [_clang_format(), "-i", *_cpp_files()]),
        ]
    )


def lit() -> bool:
    """The tests of IR, each one a file with its command in it."""
    return _passes("lit", [BIN / "lit", "--quiet", "--order=lexical", ROOT / "test"])


def pytest() -> bool:
    """The tests in Python, a worker for each core; the tests of a file share what it compiles, and stay together.

    Files keep the order that `test/conftest.py` gives them, the longest first: by numbers of tests, the longest, which has few, would
    come last, alone.
    """
    print("check: pytest", flush=True)
    workers = ["--numprocesses", str(len(os.sched_getaffinity(0))), "--dist", "loadfile", "--no-loadscope-reorder"]
    return _run([VENV_PYTHON, "-I", "-m", "pytest", *workers])


def long() -> bool:
    """The long form of the generated tests, from a fresh seed, or from that of ``SEED``, and of what is compared exhaustively.

    Then every test once more, in the random order of that seed.
    """
    seed = os.environ.get("SEED") or str(secrets.randbelow(10**9))
    if not seed.isdecimal():
        raise SetupError(f"SEED is {seed!r}; expected a number, as an earlier run printed it")
    again = f"seed {seed}; `make check-long SEED={seed}` runs the same"
    print(f"check: long, {again}", flush=True)
    tests = [ROOT / "test" / "python" / f"test_{name}.py" for name in ("generated", "gpu_wgmma_layouts")]
    workers = ["--numprocesses", str(len(os.sched_getaffinity(0)))]
    passed = _run([VENV_PYTHON, "-I", "-m", "pytest", *workers, "--length", "long", "--seed", seed, *tests])
    shuffled = ["-p", "randomly", f"--randomly-seed={seed}", "--dist", "loadfile", "--no-loadscope-reorder"]
    passed &= _run([VENV_PYTHON, "-I", "-m", "pytest", *workers, *shuffled])
    print(f"check: long: {'ok' if passed else 'FAILED'}, {again}", flush=True)
    return passed


def browser() -> bool:
    """The tests of the lab's page, in a browser."""
    return _passes("browser", [VENV_PYTHON, "-I", "-m", "pytest", ROOT / "test" / "browser"])


STEPS: dict[str, Callable[[], bool]] = {
    "lint": lint,
    "lit": lit,
    "pytest": pytest,
    "long": long,
    "browser": browser,
    "format": reformat,
}


def _passes(name: str, command: list[str | Path]) -> bool:
    """Runs one tool and prints what it printed and, in one line, how it went."""
    done = _done(command, into=subprocess.PIPE)
    passed = done.returncode == 0
    # In one piece: others may print beside it.
    sys.stdout.write(f"{done.stdout.decode(errors='replace')}check: {name}: {'ok' if passed else 'FAILED'}\n")
    sys.stdout.flush()
    return passed


def _run(command: list[str | Path]) -> bool:
    """Whether a command succeeds."""
    return _done(command).returncode == 0


def _done(command: list[str | Path], into: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """Runs a command, which prints into a pipe or where this process does; the virtual environment's programs come first on its path."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    words = [str(word) for word in command]
    environment = {**os.environ, "PATH": path}
    nothing, both = subprocess.DEVNULL, None if into is None else subprocess.STDOUT
    return subprocess.run(words, cwd=ROOT, env=environment, stdin=nothing, stdout=into, stderr=both, check=False)


def _clang_format() -> str:
    """The clang-format to use.

    Raises:
        SetupError: There is none.
    """
    found = packages.clang_format(llvm.select())
    if found is None:
        raise SetupError(f"no clang-format of LLVM {LLVM_MAJOR}: install clang-format-{LLVM_MAJOR}")
    return found


def _cpp_files() -> list[str | Path]:
    """The C++ sources and headers."""
    found = (path for folder in ("dialect", "native", "tools") for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in {".cpp", ".h"})


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SetupError as error:
        sys.exit(f"check: error: {error}")
