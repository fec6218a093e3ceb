# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The system packages: what is missing is installed with apt."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common import LLVM_MAJOR, VENV_PYTHON, SetupError, output, run, say
from llvm import LLVM


@dataclass(frozen=True)
class Need:
    """Something that the system has to provide.

    Attributes:
        what: Its name in messages.
        met: Says whether it is there.
        packages: Debian packages that bring it.
        required: Whether set-up can go on without it.
    """

    what: str
    met: Callable[[], bool]
    packages: tuple[str, ...]
    required: bool = True


def needs(llvm: LLVM) -> list[Need]:
    """Everything that is needed with this LLVM, met or not."""
    v = LLVM_MAJOR
    from_packages = [
        Need(
            f"LLVM {v} with MLIR",
            lambda: llvm.complete,
            (f"llvm-{v}-dev", f"libmlir-{v}-dev", f"mlir-{v}-tools", f"llvm-{v}-tools"),
        ),
        Need(f"clang-{v}", lambda: has_program(f"clang++-{v}"), (f"clang-{v}",), required=False),
        Need(f"lld-{v}", lambda: has_program(f"ld.lld-{v}"), (f"lld-{v}",), required=False),
        Need("OpenMP", lambda: (llvm.prefix / "lib" / "libomp.so").exists(), (f"libomp-{v}-dev",), required=False),
    ]
    return [
        *([] if llvm.chosen else from_packages),
        Need(f"clang-format-{v}", lambda: clang_format(llvm) is not None, (f"clang-format-{v}",), required=False),
        Need("a C++ compiler", lambda: has_any_compiler(llvm), ("g++" if llvm.chosen else f"clang-{v}",)),
        Need("CMake", lambda: has_program("cmake"), ("cmake",)),
        Need("Ninja", lambda: has_program("ninja"), ("ninja-build",), required=False),
        Need("ccache", lambda: has_program("ccache"), ("ccache",), required=False),
        Need("Python's venv", lambda: importlib.util.find_spec("ensurepip") is not None, ("python3-venv",)),
        Need("Python's headers", has_python_headers, ("python3-dev",)),
    ]


def has_program(name: str) -> bool:
    """Whether a program is on the path."""
    return shutil.which(name) is not None


def has_any_compiler(llvm: LLVM) -> bool:
    """Whether anything here can compile C++."""
    names = (f"clang++-{LLVM_MAJOR}", "clang++", "g++", "c++", str(llvm.prefix / "bin" / "clang++"))
    return bool(os.environ.get("CXX")) or any(has_program(name) for name in names)


def has_python_headers() -> bool:
    """Whether this interpreter's Python.h is there."""
    return (Path(sysconfig.get_path("include")) / "Python.h").exists()


def clang_format(llvm: LLVM) -> str | None:
    """The clang-format that belongs to this LLVM, or None."""
    return shutil.which(str(llvm.prefix / "bin" / "clang-format")) or shutil.which(f"clang-format-{LLVM_MAJOR}")


def ensure(llvm: LLVM) -> None:
    """Installs what is missing of that which is needed with this LLVM.

    Raises:
        SetupError: Something required is missing and cannot be installed from here.
    """
    provide(needs(llvm))


def is_installed(wheel: str) -> bool:
    """Whether a Python package is in the project's environment."""
    return output([VENV_PYTHON, "-I", "-c", f"import importlib.metadata as m; m.version({wheel!r})"]) is not None


def provide(wanted: list[Need]) -> None:
    """Installs what is missing.

    Raises:
        SetupError: Something required is missing and cannot be installed from here.
    """
    missing = [need for need in wanted if not need.met()]
    if not missing:
        return
    names = list(dict.fromkeys(package for need in missing for package in need.packages))
    prefix = _apt_prefix()
    if prefix is None:
        why = "apt-get is not here" if not has_program("apt-get") else "neither root nor sudo"
        _refuse(missing, why)
        say(f"going on without {', '.join(need.what for need in missing)}: {why}")
        return
    say(f"installing {' '.join(names)}")
    if prefix:
        output([*prefix, "-v"])  # asks for the password now, not in the middle of a line
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=300"]
    try:
        run([*apt, "update"], what="reading the package lists")
    except SetupError as error:
        say(f"{error}; going on with the package lists that are here")
    absent = [name for name in names if not _is_available(name)]
    if absent:
        names = [name for name in names if name not in absent]
        say(f"not in this system's package lists: {' '.join(absent)}")
    if names:
        run([*apt, "install", "--no-install-recommends", *names], what="installing system packages")
    importlib.invalidate_caches()
    _refuse([need for need in missing if not need.met()], "the system's packages do not bring it")


def _apt_prefix() -> list[str] | None:
    """What comes before apt-get to install something; None when that is not possible here."""
    if not has_program("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    return ["sudo"] if has_program("sudo") else None


def _is_available(package: str) -> bool:
    """Whether apt could install a package."""
    policy = output(["apt-cache", "policy", package])
    return policy is not None and "Candidate:" in policy and "Candidate: (none)" not in policy


def _refuse(missing: list[Need], why: str) -> None:
    """Raises when something required is in `missing`, with what to do about it."""
    required = [need for need in missing if need.required]
    if not required:
        return
    packages = " ".join(dict.fromkeys(package for need in required for package in need.packages))
    raise SetupError(
        f"missing: {', '.join(need.what for need in required)} ({why}). Install it; on Debian and Ubuntu the packages are: "
        f"{packages}. For another LLVM {LLVM_MAJOR} set MLIR_DIR to its lib/cmake/mlir; for another Python call make with "
        f"PYTHON=… (this one is {sys.executable})"
    )
