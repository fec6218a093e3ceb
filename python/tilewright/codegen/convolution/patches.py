# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets a bufferized product read its patches from the images: the matrix of patches is an operand that is never made.

Packing is all that reads an operand, vector by vector (`schedules.packed`), where no tile reads images (`padded_images`). Each of these
reads becomes one from the images, with zeros for what lies outside of them. Upstream has
`transform.structured.convert_conv2d_to_img2col`, which makes a tensor of all patches of what it is given, and takes neither dilations
nor groups nor an image whose padding is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from tilewright.build.affine import terms
from tilewright.build.constants import zero
from tilewright.build.index import Number, add, inside, mul, ramp, spread, total, value
from tilewright.build.loops import if_else
from tilewright.build.usedef import retype, users
from tilewright.build.views import DYNAMIC, offsets_of, reinterpreted
from tilewright.codegen.convolution import pixel_rows, short_runs, skipped_rows, tap_loops
from tilewright.codegen.patch_layout import Patches, Read
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, vector
from tilewright.payload.abi import ENTRY


def read(
    module: ir.Module,
    operand: int,
    patches: Patches,
    result: int,
    tile: tuple[int, int] | None = None,
    *,
    masked: bool = False,
) -> None:
    """Lets the product of `module` take the images in place of the operand that is their patches.

    Before, `matrix` being that operand: ``v = matrix[pixel, k:k+L]``. After, with the place of the patch of `pixel` in its image,
    and the row, column and channel of element k of the filter::

        v[l] = images[image, i + u[l]·dilation, j + v[l]·dilation, channel[l]], or 0 where that lies outside, for each l

    and where whole vectors have one row and column of the filter, in loops over these that ask once for each::

        for tap: inside = ...
          for c in 0..channels step L: v = images[image, i + u·dilation, j + v·dilation, c:c+L] if inside else 0

    Args:
        module: The bufferized product.
        operand: Which of its arguments.
        patches: What the argument is the matrix of.
        result: Which of its arguments is the result.
        tile: Rows of a register tile and elements of K in a step, where its loop over K may be shorter (`skipped_rows`).
        masked: Whether vectors are loaded with masks, so that lanes outside of the image need not be gathered one by one.

    Raises:
        ScheduleError: Something else than vectors is read.
    """
    function = next(op for op in module.body if isinstance(op, func.FuncOp) and op.name.value == ENTRY)
    matrix = function.arguments[operand]
    reads = list(_reads(matrix, (), ()))
    with function.context, function.location:
        if tile is not None and patches.rows_are_pixels and any(patches.before) and not any(map(_is_shifted, reads)):
            skipped_rows.skip(function, result, patches, _counted(reads), tile)
        element = ir.MemRefType(matrix.type).element_type
        with ir.InsertionPoint.at_block_begin(function.entry_block):
            # The images as one row of elements.
            flat = reinterpreted(ir.MemRefType.get([patches.elements], element), matrix)
        if patches.rows_are_pixels:
            reads = short_runs.unrolled(tap_loops.split(reads, flat, patches))
        for each in reads:
            with ir.InsertionPoint(each.op), each.op.location:
                each.op.results[0].replace_all_uses_with(_gathered(each, flat, patches, masked=masked))
            each.op.erase()
        _erase_views(matrix)
        _retype(function, operand, patches, element)


def _reads(view: ir.Value, rows: tuple[Number, ...], columns: tuple[Number, ...]) -> Iterator[Read]:
    """The reads of a view of the matrix that starts at these rows and columns."""
    for use in view.uses:
        op = use.owner.operation
        if op.name == "memref.subview":
            offsets = offsets_of(op)
            yield from _reads(op.results[0], (*rows, *terms(offsets[0])), (*columns, *terms(offsets[1])))
        elif op.name == "memref.cast":
            yield from _reads(op.results[0], rows, columns)
        elif op.name == "vector.transfer_read" and ir.MemRefType(view.type).rank == 2 and _is_plain(op):
            yield Read(op, (*rows, *terms(op.operands[1])), (*columns, *terms(op.operands[2])))
        elif op.name not in ("memref.prefetch", "memref.reinterpret_cast"):
            raise ScheduleError(
                f"{op.name} reads the matrix of patches, which is never made",
                expected="vectors of its rows, which are read from the images",
                remedy="Pack the operand that is the patches, as strategy packed does, or tile and vectorize the product",
            )


