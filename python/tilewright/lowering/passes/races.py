# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says which loops over memrefs may run their iterations in any order, and at once: those whose race is impossible.

The proof is a simple one, and what it cannot prove stays sequential. For each buffer that the loop writes there is one
dimension along which every access, read or write, starts at the loop's variable plus something that does not change in the
loop, and all of them together reach no farther than the loop's step. Or they start at panel number `variable / step`, and
reach over one panel. Different iterations then touch different elements. What a loop inside moves lies in the slice of all
of that loop's iterations.

Upstream proves this for affine loops only (``affine-parallelize``), which ours, with their vectors and steps, are not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.usedef import body, definition, is_below, is_inside
from tilewright.lowering.passes import privatization
from tilewright.lowering.passes.slices import (
    Access,
    Linear,
    Quotient,
    accesses,
    at_most,
    buffer_of,
    constant,
    linear,
    walk,
    without,
)
from tilewright.mlir import ir


def is_parallel(loop: ir.Operation, around: ir.Operation | None = None) -> bool:
    """Whether the iterations of an ``scf.for`` may run in any order and at once, each with its own `private_buffers`.

    With `around`, a loop that runs this one again and again and touches no memory beside it: whether that is so for all
    iterations of all those runs but those with the same value of this loop's variable, so that each thread may run
    `around` with its own part of this loop.
    """
    around = loop if around is None else around
    step = constant(loop.operands[2])
    touched = accesses(loop)
    if any(is_inside(bound, around) for bound in list(loop.operands)[:3]):
        return False
    if len(loop.results) or step is None or touched is None:
        return False
    variable = body(loop).arguments[0]
    from_zero = linear(loop.operands[0]) == Linear()
    if any(access.writes and access.buffer is None for access in touched):
        return False
    written = {access.buffer for access in touched if access.writes and access.buffer is not None}
    written -= {op.results[0] for op in private_buffers(loop)}
    for buffer in written:
        moved = [
            _moved(a, variable, step, around, from_zero) for a in touched if a.buffer is None or a.buffer == buffer
        ]
        common = set.intersection(*(set(each) for each in moved))
        if not any(_reach([each[key] for each in moved]) <= key.ahead for key in common):
            return False
    return True


def private_buffers(loop: ir.Operation) -> list[ir.Operation]:
    """The allocations outside of a loop that are used in it only, and that each iteration first fills with one write.

    Or that each iteration had for itself: `own_buffers`.
    """
    first: dict[ir.Value, ir.Operation] = {}
    for op in body(loop):
        for inner in walk(op.operation):
            for operand in inner.operands:
                if isinstance(operand.type, ir.MemRefType):
                    buffer = buffer_of(operand)
                    if buffer is not None:
                        first.setdefault(buffer, inner)
    return [
        alloc
        for buffer, op in first.items()
        if (alloc := definition(buffer)) is not None
        and alloc.name == "memref.alloc"
        and not is_inside(buffer, loop)
        and all(is_below(use.owner.operation, loop) for use in buffer.uses)
        and (privatization.is_own(alloc, loop) or (op.parent == loop and _fills(op, buffer)))
    ]


def _fills(op: ir.Operation, buffer: ir.Value) -> bool:
    """Whether an op overwrites a whole buffer, and reads nothing of it."""
    if op.name != "vector.transfer_write" or op.operands[1] != buffer:
        return False
    map_ = ir.AffineMapAttr(op.attributes["permutation_map"]).value
    whole = list(ir.VectorType(op.operands[0].type).shape) == list(ir.MemRefType(buffer.type).shape)
    return whole and map_ == ir.AffineMap.get_identity(map_.n_dims) and len(op.operands) == 2 + map_.n_dims


def are_apart(loop: ir.Operation, others: list[ir.Operation]) -> bool:
    """Whether a parallel loop and the ops after it touch different elements of what either writes, so in any order."""
    end = at_most(loop.operands[1])
    start = linear(loop.operands[0])
    step = constant(loop.operands[2])
    inside = accesses(loop)
    outside = [accesses(op) for op in others]
    if inside is None or end is None or step is None or start.terms or None in outside:
        return False
    last = start.constant + -(-(end - start.constant) // step) * step
    variable = body(loop).arguments[0]
    for other in (access for each in outside for access in each or ()):
        for own in inside:
            if not (own.writes or other.writes) or (own.buffer is not None and own.buffer != other.buffer):
                continue
            if own.buffer is None or not any(
                s.dimension == o.dimension and _starts_beyond(s.start, o.start, variable, last)
                for s in own.slices
                for o in other.slices
            ):
                return False
    return True


def _starts_beyond(own: Linear, other: Linear, variable: ir.Value, last: int) -> bool:
    """Whether `other` is no less than `own` with the loop's `variable` at its end, `last`."""
    if (variable, 1) not in own.terms:
        return False
    difference = other + (own + Linear(frozenset({(variable, -1)}))).times(-1)
    return not difference.terms and difference.constant >= last


@dataclass(frozen=True)
class _Motion:
    """How accesses move with a loop: along which dimension, by what, from where, and so far ahead in each iteration."""

    dimension: int
    ahead: int
    terms: frozenset[tuple[object, int]]


def _moved(
    access: Access, variable: ir.Value, step: int, around: ir.Operation, from_zero: bool
) -> dict[_Motion, tuple[int, int]]:
    """Between which constants, beside all else, an access lies for each way in which it moves with a loop's variable."""
    found: dict[_Motion, tuple[int, int]] = {}
    for s in access.slices:
        start, longer = without(s.start, lambda value: value != variable and is_inside(value, around))
        low, high = start.constant, start.constant + s.size + longer
        for atom, factor in start.terms:
            panel = isinstance(atom, Quotient) and atom.value == variable and atom.divisor == step and from_zero
            rest = [_value_of(other) for other, _ in start.terms if other != atom]
            if (panel or atom == variable) and not any(is_inside(value, around) for value in rest):
                motion = _Motion(s.dimension, factor if panel else factor * step, start.terms)
                before = found.get(motion, (low, high))
                found[motion] = max(low, before[0]), min(high, before[1])
    return found


def _reach(slices: list[tuple[int, int]]) -> int:
    """How many elements lie between the first and the last of slices."""
    return max(high for _, high in slices) - min(low for low, _ in slices)


def _value_of(atom: object) -> ir.Value:
    return atom.value if isinstance(atom, Quotient) else atom  # pyright: ignore[reportReturnType]
