# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of which some are known: ints, values of type index, and vectors of both, computed with as far as they are known.

A vector of numbers that are known is a tuple of ints; the others are vectors of i32. An op is made at the current insertion point, and
only for what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector

Number = int | tuple[int, ...] | ir.Value
"""One number, or as many as a vector has lanes."""


def known(number: Number) -> int | None:
    """What one number is, where that is known."""
    if isinstance(number, int):
        return number
    made = number.owner if isinstance(number, ir.Value) and not isinstance(number.owner, ir.Block) else None
    if made is not None and made.operation.name == "arith.constant":
        return ir.IntegerAttr(made.operation.attributes["value"]).value
    return None


def is_vector(number: Number) -> bool:
    """Whether it is one number for each lane."""
    return isinstance(number, tuple) or (isinstance(number, ir.Value) and isinstance(number.type, ir.VectorType))


def plus(a: Number, b: Number) -> Number:
    """Their sum."""
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return _computed(a, b, lambda x, y: x + y, arith.addi)


def times(a: Number, factor: int) -> Number:
    """A multiple."""
    if factor == 0:
        return 0
    return a if factor == 1 else _computed(a, factor, lambda x, y: x * y, arith.muli)


def divided(a: Number, divisor: int) -> tuple[Number, Number]:
    """The quotient and the rest of what is not negative."""
    if divisor == 1:
        return a, 0
    return (
        _computed(a, divisor, lambda x, y: x // y, arith.divui),
        _computed(a, divisor, lambda x, y: x % y, arith.remui),
    )


def least(a: Number, b: Number) -> Number:
    """The smaller of two numbers."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else arith.minsi(scalar(a), scalar(b))


def most(a: Number, b: Number) -> Number:
    """The larger of two numbers."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else arith.maxsi(scalar(a), scalar(b))


def total(terms: Sequence[Number]) -> Number:
    """The sum of all."""
    whole: Number = 0
    for each in terms:
        whole = plus(whole, each)
    return whole


def terms(number: Number) -> tuple[Number, ...]:
    """What `number` is the sum of, as far as an affine.apply says it."""
    made = number.owner if isinstance(number, ir.Value) and not isinstance(number.owner, ir.Block) else None
    if made is None:
        return (number,)
    op, value = made.operation, known(number)
    if value is not None:
        return (value,)
    if op.name != "affine.apply":
        return (number,)
    map_ = ir.AffineMapAttr(op.attributes["map"]).value
    found = _summands(map_.results[0], list(op.operands), map_.n_dims)
    return (number,) if found is None else tuple(term for each in found for term in terms(each))


def offsets(op: ir.Operation) -> list[Number]:
    """Those of a subview."""
    given = iter(list(op.operands)[1:])
    unknown = ir.ShapedType.get_dynamic_size()
    static = ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
    return [next(given) if each == unknown else each for each in static]


def _summands(expression: ir.AffineExpr, operands: Sequence[ir.Value], dims: int) -> list[Number] | None:
    """The terms of a sum of operands and numbers; None where it is anything else."""
    if isinstance(expression, ir.AffineConstantExpr):
        return [expression.value]
    if isinstance(expression, ir.AffineDimExpr):
        return [operands[expression.position]]
    if isinstance(expression, ir.AffineSymbolExpr):
        return [operands[dims + expression.position]]
    if not isinstance(expression, ir.AffineAddExpr):
        return None
    parts = [_summands(each, operands, dims) for each in (expression.lhs, expression.rhs)]
    return None if parts[0] is None or parts[1] is None else [*parts[0], *parts[1]]


def ramp(start: Number, lanes: int) -> Number:
    """The numbers from `start` on, one for each lane."""
    return plus(tuple(range(lanes)), start)


def spread(number: Number, lanes: int) -> ir.Value:
    """It as a vector of i32."""
    if isinstance(number, tuple):
        return _constant_vector(number)
    if isinstance(number, int):
        return _constant_vector((number,) * lanes)
    if is_vector(number):
        return number
    i32 = ir.IntegerType.get_signless(32)
    return vector.broadcast(ir.VectorType.get([lanes], i32), arith.index_cast(i32, number))


def scalar(number: Number) -> ir.Value:
    """One number as a value of type index."""
    return arith.constant(ir.IndexType.get(), number) if isinstance(number, int) else number


def below(lanes: int, *bounds: tuple[Number, int]) -> ir.Value:
    """For each lane, whether every number is not negative and below its bound."""
    i1 = ir.IntegerType.get_signless(1)
    kind = ir.VectorType.get([lanes], i1)
    whole: ir.Value | None = None
    for number, bound in bounds:
        if isinstance(number, int) and 0 <= number < bound:
            continue
        if isinstance(number, tuple) and all(0 <= each < bound for each in number):
            continue
        if is_vector(number) or isinstance(number, int):
            holds = arith.cmpi(arith.CmpIPredicate.ult, spread(number, lanes), spread(bound, lanes))
        else:
            holds = vector.broadcast(kind, is_below(number, bound))
        whole = holds if whole is None else arith.andi(whole, holds)
    if whole is None:
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.BoolAttr.get(True)))
    return whole


