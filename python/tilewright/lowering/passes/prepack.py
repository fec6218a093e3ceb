# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the packing of B out of a bufferized kernel, into a function of its own, so that B can be packed ahead of time.

One schedule serves both: what packing on the fly writes, block after block, into one buffer that is used again, the
function writes one block after the other into a buffer that holds them all, and the kernel reads it there. Nothing here
depends on the order of the elements in a block.

Upstream has no pass for it: it hoists packing within a function, and never across calls.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from tilewright.build.index import known
from tilewright.build.usedef import (
    accesses,
    backward,
    body,
    common,
    erase,
    is_dead,
    operations,
    retype,
    sweep,
    terminator,
    upwards,
)
from tilewright.errors import ScheduleError
from tilewright.lowering.passes import workspace
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith, func, memref
from tilewright.payload.abi import ENTRY
from tilewright.schedules import decisions, select
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import HEADER_BYTES, PackedFormat

_CONSTANT = re.compile(r"^ *(%[\w.$-]+) = arith\.constant (.*)\n", re.MULTILINE)
_VALUE = re.compile(r"%[\w.$-]+")
PACK = f"{ENTRY}_pack_b"
"""Name of the function that packs B."""
FUNCTIONS = (ENTRY, PACK)
"""Those of a module, the second where B comes packed."""

_ALIGNMENT = 64
"""Bytes, a cache line, at a multiple of which each block starts."""
_READS = frozenset(
    {"vector.transfer_read", "vector.load", "vector.maskedload", "memref.load", "memref.prefetch", "amx.tile_load"}
)
_WRITES = {"vector.transfer_write": 1, "vector.store": 1, "vector.maskedstore": 0, "memref.store": 1}
"""Ops that write to memory, and which operand says where."""


_VALUES = frozenset({"affine", "arith", "memref", "vector"})
"""Dialects of which an op that has results does nothing but compute them."""


def separate(module: ir.Module, spec: MatmulSpec, origin: str) -> PackedFormat:
    """Lets the payload's function take a packed B, and adds the function `PACK` that makes it.

    Before: ``matmul(A, B, C)`` with ``for jc: for pc: pack B[pc:, jc:] into P; multiply with P``. After, with block a view
    of packed at the bytes of block (jc, pc)::

        matmul(A, packed, C):  for jc: for pc: multiply with block(jc, pc)
        PACK(B, packed):       for jc: for pc: pack B[pc:, jc:] into block(jc, pc)

    Args:
        module: A bufferized module, allocations still in place.
        spec: What it computes.
        origin: The strategy whose schedule it is, which packs B alike however B is stored; empty where only what packs B says how.

    Returns:
        The format of the packed B. The bytes after its header are the functions' ``memref<BYTESxi8>``.

    Raises:
        ScheduleError: The schedule does not pack all of B into one buffer before it is read.
    """
    kernel = _function(module)
    if spec.is_empty:
        return _nothing(module, kernel, spec)
    with module.context, kernel.location:
        packing = _Packing.of(kernel)
        packer = kernel.operation.clone(ip=ir.InsertionPoint(module.body)).opview
        assert isinstance(packer, func.FuncOp), "as its original"
        packer.attributes["sym_name"] = ir.StringAttr.get(PACK)
        blocks = packing.blocks
        size = blocks.count * blocks.stride
        _keep_packing(packer, size)
        _drop_packing(kernel, packing, size)
    entries = spec.split.entries if spec.split else 1
    nr = decisions.strategy_size(kernel.operation, "nr") if not origin or select.is_in_panels(origin) else 0
    sizes = _sizes(packing.buffer, nr, entries)
    about = [origin or _text(packer), str(packing.buffer), sizes, [(loop.count, loop.step) for loop in blocks.loops]]
    if spec.prologue_b:  # What is packed is what it makes of B.
        about.append(repr(spec.prologue_b))
    digest = hashlib.sha256(json.dumps(about).encode()).digest()[:8]
    return PackedFormat(spec.b_stored.name, spec.k, spec.n, *sizes, HEADER_BYTES + size, digest)


def _sizes(buffer: ir.MemRefType, nr: int, entries: int) -> tuple[int, int, int, int]:
    """nr, kc, nc and depth of panels in a buffer, each of so many `entries`, where a schedule has recorded nr; otherwise zeros."""
    if not nr or buffer.rank < 2 or buffer.shape[-1] % nr:
        return 0, 0, 0, 0
    *panels, groups, width = buffer.shape
    depth = width // nr
    return nr, groups * depth, prod(panels) // entries * nr, depth


