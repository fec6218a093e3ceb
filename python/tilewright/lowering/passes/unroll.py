# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several steps over K in one iteration of the loops that multiply, so that counters and addresses cost less.

LLVM does so by itself where loops are small. A step that takes elements of A by lane is as long as a register has lanes, and its
loop too large for that. But LLVM would make straight-line code of a loop of a few such steps, and load so far ahead in it that
sums are spilled: of 48 x 48 x 64 in bytes on neoverse-v2, 64 accesses of the stack. It is told not to.
"""

from __future__ import annotations

from tilewright.build.index import known
from tilewright.build.usedef import body, in_block, named
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import loop
from tilewright.schedules import steps

_PRODUCTS = 100
"""Multiply-adds of an iteration from which on the rest hides behind them. LLVM's model of neoverse-n1 has, of the bound of f32,
96.8 % with 64 and 99.8 with 128; of f64, 85.7 with 36, 89.9 with 72 and 93.4 with 144; of sdot 91 with 64 and 95.5 with 128."""
_MOST_STEPS = 4
"""A loop of few multiply-adds has few sums, and gains little from yet longer iterations."""
_LEAST_TRIPS = 2
"""Iterations that are left of a loop at least: of fewer, MLIR makes straight-line code."""
_MULTIPLYING = frozenset({"vector.fma", "llvm.call_intrinsic", "arith.muli"})
_MARK = "steps_"
_ANNOTATION = "loop_annotation"
_AS_THEY_ARE = "#llvm.loop_annotation<unroll = <disable = true>>"


def mark(module: ir.Module, asked: int = 0) -> tuple[int, ...]:
    """Marks the loops that hold sums in registers, for `script`; returns the numbers of steps that it has marked with.

    With `asked`, a schedule asks for so many steps; a loop gets no more than leave it an iteration. Scalable vectors are left alone: a step
    of theirs is as long as the hardware says.
    """
    found: set[int] = set()
    for op in named(module.operation, "scf.for"):
        products = _products(op)
        if op.results and _holds_vectors(op):  # Those over strips too.
            leave(op)
        if products:
            trips = _trips(op)
            count = _count(products, trips) if not asked else min(asked, trips or asked)
            if count > 1:
                op.attributes[f"mark_{_MARK}{count}"] = ir.UnitAttr.get(op.context)
                found.add(count)
    return tuple(sorted(found))


def _products(loop_: ir.Operation) -> int:
    """The multiply-adds of an iteration of a loop that carries vectors, and nothing else; otherwise 0."""
    if not loop_.results or not _holds_vectors(loop_):
        return 0
    return sum(inner.name in _MULTIPLYING for inner in in_block(body(loop_)))


def _holds_vectors(loop_: ir.Operation) -> bool:
    """Whether all that a loop carries are vectors of a known length."""
    return all(isinstance(each.type, ir.VectorType) and not each.type.scalable for each in loop_.results)


def _count(products: int, trips: int | None) -> int:
    """How many steps of `products` multiply-adds to take at once, of `trips`."""
    count = 1
    while products * count < _PRODUCTS and count < _MOST_STEPS and (trips is None or 2 * count * _LEAST_TRIPS <= trips):
        count *= 2
    return count


def _trips(op: ir.Operation) -> int | None:
    """How many steps a loop takes; None when that is not known."""
    lower, upper, step = (known(bound) for bound in list(op.operands)[:3])
    return None if lower is None or upper is None or step is None else -(-(upper - lower) // step)


def keep(module: ir.Module) -> None:
    """Marks all loops, so that LLVM leaves them as they are.

    Where all extents are dynamic, code for many tiles is a fifth smaller so, and no slower: what a tile lacks in sums, steps over K
    that depend on each other do not give.
    """
    for op in named(module.operation, "scf.for"):
        leave(op)


def leave(op: ir.Operation) -> None:
    """Has LLVM leave a loop as it is."""
    op.attributes[f"llvm.{_ANNOTATION}"] = ir.Attribute.parse(_AS_THEY_ARE, op.context)


def script(counts: tuple[int, ...]) -> ir.Module:
    """The script that takes so many steps at once in each loop that is marked with a number. Needs an active `ir.Context`.

    Before: ``for k in 0..K step t: sums += a[k] * b[k]``. After, with two steps::

        for k in 0..K - K % 2t step 2t: sums += a[k] * b[k]; sums += a[k+t] * b[k+t]
        if K % 2t: sums += a[K-t] * b[K-t]
    """
    kind = transform.OperationType.get("scf.for")
    with steps.script() as made:
        for count in counts:
            loops = steps.match_marked(made.root, f"{_MARK}{count}")
            loop.loop_unroll(transform.CastOp(kind, loops).output, factor=count)
        steps.clean(made.functions)
    return made.module


def hand_on(module: ir.Module) -> None:
    """Gives LLVM's branches what `mark` said of loops, under the name by which upstream's translation knows it.

    Upstream's conversion of loops to branches keeps the attribute with the dialect's name before it.
    """
    for op in named(module.operation, "llvm.br", "llvm.cond_br"):
        if f"llvm.{_ANNOTATION}" in op.attributes:
            op.attributes[_ANNOTATION] = op.attributes[f"llvm.{_ANNOTATION}"]
            del op.attributes[f"llvm.{_ANNOTATION}"]