def is_below(number: Number, bound: int) -> ir.Value:
    """Whether one number is not negative and below `bound`."""
    return arith.cmpi(arith.CmpIPredicate.ult, scalar(number), scalar(bound))


def copied(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A copy of `op` that takes `values` in place of others, to which its own results are added."""
    made = op.clone().operation
    for position, operand in enumerate(op.operands):
        if operand in values:
            made.operands[position] = values[operand]
    for old, new in zip(op.results, made.results, strict=True):
        values[old] = new
    return made


def zeros(kind: ir.VectorType) -> ir.Value:
    """A vector of zeros."""
    element = kind.element_type
    zero = ir.FloatAttr.get(element, 0.0) if not isinstance(element, ir.IntegerType) else ir.IntegerAttr.get(element, 0)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, zero))


def masked(kind: ir.VectorType, flat: ir.Value, start: Number, lanes: range, others: ir.Value) -> ir.Value:
    """The vector of `flat` from `start` on in these lanes, and `others` in the rest."""
    i1 = ir.IntegerType.get_signless(1)
    mask_kind = ir.VectorType.get(kind.shape, i1)
    chosen = [ir.BoolAttr.get(each in lanes) for each in range(kind.shape[0])]
    mask = arith.constant(mask_kind, ir.DenseElementsAttr.get(chosen, mask_kind))
    return ir.Operation.create(
        "vector.maskedload", results=[kind], operands=[flat, scalar(start), mask, others]
    ).results[0]


def inserted(part: ir.Value, whole: ir.Value, position: int) -> ir.Value:
    """`whole` with its row `position` replaced."""
    attributes = {"static_position": ir.DenseI64ArrayAttr.get([position])}
    return ir.Operation.create(
        "vector.insert", results=[whole.type], operands=[part, whole], attributes=attributes
    ).results[0]


def gathered(kind: ir.VectorType, flat: ir.Value, start: Number, offsets: ir.Value, inside: ir.Value) -> ir.Value:
    """For each lane ``flat[start + offset]``, or 0 where the lane is not `inside`."""
    return ir.Operation.create(
        "vector.gather", results=[kind], operands=[flat, scalar(start), offsets, inside, zeros(kind)]
    ).results[0]


def loaded(kind: ir.VectorType, flat: ir.Value, start: Number) -> ir.Value:
    """The vector of `flat` from `start` on."""
    return ir.Operation.create("vector.load", results=[kind], operands=[flat, scalar(start)]).results[0]


def _computed(
    a: Number, b: Number, known: Callable[[int, int], int], op: Callable[[ir.Value, ir.Value], ir.Value]
) -> Number:
    """What `known` computes of numbers that are, and `op` of others."""
    if isinstance(a, int) and isinstance(b, int):
        return known(a, b)
    if not is_vector(a) and not is_vector(b):
        return op(scalar(a), scalar(b))
    if not isinstance(a, ir.Value) and not isinstance(b, ir.Value):
        lanes = len(a) if isinstance(a, tuple) else len(b)  # type: ignore[arg-type] - one is a tuple
        pairs = zip(_each(a, lanes), _each(b, lanes), strict=True)
        return tuple(known(x, y) for x, y in pairs)
    lanes = _lanes(a) or _lanes(b)
    return op(spread(a, lanes), spread(b, lanes))


def _each(number: int | tuple[int, ...], lanes: int) -> tuple[int, ...]:
    return number if isinstance(number, tuple) else (number,) * lanes


def _lanes(number: Number) -> int:
    """How many lanes a vector has; 0 for one number."""
    if isinstance(number, tuple):
        return len(number)
    return ir.VectorType(number.type).shape[0] if isinstance(number, ir.Value) and is_vector(number) else 0


def _constant_vector(values: Sequence[int]) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    kind = ir.VectorType.get([len(values)], i32)
    elements = [ir.IntegerAttr.get(i32, each) for each in values]
    return arith.constant(kind, ir.DenseElementsAttr.get(elements, kind))
