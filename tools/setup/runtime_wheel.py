# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Assembles the package tilewright_runtime, and makes the wheel of it: the calls of kernels, without the compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

from common import PACKAGE, ROOT, SetupError

NAME = "tilewright_runtime"
PROJECT = ROOT / "tools" / "runtime_wheel"
_COMPILERS, _OWN = b"tilewright_calls", b"tilewright_alone"
"""nanobind's domain in the compiler's package, and in this: two extensions of one domain would share their types, and one process may have
both packages, of two versions."""
assert len(_COMPILERS) == len(_OWN)


def package(into: Path) -> Path:
    """Writes the package into a folder, and returns its own.

    Raises:
        SetupError: Its extension is not built.
    """
    made = into / NAME
    shutil.copytree(PACKAGE / "standalone", made, ignore=shutil.ignore_patterns("__pycache__"))
    extensions = list(made.glob("_native*.so"))
    if len(extensions) != 1:
        raise SetupError(f"{PACKAGE / 'standalone'} has {len(extensions)} extensions, expected 1: run make setup")
    data = extensions[0].read_bytes()
    if _COMPILERS not in data:
        raise SetupError(f"{extensions[0].name} does not name its domain {_COMPILERS.decode()}")
    extensions[0].write_bytes(data.replace(_COMPILERS, _OWN))
    return made


def project(into: Path) -> Path:
    """Writes all that a wheel is made of into a folder, and returns it.

    Raises:
        SetupError: As for `package`.
    """
    package(into)
    for file in (PROJECT / "pyproject.toml", PROJECT / "README.md", ROOT / "LICENSE", ROOT / "setup.py"):
        shutil.copy(file, into / file.name)
    return into
