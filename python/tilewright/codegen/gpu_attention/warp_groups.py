# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of a thread of attention on Hopper: one warp group copies keys and values by TMA, the others multiply them by wgmma.

No transform of upstream's divides a loop between those who copy and those who multiply, nor fuses a softmax between products. After::

    if first warp group:                                    # the producer: one thread of it
        copy Q;  copy K[0];  for j in 1..n: copy K[j], V[j - 1];  copy V[n - 1]       # each to its slot, when that is empty
    else:                                                   # a consumer, which has 64 queries
        await Q, K[0];  S = Q * K[0]^T;  P = softmax of S
        for j in 1..n:
            await my turn
            await K[j];       begin S = Q * K[j]^T
            await V[j - 1];   begin O += P * V[j - 1]
            give the turn to the next consumer
            await S;  release K[j];  P' = softmax of S      # while O is still multiplied
            await O;  release V[j - 1];  O *= exp(m - m');  P = P'
        await V[n - 1];  O += P * V[n - 1]
        write O / l

With `merged`, a group's 64 rows are queries of several heads that share keys. With `split`, blocks of a cluster have a part of the keys
each, and add up what they have summed (`group_split`). P is multiplied from the registers that S left. Without `overlap` each block's
weights and values are multiplied before the next block's scores; without `pingpong` there are no turns.

Source: Shah, Bikshandi, Zhang, Thakkar, Ramani, Dao: "FlashAttention-3", 2024, algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.index import add, div, div_rem, equal, less, mul, sub
from tilewright.build.loops import if_else, when
from tilewright.codegen.gpu.barriers import REGISTERS, elected, meet_cluster, set_registers
from tilewright.codegen.gpu.staging import Team
from tilewright.codegen.gpu.warp_group_fragments import WARP, identify
from tilewright.codegen.gpu_attention.exchange import Exchange, Sharers
from tilewright.codegen.gpu_attention.group_block import GroupBlock
from tilewright.codegen.gpu_attention.group_consumer import Consumer
from tilewright.codegen.gpu_attention.group_copies import Copies
from tilewright.codegen.gpu_attention.group_products import HALVES, GroupProducts
from tilewright.codegen.gpu_attention.group_results import GroupResults, Owner, Place
from tilewright.codegen.gpu_attention.group_split import SplitResults
from tilewright.codegen.gpu_attention.softmax import Softmax
from tilewright.mlir import ir
from tilewright.mlir.dialects import gpu, nvvm
from tilewright.schedules.gpu.warpgroup import WARP_GROUP, WARP_ROWS

_QUAD = 4
"""Neighboring threads that have elements of one row."""


@dataclass(frozen=True, slots=True)
class WarpGroupThread:
    """What a thread does.

    Attributes:
        block: Its block's queries and keys.
        products: How warp groups multiply.
        softmax: How weights are computed.
        results: Where results go.
        maps: Tensor maps of queries, keys and values.
    """

    block: GroupBlock
    products: GroupProducts
    softmax: Softmax
    results: GroupResults | SplitResults
    maps: Sequence[ir.Value]

    def emit(self) -> None:
        """Emits it."""
        sizes, rings = self.block.sizes, self.products.rings
        thread = gpu.thread_id(gpu.Dimension.x)
        with when(equal(thread, 0)):
            rings.initialize()
            for map_ in self.maps:
                nvvm.prefetch(map_, tensormap=True)
        gpu.barrier()
        # One consumer has as many registers as a thread can have from the start.
        registers = REGISTERS[sizes.consumers] if sizes.consumers > 1 else None

        def copy() -> None:
            if registers:
                set_registers("decrease", registers[0])
            with when(less(thread, WARP)), when(elected()):
                Copies(self.block, self.products.tiles, rings, self.maps).begin()
            if sizes.split > 1:
                meet_cluster()
                meet_cluster()

        def multiply() -> None:
            if registers:
                set_registers("increase", registers[1])
            self._multiply(thread)

        if_else(less(thread, WARP_GROUP), copy, multiply)

    def _multiply(self, thread: ir.Value) -> None:
        """What a thread does of a group that multiplies."""
        block, sizes = self.block, self.block.sizes
        warp, lane = identify()
        number = div(warp, 4)
        group, place = div_rem(lane, 4)
        row, column = add(mul(warp, WARP_ROWS), group), mul(place, 2)
        rows = [block.row(add(row, half)) for half in HALVES]
        queries = [query for _, query in rows]
        offsets = [8 * eight + each for eight in range(sizes.kc // 8) for each in (0, 1)]
        scores = block.scores(queries, column, offsets, block.chain.scale / self.softmax.scale)
        exchange = Exchange(Sharers(_QUAD, 1), Team(thread, sizes.threads), queries, sizes.bm, shuffled=True)
        own = sub(thread, WARP_GROUP) if block.chain.packed or block.chain.lengths else None
        consumer = Consumer(number, lane, self.products, self.softmax, scores, exchange, *block.steps(), own)
        self.results.write(consumer.results(), Owner(number, warp, lane), Place(rows, column))
