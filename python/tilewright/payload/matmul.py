# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The linalg module of a matrix product: what is computed, before any decision how."""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, linalg
from tilewright.payload.abi import ENTRY
from tilewright.spec import MatmulSpec


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
    a ``linalg.matmul`` accumulates into ``%c``: with `beta` 0 into ``%c`` filled with zeros, whose former elements are
    then never read, with `beta` 1 into ``%c`` as it comes.
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
                if spec.beta == 0:
                    zero = arith.constant(types[2].element_type, 0.0)
                    with _named("linalg.fill", spec):
                        c = linalg.fill(zero, outs=[c])
                with _named("linalg.matmul", spec):
                    product = linalg.matmul(a, b, outs=[c])
                func.return_([product])
    return module
