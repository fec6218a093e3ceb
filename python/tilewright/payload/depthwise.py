# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function of a depthwise convolution of images in NHWC: padding, the convolution, and what is done to each sum."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, linalg, tensor
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import elementwise
from tilewright.payload.generics import generic

_WIDEN = {"float": arith.extf, "int": arith.extsi, "uint": arith.extui}
_RESULT = "affine_map<(n, y, x, c, u, v) -> (n, y, x, c)>"
_FILTER = "affine_map<(n, y, x, c, u, v) -> (u, v, c)>"
_IMAGE = "affine_map<(n, y, x, c, u, v) -> (n, y * {0} + u * {2}, x * {1} + v * {3}, c)>"


def build(spec: Conv2dSpec, given: Sequence[ir.Value]) -> ir.Value:
    """Builds the body of the function, and returns the result.

    ::

        padded = pad x with zeros                                         tensor.pad, where there are any
        sums = sum of padded · w over the filter                          linalg.depthwise_conv_2d_nhwc_hwc
        out = epilogue(sums, further)                                     linalg.generic, where there is an epilogue or another type

    Integers of which one has no sign are multiplied in a ``linalg.generic`` of the same form: the named op takes their signs for given.

    Args:
        spec: What is computed; as many groups as channels.
        given: Images, filters, the epilogue's operands, and the result's former value.
    """
    product = spec.product
    x, w, *further, out = given
    filters = _collapsed(w)
    sums = ir.Type.parse(product.acc_type.mlir)
    zero = arith.constant(sums, 0.0 if product.acc_type.kind == "float" else 0)
    into = tensor.empty(spec.result.shape, sums) if product.fused else out
    total = _convolved(spec, _padded(spec, x), filters, linalg.fill(zero, outs=[into]))
    return _finished(spec, total, further, out) if product.fused else total


def _padded(spec: Conv2dSpec, x: ir.Value) -> ir.Value:
    """The images with zeros around them."""
    sides = [(0, 0), *spec.padding, (0, 0)]
    if not any(map(any, sides)):
        return x
    kind = ir.RankedTensorType(x.type)
    shape = [extent + sum(each) for extent, each in zip(kind.shape, sides, strict=True)]
    made = tensor.PadOp(
        ir.RankedTensorType.get(shape, kind.element_type),
        x,
        [],
        [],
        [low for low, _ in sides],
        [high for _, high in sides],
    )
    block = made.regions[0].blocks.append(*[ir.IndexType.get()] * len(shape))
    with ir.InsertionPoint(block):
        zero = 0 if isinstance(kind.element_type, ir.IntegerType) else 0.0
        tensor.YieldOp(arith.constant(kind.element_type, zero))
    return made.result


def _collapsed(w: ir.Value) -> ir.Value:
    """The filters, of one channel each, without that axis."""
    kind = ir.RankedTensorType(w.type)
    rows, columns, _, channels = kind.shape
    made = ir.RankedTensorType.get([rows, columns, channels], kind.element_type)
    return tensor.collapse_shape(made, w, [[0], [1], [2, 3]])


def _convolved(spec: Conv2dSpec, x: ir.Value, w: ir.Value, sums: ir.Value) -> ir.Value:
    product = spec.product
    elements = product.a_type, product.b_type
    if all(each.kind != "uint" for each in elements):
        return linalg.depthwise_conv_2d_nhwc_hwc(
            x, w, outs=[sums], strides=list(spec.stride), dilations=list(spec.dilation)
        )
    maps = [
        ir.AffineMapAttr(ir.Attribute.parse(text)).value
        for text in (_IMAGE.format(*spec.stride, *spec.dilation), _FILTER, _RESULT)
    ]

    def body(given: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
        wide = [_WIDEN[each.kind](total.type, value) for value, each in zip((given, weight), elements, strict=True)]
        return arith.addi(total, arith.muli(*wide))

    return generic([x, w], sums, maps, body, {4, 5})


def _finished(spec: Conv2dSpec, sums: ir.Value, further: Sequence[ir.Value], out: ir.Value) -> ir.Value:
    """What the epilogue makes of each of the sums, rounded to an element of the result."""
    product = spec.product
    axes = {"n": "c", "mn": "n, y, x, c", "": ""}
    texts = [f"affine_map<(n, y, x, c) -> ({axes[each.axes]})>" for each in product.further]
    identity = ir.AffineMap.get_identity(4)
    maps = [identity, *(ir.AffineMapAttr(ir.Attribute.parse(text)).value for text in texts), identity]

    def body(total: ir.Value, *others: ir.Value) -> ir.Value:
        chain = product.chain
        result = elementwise.apply(chain, total, others[:-1])
        return elementwise.converted(result, chain.result, product.c_type.name, chain.compute)

    return generic([sums, *further], out, maps, body)
