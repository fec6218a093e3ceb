# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes static libraries: ``ar`` archives with the index of symbols that linkers look things up in.

Source: the System V archive format as GNU ar writes it (binutils, doc/binutils.texi; FreeBSD ar(5)).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_MAGIC = b"!<arch>\n"
_ENDING = b"`\n"
_LONGEST = 15
"""Characters of a name that stands in a member's header, before a slash."""


def archive(members: Mapping[str, bytes], symbols: Mapping[str, Sequence[str]]) -> bytes:
    """An archive of objects.

    Args:
        members: The objects by name.
        symbols: By a member's name, the symbols that it defines for others.
    """
    long_names, places = b"", {}
    for name in members:
        if len(name) > _LONGEST:
            places[name] = f"/{len(long_names)}"
            long_names += f"{name}/\n".encode()
        else:
            places[name] = f"{name}/"
    names = [(symbol, member) for member in members for symbol in symbols[member]]
    texts = b"".join(symbol.encode() + b"\0" for symbol, _ in names)
    index_bytes = 4 + 4 * len(names) + len(texts)
    before = (
        len(_MAGIC) + len(_member("/", b"\0" * index_bytes)) + (len(_member("//", long_names)) if long_names else 0)
    )
    at, parts = {}, []
    for name, data in members.items():
        at[name] = before + sum(map(len, parts))
        parts.append(_member(places[name], data))
    index = struct.pack(f">I{len(names)}I", len(names), *(at[member] for _, member in names)) + texts
    return b"".join([_MAGIC, _member("/", index), _member("//", long_names) if long_names else b"", *parts])


def _member(name: str, data: bytes) -> bytes:
    """A member: dates and owners are zero, so that equal objects make equal archives."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}".encode() + _ENDING
    return header + data + b"\n" * (len(data) % 2)
