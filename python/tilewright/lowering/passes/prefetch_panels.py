# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prefetches panels of B while the ones before them are multiplied, so that memory works while the arithmetic units do.

Upstream has the operation, and no pass that places it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from tilewright.build.index import known
from tilewright.build.usedef import body, in_block, named, parent, terminator
from tilewright.lowering.passes import prefetch_blocks, workspace
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith, func, memref
from tilewright.schedules import decisions
from tilewright.targets.base import Target

_HELD = 4
"""Times the size of L2 up to which a packed B is left to the hardware. On a Zen 4 core, 4 MiB lost 1 % with prefetches;
64 MiB gained 26 % with 8 rows, 9 % with 32 and 2 % with 128; bf16 and int8 more."""
_HELD_BESIDE_TILES = 1 / 2
"""The same where tile registers multiply: what L2 holds beside a block of C. Tiles from beyond it come at 28 % of the speed of products.
And for a core that waits for L2, which the first strip of A would meet each block of B without."""
_INTO_L2 = 2
"""How near to bring it: LLVM's locality of prefetcht1."""


@dataclass(frozen=True, slots=True)
class _Panels:
    """The read of a microkernel from panels of B.

    Attributes:
        read: The read, in the loop over k.
        buffer: The buffer of all panels: [panel][group of rows][columns].
        panel: Which panel is read.
        steps: The loop over k, or over strips of it, whose steps prefetch.
        rows: The loop over rows, around that, of which every step reads the same panels.
        ahead: How many panels follow until what is read when that loop has ended.
        place: What the prefetches of a step come before.
    """

    read: ir.Operation
    buffer: ir.Value
    panel: ir.Value
    steps: ir.Operation
    rows: ir.Operation
    ahead: int
    place: ir.Operation


def place(function: func.FuncOp, target: Target, packed_bytes: int | None, *, tiles: bool = False) -> None:
    """Puts prefetches into the loops of `function` over k, where B comes packed and takes `packed_bytes`; None: it is packed here.

    Before: ``for jr: for ir: for k: acc += a[k] * panel(jr)[k]``. After, with s the steps of ir and k counted from 0, and in
    each step as many lines as make the last one end with the panel::

        for jr: for ir: for k: prefetch lines s of panel(jr + 1); acc += a[k] * panel(jr)[k]

    Where strips of A meet all panels of a block, which is followed by the next one, lines are prefetched between strips of K::

        for ic: for jr: for strip: prefetch lines s of panel(jr + nc / nr);  for k in strip: acc += a[k] * panel(jr)[k]

    With `tiles`, tile registers multiply: they wait for what is not in L2 much longer than others, and there is room for more prefetches.

    A panel that is read only once streams from memory as it is. A prefetch beyond the last panel is harmless.
    """
    if tiles:
        prefetch_blocks.place_slices(function, target)
    else:
        prefetch_blocks.place(function, target)
    waits = decisions.number(function.operation, "rows_ahead", 0) > 0
    held = _HELD_BESIDE_TILES if tiles or waits else _HELD
    if packed_bytes is None or packed_bytes <= held * target.l2.bytes:
        return
    for panels in [found for read in _reads(function.operation) if (found := _panels(read)) is not None]:
        _prefetch(panels, target.l1.line, after=tiles)


def _prefetch(panels: _Panels, line: int, *, after: bool) -> None:
    """Puts prefetches before the read, or `after` the product."""
    times, steps = _steps(panels.rows), _steps(panels.steps)
    if times is None or steps is None:
        return
    kind = ir.MemRefType(panels.buffer.type)
    width = workspace.bytes_of(ir.MemRefType.get([1], kind.element_type))
    size = prod(kind.shape[1:])
    # Elements from one step to the next.
    stride = ceil(size / (times * steps))
    # A product of tiles wants nothing between its reads and itself.
    place = terminator(body(panels.steps)) if after else panels.place
    with panels.read.context, panels.read.location, ir.InsertionPoint(place):
        zero = arith.constant(ir.IndexType.get(), 0)
        buffer, panel = (prefetch_blocks.moved(each, {}, panels.steps) for each in (panels.buffer, panels.panel))
        variables = [_variable(panels.rows), _variable(panels.steps)]
        row, k = (ir.AffineExpr.get_dim(position) for position in range(2))
        row = ir.AffineExpr.get_floor_div(row, known(panels.rows.operands[2]) or 1)
        k = ir.AffineExpr.get_floor_div(k, known(panels.steps.operands[2]) or 1)
        for ahead in range(0, stride * width, line):
            # Counted on from the panel that is read: the next one follows it.
            at = row * (steps * stride) + k * stride + (size * panels.ahead + ahead // width)
            column = affine.AffineApplyOp(ir.AffineMap.get(2, 0, [at]), variables).result
            memref.PrefetchOp(buffer, [panel, zero, column], False, _INTO_L2, True)


def _reads(function: ir.Operation) -> Iterator[ir.Operation]:
    """The reads in loops of `function` that carry sums."""
    for op in named(function, "vector.transfer_read"):
        if parent(op).name == "scf.for" and parent(op).results:
            yield op


def _panels(read: ir.Operation) -> _Panels | None:
    """What `read` reads, when it is a panel of B that is read again in each step of a loop over ir; otherwise None."""
    buffer, panel = read.operands[0], read.operands[1]
    while not isinstance(buffer.owner, ir.Block) and buffer.owner.operation.name == "memref.subview":
        slice_ = buffer.owner.operation
        if len(slice_.operands) < 2:
            return None
        buffer, panel = slice_.operands[0], slice_.operands[1]
    kind = ir.MemRefType(buffer.type)
    # Whole rows of a panel: of A, columns are read.
    whole = kind.rank == 3 and ir.VectorType(read.results[0].type).shape[-1] == kind.shape[-1]
    if not whole or isinstance(buffer.owner, ir.Block):
        return None
    steps, place = parent(read), read
    if parent(steps).name == "scf.for" and parent(steps).results:
        steps, place = parent(steps), in_block(body(parent(steps)))[0]
    inner, outer = parent(steps), parent(parent(steps))
    if inner.name != "scf.for" or outer.name != "scf.for":
        return None
    for rows, columns, ahead in ((inner, outer, 1), (outer, inner, kind.shape[0])):
        again = not any(_depends(each, _variable(rows)) for each in (panel, buffer))
        if again and _depends(panel, _variable(columns)):
            return _Panels(read, buffer, panel, steps, rows, ahead, place)
    return None


def _variable(loop: ir.Operation) -> ir.Value:
    return body(loop).arguments[0]


def _depends(value: ir.Value, variable: ir.Value) -> bool:
    """Whether `value` is computed from `variable`."""
    if value == variable:
        return True
    owner = value.owner
    return not isinstance(owner, ir.Block) and any(_depends(operand, variable) for operand in owner.operation.operands)


def _steps(loop: ir.Operation) -> int | None:
    """The steps of `loop` at most; None when they cannot be told."""
    end, step = _most(loop.operands[1]), known(loop.operands[2])
    return None if end is None or step is None else -(-end // step)


def _most(value: ir.Value) -> int | None:
    """The most that `value` can be: a constant, or one of those in an ``affine.min``."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "affine.min":
        return known(value)
    bounds = ir.AffineMapAttr(owner.operation.attributes["map"]).value.results
    return min((bound.value for bound in bounds if isinstance(bound, ir.AffineConstantExpr)), default=None)
