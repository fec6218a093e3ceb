# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Evaluates index arithmetic of a loop nest for given induction variables: bounds of loops, and conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tilewright.build.usedef import definition, parent
from tilewright.mlir import ir

_MIDDLE = 3
"""Iterations between the first and the last one that are looked at: only these two are of another kind."""
_ARITH: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "arith.addi": operator.add,
        "arith.subi": operator.sub,
        "arith.muli": operator.mul,
        "arith.minsi": min,
        "arith.maxsi": max,
        "arith.minui": min,
        "arith.maxui": max,
        "arith.andi": operator.and_,
        "arith.ori": operator.or_,
        "arith.ceildivsi": lambda a, b: -(-a // b),
        "arith.ceildivui": lambda a, b: -(-a // b),
        "arith.floordivsi": operator.floordiv,
        "arith.divsi": operator.floordiv,
        "arith.divui": operator.floordiv,
        "arith.remsi": operator.mod,
        "arith.remui": operator.mod,
    }
)
_COMPARE = (operator.eq, operator.ne, *(operator.lt, operator.le, operator.gt, operator.ge) * 2)
"""By the number of an `arith.cmpi` predicate; of unsigned numbers as of signed ones, which indices are not below zero."""
_BINARY: tuple[tuple[type, Callable[[int, int], int]], ...] = (
    (ir.AffineAddExpr, operator.add),
    (ir.AffineMulExpr, operator.mul),
    (ir.AffineModExpr, operator.mod),
    (ir.AffineFloorDivExpr, operator.floordiv),
    (ir.AffineCeilDivExpr, lambda a, b: -(-a // b)),
)


class UnknownValueError(Exception):
    """A value is known to a call alone, or made by an op that is not index arithmetic."""


@dataclass(slots=True)
class Values:
    """The values of one nest.

    Attributes:
        bounds: By induction variable, the lower bound, upper bound and step of its loop.
    """

    bounds: Mapping[ir.Value, tuple[ir.Value, ir.Value, ir.Value]]
    _averages: dict[ir.Value, float] = field(default_factory=dict)
    _trips: dict[ir.Value, float] = field(default_factory=dict)

    def of(self, value: ir.Value, given: Mapping[ir.Value, int]) -> int:
        """A value, where the induction variables are `given`.

        Raises:
            UnknownValueError: It is not known.
        """
        if value in given:
            return given[value]
        op = definition(value)
        if op is None:
            raise UnknownValueError
        if op.name == "arith.constant":
            attribute = op.attributes["value"]
            return (
                ir.IntegerAttr(attribute).value
                if isinstance(attribute, ir.IntegerAttr)
                else int(ir.BoolAttr(attribute).value)
            )
        operands = [self.of(each, given) for each in op.operands]
        if op.name in ("affine.min", "affine.max", "affine.apply"):
            map_ = ir.AffineMapAttr(op.attributes["map"]).value
            results = [_evaluate(each, operands[: map_.n_dims], operands[map_.n_dims :]) for each in map_.results]
            return {"affine.min": min, "affine.max": max, "affine.apply": min}[op.name](results)
        if op.name == "arith.cmpi":
            return int(_COMPARE[ir.IntegerAttr(op.attributes["predicate"]).value](*operands))
        if op.name == "arith.select":
            return operands[1] if operands[0] else operands[2]
        if op.name in _ARITH:
            return _ARITH[op.name](*operands)
        raise UnknownValueError

    def trips(self, variable: ir.Value) -> float:
        """How often the loop of an induction variable runs, on average each time that it is entered.

        Raises:
            UnknownValueError: It is not known.
        """
        if variable not in self._trips:
            self._trips[variable] = self._mean(
                lambda given: self._count(variable, given), self.variables(self.bounds[variable])
            )
        return self._trips[variable]

    def trips_each(self, variable: ir.Value, outer: ir.Value) -> list[float]:
        """How often the loop of `variable` runs in each iteration of the loop of `outer`, on average over other loops.

        Raises:
            UnknownValueError: It is not known.
        """
        first, last, by = (self.of(each, {}) for each in self.bounds[outer])
        others = [each for each in self.variables(self.bounds[variable]) if each != outer]
        return [
            self._mean(lambda given: self._count(variable, given), others, {outer: at}) for at in range(first, last, by)
        ]

    def _count(self, variable: ir.Value, given: Mapping[ir.Value, int]) -> int:
        first, last, by = (self.of(each, given) for each in self.bounds[variable])
        return max(0, -(-(last - first) // by))

    def share(self, condition: ir.Value) -> float:
        """In what share of the iterations a condition holds.

        Raises:
            UnknownValueError: It is not known.
        """
        if condition not in self._averages:
            self._averages[condition] = self._mean(
                lambda given: float(bool(self.of(condition, given))), self.variables([condition])
            )
        return self._averages[condition]

    def variables(self, roots: Sequence[ir.Value]) -> list[ir.Value]:
        """The induction variables that values depend on, also by the bounds of their loops, the outermost first."""
        found: list[ir.Value] = []
        work, seen = list(roots), set[ir.Value]()
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.bounds:
                found.append(value)
                work += self.bounds[value]
            elif (op := definition(value)) is not None:
                work += op.operands
        return sorted(found, key=_depth)

    def _mean(
        self,
        what: Callable[[Mapping[ir.Value, int]], float],
        variables: Sequence[ir.Value],
        known: Mapping[ir.Value, int] | None = None,
    ) -> float:
        total = weights = 0.0
        for given, weight in self._samples(variables, known or {}, 1.0):
            total += weight * what(given)
            weights += weight
        return total / weights if weights else 0.0

    def _samples(
        self, variables: Sequence[ir.Value], given: Mapping[ir.Value, int], weight: float
    ) -> Iterator[tuple[Mapping[ir.Value, int], float]]:
        """Values of induction variables, and for how many iterations each stands: the first, the last, and some between."""
        if not variables:
            yield given, weight
            return
        first, *others = variables
        lower, upper, step = (self.of(each, given) for each in self.bounds[first])
        values = range(lower, upper, step)
        middle = values[1:-1]
        chosen = middle[:: -(-len(middle) // _MIDDLE)] if middle else middle
        for some, stand_for in ((values[:1], 1.0), (chosen, len(middle) / max(1, len(chosen))), (values[1:][-1:], 1.0)):
            for value in some:
                yield from self._samples(others, {**given, first: value}, weight * stand_for)


def _depth(variable: ir.Value) -> int:
    """How many ops the block of an induction variable is in."""
    block: Any = variable.owner  # Of a block's argument, which upstream's hint calls an op.
    op, depth = block.owner.operation, 0
    while op.parent is not None:
        op, depth = parent(op), depth + 1
    return depth


def _evaluate(expression: ir.AffineExpr, dims: Sequence[int], symbols: Sequence[int]) -> int:
    if isinstance(expression, ir.AffineConstantExpr):
        return ir.AffineConstantExpr(expression).value
    if isinstance(expression, ir.AffineDimExpr):
        return dims[ir.AffineDimExpr(expression).position]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[ir.AffineSymbolExpr(expression).position]
    for kind, compute in _BINARY:
        if isinstance(expression, kind):
            both = ir.AffineBinaryExpr(expression)
            return compute(_evaluate(both.lhs, dims, symbols), _evaluate(both.rhs, dims, symbols))
    raise UnknownValueError
