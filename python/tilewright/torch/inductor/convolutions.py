# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of an ATen graph as specs. Images become channels-last, which the results then are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import SpecError
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.torch.inductor import fx
from tilewright.torch.inductor.call import Call, Weight
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.region import Form, Further, Sums, found

_IMAGE = 4
"""Dimensions of a batch of images."""
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""The permutations to channels last, and back."""
_TAPS = (2, 3, 1, 0)
"""The permutation of filters from oihw to hwio."""


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


def _further(further: Further, graph: Any) -> Node:  # noqa: ANN401
    """A further operand as a kernel takes it."""
    if further.axes == "mn":
        return fx.permuted(graph, further.node, _LAST)
    return fx.reshaped(graph, further.node, () if not further.axes else (further.shape[1],))


def calls(node: Node, graph_module: Any) -> Iterator[Call]:  # noqa: ANN401
    """The calls that can take the place of a convolution: the one that replaces most first."""
    if node.target is not aten.convolution.default:
        return
    x, w, bias, stride, padding, dilation, is_transposed, _, groups = node.args
    shape = tuple(fx.value(node).shape)
    if is_transposed or len(shape) != _IMAGE or not all(map(fx.element, (node, x, w))):
        return
    sizes = [fx.extent(each) for each in (*fx.value(x).shape, *fx.value(w).shape)]
    if None in sizes:
        return
    n, ic, h, wide, oc, _, kh, kw = sizes
    constant = fx.frozen(graph_module, w)
    is_packed = constant is not None and groups == 1
    is_depthwise = groups == ic
    form = Form(_axes, lambda seen: fx.same(seen, shape))
    sums = Sums(node, () if bias is None else ((bias, 1.0),))
    for region in found((sums,), form, channels=True):
        try:
            spec = Conv2dSpec(
                n, h, wide, ic, oc, kh, kw,
                a=fx.element(x) or "", b=fx.element(w), c=fx.element(region.exit),
                filter="hwio" if is_packed or is_depthwise else "ohwi",
                stride=tuple(stride), dilation=tuple(dilation), padding=tuple(padding), groups=groups,
                w_packed=is_packed, epilogue=(region.epilogue,) if region.epilogue else (),
            )  # fmt: skip
        except SpecError:
            continue
        filters = partial(fx.permuted, node=w, axes=_TAPS if is_depthwise else _LAST)
        further = (partial(_further, each) for each in region.operands)
        yield Call(
            region,
            spec,
            (partial(fx.permuted, node=x, axes=_LAST), filters, *further),
            tuple(shape[axis] for axis in _LAST),
            finish=partial(fx.permuted, axes=_FIRST),
            weight=Weight(1, "w", constant, _TAPS) if is_packed else None,
            is_dense=True,
        )