def _is_shifted(read_: Read) -> bool:
    """Whether a zero that is read becomes another number, for an instruction that takes numbers without a sign."""
    return any(use.owner.operation.name == "arith.xori" for use in read_.op.results[0].uses)


def _counted(reads: Iterable[Read]) -> list[ir.Value]:
    """The variables of loops over K: those of the columns that are read."""
    found: list[ir.Value] = []
    for each in reads:
        for number in each.columns:
            if isinstance(number, ir.Value) and isinstance(number.owner, ir.Block) and number not in found:
                found.append(number)
    return found


def _is_plain(op: ir.Operation) -> bool:
    """Whether a read has no mask, and its vector lies along a row."""
    plain = ("affine_map<(d0, d1) -> (d1)>", "affine_map<(d0, d1) -> (d0, d1)>")
    return str(op.attributes["permutation_map"]) in plain and len(op.operands) == 4


def _retype(function: func.FuncOp, operand: int, patches: Patches, element: ir.Type) -> None:
    """Gives the argument the type of the images."""
    layout = ir.StridedLayoutAttr.get(0, [*[DYNAMIC] * (len(patches.shape) - 1), 1])
    function.arguments[operand].set_type(ir.MemRefType.get(list(patches.shape), element, layout))
    retype(function)


def _erase_views(view: ir.Value) -> None:
    """Erases the views of the matrix that nothing reads any more, and what fetches it ahead."""
    for op in users(view):
        if op.name in ("memref.subview", "memref.cast"):
            _erase_views(op.results[0])
        if op.name != "memref.reinterpret_cast":
            op.erase()


def _gathered(read_: Read, flat: ir.Value, patches: Patches, *, masked: bool) -> ir.Value:
    """The vector that `read_` reads, or the matrix, row by row, from the images."""
    kind = ir.VectorType(read_.op.results[0].type)
    *outer, lanes = kind.shape
    row, column = total(read_.rows), total(read_.columns)
    count = outer[0] if outer else 1
    rows = [
        _row(add(row, each), column, lanes, kind.element_type, flat, patches, masked=masked) for each in range(count)
    ]
    if not outer:
        return rows[0]
    whole = zero(kind)
    for position, each in enumerate(rows):
        whole = vector.insert(each, whole, [], [position])
    return whole


def _row(
    row: Number, column: Number, lanes: int, element: ir.Type, flat: ir.Value, patches: Patches, *, masked: bool
) -> ir.Value:
    """A vector of a row of the matrix."""
    kind = ir.VectorType.get([lanes], element)
    if pixel_rows.rows(lanes, patches):
        return pixel_rows.loaded(row, column, lanes, kind, flat, patches)
    columns = ramp(column, lanes)
    pixel, k = (row, columns) if patches.rows_are_pixels else (columns, row)
    image, top, left = patches.places(pixel)
    down, right, channel = patches.taps(k)
    y = add(top, mul(down, patches.dilation[0]))
    x = add(left, mul(right, patches.dilation[1]))
    holds = inside(
        lanes,
        (y, patches.extents[0]),
        (x, patches.extents[1]),
        (pixel, prod(patches.results) * (patches.shape[0] if patches.rows_are_pixels else 1)),
        (k, patches.depth),
    )
    offset = patches.offset(0, y, x, channel)
    start = mul(image, patches.pitches[0]) if patches.rows_are_pixels else 0

    def anywhere() -> ir.Value:
        return vector.gather(kind, flat, [value(start)], spread(offset, lanes), holds, zero(kind))

    runs = short_runs.runs(column, lanes, patches) if patches.rows_are_pixels and isinstance(column, int) else None
    if runs is None:
        return anywhere()
    whole = short_runs.all_inside(pixel, top, left, patches)
    first = value(patches.offset(image, top, left, 0))

    def at_the_border() -> ir.Value:
        return short_runs.joined(kind, flat, first, runs, holds) if masked else anywhere()

    return if_else(whole, lambda: [short_runs.joined(kind, flat, first, runs)], lambda: [at_the_border()], [kind])[0]
