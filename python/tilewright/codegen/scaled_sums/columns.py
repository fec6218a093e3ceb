# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights that lie side by side along K, in vectors of columns: sums of codes, scaled once a group."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.affine import scaled, slice_size
from tilewright.build.constants import integer, numbers, zero
from tilewright.build.index import Index, add, div, div_rem, less, minimum, value
from tilewright.build.loops import loop, when
from tilewright.build.vectors import bits_as, fixed, read, write
from tilewright.build.views import slice_of
from tilewright.codegen.scaled_sums.along_k_vectors import Ordered
from tilewright.codegen.scaled_sums.multiplicands import multiplicands
from tilewright.codegen.scaled_sums.registers import as_floats, pieces
from tilewright.codegen.scaled_sums.transposed import QUAD, transposed
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector
from tilewright.schedules.decisions import ScaledSums
from tilewright.schedules.models import codes as codes_of
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_LINE = 64
"""Bytes of a column that are transposed at once: a cache line."""
_WORD = 32
"""Bits of what is transposed."""
_GAP = 32
"""Elements by which a row of A is longer than needed, so that rows lie in different sets of the cache."""
_CHAINS_SHARE = 2
"""Sums that a multiply-add goes to in turn, at least, if one way has fewer: one for so many registers, which hides its latency."""
_INTO_L2, _CHUNKS_AHEAD = 2, 3
"""Into which cache codes are prefetched, and how many chunks before they are transposed. Measured on Zen 5, i4 by 8 rows of bf16,
4096 x 4096 from memory, in microseconds: all of the next chunk at once 1078, and a line with each word that is multiplied one chunk before
929, two 903, three 821."""


