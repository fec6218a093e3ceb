# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds functions on tensors, with what bufferization has to know of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dims import Dim
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.signature import Parameter

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def build(name: str, parameters: Sequence[Parameter], body: Callable[..., ir.Value]) -> ir.Module:
    """The module of a function of `parameters` that returns what `body` makes of them, of the type of the last one.

    Needs an active `ir.Context` and `ir.Location`.
    """
    types = [ir.RankedTensorType.get(each.shape, ir.Type.parse(each.type.mlir)) for each in parameters]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(name, ir.FunctionType.get(types, types[-1:]))
    function.arg_attrs = [attributes(each) for each in parameters]
    with ir.InsertionPoint(function.add_entry_block()):
        func.return_([body(*function.arguments)])
    return module


def attributes(parameter: Parameter) -> ir.DictAttr:
    """The attributes of an argument that bufferization needs: how it lies, and whether it may be written."""
    strides = [_DYNAMIC] * len(parameter.shape)
    step = 1
    for axis in reversed(range(len(strides))):
        if parameter.compact or axis == len(strides) - 1:
            strides[axis] = step
        step *= 1 if isinstance(parameter.shape[axis], Dim) else max(1, parameter.shape[axis])
    layout: ir.Attribute = ir.StridedLayoutAttr.get(0, strides)
    if parameter.compact and any(parameter.names):  # The strides follow from extents, whatever these are.
        layout = ir.AffineMapAttr.get(ir.AffineMap.get_identity(len(strides)))
    written = ir.BoolAttr.get(parameter.written)
    return ir.DictAttr.get({"bufferization.buffer_layout": layout, "bufferization.writable": written})
