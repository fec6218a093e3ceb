# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What decides an object besides what was asked for: the sources of this package, and the libraries that made it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from tilewright.targets.base import Target

# The parts of the package that decide what an object is.
_LEAVES = ("spec.py", "batches.py", "dims.py", "dtypes.py", "entries.py", "expressions.py", "math.py", "operand.py")
_SOURCES = (*_LEAVES, "operator_specs", "targets", "payload", "schedules", "lowering", "emit")
_NATIVE = ("_codegen", "mlir/_mlir_libs/_tilewright", "mlir/_mlir_libs/libTilewrightPythonCAPI")


def of_target(target: Target) -> str:
    """All of a target, its features in one order."""
    return f"{replace(target, features=frozenset())!r} {target.feature_string}"


@cache
def fingerprint() -> str:
    """A digest of everything in the package that decides what an object is."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for name in _SOURCES:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    for name in _NATIVE:
        for file in sorted((package / name).parent.glob(Path(name).name + "*.so*")):
            status = file.stat()
            digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


def libraries() -> dict[str, str]:
    """The files of MLIR's and LLVM's library that this process has loaded, each with what tells it from another version."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        files = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/lib" in line}
    return {file: version_of(file) for file in sorted(files) if Path(file).name.startswith(("libLLVM", "libMLIR"))}


def version_of(file: str) -> str:
    """What tells a file from another version of it."""
    status = os.stat(file)
    return f"{status.st_size} {status.st_mtime_ns}"


def are_unchanged(found: object) -> bool:
    """Whether the libraries that an object was made with, as `libraries` gave them, are still those that would be used.

    They are not part of the key: to know which ones it would load, a process has to load them.
    """
    if not isinstance(found, dict):
        return False
    try:
        return all(version_of(file) == version for file, version in found.items())
    except OSError:
        return False
