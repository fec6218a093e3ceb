# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views of memrefs: slices, transposes, and the mixed static and dynamic numbers that such ops have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from tilewright.build.index import Index
from tilewright.mlir import ir
from tilewright.mlir.dialects import memref

_T = TypeVar("_T")
DYNAMIC = ir.ShapedType.get_dynamic_size()
"""Stands for an extent, an offset or a stride that is not static."""


def mixed(static: ir.Attribute | Iterable[int], dynamic: Iterable[ir.Value]) -> list[Index]:
    """Static and dynamic numbers in their order."""
    given = iter(dynamic)
    numbers = ir.DenseI64ArrayAttr(static) if isinstance(static, ir.Attribute) else static
    return [next(given) if each == DYNAMIC else each for each in numbers]


def dynamic_of(numbers: Iterable[Index]) -> list[ir.Value]:
    """Those of some numbers that are not static."""
    return [each for each in numbers if isinstance(each, ir.Value)]


def static_of(numbers: Iterable[Index]) -> list[int]:
    """The numbers that are static, and `DYNAMIC` for the others."""
    return [each if isinstance(each, int) else DYNAMIC for each in numbers]


def offsets_of(op: ir.Operation) -> list[Index]:
    """The offsets of a subview."""
    return mixed(op.attributes["static_offsets"], list(op.operands)[1:])


def sizes_of(op: ir.Operation) -> list[Index]:
    """The sizes of a subview."""
    before = 1 + len(dynamic_of(offsets_of(op)))
    return mixed(op.attributes["static_sizes"], list(op.operands)[before:])


def subview(kind: ir.MemRefType, buffer: ir.Value, starts: Sequence[Index], sizes: Sequence[Index]) -> ir.Value:
    """The slice of that type of a buffer which starts at `starts`, of `sizes` along its dimensions, without gaps."""
    static = [ir.DenseI64ArrayAttr.get(each) for each in (static_of(starts), static_of(sizes), [1] * len(starts))]
    return memref.SubViewOp(kind, buffer, dynamic_of(starts), dynamic_of(sizes), [], *static).result


def slice_of(buffer: ir.Value, starts: Sequence[Index], sizes: Sequence[Index]) -> ir.Value:
    """The slice of a buffer that starts at `starts`, of `sizes` along its dimensions."""
    kind = ir.MemRefType(buffer.type)
    strides, offset = kind.get_strides_and_offset()
    at = static_of(starts)
    known = DYNAMIC not in (offset, *at, *(s for s, start in zip(strides, at, strict=True) if start))
    first = offset + sum(s * start for s, start in zip(strides, at, strict=True)) if known else DYNAMIC
    layout = ir.StridedLayoutAttr.get(first, strides)
    return subview(ir.MemRefType.get(static_of(sizes), kind.element_type, layout), buffer, starts, sizes)


def metadata(view: ir.Value) -> tuple[ir.Value, ir.Value, list[ir.Value], list[ir.Value]]:
    """The buffer that a view is of, and the view's offset, sizes and strides."""
    made = memref.ExtractStridedMetadataOp(view)
    return made.base_buffer, made.offset, list(made.sizes), list(made.strides)


def reinterpreted(
    kind: ir.MemRefType,
    source: ir.Value,
    offset: Sequence[ir.Value] = (),
    sizes: Sequence[ir.Value] = (),
    strides: Sequence[ir.Value] = (),
) -> ir.Value:
    """`source` as a memref of type `kind`; the others are the values of its offset, sizes and strides that are not static."""
    known, start = kind.get_strides_and_offset()
    static = [ir.DenseI64ArrayAttr.get(each) for each in ([start], kind.shape, known)]
    return memref.ReinterpretCastOp(kind, source, offset, sizes, strides, *static).result


def transposed_type(kind: ir.MemRefType) -> ir.MemRefType:
    """The type of a matrix, or a batch of them, that is transposed by swapping its last extents and strides."""
    strides, offset = kind.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(offset, last_swapped(strides))
    return ir.MemRefType.get(last_swapped(kind.shape), kind.element_type, layout, kind.memory_space)


def transposed(matrix: ir.Value) -> ir.Value:
    """A view of a matrix with rows and columns swapped."""
    permutation = ir.AffineMapAttr.get(ir.AffineMap.get_permutation([1, 0]))
    return memref.TransposeOp(transposed_type(ir.MemRefType(matrix.type)), matrix, permutation).result


def last_swapped(given: Sequence[_T]) -> list[_T]:
    """The same with the last two swapped."""
    return [*given[:-2], given[-1], given[-2]]
