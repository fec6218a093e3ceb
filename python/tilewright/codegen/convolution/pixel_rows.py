# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vectors of pixels, of images whose columns lie side by side: a masked load for each row of the result that a vector has pixels of."""

from __future__ import annotations

from tilewright.build.constants import zero
from tilewright.build.index import Number, add, div_rem, less, mul, ramp, signed_max, signed_min, spread, value
from tilewright.codegen.patch_layout import Patches
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith

_MOST_LOADS = 4
"""Loads up to which they are taken for faster than a gather of sixteen elements."""


def rows(lanes: int, patches: Patches) -> int:
    """Of how many rows of the result a vector has pixels at most; 0 where these are not side by side, or are too many."""
    found = (lanes - 1) // patches.results[1] + 2
    return found if not patches.rows_are_pixels and patches.stride[1] == 1 and found <= _MOST_LOADS else 0


def loaded(k: Number, pixel: Number, lanes: int, kind: ir.VectorType, flat: ir.Value, patches: Patches) -> ir.Value:
    """The elements `k` of the patches of `pixel` and the pixels after it, or 0 where they lie outside.

    For each row of the result, with `first` the column of its pixel that lane 0 would have, and x that pixel's column in the image::

        lanes from max(0, -first, -x) to min(L, columns of the result - first, columns of the image - x): images[row + x + lane]

    Args:
        k: Which element of the patches.
        pixel: The first pixel.
        lanes: How many.
        kind: The type of the vector.
        flat: The images.
        patches: What the elements are of.
    """
    down, right, channel = patches.taps(k)
    row, _ = div_rem(pixel, patches.results[1])
    whole = zero(kind)
    for number in range(rows(lanes, patches)):
        at = add(row, number)
        first = add(pixel, mul(at, -patches.results[1]))
        x = add(add(first, mul(right, patches.dilation[1])), -patches.before[1])
        y = add(mul(at, patches.stride[0]), mul(down, patches.dilation[0]))
        y = add(y, -patches.before[0])
        begin = signed_max(signed_max(mul(first, -1), mul(x, -1)), 0)
        end = signed_min(add(mul(first, -1), patches.results[1]), lanes)
        end = signed_min(end, add(mul(x, -1), patches.extents[1]))
        inside = arith.andi(less(y, patches.extents[0]), less(at, patches.results[0]))
        # An instruction that takes several elements along K reads patches of an odd depth past their end.
        inside = arith.andi(inside, less(k, patches.depth))
        end = arith.select(inside, value(end), value(0))
        mask = arith.andi(
            *(
                arith.cmpi(predicate, spread(ramp(0, lanes), lanes), spread(bound, lanes))
                for predicate, bound in ((arith.CmpIPredicate.sge, begin), (arith.CmpIPredicate.slt, end))
            )
        )
        start = value(patches.offset(0, y, x, channel))
        whole = ir.Operation.create("vector.maskedload", results=[kind], operands=[flat, start, mask, whole]).results[0]
    return whole
