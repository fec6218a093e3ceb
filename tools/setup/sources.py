# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Upstream's sources of the Python bindings: 171 files of llvm-project that no LLVM package carries.

They are looked for in this order: the folder that MLIR_PYTHON_SOURCES names, the user's cache, the LLVM install itself,
Debian's source package through apt, upstream's release archive. What was fetched is checked against a recorded sum of
its files, whichever way it came, and stays in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import apt_source
from common import LLVM_VERSION, SetupError, say
from llvm import LLVM
from progress import Progress

FOLDERS = (PurePosixPath("python"), PurePosixPath("lib/Bindings/Python"))
"""What is needed of llvm-project's mlir/."""

FILES_SHA256 = {"22.1.8": "d4ae56976a0a79fd2c346458005148b17431c3aee2f4823480456e5467e2373d"}
"""By version: the sum that `digest` makes of the files."""

RELEASE = "https://github.com/llvm/llvm-project/releases/download/llvmorg-{0}/llvm-project-{0}.src.tar.xz"


def locate(llvm: LLVM) -> Path | None:
    """The folder that holds python/ and lib/Bindings/Python/; None when the LLVM install has the sources itself.

    Raises:
        SetupError: They are nowhere; the message has every attempt and what to do.
    """
    by_hand = os.environ.get("MLIR_PYTHON_SOURCES")
    if by_hand:
        return _given(Path(by_hand).expanduser().resolve())
    cached = cache_folder() / f"mlir-python-{LLVM_VERSION}"
    if cached.is_dir():
        if digest(cached) == _expected():
            return cached
        say(f"{cached} is damaged: fetching it again")
        shutil.rmtree(cached)
    if (llvm.prefix / "src" / "python").is_dir():
        return None
    _fetch(cached)
    return cached


def cache_folder() -> Path:
    """The project's folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright"


def digest(folder: Path) -> str:
    """SHA-256 over the names and the contents of the wanted files below `folder`, in the order of their names."""
    total = hashlib.sha256()
    files = (path for wanted in FOLDERS for path in (folder / wanted).rglob("*") if path.is_file())
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in files):
        if "__pycache__" not in name:
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _expected() -> str:
    """The recorded sum of the version that llvm_version.txt names."""
    if LLVM_VERSION not in FILES_SHA256:
        raise SetupError(f"llvm_version.txt says {LLVM_VERSION}: record the sums of its sources in tools/setup")
    return FILES_SHA256[LLVM_VERSION]


def _given(folder: Path) -> Path:
    """Checks a folder that the user named: llvm-project, its mlir/, or a copy of what is needed."""
    for candidate in (folder, folder / "mlir"):
        if (candidate / "python" / "CMakeLists.txt").exists() and (candidate / FOLDERS[1] / "IRCore.cpp").exists():
            if digest(candidate) != _expected():
                say(f"MLIR_PYTHON_SOURCES={folder}: not the files of {LLVM_VERSION}; they are used all the same")
            return candidate
    raise SetupError(
        f"MLIR_PYTHON_SOURCES={folder}: expected llvm-project's mlir/, with python/ and lib/Bindings/Python/"
    )


def _fetch(into: Path) -> None:
    """Fetches the sources into the new folder `into`, from the first place that has the right ones."""
    into.parent.mkdir(parents=True, exist_ok=True)
    attempts: list[tuple[str, Callable[[Path], Path]]] = [
        ("Debian's source package", apt_source.download),
        ("upstream's release", _download_release),
    ]
    failures: list[str] = []
    for name, download in attempts:
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=into.parent) as scratch:
            try:
                say(f"fetching MLIR's binding sources {LLVM_VERSION} from {name}")
                unpacked = Path(scratch) / "unpacked"
                unpack(download(Path(scratch)), unpacked)
                found = digest(unpacked)
                if found != _expected():
                    raise SetupError(f"the files' sum is {found}, expected {_expected()}")
                os.replace(unpacked, into)
                return
            except (SetupError, OSError, tarfile.TarError) as error:
                failures.append(f"{name}: {error}")
                say(failures[-1])
    raise SetupError(
        f"cannot get MLIR's binding sources {LLVM_VERSION}. Unpack mlir/python and mlir/lib/Bindings/Python of llvm-project "
        f"{LLVM_VERSION} and set MLIR_PYTHON_SOURCES to that mlir folder"
    )


def _download_release(scratch: Path) -> Path:
    """Downloads upstream's release archive."""
    archive = scratch / "llvm-project.tar.xz"
    with (
        Progress(f"downloading {archive.name}"),
        urllib.request.urlopen(RELEASE.format(LLVM_VERSION), timeout=60) as response,
        archive.open("wb") as file,
    ):
        shutil.copyfileobj(response, file, 1 << 20)
    return archive


def unpack(archive: Path, into: Path) -> None:
    """Writes the wanted files of an llvm-project archive below `into`, their paths relative to mlir/.

    Raises:
        SetupError: The archive is not one of llvm-project.
    """
    with Progress(f"unpacking {archive.name}"), tarfile.open(archive, "r|xz") as tar:
        for member in tar:
            # PROJECT/mlir/python/…
            inside = PurePosixPath(*PurePosixPath(member.name).parts[2:])
            if PurePosixPath(member.name).parts[1:2] != ("mlir",) or not member.isfile() or ".." in inside.parts:
                continue
            if any(folder in inside.parents for folder in FOLDERS):
                target = into / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None  # a regular file has content
                target.write_bytes(content.read())
    if not into.is_dir():
        raise SetupError(f"{archive.name} holds no mlir/python")
