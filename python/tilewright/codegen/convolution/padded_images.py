# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets a bufferized product read patches where they lie, in images that are copied once, with zeros around them.

Of a 3 x 3 filter a patch has nine elements for each of the image: panels of patches have nine times what a copy of the images has, and
writing and reading them took up to a fifth of the time. Upstream's ``convert_conv2d_to_img2col`` makes all patches, and its convolutions by
loops over the filter have no register tiles of several pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tilewright.build.constants import zero
from tilewright.build.index import (
    Index,
    Number,
    add,
    div,
    div_rem,
    known,
    less,
    mul,
    signed_max,
    signed_min,
    total,
    value,
    values,
)
from tilewright.build.loops import chunks, loop
from tilewright.build.usedef import copied, erase, in_block, parent, upwards, users
from tilewright.build.vectors import fixed, load, write
from tilewright.build.views import DYNAMIC, reinterpreted
from tilewright.codegen.convolution import packing, skipped_rows
from tilewright.codegen.convolution.packing import Packing
from tilewright.codegen.patch_layout import Patches
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, scf, vector
from tilewright.schedules.models.image_copies import are_blocks, reach, tile_rows


def read(function: func.FuncOp, patches: Patches, lanes: int, *, blocks: bool = False, tiles: bool = False) -> bool:
    """Lets the product of `function` read patches in place; returns whether it does. Nothing is changed where it does not.

    Before, with panels of patches that are written before::

        for jr: for ir: for k in 0..K step t: acc += panels[ir / mr][:, k:k+t] * b[k:k+t, :]

    After, `at` being the places of the patches of mr pixels, and a run the elements that follow one another in the copy too::

        padded = the images, with zeros around each
        for jr: for ir: at = ...
          for u in the rows of the filter: for r in 0..run step t: acc += padded[at[:] + u·row + r : + t] * b[u·run + r : + t, :]

    Images without padding are read where they lie.

    Args:
        function: The bufferized function of the product, whose first operand is the matrix of patches and whose last is the result.
        patches: What the operand is the matrix of.
        lanes: Elements of a vector that copies.
        blocks: Whether what a block of rows reads is copied before that, and not all before all else.
        tiles: Whether tile registers multiply, of which each then has pixels of one row of the result.
    """
    panels = packing.found(function)
    found = panels and _tiles(function, panels, patches, in_registers=tiles)
    if not panels or not found or any(map(known, panels.rows)):
        return False
    pixels = _block(panels) if blocks else 0
    if pixels and not are_blocks(pixels, patches.shape[0], patches.results):
        return False
    images = _Images(function, patches, panels, pixels, tiles=tiles)
    if not images.has_runs:
        return False
    with function.context, function.location:
        images.copy(lanes)
        for tile in found:
            with ir.InsertionPoint(tile.loop), tile.loop.location:
                _replace(tile, images)
        for root in panels.roots:
            erase(root)
        _erase(panels.buffer)
    return True


@dataclass(frozen=True, slots=True)
class _Tile:
    """The sums of a register tile.

    Attributes:
        loop: The loop over K.
        read: What reads rows of a panel in it.
        rows: What its first row is the sum of.
    """

    loop: ir.Operation
    read: ir.Operation
    rows: tuple[Number, ...]


def _tiles(function: func.FuncOp, panels: Packing, patches: Patches, *, in_registers: bool) -> list[_Tile] | None:
    """The loops over K that read the panels, once each; None where something else does, or pixels of two rows are in one register."""
    rows = {}
    for end, first in skipped_rows.writes(function.arguments[len(function.arguments) - 1]):
        made = skipped_rows.product_loop(end.operands[0])
        if made is not None:
            rows[made] = first
    tiles = [_Tile(parent(each), each, rows.get(parent(each), ())) for each in panels.reads]
    loops = {each.loop for each in tiles}
    if len(loops) < len(tiles) or not all(_is_plain(each, patches) for each in tiles):
        return None
    return None if in_registers and not all(_is_of_one_row(each, patches) for each in tiles) else tiles


def _is_of_one_row(tile: _Tile, patches: Patches) -> bool:
    """Whether each tile register has pixels of one row of the result."""
    rows = ir.VectorType(tile.read.results[0].type).shape[0]
    whole = (rows, patches.results[1], *map(_divisor, tile.rows))
    return not any(each is None or each % tile_rows(rows) for each in whole)


def _divisor(number: Number) -> int | None:
    """What divides a number, which is known or counted by a loop from zero on."""
    if not isinstance(number, ir.Value) or known(number) is not None:
        return known(number)
    if not isinstance(number.owner, ir.Block):
        return None
    first, _, step = (known(each) for each in list(number.owner.owner.operation.operands)[:3])
    return step if first == 0 else None


def _is_plain(tile: _Tile, patches: Patches) -> bool:
    """Whether a loop over K reads whole steps of a row of the filter, for sums that are then written."""
    if not tile.rows:
        return False
    first, _, step = (known(each) for each in list(tile.loop.operands)[:3])
    kind = ir.VectorType(tile.read.results[0].type)
    is_step = kind.rank == 2 and step == kind.shape[1] and patches.channels % kind.shape[1] == 0
    return first == 0 and is_step


