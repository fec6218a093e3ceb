# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the linalg module of a matrix product: what is computed, before any decision how."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import scaling
from tilewright.dims import MAX_EXTENT, Dim, Extent
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, linalg, tensor
from tilewright.payload import batched, bounds, elementwise, prologues, rows
from tilewright.payload.abi import ENTRY
from tilewright.payload.generics import generic
from tilewright.spec import MatmulSpec

_WIDEN = {"float": arith.extf, "int": arith.extsi, "uint": arith.extui}
"""The op that takes an element to a wider type, by kind; MLIR's integers carry no sign, so that it lives here."""


def _operand_attributes(rank: int, *, transposed: bool, writable: bool) -> ir.DictAttr:
    """Rows are contiguous (transposed: columns), with any leading dimension; only C may be written."""
    return ir.DictAttr.get(
        {
            "bufferization.buffer_layout": ir.StridedLayoutAttr.get(0, batched.strides(rank, transposed=transposed)),
            "bufferization.writable": ir.BoolAttr.get(writable),
        }
    )


def _sizes(shape: Sequence[Extent]) -> list[int]:
    """A shape as a tensor's type has it."""
    return [ir.ShapedType.get_dynamic_size() if isinstance(size, Dim) else size for size in shape]


def _named(op: str, spec: MatmulSpec) -> ir.Location:
    """A location that names an op, for errors in whatever schedules make of it."""
    return ir.Location.name(op, ir.Location.name(str(spec)))


def build(spec: MatmulSpec, context: ir.Context) -> ir.Module:
    """Builds the payload of `spec` in `context`.

    The module has one function, ``@matmul(%a: tensor<MxK>, %b: tensor<KxN>, %c: tensor<MxN>) -> tensor<MxN>``, in which
    a contraction accumulates into ``%c``: with `beta` 0 into ``%c`` filled with zeros, whose former elements are
    then never read, with `beta` 1 into ``%c`` as it comes. The contraction is a ``linalg.matmul``, which widens signed
    integers, or unsigned ones where its ``cast`` says so; where A has a sign and B has none, or the other way round, it is
    a ``linalg.generic`` that widens each by its own rule.

    With a batch, its axes of more than one entry are the first of each operand that has them, and the contraction is a
    ``linalg.contract`` whose maps say which those are.

    An operand that is stored transposed has the shape above all the same: its ``bufferization.buffer_layout`` says that the
    elements of a column lie side by side. So no schedule has to know.

    Where C is narrower than the accumulator, or there is an epilogue, the contraction accumulates into a ``tensor.empty`` of
    the accumulator's type, filled with zeros; one elementwise ``linalg.generic`` does to each sum what `MatmulSpec.finish`
    says (alpha, the epilogue, beta times the former element of C), and rounds into ``%c``. Further operands are arguments
    between ``%b`` and ``%c``, of a rank for each of their axes; after them come those of alpha and beta that calls tell.
    With a prologue, what is multiplied is what an elementwise ``linalg.generic`` makes of A, or of B, as it is stored. The
    operands of A's prologue come first among the further ones, then those of B's.
    A further matrix like B has a product of its own, with the same A, which the elementwise op after them takes too.
    Without products, with K = 0 or alpha = 0, there is no contraction. Without an epilogue ``%c`` is then filled, or returned
    where beta is 1: not even rounding may change it.
    """
    with context, ir.Location.name(str(spec)):
        transposed = (*spec.transposed, False)
        shapes = [
            (batched.shape(each, spec, transposed=turned), each.type)
            for each, turned in zip((*spec.operands, spec.result), transposed, strict=True)
        ]
        types = [ir.RankedTensorType.get(_sizes(shape), ir.Type.parse(element.mlir)) for shape, element in shapes]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(ENTRY, ir.FunctionType.get(types, [types[-1]]))
            last = len(types) - 1
            function.arg_attrs = [
                _operand_attributes(len(shape), transposed=transposed[each], writable=each == last)
                for each, (shape, _) in enumerate(shapes)
            ]
            with ir.InsertionPoint(function.add_entry_block()):
                a, b, *further, c = function.arguments
                further, scalars = further[: len(spec.further)], further[len(spec.further) :]
                if isinstance(spec.k, Dim) and spec.k.max < MAX_EXTENT:
                    a, b = bounds.deep(a, spec.k, -1), bounds.deep(b, spec.k, -2)
                func.return_([_result(*prologues.applied(a, b, further, spec), scalars, c, spec)])
    return module


