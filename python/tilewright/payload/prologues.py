# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the prologues of A and B as elementwise ops of their own.

Schedules fuse them into packing: their result is never a matrix in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import dtype
from tilewright.entries import Chain
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, linalg, tensor
from tilewright.payload import elementwise
from tilewright.payload.generics import generic
from tilewright.spec import MatmulSpec, OperandSpec

OWN_BATCH = "own_batch"
"""The attribute of the ops that are prologues: how many of their loops are over the batch, which may be more for the product."""


def applied(
    a: ir.Value, b: ir.Value, further: Sequence[ir.Value], spec: MatmulSpec
) -> tuple[ir.Value, ir.Value, Sequence[ir.Value]]:
    """A and B as they are multiplied, and those of the further operands that are left for the epilogue."""
    first, second = len(spec.chain_a.operands), len(spec.chain_b.operands)
    for_a, for_b, left = further[:first], further[first : first + second], further[first + second :]
    specs = spec.further
    if spec.prologue_a:
        a = _computed(a, "mk", spec.a_axes, spec.chain_a, for_a, specs[:first], spec)
    if spec.prologue_b:
        b = _computed(b, "kn", spec.b_axes, spec.chain_b, for_b, specs[first : first + second], spec)
    return a, b, left


def _computed(
    matrix: ir.Value,
    axes: str,
    loops: Sequence[int],
    chain: Chain,
    operands: Sequence[ir.Value],
    specs: Sequence[OperandSpec],
    spec: MatmulSpec,
) -> ir.Value:
    """Applies `chain` to a matrix, with a dimension for each of `axes` after those of its batch."""
    gathers = bool(chain.entries) and chain.entries[0].entry.form == "gather"
    place = {axis: number for number, axis in enumerate((*map(str, loops), *axes))}

    def map_of(own: Sequence[int], named: str, group: int = 1) -> ir.AffineMap:
        results = [ir.AffineDimExpr.get(place[axis.replace("g", "k")]) for axis in (*map(str, own), *named)]
        results = [
            ir.AffineExpr.get_floor_div(each, group) if axis == "g" else each
            for each, axis in zip(results, (*[""] * len(own), *named), strict=True)
        ]
        return ir.AffineMap.get(len(place), 0, results)

    maps = [map_of(each.loops, typed.axes, typed.group) for each, typed in zip(specs, chain.operands, strict=True)]
    identity = map_of(loops, axes)
    inputs = [*([] if gathers else [matrix]), *operands]

    def body(*values: ir.Value) -> ir.Value:
        *given, _output = values
        if gathers:
            row = arith.index_cast(ir.IndexType.get(), given[0])
            column = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(place) - 1)).result
            element = tensor.extract(matrix, [row, column])
        else:
            element, *given = given
        return elementwise.apply(chain, element, given)

    # A table has other rows than the product.
    told_by = {"m": operands[0]} if gathers else {}
    sizes = [_extent(each, spec, told_by.get(each, matrix), place[each]) for each in place]
    into = tensor.empty(sizes, ir.Type.parse(dtype(chain.result).mlir))
    with ir.Location.name("prologue", ir.Location.name(str(spec))):
        maps = [*([] if gathers else [identity]), *maps, identity]
        made = generic(inputs, into, maps, body)
    ir.OpResult(made).owner.attributes[OWN_BATCH] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(loops))
    return made


def _extent(axis: str, spec: MatmulSpec, operand: ir.Value, position: int) -> int | ir.Value:
    """How many elements there are along an axis; a dynamic extent is a dimension of an operand."""
    extent = getattr(spec, axis) if axis in "mnk" else spec.batch[int(axis)]
    if isinstance(extent, int):
        return extent
    return tensor.dim(operand, arith.constant(ir.IndexType.get(), position))
