# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The payload of a convolution: loops over groups, and over images in NCHW, around one product.

Of images in NHWC the product has a row for each pixel of all images and a column for each channel; of those in NCHW a row for
each channel and a column for each pixel of one image, so that its result lies as the image does. The patches are an operand
that stands for the images: `codegen.convolution.patches` lets the product read those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.build.index import Index
from tilewright.build.tensors import carried, collapse, expand, extract, insert
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import depthwise, functions
from tilewright.payload.conv2d_products import product
from tilewright.payload.modules.places import stand_in
from tilewright.payload.signature import Parameter, Signature
from tilewright.spec import MatmulSpec

PATCHES = "tilewright.patches"
"""The attribute of a product's function that says of which images an operand is the matrix of patches."""
_M, _N, _K, _IMAGE, _BYTES = 0, 1, 2, 3, 9
"""Numbers of the dimensions that the axes of operands go along: those of the product, of the images from one number on, and of w packed."""


def patches(spec: Conv2dSpec) -> dict[str, Any] | None:
    """What is said of the images of which an operand of the product is the matrix of patches, by name.

    Nothing is said of filters of one element that see single pixels, unless the matrix is the images as they lie, without gaps.
    """
    if spec.is_pointwise and (spec.layout == "nchw" or spec.groups > 1):
        return None
    channels, by_pixels = spec.ic // spec.groups, spec.layout == "nhwc"
    if by_pixels:
        images = [spec.n, spec.h, spec.w, channels]
        pitches = [spec.h * spec.w * spec.ic, spec.w * spec.ic, spec.ic, 1]
    else:
        images = [channels, spec.h, spec.w]
        pitches = [spec.ic * spec.h * spec.w, spec.w, 1, spec.h * spec.w]
    return {
        "images": images,
        "pitches": pitches,
        "extents": [spec.h, spec.w],
        "results": [spec.oh, spec.ow],
        "filter": [spec.kh, spec.kw],
        "stride": [*spec.stride],
        "dilation": [*spec.dilation],
        "before": [spec.padding[0][0], spec.padding[1][0]],
        "operand": 0 if by_pixels else 1,
        "pixels": "rows" if by_pixels else "columns",
        "channels": channels,
    }


def say_patches(spec: Conv2dSpec, module: ir.Module) -> None:
    """Says on the function of the product of a convolution of which images an operand is the matrix of patches."""
    found = patches(spec)
    if found is None:
        return
    said = [f'{name} = "{each}"' if isinstance(each, str) else f"{name} = {each}" for name, each in found.items()]
    (function,) = module.body.operations
    function.attributes[PATCHES] = ir.Attribute.parse(f"#tilewright.patches<{', '.join(said)}>", module.context)


def build(spec: Conv2dSpec, context: ir.Context) -> tuple[ir.Module, Signature, MatmulSpec]:
    """The module of the function, what it takes and gives, and the product that it calls."""
    inner = product(spec)

    def body(*arguments: ir.Value) -> ir.Value:
        *given, out = arguments
        return _Payload(spec, inner, given).result(out)

    return _function(spec, context, body), signature(spec), inner


def build_depthwise(spec: Conv2dSpec, context: ir.Context) -> ir.Module:
    """The module of the function of a depthwise convolution, which calls no product."""
    return _function(spec, context, lambda *arguments: depthwise.build(spec, arguments))


def signature(spec: Conv2dSpec) -> Signature:
    """What the function takes and gives."""
    inner = product(spec)
    parameters = [Parameter(each.name, each.shape, each.type.name, compact=True) for each in spec.operands]
    if spec.w_packed:
        parameters[1] = Parameter("w", (1,), "i8", packed=1, transposed=inner.b_transposed)
    result = Parameter("out", spec.result.shape, spec.result.type.name, written=True, compact=True)
    products = () if spec.is_depthwise else (str(inner),)
    return Signature(spec.operator, tuple(parameters), (result,), operations=spec.flops, products=products)


def _function(spec: Conv2dSpec, context: ir.Context, body: Callable[..., ir.Value]) -> ir.Module:
    """The module of a function with that body."""
    with context, ir.Location.name(str(spec)):
        return functions.build(spec.operator, signature(spec).parameters, body)


