# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is added to a tile of C, such as a residual or C itself, in shared memory before the tile's sums are complete.

Upstream reads it where it is added, each thread by itself, and waits for memory each time.

Every box of a warp's part of C has a place of its own. While the tile's products go on, boxes of what is added are copied there; the
finished elements take their places, from where they are copied to C (`tma_stores`).

Before, in each thread: ``part <- f(sums, read residual under a mask)``. After, in each warp::

    before the first products of a tile, one thread:
        await that the copies of the tile before have been read from shared memory
        expect so many bytes at fetched[warp];  for boxes: begin the copy of the residual's box to the place of C's
    await all products;  await fetched[warp]
    for boxes: place <- f(sums, place);  copy the box to C

The two have elements of as many bits, so that their boxes are alike, and swizzled alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import Index, value
from tilewright.build.loops import when
from tilewright.build.usedef import defined_by
from tilewright.codegen.gpu import shared, staging
from tilewright.codegen.gpu.barriers import elected, meet_warp
from tilewright.codegen.gpu.ring import Ring, Turn, cluster_address
from tilewright.codegen.gpu.tma_stores import BoxStores, Chunk
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.mlir import ir
from tilewright.mlir.dialects import nvvm, vector
from tilewright.schedules.gpu.warpgroup import WarpGroupTile

_WARPS = 4
"""Of a consumer."""


def added(ops: Sequence[ir.Operation], element: ir.Type) -> ir.Operation | None:
    """What reads a matrix as the tile lies, of elements of as many bits as C's, among the ops that finish sums; None where nothing does."""
    return next((op for op in ops if op.name == "vector.transfer_read" and _is_like_c(op, element)), None)


def _is_like_c(read: ir.Operation, element: ir.Type) -> bool:
    """Whether an op reads an operand as the tile of C lies, of elements of as many bits as C's `element`."""
    view, kind = read.operands[0], ir.MemRefType(read.operands[0].type)
    permutation = ir.AffineMapAttr(read.attributes["permutation_map"]).value
    if kind.rank != 2 or permutation != ir.AffineMap.get_identity(2) or not _is_operand(view):
        return False
    return staging.neighbors(view) == 1 and bits_of(kind.element_type) == bits_of(element)


def _is_operand(view: ir.Value) -> bool:
    """Whether a view is of an operand, not of sums."""
    while (subview := defined_by(view, "memref.subview")) is not None:
        view = subview.operands[0]
    return isinstance(view, ir.BlockArgument)


class FetchedBoxes(BoxStores):
    """Places for all boxes of C of a tile, how they are filled before, and emptied. Code for the threads of consumers."""

    def __init__(self, sizes: WarpGroupTile, element: ir.Type, box: Box, tensor: ir.Value, source: ir.Value) -> None:
        """Makes it for C of such elements; `tensor` and `source` are the tensor maps of C and of what is added, for that box."""
        super().__init__(sizes, element, box, tensor, every=True)
        self._source = source
        self.ring = Ring(sizes.consumers * _WARPS, 1)
        """Of each warp one barrier object, which tells that its boxes are full."""

    def fetch(self, boxes: Sequence[Sequence[Index]], warp: Index, phase: ir.Value) -> None:
        """Has all boxes of a warp copied, whose first elements have those indices in what is added; in turns of the same `phase`."""
        turn = Turn(value(warp), phase)
        with when(elected()):
            nvvm.cp_async_bulk_wait_group(0, read=True)
            self.ring.expect(turn, len(boxes) * self.bytes)
            for number, at in enumerate(boxes):
                target = cluster_address(shared.pointer(self._memory, self._place_of(number)))
                coordinates = [shared.as_i32(each) for each in reversed(at)]
                nvvm.cp_async_bulk_tensor_shared_cluster_global(
                    target, self._source, coordinates, self.ring.full(turn.slot), []
                )

    def await_boxes(self, warp: Index, phase: ir.Value) -> None:
        """Waits until all boxes of a warp are there."""
        self.ring.await_full(Turn(value(warp), phase))

    def begin(self) -> None:
        """The next place: it was free when it was filled."""
        self._turn()

    def get(self, chunk: Chunk, kind: ir.VectorType) -> ir.Value:
        """A thread's part of what is added to some sums of the box."""
        part, first = zero(kind), chunk.eights[0] // self.eights * self.eights
        for number, eight in enumerate(chunk.eights):
            for (row, column), width, offset in self._neighbors(number, eight - first):
                for each, element in enumerate(self._load(offset, width, kind.element_type)):
                    part = vector.insert(element, part, [], [row, column + each])
        return part

    def put(self, chunk: Chunk, part: ir.Value) -> None:
        """Writes a thread's part of some of a box to its place, when the warp's threads have read what was there."""
        meet_warp()
        super().put(chunk, part)
