# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds chains of products, each of which takes the result of the one before as its A, and fuses them over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.build.tensors import carried, extract, insert
from tilewright.build.usedef import operations
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, tensor
from tilewright.payload import functions
from tilewright.payload.generics import generic
from tilewright.payload.modules.places import STAND_IN, Axes, stand_in_element
from tilewright.payload.modules.places import stand_in as place_stand_in
from tilewright.payload.signature import Parameter, Signature
from tilewright.spec import MatmulSpec

PACKS = "packs"
"""The attribute of an op that packs B ahead of time for a product: the number of its spec."""

Rows = Callable[[MatmulSpec, MatmulSpec], int]
"""How many rows of a chain of two products are computed at a time; 0: all of them, one product after the other."""


def build(stages: Sequence[MatmulSpec], name: str, context: ir.Context) -> tuple[Signature, ir.Module]:
    """What the function of a chain takes and gives, and the module that holds it.

    It takes the A of the first stage, and for each stage its B and its further operands; and gives the result of the last.
    """
    parameters = [Parameter("a", stages[0].a_shape, stages[0].a_type.name)]
    taken = {"a", "out"}
    for number, spec in enumerate(stages):
        for index, operand in enumerate(spec.operands[1:]):
            free = next(each for each in _names(operand.name, number) if each not in taken)
            taken.add(free)
            packed = index == 0 and spec.b_packed
            shape, element = ((1,), "i8") if packed else (operand.shape, operand.type.name)
            stored = {"packed": number + 1, "transposed": spec.b_transposed} if packed else {}
            parameters.append(Parameter(free, shape, element, **stored))
    last = stages[-1]
    result = Parameter("out", last.c_shape, last.c_type.name, written=True)

    def body(value: ir.Value, *given: ir.Value) -> ir.Value:
        *rest, out = given
        for number, spec in enumerate(stages):
            own, rest = rest[: len(spec.operands) - 1], rest[len(spec.operands) - 1 :]
            element = ir.Type.parse(spec.c_type.mlir)
            into = out if number + 1 == len(stages) else tensor.empty(spec.c_shape, element)
            value = place_stand_in([value, *own, into], _axes(spec), number)
        return value

    with context, ir.Location.name(name):
        module = functions.build(name, (*parameters, result), body)
    signature = Signature(
        name,
        tuple(parameters),
        (result,),
        operations=sum(spec.flops for spec in stages),
        products=tuple(map(str, stages)),
    )
    return signature, module


def _names(name: str, number: int) -> list[str]:
    """What an operand of a stage can be called, best first."""
    return [name if not number else f"{name}{number + 1}", *(f"{name}{number + 1}_{each}" for each in range(2, 100))]


