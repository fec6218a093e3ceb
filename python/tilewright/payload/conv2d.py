# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The payload of a convolution: loops over groups, and over images in NCHW, around one product.

Of images in NHWC the product has a row for each pixel of all images and a column for each channel; of those in NCHW a row for
each channel and a column for each pixel of one image, so that its result lies as the image does. The patches are an operand
that stands for the images: `codegen.convolution.patches` lets the product read those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, scf
from tilewright.operator_specs.conv2d import Conv2dSpec, along_rows
from tilewright.payload import depthwise
from tilewright.payload.modules.places import stand_in
from tilewright.payload.signature import Parameter, Signature
from tilewright.spec import MatmulSpec

PATCHES = "tilewright.patches"
"""The attribute of a product's function that says of which images an operand is the matrix of patches."""
_M, _N, _K, _IMAGE, _BYTES = 0, 1, 2, 3, 9
"""Numbers of the dimensions that the axes of operands go along: those of the product, of the images from one number on, and of w packed."""


def product(spec: Conv2dSpec) -> MatmulSpec:
    """The product of one group, and in NCHW of one image, as the kernel computes it."""
    whole = spec.product
    if spec.layout == "nhwc":
        return replace(whole, layout="nt" if spec.filter == "ohwi" else "nn", b_packed=spec.w_packed)
    entries = tuple(along_rows(each) for each in spec.epilogue)
    types = {"a": whole.b, "b": whole.a}
    return replace(whole, m=whole.n, n=spec.oh * spec.ow, epilogue=entries, **types)


def say_patches(spec: Conv2dSpec, module: ir.Module) -> None:
    """Says on the function of the product of a convolution of which images an operand is the matrix of patches.

    Nothing is said of filters of one element that see single pixels, unless the matrix is the images as they lie, without gaps.
    """
    if spec.is_pointwise and (spec.layout == "nchw" or spec.groups > 1):
        return
    channels, by_pixels = spec.ic // spec.groups, spec.layout == "nhwc"
    if by_pixels:
        images = (spec.n, spec.h, spec.w, channels)
        pitches = (spec.h * spec.w * spec.ic, spec.w * spec.ic, spec.ic, 1)
    else:
        images = (channels, spec.h, spec.w)
        pitches = (spec.ic * spec.h * spec.w, spec.w, 1, spec.h * spec.w)
    numbers = {
        "images": images,
        "pitches": pitches,
        "extents": (spec.h, spec.w),
        "results": (spec.oh, spec.ow),
        "filter": (spec.kh, spec.kw),
        "stride": spec.stride,
        "dilation": spec.dilation,
        "before": (spec.padding[0][0], spec.padding[1][0]),
    }
    said = [f"{name} = {list(each)}" for name, each in numbers.items()]
    said += [
        f"operand = {0 if by_pixels else 1}",
        f'pixels = "{"rows" if by_pixels else "columns"}"',
        f"channels = {channels}",
    ]
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
    parameters = signature(spec).parameters
    with context, ir.Location.name(str(spec)):
        types = [ir.RankedTensorType.get(each.shape, ir.Type.parse(each.type.mlir)) for each in parameters]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(spec.operator, ir.FunctionType.get(types, types[-1:]))
        function.arg_attrs = [_attributes(each) for each in parameters]
        with ir.InsertionPoint(function.add_entry_block()):
            func.return_([body(*function.arguments)])
    return module


