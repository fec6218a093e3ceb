# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums in tensor memory: 128 lanes of 512 columns of 32 bits.

One warp allocates columns and gives them back; each of four warps reads a quarter of the lanes.

Source: the PTX ISA manual, "Tensor Memory" and "tcgen05.ld".
"""

from __future__ import annotations

from tilewright.build.index import Index
from tilewright.codegen.gpu import shared
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm

_LEAST_COLUMNS = 32
"""That are allocated: a power of two."""
_LANE_BIT = 16
"""Of an address, the bit at which the number of the lane begins; the column is below."""
_ADDRESS_BYTES = 4
_EIGHT_WORDS = 4
"""What a thread gets of 8 columns of 16 lanes: two neighbors in each of two lanes."""


class TensorMemory:
    """Columns of tensor memory of a block. Code for one warp, or for all threads, as each method says."""

    def __init__(self, columns: int, group: ir.Attribute) -> None:
        """Makes room in shared memory for where so many columns begin, of a block or of both of a pair, as `group` says."""
        self._group = group
        self._columns = max(_LEAST_COLUMNS, 1 << (columns - 1).bit_length())
        self._place = shared.allocate(_ADDRESS_BYTES)

    def allocate(self) -> None:
        """Allocates the columns: one warp, before all threads meet."""
        nvvm.tcgen05_alloc(shared.pointer(self._place), shared.i32(self._columns), group=self._group)
        nvvm.tcgen05_relinquish_alloc_permit(group=self._group)
        fence_before()

    def find(self) -> None:
        """Reads where the columns are: all threads, after they have met."""
        fence_after()
        self._start = llvm.load(ir.IntegerType.get_signless(32), shared.pointer(self._place))

    def free(self) -> None:
        """Gives the columns back: the warp that has allocated them, when all threads have met that use them."""
        fence_after()
        nvvm.tcgen05_dealloc(_pointer(self._start), shared.i32(self._columns), group=self._group)

    def pointer(self, column: Index, lane: Index = 0) -> ir.Value:
        """A pointer to a column, from a lane on."""
        at = arith.addi(self._start, shared.as_i32(column))
        return _pointer(arith.addi(at, arith.shli(shared.as_i32(lane), shared.i32(_LANE_BIT))))

    def load(self, column: Index, lane: Index, eights: int, element: ir.Type) -> list[ir.Value]:
        """Begins to load 16 lanes of so many times 8 columns: those of a warp, whose quarter `lane` is in.

        Of each 8 columns a thread gets two neighbors of one lane, and two of the lane 8 below, as instructions of warps have them. They
        are there after `await_loads`.
        """
        word = ir.IntegerType.get_signless(32)
        kind = ir.VectorType.get([eights * _EIGHT_WORDS], word)
        shape = ir.Attribute.parse("#nvvm.tcgen05_ldst_shape<shape_16x256b>")
        words = nvvm.tcgen05_ld(kind, shape, self.pointer(column, lane))
        found = [llvm.extractelement(words, shared.i32(number)) for number in range(eights * _EIGHT_WORDS)]
        return [each if element == word else llvm.bitcast(element, each) for each in found]


def group_of(blocks: int) -> ir.Attribute:
    """The attribute of instructions of so many blocks: of one, or of a pair."""
    return ir.Attribute.parse(f"#nvvm.cta_group<cta_{blocks}>")


def await_loads() -> None:
    """Waits until all that a thread has begun to load from tensor memory is there."""
    nvvm.tcgen05_wait(ir.Attribute.parse("#nvvm.tcgen05_wait<load>"))


def fence_before() -> None:
    """What a thread has done with tensor memory is done for those who are told so from here on."""
    nvvm.tcgen05_fence(ir.Attribute.parse("#nvvm.tcgen05_fence<before>"))


def fence_after() -> None:
    """What others have done with tensor memory, as the thread has been told, is done for what it begins from here on."""
    nvvm.tcgen05_fence(ir.Attribute.parse("#nvvm.tcgen05_fence<after>"))


def _pointer(address: ir.Value) -> ir.Value:
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<6>"), address)