def _axes(spec: MatmulSpec) -> list[list[Axes]]:
    """The dimensions of a product, of which m is 0, n 1 and k 2, that the axes of its operands go along."""
    numbers = {"m": (0,), "n": (1,), "k": (2,)}
    a, b = ("km" if spec.a_transposed else "mk"), ("nk" if spec.b_transposed else "kn")
    further = [b if each.role == "b" else each.axes for each in spec.chain.operands]
    further += [""] * len(spec.scalars)
    named = [[numbers[axis] for axis in axes] for axes in (a, b, *further, "mn"[: len(spec.c_shape)])]
    if spec.b_packed:
        named[1] = [(3,)]
    return named


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two products, of which the second alone uses the result of the first."""

    first: ir.Operation
    second: ir.Operation


def fuse(function: func.FuncOp, specs: list[MatmulSpec], rows: Rows, packs: Callable[[MatmulSpec], bool]) -> None:
    """Computes chains of two products some rows at a time, where that pays; new specs are added to `specs`.

    Before: ``H = A·B1``, ``C = H·B2``. After, with R what `rows` says, and B1 and B2 packed once where `packs` says so::

        for i in 0..M step R:
          H = A[i:i+R]·B1
          C[i:i+R] = H·B2

    Args:
        function: A function whose products `groups.split` has found.
        specs: The specs of its products.
        rows: The model that says how many.
        packs: Whether a product of so many rows packs its B.
    """
    # One at a time: those that are fused are gone.
    while (found := _next(function, specs, rows)) is not None:
        pair, count = found
        with ir.InsertionPoint(pair.second), pair.second.location:
            _fuse(pair, specs, count, packs)


def _next(function: func.FuncOp, specs: Sequence[MatmulSpec], rows: Rows) -> tuple[_Pair, int] | None:
    """The first pair that it pays to fuse, and how many rows at a time."""
    for op in function.entry_block.operations:
        pair = _pair(op.operation)
        if pair is None:
            continue
        first, second = (specs[_number(each)] for each in (pair.first, pair.second))
        count = rows(first, second) if _is_plain(first) and _is_plain(second) else 0
        if 0 < count < first.m:
            return pair, count
    return None


def renumber(functions: Sequence[func.FuncOp], specs: Sequence[MatmulSpec]) -> list[MatmulSpec]:
    """Leaves out the specs that no function computes any more, and gives the others new numbers."""
    ops = [op for function in functions for op in operations(function.operation)]
    found = [(op, mark) for op in ops for mark in (STAND_IN, PACKS) if mark in op.attributes]
    used = sorted({ir.IntegerAttr(op.attributes[mark]).value for op, mark in found})
    for op, mark in found:
        number = used.index(ir.IntegerAttr(op.attributes[mark]).value)
        with op.context:
            op.attributes[mark] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    return [specs[number] for number in used]


def name_packed(function: func.FuncOp, signature: Signature) -> Signature:
    """The signature with the numbers of the products that take what comes packed, once products have their last numbers."""
    arguments = []
    for parameter, value in zip(signature.arguments, function.entry_block.arguments, strict=False):
        takes = [use.owner.operation for use in value.uses if parameter.packed and STAND_IN in use.owner.attributes]
        arguments.append(replace(parameter, packed=_number(takes[0]) + 1) if takes else parameter)
    return replace(signature, arguments=tuple(arguments))


def _is_plain(spec: MatmulSpec) -> bool:
    """Whether rows of A make rows of C, without anything that needs all rows."""
    plain = not (spec.prologue_a or spec.prologue_b or spec.reduces_rows) and spec.products == 1
    return plain and not spec.a_transposed and not spec.batch and not spec.open


def _number(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes[STAND_IN]).value


def _pair(op: ir.Operation) -> _Pair | None:
    if STAND_IN not in op.attributes:
        return None
    uses = list(op.results[0].uses)
    if len(uses) != 1 or uses[0].operand_number != 0:
        return None
    user = uses[0].owner.operation
    same = STAND_IN in user.attributes and user.parent == op.parent
    return _Pair(op, user) if same and user.operands[0] == op.results[0] else None


def _fuse(pair: _Pair, specs: list[MatmulSpec], rows: int, packs: Callable[[MatmulSpec], bool]) -> None:
    ops = (pair.first, pair.second)
    given = [specs[_number(op)] for op in ops]
    packed = [spec.b_packed or packs(replace(spec, m=rows)) for spec in given]
    operands = [list(op.operands)[:-1] for op in ops]
    for number, (op, spec) in enumerate(zip(ops, given, strict=True)):
        if packed[number] and not spec.b_packed:
            wanted = replace(spec, m=rows, b_packed=True)
            operands[number][1] = _pack(op, _index(wanted, specs))
    whole, rest = given[0].m // rows * rows, given[0].m % rows

    def block(start: ir.Value | int, count: int, out: ir.Value) -> ir.Value:
        value: ir.Value | None = None
        for number, (op, spec) in enumerate(zip(ops, given, strict=True)):
            wanted = replace(spec, m=count, b_packed=packed[number])
            maps = _maps(op, packed=packed[number])
            last = number + 1 == len(ops)
            own = list(zip(operands[number], maps, strict=False))
            inputs = [] if value is None else [value]
            inputs += [_rows(each, axes, start, count) for each, axes in own[len(inputs) :]]
            element = ir.ShapedType(op.results[0].type).element_type
            into = _rows(out, maps[-1], start, count) if last else tensor.empty([count, spec.n], element)
            value = place_stand_in([*inputs, into], maps, _index(wanted, specs))
        assert value is not None, "a chain has two products"
        return insert(value, out, *_bounds(out, 0, start, count))

    swept = carried(
        whole, rows, pair.second.operands[len(pair.second.operands) - 1], lambda start, out: block(start, rows, out)
    )
    result = block(whole, rest, swept) if rest else swept
    pair.second.results[0].replace_all_uses_with(result)
    pair.second.erase()
    pair.first.erase()


def _index(spec: MatmulSpec, specs: list[MatmulSpec]) -> int:
    if spec not in specs:
        specs.append(spec)
    return specs.index(spec)


def _maps(op: ir.Operation, *, packed: bool) -> list[list[Axes]]:
    """The dimensions of the product that each operand's axes go along: rows are 0."""
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    axes = [[(ir.AffineDimExpr(result).position,) for result in each.results] for each in maps]
    if packed:
        axes[1] = [(len(maps) + maps[0].n_dims,)]
    return axes


def _pack(op: ir.Operation, number: int) -> ir.Value:
    """An op that packs the B of `op`, into a buffer whose size is not decided yet."""
    byte = ir.IntegerType.get_signless(8)
    into = tensor.empty([1], byte)
    maps = [ir.AffineMap.get(3, 0, [ir.AffineDimExpr.get(each) for each in axes]) for axes in ((1, 2), (0,))]
    made = generic([op.operands[1]], into, maps, lambda read, _: stand_in_element(byte, [read]), {1, 2})
    ir.OpResult(made).owner.attributes[PACKS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    return made


def _rows(value: ir.Value, axes: list[Axes], start: ir.Value | int, count: int) -> ir.Value:
    """Some rows of an operand; all of one that has none."""
    return value if (0,) not in axes else extract(value, *_bounds(value, axes.index((0,)), start, count))


def _bounds(
    whole: ir.Value, axis: int, start: ir.Value | int, count: int
) -> tuple[list[ir.Value | int], list[ir.Value | int]]:
    """Where the slice of `count` elements along an axis from `start` on starts, and its sizes."""
    shape = ir.ShapedType(whole.type).shape
    starts = [start if each == axis else 0 for each in range(len(shape))]
    return starts, [count if each == axis else extent for each, extent in enumerate(shape)]
