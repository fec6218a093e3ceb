# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prefetches the next block of an operand while the one before it is multiplied, so that memory works while the arithmetic units do.

Lines come row after row, as they lie. In columns of lines, with a line of each of 64 rows, 4096 x 4096 weights in bf16 came at 18 GB/s on
Zen 5, and row after row at 41.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from itertools import product as product_of
from math import prod

from tilewright.build import index
from tilewright.build.index import Index, known
from tilewright.build.usedef import body, copied, defined_by, definition, in_block, is_below, named, parent
from tilewright.build.views import offsets_of
from tilewright.lowering.passes import workspace
from tilewright.lowering.passes.slices import at_most
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, scf
from tilewright.schedules import decisions
from tilewright.schedules.decisions import Prefetch
from tilewright.schedules.models.prefetching import FEW_ROWS, HELD, SHARE, rows_pay
from tilewright.schedules.models.register_tiles import MANY_REGISTERS
from tilewright.targets.base import Target

_INTO_L2 = 2
"""How near to bring it: LLVM's locality of prefetcht1."""
_BURST = 16
"""Lines that are prefetched at once, at most about. More are spread over the steps of a tile."""
_STEPS, _UNIT = 8, 4
"""Steps of a tile between two bursts, at least; and what they are a multiple of, as an iteration may take so many."""

_MOST_AT_ONCE = 256
"""Lines at most of which prefetches are written out between two strips: tiles of a row or two would have those of all of K there, and code
of half a megabyte."""

