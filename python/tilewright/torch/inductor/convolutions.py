# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of an ATen graph as specs. Images become channels-last, which the results then are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import SpecError
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.torch.inductor import elementwise, fx
from tilewright.torch.inductor.call import Call, Weight, contiguous
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.region import Form, Further, Sums, found

_IMAGE = 4
"""Dimensions of a batch of images; a batch of sequences has one less, and is one of images of one row."""
_ROW = 2
"""The axis that sequences lack."""
_TAPS = (2, 3, 1, 0)
"""The permutation of filters from oihw to hwio."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a kernel takes images and filters.

    Attributes:
        name: As specs name it.
        axes: The permutation of axes from torch's order.
        back: The permutation to torch's order.
        filter: That of filters which are read as they are.
    """

    name: str
    axes: tuple[int, ...]
    back: tuple[int, ...]
    filter: str


_LAST = _Layout("nhwc", (0, 2, 3, 1), (0, 3, 1, 2), "ohwi")
_FIRST = _Layout("nchw", (0, 1, 2, 3), (0, 1, 2, 3), "oihw")


def _axes(shape: Sequence[Any], meets: Sequence[Any]) -> str | None:
    """The axes of a tensor that meets images: one element for all, for each channel, or for each element."""
    if fx.same(shape, meets):
        return "mn"
    padded = (*(1 for _ in range(len(meets) - len(shape))), *shape)
    if all(fx.known(each == 1) for each in padded):
        return ""
    images, channels, *rest = padded
    alone = all(fx.known(each == 1) for each in (images, *rest))
    return "n" if alone and fx.known(channels == meets[1]) else None


def _image(graph: Any, node: Node, axes: Sequence[int]) -> Node:  # noqa: ANN401
    """Images or filters with their axes permuted; sequences are images of one row."""
    if len(fx.value(node).shape) < _IMAGE:
        node = fx.emit(graph, aten.unsqueeze.default, node, _ROW)
    return node if tuple(axes) == _FIRST.axes else fx.permuted(graph, node, axes)


def _result(graph: Any, node: Node, layout: _Layout, dimensions: int) -> Node:  # noqa: ANN401
    """What a kernel gives, as torch has it."""
    node = _image(graph, node, layout.back)
    return node if dimensions == _IMAGE else fx.emit(graph, aten.squeeze.dim, node, _ROW)


def _further(graph: Any, further: Further, layout: _Layout) -> Node:  # noqa: ANN401
    """A further operand as a kernel takes it."""
    if further.axes == "mn":
        return _image(graph, further.node, layout.axes)
    return fx.reshaped(graph, further.node, () if not further.axes else (further.shape[1],))


def _readers(node: Node) -> set[Any]:
    """The ops that read a result, or what is computed of it element by element; "output" for the graph's."""
    found, open_, seen = set(), [node], {node}
    while open_:
        for user in open_.pop().users:
            is_element = user.target in elementwise.FUNCTIONS or user.target in elementwise.VIEWS
            if is_element and user not in seen:
                seen.add(user)
                open_.append(user)
            elif not is_element:
                found.add(user.target)
    return found


def _layouts(x: Node, exit_: Node, *, is_packed: bool) -> Iterator[tuple[_Layout, Any]]:
    """The layouts in which a kernel may be best, each with a fake tensor that lies as the result does, if that is copied then.

    Channels last, which most of what reads images is best at too; channels first where a result that lies so is the graph's.
    """
    seen, readers = fx.value(exit_), _readers(exit_)
    is_first = all(fx.lies(each, contiguous(each.shape)) for each in (fx.value(x), seen))
    is_last = not fx.lies(seen, contiguous(seen.shape)) or "output" not in readers
    yield _LAST, None if is_last else seen.movedim(1, -1).contiguous().movedim(-1, 1)
    if is_first and not is_packed and readers == {"output"}:
        yield _FIRST, None


def calls(node: Node, graph_module: Any) -> Iterator[Call]:  # noqa: ANN401
    """The calls that can take the place of a convolution: the one that replaces most first, in each layout."""
    if node.target is not aten.convolution.default:
        return
    x, w, bias, stride, padding, dilation, is_transposed, _, groups = node.args
    shape = tuple(fx.value(node).shape)
    if is_transposed or len(shape) not in (_IMAGE - 1, _IMAGE) or not all(map(fx.element, (node, x, w))):
        return
    own, taps = (
        (*each[:_ROW], *(1,) * (_IMAGE - len(each)), *each[_ROW:]) for each in (fx.value(x).shape, fx.value(w).shape)
    )
    sizes = [fx.extent(each) for each in (*own, *taps)]
    if None in sizes:
        return
    n, ic, h, wide, oc, _, kh, kw = sizes
    stride, dilation, padding = (
        (*(few,) * (2 - len(each)), *each) for each, few in ((stride, 1), (dilation, 1), (padding, 0))
    )
    constant = fx.frozen(graph_module, w)
    is_packed = constant is not None and groups == 1 and len(shape) == _IMAGE
    form = Form(_axes, lambda seen: fx.same(seen, shape))
    sums = Sums(node, () if bias is None else ((bias, 1.0),))
    whole = (*shape[:_ROW], *(1,) * (_IMAGE - len(shape)), *shape[_ROW:])
    for region in found((sums,), form, channels=True):
        for layout, behind in _layouts(x, region.exit, is_packed=is_packed):
            by_taps = layout is _LAST and (is_packed or groups == ic)
            try:
                spec = Conv2dSpec(
                    n, h, wide, ic, oc, kh, kw,
                    a=fx.element(x) or "", b=fx.element(w), c=fx.element(region.exit), layout=layout.name,
                    filter="hwio" if by_taps else layout.filter, stride=stride, dilation=dilation, padding=padding,
                    groups=groups, w_packed=is_packed, epilogue=(region.epilogue,) if region.epilogue else (),
                )  # fmt: skip
            except SpecError:
                continue
            yield Call(
                region,
                spec,
                (
                    partial(_image, node=x, axes=layout.axes),
                    partial(_image, node=w, axes=_TAPS if by_taps else layout.axes),
                    *(partial(_further, further=each, layout=layout) for each in region.operands),
                ),
                tuple(whole[axis] for axis in layout.axes),
                finish=partial(_result, layout=layout, dimensions=len(shape)),
                weight=Weight(1, "w", constant, _TAPS) if is_packed else None,
                is_dense=True,
                behind=behind,
            )
