# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what a depthwise convolution computes from the ops of its payload.

The chain is what `payload.depthwise` writes, or an equal one::

    padded = pad(x)                     tensor.pad with zeros, or none
    sums = padded * w                   linalg.depthwise_conv_2d_nhwc_hwc, or a linalg.generic of the same form, from zeros
    y = epilogue(sums, further)         an elementwise linalg.generic, or none

Each value has one use, x, w and what the epilogue takes are arguments of the function, and y is all that it returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.build import usedef
from tilewright.codegen.patch_layout import Patches
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, linalg

_RANK = 4
"""Axes of an image: images, rows, columns, channels."""
_WIDENING = ("arith.extf", "arith.extsi", "arith.extui")
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True, slots=True)
class Given:
    """An argument of the function that the epilogue takes.

    Attributes:
        number: Which argument.
        axes: Its axes, of those of the result: (), (3,) or all four.
    """

    number: int
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Depthwise:
    """What the ops around a depthwise convolution compute.

    Attributes:
        x: Which argument of the function has the images.
        w: Which has the filters.
        patches: Where the patches of all channels lie.
        sums: The element type of the sums.
        widening: By which op an element of the images, and of the filters, becomes one of the sums; empty where it is one.
        epilogue: The body of what is done to each sum; None without.
        further: What that takes besides, in its order.
    """

    x: int
    w: int
    patches: Patches
    sums: ir.Type
    widening: tuple[str, str]
    epilogue: ir.Block | None
    further: tuple[Given, ...]


def read(function: func.FuncOp, convolution: ir.Operation) -> Depthwise:
    """Reads the chain around a convolution of a function on tensors.

    Raises:
        ScheduleError: The ops are none of such a chain; the error names the op.
    """
    if convolution.parent is None or convolution.parent.operation != function.operation or not convolution.results:
        raise _refused("it is in a loop, or bufferized", convolution)
    image, filters, start = _operands(convolution)
    stride, dilation = _steps(convolution)
    _check_zeros(start, convolution)
    x, before = _unpadded(image, convolution)
    w = usedef.defined_by(filters, "tensor.collapse_shape")
    kind, result = ir.RankedTensorType(x.type), ir.RankedTensorType(convolution.results[0].type)
    _, rows, columns, channels = kind.shape
    down, right, _ = ir.RankedTensorType(filters.type).shape
    patches = Patches(
        shape=tuple(kind.shape),
        pitches=(rows * columns * channels, columns * channels, channels, 1),
        extents=(rows, columns),
        results=(result.shape[1], result.shape[2]),
        filter=(down, right),
        channels=channels,
        stride=stride,
        dilation=dilation,
        before=before,
        rows_are_pixels=True,
    )
    epilogue, further = _epilogue(convolution)
    return Depthwise(
        x=_argument(x, convolution),
        w=_argument(filters if w is None else w.operands[0], convolution),
        patches=patches,
        sums=result.element_type,
        widening=_widening(convolution),
        epilogue=epilogue,
        further=further,
    )


def _refused(what: str, op: ir.Operation) -> ScheduleError:
    """The error of a chain that vectors of channels do not compute."""
    return ScheduleError(
        what,
        where="depthwise",
        payload_op=op.name,
        expected="epilogue(pad(x) * w) as the payload of a depthwise convolution in NHWC writes it",
        remedy="Decide on the convolution before other steps change the ops around it",
    )


def _operands(op: ir.Operation) -> list[ir.Value]:
    """Images, filters and sums, of static extents."""
    found = list(op.operands)
    kinds = [ir.RankedTensorType(each.type) for each in found]
    if [each.rank for each in kinds] != [_RANK, _RANK - 1, _RANK]:
        raise _refused("expected images, filters of one channel and sums", op)
    if any(_DYNAMIC in each.shape for each in kinds):
        raise _refused("an extent is dynamic", op)
    return found


def _steps(op: ir.Operation) -> tuple[tuple[int, int], tuple[int, int]]:
    """Stride and dilation, down and to the right."""
    found = linalg.infer_convolution_dimensions(op) if linalg.isa_convolution_op(op) else None
    if found is None:
        raise _refused("it is no convolution", op)
    steps = [tuple(ir.DenseI64ArrayAttr(each)) for each in (found.strides, found.dilations)]
    (s, t), (d, e) = steps
    wanted = (
        f"affine_map<(n, y, x, c, u, v) -> (n, y * {s} + u * {d}, x * {t} + v * {e}, c)>",
        "affine_map<(n, y, x, c, u, v) -> (u, v, c)>",
        "affine_map<(n, y, x, c, u, v) -> (n, y, x, c)>",
    )
    maps = linalg.get_indexing_maps(op)
    if maps is None or [str(each) for each in maps] != [str(ir.Attribute.parse(each)) for each in wanted]:
        raise _refused("expected images in NHWC, and filters in HWC", op)
    return (s, t), (d, e)


