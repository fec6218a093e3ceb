# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says which loops over memrefs may run their iterations in any order, and at once: those whose race is impossible.

The proof is a simple one, and what it cannot prove stays sequential. For each buffer that the loop writes there is one
dimension along which every access, read or write, lies in a slice that starts at the loop's variable plus something that
does not change in the loop, and that is no longer than the loop's step. Or it lies in panel number `variable / step`, one
panel long. Different iterations then touch different elements.

Upstream proves this for affine loops only (``affine-parallelize``), which ours, with their vectors and steps, are not.
"""

from __future__ import annotations

from tilewright.build.usedef import body, definition, is_below, is_inside
from tilewright.lowering.passes import privatization
from tilewright.lowering.passes.slices import (
    Linear,
    Quotient,
    Slice,
    accesses,
    at_most,
    buffer_of,
    constant,
    linear,
    walk,
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
        keys = [
            {key for s in a.slices if (key := _key(s, variable, step, around, from_zero)) is not None}
            for a in touched
            if a.buffer is None or a.buffer == buffer
        ]
        if not set.intersection(*keys):
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


def _key(s: Slice, variable: ir.Value, step: int, around: ir.Operation, from_zero: bool) -> object | None:
    """What has to be the same for all accesses, for a slice that moves with the loop's variable; otherwise None."""
    for atom, factor in s.start.terms:
        whole = atom == variable and s.size <= factor * step
        part = (
            isinstance(atom, Quotient)
            and atom.value == variable
            and atom.divisor == step
            and from_zero
            and s.size <= factor
        )
        if whole or part:
            rest = frozenset(term for term in s.start.terms if term[0] != atom)
            if not any(is_inside(_value_of(other), around) for other, _ in rest):
                return s.dimension, part, factor, rest, s.start.constant
    return None


def _value_of(atom: object) -> ir.Value:
    return atom.value if isinstance(atom, Quotient) else atom  # pyright: ignore[reportReturnType]
