# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares the loops of a bufferized function between threads, by OpenMP.

Outermost loops whose race is impossible (`races`) become parallel regions of upstream's ``omp`` dialect; everything
between them stays on the calling thread. So of the nest of strategy `packed` the packing of B's panels is one region, the
packing of A's panels another, and the tiles of a block of C, over the rows and the columns, a third; the packed panels are
shared. Upstream's own way, ``scf.parallel`` and ``convert-scf-to-openmp``, deals out flattened iterations, without regard to
rows and columns, and takes the number of threads as a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.build.usedef import body, definition, in_block, is_inside, replace
from tilewright.lowering.passes import privatization, races
from tilewright.lowering.passes.slices import accesses, at_most, constant, linear
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, scf

_MOST_THREADS = "omp_get_max_threads"
"""OpenMP's limit for the next region of the calling thread: the environment, omp_set_num_threads, threadpoolctl."""
_IN_PARALLEL = "omp_in_parallel"
"""Whether the calling thread is one of several in a parallel region already: a caller's, who has given the others work."""

_LEAST_WORK = 1 << 18
"""Elements that a loop multiplies or moves, at least, for a parallel region: some 3 µs, when opening and closing a region
takes 0.4 µs (two cores of a Zen 4, whose threads wait in a loop)."""
_MOVING = 4
"""What moving an element costs, in multiply-adds of one: a vector moved comes from L2 or beyond."""
READING = 8
"""What the first reading of a row or column of packed panels costs, in multiply-adds an element of it: as much as a vector
load from beyond L2, which 8 bytes a cycle and 32 multiply-adds a cycle say. With it 128x768x768 in f32 took 1/1.92 of the time
of one thread, split over columns; over rows, 1/1.77."""
_MOST_PRIVATE_BYTES = 16 << 10
"""Bytes of scratch that each thread may keep on its stack."""


@dataclass(frozen=True)
class Extent:
    """How far a loop runs.

    Attributes:
        trips: Iterations, as far as can be told while compiling.
        step: Elements of each.
    """

    trips: int
    step: int


@dataclass(frozen=True)
class Shared:
    """What threads share.

    Attributes:
        whole: What each thread runs, with its part of `loop`.
        loop: The loop that is split: `whole` itself, or one inside it.
        rest: What comes after `whole`, for one of the threads; such as the last columns, which fill no tile.
    """

    whole: ir.Operation
    loop: ir.Operation
    rest: tuple[ir.Operation, ...] = ()


@dataclass(frozen=True)
class Grid:
    """How many parts the iterations of an outer and an inner loop are split into.

    Attributes:
        outer: Parts of the outer loop.
        inner: Parts of the inner loop.
    """

    outer: int
    inner: int


