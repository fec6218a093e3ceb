# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of a model with what comes after them, as groups."""

from __future__ import annotations

from typing import Any

from tilewright.entries import Epilogue
from tilewright.onnx.graph import FLOATS, Node, Value
from tilewright.onnx.groups import Further, Group, Grouping, shape_of, tail
from tilewright.onnx.views import View
from tilewright.operator_specs import Conv2dSpec
from tilewright.payload import epilogues

_CHANNELS = 1
"""The axis of channels."""
_RANKS = (3, 4)
"""Of signals and of images."""


def convolution(grouping: Grouping, node: Node) -> Group | None:
    """The group of a Conv in one or two dimensions, of images of known extents; None for another node.

    Raises:
        SpecError: No kernel computes it, as the error says.
    """
    x, w, b = node.input(0), node.input(1), node.input(2)
    if node.op != "Conv" or x is None or w is None or node.output is None or len(x.shape) not in _RANKS:
        return None
    if x.type not in FLOATS or w.type != x.type or not w.is_static or len(w.shape) != len(x.shape):
        return None
    if not all(isinstance(each, int) for each in x.shape[1:]) or isinstance(x.shape[0], type(None)):
        return None
    entries: tuple[Epilogue, ...] = ()
    further: tuple[Further, ...] = ()
    if b is not None:
        entries, further = (epilogues.bias("n", x.type),), (Further(b, "n"),)
    after = tail(grouping, node.output, _CHANNELS)
    spec = Conv2dSpec(**_problem(node, x, w), epilogue=(*entries, *after.entries))
    is_repeated = not isinstance(x.shape[0], int)
    views = [_image(x, is_repeated), _image(w, repeated=False)]
    for each in (*further, *after.further):
        if each.axes == "mn":
            views.append(_image(each.value, is_repeated))
            continue
        own = View.of(each.value).joined([range(len(each.value.shape))] if each.axes else [])
        if own is None:
            return None
        views.append(own.taken([spec.oc] if each.axes else []))
    shape = shape_of(after.value, views)
    if shape is None:
        return None
    return Group((node, *after.nodes), spec, tuple(views), _image(after.value, is_repeated), shape)


def _image(value: Value, repeated: bool) -> View:
    """Images or filters; signals are images of one row. Where images are `repeated`, the kernel takes one of them."""
    rank = len(value.shape)
    sizes: list[Any] = [*value.shape[:2], *([1] if rank == _RANKS[0] else []), *value.shape[2:]]
    split = tuple(("own", 0) if axis == 0 and repeated else each for axis, each in enumerate(sizes))
    axes = tuple((axis,) for axis in range(len(split)))
    if repeated:
        return View(value, split, (axes[0], (), *axes[1:])).taken([1, *sizes[1:]], repeated=True)
    return View(value, split, axes).taken(sizes)


def _problem(node: Node, x: Value, w: Value) -> dict[str, Any]:
    """The fields of the spec but its epilogue."""
    given, plane = node.attributes, len(x.shape) - 2
    lead = [1] * (2 - plane)

    def both(values: Any, default: int) -> tuple[int, ...]:  # noqa: ANN401 - a list, or nothing
        return (*lead, *(values or [default] * plane))

    pads = given.get("pads") or [0] * (2 * plane)
    sides = [*([(0, 0)] if plane == 1 else []), *zip(pads[:plane], pads[plane:], strict=True)]
    shapes: list[tuple[Any, ...]] = [x.shape, w.shape]
    (n, ic, *image), (oc, _, *window) = shapes
    stride, dilation = both(given.get("strides"), 1), both(given.get("dilations"), 1)
    auto = given.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = []
        for size, step, far, gap in zip([*lead, *image], stride, [*lead, *window], dilation, strict=True):
            total = max((-(-size // step) - 1) * step + (far - 1) * gap + 1 - size, 0)
            sides.append((total // 2, total - total // 2)[:: 1 if auto == "SAME_UPPER" else -1])
    elif auto == "VALID":
        sides = [(0, 0), (0, 0)]
    (h, wide), (kh, kw) = (*lead, *image), (*lead, *window)
    return {
        "n": n if isinstance(n, int) else 1,
        "h": h,
        "w": wide,
        "ic": ic,
        "oc": oc,
        "kh": kh,
        "kw": kw,
        "a": x.type,
        "c": x.type,
        "layout": "nchw",
        "stride": stride,
        "dilation": dilation,
        "padding": tuple(sides),
        "groups": given.get("group", 1),
    }
