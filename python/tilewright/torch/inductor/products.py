# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of an ATen graph as specs, with the epilogues that their regions make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import SpecError
from tilewright.spec import MatmulSpec
from tilewright.torch.inductor import fx, prologue
from tilewright.torch.inductor.call import Call, Weight
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.prologue import Prologue
from tilewright.torch.inductor.region import Form, Further, Region, Sums, found

_MATRIX = 2


@dataclass(frozen=True, slots=True)
class Product:
    """A node that multiplies two matrices, or as many pairs of them as a batch has.

    Attributes:
        sums: The node, and what is done to the product in it.
        a: The left matrices.
        b: The right matrices.
    """

    sums: Sums
    a: Node
    b: Node

    @property
    def form(self) -> Form:
        """What can be fused with it."""
        shape = fx.value(self.sums.node).shape
        return _flat(shape) if len(shape) == _MATRIX else _batched(shape)


def recognized(node: Node) -> Product | None:
    """The product that a node is; None if it is none."""
    if node.target in (aten.mm.default, aten.bmm.default):
        a, b = node.args
        return Product(Sums(node, b=b), a, b)
    if node.target in (aten.addmm.default, aten.baddbmm.default):
        addend, a, b = node.args
        beta, alpha = (node.kwargs.get(name, 1) for name in ("beta", "alpha"))
        if not all(isinstance(each, int | float) for each in (beta, alpha)):
            return None
        return Product(Sums(node, ((addend, beta),) if beta else (), alpha, b), a, b)
    return None


def _axes(shape: Sequence[Any], meets: Sequence[Any]) -> str | None:
    """The axes of a tensor that meets one of shape `meets`, whose last axis is N and whose others are all rows."""
    ones = [fx.known(each == 1) for each in shape]
    if fx.same(shape, meets):
        return "mn"
    if all(ones):
        return ""
    if all(ones[:-1]) and fx.known(shape[-1] == meets[-1]):
        return "n"
    if ones[-1] and len(shape) == len(meets) and fx.same(shape[:-1], meets[:-1]):
        return "m"
    return None


def _flat(shape: Sequence[Any]) -> Form:
    """Of one product: rows may be split into several axes."""
    m, n = shape
    return Form(_axes, lambda seen: bool(seen) and fx.known(seen[-1] == n) and fx.known(fx.product(seen[:-1]) == m))


def _batched(shape: Sequence[Any]) -> Form:
    """Of a batch, which may be split: an operand for rows would have a batch of its own, which kernels do not take."""

    def axes(seen: Sequence[Any], meets: Sequence[Any]) -> str | None:
        found = _axes(seen, meets)
        return None if found == "m" else found

    def keeps(seen: Sequence[Any]) -> bool:
        return (
            len(seen) > _MATRIX and fx.same(seen[-2:], shape[-2:]) and fx.known(fx.product(seen) == fx.product(shape))
        )

    return Form(axes, keeps)


def _layout(node: Node) -> str:
    """How a matrix is best read: "n" as it lies, or copied where it lies in no order of rows; "t" as a transpose that lies there."""
    shape, strides = fx.value(node).shape, fx.value(node).stride()
    (rows, columns), (far, near) = shape[-2:], strides[-2:]
    if fx.known(near == 1) and (fx.known(far >= columns) or fx.known(rows == 1)):
        return "n"
    return "t" if fx.known(far == 1) and (fx.known(near >= rows) or fx.known(columns == 1)) else "n"


def _placed(node: Node, layout: str, graph: Any) -> Node:  # noqa: ANN401
    """A matrix as a kernel reads it."""
    *outer, rows, columns = range(fx.value(node).dim())
    return fx.permuted(graph, node, [*outer, columns, rows]) if layout == "t" else node


