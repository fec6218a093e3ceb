# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registers a BLAS with ``update-alternatives``, so that every program that was linked with a BLAS runs on it; and undoes that.

Source: update-alternatives(1), and Debian's wiki on its BLAS and LAPACK libraries.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.blas import names
from tilewright.errors import TilewrightError

FOLDER = Path("/usr/local/lib/tilewright")
"""Where a library that is registered lies."""
_PROGRAM = "update-alternatives"
_PRIORITY = 200
"""Above those of Debian's packages, the highest of which is OpenBLAS's 100."""


def install(library: Path, folder: Path = FOLDER, options: Sequence[str] = (), *, dry_run: bool = False) -> list[str]:
    """Copies a library to `folder` and registers it; returns the commands that do it. A dry run does nothing.

    Args:
        library: What `tilewright blas build` made for this machine.
        folder: Where the library is to lie.
        options: Of update-alternatives, such as another folder for its links.
        dry_run: Whether only to say what would be done.

    Raises:
        TilewrightError: There is no such file, or no update-alternatives, or this is not root, or a command failed.
    """
    if not library.is_file():
        remedy = "Build one: tilewright blas build -o DIR"
        raise TilewrightError("no library", where=str(library), expected="libtilewright_blas.so", remedy=remedy)
    place = folder / library.name
    link, name = _link()
    return _do(
        [
            ["install", "-D", "-m", "644", str(library), str(place)],
            [_PROGRAM, *options, "--install", link, name, str(place), str(_PRIORITY)],
        ],
        folder,
        dry_run,
    )


def uninstall(folder: Path = FOLDER, options: Sequence[str] = (), *, dry_run: bool = False) -> list[str]:
    """Undoes `install`: whatever BLAS was there before serves again. Returns the commands.

    Raises:
        TilewrightError: There is no update-alternatives, or this is not root, or a command failed.
    """
    place = folder / "libtilewright_blas.so"
    _, name = _link()
    return _do([[_PROGRAM, *options, "--remove", name, str(place)], ["rm", "-f", str(place)]], folder, dry_run)


def _link() -> tuple[str, str]:
    """The link that programs load, and what update-alternatives calls it."""
    triplet = f"{os.uname().machine}-linux-gnu"
    return f"/usr/lib/{triplet}/{names.SONAME}", f"{names.SONAME}-{triplet}"


def _do(commands: Sequence[Sequence[str]], folder: Path, dry_run: bool) -> list[str]:
    lines = [shlex.join(each) for each in commands]
    if dry_run:
        return lines
    if shutil.which(_PROGRAM) is None:
        remedy = "Use tilewright blas run, or LD_LIBRARY_PATH with a link called libblas.so.3"
        raise TilewrightError(f"no {_PROGRAM}", expected="a system that has it, such as Debian", remedy=remedy)
    if folder == FOLDER and os.geteuid() != 0:
        raise TilewrightError("only root can register a library", remedy=f"As root: {' && '.join(lines)}")
    for command in commands:
        done = subprocess.run(list(command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise TilewrightError(f"{shlex.join(command)} failed: {done.stderr.strip()}")
    return lines
