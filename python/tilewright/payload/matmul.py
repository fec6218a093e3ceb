# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The linalg module of a matrix product: what is computed, before any decision how."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, linalg, tensor
from tilewright.payload.abi import ENTRY
from tilewright.spec import MatmulSpec

_WIDEN = {"float": arith.extf, "int": arith.extsi, "uint": arith.extui}
"""The op that takes an element to a wider type, by kind; MLIR's integers carry no sign, so that it lives here."""


def _operand_attributes(*, writable: bool) -> ir.DictAttr:
    """Rows may be any distance apart, elements of a row are neighbours; only C may be written."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    return ir.DictAttr.get(
        {
            "bufferization.buffer_layout": ir.StridedLayoutAttr.get(0, [dynamic, 1]),
            "bufferization.writable": ir.BoolAttr.get(writable),
        }
    )


def _named(op: str, spec: MatmulSpec) -> ir.Location:
    """The location of an op, and of all that schedules make of it: its name, so that an error can tell it."""
    return ir.Location.name(op, ir.Location.name(str(spec)))


def build(spec: MatmulSpec, context: ir.Context) -> ir.Module:
    """Builds the payload of `spec` in `context`.

    The module has one function, ``@matmul(%a: tensor<MxK>, %b: tensor<KxN>, %c: tensor<MxN>) -> tensor<MxN>``, in which
    a contraction accumulates into ``%c``: with `beta` 0 into ``%c`` filled with zeros, whose former elements are
    then never read, with `beta` 1 into ``%c`` as it comes. The contraction is a ``linalg.matmul``, which widens signed
    integers, or unsigned ones where its ``cast`` says so; where A has a sign and B has none, or the other way round, it is
    a ``linalg.generic`` that widens each by its own rule.

    Where C is narrower than the accumulator, the contraction accumulates into a ``tensor.empty`` of the accumulator's type,
    filled with zeros; one elementwise ``linalg.generic`` rounds the sums into ``%c``, with `beta` 1 after adding to each the
    former element of C.
    Without products, with K = 0, ``%c`` is only filled or returned: not even rounding may change it.
    """
    with context, ir.Location.name(str(spec)):
        shapes = (spec.a_shape, spec.b_shape, spec.c_shape)
        types = [
            ir.RankedTensorType.get(shape, ir.Type.parse(element.mlir))
            for shape, element in zip(shapes, (spec.a_type, spec.b_type, spec.c_type), strict=True)
        ]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(ENTRY, ir.FunctionType.get(types, [types[2]]))
            function.arg_attrs = [_operand_attributes(writable=w) for w in (False, False, True)]
            with ir.InsertionPoint(function.add_entry_block()):
                a, b, c = function.arguments
                func.return_([_result(a, b, c, spec)])
    return module


def _result(a: ir.Value, b: ir.Value, c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """The new C."""
    if spec.c == spec.acc:
        return _product(a, b, c if spec.beta else _zeros(c, spec), spec)
    if spec.k == 0:
        return c if spec.beta else _zeros(c, spec)
    wide = tensor.empty(spec.c_shape, ir.Type.parse(spec.acc_type.mlir))
    return _rounded(_product(a, b, _zeros(wide, spec), spec), c, spec)


def _zeros(into: ir.Value, spec: MatmulSpec) -> ir.Value:
    """`into` filled with zeros."""
    zero = arith.constant(ir.ShapedType(into.type).element_type, 0.0 if spec.acc_type.kind == "float" else 0)
    with _named("linalg.fill", spec):
        return linalg.fill(zero, outs=[into])


def _product(a: ir.Value, b: ir.Value, c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """A·B added to `c`."""
    if spec.a_type.kind == spec.b_type.kind:
        cast = ir.Attribute.parse("#linalg.type_fn<cast_unsigned>") if spec.a_type.kind == "uint" else None
        with _named("linalg.matmul", spec):
            return linalg.matmul(a, b, outs=[c], cast=cast)
    with _named("linalg.generic", spec):
        return _mixed_product(a, b, c, spec)


def _mixed_product(a: ir.Value, b: ir.Value, c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """A·B added to `c`, for integers of which one operand has a sign."""
    m, n, k = (ir.AffineDimExpr.get(position) for position in range(3))
    parallel, reduction = (ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in ("parallel", "reduction"))

    def body(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        wide = [_widened(value, element, total.type) for value, element in ((x, spec.a_type), (y, spec.b_type))]
        return arith.addi(total, arith.muli(*wide))

    maps = [ir.AffineMap.get(3, 0, results) for results in ([m, k], [k, n], [m, n])]
    return _generic([a, b], c, maps, [parallel, parallel, reduction], body)


def _widened(value: ir.Value, element: DType, wide: ir.Type) -> ir.Value:
    return _WIDEN[element.kind](wide, value)


def _rounded(sums: ir.Value, c: ir.Value, spec: MatmulSpec) -> ir.Value:
    """Each of the sums, with beta 1 plus the former element of `c`, rounded to an element of `c`."""
    identity = ir.AffineMap.get_identity(2)
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")

    def body(total: ir.Value, former: ir.Value) -> ir.Value:
        if spec.beta:
            total = arith.addf(total, arith.extf(total.type, former))
        return arith.truncf(former.type, total)

    with _named("linalg.generic", spec):
        return _generic([sums], c, [identity] * 2, [parallel] * 2, body)


def _generic(
    inputs: list[ir.Value],
    output: ir.Value,
    maps: list[ir.AffineMap],
    iterators: list[ir.Attribute],
    body: Callable[..., ir.Value],
) -> ir.Value:
    """A ``linalg.generic`` whose region yields what `body` makes of one element of each operand."""
    operation = linalg.GenericOp(
        [output.type],
        inputs,
        [output],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get(iterators),
    )
    elements = [ir.ShapedType(value.type).element_type for value in (*inputs, output)]
    block = ir.Block.create_at_start(operation.regions[0], elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(*block.arguments)])
    return operation.results[0]
