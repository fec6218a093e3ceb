# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs several panels of B at a time, so that packing reads lines of its rows one after the other.

A panel of few vectors, or of small elements, has a few lines or less of each row. Panel by panel, the hardware sees steps from row to
row instead of lines that follow each other, and a line that two panels share is fetched twice: every line, where B does not start with
one. Upstream's unroll-and-jam takes loops whose steps are all alike, and a last panel may have fewer columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.usedef import (
    body,
    copied,
    definition,
    erase,
    in_block,
    is_innermost,
    is_inside,
    named,
    parent,
    upwards,
)
from tilewright.lowering.passes.prefetch_blocks import bound, depend, located
from tilewright.lowering.passes.workspace import bytes_of
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, scf
from tilewright.schedules.models.sizes import ceil_div
from tilewright.targets.base import Target

_LINES = 4
"""Lines of a row of B that are packed together. Packing 2048 x 2048 in f32 from L3 into panels of a line, on Zen 3, in GB/s: where B starts
with a line one at a time 16, four 25, eight 16; where it does not 8.5, 17, 14. Panels of 48 bytes on Cascade Lake, one and six
at a time, u8 by i8, in GFLOP/s: 300 x 1000 x 500 336 and 443, 128 x 3072 x 768 230 and 322, 40 x 1000 x 1000 216 and 247; two of 192 bytes
in place of one, f32, 0.96 to 1.07 times as fast."""


_MOST_PANELS = 16
"""Panels at a time, at most: each has code of its own, and those of two or three bytes would be a hundred."""


@dataclass(frozen=True, slots=True)
class _Packing:
    """A loop over panels.

    Attributes:
        loop: The loop.
        before: What is computed for each panel, of indices.
        whole: What says whether a panel has all its columns; None where all have.
        rows: The loop over rows of a panel that has.
        rest: What is done to a panel besides: where K is no multiple of what an instruction takes, its last rows.
        step: Columns of a panel.
        width: Bytes of a row of B in a panel.
    """

    loop: ir.Operation
    before: list[ir.Operation]
    whole: ir.Value | None
    rows: ir.Operation
    rest: list[ir.Operation]
    step: int
    width: int


def place(function: func.FuncOp, target: Target) -> None:
    """Lets loops of `function` that pack panels of B take several at a time, where panels are narrow.

    Before::

        for jr in 0..n step nr:
          if (jr + nr <= N): for k: packed[jr / nr][k, :] = B[k, jr:jr+nr]
          else: ...

    After, with four at a time::

        for j in 0..n step 4 * nr:
          if (j + 4 * nr <= n and all of them are whole):
            for k: packed[j / nr][k, :] = B[k, j:j+nr]; packed[j / nr + 1][k, :] = B[k, j+nr:j+2*nr]; ...
          else:
            for jr in j..min(j + 4 * nr, n) step nr: ...

    What is done to a panel after that loop is a loop over panels of its own then. Without, such panels were packed one by one: of bytes,
    160 x 2560 x 3568 in one slice took 2.6 times as long as 160 x 2560 x 3584 (Granite Rapids).
    """
    # All are found before one is changed: what is done to a panel after its rows may have loops, which are made anew.
    found = [packing for op in named(function.operation, "scf.for") if (packing := _packing(op)) is not None]
    loops = {packing.loop for packing in found}
    for packing in found:
        if _is_converted(packing, target) or any(around in loops for around in upwards(parent(packing.loop))):
            continue
        last = bound(packing.loop.operands[1])
        panels = _MOST_PANELS if last is None else ceil_div(last, packing.step)
        at_once = min(ceil_div(_LINES * target.l1.line, packing.width), panels, _MOST_PANELS)
        if at_once > 1:
            with packing.loop.context, packing.loop.location:
                _take_together(packing, at_once)