def _placed_further(further: Further, shape: Sequence[Any], graph: Any) -> Node:  # noqa: ANN401
    """A further operand as a kernel takes it: M, N or M×N elements, of the last those of a batch; or another right matrix."""
    if further.role:
        return _placed(further.node, _layout(further.node), graph)
    *outer, m, n = shape
    wanted = {"": (), "n": (n,), "m": (m,), "mn": (*outer, m, n)}[further.axes]
    return fx.reshaped(graph, further.node, wanted)


def _partner(product: Product) -> Product | None:
    """Another product of the same left matrix with a right one that lies alike, for a gated linear unit."""
    for user in product.a.users:
        other = None if user is product.sums.node else recognized(user)
        if other is None or other.a is not product.a or len(fx.value(user).shape) != _MATRIX:
            continue
        own, theirs = fx.value(product.b), fx.value(other.b)
        if own.dtype == theirs.dtype and fx.same(own.shape, theirs.shape) and _layout(product.b) == _layout(other.b):
            return other
    return None


def _regions(product: Product, *, pairs: bool) -> Iterator[Region]:
    """The regions that can be a kernel with a product, those with two products first."""
    partner = _partner(product) if pairs else None
    if partner is not None:
        yield from found((product.sums, partner.sums), product.form)
    yield from found((product.sums,), product.form)


def _placed_ahead(further: Further, shape: Sequence[Any], graph: Any) -> Node:  # noqa: ANN401
    """A further operand of the prologue of a left matrix of that shape as a kernel takes it."""
    sizes = dict(zip("mk", shape, strict=True))
    return fx.reshaped(graph, further.node, tuple(sizes[axis] for axis in further.axes))


def _prologues(product: Product, region: Region) -> Iterator[Prologue | None]:
    """What can be done to the left matrix in the kernel: what computes it, if it is for this one alone, or nothing."""
    shape = fx.value(product.a).shape
    readers = {region.product, region.partner} if region.partner else {region.product}
    if len(shape) == _MATRIX:
        ahead = prologue.found(product.a, readers, _flat(shape))
        if ahead is not None:
            yield ahead
    yield None


def calls(node: Node, graph_module: Any) -> Iterator[Call]:  # noqa: ANN401
    """The calls that can take the place of a product: the one that replaces most first."""
    product = recognized(node)
    if product is None or not all(map(fx.element, (node, product.a, product.b))):
        return
    a, b = product.a, product.b
    layouts = _layout(a), _layout(b)
    shape = tuple(fx.value(node).shape)
    sizes = [fx.extent(each) for each in (*shape[-2:], fx.value(a).shape[-1])]
    constant = fx.frozen(graph_module, b)
    is_packed = constant is not None and len(shape) == _MATRIX
    # A second right matrix cannot come packed: then two kernels that read packed ones are better.
    for region in _regions(product, pairs=len(shape) == _MATRIX and not is_packed):
        for before in _prologues(product, region):
            try:
                spec = MatmulSpec(
                    *sizes,
                    a=fx.element(before.matrix if before else a) or "",
                    b=fx.element(b),
                    c=fx.element(region.exit),
                    layout="n" + layouts[1] if before else "".join(layouts),
                    batch=tuple(fx.extent(each) for each in shape[:-2]),
                    prologue_a=before.entries if before else (),
                    epilogue=(region.epilogue,) if region.epilogue else (),
                    b_packed=is_packed,
                )
            except SpecError:
                continue
            left = (shape[0], fx.value(a).shape[-1])
            matrices = (
                partial(fx.reshaped, node=before.matrix, shape=left) if before else partial(_placed, a, layouts[0]),
                partial(_placed, b, layouts[1]),
            )
            ahead = (partial(_placed_ahead, each, left) for each in (before.operands if before else ()))
            further = (partial(_placed_further, each, shape) for each in region.operands)
            weight = Weight(1, "b", constant, (1, 0) if layouts[1] == "t" else (0, 1)) if is_packed else None
            yield Call(
                region,
                spec,
                (*matrices, *ahead, *further),
                shape,
                weight=weight,
                passes=(fx.value(a),) if before else (),
            )
