# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C entries of a B that is packed ahead of time, as text: what packs it, how large it is, and the check of its header."""

from __future__ import annotations

import struct

from tilewright.payload.abi import OK, PACK_SUFFIX, PACKED_BYTES_SUFFIX, WRONG_EXTENTS
from tilewright.standalone.packing import HEADER_BYTES, PackedFormat

MEMREF = "!llvm.ptr, !llvm.ptr, i64, i64, i64"
"""The types into which the packed bytes are expanded."""


def header(packed: PackedFormat) -> str:
    """A constant ``%header`` with the header of `packed`."""
    words = ", ".join(map(str, struct.unpack("<8q", packed.header)))
    return f"%header = llvm.mlir.constant(dense<[{words}]> : vector<8xi64>) : vector<8xi64>"


def check(packed: PackedFormat, pointer: str, fits: str, differs: str) -> str:
    """Branches to block `fits` or `differs`, whether `pointer` points at a B that was packed like `packed` or not.

    The bytes after the header are ``%payload``, of ``%payload_bytes``.
    """
    return f"""{header(packed)}
    %found = llvm.load {pointer} {{alignment = 1 : i64}} : !llvm.ptr -> vector<8xi64>
    %unlike = llvm.xor %found, %header : vector<8xi64>
    %any = "llvm.intr.vector.reduce.or"(%unlike) : (vector<8xi64>) -> i64
    %alike = llvm.icmp "eq" %any, %zero : i64
    {payload(packed, pointer)}
    llvm.cond_br %alike, {fits}, {differs}"""


def payload(packed: PackedFormat, pointer: str) -> str:
    """Defines ``%payload`` and ``%payload_bytes``, what comes after the header at `pointer`."""
    return f"""%payload = llvm.getelementptr {pointer}[{HEADER_BYTES}] : (!llvm.ptr) -> !llvm.ptr, i8
    %payload_bytes = llvm.mlir.constant({packed.nbytes - HEADER_BYTES} : i64) : i64"""


def text(packed: PackedFormat, body: str, symbol: str, attributes: str, *, transposed: bool = False) -> str:
    """The entries beside that of the kernel `symbol`.

    Args:
        packed: What they make.
        body: The function that packs.
        symbol: The kernel's name.
        attributes: Attributes of a function, as MLIR text.
        transposed: Whether B is stored transposed.
    """
    rows, columns = ("%n", "%k") if transposed else ("%k", "%n")
    same = f"""%static_k = llvm.mlir.constant({packed.k} : i64) : i64
    %static_n = llvm.mlir.constant({packed.n} : i64) : i64
    %same_k = llvm.icmp "eq" %k, %static_k : i64
    %same_n = llvm.icmp "eq" %n, %static_n : i64
    %same = llvm.and %same_k, %same_n : i1"""
    return f"""
  llvm.func @{symbol}{PACK_SUFFIX}(%k: i64, %n: i64, %b: !llvm.ptr, %ldb: i64, %packed: !llvm.ptr) -> i32
      attributes {{{attributes}}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %ok = llvm.mlir.constant({OK} : i32) : i32
    {same}
    llvm.cond_br %same, ^fits, ^wrong
  ^wrong:
    %wrong_extents = llvm.mlir.constant({WRONG_EXTENTS} : i32) : i32
    llvm.return %wrong_extents : i32
  ^fits:
    {header(packed)}
    llvm.store %header, %packed {{alignment = 1 : i64}} : vector<8xi64>, !llvm.ptr
    {payload(packed, "%packed")}
    llvm.call @{body}(%b, %b, %zero, {rows}, {columns}, %ldb, %one, %payload, %payload, %zero, %payload_bytes, %one) :
      (!llvm.ptr, !llvm.ptr, i64, i64, i64, i64, i64, {MEMREF}) -> ()
    llvm.return %ok : i32
  }}
  llvm.func @{symbol}{PACKED_BYTES_SUFFIX}(%k: i64, %n: i64) -> i64 attributes {{{attributes}}} {{
    {same}
    %bytes = llvm.mlir.constant({packed.nbytes} : i64) : i64
    %none = llvm.mlir.constant(-1 : i64) : i64
    %result = llvm.select %same, %bytes, %none : i1, i64
    llvm.return %result : i64
  }}
"""


def forwarded(symbol: str, packer: str, attributes: str) -> str:
    """The entries of the kernel `symbol` that leave packing to those of the kernel `packer`; `attributes` as for `text`."""
    arguments = "%k, %n, %b, %ldb, %packed"
    return f"""
  llvm.func @{symbol}{PACK_SUFFIX}(%k: i64, %n: i64, %b: !llvm.ptr, %ldb: i64, %packed: !llvm.ptr) -> i32
      attributes {{{attributes}}} {{
    %status = llvm.call @{packer}{PACK_SUFFIX}({arguments}) : (i64, i64, !llvm.ptr, i64, !llvm.ptr) -> i32
    llvm.return %status : i32
  }}
  llvm.func @{symbol}{PACKED_BYTES_SUFFIX}(%k: i64, %n: i64) -> i64 attributes {{{attributes}}} {{
    %bytes = llvm.call @{packer}{PACKED_BYTES_SUFFIX}(%k, %n) : (i64, i64) -> i64
    llvm.return %bytes : i64
  }}
"""
