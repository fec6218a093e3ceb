# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed panels of a product on scalable vectors, and how they are filled.

Panels of A are ``[K / chunk][mr][chunk]`` elements; those of B ``[K / depth][NR]`` words of `depth` elements, with NR columns, which is
known when the code runs. K is filled with zeros to whole steps. Columns of B beyond the last one are zeros, because loads under a
predicate leave them; rows of A beyond the last one repeat it, and what is computed of them is never written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.affine import scaled
from tilewright.build.constants import bits_of, integer, zero
from tilewright.build.index import Index, add, less, mul, round_down, value
from tilewright.build.loops import if_else, loop
from tilewright.build.vectors import REGISTER_BITS, bitcast, fixed, intrinsic, lane_mask, scalable
from tilewright.build.views import metadata, slice_of, transposed
from tilewright.codegen.block_products import extent
from tilewright.codegen.scalable.tile import Tile
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

_OFFSET_BITS = 64
"""Bits of the offsets of a gather that reaches all of memory."""


def pack_b(tile: Tile, b: ir.Value, panels: ir.Value) -> None:
    """Packs a block of B.

    Before: ``B[k][n]``. After, with `depth` elements of K in a word::

        for jr in 0..n step NR: for g in 0..k / depth: panels[jr / NR][g][0:NR] = words of B[g*depth:, jr:jr+NR]
    """
    k, n = (extent(b, d) for d in (0, 1))
    if tile.b_transposed:
        b = transposed(b)
    depth, columns = tile.dot.depth, tile.columns()
    whole, filled = round_down(k, depth), tile.padded(k)
    with loop(0, n, columns) as (jr, _, _):
        pieces = _pieces(tile)
        end = arith.minui(value(add(jr, columns)), value(n))
        starts = [add(jr, tile.offset(first, tile.word_lanes)) for first, _, _ in pieces]
        base = mul(jr, tile.groups_in(filled))
        # Whole words, and those that are filled up with zeros.
        for first, last, complete in ((0, whole, True), (whole, filled, False)):
            with loop(first, last, depth) as (kk, _, _):
                limits = [end] * depth
                if not complete:
                    limits = [arith.select(less(add(kk, r), k), end, value(0)) for r in range(depth)]
                at = add(base, mul(tile.groups_in(kk), columns))
                for start, (number, lanes, registers) in zip(starts, pieces, strict=True):
                    masks = {limit: lane_mask(lanes, start, limit) for limit in limits}
                    if complete and _are_gathered(tile):
                        words = [_gathered(tile, b, kk, start, masks[end])]
                    else:
                        words = _words(
                            tile,
                            [
                                _load_row(tile, b, add(kk, r), start, masks[limit], lanes)
                                for r, limit in enumerate(limits)
                            ],
                        )
                    for x, word in enumerate(words[:registers]):
                        vector.store(word, panels, [value(add(at, tile.offset(number + x, tile.word_lanes)))])


def _pieces(tile: Tile) -> list[tuple[int, int, int]]:
    """What is packed at once of a row of a panel: its first register of words, elements read for each 128 bits, and registers.

    Rows that lie side by side are read in whole registers, each of which has the elements of several registers of words.
    """
    count, together = tile.across * tile.dot.rows, 1 if tile.b_transposed else tile.dot.depth
    return [(first, together * tile.word_lanes, min(together, count - first)) for first in range(0, count, together)]


def _load_row(tile: Tile, b: ir.Value, row: Index, column: Index, mask: ir.Value, lanes: int) -> ir.Value:
    """`lanes` elements of a row of B for each 128 bits of a register."""
    kind = scalable(lanes, tile.b_element)
    if not tile.b_transposed:
        return vector.maskedload(kind, b, [value(row), value(column)], mask, zero(kind))
    i64 = integer(64)
    leading = arith.index_cast(i64, metadata(b)[3][0])
    steps = _lane_numbers(lanes)
    offsets = arith.muli(steps, vector.broadcast(steps.type, leading))
    return vector.gather(kind, b, [value(column), value(row)], offsets, mask, zero(kind))


def _are_gathered(tile: Tile) -> bool:
    """Whether words lie in one piece, and are as long as the offsets of a gather."""
    return tile.b_transposed and tile.dot.depth > 1 and tile.word_bits == _OFFSET_BITS