class Columns:
    """The operands of a product, and how it is computed."""

    def __init__(
        self,
        spec: MatmulSpec,
        target: Target,
        sizes: ScaledSums,
        a: ir.Value,
        codes: ir.Value,
        further: Sequence[ir.Value],
        c: ir.Value,
        *,
        fresh: bool,
    ) -> None:
        """Takes them, and makes the buffers."""
        how = codes_of.of(spec)
        assert how is not None, "the schedule has asked"
        self._spec, self._how, self._sizes, self._fresh = spec, how, sizes, fresh
        self._lanes = target.lanes(spec.acc_type)
        self._f32 = ir.F32Type.get()
        self._codes, self._c, self._scale = codes, c, further[0]
        self._zero_points = further[1] if how.zero_point else None
        self._in_word = _WORD // how.bits
        self._block = _LINE * 8 // how.bits
        self._group = min(how.group or spec.k, spec.k)
        self._vectors = sizes.nr // self._lanes
        strips = -(-spec.n // sizes.nc)
        self._groups = -(-sizes.kc // self._group) + 1
        self._words = self._buffer(strips, sizes.kc // self._in_word, integer(32))
        self._scales = self._buffer(strips, self._groups, self._f32)
        self._zeros: ir.Value | None = None
        self._others: ir.Value | None = None
        self._a_sums: ir.Value | None = None
        self._given = a
        self._take(target, strips)

    def _take(self, target: Target, strips: int) -> None:
        """Says how words are multiplied, and makes buffers of A and of zero points."""
        spec, sizes = self._spec, self._sizes
        self._by = multiplicands(self._how, spec, target, self._lanes)
        chains = target.vector_registers // _CHAINS_SHARE // (sizes.mr * self._vectors)
        self._chains = max(1, min(chains, len(self._by.order) // self._by.per_way))
        width = 2 * self._lanes
        order = [
            self._in_word * (lane // self._in_word) + self._by.order[lane % self._in_word] for lane in range(width)
        ]
        self._a = Ordered(spec, self._given, width, [order], self._by.element, self._by.parts, _GAP)
        if self._zero_points is not None:
            self._zeros = self._buffer(strips, self._groups, self._by.zero_element)
            if self._clamps:
                self._others = self._buffer(strips, self._groups, self._f32)
                self._a_sums = memref.alloc(ir.MemRefType.get([spec.m, -(-spec.k // self._group)], self._f32), [], [])

    def _buffer(self, strips: int, rows: int, element: ir.Type) -> ir.Value:
        """One of `rows` by the columns of a tile for each strip."""
        return memref.alloc(ir.MemRefType.get([strips, rows, self._sizes.nr], element), [], [])

    @property
    def _clamps(self) -> bool:
        """Whether there may be zero points that `elements` does not take."""
        least, most = self._how.zeros
        return least < self._by.least or most > self._by.most

    def write(self) -> None:
        """Writes the loops."""
        n, nc = self._spec.n, self._sizes.nc
        self._prepare()
        if nc >= n:
            self._strip(0, n)
            return
        with loop(0, n, nc) as (jc, _, _):
            self._strip(jc, slice_size(nc, jc, n))

    def _prepare(self) -> None:
        """Puts A in order."""
        self._a.prepare()
        if self._a_sums is not None:
            self._sum_a()

    def _sum_a(self) -> None:
        """Sums A over each group."""
        k, group, lanes = self._spec.k, self._group, self._lanes
        with loop(0, self._spec.m, 1) as (i, _, _):
            for whole, first, last in pieces(k, group):
                with loop(first, last, group) as (start, _, _):
                    end = group if whole else k % group
                    total = zero(fixed(lanes, self._f32))
                    for inside, begin, stop in pieces(end, lanes):
                        with loop(begin, stop, lanes, [total]) as (at, (held,), made):
                            some = as_floats(
                                read(self._given, [i, add(start, at)], lanes, inside=inside), self._spec.a_type
                            )
                            scf.yield_([arith.addf(held, some)])
                        total = made.results[0]
                    sum_ = vector.ReductionOp(
                        self._f32, vector.CombiningKind.ADD, total, fastmath=arith.FastMathFlags.reassoc
                    ).result
                    memref.store(sum_, self._a_sums, [i, value(div(start, group))])

    def _strip(self, jc: Index, width: Index) -> None:
        """Computes `width` columns from `jc` on."""
        spec, nr = self._spec, self._sizes.nr
        self._first, self._width = jc, width
        self._out = slice_of(self._c, [0, jc], [spec.m, width])
        self._of_strip = {
            name: None if each is None else slice_of(each, [div(jc, self._sizes.nc), 0, 0], [1, *_shape(each)[1:]])
            for name, each in (
                ("words", self._words),
                ("scales", self._scales),
                ("zeros", self._zeros),
                ("others", self._others),
            )
        }
        for inside, start, end in pieces(width, nr):
            with loop(start, end, nr) as (j, _, _):
                self._tile(j, inside=inside)

    def _tile(self, j: Index, *, inside: bool) -> None:
        """Computes the columns of a tile, from `j` of the strip on."""
        spec, kc = self._spec, self._sizes.kc
        if self._fresh:
            with loop(0, spec.m, 1) as (i, _, _):
                for v in range(self._vectors):
                    write(zero(fixed(self._lanes, self._f32)), self._out, [i, add(j, v * self._lanes)], inside=inside)
        for whole, first, last in pieces(spec.k, kc):
            with loop(first, last, kc) as (k, _, _):
                self._chunk(j, k, kc if whole else spec.k % kc, inside=inside)

    def _chunk(self, j: Index, k: ir.Value, depth: int, *, inside: bool) -> None:
        """Adds the products of `depth` rows of B."""
        for v in range(self._vectors):
            self._take_words(j, v, k, depth, inside=inside)
        others = [self._take_scales(j, v, k, depth, inside=inside) for v in range(self._vectors)]
        for whole, first, last in pieces(self._spec.m, self._sizes.mr):
            with loop(first, last, self._sizes.mr) as (i, _, _):
                rows = self._sizes.mr if whole else self._spec.m % self._sizes.mr
                self._rows(i, rows, j, k, depth, others, inside=inside)

    def _column(self, j: Index, place: int, *, inside: bool) -> ir.Value:
        """A column of B, by its place in a tile; for one beyond the last, the last one."""
        at = add(self._first, add(j, place))
        return value(at if inside else minimum(at, self._spec.n - 1))

    def _take_words(self, j: Index, v: int, k: ir.Value, depth: int, *, inside: bool) -> None:
        """Transposes the codes of a vector of columns into the buffer of words."""
        width = self._lanes * self._in_word
        for whole, first, last in pieces(depth, self._block):
            with loop(first, last, self._block) as (at, _, _):
                size = self._block if whole else depth % self._block
                for part in range(0, size, width):
                    there = part + width <= size
                    columns = []
                    for c in range(self._lanes):
                        where = [add(k, add(at, part)), self._column(j, v * self._lanes + c, inside=inside)]
                        some = read(self._codes, where, width, inside=there, along=0)
                        columns.append(bits_as(some, integer(32)))
                    for number, words in enumerate(transposed(columns)):
                        word = add(div(at, self._in_word), part // self._in_word + number)
                        write(words, self._of("words"), [0, word, v * self._lanes])

    def _ahead(self, j: Index, k: ir.Value) -> tuple[Index, Index]:
        """Where what is prefetched begins, some chunks after this one: its first row of B, and its first column of the strip."""
        kc, beside = self._sizes.kc, add(j, self._sizes.nr)
        chunks = max(1, self._spec.k // kc)
        distance = min(_CHUNKS_AHEAD, chunks)
        if distance == chunks:
            return k, beside
        there = less(k, (chunks - distance) * kc)
        below, over = add(k, distance * kc), arith.subi(k, value((chunks - distance) * kc))
        return arith.select(there, value(below), over), arith.select(there, value(j), value(beside))

    def _prefetch(self, after: tuple[Index, Index], word: Index) -> None:
        """Asks for the cache lines of the chunk after this one, some while each word is multiplied: as many as there are of both."""
        level, never = ir.IntegerAttr.get(integer(32), _INTO_L2), ir.BoolAttr.get(False)
        line, column = div_rem(word, self._block // self._in_word)
        k, j = after
        for v in range(self._vectors):
            at = [
                value(add(k, scaled(line, self._block))),
                value(add(self._first, add(j, add(column, v * self._lanes)))),
            ]
            memref.PrefetchOp(self._codes, at, never, level, ir.BoolAttr.get(True))

    def _of(self, name: str) -> ir.Value:
        found = self._of_strip[name]
        assert found is not None
        return found

    def _take_scales(self, j: Index, v: int, k: ir.Value, depth: int, *, inside: bool) -> ir.Value | None:
        """Puts the scales and zero points of the groups of a chunk into their buffers; says whether any zero point is left over."""
        start = div(k, self._group)
        any_: ir.Value | None = None
        count = max(1, -(-depth // self._group))
        for first in range(0, count, QUAD):
            size = min(QUAD, count - first)
            at = add(start, first)
            scales = self._by_group(self._scale, 0, j, v, at, size, inside=inside)
            for number, each in enumerate(scales):
                write(each, self._of("scales"), [0, first + number, v * self._lanes])
            if self._zero_points is None:
                continue
            given = self._by_group(self._zero_points, 1, j, v, at, size, inside=inside)
            for number, each in enumerate(given):
                rest = self._keep_zeros(each, [0, first + number, v * self._lanes])
                if rest is not None:
                    any_ = rest if any_ is None else arith.ori(any_, rest)
        if any_ is None:
            return None
        every = vector.ReductionOp(integer(32), vector.CombiningKind.OR, any_).result
        return arith.cmpi(arith.CmpIPredicate.ne, every, zero(integer(32)))

    def _keep_zeros(self, given: ir.Value, place: Sequence[Index]) -> ir.Value | None:
        """Puts zero points into their buffer, those that are known and what they are more; says which are more."""
        whole = arith.fptosi(fixed(self._lanes, integer(32)), given)
        if not self._clamps:
            write(self._by.zeros(whole), self._of("zeros"), place)
            return None
        limits = [numbers(integer(32), [to] * self._lanes) for to in (self._by.least, self._by.most)]
        known = arith.minsi(arith.maxsi(whole, limits[0]), limits[1])
        rest = arith.subi(known, whole)
        write(arith.sitofp(fixed(self._lanes, self._f32), rest), self._of("others"), place)
        write(self._by.zeros(known), self._of("zeros"), place)
        return rest

    def _by_group(
        self, matrix: ir.Value, operand: int, j: Index, v: int, group: Index, count: int, *, inside: bool
    ) -> list[ir.Value]:
        """Scales or zero points of a vector of columns, as f32, for each of at most four groups."""
        lanes, stored = self._lanes, self._spec.further[operand].type
        if not self._how.group:
            at = [add(self._first, add(j, v * lanes))]
            return [as_floats(read(matrix, at, lanes, inside=inside), stored)]
        if count == 1:
            found = [
                memref.load(matrix, [value(group), self._column(j, v * lanes + c, inside=inside)]) for c in range(lanes)
            ]
            kind = fixed(lanes, ir.MemRefType(matrix.type).element_type)
            return [as_floats(vector.from_elements(kind, found), stored)]

        columns = []
        for c in range(lanes):
            at = [group, self._column(j, v * lanes + c, inside=inside)]
            columns.append(as_floats(read(matrix, at, QUAD, inside=count == QUAD, along=0), stored))
        return transposed(columns)[:count]

    def _rows(
        self,
        i: ir.Value,
        rows: int,
        j: Index,
        k: ir.Value,
        depth: int,
        others: Sequence[ir.Value | None],
        *,
        inside: bool,
    ) -> None:
        """Adds the products of some rows of A by the words in the buffer."""
        group = min(self._group, self._sizes.kc)
        for whole, first, last in pieces(depth, group):
            with loop(first, last, group) as (at, _, _):
                size = group if whole else depth % group
                number = div(at, group)
                sums = self._sums(i, rows, k, self._ahead(j, k), at, -(-size // self._in_word), number)
                for v in range(self._vectors):
                    self._finish(i, rows, j, v, k, number, sums, others[v], inside=inside)

    def _sums(
        self, i: ir.Value, rows: int, k: ir.Value, after: tuple[Index, Index], at: ir.Value, words: int, number: Index
    ) -> list[ir.Value]:
        """The sums of a group: for each row and vector."""
        count, chains, lanes = rows * self._vectors, self._chains, self._lanes
        zeros = None
        if self._zeros is not None:
            zeros = [read(self._of("zeros"), [0, number, v * lanes], lanes) for v in range(self._vectors)]
        start = [zero(fixed(lanes, self._f32))] * (count * chains)
        with loop(0, words, 1, start) as (word, sums, made):
            here = add(div(at, self._in_word), word)
            codes = [
                self._by.elements(read(self._of("words"), [0, here, v * lanes], lanes), zeros[v] if zeros else None)
                for v in range(self._vectors)
            ]
            self._prefetch(after, here)
            in_a = add(k, scaled(here, self._in_word))
            for way in range(self._in_word // self._by.per_way):
                for part in self._a.parts:
                    for r in range(rows):
                        left = self._left(part, add(i, r), add(in_a, way * self._by.per_way))
                        for v in range(self._vectors):
                            place = (way % chains) * count + r * self._vectors + v
                            sums[place] = self._by.add(sums[place], left, codes[v][way])
            scf.yield_(sums)
        total: list[ir.Value] = [*made.results]
        for chain in range(1, chains):
            total[:count] = [arith.addf(total[p], total[chain * count + p]) for p in range(count)]
        return total[:count]

    def _left(self, a: ir.Value, i: Index, k: Index) -> ir.Value:
        """Elements of A, in all lanes."""
        if self._by.per_way == 1:
            return vector.broadcast(fixed(self._lanes, self._f32), memref.load(a, [value(i), value(k)]))
        pair = bits_as(read(a, [i, k], 2), integer(32))
        word = vector.extract(pair, [], [0])
        return bits_as(vector.broadcast(fixed(self._lanes, integer(32)), word), ir.BF16Type.get())

    def _finish(
        self,
        i: ir.Value,
        rows: int,
        j: Index,
        v: int,
        k: ir.Value,
        number: Index,
        sums: Sequence[ir.Value],
        others: ir.Value | None,
        *,
        inside: bool,
    ) -> None:
        """Scales the sums of a group, and adds them to C."""
        lanes = self._lanes
        scale = read(self._of("scales"), [0, number, v * lanes], lanes)
        for r in range(rows):
            at = [add(i, r), add(j, v * lanes)]
            former = read(self._out, at, lanes, inside=inside)
            write(vector.fma(sums[r * self._vectors + v], scale, former), self._out, at, inside=inside)
        if others is None:
            return
        # (code - zero point) is (code - known) + (known - zero point), which have one sign: nothing cancels.
        with when(others):
            rest = read(self._of("others"), [0, number, v * lanes], lanes)
            there = arith.cmpf(arith.CmpFPredicate.UNE, rest, zero(rest.type))
            for r in range(rows):
                at = [add(i, r), add(j, v * lanes)]
                former = read(self._out, at, lanes, inside=inside)
                one = memref.load(self._a_sums, [value(add(i, r)), value(add(div(k, self._group), number))])
                more = arith.mulf(vector.broadcast(fixed(lanes, self._f32), one), rest)
                found = vector.fma(more, scale, former)
                write(arith.select(there, found, former), self._out, at, inside=inside)


def _shape(buffer: ir.Value) -> list[int]:
    return [*ir.MemRefType(buffer.type).shape]
