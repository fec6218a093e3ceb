# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of a thread of attention: a block has a tile of queries of one head, and goes through its keys with an online softmax.

No transform of upstream's fuses the reductions of a softmax with the products around it into one pass, so the loop is written out::

    bring Q, K[0:kc]
    for j in 0..keys that the block sees step kc:
        await K; threads meet;  bring V[j:j+kc]
        S = scale * Q * K^T + mask                              # each thread has some columns of some rows, in registers
        await V; threads meet;  bring K[j+kc:j+2*kc]
        m' = max(m, the largest of S, of all threads of the row)
        a = exp(m - m'); P = exp(S - m'); l = l * a + sum of P; O = O * a + P * V
    O / (l of all threads of the row)

Instructions of NVIDIA's take P from the registers that S left; others take it from shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.build.constants import constant, zero
from tilewright.build.index import add, div, less, mul, value
from tilewright.build.loops import loop
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu import rows as row_access
from tilewright.codegen.gpu import staging
from tilewright.codegen.gpu.fragments import Staged
from tilewright.codegen.gpu_attention import multipliers, tiles
from tilewright.codegen.gpu_attention.exchange import Exchange, rows_of
from tilewright.codegen.gpu_attention.heads import Matrix, Pages, entry_of, matrix
from tilewright.codegen.gpu_attention.scores import Scores
from tilewright.codegen.gpu_attention.softmax import Softmax
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, memref, scf, vector
from tilewright.schedules.decisions import SharedSoftmax
from tilewright.targets.gpu import GpuTarget