def _gathered(tile: Tile, b: ir.Value, row: ir.Value, column: Index, mask: ir.Value) -> ir.Value:
    """A register of words, one of each column, by one gather. Upstream's gathers take elements of a memref's type only."""
    i64, size = integer(_OFFSET_BITS), bits_of(tile.b_element) // 8
    _, offset, _, (leading, _) = metadata(b)
    start = add(add(offset, mul(column, leading)), row)
    address = add(memref.extract_aligned_pointer_as_index(b), mul(start, size))
    pointer = ir.Type.parse("!llvm.ptr")
    base = ir.Operation.create("llvm.inttoptr", [pointer], [arith.index_cast(i64, value(address))]).results[0]
    step = arith.index_cast(i64, value(mul(leading, size)))
    lanes = _lane_numbers(tile.word_lanes)
    offsets = arith.muli(lanes, vector.broadcast(lanes.type, step))
    kind = scalable(tile.word_lanes, tile.word)
    return intrinsic(f"llvm.aarch64.sve.ld1.gather.nxv{tile.word_lanes}{tile.word}", kind, mask, base, offsets)


def _lane_numbers(lanes: int) -> ir.Value:
    """The number of each lane, in 64 bits."""
    index = vector.step(scalable(lanes, ir.IndexType.get()))
    return arith.index_cast(scalable(lanes, integer(64)), index)


def _words(tile: Tile, rows: list[ir.Value]) -> list[ir.Value]:
    """The registers of words of which each of `depth` rows has an element; the first has the lowest bits."""
    kind = scalable(tile.word_lanes, tile.word)
    if len(rows) == 1:
        return [_stored(rows[0], tile.panel_element, unsigned=tile.b_unsigned)]
    bits = bits_of(tile.panel_element)
    if not tile.b_transposed:
        elements = REGISTER_BITS // bits
        all_ = _interleaved([bitcast(scalable(elements, integer(bits)), row) for row in rows])
        parts = [
            vector.scalable_extract(scalable(elements, integer(bits)), all_, i * elements) for i in range(len(rows))
        ]
        return [bitcast(kind, part) for part in parts]
    word = None
    for r, row in enumerate(rows):
        wide = arith.extui(kind, bitcast(scalable(tile.word_lanes, integer(bits)), row))
        if r:
            by = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(tile.word, r * bits)))
            wide = arith.shli(wide, by)
        word = wide if word is None else arith.ori(word, wide)
    assert word is not None, "a word has elements"
    return [word]


def _stored(value: ir.Value, element: ir.Type, *, unsigned: bool) -> ir.Value:
    """The vector with elements of `element`, to which they are widened where they are narrower."""
    kind = ir.VectorType(value.type)
    if kind.element_type == element:
        return value
    to = ir.VectorType.get(kind.shape, element, scalable=kind.scalable_dims)
    if not isinstance(element, ir.IntegerType):
        return arith.extf(to, value)
    return (arith.extui if unsigned else arith.extsi)(to, value)


def pack_a(tile: Tile, a: ir.Value, panels: ir.Value, depth: int) -> None:
    """Packs a block of A into panels that have room for `depth` elements along K.

    Before: ``A[m][k]``. After, with c elements in a chunk::

        for ir in 0..m step mr: for q in 0..k / c: panels[ir / mr][q][i][0:c] = A[ir + i, q*c : q*c + c]
    """
    m, k = (extent(a, d) for d in (0, 1))
    if tile.a_transposed:
        a = transposed(a)
    pack = _pack_columns if tile.a_transposed else _pack_rows
    with loop(0, m, tile.rows) as (start, _, _):
        pack(tile, a, slice_of(panels, [scaled(start, depth)], [tile.rows * depth]), start, m, k)


def _pack_rows(tile: Tile, a: ir.Value, panel: ir.Value, start: ir.Value, m: Index, k: Index) -> None:
    """Packs a panel of rows of which the elements lie side by side."""
    last = arith.subi(value(m), value(1))
    rows = [arith.minui(value(add(start, i)), last) for i in range(tile.rows)]
    whole = round_down(k, tile.chunk)
    for first, end, limit in ((0, whole, None), (whole, tile.padded(k), k)):
        with loop(first, end, tile.chunk) as (kk, _, _):
            _store_chunks(tile, panel, kk, [_chunk(tile, a, row, kk, limit) for row in rows])