def _attributes(parameter: Parameter) -> ir.DictAttr:
    """Elements follow one another without gaps; what is written may be."""
    rank = len(parameter.shape)
    strides = [prod(parameter.shape[axis + 1 :]) for axis in range(rank)]
    return ir.DictAttr.get(
        {
            "bufferization.buffer_layout": ir.StridedLayoutAttr.get(0, strides),
            "bufferization.writable": ir.BoolAttr.get(parameter.written),
        }
    )


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
        whole = _reshaped("tensor.collapse_shape", out, shape, groups)
        images = 1 if spec.layout == "nhwc" else spec.n
        looped = _loop(
            images,
            whole,
            lambda image, into: _loop(spec.groups, into, lambda group, part: self._step(image, group, part)),
        )
        return _reshaped("tensor.expand_shape", looped, kind.shape, groups)

    def _step(self, image: ir.Value | None, group: ir.Value | None, out: ir.Value) -> ir.Value:
        """The product of one group of one image, written into its place in `out`."""
        spec, wide = self._spec, self._spec.oc // self._spec.groups
        channels = spec.ic // spec.groups
        if spec.layout == "nhwc":
            x = _slice(self._x, (None, None, None, (group, channels)))
            if spec.is_pointwise:
                x = _reshaped("tensor.collapse_shape", x, (spec.pixels, channels), ((0, 1, 2), (3,)))
            w = self._w if spec.w_packed else self._filters(group, wide)
            place: tuple[object, ...] = (None, (group, wide))
            x_axes, operands = ((_M,), (_K,)), [x, w]
        else:
            x = _slice(self._x, ((image, 1), (group, channels), None, None))
            x = _reshaped("tensor.collapse_shape", x, (channels, spec.h, spec.w), ((0, 1), (2,), (3,)))
            if spec.is_pointwise:
                x = _reshaped("tensor.collapse_shape", x, (channels, spec.h * spec.w), ((0,), (1, 2)))
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
        return part if len(shape) == 2 else _reshaped("tensor.collapse_shape", part, shape[1:], ((0, 1), (2,)))

    def _filters(self, group: ir.Value | None, wide: int) -> ir.Value:
        """The filters of one group as a matrix."""
        spec, depth = self._spec, self._spec.depth
        if spec.filter == "hwio":
            return _slice(
                _reshaped("tensor.collapse_shape", self._w, (depth, spec.oc), ((0, 1, 2), (3,))), (None, (group, wide))
            )
        matrix = _reshaped("tensor.collapse_shape", self._w, (spec.oc, depth), ((0,), (1, 2, 3)))
        return _slice(matrix, ((group, wide), None))

    def _given(self, value: ir.Value, axes: str, place: tuple[object, ...], group: ir.Value | None) -> ir.Value:
        """The part of a further operand that the product of one group takes."""
        spec = self._spec
        if axes == "":
            return value
        if len(axes) == 1:
            return _slice(value, ((group, spec.oc // spec.groups),))
        if spec.layout == "nhwc":
            whole = _reshaped("tensor.collapse_shape", value, (spec.pixels, spec.oc), ((0, 1, 2), (3,)))
        else:
            shape = (spec.n, spec.oc, spec.oh * spec.ow)
            whole = _reshaped("tensor.collapse_shape", value, shape, ((0,), (1,), (2, 3)))
        return self._matrix(_slice(whole, place))


def _loop(count: int, out: ir.Value, body: Callable[[ir.Value | None, ir.Value], ir.Value]) -> ir.Value:
    """A loop of `count` steps, or one step, around `body`, which is given the step and what was computed so far."""
    if count == 1:
        return body(None, out)
    index = ir.IndexType.get()
    bounds = [arith.constant(index, each) for each in (0, count, 1)]
    loop = scf.ForOp(bounds[0], bounds[1], bounds[2], [out])
    with ir.InsertionPoint(loop.body):
        scf.YieldOp([body(loop.induction_variable, loop.inner_iter_args[0])])
    return loop.results[0]


def _slice(value: ir.Value, axes: Sequence[object]) -> ir.Value:
    """The part of a tensor that has, of each axis, all or the block (number, extent)."""
    kind = ir.RankedTensorType(value.type)
    if all(each is None or each[0] is None for each in axes):  # type: ignore[index] - pairs
        return value
    shape = [extent if each is None else each[1] for extent, each in zip(kind.shape, axes, strict=True)]  # type: ignore[index]
    attributes, offsets = _places(shape, axes, 1)
    part = ir.RankedTensorType.get(shape, kind.element_type)
    return ir.Operation.create(
        "tensor.extract_slice", results=[part], operands=[value, *offsets], attributes=attributes
    ).results[0]


def _insert(part: ir.Value, whole: ir.Value, axes: Sequence[object]) -> ir.Value:
    """`whole` with the part that `_slice` takes out replaced, which may lack its first axis."""
    kind = ir.RankedTensorType(whole.type)
    if all(each is None or each[0] is None for each in axes):  # type: ignore[index] - pairs
        return part if part.type == whole.type else _reshaped("tensor.expand_shape", part, kind.shape, ((0, 1), (2,)))
    shape = [extent if each is None else each[1] for extent, each in zip(kind.shape, axes, strict=True)]  # type: ignore[index]
    attributes, offsets = _places(shape, axes, 2)
    return ir.Operation.create(
        "tensor.insert_slice", results=[kind], operands=[part, whole, *offsets], attributes=attributes
    ).results[0]


def _places(
    shape: Sequence[int], axes: Sequence[object], tensors: int
) -> tuple[dict[str, ir.Attribute], list[ir.Value]]:
    """The attributes of an op on a slice, and its dynamic offsets."""
    dynamic = ir.ShapedType.get_dynamic_size()
    static, offsets = [], []
    for each in axes:
        if each is None or each[0] is None:  # type: ignore[index] - a pair
            static.append(0)
            continue
        number, extent = each  # type: ignore[misc]
        offsets.append(number if extent == 1 else arith.muli(number, arith.constant(ir.IndexType.get(), extent)))
        static.append(dynamic)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(static),
        "static_sizes": ir.DenseI64ArrayAttr.get(list(shape)),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(shape)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([*[1] * tensors, len(offsets), 0, 0]),
    }
    return attributes, offsets


def _reshaped(op: str, value: ir.Value, shape: Sequence[int], groups: Sequence[Sequence[int]]) -> ir.Value:
    """A tensor with axes taken together, or apart."""
    kind = ir.RankedTensorType.get(list(shape), ir.RankedTensorType(value.type).element_type)
    integer = ir.IntegerType.get_signless(64)
    attributes: dict[str, ir.Attribute] = {
        "reassociation": ir.ArrayAttr.get(
            [ir.ArrayAttr.get([ir.IntegerAttr.get(integer, each) for each in group]) for group in groups]
        )
    }
    if op == "tensor.expand_shape":
        attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(list(shape))
    return ir.Operation.create(op, results=[kind], operands=[value], attributes=attributes).results[0]