def _widening(op: ir.Operation) -> tuple[str, str]:
    """How elements become those of the sums; checks that the body is ``sum + x·w``."""
    body = usedef.body(op)
    x, w, total = body.arguments
    found: dict[ir.Value, tuple[ir.Value, str]] = {}
    for each in usedef.in_block(body):
        if each.name in _WIDENING:
            found[each.results[0]] = each.operands[0], each.name
    added = usedef.definition(usedef.terminator(body).operands[0])
    if added is not None and added.name in ("arith.addf", "arith.addi") and total in list(added.operands):
        terms = [each for each in added.operands if each != total]
        product = usedef.definition(terms[0]) if terms else None
        if product is not None and product.name in ("arith.mulf", "arith.muli"):
            factors = [found.get(each, (each, "")) for each in product.operands]
            if [each for each, _ in factors] == [x, w]:
                return factors[0][1], factors[1][1]
    raise _refused("its body is no sum of products of an image and a filter", op)


def _check_zeros(start: ir.Value, op: ir.Operation) -> None:
    """Checks that sums begin with zero."""
    fill = usedef.defined_by(start, "linalg.fill")
    if fill is None or not _is_zero(fill.operands[0]):
        raise _refused("its sums do not begin with zeros of a linalg.fill", op)


def _is_zero(value: ir.Value) -> bool:
    made = usedef.defined_by(value, "arith.constant")
    if made is None:
        return False
    number = made.attributes["value"]
    return isinstance(number, ir.IntegerAttr | ir.FloatAttr) and number.value == 0


def _unpadded(image: ir.Value, op: ir.Operation) -> tuple[ir.Value, tuple[int, int]]:
    """The images without zeros around them, and how many rows and columns of zeros were before them."""
    pad = usedef.defined_by(image, "tensor.pad")
    if pad is None:
        return image, (0, 0)
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[name])) for name in ("static_low", "static_high"))
    zero = usedef.terminator(usedef.body(pad)).operands[0]
    if not _is_zero(zero) or _DYNAMIC in (*low, *high) or any(each[axis] for each in (low, high) for axis in (0, 3)):
        raise _refused("its images are not padded with zeros above, below, left and right alone", op)
    return pad.operands[0], (low[1], low[2])


def _epilogue(convolution: ir.Operation) -> tuple[ir.Block | None, tuple[Given, ...]]:
    """What is done to each sum, and what that takes besides."""
    user = _user(convolution)
    if user.name == "func.return":
        return None, ()
    maps = linalg.get_indexing_maps(user) if user.name == "linalg.generic" else None
    if maps is None or _user(user).name != "func.return" or user.operands[0] != convolution.results[0]:
        raise _refused(f"{user.name} takes the sums", user)
    sums, *others, out = [ir.AffineMapAttr(each).value for each in maps]
    identity = ir.AffineMap.get_identity(_RANK)
    if sums != identity or out != identity or "reduction" in str(user.attributes["iterator_types"]):
        raise _refused("what is done to the sums is not elementwise", user)
    if len(list(usedef.body(user).arguments[len(others) + 1].uses)):
        raise _refused("the former result is read", user)
    further = []
    for value, map_ in zip(list(user.operands)[1:-1], others, strict=True):
        axes = tuple(each.position for each in map_.results if isinstance(each, ir.AffineDimExpr))
        if axes not in ((), (_RANK - 1,), tuple(range(_RANK))) or len(axes) != len(map_.results):
            raise _refused(f"an operand by {map_}", user)
        further.append(Given(_argument(value, user), axes))
    return usedef.body(user), tuple(further)


def _user(op: ir.Operation) -> ir.Operation:
    """The one op that uses the one result of `op`."""
    users = usedef.users(op.results[0])
    if len(users) != 1 or len(op.results) != 1:
        raise _refused(f"its result has {len(users)} uses", op)
    return users[0]


def _argument(value: ir.Value, op: ir.Operation) -> int:
    """The number of the function's argument that an operand is, whose elements follow one another without gaps."""
    if not isinstance(value, ir.BlockArgument):
        raise _refused("an operand is no argument of the function", op)
    return value.arg_number


def compact(shape: list[int]) -> list[int]:
    """The strides of elements without gaps."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
