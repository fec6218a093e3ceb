# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A digest of this package's sources and libraries, which decide an object besides its spec and target."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_BESIDE = ("bench", "cli", "mlir", "bin", "records", "tuning")
"""Parts of the package whose sources decide no object. MLIR's are generated; `_NATIVE` tells their version."""
_NATIVE = ("_codegen", "mlir/_mlir_libs/_tilewright", "mlir/_mlir_libs/libTilewrightPythonCAPI")


def sources(package: Path = _PACKAGE) -> Iterator[Path]:
    """The sources that decide what an object is, in one order: all but those of the parts that measure and print."""
    for part in sorted(package.iterdir()):
        if part.name not in _BESIDE:
            yield from sorted(part.rglob("*.py")) if part.is_dir() else [part] * (part.suffix == ".py")


def digest_of(package: Path) -> str:
    """A digest of the names and bytes of `sources`, and of which native libraries are beside them."""
    digest = hashlib.sha256()
    for file in sources(package):
        text = file.read_bytes()
        digest.update(f"{file.relative_to(package)} {len(text)} ".encode())
        digest.update(text)
    for name in _NATIVE:
        for file in sorted((package / name).parent.glob(Path(name).name + "*.so*")):
            digest.update(f"{file.name} {version_of(str(file))}".encode())
    return digest.hexdigest()


@cache
def fingerprint() -> str:
    """A digest of everything in the package that decides what an object is."""
    return digest_of(_PACKAGE)


def libraries() -> dict[str, str]:
    """The files of MLIR's and LLVM's library that this process has loaded, each with what tells it from another version."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        files = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/lib" in line}
    return {file: version_of(file) for file in sorted(files) if Path(file).name.startswith(("libLLVM", "libMLIR"))}


def version_of(file: str) -> str:
    """A fingerprint of a file's version."""
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
