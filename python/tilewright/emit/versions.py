# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A digest of this package's sources and libraries, which decide an object besides its spec and target."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_BESIDE = ("bench", "cli", "mlir", "bin", "records", "tuning")
"""Parts of the package whose sources decide no object. MLIR's are generated; `_NATIVE` tells their version."""
_NATIVE = ("_codegen", "mlir/_mlir_libs/_tilewright", "mlir/_mlir_libs/libTilewrightPythonCAPI")


def sources(package: Path = _PACKAGE) -> Iterator[str]:
    """The sources that decide what an object is, below the package, in one order: all but those of the parts that measure and print.

    Texts and no `Path`: a process that finds its kernel in the cache spends most of its time here.
    """
    root = str(package)
    for folder, inside, files in os.walk(root):
        within = folder[len(root) + 1 :]
        inside[:] = sorted(each for each in inside if each != "__pycache__" and (within or each not in _BESIDE))
        yield from (os.path.join(within, each) for each in sorted(files) if each.endswith(".py"))


def digest_of(package: Path) -> str:
    """A digest of the names and bytes of `sources`, and of which native libraries are beside them."""
    digest = hashlib.sha256()
    for name in sources(package):
        with open(os.path.join(package, name), "rb", buffering=0) as file:
            text = file.read()
        digest.update(f"{name} {len(text)} ".encode())
        digest.update(text)
    digest.update(_natives(package))
    return digest.hexdigest()


def _natives(package: Path) -> bytes:
    """Which native libraries are there."""
    files = [each for name in _NATIVE for each in sorted((package / name).parent.glob(Path(name).name + "*.so*"))]
    return "".join(f"{each.name} {version_of(str(each))}" for each in files).encode()


@cache
def fingerprint_of(module: str) -> str:
    """The same of what a module imports, and what that imports in turn, anywhere in its text; not of `tilewright` itself."""
    digest = hashlib.sha256(_natives(_PACKAGE))
    for file in sorted(_imported(module)):
        digest.update(f"{file.relative_to(_PACKAGE)} ".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _imported(module: str) -> set[Path]:
    """The files of our modules that a module needs."""
    found: set[Path] = set()
    left = [module]
    while left:
        place = _PACKAGE.joinpath(*left.pop().split(".")[1:])
        file = next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
        if file is None or file in found or file.parent == _PACKAGE / "mlir" or file == _PACKAGE / "__init__.py":
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{each}" for each in names)]
            left += [each for each in names if each.split(".")[0] == _PACKAGE.name]
    return found


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
