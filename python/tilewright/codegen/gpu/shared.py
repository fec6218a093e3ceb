# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Places in shared memory, as addresses: what copies of boxes, barrier objects and matrix instructions take."""

from __future__ import annotations

from tilewright.build.index import Index, add, value
from tilewright.codegen.gpu import staging
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, memref


def allocate(bytes_: int) -> ir.Value:
    """So many bytes of shared memory."""
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), staging.SHARED)
    return memref.alloc(ir.MemRefType.get([bytes_], ir.IntegerType.get_signless(8), memory_space=space), [], [])


def address(buffer: ir.Value, offset: Index = 0) -> Index:
    """The address of a place in a buffer."""
    return add(memref.extract_aligned_pointer_as_index(buffer), offset)


def pointer(buffer: ir.Value, offset: Index = 0) -> ir.Value:
    """A pointer to a place in a buffer."""
    word = ir.IntegerType.get_signless(64)
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), arith.index_cast(word, value(address(buffer, offset))))


def i32(number: int) -> ir.Value:
    """A constant of 32 bits."""
    return arith.constant(ir.IntegerType.get_signless(32), number)


def as_i32(index: Index) -> ir.Value:
    """An index in 32 bits."""
    return arith.index_cast(ir.IntegerType.get_signless(32), value(index))


def as_i16(index: Index) -> ir.Value:
    """An index in 16 bits."""
    return arith.index_cast(ir.IntegerType.get_signless(16), value(index))
