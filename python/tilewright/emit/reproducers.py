# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes folders that reproduce crashes of MLIR, a bounded number of them, to the cache's folder.

Without a cache they are in the folder for temporary files, which the system cleans.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright import knobs

FOLDER = "reproducers"
"""Their folder in that of the cache."""
MOST, MOST_BYTES = 16, 64 << 20
"""How many are kept, and how large all of them together may be: those made first go first."""
_PREFIX = "tilewright-reproducer-"


@dataclass(frozen=True, slots=True, order=True)
class Reproducer:
    """One of them.

    Attributes:
        made: When, in seconds as `time.time` counts them.
        folder: Where it is.
        size: Its bytes.
    """

    made: float
    folder: Path
    size: int


def keep(files: Mapping[str, str]) -> Path:
    """Makes a folder with `files`, texts by name, and removes older ones beyond the limits."""
    settings = knobs.load()
    parent = None if settings.no_cache or settings.cache_dir is None else _safe(settings.cache_dir / FOLDER)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    for name, text in files.items():
        (folder / name).write_text(text)
    if parent is not None:
        prune(parent.parent)
    return folder


def found(cache: Path) -> list[Reproducer]:
    """Those in the folder of a cache, in the order in which they were made."""
    every = []
    with contextlib.suppress(OSError), os.scandir(cache / FOLDER) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process was faster
                if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                    size = sum(file.stat(follow_symlinks=False).st_size for file in os.scandir(entry.path))
                    every.append(Reproducer(entry.stat(follow_symlinks=False).st_mtime, Path(entry.path), size))
    return sorted(every)


def prune(cache: Path, most: int = MOST, most_bytes: int = MOST_BYTES) -> int:
    """Removes the oldest of those in the folder of a cache beyond the limits; returns how many.

    The newest one stays however large it is, unless none may.
    """
    every = found(cache)
    left, removed = sum(each.size for each in every), 0
    for each in every:
        count = len(every) - removed
        if count <= most and (left <= most_bytes or count == 1):
            break
        shutil.rmtree(each.folder, ignore_errors=True)
        left, removed = left - each.size, removed + 1
    return removed


def _safe(folder: Path) -> Path | None:
    """The folder, made where it is missing; None where it cannot be, or others may write there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    usable = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not others
    return folder if usable and os.access(folder, os.W_OK | os.X_OK) else None
