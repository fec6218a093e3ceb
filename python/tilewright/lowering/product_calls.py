# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets the function of a module call its products, which are functions of their own, on memrefs as those take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.build.constants import integer
from tilewright.build.index import value as index_value
from tilewright.build.usedef import operations
from tilewright.build.views import DYNAMIC, metadata, reinterpreted
from tilewright.dims import Dim, Extent
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, memref
from tilewright.payload.modules.chains import PACKS
from tilewright.payload.modules.open_extents import shaped
from tilewright.payload.modules.places import ORDERS, STAND_IN
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import HEADER_BYTES, PackedFormat


@dataclass(frozen=True, slots=True)
class Product:
    """A product that was lowered.

    Attributes:
        spec: What it computes.
        bodies: Its module in the LLVM dialect, whose function is called `entry.BODY`, and how many bytes of scratch memory that
            takes; those of each kernel of `plan`, if it has one. Where B comes packed, another function, `entry.PACK_BODY`,
            packs it.
        packed: The format of B when it comes packed.
        images: By number of an operand that is a matrix of patches, the shape of the images that the function takes for it.
        plan: Which kernel a call takes, where extents are dynamic.
    """

    spec: MatmulSpec
    bodies: Sequence[tuple[ir.Module, int]]
    packed: PackedFormat | None = None
    images: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    plan: Plan | None = None

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that it takes at most."""
        return max(size for _, size in self.bodies)

    @property
    def operands(self) -> list[tuple[tuple[Extent, ...], str]]:
        """The shapes and MLIR's element types of what its function takes: operands, result, scratch memory."""
        operands = (*self.spec.operands, self.spec.result)
        found = [
            (tuple(each.shape[axis] for axis in each.looped(self.spec.batch)), each.type.mlir) for each in operands
        ]
        for number, shape in self.images.items():
            found[number] = shape, found[number][1]
        if self.packed is not None:
            found[1] = (self.packed.nbytes - HEADER_BYTES,), "i8"
        return found + ([((self.workspace,), "i8")] if self.workspace else [])


def _marked(function: func.FuncOp, mark: str) -> list[tuple[ir.Operation, int]]:
    """The ops that have a number as the attribute `mark`, and that number."""
    found = [op for op in operations(function.operation) if mark in op.attributes]
    return [(op, ir.IntegerAttr(op.attributes[mark]).value) for op in found]


def call_products(function: func.FuncOp, products: Sequence[Product]) -> None:
    """Replaces what stands for products by calls, of functions that are declared before `function`."""
    calls, packs = _marked(function, STAND_IN), _marked(function, PACKS)
    most, scratch = max((products[number].workspace for _, number in calls), default=0), None
    if most:
        with ir.InsertionPoint.at_block_begin(function.entry_block):
            scratch = _bytes(most)
    for number in sorted({number for _, number in calls}):
        _declare(function, symbol(number), products[number].operands)
    for op, number in packs:
        product = products[number]
        size = product.operands[1]
        _declare(function, f"{symbol(number)}_pack", [(product.spec.b_shape, product.spec.b_stored.mlir), size])
        handle = op.operands[1]
        with ir.InsertionPoint(handle.owner), op.location:
            packed = _bytes(product.packed.nbytes - HEADER_BYTES if product.packed else 0)
        handle.replace_all_uses_with(packed)
        with ir.InsertionPoint(op), op.location:
            source = _as_passed(op.operands[0], product.spec.b_shape)
            _call(f"{symbol(number)}_pack", [source, _as_passed(packed, size[0])])
        op.erase()
    for op, number in calls:
        product = products[number]
        with ir.InsertionPoint(op), op.location:
            # Without scratch memory, which an operand of the product may be, and the op has none.
            orders = _orders(op) or [None] * len(op.operands)
            values = [
                _as_passed(value, shape, order)
                for value, (shape, _), order in zip(op.operands, product.operands, orders, strict=False)
            ]
            if scratch is not None and product.workspace:
                # All products take theirs from the same bytes, one after the other.
                values.append(_reinterpreted(scratch, [product.workspace], [0], _passed([product.workspace], "i8")))
            _call(symbol(number), values)
        op.erase()


def _orders(op: ir.Operation) -> list[list[int]]:
    """Which axis of each operand each dimension is that the product takes; none where they lie as it takes them."""
    if ORDERS not in op.attributes:
        return []
    return [
        [ir.IntegerAttr(each).value for each in ir.ArrayAttr(order)] for order in ir.ArrayAttr(op.attributes[ORDERS])
    ]


def _declare(function: func.FuncOp, name: str, operands: Sequence[tuple[tuple[Extent, ...], str]]) -> None:
    types = [_passed(shape, element) for shape, element in operands]
    with ir.InsertionPoint(function):
        func.FuncOp(name, ir.FunctionType.get(types, []), visibility="private")


def _call(name: str, values: list[ir.Value]) -> None:
    func.CallOp([], ir.FlatSymbolRefAttr.get(name), values)


def _bytes(count: int) -> ir.Value:
    return memref.AllocOp(ir.MemRefType.get([count], integer(8)), [], []).memref


def symbol(number: int) -> str:
    """The name of the function of product `number`."""
    return f"product{number}"


def _passed(shape: Sequence[Extent], element: str) -> ir.MemRefType:
    """The type of an operand of a product: rows anywhere, elements of a row side by side."""
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [DYNAMIC] * (len(shape) - 1) + [1] * bool(shape))
    return ir.MemRefType.get([shaped(each) for each in shape], ir.Type.parse(element), layout)


def _as_passed(value: ir.Value, shape: Sequence[Extent], order: Sequence[int] | None = None) -> ir.Value:
    """A memref with the shape that a product takes, which has dimensions of extent one that `value` may lack.

    With an `order`, dimension i is axis ``order[i]`` of `value`; where that is -1, there is one entry for all.
    """
    if order is not None:
        kind = _passed(shape, str(ir.MemRefType(value.type).element_type))
        return _reinterpreted(value, shape, [None if axis < 0 else axis for axis in order], kind)
    given = list(ir.MemRefType(value.type).shape)
    if len(given) == len(shape) == 1:  # Bytes, of which nobody knew how many there are.
        given = [shaped(each) for each in shape]
    sources: list[int | None] = []
    rest = list(range(len(given)))
    for position, extent in enumerate(shape):
        needed = len(shape) - position - 1
        if rest and given[rest[0]] == shaped(extent) and (extent != 1 or len(rest) > needed):
            sources.append(rest.pop(0))
        else:
            sources.append(None)
    element = str(ir.MemRefType(value.type).element_type)
    return _reinterpreted(value, shape, sources, _passed(shape, element))


def _reinterpreted(
    value: ir.Value, shape: Sequence[Extent], sources: Sequence[int | None], kind: ir.MemRefType
) -> ir.Value:
    """`value` as a memref of type `kind`, of whose axes each is one of `value`, or new, of one entry that stands for all."""
    base, offset, sizes, steps_ = metadata(value)
    # The last stride is one, and the type says it; so is that of an axis of one element.
    pairs = zip(sources[:-1], shape, strict=False)
    strides = [steps_[axis] if axis is not None else index_value(int(extent == 1)) for axis, extent in pairs]
    axes = [axis for axis, extent in zip(sources, shape, strict=True) if isinstance(extent, Dim) and axis is not None]
    return reinterpreted(kind, base, [offset], [sizes[axis] for axis in axes], strides)