class Thread:
    """What a thread does."""

    def __init__(
        self,
        chain: Chain,
        sizes: SharedSoftmax,
        target: GpuTarget,
        operands: Mapping[str, ir.Value],
        out: ir.Value,
        *,
        aligned: bool,
    ) -> None:
        """Takes the operands by name, and whether rows of queries, keys and values start at multiples of 16 bytes."""
        self._chain, self._sizes = chain, sizes
        self._products = multipliers.of(sizes, chain, target)
        tile, entry = entry_of(chain, operands, gpu.block_id(gpu.Dimension.y), sizes.bm)
        self._queries, self._keys, self._first = entry.queries, entry.keys, mul(tile, sizes.bm)
        head = gpu.block_id(gpu.Dimension.x)
        shared = div(head, chain.group)
        self._q = Matrix.of(operands["q"], entry.query(head, 0), (entry.queries, chain.head))
        if chain.page:
            self._k, self._v = (
                Pages(operands[name], entry, shared, (entry.keys, columns))
                for name, columns in (("k", chain.head), ("v", chain.value_head))
            )
        else:
            self._k = Matrix.of(operands["k"], entry.key(shared, 0), (entry.keys, chain.head))
            self._v = Matrix.of(operands["v"], entry.key(shared, 0), (entry.keys, chain.value_head))
        self._out = matrix(out, entry.query(head, 0), (entry.queries, chain.value_head))
        self._team = staging.Team(gpu.thread_id(gpu.Dimension.x), sizes.threads)
        self._row, self._score_column = self._products.scores.origin(self._team.thread)
        _, self._column = self._products.results.origin(self._team.thread)
        part = self._products.scores.part
        rows = rows_of(self._row, part.rows)
        sharers = self._products.sharers
        shuffled = target.family == "nvidia" and sharers.count * sharers.step <= target.warp
        self._exchange = Exchange(sharers, self._team, rows, sizes.bm, shuffled=shuffled)
        columns = [(right + each) for right, width in part.pieces for each in range(width)]
        self._softmax = Softmax.of(chain, target)
        self._scores = Scores(
            chain,
            chain.scale / self._softmax.scale,
            rows=[add(self._first, each) for each in rows],
            column=self._score_column,
            offsets=columns,
            queries=self._queries,
            keys=self._keys,
            mask=operands.get("mask"),
            place=[*entry.place, head],
        )
        self._tiles = tiles.of(chain, sizes, self._products, self._team, copies=aligned and target.family == "nvidia")

    def emit(self) -> None:
        """Emits it."""
        sizes, f32 = self._sizes, ir.F32Type.get()
        height, width = self._products.results.part.shape
        row = ir.VectorType.get([width], f32)
        self._tiles.q.begin(self._q, self._first)
        self._tiles.k.begin(self._k, 0)
        start = [zero(row)] * height + self._softmax.start(height)
        end = value(self._scores.end(self._first, sizes.bm))
        if self._chain.packed:  # There are places for more blocks than a sequence has.
            end = arith.select(less(self._first, self._queries), end, value(0))
        with loop(0, end, sizes.kc, start) as (first, carried, over):
            scf.yield_(self._step(first, carried[:height], carried[height : 2 * height], carried[2 * height :]))
        self._tiles.finish()  # Also of a block that sees no key.
        gpu.barrier()
        found = list(over.results)
        sums = self._exchange.combined(found[2 * height :], arith.addf)
        self._store(found[:height], sums)

    def _step(
        self, first: ir.Value, results: Sequence[ir.Value], most: Sequence[ir.Value], sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """What a block of keys makes of the results, the largest scores and the sums so far, each by rows."""
        sizes, scores = self._sizes, self._products.scores
        self._tiles.finish()
        gpu.barrier()
        self._tiles.v.begin(self._v, first)
        kind = ir.VectorType.get(scores.part.shape, ir.F32Type.get())
        op = _contract()
        product = scores.multiply(op, Staged(self._tiles.q.tile), Staged(self._tiles.k.tile), 0, zero(kind))
        self._tiles.finish()
        gpu.barrier()
        self._tiles.k.begin(self._k, add(first, sizes.kc))
        height, width = scores.part.shape
        products = [[vector.extract(product, [], [row, each]) for each in range(width)] for row in range(height)]
        block = self._softmax.block(self._scores.seen(products, first, sizes.kc), most, sums, self._exchange)
        scaled = [
            arith.mulf(row, vector.broadcast(row.type, factor))
            for row, factor in zip(results, block.factors, strict=True)
        ]
        made = self._multiplied(op, block.weights, scaled)
        op.erase()
        return [*made, *block.largest, *block.sums]

    def _multiplied(
        self, op: ir.Operation, weights: Sequence[Sequence[ir.Value]], results: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The results with weights by values added, by rows."""
        multiplier, values = self._products.results, Staged(self._tiles.v.tile)
        kind = ir.VectorType.get(multiplier.part.shape, ir.F32Type.get())
        whole = zero(kind)
        for number, row in enumerate(results):
            whole = vector.insert(row, whole, [], [number])
        if self._tiles.weights is None:
            whole = self._products.of_held(weights, values, whole)
        else:
            self._leave(weights, self._tiles.weights)
            gpu.barrier()
            whole = multiplier.multiply(op, Staged(self._tiles.weights), values, 0, whole)
        return [vector.extract(whole, [], [number]) for number in range(len(results))]

    def _leave(self, weights: Sequence[Sequence[ir.Value]], tile: staging.Tile) -> None:
        """Puts a thread's weights into shared memory."""
        part, element = self._products.scores.part, ir.Type.parse(self._sizes.multiplied)
        for below, row in zip(part.rows, weights, strict=True):
            columns = [right + each for right, width in part.pieces for each in range(width)]
            for column, weight in zip(columns, row, strict=True):
                at = tile.at(0, add(self._row, below), add(self._score_column, column))
                memref.store(weight if element == weight.type else arith.truncf(element, weight), tile.buffer, at)

    def _store(self, results: Sequence[ir.Value], sums: Sequence[ir.Value]) -> None:
        """Writes a thread's results, zeros for queries that see no key."""
        part, element = self._products.results.part, ir.Type.parse(self._chain.out)
        extents = (self._queries, self._chain.value_head)
        nothing = zero(ir.F32Type.get())
        one = constant(ir.F32Type.get(), 1)
        for below, row, total in zip(part.rows, results, sums, strict=True):
            some = arith.cmpf(arith.CmpFPredicate.OGT, total, nothing)
            factor = arith.select(some, arith.divf(one, total), nothing)
            whole = arith.mulf(row, vector.broadcast(row.type, factor))
            at, column = add(add(self._first, self._row), below), 0
            for right, width in part.pieces:
                piece = vector.extract_strided_slice(
                    ir.VectorType.get([width], ir.F32Type.get()), whole, [column], [width], [1]
                )
                if element != ir.F32Type.get():
                    piece = arith.truncf(ir.VectorType.get([width], element), piece)
                row_access.store(piece, self._out, (at, add(self._column, right)), extents)
                column += width


def _contract() -> ir.Operation:
    """A product of vectors, which says of those that threads have what it is."""
    f32 = ir.F32Type.get()
    left = zero(ir.VectorType.get([1, 1], f32))
    d = [ir.AffineDimExpr.get(number) for number in range(3)]
    maps = [ir.AffineMap.get(3, 0, each) for each in ([d[0], d[2]], [d[2], d[1]], [d[0], d[1]])]
    iterators = [f"#vector.iterator_type<{each}>" for each in ("parallel", "parallel", "reduction")]
    return ir.Operation.create(
        "vector.contract",
        results=[left.type],
        operands=[left, left, left],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
            "iterator_types": ir.ArrayAttr.get([ir.Attribute.parse(each) for each in iterators]),
            "kind": ir.Attribute.parse("#vector.kind<add>"),
        },
    )