def _pack_columns(tile: Tile, a: ir.Value, panel: ir.Value, start: ir.Value, m: Index, k: Index) -> None:
    """Packs a panel of rows that are columns of `a`, of which the elements of a row lie side by side."""
    chunk, whole = tile.chunk, round_down(k, tile.chunk)
    # Where as many rows exist as are read, no predicates are needed.

    def pack_whole(limit: Index | None) -> None:
        with loop(0, whole, chunk) as (kk, _, _):
            _store_chunks(tile, panel, kk, [_transposed_chunks(tile, a, start, kk, [limit] * chunk)])

    if_else(less(m, add(start, _width(tile))), lambda: pack_whole(m), lambda: pack_whole(None))
    with loop(whole, tile.padded(k), chunk) as (kk, _, _):
        limits = [arith.select(less(add(kk, r), k), value(m), value(0)) for r in range(chunk)]
        _store_chunks(tile, panel, kk, [_transposed_chunks(tile, a, start, kk, limits)])


def _store_chunks(tile: Tile, panel: ir.Value, k: ir.Value, pieces: list[ir.Value]) -> None:
    """Stores the chunks of all rows of a panel, one after the other."""
    at = mul(k, tile.rows)
    for piece in pieces:
        stored = _stored(piece, tile.panel_element, unsigned=tile.a_unsigned)
        vector.store(stored, panel, [value(at)])
        at = add(at, tile.chunk)


def _chunk(tile: Tile, a: ir.Value, row: Index, start: ir.Value, limit: Index | None) -> ir.Value:
    """Elements of a row of A, of which those from `limit` on are zero."""
    kind, at = fixed(tile.chunk, tile.a_element), [value(row), start]
    if limit is None:
        return vector.load(kind, a, at)
    return _predicated(tile.chunk, a, row, start, limit)


def _width(tile: Tile) -> int:
    """Elements that are read of a column of A, a power of two."""
    return 1 << (tile.rows - 1).bit_length()


def _transposed_chunks(
    tile: Tile, a: ir.Value, start: ir.Value, k: ir.Value, limits: Sequence[Index | None]
) -> ir.Value:
    """The chunks of all rows of a panel, one after the other, from elements of which those of a column of A lie side by side.

    Of each column, those up to a limit are read, or all.
    """
    width, columns = _width(tile), []
    kind = fixed(width, tile.a_element)
    for r, limit in enumerate(limits):
        row = add(k, r)
        if limit is None:
            columns.append(vector.load(kind, a, [value(row), start]))
        else:
            columns.append(_predicated(width, a, row, start, limit))
    size = tile.rows * tile.chunk
    return vector.extract_strided_slice(fixed(size, tile.a_element), _interleaved(columns), [0], [size], [1])


def _interleaved(vectors: list[ir.Value]) -> ir.Value:
    """The first element of each, then the second ones: of a power of two of vectors."""
    if len(vectors) == 1:
        return vectors[0]
    return vector.interleave(_interleaved(vectors[::2]), _interleaved(vectors[1::2]))


def _predicated(count: int, a: ir.Value, row: Index, start: ir.Value, limit: Index) -> ir.Value:
    """`count` elements of a row, of which those from number `limit` on are zero.

    Predicates are for scalable vectors; of each of them the first 128 bits are taken.
    """
    element = ir.MemRefType(a.type).element_type
    lanes = REGISTER_BITS // bits_of(element)
    kind, part = scalable(lanes, element), fixed(lanes, element)
    parts = []
    for first in range(0, count, lanes):
        at = add(start, first)
        loaded = vector.maskedload(kind, a, [value(row), value(at)], lane_mask(lanes, at, limit), zero(kind))
        parts.append(vector.scalable_extract(part, loaded, 0))
    if count < lanes:
        return vector.extract_strided_slice(fixed(count, element), parts[0], [0], [count], [1])
    whole = zero(fixed(count, element))
    for number, each in enumerate(parts):
        whole = vector.insert_strided_slice(each, whole, [number * lanes], [1])
    return whole