def _text(packer: func.FuncOp) -> str:
    """What packs B, as text: it decides the layout.

    What the schedule says of itself is no part of it, nor what constants are called, and how often and where they stand: constants
    stand for themselves.
    """
    with packer.context:
        bare = packer.operation.clone(ip=False)
        for name in list(bare.attributes):
            if name.startswith("tilewright."):
                del bare.attributes[name]
        text = str(bare)
    values = dict(_CONSTANT.findall(text))
    return _VALUE.sub(lambda name: values.get(name[0], name[0]), _CONSTANT.sub("", text))


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over blocks, of `count` steps."""

    op: ir.Operation
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The loops over blocks, outermost first, and the bytes from one block to the next."""

    loops: list[_Loop]
    stride: int

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return prod(loop.count for loop in self.loops)

    def offset(self) -> ir.Value:
        """Builds the place of a block, in bytes, at the insertion point."""
        stride, expression = self.stride, ir.AffineExpr.get_constant(0)
        for position, loop in reversed(list(enumerate(self.loops))):
            index = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_dim(position), loop.step)
            expression, stride = expression + index * stride, stride * loop.count
        if not self.loops:
            return arith.constant(ir.IndexType.get(), 0)
        steps = [body(loop.op).arguments[0] for loop in self.loops]
        return affine.AffineApplyOp(ir.AffineMap.get(len(steps), 0, [expression]), steps).result