def _result(
    a: ir.Value,
    b: ir.Value,
    further: Sequence[ir.Value],
    scalars: Sequence[ir.Value],
    c: ir.Value,
    spec: MatmulSpec,
) -> ir.Value:
    """The new C."""
    if spec.has_rows:
        before = len(spec.inner.chain.operands)
        block = tensor.empty(_extents(c, spec.inner), ir.Type.parse(spec.inner.c_type.mlir))
        return rows.finished(_result(a, b, further[:before], scalars, block, spec.inner), further[before:], c, spec)
    if not spec.fused:
        return _product(a, b, c if spec.beta else _zeros(c, spec), spec)
    nothing = 0 in (spec.k, spec.alpha)
    if nothing and not spec.epilogue and spec.beta in (0, 1):
        return c if spec.beta else _zeros(c, spec)
    sizes = _extents(c, spec)

    def product(of: ir.Value) -> ir.Value:
        sums = _zeros(tensor.empty(sizes, ir.Type.parse(spec.acc_type.mlir)), spec)
        return sums if nothing else _product(a, of, sums, spec)

    sums = product(b)
    given = [
        product(value) if each.role == "b" else value for value, each in zip(further, spec.chain.operands, strict=True)
    ]
    return _finished(sums, given, scalars, c, spec)


def _extents(c: ir.Value, spec: MatmulSpec) -> list[int | ir.Value]:
    """Those of `c`."""
    return [
        tensor.dim(c, arith.constant(ir.IndexType.get(), axis)) if isinstance(size, Dim) else size
        for axis, size in enumerate(batched.shape(spec.result, spec))
    ]


def _zeros(into: ir.Value, spec: MatmulSpec) -> ir.Value:
    """`into` filled with zeros."""
    zero = arith.constant(ir.ShapedType(into.type).element_type, 0.0 if spec.acc_type.kind == "float" else 0)
    with _named("linalg.fill", spec):
        return linalg.fill(zero, outs=[into])


def _product(a: ir.Value, b: ir.Value, c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """A·B added to `c`."""
    if spec.a_type.kind == spec.b_type.kind:
        cast = ir.Attribute.parse("#linalg.type_fn<cast_unsigned>") if spec.a_type.kind == "uint" else None
        if spec.batch_axes:
            with _named("linalg.contract", spec):
                maps = batched.product_maps(spec)
                # The binding makes attributes of maps, whatever its annotation says.
                return linalg.contract(a, b, outs=[c], indexing_maps=maps, cast=cast)  # type: ignore[arg-type]
        with _named("linalg.matmul", spec):
            return linalg.matmul(a, b, outs=[c], cast=cast)
    with _named("linalg.generic", spec):
        return _mixed_product(a, b, c, spec)


def _mixed_product(a: ir.Value, b: ir.Value, c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """A·B added to `c`, for integers of which one operand has a sign."""

    def body(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        wide = [_widened(value, element, total.type) for value, element in ((x, spec.a_type), (y, spec.b_type))]
        return arith.addi(total, arith.muli(*wide))

    return generic([a, b], c, batched.product_maps(spec), body, {len(spec.batch_axes) + 2})


def _widened(value: ir.Value, element: DType, wide: ir.Type) -> ir.Value:
    return _WIDEN[element.kind](wide, value)


def _finished(
    sums: ir.Value, further: Sequence[ir.Value], scalars: Sequence[ir.Value], c: ir.Value, spec: MatmulSpec
) -> ir.Value:
    """What `spec.finish` makes of each of the sums and the former element of `c`, rounded to an element of `c`."""
    chain, finish = spec.chain, spec.finish
    maps = [
        batched.map_of(spec.batch_axes if each.role == "b" else operand.loops, each.axes, spec)
        for operand, each in zip(spec.further[len(spec.further) - len(chain.operands) :], chain.operands, strict=True)
    ]
    maps += [batched.map_of((), "", spec)] * len(scalars)
    identity = ir.AffineMap.get_identity(len(spec.batch_axes) + 2)

    def body(total: ir.Value, *others: ir.Value) -> ir.Value:
        result = elementwise.apply(finish, total, scaling.in_order(finish, spec.scalars, others))
        return elementwise.converted(result, finish.result, spec.c_type.name, finish.compute)

    with _named("linalg.generic", spec):
        return generic([sums, *further, *scalars], c, [identity, *maps, identity], body)
