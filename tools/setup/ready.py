# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps builds in the user's cache, so that another checkout of the same sources reuses them.

An archive is found by its key: a digest of everything that decides what the build makes. A checkout that took one has no build
tree; the first change in its C++ makes one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import sources
from common import BUILD, PACKAGE, ROOT, VENV_PYTHON, output, say
from llvm import LLVM
from progress import Progress

STAMP = BUILD / "made-of"
"""Holds the key of what the package has."""
MADE = ("mlir", "bin", "*.so", "_codegen.pyi", "_runtime.pyi", "standalone/*.so", "standalone/_native.pyi")
"""What the build puts into the package."""
SOURCES = (
    "CMakeLists.txt",
    "llvm_version.txt",
    "cmake",
    "dialect",
    "native",
    "tools/CMakeLists.txt",
    "tools/tilewright-*",
)
"""What it is built from, besides upstream's bindings."""
_KEPT = 4
"""How many archives stay: those used last, some 4 MB each."""
_TOOLCHAIN = BUILD / "toolchain.json"
_FORMAT = b"1"
_VERSIONS = "import sys, importlib.metadata as m; print(sys.version, *(m.version(n) for n in ('nanobind', 'numpy')))"
_FLAGS = ("CFLAGS", "CXXFLAGS", "LDFLAGS")


def key(command: Sequence[str], llvm: LLVM, upstream: Path | None) -> str:
    """A digest of everything that decides what CMake's `command` and the build after it make.

    Args:
        command: The configuration, in which this checkout's own path does not count.
        llvm: What it is built against.
        upstream: The sources of the bindings; None where the LLVM install has them.
    """
    total = hashlib.sha256(_FORMAT)
    compilers = [word.partition("=")[2] for word in command if "_COMPILER=" in word] or ["c++"]
    for fact in (
        platform.machine(),
        *(word.replace(str(ROOT), "") for word in command),
        *(output([compiler, "--version"]) for compiler in compilers),
        *(os.environ.get(name) for name in _FLAGS),
        output([VENV_PYTHON, "-I", "-c", _VERSIONS]),
        "" if upstream is None else sources.digest(upstream),
    ):
        total.update(f"{fact}\0".encode())
    for library in sorted((llvm.prefix / "lib").glob("lib*.so*")):
        status = library.stat()
        total.update(f"{library.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    for path in _files(ROOT, SOURCES):
        total.update(f"{path.relative_to(ROOT)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def is_here(wanted: str) -> bool:
    """Whether the package has what `wanted` is the key of."""
    return STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted and (PACKAGE / "mlir").is_dir()


def take(wanted: str) -> bool:
    """Puts the archive of this key into the package; whether there is one that can be read."""
    archive = _archive(wanted)
    if not archive.exists():
        return False
    BUILD.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="ready-", dir=BUILD) as scratch,
        Progress("taking the build from the cache"),
    ):
        try:
            _unpack(archive, Path(scratch))
        except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
            say(f"{archive} is damaged, and is removed: {error}")
            archive.unlink(missing_ok=True)
            return False
        clear()
        os.replace(Path(scratch) / _TOOLCHAIN.name, _TOOLCHAIN)
        for path in (path for pattern in MADE for path in Path(scratch).glob(pattern)):
            os.replace(path, PACKAGE / path.relative_to(scratch))
    os.utime(archive)
    STAMP.write_text(wanted, encoding="utf-8")
    say(f"took what an equal checkout built from {archive}")
    return True


def keep(made: str) -> None:
    """Puts what the package has into the cache, under the key `made`; a cache that cannot be written is done without."""
    archive = _archive(made)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix="making-", dir=archive.parent, delete=False) as file:
            try:
                with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6, dereference=True) as tar:
                    for path in _files(PACKAGE, MADE):
                        tar.add(path, path.relative_to(PACKAGE).as_posix())
                    tar.add(_TOOLCHAIN, _TOOLCHAIN.name)
                os.replace(file.name, archive)
            finally:
                Path(file.name).unlink(missing_ok=True)
        for old in sorted(archive.parent.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        say(f"the build is not kept for other checkouts: {error}")
    STAMP.write_text(made, encoding="utf-8")


def clear() -> None:
    """Removes what the build made from the package."""
    for path in (path for pattern in MADE for path in PACKAGE.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _archive(of: str) -> Path:
    return sources.cache_folder() / "built" / f"{of}.tar.gz"


def _files(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """The files that `patterns` name in `folder`, and those below the folders that they name, sorted."""
    named = [path for pattern in patterns for path in folder.glob(pattern)]
    every = {file for path in named for file in (path.rglob("*") if path.is_dir() else [path])}
    return sorted(file for file in every if file.is_file() and "__pycache__" not in file.parts)


def _unpack(archive: Path, into: Path) -> None:
    """Writes the files of an archive below `into`."""
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            content = tar.extractfile(member)
            if content is None or name.is_absolute() or ".." in name.parts:
                raise ValueError(f"unexpected entry {member.name}")
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            target.chmod(member.mode & 0o777)
