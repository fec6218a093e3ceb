# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the program of an epilogue in NumPy, with an error bound for each number.

Every step is computed in float64, and the errors are propagated beside it: for a monotone function by the ends of the
interval of possible values, and otherwise by the usual rules of interval arithmetic
(N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002, section 26.4). The step's own
rounding is added: half a unit in the last place of the type, times `ROUNDINGS` for the functions that processors do not have.

An integer is exact until it comes from a float that was rounded: it may then be off by one where, and only where, the float
may lie on the other side of a boundary. A comparison of numbers that may be equal leaves both of its outcomes possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.entries import TRUTH, Chain, TypedEntry
from tilewright.expressions import Step, number
from tilewright.payload.rounding import beyond, limits, overflow, roundoff

ROUNDINGS = {"exp": 3, "log": 3, "tanh": 6, "erf": 5}
"""Errors of the functions that are computed in several operations, in units of 2**-24 (f32) or 2**-53 (f64) of the result."""

_U64 = 2.0**-53
_REFERENCE = 4 * _U64
"""The reference's own error in one step, relative."""
_I32 = 2**31
_RANGES = {"i8": (-128, 127), "u8": (0, 255), "i32": (-_I32, _I32 - 1)}
_erf = np.frompyfunc(math.erf, 1, 1)

_RISING: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_erf(x), np.float64),
    "floor": np.floor,
    "round": np.rint,
}
_EXACT = ("floor", "round")
_FROM_ZERO = ("sqrt", "log")
"""Functions that are NaN below zero, where the lower end of an interval may be."""


@dataclass(frozen=True, slots=True)
class Known:
    """Numbers, or truth values, that are known up to an error.

    Attributes:
        value: The numbers, float64; int64 for integers; bool for truth values.
        error: How far off a kernel's may be; for truth values inf where either may be, and 0 elsewhere.
    """

    value: NDArray[Any]
    error: NDArray[np.float64]


def exact(value: NDArray[Any], element: str) -> Known:
    """Numbers of type `element` that a kernel is given."""
    kind = np.float64 if dtype(element).kind == "float" else np.int64
    return Known(value.astype(kind), np.zeros(value.shape))


def apply(chain: Chain, element: Known, operands: Sequence[Known]) -> Known:
    """Applies all entries of `chain` to `element`, given one of each of its operands, which are broadcast."""
    taken = 0
    with np.errstate(all="ignore"):
        for entry in chain.entries:
            given = operands[taken : taken + len(entry.operands)]
            element = run(chain, entry, element, given)
            taken += len(entry.operands)
    return element


def converted(x: Known, work: str, element: str) -> Known:
    """Numbers of the type `work` rounded to `element`."""
    if work == element:
        return x
    with np.errstate(all="ignore"):
        if dtype(element).kind == "float":
            value = x.value.astype(np.float64)
            return _settled(value, x.error, element, 1, [x])
        lo, hi = _RANGES[element]
        if dtype(work).kind == "float":
            # A kernel rounds to the largest number of f32 below 2**31.
            hi = 2**31 - 2**7 if (element, work) == ("i32", "f32") else hi
            ends = [np.clip(np.rint(x.value + way * x.error), lo, hi) for way in (0, -1, 1)]
            middle, low, high = (np.where(np.isnan(each), float(lo), each) for each in ends)
            wild = np.isinf(x.error)
            return Known(middle.astype(np.int64), np.where(wild, np.inf, np.maximum(middle - low, high - middle)))
        return Known(np.clip(x.value, lo, hi), x.error)


def widened(x: Known, source: str, wide: str) -> Known:
    """Numbers of type `source` in the type `wide`."""
    if source == wide or dtype(source).kind == "float" or wide == "i32":
        return x
    return _settled(x.value.astype(np.float64), x.error, wide, 1 if source == "i32" else 0, [x])


def run(chain: Chain, entry: TypedEntry, element: Known, operands: Sequence[Known]) -> Known:
    """What the program of one entry makes of `element`, given one of each of its operands."""
    found: list[Known] = []
    steps = entry.entry.program.steps

    def argument(index: int, work: str) -> Known:
        if steps[index].op == "constant":
            return _constant(steps[index], work)
        return found[index] if work == TRUTH else widened(found[index], entry.steps[index].result, work)

    for step, typed in zip(steps, entry.steps, strict=True):
        work = typed.work
        if step.op == "constant":
            found.append(_constant(step, "f64"))
        elif step.op == "value":
            found.append(element)
        elif step.op == "operand":
            found.append(operands[int(step.detail)])
        elif step.op == "convert":
            given = argument(step.arguments[0], work)
            if work == "i32" and dtype(step.detail).kind == "float":
                given, work = widened(given, work, chain.compute), chain.compute
            found.append(converted(given, work, step.detail))
        elif step.op == "where":
            condition, x, y = step.arguments
            found.append(_choice(found[condition], argument(x, work), argument(y, work)))
        else:
            found.append(_step(step.op, [argument(each, work) for each in step.arguments], work))
    result = argument(len(steps) - 1, entry.result)
    shape = np.broadcast_shapes(result.value.shape, element.value.shape)
    return Known(np.broadcast_to(result.value, shape), np.broadcast_to(result.error, shape))


def _constant(step: Step, work: str) -> Known:
    """A constant as a kernel has it: rounded to the type."""
    value = number(step.detail)
    if work == "i32":
        return Known(_wrapped(np.asarray(int(value) % 2**32)), np.zeros(()))
    rounded = np.float32(value) if work == "f32" else np.float64(value)
    return Known(np.asarray(rounded, np.float64), np.zeros(()))


