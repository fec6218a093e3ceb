# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the matrix products of a function by their structure, whatever their op, and splits them off.

A product is a ``linalg.generic`` that multiplies elements of two operands and sums the products, each dimension of which is one
of both operands and the result (batch), of the first and the result (m), of the second and the result (n), or of both
operands (k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tilewright.build.usedef import body, definition, in_block, named
from tilewright.dims import Dim, Extent
from tilewright.dtypes import COMBINATIONS, DTYPES
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, linalg
from tilewright.payload import forms
from tilewright.payload.generics import generic
from tilewright.payload.modules import open_extents

MARK = "contraction"
"""The attribute that tells which product an op is."""

_PLAIN = "#arith.fastmath<none>"


@dataclass(frozen=True, slots=True)
class Contraction:
    """A matrix product that was found.

    Attributes:
        a: The name of the first operand's element type.
        b: That of the second's.
        acc: That in which products are summed.
        maps: Which dimension each axis of the operands and of the result goes along.
        extents: The extent of each dimension; a `Dim` where it is dynamic.
    """

    a: str
    b: str
    acc: str
    maps: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    extents: tuple[Extent, ...]

    def kind(self, dimension: int) -> str:
        """What a dimension is: "batch", "m", "n" or "k"."""
        return _KINDS[tuple(dimension in each for each in self.maps)]


_KINDS: dict[tuple[bool, ...], str] = {
    (True, True, True): "batch",
    (True, False, True): "m",
    (False, True, True): "n",
    (True, True, False): "k",
}


def set_apart(function: ir.Operation, found: list[Contraction]) -> bool:
    """Replaces each product of `function` by a ``linalg.contract`` of f32, f64 or i32 into zeros, marked with its number.

    What it was added to is added afterwards, by a ``linalg.generic`` that rounds too, where the result is narrower. So
    everything around products is elementwise, and upstream's fusion, which leaves named ops alone, gathers it. But it moves
    reshapes through them, which makes each a ``linalg.generic`` of more dimensions, to be set apart again.

    The products are added to `found`. Returns whether there were any.
    """
    before = len(found)
    for inner in in_block(body(function)):
        if inner.name != "linalg.generic":
            continue
        _drop_licenses(inner)
        contraction = _read(inner)
        if contraction is not None:
            with ir.InsertionPoint(inner), inner.location:
                result = _apart(inner, contraction, len(found))
            inner.results[0].replace_all_uses_with(result)
            inner.erase()
            found.append(contraction)
    return len(found) > before


_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
_GUARD = "bufferization.dealloc_tensor"
"""An op without effect that adds a use to a tensor, so that fusion leaves it alone until bufferization."""


def guard(function: ir.Operation) -> None:
    """Keeps fusion from moving elementwise ops on operands into products that reshapes have made generic."""
    for op in in_block(body(function)):
        for value in list(op.operands)[:2] if MARK in op.attributes else []:
            while (made := definition(value)) is not None and made.name in _RESHAPES:
                value = made.operands[0]
            if made is not None:
                with ir.InsertionPoint(op), op.location:
                    ir.Operation.create(_GUARD, operands=[value])


def unguard(function: ir.Operation) -> None:
    """Removes what `guard` has added."""
    for op in named(function, _GUARD):
        op.erase()


def _drop_licenses(op: ir.Operation) -> None:
    """Drops fast-math flags: they allow less exact arithmetic and do not demand it."""
    for each in in_block(body(op)):
        if "fastmath" in each.attributes:
            each.attributes["fastmath"] = ir.Attribute.parse(_PLAIN)


def _read(op: ir.Operation) -> Contraction | None:
    """The product that a ``linalg.generic`` is; None where it is none that can be compiled as such."""
    if len(op.operands) != 3 or len(op.results) != 1:
        return None
    found = [axes(each) for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    maps = [each for each in found if each is not None and len(set(each)) == len(each)]
    extended = forms.extensions(op)
    if extended is None or len(maps) != 3:
        return None
    extents = _extents(op, maps)
    kinds = [tuple(dimension in each for each in maps) for dimension in range(len(extents))]
    if any(each not in _KINDS for each in kinds) or (True, True, False) not in kinds:
        return None
    names = [
        element_name(value.type, unsigned=how == "arith.extui")
        for value, how in zip(op.operands, (*extended, None), strict=True)
    ]
    a, b, c = names
    acc = DTYPES[c].accumulator if c else None
    if (a, b, acc, c) not in {(each.a, each.b, each.acc, each.c) for each in COMBINATIONS}:
        return None
    return Contraction(str(a), str(b), str(acc), (maps[0], maps[1], maps[2]), extents)


def axes(attribute: ir.Attribute) -> tuple[int, ...] | None:
    """Which dimension each axis of an operand goes along; None where one goes along something else."""
    found = []
    for expression in ir.AffineMapAttr(attribute).value.results:
        if not isinstance(expression, ir.AffineDimExpr):
            return None
        found.append(ir.AffineDimExpr(expression).position)
    return tuple(found)


def element_name(kind: ir.Type, *, unsigned: bool = False) -> str | None:
    """The name in `dtypes` of the element type of a tensor, or of a single number; None for one that is not there."""
    element = str(kind.element_type if isinstance(kind, ir.ShapedType) else kind)
    return next((row.name for row in DTYPES.values() if row.mlir == element and (row.kind == "uint") == unsigned), None)


def _extents(op: ir.Operation, maps: Sequence[tuple[int, ...]]) -> tuple[Extent, ...]:
    """The extent of each dimension of a linalg op: as one operand has it, if any tells it."""
    extents: list[Extent] = [Dim()] * len(ir.ArrayAttr(op.attributes["iterator_types"]))
    for value, each in zip(op.operands, maps, strict=True):
        for axis, dimension in enumerate(each):
            if isinstance(extents[dimension], Dim):
                extents[dimension] = open_extents.known(ir.ShapedType(value.type).shape[axis])
    return tuple(extents)


def _apart(op: ir.Operation, contraction: Contraction, number: int) -> ir.Value:
    """The product by itself, and what is done with what it was added to."""
    a, b, initial = op.operands
    wide = ir.Type.parse(DTYPES[contraction.acc].mlir)
    shape = ir.ShapedType(initial.type).shape
    is_float = DTYPES[contraction.acc].kind == "float"
    zero = arith.constant(wide, 0.0 if is_float else 0)
    zeros = linalg.fill(zero, outs=[open_extents.empty_like(initial, wide)])
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    # Upstream's annotations say that it takes attributes, and may return an operation.
    product = cast(
        "ir.OpResult", linalg.contract(a, b, outs=[zeros], indexing_maps=cast("list[ir.AffineMapAttr]", maps))
    )
    product.owner.attributes[MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    kind = ir.RankedTensorType(initial.type)
    starts_from_zero = _is_zero(initial)
    if starts_from_zero and kind.element_type == wide:
        return product
    into = open_extents.empty_like(initial, kind.element_type)
    identity = ir.AffineMap.get_identity(len(shape))
    inputs = [product] if starts_from_zero else [product, initial]

    def body(total: ir.Value, *others: ir.Value) -> ir.Value:
        if not starts_from_zero:
            former = others[0] if others[0].type == wide else arith.extf(wide, others[0])
            total = arith.addf(total, former) if is_float else arith.addi(total, former)
        return total if kind.element_type == wide else arith.truncf(kind.element_type, total)

    return generic(inputs, into, [identity] * (len(inputs) + 1), body)


def _is_zero(value: ir.Value) -> bool:
    """Whether a tensor is filled with zeros."""
    if not isinstance(value, ir.OpResult):
        return False
    owner = value.owner.operation
    if owner.name == "arith.constant":
        elements = owner.attributes["value"]
        return (
            isinstance(elements, ir.DenseElementsAttr)
            and elements.is_splat
            and _is_zero_attribute(elements.get_splat_value())
        )
    if owner.name == "linalg.fill":
        return forms.is_zero(owner.operands[0])
    if owner.name != "linalg.generic" or len(owner.regions[0].blocks[0].operations) != 1:
        return False
    yielded = owner.regions[0].blocks[0].operations[0].operands[0]
    if isinstance(yielded, ir.BlockArgument):
        if yielded.arg_number >= len(owner.operands) - 1:
            return False
        yielded = owner.operands[yielded.arg_number]
    return forms.is_zero(yielded)


def _is_zero_attribute(value: ir.Attribute) -> bool:
    if isinstance(value, ir.IntegerAttr):
        return value.value == 0
    return isinstance(value, ir.FloatAttr) and str(value).split(" ")[0].startswith("0.0")