def _packing(loop: ir.Operation) -> _Packing | None:
    """The loop over panels that an op is, which reads columns side by side; None for any other op."""
    inside, step = in_block(body(loop))[:-1], index.known(loop.operands[2])
    if loop.results or not inside or step is None:
        return None
    at = next((at for at, op in enumerate(inside) if op.regions), None)
    if at is None:
        return None
    before, last, rest = inside[:at], inside[at], inside[at + 1 :]
    if any(op.name.startswith("vector.") for op in before) or any(named(op, "vector.contract") for op in rest):
        return None
    whole, rows = None, last
    if last.name == "scf.if" and not last.results:
        whole, (rows, *more) = last.operands[0], in_block(body(last))
        if len(more) != 1:
            return None
    if not is_innermost(rows) or any(is_inside(bound, loop) for bound in list(rows.operands)[:3]):
        return None
    reads = named(rows, "vector.transfer_read")
    if not all(_reads_columns(read, body(loop).arguments[0]) for read in reads) or not (
        reads and named(rows, "vector.transfer_write")
    ):
        return None
    element = ir.MemRefType(located(reads[0].operands[0], [])[0].type).element_type
    return _Packing(loop, before, whole, rows, rest, step, bytes_of(ir.MemRefType.get([step], element)))


def _is_converted(packing: _Packing, target: Target) -> bool:
    """Whether packing converts elements for which there is no instruction: that takes the registers of several panels."""
    elements = {
        str(ir.VectorType(read.results[0].type).element_type) for read in named(packing.rows, "vector.transfer_read")
    }
    return "f16" in elements and "f16c" not in target.features


def _reads_columns(read: ir.Operation, variable: ir.Value) -> bool:
    """Whether columns, and not rows, of an operand that the function takes depend on `variable`."""
    operand, (row, column) = located(read.operands[0], list(read.operands)[1:3])
    taken = definition(operand) is None and ir.MemRefType(operand.type).rank == 2
    return taken and depend(column, variable) and not depend(row, variable)


def _take_together(packing: _Packing, at_once: int) -> None:
    """Splits a loop over panels into steps of so many."""
    if packing.rest:
        _take_apart(packing)
    loop, variable = packing.loop, body(packing.loop).arguments[0]
    first, last, _ = list(loop.operands)[:3]
    with ir.InsertionPoint(loop):
        outer = scf.ForOp(first, last, index.value(packing.step * at_once))
    with ir.InsertionPoint(outer.body):
        end = scf.YieldOp([])
    with ir.InsertionPoint(end):
        start = outer.induction_variable
        beyond = index.add(start, packing.step * at_once)
        together = index.less_equal(beyond, last)
        panels: list[dict[ir.Value, ir.Value]] = []
        for number in range(at_once):
            panels.append({variable: index.value(index.add(start, number * packing.step))})
            for op in packing.before:
                copied(op, panels[-1])
            if packing.whole is not None:
                together = arith.andi(together, panels[-1].get(packing.whole, packing.whole))
        branch = scf.IfOp(together, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        rows = scf.ForOp(*list(packing.rows.operands)[:3])
        scf.YieldOp([])
    with ir.InsertionPoint(rows.body):
        for values in panels:
            values[body(packing.rows).arguments[0]] = rows.induction_variable
            for op in in_block(body(packing.rows))[:-1]:
                copied(op, values)
        scf.YieldOp([])
    with ir.InsertionPoint(branch.operation.regions[1].blocks[0]):
        stop = index.value(index.minimum(beyond, last))
        alone = scf.YieldOp([])
    loop.operands[0], loop.operands[1] = start, stop
    loop.move_before(alone.operation)


def _take_apart(packing: _Packing) -> None:
    """Makes a loop over panels of its own, behind the one over their rows, of the rest that is done to each."""
    inside = in_block(body(packing.loop))
    with ir.InsertionPoint.after(packing.loop):
        other = packing.loop.clone().operation
    erase(in_block(body(other))[len(packing.before)])
    for op in reversed(inside[len(packing.before) + 1 : -1]):
        erase(op)
