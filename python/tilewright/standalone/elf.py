# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a file is a whole shared library for this machine, before the dynamic linker maps it.

The dynamic linker trusts the file: one that is cut short ends the process.
"""

from __future__ import annotations

import struct
from pathlib import Path

from .errors import TilewrightError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_MAGIC, _CLASS_64, _LITTLE, _SHARED, _LOAD = b"\x7fELF", 2, 1, 3, 1
_EXPECTED = "a shared library that tilewright made for processors of this architecture"


def require_library(data: bytes, where: str) -> None:
    """Checks a file's bytes.

    Raises:
        TilewrightError: They are no shared library for this machine, or not all of one.
    """
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise TilewrightError("it is no ELF file", where=where, expected=_EXPECTED)
    ident, kind, machine, _, _, programs, sections, _, _, size, count, section_size, section_count, _ = (
        _HEADER.unpack_from(data)
    )
    if (ident[4], ident[5], kind) != (_CLASS_64, _LITTLE, _SHARED) or size != _PROGRAM.size:
        raise TilewrightError("it is no shared library of 64 bits", where=where, expected=_EXPECTED)
    own = _machine()
    if own is not None and machine != own:
        raise TilewrightError(
            f"it is for another architecture (ELF machine {machine})",
            where=where,
            expected=f"machine {own}",
            remedy="Load the library in the folder of this architecture",
        )
    ends = [programs + count * size, sections + section_count * section_size]
    if ends[0] <= len(data):
        for number in range(count):
            type_, _, offset, _, _, in_file, _, _ = _PROGRAM.unpack_from(data, programs + number * size)
            ends += [offset + in_file] if type_ == _LOAD else []
    if max(ends) > len(data):
        raise TilewrightError(f"{len(data)} bytes", where=where, expected=f"{max(ends)}", remedy="Copy the file again")


def _machine() -> int | None:
    """The number of this process's architecture; None where its program cannot be read."""
    try:
        with Path("/proc/self/exe").open("rb") as file:
            return _HEADER.unpack(file.read(_HEADER.size))[2]
    except (OSError, struct.error):
        return None
