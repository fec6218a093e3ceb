# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins each matrix product with its epilogue, and returns both as a `MatmulSpec`.

A ``linalg.generic`` stays in the function as a placeholder for the product: it has the operands and the result of the
call that it becomes after bufferization, and its region only reads all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.build.usedef import body, in_block
from tilewright.dims import Dim, most
from tilewright.dtypes import DTYPES
from tilewright.entries import Epilogue, Operand, converting
from tilewright.errors import SpecError
from tilewright.expressions import Program
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.payload.generics import generic
from tilewright.payload.modules import contractions, programs, starting
from tilewright.payload.modules.contractions import Contraction
from tilewright.payload.modules.places import Axes, Place, place
from tilewright.payload.modules.starting import Start, Starts
from tilewright.spec import MatmulSpec


@dataclass(frozen=True, slots=True)
class _Finish:
    """What is done to the sums of a product.

    Attributes:
        op: The ``linalg.generic`` that does it.
        operands: Its further operands.
        axes: Of each, the dimensions of the product that it has.
        types: Of each, the name of its element type.
        program: What is done, in terms of a sum and of an element of each operand.
        result: The dimensions that its result goes along, in order.
        element: The name of the result's element type.
    """

    op: ir.Operation
    operands: tuple[ir.Value, ...]
    axes: tuple[Axes, ...]
    types: tuple[str, ...]
    program: Program
    result: Axes
    element: str


def split(
    function: ir.Operation,
    found: Sequence[Contraction],
    specs: list[MatmulSpec],
    packs: Callable[[MatmulSpec], bool],
) -> None:
    """Replaces each product of `function` that `contractions.set_apart` found by what stands for it, numbered as in `specs`.

    New specs are added there. A product that is stored in no way that kernels take becomes a ``linalg.generic`` of the plain
    kind again. What is elementwise before a product becomes its prologue where `packs` says that it is packed, and so goes
    through each element of its operands anyhow.
    """
    for inner in in_block(body(function)):
        if contractions.MARK in inner.attributes:
            _split(inner, found[ir.IntegerAttr(inner.attributes[contractions.MARK]).value], specs, packs)


def _split(
    product: ir.Operation, contraction: Contraction, specs: list[MatmulSpec], packs: Callable[[MatmulSpec], bool]
) -> None:
    for finish in (_finish(product, contraction), None):
        at = product if finish is None else finish.op
        made = _spec(contraction, finish, (None, None))
        if made is None:
            continue
        first, second = starting.find(product, contraction)
        if isinstance(made[0].k, Dim):  # Panels, which are made of what is computed, need a K that is known.
            first = second = None
        elif not packs(made[0]):  # How elements lie matters little then, and what is done to them is done many times.
            first, second = (each if each is not None and each.copies else None for each in (first, second))
        starts = (None, None)
        for tried in ((first, second), (first, None), (None, second)):
            with_starts = _spec(contraction, finish, tried) if any(tried) else None
            if with_starts is not None:
                starts, made = tried, with_starts
                break
        spec, where = made
        further = [value for start in _ordered(starts, where) for value in start.operands]
        with ir.InsertionPoint(at), at.location:
            matrices = [
                start.matrix if start else value
                for start, value in zip(starts, list(product.operands)[:2], strict=True)
            ]
            operands = [*matrices, *further, *(finish.operands if finish else ())]
            result = where.build(operands, specs.index(spec) if spec in specs else len(specs), at.results[0].type)
        if spec not in specs:
            specs.append(spec)
        at.results[0].replace_all_uses_with(result)
        at.erase()
        if finish is not None:
            product.erase()
        for start in starts:
            if start is not None:
                start.op.erase()
        return
    _as_generic(product, contraction)


def _ordered(starts: Starts, where: Place) -> list[Start]:
    """What is done to A, and then what is done to B."""
    return [each for each in (reversed(starts) if where.swapped else starts) if each is not None]


def _spec(contraction: Contraction, finish: _Finish | None, starts: Starts) -> tuple[MatmulSpec, Place] | None:
    """The spec of a product and of what is done before and after, and how it lies in memory; None where no kernel takes it."""
    where = _place(contraction, finish, starts)
    if where is None:
        return None
    further, names = list(where.further), iter(range(len(where.further)))

    def before(start: Start | None, multiplied: str) -> tuple[Epilogue, ...]:
        """The prologue of an operand that is multiplied in the type `multiplied`."""
        if start is None or (start.copies and start.element == multiplied):
            return ()
        return (converting(multiplied),) if start.copies else entry(start.program, start.types)

    def entry(program: Program, types: Sequence[str]) -> tuple[Epilogue, ...]:
        """The entry of a program, whose operands are the next of the further ones."""
        named = [Operand(f"x{next(names)}", further.pop(0), kind) for kind in types]
        return (Epilogue("fused", tuple(named), program),)

    first, second = reversed(starts) if where.swapped else starts
    a, b = (contraction.b, contraction.a) if where.swapped else (contraction.a, contraction.b)
    fields: dict[str, Any] = {
        "prologue_a": before(first, a),
        "prologue_b": before(second, b),
        "epilogue": entry(finish.program, finish.types) if finish else (),
        "c": finish.element if finish else contraction.acc,
    }
    fields |= {"a": first.element if first else a, "b": second.element if second else b}
    m, n, k = where.extents
    sizes = tuple(where.sizes[each] for each in where.batch)
    if sizes:
        fields |= {"batch": sizes, "a_batch": where.batch_of(0), "b_batch": where.batch_of(1)}
    try:
        spec = MatmulSpec(m, n, k, acc=contraction.acc, layout=where.layout, **fields)
    except SpecError:
        return None
    return (spec, where) if (spec.a_type.name, spec.b_type.name) == (a, b) else None


