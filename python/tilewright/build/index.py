# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Index arithmetic with constant folding: a known index is a Python int, any other one a value.

Ops are made at the current insertion point, and only for what is not known. Indices are unsigned, but for `signed_min`, `signed_max` and `signed_less`.

A `Number` is an index, or one index for each lane of a vector: a tuple of ints while they are known, otherwise a vector of i32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector

Index = int | ir.Value
Number = int | tuple[int, ...] | ir.Value
_N = TypeVar("_N", Index, Number)


def value(index: Number) -> ir.Value:
    """The index as a value of type index."""
    assert not isinstance(index, tuple), "an index, not one for each lane"
    return arith.constant(ir.IndexType.get(), index) if isinstance(index, int) else index


def values(indices: Sequence[Index]) -> list[ir.Value]:
    """Several indices as values."""
    return [value(each) for each in indices]


def known(number: Number) -> int | None:
    """The index, where it is an int or the result of a constant; otherwise None."""
    if isinstance(number, int):
        return number
    made = number.owner if isinstance(number, ir.Value) and not isinstance(number.owner, ir.Block) else None
    if made is not None and made.operation.name == "arith.constant":
        return ir.IntegerAttr(made.operation.attributes["value"]).value
    return None


def add(a: _N, b: _N) -> _N:
    """The sum."""
    return _computed(a, b, operator.add, arith.addi, neutral=0)


def sub(a: Index, b: Index) -> Index:
    """The difference."""
    return _computed(a, b, operator.sub, arith.subi)


def mul(a: _N, b: _N) -> _N:
    """The product."""
    nothing: Any = 0
    if any(isinstance(each, int) and each == 0 for each in (a, b)):
        return nothing
    return _computed(a, b, operator.mul, arith.muli, neutral=1)


def div(a: _N, by: Index) -> _N:
    """The quotient, rounded down."""
    return a if by == 1 else _computed(a, by, operator.floordiv, arith.divui)


def rem(a: _N, by: Index) -> _N:
    """The remainder of a division."""
    nothing: Any = 0
    return nothing if by == 1 else _computed(a, by, operator.mod, arith.remui)


def div_rem(a: _N, by: Index) -> tuple[_N, _N]:
    """The quotient and the remainder."""
    return div(a, by), rem(a, by)


def ceil_div(a: Index, unit: int) -> Index:
    """The quotient, rounded up."""
    return div(add(a, unit - 1), unit)


def round_up(a: Index, unit: int) -> Index:
    """The least multiple of `unit` that is not less."""
    return mul(ceil_div(a, unit), unit)


def round_down(a: Index, unit: int) -> Index:
    """The largest multiple of `unit` that is not more."""
    return mul(div(a, unit), unit)


def xor(a: Index, b: Index) -> Index:
    """The bits that one of both has."""
    return _computed(a, b, operator.xor, arith.xori)


def minimum(a: Index, b: Index) -> Index:
    """The smaller one."""
    return _computed(a, b, min, arith.minui)


def signed_min(a: Index, b: Index) -> Index:
    """The smaller one of two that may be below zero."""
    return _computed(a, b, min, arith.minsi)


def signed_max(a: Index, b: Index) -> Index:
    """The larger one of two that may be below zero."""
    return _computed(a, b, max, arith.maxsi)


def total(terms: Sequence[_N]) -> _N:
    """The sum of all."""
    whole: Any = 0
    for each in terms:
        whole = add(whole, each)
    return whole


def less(a: Number, b: Number) -> ir.Value:
    """Whether a < b."""
    return arith.cmpi(arith.CmpIPredicate.ult, value(a), value(b))


def signed_less(a: Index, b: Index) -> ir.Value:
    """Whether a < b, of two that may be below zero."""
    return arith.cmpi(arith.CmpIPredicate.slt, value(a), value(b))


def less_equal(a: Index, b: Index) -> ir.Value:
    """Whether a <= b."""
    return arith.cmpi(arith.CmpIPredicate.ule, value(a), value(b))


def equal(a: Index, b: Index) -> ir.Value:
    """Whether a == b."""
    return arith.cmpi(arith.CmpIPredicate.eq, value(a), value(b))


def ramp(start: Number, lanes: int) -> Number:
    """The numbers from `start` on, one for each lane."""
    return add(tuple(range(lanes)), start)


def spread(number: Number, lanes: int) -> ir.Value:
    """A number for each lane, as a vector of i32."""
    i32 = ir.IntegerType.get_signless(32)
    kind = ir.VectorType.get([lanes], i32)
    if isinstance(number, ir.Value):
        return number if _lanes(number) else vector.broadcast(kind, arith.index_cast(i32, number))
    elements = [ir.IntegerAttr.get(i32, each) for each in _each(number, lanes)]
    return arith.constant(kind, ir.DenseElementsAttr.get(elements, kind))


def inside(lanes: int, *bounds: tuple[Number, int]) -> ir.Value:
    """For each lane, whether every number is not negative and below its bound."""
    kind = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    whole: ir.Value | None = None
    for number, bound in bounds:
        if not isinstance(number, ir.Value) and all(0 <= each < bound for each in _each(number, lanes)):
            continue
        if isinstance(number, ir.Value) and not _lanes(number):
            holds = vector.broadcast(kind, less(number, bound))
        else:
            holds = arith.cmpi(arith.CmpIPredicate.ult, spread(number, lanes), spread(bound, lanes))
        whole = holds if whole is None else arith.andi(whole, holds)
    if whole is None:
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.BoolAttr.get(True)))
    return whole


def _computed(
    a: Number,
    b: Number,
    fold: Callable[[int, int], int],
    op: Callable[[ir.Value, ir.Value], Any],
    neutral: int | None = None,
) -> Any:  # noqa: ANN401 - the type of both
    """What `fold` computes of numbers that are known, and `op` of others; one number itself, where the other is `neutral`."""
    if isinstance(a, int) and isinstance(b, int):
        return fold(a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, int) and one == neutral:
            return other
    lanes = _lanes(a) or _lanes(b)
    if not lanes:
        return op(value(a), value(b))
    if isinstance(a, ir.Value) or isinstance(b, ir.Value):
        return op(spread(a, lanes), spread(b, lanes))
    return tuple(fold(x, y) for x, y in zip(_each(a, lanes), _each(b, lanes), strict=True))


def _each(number: int | tuple[int, ...], lanes: int) -> tuple[int, ...]:
    return number if isinstance(number, tuple) else (number,) * lanes


def _lanes(number: Number) -> int:
    """How many lanes it has; 0 for a single index."""
    if isinstance(number, tuple):
        return len(number)
    if isinstance(number, int) or not isinstance(number.type, ir.VectorType):
        return 0
    return ir.VectorType(number.type).shape[0]