class _Payload:
    """Builds the body of the function."""

    def __init__(self, spec: Conv2dSpec, inner: MatmulSpec, given: Sequence[ir.Value]) -> None:
        self._spec = spec
        self._inner = inner
        self._x, self._w, *self._further = given

    def result(self, out: ir.Value) -> ir.Value:
        """The new value of `out`."""
        spec = self._spec
        kind = ir.RankedTensorType(out.type)
        if spec.layout == "nhwc":
            shape: tuple[int, ...] = (spec.pixels, spec.oc)
            groups = ((0, 1, 2), (3,))
        else:
            shape, groups = (spec.n, spec.oc, spec.oh * spec.ow), ((0,), (1,), (2, 3))
        whole = collapse(out, shape, groups)
        images = 1 if spec.layout == "nhwc" else spec.n
        looped = _loop(
            images,
            whole,
            lambda image, into: _loop(spec.groups, into, lambda group, part: self._step(image, group, part)),
        )
        return expand(looped, kind.shape, groups)

    def _step(self, image: ir.Value | None, group: ir.Value | None, out: ir.Value) -> ir.Value:
        """The product of one group of one image, written into its place in `out`."""
        spec, wide = self._spec, self._spec.oc // self._spec.groups
        channels = spec.ic // spec.groups
        if spec.layout == "nhwc":
            x = _slice(self._x, (None, None, None, (group, channels)))
            if spec.is_pointwise:
                x = collapse(x, (spec.pixels, channels), ((0, 1, 2), (3,)))
            w = self._w if spec.w_packed else self._filters(group, wide)
            place: tuple[_Block, ...] = (None, (group, wide))
            x_axes, operands = ((_M,), (_K,)), [x, w]
        else:
            x = _slice(self._x, ((image, 1), (group, channels), None, None))
            x = collapse(x, (channels, spec.h, spec.w), ((0, 1), (2,), (3,)))
            if spec.is_pointwise:
                x = collapse(x, (channels, spec.h * spec.w), ((0,), (1, 2)))
            place = ((image, 1), (group, wide), None)
            x_axes, operands = ((_K,), (_N,)), [self._filters(group, wide), x]
        if not spec.is_pointwise:
            x_axes = tuple((_IMAGE + axis,) for axis in range(ir.RankedTensorType(x.type).rank))
        w_axes = {"hwio": ((_K,), (_N,)), "ohwi": ((_N,), (_K,)), "oihw": ((_M,), (_K,))}[str(spec.filter)]
        if spec.w_packed:
            w_axes = ((_BYTES,),)
        axes = [x_axes, w_axes] if spec.layout == "nhwc" else [w_axes, x_axes]
        for value, each in zip(self._further, self._inner.further, strict=True):
            operands.append(self._given(value, each.axes, place, group))
            axes.append(tuple(({"m": _M, "n": _N}[axis],) for axis in each.axes))
        part = self._matrix(_slice(out, place))
        made = stand_in([*operands, part], [*axes, ((_M,), (_N,))], 0)
        return _insert(made, out, place)

    def _matrix(self, part: ir.Value) -> ir.Value:
        """A slice of the result, or of what lies as it does, as a matrix."""
        shape = ir.RankedTensorType(part.type).shape
        return part if len(shape) == 2 else collapse(part, shape[1:], ((0, 1), (2,)))

    def _filters(self, group: ir.Value | None, wide: int) -> ir.Value:
        """The filters of one group as a matrix."""
        spec, depth = self._spec, self._spec.depth
        if spec.filter == "hwio":
            return _slice(collapse(self._w, (depth, spec.oc), ((0, 1, 2), (3,))), (None, (group, wide)))
        matrix = collapse(self._w, (spec.oc, depth), ((0,), (1, 2, 3)))
        return _slice(matrix, ((group, wide), None))

    def _given(self, value: ir.Value, axes: str, place: tuple[_Block, ...], group: ir.Value | None) -> ir.Value:
        """The part of a further operand that the product of one group takes."""
        spec = self._spec
        if axes == "":
            return value
        if len(axes) == 1:
            return _slice(value, ((group, spec.oc // spec.groups),))
        if spec.layout == "nhwc":
            whole = collapse(value, (spec.pixels, spec.oc), ((0, 1, 2), (3,)))
        else:
            shape = (spec.n, spec.oc, spec.oh * spec.ow)
            whole = collapse(value, shape, ((0,), (1,), (2, 3)))
        return self._matrix(_slice(whole, place))


def _loop(count: int, out: ir.Value, body: Callable[[ir.Value | None, ir.Value], ir.Value]) -> ir.Value:
    """A loop of `count` steps, or one step, around `body`, which is given the step and what was computed so far."""
    if count == 1:
        return body(None, out)
    return carried(count, 1, out, body)


_Block = tuple[ir.Value | None, int] | None
"""The part of an axis that a block, of a number and an extent, has; all of it where there is none, or no number."""


def _slice(value: ir.Value, axes: Sequence[_Block]) -> ir.Value:
    """The part of a tensor that has these parts of each axis."""
    if all(each is None or each[0] is None for each in axes):
        return value
    return extract(value, *_bounds(ir.RankedTensorType(value.type).shape, axes))


def _insert(part: ir.Value, whole: ir.Value, axes: Sequence[_Block]) -> ir.Value:
    """`whole` with the part that `_slice` takes out replaced, which may lack its first axis."""
    shape = ir.RankedTensorType(whole.type).shape
    if all(each is None or each[0] is None for each in axes):
        return part if part.type == whole.type else expand(part, shape, ((0, 1), (2,)))
    return insert(part, whole, *_bounds(shape, axes))


def _bounds(shape: Sequence[int], axes: Sequence[_Block]) -> tuple[list[Index], list[Index]]:
    """Where a part starts, and its sizes."""
    starts: list[Index] = []
    for each in axes:
        number, extent = each or (None, 0)
        if number is not None and extent != 1:
            number = arith.muli(number, arith.constant(ir.IndexType.get(), extent))
        starts.append(0 if number is None else number)
    return starts, [extent if each is None else each[1] for extent, each in zip(shape, axes, strict=True)]
