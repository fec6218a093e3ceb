# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder that ``explain`` writes: its own files are replaced, and nobody else's is ever touched.

``explain.json`` lists the files with their checksums. A folder with that list is an earlier explanation; what is not on it,
or was changed since, belongs to the user.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError

MANIFEST = "explain.json"
"""The list of the files, beside what a program may want to know of the explanation."""

KIND = "tilewright explain"
"""What the list says that the folder is."""


def require_usable(folder: Path) -> None:
    """Checks, before any work is done, that an explanation can be written to `folder`.

    Raises:
        TilewrightError: It cannot be written, or holds something that is not an earlier explanation as it was written.
    """
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise _refused(folder, "it is no folder", "a new or an empty folder")
        _require_creatable(folder)
        return
    if not os.access(folder, os.W_OK | os.X_OK | os.R_OK):
        raise _refused(folder, "permission denied", "a folder where you may write")
    present = {path.name for path in folder.iterdir()}
    if present:
        _require_ours(folder, present)


def write(folder: Path, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """Writes the files and their list; when that fails, `folder` is as it was.

    Args:
        folder: Where; it is made when it does not exist.
        files: Contents by name.
        facts: What the list says besides, as JSON.

    Raises:
        TilewrightError: As `require_usable`, or a file cannot be written.
    """
    require_usable(folder)
    listed = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = json.dumps({"kind": KIND, **facts, "files": listed}, indent=1) + "\n"
    created = _first_missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = _listed(folder) or {}
        with tempfile.TemporaryDirectory(prefix=".explain-", dir=folder) as place:
            for name, data in {**files, MANIFEST: manifest.encode()}.items():
                (Path(place) / name).write_bytes(data)
            for name in (*files, MANIFEST):
                (Path(place) / name).replace(folder / name)
        for name in old.keys() - files.keys():
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        if created is not None:
            with suppress(OSError):
                shutil.rmtree(created)
        raise _refused(folder, error.strerror or str(error), None) from error


def _require_creatable(folder: Path) -> None:
    """Checks that a folder which does not exist can be made."""
    missing = _first_missing(folder)
    parent = (missing or folder).absolute().parent
    if not parent.is_dir():
        raise _refused(folder, f"{parent} is no folder", "a new or an empty folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _refused(folder, "permission denied", "a place where you may write")


def _first_missing(folder: Path) -> Path | None:
    """The outermost folder that has to be made, or None."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    return missing[-1] if missing else None


def _require_ours(folder: Path, present: set[str]) -> None:
    """Checks that everything in a folder was written by an earlier ``explain``, and not changed since."""
    listed = _listed(folder)
    if listed is None:
        raise _refused(folder, "it has files that no earlier explain wrote", "a new or an empty folder")
    if foreign := sorted(present - listed.keys() - {MANIFEST}):
        raise _refused(
            folder, f"no earlier explain wrote {foreign[0]}", "a new or an empty folder", f"Move {foreign[0]} away"
        )
    for name, checksum in listed.items():
        path = folder / name
        if name in present and (path.is_symlink() or not path.is_file() or _checksum(path) != checksum):
            raise _refused(
                folder, f"{name} was changed since explain wrote it", "a new or an empty folder", f"Move {name} away"
            )


def _listed(folder: Path) -> dict[str, str] | None:
    """The files of an earlier explanation with their checksums; None when there is none."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = found["files"] if found["kind"] == KIND else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(files, dict) or not all(
        isinstance(checksum, str) and Path(name).name == name for name, checksum in files.items()
    ):
        return None
    return files


def _checksum(path: Path) -> str | None:
    """The checksum of a file; None when it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _refused(folder: Path, reason: str, expected: str | None, remedy: str | None = None) -> TilewrightError:
    return TilewrightError(f"cannot write to {folder}: {reason}", where="-o", expected=expected, remedy=remedy)
