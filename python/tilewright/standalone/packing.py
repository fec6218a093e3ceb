# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The format of a B that is packed ahead of time: its header, which holds all that two kernels must agree on.

docs/reference/packed_b.md describes the format for readers in other languages.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .errors import OperandError

MAGIC = b"tw-packB"
VERSION = 1
HEADER_BYTES = 64
_LAYOUT = struct.Struct("<8sI12s6IQ8s")
assert _LAYOUT.size == HEADER_BYTES


@dataclass(frozen=True, slots=True)
class PackedFormat:
    """The layout of a packed B in memory.

    Two formats that are equal hold the same elements at the same places, whichever kernel packed them: M is no part of it.

    Attributes:
        element: Element type of B.
        k: Rows of B.
        n: Columns of B.
        nr: Columns of a panel; 0, as the next three, for a schedule that records no sizes: `digest` alone describes its layout.
        kc: Rows of a block.
        nc: Columns of a block, whole panels.
        depth: Rows that lie interleaved, because one instruction sums their products.
        nbytes: Bytes of the whole, the header among them.
        digest: 8 bytes that tell layouts apart: the order of the elements, the type in which they are stored, the blocks.
    """

    element: str
    k: int
    n: int
    nr: int
    kc: int
    nc: int
    depth: int
    nbytes: int
    digest: bytes

    @property
    def header(self) -> bytes:
        """The 64 bytes that a packed B starts with; equal formats have equal headers."""
        sizes = (self.k, self.n, self.nr, self.kc, self.nc, self.depth)
        return _LAYOUT.pack(MAGIC, VERSION, self.element.encode(), *sizes, self.nbytes, self.digest)

    @classmethod
    def from_header(cls, header: bytes) -> PackedFormat:
        """The format that a header says.

        Raises:
            OperandError: It is no header of a packed B, or one of another version.
        """
        where = "packed B"
        if len(header) < HEADER_BYTES:
            raise OperandError(f"{len(header)} bytes", where=where, expected=f"a header of {HEADER_BYTES}")
        magic, version, element, k, n, nr, kc, nc, depth, nbytes, digest = _LAYOUT.unpack(header[:HEADER_BYTES])
        if magic != MAGIC:
            raise OperandError(f"it starts with {magic!r}", where=where, expected=repr(MAGIC))
        if version != VERSION:
            remedy = "Pack B again with this release"
            raise OperandError(f"format version {version}", where=where, expected=str(VERSION), remedy=remedy)
        try:
            name = element.rstrip(b"\0").decode("ascii")
        except UnicodeDecodeError:
            raise OperandError(f"element type {element!r}", where=where, expected="ASCII") from None
        return cls(name, k, n, nr, kc, nc, depth, nbytes, digest)

    def __str__(self) -> str:
        """Extents, type, sizes and the digest in one line."""
        sizes = (
            f"nr={self.nr} kc={self.kc} nc={self.nc} depth={self.depth}"
            if self.nr
            else "a layout without recorded sizes"
        )
        return f"B of {self.k}x{self.n} {self.element}, {sizes}, layout {self.digest.hex()}, {self.nbytes} bytes"