@dataclass(frozen=True, slots=True)
class _Packing:
    """Where and how a function packs B.

    Attributes:
        allocation: What it is packed into.
        buffer: The type of that.
        writes: The ops that write there.
        needed: The ops that it takes to do so.
        around: The innermost loop, or the function, around all that touches the allocation.
        blocks: The loops of which each step packs another block.
        again: The loops of which each step packs the same, of any length.
    """

    allocation: ir.Operation
    buffer: ir.MemRefType
    writes: list[ir.Operation]
    needed: set[ir.Operation]
    around: ir.Operation
    blocks: _Blocks
    again: list[ir.Operation]

    @classmethod
    def of(cls, function: func.FuncOp) -> _Packing:
        """Finds the packing of B in `function`.

        Raises:
            ScheduleError: There is none, or not one alone.
        """
        reads = {op for op, _ in accesses(function.arguments[1])}
        found = []
        for op in function.entry_block:
            if isinstance(op, memref.AllocOp):
                touching = list(accesses(op.memref))
                writes = [access for access, operand in touching if _WRITES.get(access.name) == operand]
                needed, _ = backward(writes, function.operation)
                if not reads.isdisjoint(needed):
                    found.append((op.operation, touching, writes))
        if len(found) != 1:
            raise _refusal("does not pack B" if not found else "packs B into several buffers")
        ((allocation, touching, writes),) = found
        needed, arguments = backward(writes, function.operation)
        readers = [op for op, _ in touching if op not in set(writes)]
        around = common([op for op, _ in touching], function.operation)
        _check(function, allocation, needed, readers)
        _check_order(around, writes, readers)
        loops = list(upwards(around))
        _check_loops(loops)
        moving = [_loop(op) for op in reversed(loops) if body(op).arguments[0] in arguments]
        again = [op for op in loops if body(op).arguments[0] not in arguments]
        buffer = ir.MemRefType(allocation.result.type)
        size = -(-workspace.bytes_of(buffer) // _ALIGNMENT) * _ALIGNMENT
        return cls(allocation, buffer, writes, needed, around, _Blocks(moving, size), again)


def _keep_packing(function: func.FuncOp, size: int) -> None:
    """Keeps in `function` what it takes to pack B into its second and last argument, and nothing else."""
    for loop in _Packing.of(function).again:
        loop.operands[1] = loop.operands[
            2
        ]  # It starts at 0: one step, and nothing that says how many there were is needed.
    packing = _Packing.of(function)
    block = function.entry_block
    sweep(block, packing.needed | {packing.allocation, terminator(block)})
    for index in reversed(range(len(block.arguments))):
        if index != 1:
            assert not list(block.arguments[index].uses), "reads of other operands are refused"
            block.erase_argument(index)
    packed = block.add_argument(_bytes_type(size), function.location)
    _retype(function)
    _place(packing, packed)


def _drop_packing(function: func.FuncOp, packing: _Packing, size: int) -> None:
    """Lets `function` read what it packed in its second argument."""
    for op in packing.writes:
        op.erase()
    for op in reversed(operations(function.operation)[1:]):
        if (op in packing.needed or op.name.split(".")[0] in _VALUES) and is_dead(op, packing.needed):
            erase(op)
    block = function.entry_block
    b = block.arguments[1]
    if list(b.uses):
        raise _refusal("reads B for something else than to pack it")
    b.set_type(_bytes_type(size))
    _retype(function)
    _place(packing, b)


def _place(packing: _Packing, packed: ir.Value) -> None:
    """Puts a view of the packed argument in the place of the buffer that B was packed into."""
    blocks = packing.around.regions[0].blocks
    with ir.InsertionPoint.at_block_begin(blocks[0]):
        view = memref.view(packing.buffer, packed, packing.blocks.offset(), [])
    packing.allocation.result.replace_all_uses_with(view)
    packing.allocation.erase()


def _check(
    function: func.FuncOp, allocation: ir.Operation, needed: Iterable[ir.Operation], readers: Iterable[ir.Operation]
) -> None:
    """Checks that the ops that pack B read nothing else, and that what uses the buffer elsewhere only reads it.

    Raises:
        ScheduleError: They do.
    """
    b = function.arguments[1]
    sources = {op for source in (b, allocation.result) for op, _ in accesses(source)}
    for op in needed:
        if op.name in _READS and op not in sources:
            raise _refusal("packs B together with something else")
    for op in readers:
        if op.name not in _READS:
            raise _refusal(f"uses the packed B in a {op.name}")


def _check_order(around: ir.Operation, writes: Iterable[ir.Operation], readers: Iterable[ir.Operation]) -> None:
    """Checks that all writes come before all reads in each step of the loop `around` them.

    Raises:
        ScheduleError: They do not, or `around` is neither a loop nor a function.
    """
    if around.name not in ("scf.for", "func.func"):
        raise _refusal(f"packs B in a {around.name}")
    order = {op.operation: place for place, op in enumerate(body(around))}

    def places(ops: Iterable[ir.Operation]) -> list[int]:
        return [order[next(parent for parent in upwards(op) if parent in order)] for op in ops]

    if max(places(writes), default=0) >= min(places(readers), default=len(order)):
        raise _refusal("packs a part of B after another part was read")


def _check_loops(loops: Iterable[ir.Operation]) -> None:
    """Checks that what is around the packing of B are loops from 0 on.

    Raises:
        ScheduleError: It is something else.
    """
    for op in loops:
        if op.name != "scf.for":
            raise _refusal(f"packs B in a {op.name}")
        if known(op.operands[0]) != 0:
            raise _refusal("packs B in a loop that does not start at 0")


def _loop(op: ir.Operation) -> _Loop:
    """The loop `op` over blocks.

    Raises:
        ScheduleError: Its length is unknown.
    """
    _, end, step = [known(each) for each in list(op.operands)[:3]]
    if end is None or step is None:
        raise _refusal(f"packs B in a {op.name} of unknown length")
    return _Loop(op, step, -(-end // step))


def _nothing(module: ir.Module, kernel: func.FuncOp, spec: MatmulSpec) -> PackedFormat:
    """Adds a function `PACK` that does nothing, for a product that never reads B."""
    with module.context, kernel.location, ir.InsertionPoint(module.body):
        b = kernel.entry_block.arguments[1].type
        packer = func.FuncOp(PACK, ir.FunctionType.get([b, _bytes_type(0)], []), visibility="private")
        with ir.InsertionPoint(packer.add_entry_block()):
            func.ReturnOp([])
    return PackedFormat(spec.b_stored.name, spec.k, spec.n, 0, 0, 0, 0, HEADER_BYTES, bytes(8))


def _function(module: ir.Module) -> func.FuncOp:
    return next(op for op in module.body if isinstance(op, func.FuncOp) and op.name.value == ENTRY)


def _bytes_type(size: int) -> ir.MemRefType:
    return ir.MemRefType.get([size], ir.IntegerType.get_signless(8))


def _retype(function: func.FuncOp) -> None:
    """Gives `function` the type that its arguments have by now."""
    retype(function)
    function.arg_attrs = [ir.DictAttr.get({})] * len(function.arguments)


def _refusal(what: str) -> ScheduleError:
    return ScheduleError(
        f"the schedule {what}",
        where="b_packed=True",
        expected="one loop nest that packs B, alone and into one buffer, before the buffer is read",
        remedy="Use strategy packed with the sizes that its model gives, or b_packed=False",
    )
