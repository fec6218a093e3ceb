# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A copy of the checkout in which files may be changed, with an environment that imports the copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from mutant import PACKAGE, ROOT

_BUILT = ("mlir", "bin", "*.so", "*.pyi", "standalone/*.so", "standalone/*.pyi")
"""What the build leaves in the package: linked, not copied."""


def copy(to: Path) -> Path:
    """Copies what git knows of, links what was built, and makes an environment for it; returns its Python.

    The environment has the packages of this one behind the copy, so that also children started without any environment
    variable import the copy.
    """
    shutil.rmtree(to, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    for pattern in _BUILT:
        for built in (ROOT / PACKAGE).glob(pattern):
            place = to / PACKAGE / built.relative_to(ROOT / PACKAGE)
            if not place.exists():
                place.symlink_to(built)
    (to / "build").mkdir(exist_ok=True)
    toolchain = ROOT / "build" / "toolchain.json"
    if toolchain.exists():
        (to / "build" / toolchain.name).symlink_to(toolchain)
    return _environment(to)


def _environment(tree: Path) -> Path:
    folder = tree / ".venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (packages / "tree.pth").write_text(f"{tree / 'python'}\n{sysconfig.get_path('purelib')}\n")
    for program in Path(sys.prefix, "bin").iterdir():
        if program.is_file() and not (folder / "bin" / program.name).exists():
            _hand_on(program, folder / "bin" / program.name, python)
    return python


def _hand_on(program: Path, to: Path, python: Path) -> None:
    """Links a program; a script of this environment's Python is copied, for the other one."""
    with open(program, "rb") as stream:
        first = stream.readline(200)
    if not first.startswith(f"#!{sys.prefix}".encode()):
        to.symlink_to(program)
        return
    to.write_bytes(f"#!{python}\n".encode() + program.read_bytes()[len(first) :])
    to.chmod(0o755)


def environment(tree: Path) -> dict[str, str]:
    """The variables under which tests run in the copy: a disk cache of its own, and nothing of another checkout's."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = f"{tree / '.venv' / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
    return kept | {
        "PATH": path,
        "TILEWRIGHT_CACHE_DIR": str(tree / "build" / "kernels"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
