# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slices and reshapes of tensors, and loops that carry one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.index import Index
from tilewright.build.loops import loop
from tilewright.build.views import dynamic_of, static_of
from tilewright.mlir import ir
from tilewright.mlir.dialects import scf, tensor

Groups = Sequence[Sequence[int]]
"""For each axis of a reshaped tensor, the axes that it stands for, of the other one."""


def _numbers(starts: Sequence[Index], sizes: Sequence[Index]) -> tuple[list[ir.Value] | list[int], ...]:
    """The offsets, sizes and strides of an op on a slice without gaps: the dynamic ones, and the static ones."""
    return dynamic_of(starts), dynamic_of(sizes), [], static_of(starts), static_of(sizes), [1] * len(starts)


def extract(whole: ir.Value, starts: Sequence[Index], sizes: Sequence[Index], kind: ir.Type | None = None) -> ir.Value:
    """The slice of a tensor that starts at `starts`, of `sizes`; of the type `kind`, which may lack axes of one element."""
    kind = kind or ir.RankedTensorType.get(static_of(sizes), ir.RankedTensorType(whole.type).element_type)
    return tensor.ExtractSliceOp(kind, whole, *_numbers(starts, sizes)).result


def insert(part: ir.Value, whole: ir.Value, starts: Sequence[Index], sizes: Sequence[Index]) -> ir.Value:
    """A tensor with another slice, which may lack axes of one element."""
    return tensor.InsertSliceOp(part, whole, *_numbers(starts, sizes)).result


def collapse(value: ir.Value, shape: Sequence[int], groups: Groups) -> ir.Value:
    """A tensor with several axes as one."""
    kind = ir.RankedTensorType.get(list(shape), ir.RankedTensorType(value.type).element_type)
    return tensor.CollapseShapeOp(kind, value, groups).result


def expand(value: ir.Value, shape: Sequence[int], groups: Groups, sizes: Sequence[Index] = ()) -> ir.Value:
    """A tensor with an axis as several ones; `sizes` has the extents where some are dynamic."""
    kind = ir.RankedTensorType.get(list(shape), ir.RankedTensorType(value.type).element_type)
    return tensor.ExpandShapeOp(kind, value, groups, dynamic_of(sizes), list(shape)).result


def carried(stop: Index, step: Index, first: ir.Value, body: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """``for i in 0..stop step step: out = body(i, out)``, where `out` is `first` before; returns what it is then."""
    with loop(0, stop, step, [first]) as (index, (out,), made):
        scf.yield_([body(index, out)])
    return made.results[0]
