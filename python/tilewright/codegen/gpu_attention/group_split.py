# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of parts of the keys, added up by the blocks of a cluster through their shared memory.

Each block has a maximum m, a sum of weights l and results O of its own keys. When all have written theirs to their shared memory::

    M = the largest m of all blocks;  a[b] = exp(m[b] - M)
    O / l = sum of a[b] * O[b] / sum of a[b] * l[b]              # each block has some of the columns, in the same order of blocks

Source: Dao, Haziza, Massa, Sizov: "Flash-Decoding for long-context inference", 2023, where a second kernel does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tilewright.build.index import add, equal, mul
from tilewright.build.loops import when
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.barriers import meet_cluster
from tilewright.codegen.gpu.warp_group_fragments import WARP
from tilewright.codegen.gpu_attention.group_consumer import Sums
from tilewright.codegen.gpu_attention.group_results import GroupResults, Owner, Place, inverse
from tilewright.codegen.gpu_attention.softmax import Softmax
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm
from tilewright.schedules.gpu.warpgroup import WARP_GROUP

_BYTES = 4
"""Of a number."""


@dataclass(frozen=True, slots=True)
class SplitResults:
    """Where results of parts go.

    Attributes:
        results: Where the whole ones do.
        softmax: How weights are computed.
        memory: Shared memory for the numbers of all threads of the block that multiply.
    """

    results: GroupResults
    softmax: Softmax
    memory: ir.Value

    @staticmethod
    def of(results: GroupResults, softmax: Softmax) -> SplitResults:
        """With shared memory that is allocated here."""
        sizes = results.block.sizes
        numbers = results.columns // 2 + 4
        return SplitResults(results, softmax, shared.allocate(numbers * sizes.consumers * WARP_GROUP * _BYTES))

    def write(self, sums: Sums, who: Owner, at: Place) -> None:
        """Writes a thread's results, added up with those of the other blocks."""
        numbers = [*sums.results, *sums.largest, *sums.weights]
        place = mul(add(mul(who.warp, WARP), who.lane), _BYTES)
        for number, each in enumerate(numbers):
            llvm.store(each, shared.pointer(self.memory, add(place, self._offset(number))))
        meet_cluster()
        split, height, count = self.results.block.sizes.split, len(sums.largest), len(sums.results)
        own = shared.pointer(self.memory, place)
        blocks = [nvvm.mapa(ir.Type.parse("!llvm.ptr<7>"), own, shared.i32(rank)) for rank in range(split)]
        largest = [self._of_all(blocks, count + row) for row in range(height)]
        weights = [self._of_all(blocks, count + height + row) for row in range(height)]
        most = [reduce(arith.maxnumf, each) for each in largest]
        scales = [
            [self.softmax.power(arith.subf(each, top)) for each in own] for own, top in zip(largest, most, strict=True)
        ]
        factors = [inverse(_weighted(own, scale)) for own, scale in zip(weights, scales, strict=True)]
        eights = self.results.columns // 8
        per = max(1, eights // split)
        for turn, first in enumerate(range(0, eights, per)):
            with when(equal(self.results.block.rank, turn % split)):
                some = range(first, first + per)
                results = list(sums.results)
                for number in (4 * eight + each for eight in some for each in range(4)):
                    results[number] = _weighted(self._of_all(blocks, number), scales[number // 2 % 2])
                self.results.write_chunk(some, results, factors, at)
        meet_cluster()  # Until then other blocks read from this one's memory.

    def _of_all(self, blocks: Sequence[ir.Value], number: int) -> list[ir.Value]:
        """A thread's number as each block has it, given where in each of them the thread's are."""
        pointer, byte = ir.Type.parse("!llvm.ptr<7>"), ir.TypeAttr.get(ir.IntegerType.get_signless(8))
        places = [llvm.getelementptr(pointer, block, [], [self._offset(number)], byte, None) for block in blocks]
        return [llvm.load(ir.F32Type.get(), each) for each in places]

    def _offset(self, number: int) -> int:
        return number * self.results.block.sizes.consumers * WARP_GROUP * _BYTES


def _weighted(numbers: list[ir.Value], scales: list[ir.Value]) -> ir.Value:
    return reduce(arith.addf, [arith.mulf(each, scale) for each, scale in zip(numbers, scales, strict=True)])
