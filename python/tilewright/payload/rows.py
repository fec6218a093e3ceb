# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds row entries as linalg ops: softmax, and row reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType

from tilewright.dtypes import dtype
from tilewright.entries import ROW_FORMS
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, linalg, math, tensor
from tilewright.payload import batched, elementwise
from tilewright.payload.generics import generic
from tilewright.spec import MatmulSpec


def finished(block: ir.Value, further: Sequence[ir.Value], c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """The new C, given what the entries before that of rows leave.

    Softmax is four ops: the largest number of each row, exp of what is above it (in the place of what it is computed from),
    the sum of that, and an elementwise op that divides by it and does the entries after. A reduction is one, and another
    one where its result is rounded.
    """
    with ir.Location.name("rows", ir.Location.name(str(spec))):
        rows = _Rows(block, spec)
        return rows.reduced(c) if spec.reduces_rows else rows.softmax(further, c)


COMBINE: Mapping[tuple[str, bool], tuple[float, Callable[[ir.Value, ir.Value], ir.Value]]] = MappingProxyType(
    {
        ("row_max", True): (-inf, arith.maximumf),
        ("row_max", False): (-(2**31), arith.maxsi),
        ("row_sum", True): (0.0, arith.addf),
        ("row_sum", False): (0, arith.addi),
    }
)
"""By reduction, and whether of floats: what it starts from, and what it does to two numbers."""


def position(spec: MatmulSpec) -> int:
    """Which entry of the epilogue is that of rows."""
    return next(number for number, each in enumerate(spec.epilogue) if each.form in ROW_FORMS)


def element_after(spec: MatmulSpec, part: ir.Value, operands: Sequence[ir.Value]) -> ir.Value:
    """The element of C, given what softmax leaves, and an element of each operand of the entries after it."""
    chain = spec.chain
    result = elementwise.apply(chain, part, operands, chain.entries[position(spec) + 1 :])
    wide = chain.wide(chain.result)
    return elementwise.converted(elementwise.widened(result, chain.result, wide), wide, spec.c_type.name, chain.compute)


class _Rows:
    """Ops over (batch..., m, n)."""

    def __init__(self, block: ir.Value, spec: MatmulSpec) -> None:
        self._block = block
        self._spec = spec
        self._position = position(spec)
        self._entry = spec.chain.entries[self._position]
        loops = len(spec.batch_axes) + 2
        self._all = ir.AffineMap.get_identity(loops)
        self._each_row = self._all.get_submap(list(range(loops - 1)))

    def softmax(self, further: Sequence[ir.Value], c: ir.Value) -> ir.Value:
        """Softmax, and the entries after it."""
        spec, chain = self._spec, self._spec.chain
        largest = self._reduce(self._block, self._empty_rows(), "row_max")
        parts = generic(
            [largest],
            self._block,
            [self._each_row, self._all],
            lambda most, element: math.exp(arith.subf(element, most)),
        )
        whole = self._reduce(parts, self._empty_rows(), "row_sum")
        after = chain.entries[self._position + 1 :]
        operands = spec.further[len(spec.further) - len(further) :]
        axes = [operand.axes for entry in after for operand in entry.operands]
        maps = [batched.map_of(each.loops, own, spec) for each, own in zip(operands, axes, strict=True)]

        def body(part: ir.Value, sum_: ir.Value, *others: ir.Value) -> ir.Value:
            *given, _former = others
            one = arith.constant(sum_.type, 1.0)
            return element_after(spec, arith.mulf(part, arith.divf(one, sum_)), given)

        return generic([parts, whole, *further], c, [self._all, self._each_row, *maps, self._all], body)

    def reduced(self, c: ir.Value) -> ir.Value:
        """The sum, or the largest number, of each row."""
        form, work, rounded = self._entry.entry.form, self._entry.result, self._spec.c_type.name
        if work == rounded:
            return self._reduce(self._block, c, form)
        result = self._reduce(self._block, self._empty_rows(), form)
        rows = ir.AffineMap.get_identity(self._all.n_dims - 1)

        def body(value: ir.Value, _former: ir.Value) -> ir.Value:
            return elementwise.converted(value, work, rounded, self._spec.chain.compute)

        return generic([result], c, [rows, rows], body)

    def _empty_rows(self) -> ir.Value:
        """One number for each row."""
        kind = ir.RankedTensorType(self._block.type)
        sizes = [
            tensor.dim(self._block, arith.constant(ir.IndexType.get(), axis)) if kind.is_dynamic_dim(axis) else size
            for axis, size in enumerate(kind.shape[:-1])
        ]
        return tensor.empty(sizes, kind.element_type)

    def _reduce(self, values: ir.Value, into: ir.Value, form: str) -> ir.Value:
        """The sum, or the largest number, of each row of `values`."""
        element = ir.ShapedType(values.type).element_type
        is_float = dtype(self._entry.result).kind == "float"
        least, combine = COMBINE[form, is_float]
        start = linalg.fill(arith.constant(element, least), outs=[into])
        last = self._all.n_dims - 1
        return generic([values], start, [self._all, self._each_row], lambda x, total: combine(total, x), {last})
