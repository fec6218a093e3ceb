# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pipeline of several stages: slots in shared memory that go round between those who fill them and those who read them.

Upstream's pipelines (``nvgpu.mbarrier``, ``scf`` pipelining) are for threads that do both.

Each slot has two barrier objects: `full`, at which who fills the slot arrives, and all bytes that are copied to it; and `empty`, at
which every warp arrives that has read it. A turn is a slot and the parity of how often one has been there::

    fills:  turn = first                            reads:  turn = first
            loop: await empty[slot], parity ^ 1             loop: await full[slot], parity
                  expect bytes at full[slot]                      read the slot
                  begin the copies                                arrive at empty[slot]
                  turn = next                                     turn = next

Source: the PTX ISA manual, "mbarrier".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.index import Index, add, div_rem, less, mul, value
from tilewright.build.loops import when
from tilewright.codegen.gpu import shared
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, llvm, nvvm

_TICKS = 0x989680
"""How long a thread sleeps at most before it looks at a barrier again."""
_BYTES = 8
"""Bytes of a barrier object."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Where in the ring one is.

    Attributes:
        slot: The slot.
        parity: 0 or 1, of how often the ring has been gone round.
    """

    slot: ir.Value
    parity: ir.Value

    @property
    def values(self) -> list[ir.Value]:
        """What a loop carries."""
        return [self.slot, self.parity]


class Ring:
    """Barrier objects of a ring of slots, in shared memory."""

    def __init__(self, slots: int, readers: int, blocks: int = 1, beside: int = 1, *, fillers: int = 1) -> None:
        """Makes it for so many slots, each of which `readers` warps of every one of `blocks` blocks of the cluster read.

        Of blocks in rows of `beside`, those of a row and those of a column fill each other's slots. `fillers` arrive at a full slot: one
        says how many bytes are copied to it, others when what they copy themselves is there.
        """
        self._fillers = fillers
        self._slots, self._readers, self._blocks, self._beside = slots, readers, blocks, beside
        self._barriers = shared.allocate(2 * slots * _BYTES)

    def initialize(self) -> None:
        """Initializes the barrier objects: code for one thread, after which all of the cluster meet."""
        for slot in range(self._slots):
            nvvm.mbarrier_init(self.full(slot), shared.i32(self._fillers))
            fill = self._blocks // self._beside + self._beside - 1
            nvvm.mbarrier_init(self.empty(slot), shared.i32(self._readers * fill))
        nvvm.fence_mbarrier_init()

    def full(self, slot: Index) -> ir.Value:
        """The barrier object that tells that a slot is full."""
        return shared.pointer(self._barriers, mul(slot, _BYTES))

    def full_in(self, block: int, slot: Index) -> ir.Value:
        """The same in a block of the cluster, for copies that tell another one: an address of the cluster's memory, whatever its type says.

        Source: the PTX ISA manual, "cp.async.bulk.tensor", ``.cta_group::2``.
        """
        word = ir.IntegerType.get_signless(64)
        place = nvvm.mapa(ir.Type.parse("!llvm.ptr<7>"), self.full(slot), shared.i32(block))
        return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), llvm.ptrtoint(word, place))

    def empty(self, slot: Index) -> ir.Value:
        """The barrier object that tells that a slot is empty."""
        return shared.pointer(self._barriers, add(mul(slot, _BYTES), _BYTES * self._slots))

    def first(self) -> Turn:
        """The first turn."""
        return Turn(value(0), value(0))

    def after(self, turn: Turn, steps: Index = 1) -> Turn:
        """The turn so many steps later."""
        if steps != 1:
            rounds, slot = div_rem(add(turn.slot, steps), self._slots)
            return Turn(value(slot), arith.andi(arith.xori(turn.parity, value(rounds)), value(1)))
        slot = value(add(turn.slot, 1))
        again = arith.cmpi(arith.CmpIPredicate.eq, slot, value(self._slots))
        return Turn(
            arith.select(again, value(0), slot),
            arith.select(again, arith.xori(turn.parity, value(1)), turn.parity),
        )

    def before(self, turn: Turn) -> ir.Value:
        """The slot one step before."""
        first = arith.cmpi(arith.CmpIPredicate.eq, turn.slot, value(0))
        return arith.select(first, value(self._slots - 1), arith.subi(turn.slot, value(1)))

    def await_full(self, turn: Turn) -> None:
        """Waits until a slot has been filled."""
        _await(self.full(turn.slot), turn.parity)

    def await_empty(self, turn: Turn) -> None:
        """Waits until all have read what was in a slot; at once in the first round."""
        _await(self.empty(turn.slot), arith.xori(turn.parity, value(1)))

    def drain(self, turn: Turn) -> None:
        """Waits until all that was in slots has been read, given the turn after the last one: nobody arrives at barrier objects then."""
        for _ in range(self._slots):
            self.await_empty(turn)
            turn = self.after(turn)

    def expect(self, turn: Turn, bytes_: int) -> None:
        """Says how many bytes fill a slot."""
        word = ir.IntegerType.get_signless(64)
        nvvm.mbarrier_arrive_expect_tx(word, self.full(turn.slot), shared.i32(bytes_))

    def release(self, slot: ir.Value, lane: Index) -> None:
        """Says that a warp has read a slot: to each block that fills it, by a thread of its own.

        What a warp has read asynchronously is read when its products have been waited for. It wrote nothing that others of the cluster
        would have to see: an arrival that makes writes known to them (``.release.cluster``) waits in each step for all of the
        thread's accesses to memory (MEMBAR.ALL.GPU), and is not needed.
        """
        with when(self._tells(lane)):
            barrier = self.empty(slot)
            if self._blocks == 1:
                nvvm.mbarrier_arrive(ir.IntegerType.get_signless(64), barrier)
            else:
                remote = nvvm.mapa(ir.Type.parse("!llvm.ptr<7>"), barrier, shared.as_i32(lane))
                nvvm.mbarrier_arrive(None, remote, scope=ir.Attribute.parse("#nvvm.mem_scope<cta>"))

    def _tells(self, lane: Index) -> ir.Value:
        """Whether a thread says so to the block of its number: one that fills this one's slots."""
        exists = less(lane, self._blocks)
        if self._beside in (1, self._blocks):
            return exists
        own = arith.remui(gpu.block_id(gpu.Dimension.x), value(self._blocks))
        same = [
            arith.cmpi(arith.CmpIPredicate.eq, *map(value, places))
            for places in zip(div_rem(lane, self._beside), div_rem(own, self._beside), strict=True)
        ]
        return arith.andi(exists, arith.ori(*same))


def cluster_address(place: ir.Value) -> ir.Value:
    """A pointer to shared memory of this block, as one to that of the cluster: addresses of the former are some of the latter.

    A cast between the two goes through addresses of all memory, for which each step would ask the chip where its window is.
    Source: the PTX ISA manual, "Shared State Space".
    """
    word = ir.IntegerType.get_signless(64)
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<7>"), llvm.ptrtoint(word, place))


def _await(barrier: ir.Value, parity: ir.Value) -> None:
    nvvm.mbarrier_try_wait_parity(barrier, shared.as_i32(parity), shared.i32(_TICKS))
