# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests of numpy, scipy, R and Octave that multiply matrices or solve with them.

Debian's numpy and scipy, R and Octave call libblas.so.3, and their LAPACK does; the wheels bring an OpenBLAS of their own, and only
calls from outside it can be replaced.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from suite import ROOT, Blas, Outcome, Suite, needs

sys.path.insert(0, str(ROOT / "tools" / "setup"))

import outside as installed  # The set-up's module: where it puts what it fetches.

DEBIAN = Path("/usr/lib/python3/dist-packages")
_NOT_ALONE = "not huge and not large_zip and not load_memory"
"""Tests left out: those that take 8 GB."""
_R_TESTS = [
    "reg-BLAS",
    "lapack",
    "lm-tests",
    "simple-true",
    "arith-true",
    "complex",
    "reg-tests-1a",
    "reg-tests-1b",
    "reg-tests-3",
    "reg-examples1",
]
_OCTAVE_FOLDERS = (
    "share/octave/*/etc/tests/libinterp/corefcn",
    "share/octave/*/etc/tests/liboctave/array",
    "share/octave/*/m/linear-algebra",
    "share/octave/*/m/polynomial",
)
_OCTAVE = """
files = {{{}}};
for i = 1:numel (files)
  [n, nmax] = test (files{{i}}, "quiet", "log.txt");
  printf ("tests of %s: %d of %d\\n", files{{i}}, n, nmax);
  fflush (stdout);
endfor
exit (0);
"""


def _pytest(blas: Blas, folder: Path, python: Path, packages: Path, selection: tuple[str, ...]) -> Outcome:
    """Tests of a Python package, apart from settings of ours."""
    outcome = Outcome()
    for each in selection:
        settings = [
            "-c",
            os.devnull,
            f"--rootdir={packages}",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "-p",
            "no:xdist",
        ]
        command = [
            python,
            "-I",
            "-B",
            "-m",
            "pytest",
            "-q",
            "-rfE",
            "--tb=line",
            "-k",
            _NOT_ALONE,
            *settings,
            packages / each,
        ]
        status, text = blas.run(command, folder, minutes=120)
        outcome.add(each, *pytest_verdicts(text), status, text)
    return outcome


def pytest_verdicts(text: str) -> tuple[int, set[str]]:
    """How many tests pytest says ran, and those that failed."""
    lines = text.strip().splitlines()
    counts = re.findall(r"(\d+) (passed|failed|errors?|xfailed|xpassed)", lines[-1] if lines else "")
    # A test is named as seen from where it ran.
    named = {
        re.sub(r"^(\.\./)*", "", name)
        for name, _ in re.findall(r"^(?:FAILED|ERROR) (.+?)( - .*)?$", text, re.MULTILINE)
    }
    return sum(int(count) for count, _ in counts), {
        re.sub(r"^.*?((numpy|scipy|sklearn)/)", r"\1", name) for name in named
    }


def run_numpy(blas: Blas, folder: Path) -> Outcome:
    """Debian's numpy: arrays and linear algebra."""
    return _pytest(
        blas,
        folder,
        Path("/usr/bin/python3"),
        DEBIAN,
        ("numpy/core/tests", "numpy/linalg", "numpy/matrixlib", "numpy/polynomial"),
    )


def run_scipy(blas: Blas, folder: Path) -> Outcome:
    """Debian's scipy: dense and sparse linear algebra."""
    return _pytest(blas, folder, Path("/usr/bin/python3"), DEBIAN, ("scipy/linalg/tests", "scipy/sparse/linalg"))


def run_numpy_wheel(blas: Blas, folder: Path) -> Outcome:
    """The wheel of numpy, whose own OpenBLAS is behind the calls that are not replaced."""
    python = installed.python()
    return _pytest(
        blas,
        folder,
        python,
        _packages(python),
        ("numpy/_core/tests", "numpy/linalg", "numpy/matrixlib", "numpy/polynomial"),
    )


def run_numpy_quickly(blas: Blas, folder: Path) -> Outcome:
    """The tests of linear algebra of the numpy that runs this."""
    return _pytest(
        blas, folder, Path(sys.executable), _packages(Path(sys.executable)), ("numpy/linalg/tests/test_linalg.py",)
    )


def run_scipy_wheel(blas: Blas, folder: Path) -> Outcome:
    """The wheel of scipy."""
    python = installed.python()
    return _pytest(blas, folder, python, _packages(python), ("scipy/linalg/tests", "scipy/sparse/linalg"))


