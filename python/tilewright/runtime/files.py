# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes files that are either whole or not there."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tilewright.errors import TilewrightError


def require_writable(path: Path, what: str) -> None:
    """Checks, before any work is done for it, that a file can be written.

    Args:
        path: Where it is to be written; ``-`` is standard output.
        what: The option that names it, for the message.

    Raises:
        TilewrightError: The folder is absent or closed, or there is something there that is no file or may not be changed.
    """
    if str(path) == "-":
        return
    parent = _real(path).parent
    if path.is_dir():
        raise _unwritable(path, what, "it is a folder", "the name of a file")
    if not parent.is_dir():
        reason = "is no folder" if parent.exists() else "does not exist"
        raise _unwritable(path, what, f"{parent} {reason}", "a file in a folder that exists")
    if path.exists():
        allowed = os.access(path, os.W_OK) and (not path.is_file() or os.access(parent, os.W_OK | os.X_OK))
    else:
        allowed = os.access(parent, os.W_OK | os.X_OK)
    if not allowed:
        raise _unwritable(path, what, "permission denied", "a place where you may write")


@contextmanager
def replacing(path: Path, what: str) -> Iterator[Path]:
    """Gives a temporary file to write to, and puts it at `path` when all went well; otherwise `path` is as it was.

    What is no regular file (a device, a pipe) is written to directly.

    Args:
        path: Where the file is to be; not ``-``.
        what: The option that names it, for the message.

    Raises:
        TilewrightError: It cannot be written.
    """
    real = _real(path)
    try:
        if path.exists() and not path.is_file():
            yield path
            return
        temporary = real.parent / f".tilewright-{secrets.token_hex(8)}{path.suffix}"
        try:
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            yield temporary
            if mode is not None:
                temporary.chmod(mode)
            temporary.replace(real)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise _unwritable(path, what, error.strerror or str(error), None) from error


def write_together(files: Mapping[str, tuple[Path, bytes]]) -> None:
    """Writes several files, all whole, or none; ``-`` is standard output.

    Args:
        files: From the option that names each to where and what.

    Raises:
        TilewrightError: One cannot be written.
    """
    with ExitStack() as stack:
        for option, (path, data) in files.items():
            if str(path) == "-":
                _print(data)
            else:
                stack.enter_context(replacing(path, option)).write_bytes(data)


def write(path: Path, data: bytes, what: str) -> None:
    """Writes a file whole, or not at all; ``-`` is standard output.

    Raises:
        TilewrightError: It cannot be written.
    """
    write_together({what: (path, data)})


def _print(data: bytes) -> None:
    """Puts bytes on standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _real(path: Path) -> Path:
    """The file itself where `path` is a link to it."""
    return Path(os.path.realpath(path))


def _unwritable(path: Path, what: str, reason: str, expected: str | None) -> TilewrightError:
    return TilewrightError(f"cannot write {path}: {reason}", where=what, expected=expected)