def _block(panels: Packing) -> int:
    """The step of the loop over blocks of rows; 0 where all are one."""
    owners = [each.owner for each in panels.rows if isinstance(each, ir.Value)]
    loops = [owner.owner.operation for owner in owners if isinstance(owner, ir.Block)]
    return (known(loops[0].operands[2]) or 0) if len(loops) == 1 else 0


class _Images:
    """The images as tiles read them: copies with zeros around them, of all or of what a block of rows reads, or where they lie."""

    def __init__(self, function: func.FuncOp, patches: Patches, panels: Packing, pixels: int, *, tiles: bool) -> None:
        self.patches, self.panels, self.tiles = patches, panels, tiles
        self._function, self._whole = function, not pixels
        own, every = prod(patches.results), patches.shape[0] * prod(patches.results)
        self._pixels = min(pixels or every, every)
        results = min(self._pixels, own) // patches.results[1], patches.results[1]
        self._rows, columns = map(reach, results, patches.stride, patches.filter, patches.dilation)
        far = map(reach, patches.results, patches.stride, patches.filter, patches.dilation)
        inside = all(size <= extent for size, extent in zip(far, patches.extents, strict=True))
        self._lie = inside and not any(patches.before) and patches.pitches[2] == patches.channels
        self.row = patches.pitches[1] if self._lie else columns * patches.channels
        self._image = patches.pitches[0] if self._lie else self._rows * self.row
        self._images = patches.shape[0] if self._lie else max(self._pixels // own, 1)
        self.run = patches.channels * (patches.filter[1] if patches.dilation[1] == 1 else 1)

    @property
    def part(self) -> int:
        """Elements of a block of K; panels of all of it may be longer."""
        shape = ir.MemRefType(self.panels.buffer.type).shape
        parts = shape[-3] if self.tiles else 1  # Registers take panels in parts of a row each.
        return min(shape[-1] * parts, self.patches.depth)

    @property
    def has_runs(self) -> bool:
        """Whether blocks of K are whole runs."""
        return self.part % self.run == 0

    @property
    def flat(self) -> ir.Value:
        """What is read, as one row of elements."""
        return self._flat

    def copy(self, lanes: int) -> None:
        """Copies them, in vectors of so many elements: before all else, or what a block of rows reads; not where they lie so already."""
        p = self.patches
        matrix = self._function.arguments[0]
        element = ir.MemRefType(matrix.type).element_type
        with ir.InsertionPoint.at_block_begin(self._function.entry_block):
            flat = reinterpreted(ir.MemRefType.get([p.elements], element), matrix)
        if self._lie:
            self._flat = flat
            return
        first = [*upwards(self.panels.roots[0])]
        with ir.InsertionPoint(first[-1]):
            kind = ir.MemRefType.get([self._images * self._rows, self.row], element)
            padded = memref.AllocOp(kind, [], [], alignment=64).result
        with ir.InsertionPoint(first[-1 if self._whole else 0]):
            with loop(0, kind.shape[0], 1) as (row, _, _):
                self._copy_row(row, flat, padded, lanes)
            # Upstream divides places in a collapsed shape by its sizes again.
            self._flat = reinterpreted(ir.MemRefType.get([prod(kind.shape)], element), padded)

    def _copy_row(self, row: Index, flat: ir.Value, padded: ir.Value, lanes: int) -> None:
        """Copies a row of the images, or fills it where there is none."""
        p = self.patches
        element = ir.MemRefType(padded.type).element_type
        columns = self.row // p.channels
        left = min(p.before[1], columns)
        taken = min(p.extents[1], columns - left)
        image, above = self._start()
        number, y = div_rem(row, self._rows)
        image, y = add(image, number), add(add(y, above), -p.before[0])
        inside = arith.andi(less(y, p.extents[0]), less(image, p.shape[0]))
        start = arith.select(inside, value(p.offset(image, y, 0, 0)), value(0))

        def filled(to: Index, some: int) -> None:
            write(zero(fixed(some, element)), padded, [row, to])

        def moved(at: Index, to: Index, some: int) -> None:
            found = load(flat, [add(start, at)], some)
            write(arith.select(inside, found, zero(found.type)), padded, [row, to])

        first, end = left * p.channels, (left + taken) * p.channels
        chunks(first, lanes, filled)
        self._pixels_of(taken, lanes, lambda at, to, some: moved(at, add(to, first), some))
        chunks(self.row - end, lanes, lambda to, some: filled(add(to, end), some))

    def _pixels_of(self, count: int, lanes: int, body: Callable[[Index, Index, int], None]) -> None:
        """Runs `body` for parts of so many pixels: where one is in the image and in the copy, and how many elements it has at most."""
        channels, apart = self.patches.channels, self.patches.pitches[2]
        if channels == apart:
            chunks(count * channels, lanes, lambda at, some: body(at, at, some))
            return
        with loop(0, count, 1) as (x, _, _):
            chunks(channels, lanes, lambda at, some: body(add(mul(x, apart), at), add(mul(x, channels), at), some))

    def _start(self) -> tuple[Index, Index]:
        """The first image that is copied, and the first row of the padded one."""
        if self._whole or self._lie:
            return 0, 0
        image, inside = div_rem(total(self.panels.rows), prod(self.patches.results))
        return image, mul(div(inside, self.patches.results[1]), self.patches.stride[0])

    def places(self, pixel: Index, rows: int, apart: int) -> list[Index]:
        """Where the patches of each `apart`-th pixel of a tile start; what is no pixel of the block is read as if it was the last."""
        every = self.patches.shape[0] * prod(self.patches.results)
        each = [add(pixel, number) for number in range(0, rows, apart)]
        if every % rows or self._pixels % rows:
            last: Index = every - apart
            if not self._whole:
                last = signed_min(add(total(self.panels.rows), self._pixels - apart), last)
            each = [signed_min(number, last) for number in each]
        return [self._place(number) for number in each]

    def _place(self, pixel: Index) -> Index:
        """Where the patch of a pixel starts."""
        p = self.patches
        image, inside = div_rem(pixel, prod(p.results)) if p.shape[0] > 1 else (0, pixel)
        row, column = div_rem(inside, p.results[1])
        first, above = self._start()
        down = mul(add(mul(row, p.stride[0]), mul(above, -1)), self.row)
        if self._images > 1:
            down = add(down, mul(add(image, mul(first, -1)), self._image))
        return add(down, mul(column, p.stride[1] * p.channels))

    def loaded(self, places: list[Index], kind: ir.VectorType) -> ir.Value:
        """A matrix of which as many rows each as there are places for are read from there."""
        rows, columns = kind.shape
        height = rows // len(places)
        whole = zero(kind)
        for number, place in enumerate(places):
            if not self.tiles:
                whole = vector.insert(load(self._flat, [place], columns), whole, [], [number])
                continue
            pixel = self.patches.stride[1] * self.patches.channels
            layout = ir.StridedLayoutAttr.get(DYNAMIC, [pixel, 1])
            some = ir.MemRefType.get([height, columns], kind.element_type, layout)
            rows_of = reinterpreted(some, self._flat, [value(place)])
            order = ir.AffineMapAttr.get(ir.AffineMap.get_identity(2))
            part = vector.TransferReadOp(
                ir.VectorType.get([height, columns], kind.element_type),
                rows_of,
                values([0, 0]),
                order,
                zero(kind.element_type),
                [True, True],
            ).result
            whole = vector.insert_strided_slice(part, whole, [height * number, 0], [1, 1])
        return whole


def _replace(tile: _Tile, images: _Images) -> None:
    """Makes the loops in place of a tile's loop over K."""
    p = images.patches
    kind = ir.VectorType(tile.read.results[0].type)
    rows, step = kind.shape
    pixel = total(tile.rows)
    together = tile_rows(rows) if images.tiles else 1
    at = images.places(pixel, rows, together)
    runs = p.depth // images.run  # of a patch
    apart = runs // p.filter[0]  # of a row of the filter
    own = images.part // images.run
    part = div(total(images.panels.parts), images.run)
    begin, end = part, add(part, own)
    if not images.tiles:  # Tile registers take loops over K of a known length.
        first, last = (mul(each, apart) for each in skipped_rows.met(pixel, p, rows))
        begin, end = signed_max(first, begin), signed_min(last, end)
    held = [tile.loop.operands[number] for number in range(3, len(tile.loop.operands))]
    body = tile.loop.regions[0].blocks[0]
    variable, *carried = body.arguments
    with loop(begin, end, 1, held) as (number, outer, made):
        u, v = div_rem(number, apart)
        far = add(mul(u, p.dilation[0] * images.row), mul(v, p.dilation[1] * p.channels))
        starts = [add(each, far) for each in at]
        first = mul(add(number, mul(part, -1)), images.run)
        with loop(0, images.run, step, outer) as (r, inner, deep):
            values: dict[ir.Value, ir.Value] = {
                variable: value(add(first, r)),
                **dict(zip(carried, inner, strict=True)),
            }
            for op in in_block(body):
                if op == tile.read:
                    values[op.results[0]] = images.loaded([add(each, r) for each in starts], kind)
                elif op.name == "scf.yield":
                    scf.yield_([values.get(each, each) for each in op.operands])
                elif op.name != "memref.subview" or any(each != tile.read for each in users(op.results[0])):
                    copied(op, values)
        scf.yield_(list(deep.results))
    for old, new in zip(tile.loop.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    erase(tile.loop)


def _erase(view: ir.Value) -> None:
    """Erases a buffer, of which there are only views any more."""
    for op in users(view):
        _erase(op.results[0])
    view.owner.operation.erase()
