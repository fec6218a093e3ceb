# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops on vectors whose length is a machine's, and on indices: what `scalable` is written with.

A register has `lanes` elements for each 128 bits; ``vscale`` says how many times 128 bits there are, when the code runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith, memref, scf, vector

REGISTER_BITS = 128
"""The shortest scalable vector, of which every longer one is a multiple."""

Index = int | ir.Value
"""An index that is known while compiling, or not."""


def scalable(lanes: int, element: ir.Type) -> ir.VectorType:
    """The vector of `lanes` elements for each 128 bits of a register."""
    return ir.VectorType.get([lanes], element, scalable=[True])


def fixed(lanes: int, element: ir.Type) -> ir.VectorType:
    """The vector of `lanes` elements."""
    return ir.VectorType.get([lanes], element)


def bits_of(element: ir.Type) -> int:
    """Bits of an element."""
    kind = ir.IntegerType if isinstance(element, ir.IntegerType) else ir.FloatType
    return kind(element).width


def integer(bits: int) -> ir.Type:
    """An integer of `bits` bits."""
    return ir.IntegerType.get_signless(bits)


def value_of(index: Index) -> ir.Value:
    """The index as a value."""
    return arith.constant(ir.IndexType.get(), index) if isinstance(index, int) else index


def plus(a: Index, b: Index) -> Index:
    """The sum."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if 0 in [each for each in (a, b) if isinstance(each, int)]:
        return b if isinstance(a, int) else a
    return arith.addi(value_of(a), value_of(b))


def times(a: Index, b: Index) -> Index:
    """The product."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 1 in [each for each in (a, b) if isinstance(each, int)]:
        return b if isinstance(a, int) else a
    return arith.muli(value_of(a), value_of(b))


def rounded_up(a: Index, unit: int) -> Index:
    """The least multiple of `unit` that is not less."""
    if isinstance(a, int):
        return -(-a // unit) * unit
    return times(arith.divui(value_of(plus(a, unit - 1)), value_of(unit)), unit)


def rounded_down(a: Index, unit: int) -> Index:
    """The largest multiple of `unit` that is not more."""
    if isinstance(a, int):
        return a // unit * unit
    return times(arith.divui(a, value_of(unit)), unit)


def at_most(size: int, start: ir.Value, end: Index) -> Index:
    """The size of a slice from `start` on, which ends at `end` at the latest: just `size` where that divides `end`."""
    if isinstance(end, int) and end % size == 0:
        return size
    position, limit = ir.AffineDimExpr.get(0), ir.AffineDimExpr.get(1)
    rest = ir.AffineExpr.get_add(limit, ir.AffineExpr.get_mul(position, ir.AffineConstantExpr.get(-1)))
    map_ = ir.AffineMap.get(2, 0, [ir.AffineConstantExpr.get(size), rest])
    return affine.AffineMinOp(map_, [start, value_of(end)]).result


def scaled(index: ir.Value, factor: int) -> ir.Value:
    """A multiple of an index, which analyses of loops can follow."""
    product = ir.AffineExpr.get_mul(ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(factor))
    return affine.AffineApplyOp(ir.AffineMap.get(1, 0, [product]), [index]).result


def slice_of(buffer: ir.Value, starts: Sequence[Index], sizes: Sequence[Index]) -> ir.Value:
    """The slice of a buffer that starts at `starts`, of `sizes` along its dimensions."""
    kind, unknown = ir.MemRefType(buffer.type), ir.ShapedType.get_dynamic_size()
    strides, offset = kind.get_strides_and_offset()
    static = [[each if isinstance(each, int) else unknown for each in given] for given in (starts, sizes)]
    known = unknown not in (offset, *static[0], *(s for s, at in zip(strides, static[0], strict=True) if at))
    first = offset + sum(s * at for s, at in zip(strides, static[0], strict=True)) if known else unknown
    layout = ir.StridedLayoutAttr.get(first, strides)
    offsets, extents = ([each for each in given if not isinstance(each, int)] for given in (starts, sizes))
    return memref.SubViewOp(
        ir.MemRefType.get(static[1], kind.element_type, layout),
        buffer,
        offsets,
        extents,
        [],
        *(ir.DenseI64ArrayAttr.get(each) for each in (*static, [1] * kind.rank)),
    ).result


def is_less(a: Index, b: Index) -> ir.Value:
    """Whether a < b, of indices that are not negative."""
    return arith.cmpi(arith.CmpIPredicate.ult, value_of(a), value_of(b))


def zero(kind: ir.Type) -> ir.Value:
    """Zero, in each element where `kind` is a vector."""
    element = kind.element_type if isinstance(kind, ir.VectorType) else kind
    number = ir.IntegerAttr.get(element, 0) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, 0.0)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number) if kind != element else number)


def intrinsic(name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """A call of one of LLVM's intrinsics. The Python classes of the LLVM dialect take long to import."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(arguments), 0]),
    }
    return ir.Operation.create("llvm.call_intrinsic", [result], list(arguments), attributes).results[0]


def lane_mask(lanes: int, start: Index, limit: Index) -> ir.Value:
    """Whether start + i < limit, for each lane i: one ``whilelo``."""
    i64 = integer(64)
    ends = [arith.index_cast(i64, value_of(each)) for each in (start, limit)]
    return intrinsic("llvm.get.active.lane.mask", scalable(lanes, integer(1)), *ends)


def bitcast(kind: ir.VectorType, value: ir.Value) -> ir.Value:
    """The bits of a vector as another one."""
    return value if value.type == kind else vector.bitcast(kind, value)


@contextmanager
def loop(
    start: Index, stop: Index, step: Index, carried: Sequence[ir.Value] = ()
) -> Iterator[tuple[ir.Value, Sequence[ir.Value], scf.ForOp]]:
    """Opens a loop: its index, what it carries, and itself. Whoever carries something ends it with ``scf.yield_``."""
    op = scf.ForOp(value_of(start), value_of(stop), value_of(step), list(carried))
    with ir.InsertionPoint(op.body):
        yield op.induction_variable, list(op.inner_iter_args), op
        if not carried:
            scf.yield_([])


@contextmanager
def branch(op: scf.IfOp, *, otherwise: bool = False) -> Iterator[None]:
    """Opens one of the two blocks of a branch without results."""
    block = op.operation.regions[int(otherwise)].blocks[0]
    with ir.InsertionPoint(block):
        yield
        scf.yield_([])