def grid(outer: Extent, inner: Extent, threads: int, across: int = 0) -> Grid:
    """The split of two nested loops into `threads` parts at most whose largest part takes the least time.

    With `across`, the outer loop has so many parts, if it can.

    That is its area, and what it reads of the operands on both sides, which is less the squarer it is. Of equal splits, the
    one with the most parts of the outer loop, over panels of B: each thread then reads the panels that it packed.
    """

    def cost(split: Grid) -> tuple[int, int, int]:
        columns = -(-outer.trips // split.outer) * outer.step
        rows = -(-inner.trips // split.inner) * inner.step
        return columns * rows + READING * (columns + rows), split.outer * split.inner, split.inner

    return min(
        (
            Grid(columns, rows)
            for columns in _parts(min(outer.trips, threads), across)
            for rows in range(1, min(inner.trips, threads // columns) + 1)
        ),
        key=cost,
    )


def _parts(most: int, wanted: int) -> range:
    """How many parts a loop may have."""
    return range(1, most + 1) if not wanted else range(min(wanted, most), min(wanted, most) + 1)


def share(function: func.FuncOp, threads: int, across: int = 0) -> int:
    """Shares the loops of `function`, in place, between `threads` threads at most. Returns the number of regions made.

    With `across`, so many threads share the outer one of two nested loops, and the others the inner one.

    Before::

        for jr in 0..n step nr: for ir in 0..m step mr: ...

    After, with a grid of 1 x 2::

        cap = omp_in_parallel() ? 1 : min(2, omp_get_max_threads())
        omp.parallel num_threads(cap): omp.wsloop: for part in 0..2:
          for jr in 0..n step nr: for ir in m * part / 2..m * (part + 1) / 2 step mr: ...
    """
    found = list(_candidates(function.entry_block)) if threads > 1 else []
    if not found:
        return 0
    with function.context, function.location:
        most = cap(function, threads)
        for each in found:
            _share_loop(each, threads, most, across)
    return len(found)


def cap(function: func.FuncOp, threads: int) -> ir.Value:
    """How many threads a call uses, asked of OpenMP at its beginning."""
    i32 = ir.IntegerType.get_signless(32)
    with ir.InsertionPoint(function.operation):
        for name in (_MOST_THREADS, _IN_PARALLEL):
            func.FuncOp(name, ([], [i32]), visibility="private")
    with ir.InsertionPoint.at_block_begin(function.entry_block):
        limit = func.CallOp([i32], _MOST_THREADS, []).results[0]
        inside = func.CallOp([i32], _IN_PARALLEL, []).results[0]
        alone = arith.cmpi(arith.CmpIPredicate.ne, inside, arith.constant(i32, 0))
        return arith.select(alone, arith.constant(i32, 1), arith.minsi(limit, arith.constant(i32, threads)))


def region(cap: ir.Value, parts: int) -> tuple[ir.Block, ir.Block, ir.OpView]:
    """Opens a parallel region of up to `cap` threads, which share `parts` parts.

    After::

        omp.parallel num_threads(cap): omp.wsloop: for part in 0..parts: (nothing yet)

    Returns:
        The block that each thread runs, the block of a part, whose argument is its number, and the end of that.
    """
    from tilewright.mlir.dialects import openmp  # 20 ms, which kernels for one thread need not spend

    index = ir.IndexType.get()
    zero, one, count = (arith.constant(index, each) for each in (0, 1, parts))
    outside = openmp.ParallelOp([], [], [], [], num_threads=cap).region.blocks.append()
    with ir.InsertionPoint(outside):
        loop = openmp.WsloopOp([], [], [], [], [], [], nowait=True)  # the region's end waits
        openmp.TerminatorOp()
    with ir.InsertionPoint(loop.region.blocks.append()):
        nest = openmp.LoopNestOp([zero], [count], [one])
    part = nest.region.blocks.append(index)
    with ir.InsertionPoint(part):
        return outside, part, openmp.YieldOp([])


def _candidates(block: ir.Block) -> Iterator[Shared]:
    """The outermost loops in a block that can be shared and do enough work."""
    ops = [each.operation for each in block]
    for at, op in enumerate(ops):
        if op.name not in ("scf.for", "scf.if") or _work(op) < _LEAST_WORK:
            continue
        whole = op.name == "scf.for" and not privatization.is_taken_in_turn(op)
        loop = _loop_to_split(op) if whole else None
        if loop is not None:
            rest = _rest(loop, ops[at + 1 : -1]) if loop == op and not len(ops[-1].operands) else ()
            yield Shared(op, loop, rest)
            if rest:
                return
            continue
        for region in op.regions:
            for inner in region:
                yield from _candidates(inner)


def _rest(loop: ir.Operation, after: list[ir.Operation]) -> tuple[ir.Operation, ...]:
    """All that comes after a loop in its block, when it is no more than an iteration's work, and can be done meanwhile."""
    work = sum(_work(op) for op in after)
    if not 0 < work <= _work(loop) // _extent(loop).trips or not races.are_apart(loop, after):
        return ()
    return tuple(after)


def _loop_to_split(op: ir.Operation) -> ir.Operation | None:
    """The loop to split for threads to share `op`: itself, or one inside it, when nothing else in it touches memory."""
    loop = op
    while not _can_share(loop, op):
        touching = [each.operation for each in body(loop) if accesses(each.operation) != []]
        if len(loop.results) or len(touching) != 1 or touching[0].name != "scf.for":
            return None
        loop = touching[0]
    return loop


def _can_share(loop: ir.Operation, around: ir.Operation) -> bool:
    if not races.is_parallel(loop, around):
        return False
    private = sum(_bytes(op) for op in races.private_buffers(loop) if not privatization.is_own(op, loop))
    return private <= _MOST_PRIVATE_BYTES


def _bytes(alloc: ir.Operation) -> int:
    kind = ir.MemRefType(alloc.results[0].type)
    # At most eight bytes an element: a bound is all that is wanted.
    return 8 * prod(kind.shape) if kind.has_static_shape else _MOST_PRIVATE_BYTES + 1


def _share_loop(shared: Shared, threads: int, cap: ir.Value, across: int) -> None:
    """Makes a parallel region, with the loop right inside the one to split split as well where that is parallel too."""
    loop = shared.loop
    inner = _inner_loop(shared)
    alone = inner is None
    parts = grid(_extent(loop), Extent(1, 1) if alone else _extent(inner), threads, 0 if alone else across)
    own: list[ir.Operation] = []
    private: list[ir.Operation] = []
    for op in races.private_buffers(loop):
        (own if privatization.is_own(op, loop) else private).append(op)
    with ir.InsertionPoint(shared.whole):
        outside, part, end = region(cap, parts.outer * parts.inner)
    number = part.arguments[0]
    shared.whole.move_before(end)
    with ir.InsertionPoint(shared.whole):
        rows = arith.constant(ir.IndexType.get(), parts.inner)
        row = arith.remui(number, rows)
        _restrict(loop, arith.divui(number, rows), parts.outer)
        if inner is not None:
            _restrict(inner, row, parts.inner)
    _leave_to_first(number, shared.rest, end)
    if inner is not None and parts.inner > 1:
        beside = [op.operation for op in inner.block]
        _leave_to_first(row, beside[beside.index(inner) + 1 : -1], beside[-1])
    with ir.InsertionPoint.at_block_begin(part):
        for alloc in own:
            privatization.divide(alloc, parts.outer * parts.inner, number)
    for alloc in private:
        with ir.InsertionPoint.at_block_begin(outside):
            own = memref.alloca(alloc.results[0].type, [], [])
        replace(alloc, own)


def _inner_loop(shared: Shared) -> ir.Operation | None:
    """The loop right inside a parallel one that can be split as well.

    Before it nothing touches memory, and what comes after it touches other elements, so that its last part can do that.
    """
    loop, around = shared.loop, shared.whole
    ops = in_block(body(loop))
    at = next((i for i, op in enumerate(ops) if op.name == "scf.for"), None)
    private = [op for op in races.private_buffers(loop) if not privatization.is_own(op, loop)]
    if at is None or private or any(accesses(op) != [] for op in ops[:at]):
        return None
    inner = ops[at]
    again = None if around == loop else around
    # Bounds made inside the loop around it would make no rectangle.
    if any(is_inside(bound, around) for bound in list(inner.operands)[:3]) or not races.is_parallel(inner, again):
        return None
    rest = [op for op in ops[at + 1 : -1] if accesses(op) != []]
    return inner if not rest or (again is None and races.are_apart(inner, rest)) else None


def _restrict(loop: ir.Operation, part: ir.Value, parts: int) -> None:
    """Lets a loop run its iterations number ``trips * part / parts`` to ``trips * (part + 1) / parts`` only."""
    if parts == 1:
        return
    index = ir.IndexType.get()
    start, end, step = list(loop.operands)[:3]
    one, count = arith.constant(index, 1), arith.constant(index, parts)
    trips = arith.ceildivui(arith.subi(end, start), step)

    def bound(at: ir.Value) -> ir.Value:
        return arith.addi(start, arith.muli(step, arith.divui(arith.muli(trips, at), count)))

    loop.operands[0] = bound(part)
    loop.operands[1] = arith.minui(end, bound(arith.addi(part, one)))


def _leave_to_first(part: ir.Value, ops: Sequence[ir.Operation], before: ir.Operation | ir.OpView) -> None:
    """Moves ops before another one, to be run by the part number 0 only: the iterations left over go to the last ones."""
    if not ops:
        return
    with ir.InsertionPoint(before):
        zero = arith.constant(ir.IndexType.get(), 0)
        branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, part, zero))
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp([])
    for op in ops:
        op.move_before(end)


def _extent(loop: ir.Operation) -> Extent:
    """How far a loop runs at most; once where that cannot be told."""
    start, end = list(loop.operands)[:2]
    step, span = at_most(loop.operands[2]), _span(start, end)
    return Extent(1 if span is None or not step else max(1, -(-span // step)), step or 1)


def _span(start: ir.Value, end: ir.Value) -> int | None:
    """How far an index is from another one at most, or None when that cannot be told; in strips of a loop, by their length."""
    smaller = definition(end)
    if smaller is not None and smaller.name == "arith.minui":
        return min((each for each in (_span(start, of) for of in smaller.operands) if each is not None), default=None)
    apart, most = linear(end) + linear(start).times(-1), at_most(end)
    if not apart.terms:
        return apart.constant
    return None if most is None else most - (constant(start) or 0)


def _work(op: ir.Operation) -> int:
    """Multiply-adds of elements in an op, with what is moved counted as `_MOVING` of them."""
    if op.name == "vector.contract":
        left, right, result = (ir.VectorType(v.type).shape for v in (*list(op.operands)[:2], op.results[0]))
        # Every dimension is in two of the three, but for batches, which there are none of.
        return round((prod(left) * prod(right) * prod(result)) ** 0.5)
    if op.name in ("vector.transfer_read", "vector.transfer_write"):
        vector = op.results[0] if op.name == "vector.transfer_read" else op.operands[0]
        return _MOVING * prod(ir.VectorType(vector.type).shape)
    if op.name in ("memref.load", "memref.store"):
        return _MOVING
    if op.name in ("vector.load", "vector.maskedload", "vector.store", "vector.maskedstore"):
        vector = op.results[0] if op.results else op.operands[0 if op.name == "vector.store" else len(op.operands) - 1]
        return _MOVING * prod(ir.VectorType(vector.type).shape)
    if op.name == "llvm.call_intrinsic":  # Of scalable vectors, those of 128 bits.
        return max((prod(each.type.shape) for each in op.operands if isinstance(each.type, ir.VectorType)), default=0)
    inside = [sum(_work(each.operation) for block in region for each in block) for region in op.regions]
    if op.name == "scf.for":
        return _extent(op).trips * sum(inside)
    return max(inside, default=0)