_ENDLESS = 1 << 31
"""Steps of an outermost loop over a dynamic extent: more than there are."""
_ROWS_AT_ONCE = {True: 16, False: 4}
"""Rows at most of which a step of tile registers prefetches lines, where the next step of the loop goes on with its sums and where it
begins others: many lines take line fill buffers from the tiles. Measured on one core of Granite Rapids (2026-11-29), 16 and 4 rows, bf16,
B packed in each call, in GFLOP/s: slices, 128 x 768 x 3072 in 128 x 384 x 512 729 and 608, 64 x 2048 x 2048 in 64 x 512 x 256 575 and
411; all of K at once, 384 x 1024 x 1024 in 32 x 256 x 1024 982 and 1168."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop from a constant on.

    Attributes:
        op: The loop.
        first: Where it starts.
        step: Its step; of a dynamic extent in even tiles, that of the largest ones, in whose code it is.
        trips: Its steps at most.
    """

    op: ir.Operation
    first: int
    step: int
    trips: int

    @classmethod
    def of(cls, op: ir.Operation) -> _Loop | None:
        """The loop, if it is one whose steps are bounded, or the outermost one."""
        if op.name != "scf.for":
            return None
        first, last, step = known(op.operands[0]), bound(op.operands[1]), known(op.operands[2])
        if last is None and parent(op).name == "func.func":
            last, step = _ENDLESS, step or _largest_tile(op)
        if first is None or last is None or not step:
            return None
        return cls(op, first, step, max(1, -(-(last - first) // step)))

    @property
    def variable(self) -> ir.Value:
        """Its induction variable."""
        return body(self.op).arguments[0]

    @property
    def number(self) -> Index:
        """The number of the step."""
        return index.div(index.sub(self.variable, self.first), self.step)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of an operand, of which each step of a loop copies another one.

    Attributes:
        loop: The loop.
        operand: The operand.
        start: What is added up to where the block starts, for rows and columns.
        inside: The loops that go through the block.
        rows: Its rows.
        columns: Its columns.
        writes: Whether it is written.
    """

    loop: _Loop
    operand: ir.Value
    start: tuple[list[Index], list[Index]]
    inside: Sequence[_Loop]
    rows: int
    columns: int
    writes: bool = False

    @property
    def along_k(self) -> bool:
        """Whether the loop over k goes along its rows, so that each row has an address of its own: it is one of A."""
        return any(each.op.results and depend(self.start[1], each.variable) for each in self.inside)

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        element = workspace.bytes_of(ir.MemRefType.get([1], ir.MemRefType(self.operand.type).element_type))
        return self.rows * self.columns * element


def _sizes(loop: ir.Operation) -> ir.Operation | None:
    """What chooses among the code for tiles of 1, 2, ... rows in the body of a loop over a dynamic extent; None for other loops."""
    return next((each for each in in_block(body(loop)) if each.name == "scf.index_switch"), None)


def _largest_tile(loop: ir.Operation) -> int | None:
    """The rows of the largest tiles of a loop over a dynamic extent, or None."""
    switch = _sizes(loop)
    if switch is None or defined_by(switch.operands[0], "affine.min") is None:
        return None  # Or sizes are counted in whole vectors.
    return len(ir.DenseI64ArrayAttr(switch.attributes["cases"])) + 1


def bound(value: ir.Value) -> int | None:
    """A constant that an index never exceeds: as `at_most` knows it, or that rounded to whole groups of rows; None when none is known."""
    most, op = at_most(value), definition(value)
    if most is not None or op is None or op.name != "affine.apply" or len(op.operands) != 1:
        return most
    rounded = bound(op.operands[0])
    if rounded is None:
        return None
    with op.context:
        given = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(rounded)])
        found = ir.AffineMap.get(
            0, 0, [ir.AffineMapAttr(op.attributes["map"]).value.results[0].compose(given)]
        ).results[0]
    return found.value if isinstance(found, ir.AffineConstantExpr) else None


def place(function: func.FuncOp, target: Target) -> None:
    """Puts prefetches into the loops of `function` that multiply a block of an operand which was copied before.

    Before::

        for pc: packed_b = B[pc:pc+kc, jc:jc+nc];  for jr: for ir: for k: acc += a[k] * packed_b[jr][k]

    After, with the lines of the next block counted row after row, and as many in each step as make the last one end with the block::

        for pc: packed_b = B[pc:pc+kc, jc:jc+nc];  for jr: for ir: for k: prefetch the next lines of the block at pc+kc;  acc += ...

    Blocks of A or B that are read as they lie are treated likewise. Of A each row has an address of its own. Prefetches in each step take
    registers from these, and sums are moved about (32768 x 32 x 512 in f32 took 1.1 times as long as without any), so they come in bursts::

        for ir: for strip of K: prefetch the next lines of A[ir+mr:ir+2*mr, :];  for k in strip: acc += A[ir:ir+mr, k] * B[k, :]

    For B bursts are worse: its lines come from L2 meanwhile, and wait (32 x 4096 x 4096 in bf16 took 1.1 times as long). What is
    prefetched beyond the last block is harmless.

    Where tiles are narrow, to compute an address in each step takes as long as what it multiplies. There, lines of B come in groups that
    have one address, between strips of K. On Zen 3, f32, in GFLOP/s, so, and line by line: 12 x 1000 x 1000 55 and 34, 64 x 2048 x 2048 64
    and 51, 24 x 768 x 768 67 and 52.

    The rows of a dynamic extent are prefetched likewise where the schedule says that its operands are large, and they are the outermost
    loop.

    So are blocks of what is read where sums are complete, such as a residual, and of a result that is written and never read::

        for ic: packed_a = A[ic:ic+mc, :]
          for jr: for ir: prefetch the next lines of A, R and C at ic+mc;  for k: acc += ...;  C[ic+ir:, jr:] = acc + R[ic+ir:, jr:]

    A core that waits for L2 waits longest behind a burst. Of a function that prefetches rows ahead, all of them are spread over strips of
    K, as many as a tile has rows, or more where lines are many; those of the next tile of C too, which `tilewright-prefetch-tiles` places.
    Measured on Cascade Lake, 8 x 48 sums of f32, packed, in GFLOP/s, in bursts and spread: 2048 x 2048 x 2048 119 and 127,
    768 x 768 x 768 120 and 125.
    """
    large = _larger_than(int(target.l2.bytes * HELD), function)
    spread = decisions.number(function.operation, "rows_ahead", 0) > 0
    grouped = target.vector_registers < MANY_REGISTERS
    for op in named(function.operation, "scf.for"):
        loop = _Loop.of(op)
        if loop is None or loop.trips == 1:
            continue
        switch = _sizes(op)
        tile = body(op) if switch is None else switch.regions[0].blocks[0]
        # Loops that fill what a short panel lacks read nothing.
        nests = [each for each in in_block(tile) if named(each, "scf.for") and named(each, "vector.transfer_read")]
        for before, product in pairwise([None, *nests]):
            # The outermost loop with blocks that L2 holds is the one whose lines lie together.
            if product is None or product.name != "scf.for" or not named(product, "vector.contract"):
                continue
            if named(product, "memref.prefetch"):
                continue
            source = product if before is None or named(before, "vector.contract") else before
            block = _block(loop, source, large)
            blocks = [] if block is None or (source == product and not _pays_in_place(block, target)) else [block]
            blocks += _of_sums(loop, product, large)
            if sum(each.nbytes for each in blocks) <= target.l2.bytes * SHARE:
                for each in blocks:
                    with product.context, product.location:
                        _prefetch(each, product, target.l1.line, spread=spread, grouped=grouped)
    if spread:
        for kernel in named(function.operation, "scf.for"):
            _spread_tile(kernel)


def place_slices(function: func.FuncOp, target: Target) -> None:
    """The same where tile registers multiply: the next slices of A and of B are prefetched while the present ones are multiplied.

    Before::

        for pc: packed_b = B[pc:, jc:];  packed_a = A[ic:, pc:];  for jr: for ir: for k: c += packed_a[ir][k] * packed_b[jr][k]

    After::

        for pc: ...  for jr: for ir: for k: prefetch the next lines of B[pc+kc:, jc:];  prefetch those of A[ic:, pc+kc:];  c += ...

    Each step prefetches lines of the same few rows, so that their addresses are all that takes registers; of blocks so small that there
    would be more rows, memory delivers less than is multiplied anyway.
    """
    large = _larger_than(int(target.l2.bytes * SHARE), function)
    for op in named(function.operation, "scf.for"):
        loop = _Loop.of(op)
        nests = [each for each in in_block(body(op)) if each.name == "scf.for"]
        if loop is None or loop.trips == 1 or not nests or not named(nests[-1], "vector.contract"):
            continue
        *copies, product = nests
        if any(named(copy, "vector.contract") for copy in copies) or named(product, "memref.prefetch"):
            continue
        found = [_block(loop, copy, large) for copy in copies]
        blocks = [each for each in found if each is not None]
        if sum(each.nbytes for each in blocks) <= target.l2.bytes * SHARE:
            for block in blocks:
                with product.context, product.location:
                    _prefetch(block, product, target.l1.line, most_rows=_ROWS_AT_ONCE[_goes_on(loop, product)])


def _goes_on(loop: _Loop, product: ir.Operation) -> bool:
    """Whether each step of a loop adds to the sums of the one before."""
    writes = [list(op.operands) for op in named(product, "vector.transfer_write")]
    starts = [axis for _, base, *indices in writes for axis in located(base, indices)[1]]
    return not any(depend(axis, loop.variable) for axis in starts)


def _pays_in_place(block: _Block, target: Target) -> bool:
    """Whether prefetches help where a block is read as it lies: the hardware follows few streams along rows, as far as they are long."""
    if not block.along_k:
        return block.rows > FEW_ROWS * target.l1.ways
    around = _Loop.of(parent(block.loop.op))
    if around is not None and not any(depend(axis, around.variable) for axis in block.start):
        return False  # A is gone through for each few columns: that takes longer than to fetch it.
    kind = ir.MemRefType(block.operand.type)
    operand = workspace.bytes_of(kind) if kind.has_static_shape else None
    return rows_pay(block.nbytes // block.rows, operand, target)


def _block(loop: _Loop, copy: ir.Operation, large: Callable[[ir.Value], bool]) -> _Block | None:
    """The block of a `large` A or B that `copy` or a product goes through; None where there is none."""
    multiplies = bool(named(copy, "vector.contract"))
    for read in named(copy, "vector.transfer_read"):
        if multiplies and not _loop_around(read).results:
            continue  # It is of C: sums start there.
        operand, start = located(read.operands[0], list(read.operands)[1:3])
        if large(operand):
            return _gone_through(loop, read, ir.VectorType(read.results[0].type), operand, start)
    return None


def _of_sums(loop: _Loop, product: ir.Operation, large: Callable[[ir.Value], bool]) -> list[_Block]:
    """The blocks of the `large` operands that are read or written where sums are complete; none of one that is both."""
    found: dict[ir.Value, tuple[str, _Block | None]] = {}
    for op in named(product, "vector.transfer_read", "vector.transfer_write"):
        writes = op.name == "vector.transfer_write"
        kind, given = (
            (op.operands[0].type, list(op.operands)[1:]) if writes else (op.results[0].type, list(op.operands))
        )
        operand, start = located(given[0], given[1:3])
        if not large(operand):
            continue
        if found.setdefault(operand, (op.name, None))[0] != op.name or _loop_around(op).results:
            found[operand] = "", None  # A sum that goes on, or what is multiplied.
        elif found[operand][1] is None:
            block = _gone_through(loop, op, ir.VectorType(kind), operand, start)
            found[operand] = op.name, None if block is None else replace(block, writes=writes)
    return [block for _, block in found.values() if block is not None]


def located(base: ir.Value, indices: Sequence[ir.Value]) -> tuple[ir.Value, tuple[list[Index], list[Index]]]:
    """What memory a vector of a matrix is of, and what is added up to its row and its column there."""
    start: tuple[list[Index], list[Index]] = (list(indices[:1]), list(indices[1:2]))
    while (slice_ := defined_by(base, "memref.subview")) is not None:
        for axis, offset in zip(start, offsets_of(slice_), strict=False):
            axis.append(offset)
        base = slice_.operands[0]
    return base, start


def _larger_than(held: int, function: func.FuncOp) -> Callable[[ir.Value], bool]:
    """Tells whether a value is a matrix that `function` takes, of more than `held` bytes."""
    unknown = decisions.of(function.operation, decisions.PREFETCH) == Prefetch("all")

    def is_large(operand: ir.Value) -> bool:
        kind = ir.MemRefType(operand.type)
        if definition(operand) is not None or kind.rank != 2:
            return False
        return workspace.bytes_of(kind) > held if kind.has_static_shape else unknown

    return is_large


def _loop_around(op: ir.Operation) -> ir.Operation:
    """The innermost loop that an op is in."""
    op = parent(op)
    while op.name != "scf.for":
        op = parent(op)
    return op


def _gone_through(
    loop: _Loop, op: ir.Operation, kind: ir.VectorType, operand: ir.Value, start: tuple[list[Index], list[Index]]
) -> _Block | None:
    """The block that the loops around `op`, which reads or writes a vector of this `kind`, go through in one step of `loop`."""
    shape = [1, *kind.shape][-2:]
    inside: list[_Loop] = []
    around = parent(op)
    while around != loop.op:
        if around.name == "scf.for":
            found = _Loop.of(around)
            if found is None:
                return None
            inside.append(found)
            for axis in (0, 1):
                if depend(start[axis], found.variable):
                    shape[axis] = max(shape[axis], found.step) + (found.trips - 1) * found.step
        around = parent(around)
    if not any(depend(axis, loop.variable) for axis in start):
        return None
    rows, columns = shape
    return _Block(loop, operand, start, inside, rows, columns)


def _prefetch(
    block: _Block,
    product: ir.Operation,
    line: int,
    *,
    most_rows: int = 0,
    spread: bool = False,
    grouped: bool = False,
) -> None:
    """Puts prefetches into the tiles of `product`; `most_rows` of them in a step, or 0: line by line; `spread` and `grouped` as `place`."""
    kernels = [op for op in named(product, "scf.for") if _is_kernel(op)]
    if len(kernels) != 1:
        return
    kernel = _strips_of(kernels[0]) or kernels[0]
    if kernel != kernels[0] and not (spread or grouped):
        return
    around: list[_Loop | None] = []
    op = parent(kernel)
    while op != block.loop.op:
        if op.name == "scf.for":
            around.append(_Loop.of(op))
        op = parent(op)
    k, tiles = _Loop.of(kernel), [each for each in around if each is not None]
    if k is None or len(tiles) < len(around):
        return
    kind = ir.MemRefType(block.operand.type)
    width = line // workspace.bytes_of(ir.MemRefType.get([1], kind.element_type))
    across, count = -(-block.columns // width), prod(each.trips for each in tiles)
    rows, lines = -(-block.rows // count), _share(block.rows * across, count, across)
    with ir.InsertionPoint(product):
        first, column = _next(block)
    with ir.InsertionPoint(kernel):
        number: Index = 0
        for each in reversed(tiles):
            number = index.add(index.mul(number, each.trips), each.number)
        if most_rows:
            first = index.add(first, index.mul(number, rows))
        else:  # Whole rows, or an even part of one.
            down, over = index.div_rem(index.mul(number, lines), across)
            first, column = index.add(first, down), index.add(column, index.mul(over, width))

    def lines_from(number: Index, at_once: int) -> None:
        for each in range(at_once):
            down, over = index.div_rem(index.add(number, each), across)
            _line(block, index.add(first, down), index.add(column, index.mul(over, width)))

    if most_rows:
        if rows <= most_rows:
            with ir.InsertionPoint(in_block(body(kernel))[0]):
                each_time = -(-across // k.trips)
                over = (
                    index.mul(k.number, each_time) if each_time > 1 else index.div(index.mul(k.number, across), k.trips)
                )
                for down, each in product_of(range(rows), range(each_time)):
                    _line(block, index.add(first, down), index.add(column, index.mul(index.add(over, each), width)))
    elif lines <= _BURST and not spread:
        with ir.InsertionPoint(kernel):
            lines_from(0, lines)
    elif kernel != kernels[0] or ((block.along_k or spread) and k.trips >= 2 * _STEPS):
        steps = max(_STEPS, k.trips * (_MOST_AT_ONCE if spread else _BURST) // lines)
        if spread:
            steps = min(steps, _spread_steps(k))
        strip = _in_strips(k, steps) if kernel == kernels[0] else k
        at_once = -(-lines // strip.trips)
        with ir.InsertionPoint(in_block(body(strip.op))[0]):
            lines_from(index.mul(strip.number, at_once), at_once)
    elif grouped:
        at_once, in_row, groups = _in_groups(lines, across, k.trips)
        strip = _in_strips(k, max(k.trips // groups // _UNIT, 1) * _UNIT)
        with ir.InsertionPoint(in_block(body(strip.op))[0]):
            down, group = index.div_rem(strip.number, in_row)
            start = index.add(column, index.mul(group, at_once * width))
            for each in range(at_once):
                _line(block, index.add(first, down), index.add(start, each * width))
    else:
        at_once = -(-lines // k.trips)
        with ir.InsertionPoint(in_block(body(kernel))[0]):
            number = index.mul(k.number, at_once) if at_once > 1 else index.div(index.mul(k.number, lines), k.trips)
            lines_from(number, at_once)


def _is_kernel(op: ir.Operation) -> bool:
    """Whether a loop is one over k that carries sums."""
    inside = all(each == op for each in named(op, "scf.for"))
    return bool(op.name == "scf.for" and op.results and inside and named(op, "vector.contract"))


def _strips_of(kernel: ir.Operation) -> ir.Operation | None:
    """The loop over strips that a loop over k is in; None where there is none."""
    around = parent(kernel)
    return around if around.name == "scf.for" and around.results else None


def _spread_steps(k: _Loop) -> int:
    """The steps of a strip of which there are as many as a tile has rows."""
    return max(_STEPS, -(-k.trips // ir.VectorType(k.op.results[0].type).shape[0]))


def _spread_tile(kernel: ir.Operation) -> None:
    """Splits a loop over k that starts from sums in memory into strips, over which prefetches of the next ones can be spread."""
    if not _is_kernel(kernel) or _strips_of(kernel) is not None or defined_by(kernel.operands[3], "arith.constant"):
        return
    k = _Loop.of(kernel)
    if k is not None and k.trips >= 2 * _STEPS:
        with kernel.context, kernel.location:
            _in_strips(k, _spread_steps(k))


def _share(lines: int, parts: int, across: int) -> int:
    """Lines of each of `parts` that together have all `lines`, in rows of `across`: whole rows, or what divides one."""
    least = -(-lines // parts)
    if least >= across:
        return -(-least // across) * across
    return next(each for each in range(least, across + 1) if across % each == 0)


def _in_groups(lines: int, across: int, trips: int) -> tuple[int, int, int]:
    """How to prefetch the lines of a tile that takes so many steps: in groups of how many, how many in a row, and how many in all.

    Lines of a group follow each other in a row of so many `across`, so that one address is computed for all of them: there are as few
    in a group as leave it some steps.
    """
    columns = min(lines, across)
    for at_once in (1, 2, 4, 8, columns):
        in_row = -(-columns // at_once)
        groups = in_row * -(-lines // columns)
        if groups * _STEPS <= trips:
            break
    return at_once, in_row, groups


def _in_strips(loop: _Loop, steps: int) -> _Loop:
    """Splits a loop into strips of some steps; returns the loop over strips, in whose body `loop` now is."""
    op, step = loop.op, steps * loop.step
    first, last, _, *carried = op.operands
    with ir.InsertionPoint(op):
        outer = scf.ForOp(first, last, index.value(step), carried)
    for old, new in zip(op.results, outer.results, strict=True):
        old.replace_all_uses_with(new)
    with ir.InsertionPoint(outer.body):
        end = index.value(index.add(outer.induction_variable, step))
        if loop.trips % steps or known(last) is None:
            end = arith.minui(end, last)
    outer.body.append(op)
    for position, value in enumerate((outer.induction_variable, end)):
        op.operands[position] = value
    for position, value in enumerate(outer.inner_iter_args):
        op.operands[3 + position] = value
    with ir.InsertionPoint(outer.body):
        scf.yield_(list(op.results))
    return _Loop(outer.operation, loop.first, step, -(-loop.trips // steps))


def _line(block: _Block, row: Index, column: Index) -> None:
    memref.PrefetchOp(block.operand, index.values([row, column]), block.writes, _INTO_L2, True)


def _next(block: _Block) -> tuple[Index, Index]:
    """The row and the column of an operand where the next block starts: that of the next step, or of the loop around after the last one."""
    loop, around = block.loop, _Loop.of(parent(block.loop.op))
    values: dict[ir.Value, ir.Value] = {each.variable: index.value(each.first) for each in block.inside}
    following = index.value(index.add(loop.variable, loop.step))
    if around is not None:
        more = arith.cmpi(arith.CmpIPredicate.ult, following, loop.op.operands[1])
        after = index.value(index.add(around.variable, around.step))
        values[around.variable] = arith.select(more, around.variable, after)
        following = arith.select(more, following, loop.op.operands[0])
    values[loop.variable] = following
    root = loop.op if around is None else around.op
    row, column = (_sum(axis, values, root) for axis in block.start)
    return row, column


def _sum(parts: Iterable[Index], values: dict[ir.Value, ir.Value], root: ir.Operation) -> Index:
    """The sum of indices with other `values` of the variables of loops in `root`."""
    total: Index = 0
    for part in parts:
        total = index.add(total, part if isinstance(part, int) else moved(part, values, root))
    return total


def moved(value: ir.Value, values: dict[ir.Value, ir.Value], root: ir.Operation) -> ir.Value:
    """An index computed again from other values of the variables of loops in `root`."""
    op = definition(value)
    if value not in values and op is not None and is_below(op, root):
        for operand in op.operands:
            values[operand] = moved(operand, values, root)
        copied(op, values)
    return values.get(value, value)


def depend(parts: Iterable[Index], variable: ir.Value) -> bool:
    """Whether one of some indices is computed from `variable`."""
    for part in parts:
        op = None if isinstance(part, int) else definition(part)
        if part == variable or (op is not None and depend(list(op.operands), variable)):
            return True
    return False