def run_scikit_learn(blas: Blas, folder: Path) -> Outcome:
    """Estimators of scikit-learn's wheel, which multiply through numpy's wheel and scipy's."""
    python = installed.python()
    selection = ("cluster/tests/test_k_means.py", "decomposition/tests/test_pca.py", "linear_model/tests/test_ridge.py")
    return _pytest(blas, folder, python, _packages(python), tuple(f"sklearn/{each}" for each in selection))


def _packages(python: Path) -> Path:
    return next((python.parents[1] / "lib").glob("python*/site-packages"))


def _missing_wheels() -> str | None:
    return (
        None if installed.python().exists() else "the wheels of numpy and scipy are not installed: make setup-outside"
    )


def _missing_scikit_learn() -> str | None:
    there = installed.python().exists() and (_packages(installed.python()) / "sklearn").exists()
    return None if there else "the wheel of scikit-learn is not installed: make setup-outside"


def run_r(blas: Blas, folder: Path) -> Outcome:
    """R's own tests: each one is a program that has to end well, and to print what it is known to print.

    Signs of singular vectors are not compared: they are any.
    """
    outcome = Outcome()
    tests = installed.sources("r-base") / "tests"
    for name in _R_TESTS:
        status, text = blas.run(
            ["R", "--vanilla", "--quiet"],
            folder,
            given=tests / f"{name}.R",
            LANGUAGE="en",
            R_LIBS_USER="",
            SRCDIR=str(tests),
        )
        failures = set[str]()
        if status:
            failures.add("does not end well")
        known = tests / f"{name}.Rout.save"
        if known.exists() and not status:
            right = _numbers(known.read_text(errors="replace"))
            failures |= {f"prints {line}" for line in _numbers(text) if line not in right}
        outcome.add(name, 1, failures, 0, text)
    return outcome


def _numbers(text: str) -> list[str]:
    """What R printed, without signs and spaces, time taken, and what it read."""
    lines = [re.sub(r"[-\s]", "", line) for line in text.splitlines() if not re.match(r"[>+]|R version|Time", line)]
    return [line for line in lines if re.search(r"\d", line) and "e" not in line]


def run_octave(blas: Blas, folder: Path) -> Outcome:
    """The tests in Octave's own files of its core, its arrays and its linear algebra."""
    outcome = Outcome()
    for pattern in _OCTAVE_FOLDERS:
        for place in sorted(Path("/usr").glob(pattern)):
            files = sorted(
                path for path in place.iterdir() if path.suffix in (".cc-tst", ".m") or path.name.endswith("-tst")
            )
            script = folder / "tests.m"
            script.write_text(_OCTAVE.format(", ".join(f'"{path}"' for path in files)))
            log = folder / "log.txt"
            status, text = blas.run(["octave-cli", "--no-gui", "--no-init-file", script], folder)
            ran = re.findall(r"^tests of (\S+): (\d+) of (\d+)$", text, re.MULTILINE)
            failures = {f"{Path(name).name}: {int(most) - int(n)} of {most}" for name, n, most in ran if n != most}
            if len(ran) != len(files):
                failures.add(f"{files[len(ran)].name} does not end")
            # Octave's own end fails with status 1 where it has no display.
            outcome.add(
                place.name,
                sum(int(most) for *_, most in ran),
                failures,
                min(status, 0),
                log.read_text(errors="replace"),
            )
    return outcome


SUITES = (
    Suite(
        "numpy", "Debian's numpy", run_numpy, needs("python3-numpy", f"{DEBIAN}/numpy/linalg/tests", f"{DEBIAN}/pytest")
    ),
    Suite(
        "scipy", "Debian's scipy", run_scipy, needs("python3-scipy", f"{DEBIAN}/scipy/linalg/tests", f"{DEBIAN}/pytest")
    ),
    Suite("numpy-wheel", "numpy's wheel", run_numpy_wheel, _missing_wheels),
    Suite("scipy-wheel", "scipy's wheel", run_scipy_wheel, _missing_wheels),
    Suite("scikit-learn", "k-means, PCA and ridge regression", run_scikit_learn, _missing_scikit_learn),
    Suite(
        "r",
        "R's tests of BLAS, LAPACK and arithmetic",
        run_r,
        lambda: needs("r-base-core", "/usr/bin/R")() or installed.missing("r-base"),
    ),
    Suite("octave", "Octave's tests", run_octave, needs("octave", "/usr/bin/octave-cli")),
)
