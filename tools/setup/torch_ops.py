# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the ops of `tilewright.torch`, with the headers of the environment that has torch. `make setup-torch` calls it.

The environment is made first where it is missing. The binary uses torch's stable ABI alone, so it serves other versions of torch too.
It is kept in the user's cache folder under a digest of all that decides it, so that another checkout takes it from there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvm
from common import BUILD, PACKAGE, ROOT, SetupError, output, run, say
from tilewright.bench import environments
from tilewright.errors import TilewrightError

SOURCES = ROOT / "native" / "torch"
OLDER_LIBRARIES = ROOT / "native" / "runtime" / "OlderLibraries.cpp"
BINARY = PACKAGE / "torch" / "libtilewright_torch.so"
STAMP = BUILD / "torch-ops.key"
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
OLDEST = "0x020a000000000000ULL"
"""The oldest torch that loads the binary, 2.10, as its headers write versions: texts came to the stable ABI then."""
LOSS = "the tests of tilewright.torch are skipped"
_KEPT = 4


def main() -> int:
    """Makes the environment and builds what is out of date; 0 also where it cannot, after a line that says why."""
    try:
        if environments.python("torch") is None:
            say("making an environment with torch, 200 MB to download")
            problem = environments.setup("torch").problem
            if problem is not None:
                say(f"no torch: {problem}; {LOSS}")
                return 0
        build()
    except (SetupError, TilewrightError) as error:
        say(f"no ops for torch: {error}; {LOSS}")
    return 0


def build() -> None:
    """Builds the binary, or takes it from the cache; nothing to do where it is there.

    Raises:
        SetupError: There are no headers, or the compiler failed.
    """
    headers, compiler = _headers(), _compiler()
    digest = _digest(headers, compiler)
    if BINARY.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == digest:
        return
    kept = _cache() / f"{digest}.so"
    if not kept.exists():
        _compile(headers, compiler, kept)
    for old in sorted(_cache().glob("*.so"), key=lambda file: file.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=BINARY.parent) as folder:
        os.replace(shutil.copy2(kept, folder), BINARY)  # whole or not at all: a process may have the old one loaded
    STAMP.parent.mkdir(exist_ok=True)
    STAMP.write_text(digest, encoding="utf-8")


def _headers() -> Path:
    """The folder of the environment's torch.

    Raises:
        SetupError: There is none.
    """
    python = environments.python("torch")
    found = python and output([python, "-I", "-c", "import importlib.util as u; print(u.find_spec('torch').origin)"])
    if not found:
        raise SetupError("there is no environment with torch")
    return Path(found.strip()).parent


def _compiler() -> str:
    """The C++ compiler: what CXX names, clang of our LLVM, or the system's.

    Raises:
        SetupError: There is none.
    """
    for name in (os.environ.get("CXX"), f"clang++-{llvm.LLVM_MAJOR}", "c++"):
        if name and (found := shutil.which(name)):
            return found
    raise SetupError("there is no C++ compiler")


def _cache() -> Path:
    folder = environments.folder()
    if folder is None:
        raise SetupError("there is no cache folder")
    return folder.parent / "torch-ops"


def _digest(headers: Path, compiler: str) -> str:
    """Of all that decides the binary: sources, flags, compiler, version of the headers."""
    digest = hashlib.sha256()
    for file in (*sorted(SOURCES.iterdir()), OLDER_LIBRARIES):
        digest.update(file.name.encode() + file.read_bytes())
    version = (headers / "version.py").read_bytes()
    digest.update(repr((FLAGS, OLDEST, output([compiler, "--version"]))).encode() + version)
    return digest.hexdigest()


def _compile(headers: Path, compiler: str, into: Path) -> None:
    """Compiles every source, and links them.

    Raises:
        SetupError: The compiler failed.
    """
    include = ("-isystem", headers / "include", f"-DTORCH_TARGET_VERSION={OLDEST}")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        objects = {
            source: Path(folder) / f"{source.stem}.o" for source in (*sorted(SOURCES.glob("*.cpp")), OLDER_LIBRARIES)
        }

        def compile_one(source: Path) -> None:
            run([compiler, *FLAGS, *include, "-c", source, "-o", objects[source]], what=f"compiling {source.name}")

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(compile_one, objects))
        linked = Path(folder) / BINARY.name
        libraries = ("-L", headers / "lib", "-ltorch_cpu")
        named = f"-Wl,--no-undefined,--version-script={SOURCES / 'exports.map'},-soname,{BINARY.name}"
        run([compiler, "-shared", *objects.values(), *libraries, named, "-o", linked], what="linking the ops for torch")
        os.replace(linked, into)


if __name__ == "__main__":
    sys.exit(main())
