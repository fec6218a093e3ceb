# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds a library with the gemm of a BLAS out of kernels by tilewright, and runs other people's programs on it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import tilewright as tw
from tilewright.runtime import product_files
from tilewright.schedules import make
from tilewright.spec import LAYOUTS

SOURCE = Path(__file__).with_name("gemm.c")
COMPILER = shutil.which("clang-22") or shutil.which("cc")
_REALS = {"f32": ("float", "s"), "f64": ("double", "d")}


@dataclass(frozen=True)
class Library:
    """A built library.

    Attributes:
        path: Its file.
    """

    path: Path

    def run(
        self, command: Sequence[str | Path], folder: Path, *, given: str = "", allow_failure: bool = False
    ) -> tuple[str, Counter[str]]:
        """Runs a program as `run` does, with the library before all others.

        Returns what it printed, and how often the kernels ran, by the names "sgemm" and "dgemm".
        """
        report = folder / "calls.txt"
        report.unlink(missing_ok=True)
        variables = {"LD_PRELOAD": str(self.path), "TILEWRIGHT_GEMM_CALLS": str(report)}
        text = run(command, folder, given=given, allow_failure=allow_failure, **variables)
        calls: Counter[str] = Counter()
        for line in report.read_text().splitlines():
            name, count = line.split()
            calls[name] += int(count)
        return text, calls


def run(
    command: Sequence[str | Path], folder: Path, *, given: str = "", allow_failure: bool = False, **variables: str
) -> str:
    """What a program prints, which has to end within ten minutes, and to succeed unless told otherwise.

    `given` is its standard input, `folder` where it runs, and `variables` are added to its environment.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **variables},
        input=given,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0 or (allow_failure and done.returncode == 1), (
        f"status {done.returncode}\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    )
    return done.stdout


def build(folder: Path, schedule: str | None) -> Library:
    """Builds the library in `folder`: kernels for this machine under `schedule`, None being what is chosen.

    What is chosen has a loop nest for each class of shapes, which takes a minute and a half to compile; "packed" has one.
    """
    assert COMPILER is not None
    objects = list(_kernels(folder, schedule))
    for real, letter in _REALS.values():
        objects.append(folder / f"{letter}gemm.o")
        defined = [f"-DREAL={real}", f"-DLETTER={letter}", f"-DCAPITAL={letter.upper()}"]
        run([COMPILER, "-O1", "-fPIC", "-Wall", "-Werror", *defined, "-c", SOURCE, "-o", objects[-1]], folder)
    path = folder / "gemm.so"
    run([COMPILER, "-shared", *objects, "-o", path], folder)
    return Library(path)


def _kernels(folder: Path, schedule: str | None) -> Iterator[Path]:
    """Writes the sixteen objects."""
    target = tw.targets.resolve("host")
    for element, layout, beta in product(_REALS, LAYOUTS, (0, 1)):
        spec = tw.MatmulSpec(None, None, None, a=element, layout=layout, beta=beta)
        name = f"tilewright_{_REALS[element][1]}gemm_{layout}{beta}"
        plan = make.make(spec, target, schedule)
        path = folder / f"{name}.o"
        path.write_bytes(product_files.build(spec, target, plan, for_linking=True, symbol=name).object)
        yield path