def _place(contraction: Contraction, finish: _Finish | None, starts: Starts) -> Place | None:
    """How a product lies in memory, with what is done before and after."""
    result = finish.result if finish else contraction.maps[2]
    maps = [start.axes if start else axes for start, axes in zip(starts, contraction.maps, strict=False)]
    stored = replace(contraction, maps=(maps[0], maps[1], contraction.maps[2]))
    for order in ("ab", "ba"):
        listed = [(side, starts["ab".index(side)]) for side in order]
        further = [(side, axes) for side, start in listed if start is not None for axes in start.further]
        further += [("c", axes) for axes in (finish.axes if finish else ())]
        where = place(stored, result, [axes for _, axes in further], [side for side, _ in further])
        if where is None or where.swapped == (order == "ba"):
            # The operands of a prologue have no batch of their own here.
            has_loops = where is not None and (where.batch or any(most(where.sizes[each]) > 1 for each in where.loops))
            return None if has_loops and any(start is not None and start.operands for start in starts) else where
    return None


def _finish(product: ir.Operation, contraction: Contraction) -> _Finish | None:
    """What alone uses the sums, when it is elementwise and can be told as a program."""
    users = {use.owner.operation for use in product.results[0].uses}
    if len(users) != 1:
        return None
    op = users.pop()
    if op.name != "linalg.generic" or len(op.results) != 1 or not starting.is_parallel(op):
        return None
    *inputs, output = op.operands
    maps = [contractions.axes(each) for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    block = op.regions[0].blocks[0]
    if output == product.results[0] or any(True for _ in block.arguments[len(inputs)].uses):
        return None
    sums = [axes for value, axes in zip(inputs, maps, strict=False) if value == product.results[0]]
    if any(each is None for each in maps) or not sums or any(each != sums[0] for each in sums):
        return None
    loops = {loop: contraction.maps[2][axis] for axis, loop in enumerate(sums[0] or ())}
    if len(loops) != len(maps[-1] or ()):
        return None
    placed = [tuple(loops[loop] for loop in each or ()) for each in maps]
    others = [index for index, value in enumerate(inputs) if value != product.results[0]]
    order = [others.index(index) if index in others else -1 for index in range(len(inputs))]
    types = [starting.element(op, index) for index in others]
    element = contractions.element_name(op.results[0].type)
    if element is None or any(each is None for each in types):
        return None
    compute = "f64" if contraction.acc == "f64" else "f32"
    try:
        found = programs.program(op, order, compute)
    except programs.Untold:
        return None
    last = found.steps[-1]
    if last.op == "convert" and last.detail in ("i8", "u8"):
        element = last.detail  # The sign that the numbers before the conversion have.
    operands = tuple(inputs[index] for index in others)
    axes = tuple(placed[index] for index in others)
    return _Finish(op, operands, axes, tuple(map(str, types)), found, placed[-1], element)


def _as_generic(product: ir.Operation, contraction: Contraction) -> None:
    """Makes a product that no kernel takes a ``linalg.generic``, to be tiled and vectorized with the rest."""
    a, b, zeros = product.operands
    is_float = isinstance(ir.ShapedType(zeros.type).element_type, ir.FloatType)
    depth = [each for each in range(len(contraction.extents)) if contraction.kind(each) == "k"]
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(product.attributes["indexing_maps"])]

    def body(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        given = ((x, contraction.a), (y, contraction.b))
        x, y = (_wide(value, DTYPES[name].kind, total.type) for value, name in given)
        return arith.addf(total, arith.mulf(x, y)) if is_float else arith.addi(total, arith.muli(x, y))

    with ir.InsertionPoint(product), product.location:
        product.results[0].replace_all_uses_with(generic([a, b], zeros, maps, body, depth))
    product.erase()


def _wide(value: ir.Value, kind: str, wide: ir.Type) -> ir.Value:
    if value.type == wide:
        return value
    return {"float": arith.extf, "int": arith.extsi, "uint": arith.extui}[kind](wide, value)