def _step(op: str, given: Sequence[Known], work: str) -> Known:
    """The result of one operation on numbers of type `work`, or on truth values."""
    if op in _COMPARISONS:
        x, y = given
        value = _COMPARISONS[op](x.value, y.value)
        reach = x.error + y.error
        near = np.abs(x.value.astype(np.float64) - y.value) <= reach
        return Known(value, np.where((near & (reach > 0)) | np.isinf(reach), np.inf, 0.0))
    if op in _LOGIC:
        error = given[0].error if op == "not" else given[0].error + given[1].error
        return Known(_LOGIC[op](*(each.value for each in given)), error)
    if op in _RISING:
        return _rising(op, given[0], work)
    if op == "negative":
        return Known(_wrapped(-given[0].value) if work == "i32" else -given[0].value, given[0].error)
    if op == "absolute":
        return Known(_wrapped(abs(given[0].value)) if work == "i32" else abs(given[0].value), given[0].error)
    if op in ("maximum", "minimum"):
        return _extreme(op, *given)
    return _arithmetic(op, given, work)


_COMPARISONS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
_LOGIC: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}
_ARITHMETIC: dict[str, Callable[..., NDArray[Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}


def _arithmetic(op: str, given: Sequence[Known], work: str) -> Known:
    """A sum, difference, product or quotient."""
    x, y = given
    value = np.asarray(_ARITHMETIC[op](x.value, y.value))
    if op in ("add", "subtract"):
        error = x.error + y.error
    elif op == "multiply":
        error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
    else:
        smallest = np.abs(y.value) - y.error
        error = (x.error + np.abs(value) * y.error) / smallest
        error = np.where((smallest <= 0) & (y.error > 0), np.inf, error)
    if work == "i32":
        wraps = (np.abs(value) + error >= _I32) & (error > 0)
        return Known(_wrapped(value), np.where(wraps, np.inf, error))
    # What overflows float64 itself is too large to say more.
    finite = np.isfinite(x.value) & np.isfinite(y.value) & (y.value != 0 if op == "divide" else True)
    error = np.where(finite & np.isinf(value), np.inf, error)
    return _settled(value, error, work, 1, given)


def _rising(op: str, x: Known, work: str) -> Known:
    """A monotone function: its values at the ends of an interval bound those inside."""
    function = _RISING[op]
    value = function(x.value)
    below = np.maximum(x.value - x.error, 0) if op in _FROM_ZERO else x.value - x.error
    low, high = function(np.where(x.value < 0, x.value - x.error, below)), function(x.value + x.error)
    error = np.maximum(_gap(value, low), _gap(high, value))
    if op in _FROM_ZERO:
        # Below zero, and near enough to it that a kernel may not be.
        error = np.where((x.error > 0) & (x.value - x.error < 0), np.inf, error)
    return _settled(value, error, work, 0 if op in _EXACT else ROUNDINGS.get(op, 1), [x])


def _extreme(op: str, x: Known, y: Known) -> Known:
    """The larger, or smaller, of two numbers: the error of the one that it surely is, or the larger one."""
    function = np.maximum if op == "maximum" else np.minimum
    lead = x.value - y.value if op == "maximum" else y.value - x.value
    reach = x.error + y.error
    error = np.where(lead > reach, x.error, np.where(lead < -reach, y.error, np.maximum(x.error, y.error)))
    return Known(function(x.value, y.value), error)


def _choice(condition: Known, x: Known, y: Known) -> Known:
    """Gives x or y; where the condition is not sure, the one that it says, or the other."""
    value = np.where(condition.value, x.value, y.value)
    error = np.where(condition.value, x.error, y.error)
    other = np.where(condition.value, y.value, x.value)
    further = _gap(np.maximum(value, other), np.minimum(value, other))
    either = np.maximum(error, further + np.where(condition.value, y.error, x.error))
    return Known(value, np.where(np.isinf(condition.error), np.where(np.isnan(either), np.inf, either), error))


def _gap(high: NDArray[Any], low: NDArray[Any]) -> NDArray[np.float64]:
    """Gives high - low, 0 where both are the same infinity."""
    return np.where(high == low, 0.0, high - low)


def _wrapped(value: NDArray[Any]) -> NDArray[np.int64]:
    """Integers modulo 2**32, from -2**31."""
    return np.asarray((value + _I32) % 2**32 - _I32, np.int64)


def _settled(value: NDArray[Any], error: NDArray[Any], element: str, roundings: float, given: Sequence[Known]) -> Known:
    """A result that was rounded to `element` (`roundings` times as wrongly as by half a unit in the last place).

    It is infinite, for certain, where every number of its interval is too large for the type; where only some are, or where
    an argument could be anything, nothing is promised: the error is infinite.
    """
    row = dtype(element)
    wild = np.any(np.broadcast_arrays(*(np.isinf(each.error) for each in given), np.isposinf(error)), axis=0)
    known = np.where(np.isfinite(value), np.where(np.isnan(error), 0.0, error), 0.0)
    size = np.abs(value)
    if roundings:
        known = known + (roundings * roundoff(row) + _REFERENCE) * (np.where(np.isfinite(value), size, 0.0) + known)
        least = limits(row)
        # Instructions that round to bf16 take subnormal numbers for zeros.
        known += float(least.smallest_normal if element == "bf16" else least.smallest_subnormal) * max(roundings, 1)
    most = overflow(row)
    infinite, maybe = size - known >= most, size + known >= most
    value = np.where(infinite, np.copysign(beyond(row), value), value)
    known = np.where(infinite | np.isnan(value), 0.0, np.where(maybe, np.inf, known))
    return Known(value, np.where(wild, np.inf, known))
